// `lsched list`: the registered algorithms, with their constraints and declared costs.
#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>

#include "bindings/cli/common/commands.h"
#include "bindings/cli/common/errors.h"
#include "bindings/cli/common/json_text.h"
#include "bindings/cli/common/options.h"
#include "bindings/cli/common/printed_to.h"
#include "bindings/selection_environment.h"
#include "bindings/wrapped_text.h"
#include "offload/cores.h"
#include "ops/counted.h"

namespace lsched::cli {
namespace {

using json = nlohmann::ordered_json;

struct list_options {
  std::string collective;  ///< name of a collective; if empty, all collectives are listed
  request_options request;
  std::string tuning;
  rank ranks_per_core = 0;  ///< number of ranks per core; 0: computed from the cores of this machine
  bool explains = false;
  std::string json;
};

activation starts_of(const collective& of, const request_options& request) {
  return of.activates ? activation_of(request.activation, 0) : activation{};
}

/// Returns an error text if the user gives --mean, but the collective does not support means. Collectives without a
/// reduction ignore --mean.
std::optional<std::string> objection_to_mean(const collective& of, const request_options& request) {
  if (!*request.what.is_mean || !of.reduces || of.has_means) return std::nullopt;
  if (of.adapts || !of.activates) return std::string(of.name) + " does not support means: leave --mean out";
  return *request.what.reduction == kernel::sum ? std::nullopt : std::optional<std::string>("--mean needs --op sum");
}

/// Describes an algorithm, with its cost for the request or the reason why the algorithm does not support the request.
json describe(const algorithm& how, const request_options& request) {
  const collective& of = *how.of;
  const constraints& needs = how.needs;
  const shape data = shape_of(of, request);
  const activation starts = starts_of(of, request);
  json entry{{"collective", of.name},
             {"algorithm", how.name},
             {"constraints",
              {{"needs_commutative", needs.needs_commutative},
               {"moves_data", of.moves_data},
               {"activates", of.activates},
               {"in_place", needs.in_place},
               {"summary", needs.summary}}},
             {"ranks", request.ranks},
             {"count", of.moves_data ? request.what.count : 0},
             {"dtype", of.moves_data ? json(name_of(data.type)) : json(nullptr)},
             {"activation", of.activates ? json(words_for(starts)) : json(nullptr)},
             {"objection", nullptr},
             {"cost", nullptr}};
  if (const auto why = objection_to_mean(of, request)) entry["objection"] = *why;
  if (const auto why = validate(how, {.self = 0, .size = request.ranks}, data, starts)) entry["objection"] = why->text;
  if (!entry["objection"].is_null()) return entry;
  const cost total = cost_of_round(how, request.ranks, data, starts);
  entry["cost"] = {{"messages", total.messages},
                   {"bytes", total.bytes},
                   {"signals", total.signals},
                   {"signals_of_one", total.signals_of_one},
                   {"rounds", total.hops}};
  return entry;
}

/// Describes a sparse algorithm. Its cost depends on the values in the vectors, so the output has only an estimate.
json describe(const sparse_algorithm& how, const request_options& request) {
  const sparse_problem problem = problem_of(request);
  json entry{{"collective", k_sparse_allreduce},
             {"algorithm", how.name},
             {"constraints", {{"summary", how.summary}}},
             {"ranks", request.ranks},
             {"count", problem.count},
             {"k", problem.k},
             {"dtype", name_of(problem.type)},
             {"cost", nullptr},
             {"objection", nullptr},
             {"estimate", nullptr}};
  if (const auto why = validate(problem)) {
    entry["objection"] = why->text;
    return entry;
  }
  const sparse_cost total = how.cost_of(problem);
  entry["estimate"] = {
      {"messages", total.messages}, {"words", total.words}, {"bits_per_element", how.bits_per_element(problem)}};
  return entry;
}

bool serves(const json& entry) { return entry["objection"].is_null(); }

/// A column of numbers in entry[estimate].
struct number_column {
  const char* name;
  int width;
  int decimals = 0;
};

/// Prints each algorithm that supports the request.
void print(const json& list, const char* estimate, const std::vector<number_column>& columns) {
  for (const json& entry : list) {
    if (!serves(entry)) continue;
    std::printf("%-28s %-21s", text_of(entry["collective"]).c_str(), text_of(entry["algorithm"]).c_str());
    for (const auto& [name, width, decimals] : columns)
      std::printf(" %*.*f", width, decimals, entry[estimate][name].get<double>());
    std::printf("\n    %s\n", wrapped(text_of(entry["constraints"]["summary"]), 4).c_str());
  }
}

/// Prints each reason why algorithms do not support the request, with the names of these algorithms.
void print_refused(const json& dense, const json& sparse) {
  std::vector<std::pair<std::string, std::string>> reasons;  // reason, algorithms
  for (const json* list : {&dense, &sparse})
    for (const json& entry : *list) {
      if (serves(entry)) continue;
      const std::string reason = text_of(entry["objection"]);
      auto found = std::ranges::find(reasons, reason, &std::pair<std::string, std::string>::first);
      if (found == reasons.end()) found = reasons.emplace(found, reason, "");
      found->second +=
          (found->second.empty() ? "" : ", ") + text_of(entry["collective"]) + "/" + text_of(entry["algorithm"]);
    }
  if (!reasons.empty()) std::printf("\nNot available for this request:\n");
  for (const auto& [reason, algorithms] : reasons)
    std::printf("%s\n    %s\n", wrapped(reason, 0).c_str(), wrapped(algorithms, 4).c_str());
}

void print_sparse(const json& sparse, const request_options& request) {
  std::printf(
      "\nEstimates for the busiest rank, k = %llu: sequential messages, words of 4 bytes, and bits of a rank's\n"
      "encoded elements for each element of the vector.\n\n",
      static_cast<unsigned long long>(problem_of(request).k));
  print(sparse, "estimate", {{"messages", 9}, {"words", 13}, {"bits_per_element", 9, 4}});
  std::printf("\n%s has the same algorithms, and takes --activation.\n",
              std::string(k_partial_sparse_allreduce).c_str());
}

void print(const json& dense, const json& sparse, const request_options& request) {
  std::printf("One round of the whole world: %s, %llu x %s.\n", counted(request.ranks, "rank").c_str(),
              static_cast<unsigned long long>(request.what.count), std::string(name_of(*request.what.type)).c_str());
  if (std::ranges::any_of(dense, serves))
    std::printf("\n%-28s %-21s %9s %13s %9s %5s\n", "collective", "algorithm", "messages", "bytes", "signals", "hops");
  print(dense, "cost", {{"messages", 9}, {"bytes", 13}, {"signals", 9}, {"rounds", 5}});
  if (std::ranges::any_of(sparse, serves)) print_sparse(sparse, request);
  print_refused(dense, sparse);
}

// --- --explain ---------------------------------------------------------------------------------------------

/// Returns the data from which "auto" chooses an algorithm. The data come from the options, or else from the
/// environment.
selection selection_of(const list_options& options) {
  if (!options.tuning.empty()) setenv("LSCHED_TUNING", options.tuning.c_str(), 1);
  selection by = require(read_selection());
  const rank ranks = options.request.ranks, on_node = std::min(ranks, options.request.ranks_per_node.value_or(ranks));
  for (rank r = 0; on_node < ranks && r < ranks; ++r) by.around.nodes.push_back(r / on_node);
  const unsigned here = ranks_per_core(static_cast<unsigned>(on_node), usable_cores());
  by.around.ranks_per_core = options.ranks_per_core != 0 ? options.ranks_per_core : static_cast<rank>(here);
  return by;
}

json explain(const collective& of, const request_options& request, const selection& by) {
  const world place{.self = 0, .size = request.ranks};
  const shape data = shape_of(of, request);
  const activation starts = starts_of(of, request);
  json entry{{"collective", of.name}, {"ranks", request.ranks}, {"count", of.moves_data ? request.what.count : 0}};
  entry["candidates"] = json::array();
  for (const candidate& each : candidates(of, place, data, starts, by.around))
    entry["candidates"].push_back({{"algorithm", each.how->name},
                                   {"predicted_us", each.error ? json(nullptr) : json(each.predicted_ns / 1e3)},
                                   {"hops", each.error ? json(nullptr) : json(each.hops)},
                                   {"objection", each.error ? json(each.error->text) : json(nullptr)}});
  const auto made = select(of.name, "auto", place, data, starts, by);
  entry["auto"] = made ? json(made->how->name) : json(nullptr);
  entry["reason"] = made ? made->reason : made.error().text;
  if (made) entry["segment"] = made->data.segment, entry["radix"] = made->data.radix;
  return entry;
}

void print_choice(const json& entry) {
  std::printf("%-20s auto: %s (%s)\n", text_of(entry["collective"]).c_str(), text_of(entry["auto"]).c_str(),
              text_of(entry["reason"]).c_str());
  for (const json& each : entry["candidates"])
    if (each["objection"].is_null())
      std::printf("    %-24s %12.3f us predicted, hops %s\n", text_of(each["algorithm"]).c_str(),
                  each["predicted_us"].get<double>(), text_of(each["hops"]).c_str());
    else
      std::printf("    %-24s %s\n", text_of(each["algorithm"]).c_str(),
                  wrapped(text_of(each["objection"]), 29).c_str());
}

bool is_wanted(const list_options& options, std::string_view collective) {
  return options.collective.empty() || options.collective == collective;
}

int explain(const list_options& options) {
  const selection by = selection_of(options);
  json all = json::array();
  for (const collective* of : collectives()) {
    if (!is_wanted(options, of->name)) continue;
    json entry = explain(*of, options.request, by);
    if (!entry["candidates"].empty()) all.push_back(std::move(entry));
  }
  if (!options.json.empty()) return std::printf("%s\n", json_text(all, 2).c_str()), 0;
  for (const json& entry : all) print_choice(entry);
  const auto nodes = by.around.is_one_node() ? 1 : by.around.nodes.back() + 1;
  std::printf("\nFor %s on %s, %d per core (--ranks-per-core).\n", counted(options.request.ranks, "rank").c_str(),
              counted(static_cast<std::uint64_t>(nodes), "node").c_str(), by.around.ranks_per_core);
  return 0;
}

int list(const list_options& options) {
  print_to(options.json);
  if (options.explains) return explain(options);
  json dense = json::array(), sparse = json::array();
  for (const algorithm& how : algorithms())
    if (is_wanted(options, how.of->name)) dense.push_back(describe(how, options.request));
  for (const sparse_algorithm& how : sparse_algorithms())
    if (options.collective.empty() || is_sparse(options.collective)) sparse.push_back(describe(how, options.request));
  if (options.json.empty()) return print(dense, sparse, options.request), 0;
  dense.insert(dense.end(), sparse.begin(), sparse.end());
  std::printf("%s\n", json_text(dense, 2).c_str());
  return 0;
}

}  // namespace

void add_list_command(CLI::App& app, command_context& context) {
  CLI::App* command = app.add_subcommand("list", "List collectives, algorithms, constraints and declared costs");
  const auto options = std::make_shared<list_options>();
  const option_group group{*command};
  group.add("COLLECTIVE", options->collective, "Collective to list (default: all)")->check(any_word());
  add_request_options(*command, options->request);
  auto* explains =
      group.add_flag("--explain", options->explains, "Explain which algorithm auto chooses for this request");
  group.add("--tuning", options->tuning, "Tuning table (default: the file in LSCHED_TUNING)")->needs(explains);
  group
      .add("--ranks-per-core", options->ranks_per_core,
           "Ranks that share a core (default: as few as this machine permits)")
      ->check(whole_number(1, k_most_ranks))
      ->needs(explains);
  group.add_json(options->json, "an array");
  command->footer(
      "Messages and bytes are totals of all ranks; hops is the length of the longest chain of messages\n"
      "and signals (\"rounds\" in JSON). Signals carry no payload.\n"
      "Example:  lsched list --ranks 32 --count 1000000 --dtype f32\n"
      "          lsched list allreduce --explain --ranks 32");
  command->callback([&context, options] {
    expect_listed(options->collective, "auto");
    const request_options& request = options->request;
    expect_in_world(options->collective, request.activation, request.what.root, request.ranks);
    if (options->explains && is_sparse(options->collective))
      throw CLI::ValidationError(
          "--explain", "applies only to dense collectives: for " + options->collective + ", auto has no choice");
    context.action = [options] { return list(*options); };
  });
}

}  // namespace lsched::cli
