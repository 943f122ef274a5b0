#include "bindings/cli/words.h"

#include <algorithm>

namespace lsched::cli {
namespace {

template <class Words>
std::vector<std::string> names_of(const Words& words) {
  std::vector<std::string> names;
  for (const auto word : words) names.emplace_back(name_of(word));
  return names;
}

/// The parser has let only names of `words` through.
template <class Words>
auto named(const Words& words, const std::string& name) {
  return *std::find_if(words.begin(), words.end(), [&](auto word) { return name_of(word) == name; });
}

constexpr std::array k_activations{activation_policy::solo, activation_policy::majority,
                                   activation_policy::full};

}  // namespace

void add_data_options(CLI::App& command, data_options& data) {
  command.add_option("--count", data.count, "Elements each rank contributes")->capture_default_str();
  command.add_option("--dtype", data.type, "Type of the elements")
      ->check(CLI::IsMember(names_of(k_all_dtypes)))
      ->capture_default_str();
  command.add_option("--op", data.reduction, "How contributions combine")
      ->check(CLI::IsMember(names_of(k_all_reductions)))
      ->capture_default_str();
}

shape shape_of(const constraints& needs, const data_options& data) {
  if (!needs.moves_data) return {};
  return {.count = data.count,
          .type = named(k_all_dtypes, data.type),
          .what = named(k_all_reductions, data.reduction)};
}

const std::vector<std::string>& activation_names() {
  static const std::vector<std::string> names = names_of(k_activations);
  return names;
}

activation activation_of(const constraints& needs, const std::string& name, std::uint64_t seed) {
  if (!name.empty()) return {.policy = named(k_activations, name), .seed = seed};
  return {.policy = needs.activates ? activation_policy::solo : activation_policy::none, .seed = seed};
}

}  // namespace lsched::cli
