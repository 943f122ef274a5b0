#include "libsched/verify/verify.h"

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <set>
#include <string>

#include "libsched/verify/activation_check.h"
#include "libsched/verify/assembly.h"
#include "libsched/verify/causal_history.h"
#include "libsched/verify/contents.h"
#include "libsched/verify/form.h"
#include "libsched/verify/hazards.h"
#include "libsched/verify/progress.h"
#include "libsched/verify/world_key.h"
#include "ops/counted.h"
#include "ops/saturating.h"

namespace lsched {
namespace {

/// Maximum number of rounds that kinds_of_rounds() examines.
constexpr round_no k_most_rounds = k_longest_period;

std::string rank_text(rank r) { return "rank " + std::to_string(r); }

// --- schedules by themselves -----------------------------------------------------------------------------------

void check_forms(std::span<const schedule_ptr> world, const aliasing& in_place, finding_list& out) {
  const auto size = static_cast<rank>(world.size());
  for (rank r = 0; r < size && !out.is_full(); ++r)
    check_form(*world[static_cast<std::size_t>(r)], {.self = r, .size = size}, in_place, out);
}

/// Checks that all ranks declare the same activation and agree whether the schedule is synchronising.
void check_agreement(std::span<const schedule_ptr> world, finding_list& out) {
  const schedule& first = *world.front();
  for (const schedule_ptr& program : world) {
    if (program->starts() == first.starts() && program->is_synchronising() == first.is_synchronising()) continue;
    const rank self = program->place().self;
    out.add({.what = property::form,
             .where = self,
             .text = rank_text(self) + " declares another activation or synchronisation than rank 0"});
  }
}

/// Checks that a rank's first buffer of a role has the postcondition's type and number of elements.
void check_data(const schedule& program, const promised_data& data, buffer_role role, finding_list& out) {
  const rank self = program.place().self;
  const std::optional<std::uint64_t> count = role == buffer_role::input ? data.at(self).input : data.at(self).output;
  const auto text = [](std::uint64_t elements, dtype type) {
    return std::to_string(elements) + " x " + std::string(name_of(type));
  };
  const auto first = std::ranges::find(program.buffers(), role, &buffer::role);
  const bool exists = first != program.buffers().end();
  if (exists ? count == first->count && first->type == data.type : !count) return;
  out.add({.what = property::form,
           .where = self,
           .buffer = exists ? static_cast<std::uint16_t>(first - program.buffers().begin()) : k_no_buffer,
           .text = rank_text(self) + " has " + (exists ? text(first->count, first->type) + " as its" : "no") + " " +
                   std::string(name_of(role)) + ", but " + (count ? text(*count, data.type) : "none") +
                   (data.of.size() == 1 ? " are promised for every rank" : " is promised for this rank")});
}

void check_schedules(std::span<const schedule_ptr> world, const postcondition& promise, const aliasing& in_place,
                     finding_list& out) {
  check_forms(world, in_place, out);
  if (!out.is_empty()) return;
  check_agreement(world, out);
  if (!out.is_empty() || !promise.data) return;
  for (const schedule_ptr& program : world)
    for (const buffer_role role : {buffer_role::input, buffer_role::output})
      check_data(*program, *promise.data, role, out);
}

// --- the proof -------------------------------------------------------------------------------------------------

/// A proof has several parts. Each part relies on earlier parts. So the proof ends at the first part that fails, unless
/// later parts are still meaningful.
class proof {
 public:
  proof(std::span<const schedule_ptr> world, const postcondition& promise, const verify_options& options,
        finding_list& out, finding_list& notes, verification& answer)
      : world_(world),
        all_(world),
        promise_(promise),
        options_(options),
        starts_(world.front()->starts()),
        out_(out),
        notes_(notes),
        answer_(answer) {}

  void run() {
    all_.match(out_);
    if (!out_.is_empty()) return;
    progress eager(all_, sending::eager);
    eager.run({});
    answer_.is_eager_safe = is_complete(eager);
    count_cost(eager);
    const round_start start{.is_woken = is_woken()};
    if (start.is_woken) eager.run(start);
    progress round(all_, sending::held, options_.buffers);
    round.run(start);
    if (!check_progress(round)) return;
    if (world_.front()->is_partial())
      check_activation(all_, eager.order(), promise_,
                       options_.known == nullptr ? nullptr : &options_.known->activations, answer_.round_cost, out_);

    const round_ends ends = check_hazards(all_, eager.order(), options_.in_place, out_, notes_);
    if (!out_.is_empty()) return;
    if (!start.is_woken) count_hops(eager, ends.fired);
    check_unsure_signals(ends.unsure_signals);
    if (!out_.is_empty()) return;
    const bool has_guards = std::ranges::any_of(world_, [](const schedule_ptr& p) { return !p->guards().empty(); });
    for (const round_no kind : kinds_of_rounds()) {
      if (has_guards) round.run({.is_woken = start.is_woken, .guards = kind});
      if (!check_progress(round)) return;
      contents symbols(all_, options_.in_place, out_);
      symbols.run(round);
      symbols.check(promise_);
    }
    check_causal_history(eager.order(), ends.fired);
    check_cost();
  }

