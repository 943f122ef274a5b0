// `lsched list`: the registry, with each algorithm's constraints and what it declares to cost.
#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "bindings/cli/words.h"

namespace lsched::cli {
namespace {

using json = nlohmann::ordered_json;

struct list_options {
  std::int32_t ranks = 8;
  data_options data;
  std::string activation;
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
  entry["activation"] = of.activates ? json(name_of(starts.policy)) : json(nullptr);
  if (const auto why = objection(it, {.self = 0, .size = options.ranks}, data, starts)) {
    entry["objection"] = why->text;
    entry["cost"] = nullptr;
    return entry;
  }
  const cost price = it.cost_of(options.ranks, data, starts.policy);
  entry["objection"] = nullptr;
  entry["cost"] = {{"messages", price.messages},
                   {"bytes", price.bytes},
                   {"signals", price.signals},
                   {"signals_of_one", price.signals_of_one},
                   {"rounds", price.hops}};
  return entry;
}

void print(const json& list, const list_options& options) {
  std::printf("One round of the whole world: %d ranks, %llu x %s.\n\n", options.ranks,
              static_cast<unsigned long long>(options.data.count), options.data.type.c_str());
  std::printf("%-18s %-20s %10s %14s %10s %6s  %s\n", "collective", "algorithm", "messages", "bytes",
              "signals", "hops", "constraints");
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

int list(const list_options& options) {
  json entries = json::array();
  for (const algorithm& it : algorithms()) entries.push_back(describe(it, options));
  if (options.as_json)
    std::printf("%s\n", entries.dump(2).c_str());
  else
    print(entries, options);
  return 0;
}

}  // namespace

void add_list_command(CLI::App& app, command_context& context) {
  CLI::App* command =
      app.add_subcommand("list", "List collectives, algorithms, constraints and declared costs");
  const auto options = std::make_shared<list_options>();
  command->add_option("--ranks", options->ranks, "Size of the world")
      ->check(whole_number(1, k_most_ranks))
      ->capture_default_str();
  add_data_options(*command, options->data);
  command
      ->add_option("--activation", options->activation, "Policy of the partial collectives (default: solo)")
      ->check(CLI::IsMember(activation_names()));
  command->add_flag("--json", options->as_json, "Print a JSON array");
  command->footer(
      "Messages and bytes are those of all ranks together; hops is the longest chain of messages and signals,\n"
      "one after the other (\"rounds\" in JSON). Signals carry no payload.\n"
      "Example:  lsched list --ranks 32 --count 1000000 --dtype f32");
  command->callback([&context, options] { context.action = [options] { return list(*options); }; });
}

}  // namespace lsched::cli
