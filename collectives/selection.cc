#include "collectives/selection.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace lsched {
namespace {

// --- names -------------------------------------------------------------------------------------------------

std::string quoted(std::string_view name) { return "\"" + std::string(name) + "\""; }

/// The table is short and keeps a collective's algorithms together.
std::string known_collectives() {
  std::string list;
  std::string_view last;
  for (const algorithm& it : algorithms()) {
    if (it.of->name == last) continue;
    list += (list.empty() ? "" : ", ") + quoted(it.of->name);
    last = it.of->name;
  }
  return list;
}

std::string known_algorithms(std::string_view collective) {
  std::string list;
  for (const algorithm& it : algorithms())
    if (it.of->name == collective) list += quoted(it.name) + ", ";
  return list + "\"auto\"";
}

failure unknown(std::string_view collective, std::string_view name) {
  for (const algorithm& it : algorithms())
    if (it.of->name == collective)
      return {.code = status::argument,
              .text = quoted(collective) + " has no algorithm " + quoted(name) + ": choose one of " +
                      known_algorithms(collective)};
  return {.code = status::argument,
          .text = "there is no collective " + quoted(collective) + ": choose one of " + known_collectives()};
}

// --- the model ---------------------------------------------------------------------------------------------

/// What passes through one rank.
struct load {
  double messages = 0;
  double bytes = 0;
};

/// Of what it sends or what it receives, the more.
load load_of(const schedule& mine) {
  load out;
  load in;
  for (const op& it : mine.ops()) {
    if (!is_communication(it.kind)) continue;
    load& way = it.kind == op_kind::send || it.kind == op_kind::signal_send ? out : in;
    ++way.messages;
    if (is_payload(it.kind)) way.bytes += static_cast<double>(max_count(mine, it) * size_of(it.type));
  }
  return {std::max(out.messages, in.messages), std::max(out.bytes, in.bytes)};
}

/// Of the first, the last, a middle rank and the root: one of them is the busiest, in all patterns there are.
load busiest(const algorithm& how, rank size, const shape& data, const activation& starts) {
  load most;
  for (const rank r : {rank{0}, data.root, size / 2, size - 1}) {
    const auto mine = how.generate({r, size}, data, starts);
    if (!mine) continue;
    const load one = load_of(**mine);
    most = {std::max(most.messages, one.messages), std::max(most.bytes, one.bytes)};
  }
  return most;
}

/// A request as all ranks see it: who exchanges how much with whom, and what memory it has, each knows for itself only.
shape common(const collective& of, const shape& data) {
  shape same = data;
  same.in_place = false;
  same.is_visible = true;
  if (of.has_blocks) same.blocks.clear();
  return same;
}

/// Bytes of the vector, or of a block.
std::uint64_t bytes_asked_for(const shape& data, rank size) {
  if (data.counts.empty()) return bytes_of(data.count, data);
  return bytes_of(block_offsets(data, size).back() / static_cast<std::uint64_t>(size), data);
}

// --- the choice --------------------------------------------------------------------------------------------

const candidate* fastest(const std::vector<candidate>& all) {
  const candidate* best = nullptr;
  for (const candidate& it : all)
    if (!it.objection && (best == nullptr || it.predicted_ns < best->predicted_ns)) best = &it;
  return best;
}

result<choice> named(std::string_view collective, std::string_view name, world place, const shape& data,
                     const activation& starts, std::string reason) {
  const algorithm* how = find(collective, name);
  if (how == nullptr) return unknown(collective, name);
  if (auto why = objection(*how, place, data, starts)) return *why;
  return choice{how, data, std::move(reason)};
}

std::optional<choice> ruled(const collective& of, world place, const shape& data, const activation& starts,
                            const selection& by) {
  const tuning_rule* rule = by.table.find(of.name, place.size, by.around, bytes_asked_for(data, place.size));
  if (rule == nullptr) return std::nullopt;
  const algorithm* how = find(of.name, rule->algorithm);
  if (how == nullptr || objection(*how, place, data, starts)) return std::nullopt;
  choice made{how, data, "line " + std::to_string(rule->line) + " of the tuning table"};
  if (data.segment == 0 && rule->segment_bytes != 0)
    made.data.segment = std::max<std::uint64_t>(1, rule->segment_bytes / size_of(data.type));
  if (data.radix == 0) made.data.radix = rule->radix;
  return made;
}

std::string text_of_time(double ns) {
  char text[64];
  std::snprintf(text, sizeof text, "the model predicts %.3g us", ns / 1e3);
  return text;
}

}  // namespace