 private:
  // --- progress --------------------------------------------------------------------------------------------

  /// Adds a finding for the first op that is stuck. The text contains the chain of ops that wait for each other.
  bool check_progress(const progress& round) {
    const world_op stuck = first_stuck(round);
    if (stuck == all_.op_count()) return true;
    progress plain(all_, sending::rendezvous, options_.buffers);
    plain.run({.is_woken = is_woken()});
    const bool is_held = is_complete(plain);
    const std::string excuse = is_held
                                   ? "; the round would complete if senders did not keep payloads until they are read"
                               : answer_.is_eager_safe ? "; with enough buffers for messages the round would complete"
                                                       : "";
    out_.add(all_.about(is_held ? property::holding : property::progress, stuck, round.words_for_wait(stuck) + excuse));
    return false;
  }

  /// Checks that the round completes without the signals in `unsure`. When the round of their rank ends, these signals
  /// are possibly unsent.
  void check_unsure_signals(const std::vector<world_op>& unsure) {
    if (unsure.empty()) return;
    progress round(all_, sending::held, options_.buffers);
    round.run({.is_woken = is_woken(), .unsent = unsure});
    if (is_complete(round)) return;
    const auto wanted =
        std::find_if(unsure.begin(), unsure.end(), [&](world_op id) { return !round.has_completed(all_.partner(id)); });
    out_.add(all_.about(property::progress, *wanted,
                        all_.words_for(*wanted) + " may be incomplete when the round ends at op " +
                            std::to_string(all_.program(all_.rank_of(*wanted)).exit()) + ", and " +
                            all_.words_for(all_.partner(*wanted)) + " then waits forever"));
  }

  // --- guards ----------------------------------------------------------------------------------------------

  /// Returns one round for each combination of guards that are true together. The combinations repeat after the least
  /// common multiple of the periods.
  std::vector<round_no> kinds_of_rounds() {
    std::set<std::pair<std::uint32_t, std::uint32_t>> periods;
    for (const schedule_ptr& program : world_)
      for (const guard& when : program->guards()) periods.emplace(when.every, when.phase);
    round_no all = 1;
    for (const auto& [every, phase] : periods) all = std::min(std::lcm(all, round_no{every}), k_most_rounds + 1);
    if (all > k_most_rounds)
      out_.add(
          {.what = property::form,
           .text = "the guards repeat together only after more than " + std::to_string(k_most_rounds) + " rounds"});
    std::set<std::vector<bool>> seen;
    std::vector<round_no> kinds;
    for (round_no round = 1; round <= all; ++round) {
      std::vector<bool> due;
      for (const auto& [every, phase] : periods) due.push_back(is_due({.every = every, .phase = phase}, round));
      if (seen.insert(std::move(due)).second) kinds.push_back(round);
    }
    return kinds;
  }

  // --- causal history and cost -----------------------------------------------------------------------------

  void check_causal_history(const std::vector<world_op>& order, const std::vector<std::vector<bool>>& fired_by_end) {
    const causal_history history = causal_history_of(all_, order, fired_by_end);
    answer_.is_synchronising = true;
    for (rank r = 0; r < all_.size(); ++r) {
      const rank other = history.unheard[static_cast<std::size_t>(r)];
      if (other == k_no_rank) continue;
      answer_.is_synchronising = false;
      const bool is_declared = all_.program(r).is_synchronising();
      if (!is_declared && !promise_.is_synchronising) break;
      out_.add(
          {.what = property::synchronising,
           .where = r,
           .op = all_.program(r).exit(),
           .peer = other,
           .text = rank_text(r) + " may end its round before " + rank_text(other) + " has entered the round, but " +
                   (is_declared ? "the schedule is declared synchronising" : "the collective must be synchronising")});
    }
    answer_.unexpected.assign(world_.size(), {});
    for (const world_op id : order) {
      if (all_.at(id).kind != op_kind::recv || history.is_expected[id]) continue;
      unexpected_bound& bound = answer_.unexpected[static_cast<std::size_t>(all_.rank_of(id))];
      ++bound.messages;
      bound.bytes = saturating_sum(bound.bytes, most_bytes(all_.program(all_.rank_of(id)), all_.at(id)));
    }
  }

  /// Counts messages, bytes and signals. `full` must be a round in which every rank calls.
  void count_cost(const progress& full) {
    cost& total = answer_.round_cost;
    for (world_op id = 0; id < all_.op_count(); ++id) {
      if (all_.kind(id) == op_kind::send) {
        ++total.messages;
        total.bytes = saturating_sum(total.bytes, most_bytes(all_.program(all_.rank_of(id)), all_.at(id)));
      }
      if (all_.kind(id) == op_kind::signal_send && full.has_fired(id)) ++total.signals;
    }
    if (starts_.policy == activation_policy::none) total.signals_of_one = total.signals;
  }

