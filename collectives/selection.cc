#include "collectives/selection.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <set>
#include <tuple>

#include "ops/nearest_word.h"

namespace lsched {
namespace {

// --- names -------------------------------------------------------------------------------------------------

std::string quoted(std::string_view name) { return "\"" + std::string(name) + "\""; }

/// Returns "; did you mean ring? Choose one of ", or ": choose one of ".
template <class Words>
std::string advice(std::string_view word, const Words& known) {
  const std::string suggestion = suggestion_for(word, known);
  return suggestion.empty() ? ": choose one of " : suggestion + " Choose one of ";
}

// --- the model ---------------------------------------------------------------------------------------------

/// The work of one rank in a round, computed from its schedule.
struct share {
  double messages = 0;  ///< max(sent messages, received messages)
  double far = 0;       ///< fraction of messages to or from other nodes
  double copies = 0;    ///< time for copies and reductions, in nanoseconds
  double wire = 0;      ///< time in which the network carries the rank's messages, in nanoseconds
  double handling = 0;  ///< time for the copy and the reduction of the largest message, in nanoseconds
};

/// Converts passes over memory to copies. A copy has two passes. If vectors fit into caches, every kernel counts as one
/// copy, because the transfer of cache lines from another rank takes most of the time.
double copies_of(unsigned passes, double vector_bytes) { return vector_bytes > 512 * 1024 ? passes / 2.0 : 1; }

/// Sums the work of the ops of one rank. Inside a node, the transport copies received data to a buffer, except data
/// that a reduction reads directly. If peers cannot read the memory of sent data, the sender copies the data once.
/// Between nodes, the network carries all data, in both directions at the same time.
class account {
 public:
  account(const schedule& program, const topology& around, bool combines)
      : program_(program), around_(around), combines_(combines) {
    for (const buffer& one : program.buffers()) longest_ = std::max(longest_, static_cast<double>(one.bytes()));
  }

  share sum() {
    for (const op& o : program_.ops()) {
      if (is_communication(o.kind)) count_message(o);
      if (o.kind == op_kind::send && is_near(o.peer) && is_foreign(o.a) && is_new(o))
        total_.copies += copying(o, around_.near);
      if (o.kind == op_kind::recv && is_near(o.peer) && !o.in_place) total_.copies += copying(o, around_.near);
      if (o.kind == op_kind::compute) total_.copies += copying(o, around_.near) * copies_of(passes_of(o), longest_);
    }
    total_.messages = std::max(sends_, receives_);
    total_.wire = std::max(far_sent_, far_received_);
    total_.far /= std::max(1.0, sends_ + receives_);
    return total_;
  }

 private:
  bool is_near(rank peer) const {
    const auto node_of = [this](rank r) { return around_.nodes[static_cast<std::size_t>(r)]; };
    return around_.is_one_node() || node_of(peer) == node_of(program_.place().self);
  }
  const wire_costs& wire_to(rank peer) const { return is_near(peer) ? around_.near : around_.far; }

  static unsigned passes_of(const op& o) {
    const kernel_row& row = row_of(o.what);
    return row.passes + (row.b.need == operand_need::optional && o.b.exists() ? 1u : 0u);
  }

  bool is_foreign(region where) const {
    return combines_ && program_.buffers()[where.buffer()].role != buffer_role::scratch;
  }
  bool is_new(const op& o) { return sources_.insert({o.a.buffer(), o.a.offset(), o.count}).second; }

  double copying(const op& o, const wire_costs& wire) const {
    return static_cast<double>(typical_bytes(program_, o)) * wire.byte;
  }

  void count_message(const op& o) {
    const bool is_out = is_outgoing(o.kind);
    ++(is_out ? sends_ : receives_);
    if (!is_near(o.peer)) ++total_.far;
    if (!is_near(o.peer) && is_payload(o.kind)) (is_out ? far_sent_ : far_received_) += copying(o, around_.far);
    if (is_payload(o.kind))
      total_.handling = std::max(total_.handling,
                                 copying(o, wire_to(o.peer)) * (1 + copies_of(row_of(kernel::sum).passes, longest_)));
  }