double predicted_ns(const algorithm& how, rank size, const shape& data, const activation& starts,
                    const surroundings& around) {
  const wire_costs& wire = around.is_one_node() ? around.near : around.far;
  const cost all = price_of(how, size, data, starts.policy);
  const auto hops = static_cast<double>(all.hops);
  if (around.is_crowded()) {
    const double per_core = around.ranks_per_core;
    const double busy =
        static_cast<double>(all.messages + all.signals) * wire.message + static_cast<double>(all.bytes) * wire.byte;
    return hops * std::max(wire.hop, around.turn * per_core) + busy * per_core / size;
  }
  const load most = busiest(how, size, data, starts);
  return hops * wire.hop + most.messages * wire.message + most.bytes * wire.byte;
}

std::vector<candidate> candidates(const collective& of, world place, const shape& data, const activation& starts,
                                  const surroundings& around) {
  shape asked = data;
  asked.in_place = of.moves_data && std::ranges::any_of(algorithms(), [&](const algorithm& it) {
                     return it.of == &of && it.needs.in_place;
                   });
  std::vector<candidate> all;
  for (const algorithm& it : algorithms()) {
    if (it.of != &of) continue;
    all.push_back({&it, objection(it, place, asked, starts)});
    if (!all.back().objection) all.back().predicted_ns = predicted_ns(it, place.size, common(of, data), starts, around);
  }
  return all;
}

result<choice> select(std::string_view collective, std::string_view wanted, world place, const shape& data,
                      const activation& starts, const selection& by) {
  if (wanted != "auto") return named(collective, wanted, place, data, starts, "named by the caller");
  const lsched::collective* of = find_collective(collective);
  if (of == nullptr) return unknown(collective, wanted);
  for (const auto& [whose, name] : by.named)
    if (whose == collective) return named(collective, name, place, data, starts, "named by the environment");
  if (auto made = ruled(*of, place, data, starts, by)) return *made;
  const std::vector<candidate> all = candidates(*of, place, data, starts, by.around);
  if (const candidate* best = fastest(all)) return choice{best->how, data, text_of_time(best->predicted_ns)};
  if (!all.empty()) return *all.back().objection;
  return unknown(collective, wanted);
}

result<const algorithm*> choose(std::string_view collective, std::string_view wanted, world place, const shape& data,
                                const activation& starts, const surroundings& around) {
  const auto made = select(collective, wanted, place, data, starts, {.around = around});
  if (!made) return made.error();
  return made->how;
}

result<schedule_ptr> generate(std::string_view collective, std::string_view wanted, world place, const shape& data,
                              const activation& starts) {
  const auto chosen = choose(collective, wanted, place, data, starts);
  if (!chosen) return chosen.error();
  return (*chosen)->generate(place, data, starts);
}

result<std::vector<std::pair<std::string, std::string>>> parse_named_algorithms(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> pairs;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    const std::string_view one = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t equals = one.find('=');
    if (equals == std::string_view::npos)
      return failure{status::argument, "\"" + std::string(one) + "\" is not of the form collective=algorithm"};
    const std::string_view collective = one.substr(0, equals);
    const std::string_view name = one.substr(equals + 1);
    if (find(collective, name) == nullptr) return unknown(collective, name);
    pairs.emplace_back(collective, name);
  }
  return pairs;
}

}  // namespace lsched
