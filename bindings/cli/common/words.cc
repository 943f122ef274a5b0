#include "bindings/cli/common/words.h"

#include <CLI/CLI.hpp>
#include <sstream>

#include "bindings/cli/common/errors.h"
#include "bindings/cli/common/options.h"
#include "collectives/requests/sample_requests.h"
#include "collectives/requests/world_request.h"
#include "ops/counted.h"
#include "ops/nearest_word.h"
#include "ops/number_text.h"

namespace lsched::cli {
namespace {

/// Returns a validator that accepts words which `parse_number` converts to a number within the limits. NaN is outside
/// all limits.
template <class Number>
CLI::Validator limits(const char* kind, Number least, Number most, bool is_open) {
  std::ostringstream text;
  text << "from " << least;
  is_open ? text << " on" : text << " to " << most;
  const auto check = [least, most, wanted = std::string(kind) + " " + text.str()](std::string& word) {
    const auto value = parse_number<Number>(word);
    return value && *value >= least && *value <= most ? std::string() : "\"" + word + "\" is not a " + wanted;
  };
  return {check, text.str(), ""};
}

}  // namespace

std::optional<std::uint64_t> whole_number_in(std::string_view word) { return parse_number<std::uint64_t>(word); }

CLI::Validator whole_number(std::uint64_t least, std::uint64_t most) {
  return limits("whole number", least, most, most == UINT64_MAX);
}

CLI::Validator number(double least, double most) { return limits("number", least, most, false); }

CLI::Validator any_word() {
  return {[](const std::string& word) {
            return word.empty() ? std::string("the value is empty: give a name or a path") : std::string();
          },
          "", ""};
}

CLI::Validator one_of(std::vector<std::string> words) {
  std::string listed;
  for (const std::string& word : words) listed += (listed.empty() ? "{" : ",") + word;
  listed += "}";
  const auto check = [words = std::move(words), listed](const std::string& word) {
    if (std::ranges::find(words, word) != words.end()) return std::string();
    return "\"" + word + "\" is not one of " + listed + suggestion_for(word, words);
  };
  return {[check](std::string& word) { return check(word); }, listed, ""};
}

void add_request_options(CLI::App& command, request_options& request) {
  const option_group group{command};
  group.add("-n,--ranks", request.ranks, "Size of the world", whole_number(1, k_most_ranks));
  group.add("--count", request.what.count, "Elements of the vector or of each block: see docs/reference/collectives.md",
            whole_number(0, k_max_count));
  group.add_choice_with_default("--dtype", k_all_dtypes, *request.what.type, "Type of the elements");
  group.add_choice_with_default("--op", k_all_reductions, *request.what.reduction,
                                "Operation that combines the contributions");
  group.add_flag("--mean", *request.what.is_mean,
                 "Divide sums by the number of ranks, for collectives that support means");
  group.add("--root", request.what.root, "Root of collectives that have a root (default: a rank in the middle)")
      ->check(whole_number(0, k_most_ranks - 1));
  group
      .add("--ranks-per-node", request.ranks_per_node,
           "Neighbouring ranks per node, for algorithms that use nodes (default: all)")
      ->check(whole_number(1, k_most_ranks));
  group.add("--tensors", request.tensors, "Number of tensors of nearly equal length in the vector of an adaptive sum")
      ->check(whole_number(1, 1 << 20));
  add_items_option(command, request.k);
  group.add("--activation", request.activation, "Policy of the partial collectives (default: solo)")
      ->check(activation_words());
}

void add_items_option(CLI::App& command, std::optional<std::uint64_t>& k) {
  const option_group group{command};
  group.add("--k", k, "Items that a rank sends in a sparse allreduce (default: --count / 100)")
      ->check(whole_number(0, k_max_count));
}

std::uint64_t items_of(std::optional<std::uint64_t> k, std::uint64_t count) { return k.value_or(count / 100); }

sparse_problem problem_of(const request_options& request) {
  return {.count = request.what.count,
          .k = items_of(request.k, request.what.count),
          .place = {0, request.ranks},
          .type = *request.what.type};
}

shape shape_of(const collective& of, const request_options& request) {
  collective_request what = request.what;
  if (request.ranks_per_node) what.nodes = nodes_of_neighbors(request.ranks, *request.ranks_per_node);
  if (request.tensors) what.tensors = equal_tensors(what.count, *request.tensors);
  return shape_of(of, request.ranks, what);
}

std::vector<std::string> collective_names() {
  std::vector<std::string> names;
  for (const algorithm& each : algorithms())
    if (names.empty() || names.back() != each.of->name) names.emplace_back(each.of->name);
  return names;
}

std::vector<std::string> listed_collectives() {
  std::vector<std::string> names = collective_names();
  for (const std::string_view sparse : {k_sparse_allreduce, k_partial_sparse_allreduce}) names.emplace_back(sparse);
  return names;
}

std::vector<std::string> algorithm_names(std::string_view collective) {
  std::vector<std::string> names{"auto"};
  for (const algorithm& each : algorithms())
    if (each.of->name == collective) names.emplace_back(each.name);
  for (const sparse_algorithm& each : sparse_algorithms())
    if (is_sparse(collective)) names.emplace_back(each.name);
  return names;
}

void expect_listed(const std::string& collective, const std::string& algorithm) {
  const auto refuse = [&](const char* option, const std::string& word, const std::vector<std::string>& known) {
    std::string more = suggestion_for(word, known);
    for (const std::string& each : known)
      if (!more.ends_with('?')) more.append(more.empty() ? "; available: " : ", ").append(each);
    const bool is_of_one = !collective.empty() && word != collective;
    throw CLI::ValidationError(option, "\"" + word + "\" is not a name that `lsched list` shows" +
                                           (is_of_one ? " for " + collective : "") + more);
  };
  const std::vector<std::string> collectives = listed_collectives();
  if (!collective.empty() && std::ranges::find(collectives, collective) == collectives.end())
    refuse("COLLECTIVE", collective, collectives);
  std::vector<std::string> algorithms;
  for (const std::string& each : collective.empty() ? collectives : std::vector{collective})
    for (const std::string& name : algorithm_names(each)) algorithms.push_back(name);
  if (std::ranges::find(algorithms, algorithm) == algorithms.end()) refuse("--algorithm", algorithm, algorithms);
}

CLI::Validator activation_words() {
  const auto check = [](std::string& words) {
    const auto starts = read_activation(words);
    return starts ? std::string() : starts.error().text;
  };
  return {
      check,
      "full, solo, majority, first_of(M), all_of(M), quorum(K), quorum(K)+grace(microseconds) or deadline(microseconds "
      "or auto), optionally +every(T)",
      ""};
}

void expect_in_world(const std::string& collective, const std::string& activation, std::optional<rank> root,
                     rank ranks) {
  const lsched::collective* const of = find_collective(collective);
  const bool activates = collective.empty() || collective == k_partial_sparse_allreduce || (of && of->activates);
  if (!activation.empty()) {
    if (!activates)
      throw CLI::ValidationError("--activation", collective + " has no activation policy: leave the option out");
    if (const auto why = validate(activation_of(activation, 0), ranks))
      throw CLI::ValidationError("--activation", why->text);
  }
  if (root && *root >= ranks)
    throw CLI::ValidationError(
        "--root", "rank " + std::to_string(*root) + " does not exist in a world of " + counted(ranks, "rank"));
}

activation activation_of(const std::string& words, std::uint64_t seed) {
  activation starts{.policy = activation_policy::solo};
  if (!words.empty()) starts = require(read_activation(words));
  starts.seed = seed;
  return starts;
}

}  // namespace lsched::cli