  const schedule& program_;
  const topology& around_;
  const bool combines_;
  double longest_ = 0;  ///< size of the longest buffer in bytes
  share total_{};
  double sends_ = 0;
  double receives_ = 0;
  double far_sent_ = 0, far_received_ = 0;  ///< time in which the network carries the data, in nanoseconds
  std::set<std::tuple<std::uint16_t, std::uint64_t, std::uint64_t>> sources_{};  ///< sent data: buffer, offset, count
};

/// Returns all ranks of a small world, or a sample of ranks of a large world. The sample has ranks with all roles of
/// all patterns.
std::vector<rank> examples(rank size, rank root) {
  std::set<rank> some{0, root, size / 3, size / 2, size - 1 - size / 4, size - 1};
  for (rank r = 0; size <= 8 && r < size; ++r) some.insert(r);
  return {some.begin(), some.end()};
}

std::vector<share> shares(const algorithm& how, rank size, const shape& data, const activation& starts,
                          const topology& around) {
  std::vector<share> all;
  for (const rank r : examples(size, data.root))
    if (const auto program = how.generate({r, size}, data, starts))
      all.push_back(account(**program, around, data.what != kernel::none || how.of->adapts).sum());
  return all;
}

/// Returns the mean cost if the fraction `share` of messages costs `far`, and the others cost `near`.
double mixed(double near, double far, double share) { return near + (far - near) * share; }

constexpr std::size_t k_most_tensors_modelled = 64;

/// Merges adjacent tensors. The number of tensors hardly affects a prediction, but determines the time that the
/// prediction takes.
std::vector<tensor> in_fewer(const std::vector<tensor>& tensors) {
  const std::size_t each = tensors.size() / k_most_tensors_modelled + 1;
  std::vector<tensor> fewer;
  for (std::size_t i = 0; i < tensors.size(); i += each) {
    const tensor& last = tensors[std::min(i + each, tensors.size()) - 1];
    fewer.push_back({tensors[i].begin, last.end() - tensors[i].begin});
  }
  return fewer;
}

/// Returns the request without its rank-dependent parts: lists of blocks and properties of memory.
shape common(const collective& of, const shape& data) {
  shape same = data;
  same.in_place = false;
  same.is_visible = false;
  if (of.has_blocks) same.blocks.clear();
  if (same.tensors.size() > k_most_tensors_modelled) same.tensors = in_fewer(same.tensors);
  return same;
}

/// Returns the size in bytes of the vector, of the vector's longest bucket, or of an average block.
std::uint64_t bytes_asked_for(const shape& data, rank size) {
  if (!data.buckets.empty()) return bytes_of(std::ranges::max(data.buckets), data);
  if (data.counts.empty()) return bytes_of(data.count, data);
  return bytes_of(block_offsets(data, size).back() / static_cast<std::uint64_t>(size), data);
}

// --- the choice --------------------------------------------------------------------------------------------

/// Returns the candidate with the shortest predicted time. If ranks share cores, predictions within k_model_precision
/// count as equal. Among these the candidate with the fewest hops is preferred, because a wait may cost more than the
/// model predicts.
const candidate* fastest(const std::vector<candidate>& all, const topology& around) {
  const double precision = around.is_crowded() ? k_model_precision : 1;
  double least = std::numeric_limits<double>::infinity();
  for (const candidate& one : all)
    if (!one.error) least = std::min(least, one.predicted_ns);
  const candidate* best = nullptr;
  for (const candidate& one : all) {
    if (one.error || one.predicted_ns > precision * least) continue;
    if (best == nullptr || std::tie(one.hops, one.predicted_ns) < std::tie(best->hops, best->predicted_ns)) best = &one;
  }
  return best;
}

result<choice> named(std::string_view collective, std::string_view name, world place, const shape& data,
                     const activation& starts, std::string reason) {
  const algorithm* how = find(collective, name);
  if (how == nullptr) return unknown_name(collective, name);
  if (auto why = validate(*how, place, data, starts)) return *why;
  return choice{how, data, std::move(reason)};
}

result<choice> named_by_environment(std::string_view collective, std::string_view name, world place, const shape& data,
                                    const activation& starts) {
  auto made = named(collective, name, place, data, starts, "named by the environment");
  if (made) return made;
  return failure{made.error().code, "LSCHED_ALGORITHM requests " + std::string(collective) + "=" + std::string(name) +
                                        ", which cannot be used: " + made.error().text};
}

std::optional<choice> ruled(const collective& of, world place, const shape& data, const activation& starts,
                            const selection& by) {
  for (const tuning_rule* rule : by.table.find(of.name, place.size, by.around, bytes_asked_for(data, place.size))) {
    const algorithm* how = find(of.name, rule->algorithm);
    if (how == nullptr || how->needs.by_name_only || validate(*how, place, data, starts)) continue;
    choice made{how, data, "line " + std::to_string(rule->line) + " of the tuning table"};
    if (data.segment == 0 && data.room == 0 && rule->segment_bytes != 0)
      made.data.segment = std::max<std::uint64_t>(1, rule->segment_bytes / size_of(data.type));
    if (data.radix == 0) made.data.radix = rule->radix;
    return made;
  }
  return std::nullopt;
}

/// Returns a text that explains why the model selects `best`.
std::string words_for_prediction(const candidate& best, const std::vector<candidate>& all) {
  const candidate* least = &best;
  for (const candidate& one : all)
    if (!one.error && one.predicted_ns < least->predicted_ns) least = &one;
  char text[160];
  std::snprintf(text, sizeof text, "the model predicts %.3g us", best.predicted_ns / 1e3);
  if (least == &best) return text;
  std::string words = text;
  std::snprintf(text, sizeof text, ", as good as the %.3g us of %s, and fewer hops", least->predicted_ns / 1e3,
                std::string(least->how->name).c_str());
  return words + text;
}

}  // namespace

failure unknown_name(std::string_view collective, std::string_view name) {
  std::string collectives, names;
  std::vector<std::string_view> known_collectives, known_names{"auto"};
  std::string_view last;
  for (const algorithm& how : algorithms()) {  // the algorithms of a collective are adjacent
    if (how.of->name != last) known_collectives.push_back(how.of->name);
    if (how.of->name == collective) known_names.push_back(how.name);
    if (how.of->name != last) collectives += (last.empty() ? "" : ", ") + quoted(how.of->name);
    if (how.of->name == collective) names += quoted(how.name) + ", ";
    last = how.of->name;
  }
  if (names.empty())
    return {status::argument,
            "there is no collective " + quoted(collective) + advice(collective, known_collectives) + collectives};
  return {status::argument,
          quoted(collective) + " has no algorithm " + quoted(name) + advice(name, known_names) + names + "\"auto\""};
}

double predicted_ns(const algorithm& how, rank size, const shape& data, const activation& starts,
                    const topology& around) {
  const std::vector<share> some = shares(how, size, data, starts, around);
  const cost all = cost_of_round(how, size, data, starts);
  share mean{.messages = static_cast<double>(all.messages + all.signals) / size};
  for (const share& one : some) {
    mean.far += one.far / static_cast<double>(some.size());
    mean.copies += one.copies / static_cast<double>(some.size());
    mean.wire += one.wire / static_cast<double>(some.size());
    mean.handling = std::max(mean.handling, one.handling);
  }
  const double per_core = around.ranks_per_core;
  const double turns = around.is_crowded() ? around.turn * per_core * std::sqrt(per_core) : 0;
  const double hop = std::max(turns, mixed(around.near.hop, around.far.hop, mean.far));
  const double message = per_core * mixed(around.near.message, around.far.message, mean.far);

  const auto hops = static_cast<double>(all.hops);
  const auto work_of = [message, hops](const share& one) {
    const double parts = std::max(1.0, one.messages / std::max(1.0, hops));
    const auto [shorter, longer] = std::minmax(one.copies, one.wire);
    return one.messages * message + longer + shorter / parts;
  };
  const double average = work_of(mean);
  double busiest = average;
  for (const share& one : some) busiest = std::max(busiest, work_of(one));
  const double lopsided = busiest > 0 ? 1 - average / busiest : 0;
  const double longest = busiest + std::max(0.0, hops - 1) * mean.handling * lopsided;
  return hops * hop + average * per_core + longest - average;
}

std::vector<candidate> candidates(const collective& of, world place, const shape& data, const activation& starts,
                                  const topology& around) {
  shape asked = data;
  asked.in_place = of.moves_data && data.room == 0 && std::ranges::any_of(algorithms(), [&](const algorithm& how) {
                     return how.of == &of && how.needs.in_place;
                   });
  // The activation is the same for all algorithms, so it does not affect the choice.
  const activation alike = of.activates ? activation{.policy = activation_policy::full} : starts;
  const shape same = common(of, data);
  std::vector<candidate> all;
  for (const algorithm& how : algorithms()) {
    if (how.of != &of) continue;
    candidate& next = all.emplace_back(candidate{&how, validate(how, place, asked, starts)});
    if (how.needs.by_name_only && !next.error)
      next.error = failure{.code = status::constraint,
                           .text =
                               "auto never chooses this algorithm, because its result differs from that of other "
                               "algorithms: request this algorithm by its name"};
    if (!next.error && how.custom != nullptr) next.error = how.custom->doubt(how, place.size, same);
    if (next.error) continue;
    next.predicted_ns = predicted_ns(how, place.size, same, alike, around);
    next.hops = cost_of_round(how, place.size, same, alike).hops;
  }
  return all;
}

result<choice> select(std::string_view collective, std::string_view wanted, world place, const shape& data,
                      const activation& starts, const selection& by) {
  if (wanted != "auto") return named(collective, wanted, place, data, starts, "named by the caller");
  const lsched::collective* of = find_collective(collective);
  if (of == nullptr) return unknown_name(collective, wanted);
  for (const auto& [whose, name] : by.named)
    if (whose == collective) return named_by_environment(collective, name, place, data, starts);
  if (auto made = ruled(*of, place, data, starts, by)) return *made;
  const std::vector<candidate> all = candidates(*of, place, data, starts, by.around);
  if (const candidate* best = fastest(all, by.around)) return choice{best->how, data, words_for_prediction(*best, all)};
  if (!all.empty()) return *all.back().error;
  return unknown_name(collective, wanted);
}

result<const algorithm*> choose(std::string_view collective, std::string_view wanted, world place, const shape& data,
                                const activation& starts, const topology& around) {
  const auto made = select(collective, wanted, place, data, starts, {.around = around});
  if (!made) return made.error();
  return made->how;
}

result<std::vector<std::pair<std::string, std::string>>> parse_named_algorithms(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> pairs;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    const std::string_view one = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t equals = one.find('=');
    if (equals == std::string_view::npos)
      return failure{status::argument,
                     "\"" + std::string(one) + "\" is not of the form collective=algorithm, such as allreduce=ring"};
    const std::string_view collective = one.substr(0, equals);
    const std::string_view name = one.substr(equals + 1);
    if (name == "auto" && find_collective(collective) != nullptr) continue;
    if (find(collective, name) == nullptr) return unknown_name(collective, name);
    if (std::ranges::any_of(pairs, [&](const auto& pair) { return pair.first == collective; }))
      return failure{status::argument, std::string(collective) + " is named twice: name each collective once"};
    pairs.emplace_back(collective, name);
  }
  return pairs;
}

}  // namespace lsched