  /// Counts the hops to the end of a round. This is the maximum over all ops that must have fired when the round ends.
  /// `fired_by_end`: by rank and op, true if the op must have fired.
  void count_hops(const progress& full, const std::vector<std::vector<bool>>& fired_by_end) {
    for (world_op id = 0; id < all_.op_count(); ++id)
      if (fired_by_end[static_cast<std::size_t>(all_.rank_of(id))][all_.id_of(id)])
        answer_.round_cost.hops = std::max<std::uint64_t>(answer_.round_cost.hops, full.hops_to(id));
  }

  void check_cost() {
    if (!promise_.round_cost) return;
    struct entry {
      const char* name;
      std::uint64_t cost::*field;
    };
    constexpr std::array<entry, 5> k_entries{
        {{"messages", &cost::messages},
         {"bytes", &cost::bytes},
         {"signals", &cost::signals},
         {"signals if as few ranks call as the round needs", &cost::signals_of_one},
         {"hops", &cost::hops}}};
    for (const auto& [name, field] : k_entries) {
      const std::uint64_t counted = answer_.round_cost.*field;
      const std::uint64_t declared = (*promise_.round_cost).*field;
      const bool is_bound = field == &cost::hops && promise_.round_cost->hops_are_bound;
      if (counted == declared || (is_bound && counted < declared)) continue;
      out_.add({.what = property::cost,
                .text = "a round takes " + std::to_string(counted) + " " + name + ", but " + std::to_string(declared) +
                        " are declared"});
    }
  }

  bool must_fire(world_op id) const {
    const op_kind kind = all_.kind(id);
    return is_payload(kind) || kind == op_kind::compute || kind == op_kind::capture || all_.is_exit(id);
  }
  /// Returns the first op that must fire but did not complete, or else the number of all ops.
  world_op first_stuck(const progress& round) const {
    world_op id = 0;
    while (id < all_.op_count() && (!must_fire(id) || round.has_completed(id))) ++id;
    return id;
  }
  bool is_complete(const progress& round) const { return first_stuck(round) == all_.op_count(); }
  bool is_woken() const { return starts_.is_woken(); }

  std::span<const schedule_ptr> world_;
  assembly all_;
  const postcondition& promise_;
  const verify_options& options_;
  const activation& starts_;
  finding_list& out_;
  finding_list& notes_;
  verification& answer_;
};

}  // namespace

std::string_view name_of(property what) {
  constexpr std::array<std::string_view, 10> names{"form",   "matching", "progress",   "holding", "activation",
                                                   "hazard", "contents", "expression", "cost",    "synchronising"};
  return names[static_cast<std::size_t>(what)];
}

unexpected_bound worst_unexpected(const verification& answer) {
  unexpected_bound worst;
  for (const unexpected_bound& bound : answer.unexpected)
    worst = std::max(worst, bound, [](const auto& x, const auto& y) {
      return std::pair(x.bytes, x.messages) < std::pair(y.bytes, y.messages);
    });
  return worst;
}

namespace {

verification prove(std::span<const schedule_ptr> world, const postcondition& promise, const verify_options& options) {
  finding_list out(std::max<std::size_t>(1, options.most_findings)), notes = out;
  verification answer;
  if (!world.empty()) check_schedules(world, promise, options.in_place, out);
  if (!world.empty() && out.is_empty()) proof(world, promise, options, out, notes, answer).run();
  answer.findings = out.take();
  answer.notes = notes.take();
  return answer;
}

/// Returns `answer` with every number of bytes converted by `change`.
template <class Change>
verification with_bytes(verification answer, const Change& change) {
  answer.round_cost.bytes = change(answer.round_cost.bytes);
  for (unexpected_bound& bound : answer.unexpected) bound.bytes = change(bound.bytes);
  return answer;
}

}  // namespace

verification verify(std::span<const schedule_ptr> world, const postcondition& promise, const verify_options& options) {
  const bool may_be_known = options.known != nullptr && !options.buffers.exists();
  const auto key = may_be_known ? key_of(world, promise, options.in_place) : std::nullopt;
  if (!key) return prove(world, promise, options);
  if (const auto known = options.known->worlds.find(key->hash))
    return with_bytes(*known, [&](std::uint64_t bytes) { return saturating_product(bytes, key->unit); });
  verification answer = prove(world, promise, options);
  const bool is_counted = std::max(answer.round_cost.bytes, worst_unexpected(answer).bytes) <= k_max_count;
  if (answer.holds() && answer.notes.empty() && is_counted)
    options.known->worlds.keep(key->hash, std::make_shared<const verification>(with_bytes(
                                              answer, [&](std::uint64_t bytes) { return bytes / key->unit; })));
  return answer;
}

}  // namespace lsched
