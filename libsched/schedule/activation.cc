#include "libsched/schedule/activation.h"

#include <array>

#include "ops/number_text.h"

namespace lsched {
namespace {

constexpr std::array<std::string_view, 8> k_names{"none",     "full",   "solo",   "majority",
                                                  "first_of", "all_of", "quorum", "deadline"};

failure refused(std::string_view words) {
  return {status::argument,
          "\"" + std::string(words) +
              "\" is not an activation policy: use full, solo, majority, first_of(M), all_of(M), quorum(K), "
              "quorum(K)+grace(microseconds) or deadline(microseconds or auto), and optionally +every(T), with numbers "
              "from 1 on"};
}

/// Returns the number in "name(number)". Returns nullopt if the words have another form.
template <class Number>
std::optional<Number> number_in(std::string_view words, std::string_view name) {
  if (!words.starts_with(name)) return std::nullopt;
  words.remove_prefix(name.size());
  if (words.size() < 3 || words.front() != '(' || words.back() != ')') return std::nullopt;
  const auto number = parse_number<Number>(words.substr(1, words.size() - 2));
  return number && *number != 0 ? number : std::nullopt;
}

}  // namespace

std::string_view name_of(activation_policy policy) { return k_names[static_cast<std::size_t>(policy)]; }

std::optional<failure> validate(const activation& starts, rank size) {
  const std::string name(name_of(starts.policy));
  if (starts.grace_us != 0 && starts.policy != activation_policy::quorum)
    return failure{status::argument, name + " takes no grace: use quorum(K)+grace(T), or leave out the grace"};
  if (!has_number(starts.policy)) {
    if (starts.number == 0) return std::nullopt;
    return failure{status::argument, name + " takes no number: leave out the parentheses"};
  }
  if (!has_number_of_ranks(starts.policy)) return std::nullopt;
  if (starts.number >= 1 && starts.number <= static_cast<std::uint32_t>(size)) return std::nullopt;
  return failure{status::argument, name + "(" + std::to_string(starts.number) + ") needs a number from 1 to " +
                                       std::to_string(size) + ", the number of ranks"};
}

std::string words_for(const activation& starts) {
  std::string words(name_of(starts.policy));
  const bool is_auto = starts.policy == activation_policy::deadline && starts.number == k_auto_deadline;
  if (has_number(starts.policy)) words += "(" + (is_auto ? "auto" : std::to_string(starts.number)) + ")";
  if (starts.grace_us != 0) words += "+grace(" + std::to_string(starts.grace_us) + ")";
  if (starts.full_every != 0) words += "+every(" + std::to_string(starts.full_every) + ")";
  return words;
}

result<activation> read_activation(std::string_view words) {
  const std::size_t plus = words.find('+');
  const std::string_view policy = words.substr(0, plus);
  activation starts;
  for (std::size_t i = 1; i < k_names.size(); ++i) {
    const auto named = static_cast<activation_policy>(i);
    if (!has_number(named) && policy == k_names[i]) starts.policy = named;
    if (!has_number(named)) continue;
    const auto number = number_in<std::uint32_t>(policy, k_names[i]);
    if (number) starts.policy = named, starts.number = *number;
  }
  if (policy == "deadline(auto)") starts.policy = activation_policy::deadline, starts.number = k_auto_deadline;
  if (starts.policy == activation_policy::none) return refused(words);
  std::string_view rest = plus == words.npos ? std::string_view() : words.substr(plus);
  if (starts.policy == activation_policy::quorum && rest.starts_with("+grace")) {
    const std::size_t end = rest.find('+', 1);
    const auto grace = number_in<std::uint32_t>(rest.substr(1, end - 1), "grace");
    if (!grace) return refused(words);
    starts.grace_us = *grace;
    rest = end == rest.npos ? std::string_view() : rest.substr(end);
  }
  if (rest.empty()) return starts;
  const auto every = number_in<std::uint64_t>(rest.substr(1), "every");
  if (!every) return refused(words);
  starts.full_every = *every;
  return starts;
}

}  // namespace lsched
