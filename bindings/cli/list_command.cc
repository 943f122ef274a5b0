// `lsched list`: the registry, with each algorithm's constraints and what it declares to cost.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "bindings/cli/common/commands.h"
#include "bindings/cli/common/errors.h"
#include "bindings/cli/common/words.h"
#include "bindings/selection_environment.h"
#include "offload/cores.h"
#include "ops/counted.h"

namespace lsched::cli {
namespace {

using json = nlohmann::ordered_json;

struct list_options {
  std::int32_t ranks = 8;
  data_options data;
  sparse_data sparse;
  std::string activation;
  std::string tuning;
  std::int32_t ranks_per_core = 0;  ///< 0: as many as have to on this machine
  bool explains = false;
  bool as_json = false;
};

json describe(const algorithm& it) {
  const constraints& needs = it.needs;
  return {{"power_of_two", needs.power_of_two},
          {"needs_commutative", needs.needs_commutative},
          {"moves_data", it.of->moves_data},
          {"activates", it.of->activates},
          {"in_place", needs.in_place},
          {"min_count", needs.min_count},
          {"most_ranks", needs.most_ranks < static_cast<rank>(k_most_ranks) ? json(needs.most_ranks) : json(nullptr)},
          {"summary", needs.summary}};
}

/// One algorithm, and what it costs for the request, or why it cannot serve it.
json describe(const algorithm& it, const list_options& options) {
  const collective& of = *it.of;
  const shape data = shape_of(of, options.ranks, options.data);
  const activation starts = of.activates ? activation_of(of, options.activation, 0) : activation{};
  json entry{{"collective", of.name}, {"algorithm", it.name}, {"constraints", describe(it)}};
  entry["ranks"] = options.ranks;
  entry["count"] = of.moves_data ? options.data.count : 0;
  entry["dtype"] = of.moves_data ? json(name_of(data.type)) : json(nullptr);
  entry["activation"] = of.activates ? json(words_for(starts)) : json(nullptr);
  if (const auto why = validate(it, {.self = 0, .size = options.ranks}, data, starts)) {
    entry["objection"] = why->text;
    entry["cost"] = nullptr;
    return entry;
  }
  const cost price = price_of(it, options.ranks, data, starts);
  entry["objection"] = nullptr;
  entry["cost"] = {{"messages", price.messages},
                   {"bytes", price.bytes},
                   {"signals", price.signals},
                   {"signals_of_one", price.signals_of_one},
                   {"rounds", price.hops}};
  return entry;
}

/// What a sparse allreduce costs depends on what is in the vectors: there are estimates only.
json describe(const sparse_algorithm& it, const list_options& options) {
  const sparse_problem problem = problem_of(options.data, options.sparse, options.ranks);
  json entry{{"collective", k_sparse_allreduce}, {"algorithm", it.name}, {"constraints", {{"summary", it.summary}}}};
  entry["ranks"] = options.ranks;
  entry["count"] = problem.count;
  entry["k"] = problem.k;
  entry["dtype"] = name_of(problem.type);
  entry["cost"] = nullptr;
  if (const auto why = validate(problem)) {
    entry["objection"] = why->text;
    entry["estimate"] = nullptr;
    return entry;
  }
  const sparse_cost price = it.cost_of(problem);
  entry["objection"] = nullptr;
  entry["estimate"] = {{"messages", price.messages}, {"words", price.words}};
  return entry;
}

void print_sparse(const json& list, const list_options& options) {
  std::printf("\nThe rank that has most, about, of k = %llu: messages after each other, words of 4 bytes.\n\n",
              static_cast<unsigned long long>(items_of(options.sparse, options.data.count)));
  for (const json& it : list) {
    std::printf("%-18s %-20s ", std::string(k_sparse_allreduce).c_str(), it["algorithm"].get<std::string>().c_str());
    if (const json& price = it["estimate"]; price.is_null())
      std::printf("%s\n", it["objection"].get<std::string>().c_str());
    else
      std::printf("%10.0f %14.0f  %s\n", price["messages"].get<double>(), price["words"].get<double>(),
                  it["constraints"]["summary"].get<std::string>().c_str());
  }
  std::printf("\n%s has the same ones, behind an activation.\n", std::string(k_partial_sparse_allreduce).c_str());
}

void print(const json& list, const list_options& options) {
  std::printf("One round of the whole world: %s, %llu x %s.\n\n", counted(options.ranks, "rank").c_str(),
              static_cast<unsigned long long>(options.data.count), options.data.type.c_str());
  std::printf("%-18s %-20s %10s %14s %10s %6s  %s\n", "collective", "algorithm", "messages", "bytes", "signals", "hops",
              "constraints");
  for (const json& it : list) {
    const auto name = it["collective"].get<std::string>();
    const auto how = it["algorithm"].get<std::string>();
    const auto summary = it["constraints"]["summary"].get<std::string>();
    std::printf("%-18s %-20s ", name.c_str(), how.c_str());
    if (const json& price = it["cost"]; price.is_null())
      std::printf("%s\n", it["objection"].get<std::string>().c_str());
    else
      std::printf("%10s %14s %10s %6s  %s\n", price["messages"].dump().c_str(), price["bytes"].dump().c_str(),
                  price["signals"].dump().c_str(), price["rounds"].dump().c_str(), summary.c_str());
  }
}

// --- --explain ---------------------------------------------------------------------------------------------

/// What "auto" goes by: what the options say, else what the environment says to every runtime.
selection selection_of(const list_options& options) {
  if (!options.tuning.empty()) setenv("LSCHED_TUNING", options.tuning.c_str(), 1);
  selection by = require(read_selection());
  const unsigned here = ranks_per_core(static_cast<unsigned>(options.ranks), usable_cores());
  by.around.ranks_per_core = options.ranks_per_core != 0 ? options.ranks_per_core : static_cast<rank>(here);
  return by;
}

json explain(const collective& of, const list_options& options, const selection& by) {
  const world place{.self = 0, .size = options.ranks};
  const shape data = shape_of(of, options.ranks, options.data);
  const activation starts = of.activates ? activation_of(of, options.activation, 0) : activation{};
  json entry{{"collective", of.name}, {"ranks", options.ranks}, {"count", of.moves_data ? options.data.count : 0}};
  entry["candidates"] = json::array();
  for (const candidate& it : candidates(of, place, data, starts, by.around)) {
    json one{{"algorithm", it.how->name}, {"predicted_us", nullptr}, {"hops", nullptr}, {"objection", nullptr}};
    if (it.error)
      one["objection"] = it.error->text;
    else
      one["predicted_us"] = it.predicted_ns / 1e3, one["hops"] = it.hops;
    entry["candidates"].push_back(one);
  }
  const auto made = select(of.name, "auto", place, data, starts, by);
  entry["auto"] = made ? json(made->how->name) : json(nullptr);
  entry["reason"] = made ? made->reason : made.error().text;
  if (made) entry["segment"] = made->data.segment, entry["radix"] = made->data.radix;
  return entry;
}

void print(const json& entry) {
  const auto text = [](const json& value) { return value.get<std::string>(); };
  std::printf("%-20s auto: %s (%s)\n", text(entry["collective"]).c_str(),
              entry["auto"].is_null() ? "none" : text(entry["auto"]).c_str(), text(entry["reason"]).c_str());
  for (const json& one : entry["candidates"])
    if (one["objection"].is_null())
      std::printf("    %-24s %12.3f us predicted, hops %llu\n", text(one["algorithm"]).c_str(),
                  one["predicted_us"].get<double>(), one["hops"].get<unsigned long long>());
    else
      std::printf("    %-24s %s\n", text(one["algorithm"]).c_str(), text(one["objection"]).c_str());
}

int explain(const list_options& options) {
  const selection by = selection_of(options);
  json all = json::array();
  for (const collective* of : collectives()) {
    json entry = explain(*of, options, by);
    if (!entry["candidates"].empty()) all.push_back(std::move(entry));
  }
  if (options.as_json)
    std::printf("%s\n", all.dump(2).c_str());
  else
    for (const json& entry : all) print(entry);
  if (!options.as_json)
    std::printf("\nFor %s on one node, %d to a core (--ranks-per-core).\n", counted(options.ranks, "rank").c_str(),
                by.around.ranks_per_core);
  return 0;
}

int list(const list_options& options) {
  if (options.explains) return explain(options);
  json entries = json::array();
  for (const algorithm& it : algorithms()) entries.push_back(describe(it, options));
  json sparse = json::array();
  for (const sparse_algorithm& it : sparse_algorithms()) sparse.push_back(describe(it, options));
  if (options.as_json) {
    entries.insert(entries.end(), sparse.begin(), sparse.end());
    std::printf("%s\n", entries.dump(2).c_str());
    return 0;
  }
  print(entries, options);
  print_sparse(sparse, options);
  return 0;
}

}  // namespace

void add_list_command(CLI::App& app, command_context& context) {
  CLI::App* command = app.add_subcommand("list", "List collectives, algorithms, constraints and declared costs");
  const auto options = std::make_shared<list_options>();
  command->add_option("--ranks", options->ranks, "Size of the world")
      ->check(whole_number(1, k_most_ranks))
      ->capture_default_str();
  add_data_options(*command, options->data);
  add_sparse_options(*command, options->sparse);
  command->add_option("--activation", options->activation, "Policy of the partial collectives (default: solo)")
      ->check(activation_words());
  auto* explains = command->add_flag("--explain", options->explains, "What auto chooses for this request, and why");
  command->add_option("--tuning", options->tuning, "A tuning table (default: the one that LSCHED_TUNING names)")
      ->needs(explains);
  command
      ->add_option("--ranks-per-core", options->ranks_per_core,
                   "How many ranks share a core (default: as many as have to on this machine)")
      ->check(whole_number(1, k_most_ranks))
      ->needs(explains);
  command->add_flag("--json", options->as_json, "Print a JSON array");
  command->footer(
      "Messages and bytes are those of all ranks together; hops is the longest chain of messages and signals,\n"
      "one after the other (\"rounds\" in JSON). Signals carry no payload.\n"
      "Example:  lsched list --ranks 32 --count 1000000 --dtype f32");
  command->callback([&context, options] { context.action = [options] { return list(*options); }; });
}

}  // namespace lsched::cli
