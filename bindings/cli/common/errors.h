// How a subcommand of `lsched` fails: one line on standard error, exit status 1.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "bindings/c/lsched.h"
#include "ops/status.h"

namespace lsched::cli {

/// Why a command could not be carried out. what() is the line a person reads, without the leading "lsched: ".
class command_failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  /// "LSCHED_ERR_PEER: rank 3 …"
  command_failure(lsched_status code, std::string_view detail);
  explicit command_failure(const failure& why);
};

/// Throws unless `code` is LSCHED_OK; the detail comes from `diagnostic` if the call filled it in.
void require(lsched_status code, std::string_view call, const lsched_diagnostic* diagnostic = nullptr);

/// The value, or a command_failure.
template <class T>
T require(result<T> outcome) {
  if (!outcome) throw command_failure(outcome.error());
  return std::move(*outcome);
}

}  // namespace lsched::cli
