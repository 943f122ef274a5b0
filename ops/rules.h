// Rules about the arguments of a call, and the failures for callers who break a rule.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "ops/status.h"

namespace lsched {

inline failure argument(std::string text) { return {status::argument, std::move(text)}; }

/// A rule about arguments, and the error text for a caller who breaks the rule.
struct rule {
  bool is_broken;
  std::string_view text;
};

/// Returns ARGUMENT with the text of the first broken rule, or nothing if no rule is broken. The error text begins with
/// `subject`.
inline std::optional<failure> first_broken(std::initializer_list<rule> rules, std::string_view subject = {}) {
  for (const rule& one : rules)
    if (one.is_broken) return argument(std::string(subject) + std::string(one.text));
  return std::nullopt;
}

}  // namespace lsched
