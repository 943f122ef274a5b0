#include "libsched/verify/verify.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <string>

#include "libsched/schedule/geometry.h"
#include "libsched/verify/assembly.h"
#include "libsched/verify/causal_history.h"
#include "libsched/verify/contents.h"
#include "libsched/verify/form.h"
#include "libsched/verify/hazards.h"
#include "libsched/verify/progress.h"
#include "ops/counted.h"

namespace lsched {
namespace {

/// Of which kinds_of_rounds looks at the guards.
constexpr round_no k_most_rounds = k_longest_period;

std::string rank_text(rank r) { return "rank " + std::to_string(r); }

/// One proof, part by part. Each part stands on the ones before it, so the first that fails ends the proof, except
/// where the next ones make sense nevertheless.
class proof {
 public:
  proof(std::span<const schedule_ptr> world, const postcondition& promise, const verify_options& options)
      : world_(world),
        promise_(promise),
        options_(options),
        out_(std::max<std::size_t>(1, options.most_findings)),
        notes_(std::max<std::size_t>(1, options.most_findings)) {}

  verification run() {
    prove();
    answer_.findings = out_.take();
    answer_.notes = notes_.take();
    return std::move(answer_);
  }

 private:
  void prove();
  bool check_forms();
  bool check_agreement();
  bool check_data();
  void check_first(const schedule& mine, buffer_role role, std::optional<std::uint64_t> count, std::string_view name);
  void count_price(const assembly& all, const progress& full);
  bool check_progress(const assembly& all, const progress& round);
  void check_unsure_signals(const assembly& all, const std::vector<world_op>& unsure);
  void check_rest(const assembly& all);
  void check_activation(const assembly& all, const std::vector<world_op>& order);
  const std::vector<bool>& called(rank first, rank number);
  void check_woken(const assembly& all, const progress& wake, const std::vector<world_op>& captures,
                   const std::vector<std::uint32_t>& rest);
  void check_asleep(const assembly& all, const progress& wake, const std::vector<world_op>& captures);
  void check_signals(const assembly& all, const progress& wake);
  void check_full_round(const assembly& all, const std::vector<world_op>& captures);
  std::vector<std::uint32_t> hops_from_here(const assembly& all, const std::vector<world_op>& order) const;
  std::vector<round_no> kinds_of_rounds();
  bool has_guards() const;
  void check_contents(const assembly& all, const progress& round);
  void check_causal_history(const assembly& all, const std::vector<world_op>& order);
  void check_price();

  bool is_woken_by_signals() const { return world_.front()->starts().is_woken(); }
  static bool must_fire(const assembly& all, world_op it) {
    const op_kind kind = all.kind(it);
    return is_payload(kind) || kind == op_kind::compute || kind == op_kind::capture ||
           all.id_of(it) == all.program(all.rank_of(it)).exit();
  }
  static bool is_complete(const assembly& all, const progress& round);

  std::span<const schedule_ptr> world_;
  const postcondition& promise_;
  const verify_options options_;
  finding_list out_;
  finding_list notes_;
  verification answer_;
  std::vector<bool> callers_;  ///< by rank: of the activation that is tried, with the first of them
  rank first_caller_ = 0;
  std::string calls_in_words_;
};

void proof::prove() {
  if (world_.empty() || !check_forms() || !check_agreement() || !check_data()) return;
  assembly all(world_);
  all.match(out_);
  if (!out_.is_empty()) return;
  progress eager(all, sending::eager);
  eager.run({});
  answer_.is_eager_safe = is_complete(all, eager);
  count_price(all, eager);
  const round_start start{.is_woken = is_woken_by_signals()};
  if (start.is_woken) eager.run(start);
  progress round(all, sending::held);
  round.run(start);
  if (!check_progress(all, round)) return;
  if (world_.front()->is_partial()) check_rest(all);
  if (start.is_woken) check_activation(all, eager.order());

  hazards dangers(all, eager.order(), options_.in_place);
  for (rank r = 0; r < all.size() && !out_.is_full(); ++r) dangers.check(r, out_, notes_);
  if (!out_.is_empty()) return;
  check_unsure_signals(all, dangers.unsure_signals());
  if (!out_.is_empty()) return;
  for (const round_no kind : kinds_of_rounds()) {
    if (has_guards()) round.run({.is_woken = start.is_woken, .guards = kind});
    if (!check_progress(all, round)) return;
    check_contents(all, round);
  }
  check_causal_history(all, eager.order());
  check_price();
}

/// Rounds in which other guards are due than in any before. Beyond the least common multiple nothing is new.
std::vector<round_no> proof::kinds_of_rounds() {
  std::set<guard, decltype([](const guard& x, const guard& y) { return x.every < y.every; })> periods;
  for (const schedule_ptr& it : world_) periods.insert(it->guards().begin(), it->guards().end());
  round_no all = 1;
  for (const guard& it : periods) all = std::min(std::lcm(all, round_no{it.every}), k_most_rounds + 1);
  if (all > k_most_rounds)
    out_.add({.what = property::form,
              .text = "the periods of guards meet again after more than " + std::to_string(k_most_rounds) + " rounds"});
  std::set<std::vector<bool>> seen;
  std::vector<round_no> kinds;
  for (round_no round = 1; round <= all; ++round) {
    std::vector<bool> due;
    for (const guard& it : periods) due.push_back(is_due(it, round));
    if (seen.insert(std::move(due)).second) kinds.push_back(round);
  }
  return kinds;
}

bool proof::has_guards() const {
  return std::ranges::any_of(world_, [](const schedule_ptr& it) { return !it->guards().empty(); });
}

void proof::check_contents(const assembly& all, const progress& round) {
  contents symbols(all, options_.in_place, out_);
  symbols.run(round);
  symbols.check(promise_);
}

bool proof::check_forms() {
  const auto size = static_cast<rank>(world_.size());
  for (rank r = 0; r < size && !out_.is_full(); ++r)
    check_form(*world_[static_cast<std::size_t>(r)], {.self = r, .size = size}, options_.in_place, out_);
  return out_.is_empty();
}

/// Declarations are the whole world's.
bool proof::check_agreement() {
  const schedule& first = *world_.front();
  for (const schedule_ptr& it : world_) {
    if (it->starts() == first.starts() && it->is_synchronising() == first.is_synchronising()) continue;
    out_.add({.what = property::form,
              .where = it->place().self,
              .text = rank_text(it->place().self) + " declares another activation or synchronisation than rank 0"});
  }
  return out_.is_empty();
}

/// Where ranks have other data than the promise speaks of, its ranges say nothing.
bool proof::check_data() {
  for (std::size_t r = 0; promise_.data && r < world_.size() && !out_.is_full(); ++r) {
    const extents& wanted = promise_.data->at(static_cast<rank>(r));
    check_first(*world_[r], buffer_role::input, wanted.input, "input");
    check_first(*world_[r], buffer_role::output, wanted.output, "output");
  }
  return out_.is_empty();
}

void proof::check_first(const schedule& mine, buffer_role role, std::optional<std::uint64_t> count,
                        std::string_view name) {
  const auto text = [](std::uint64_t elements, dtype type) {
    return std::to_string(elements) + " x " + std::string(name_of(type));
  };
  const auto first = std::ranges::find(mine.buffers(), role, &buffer::role);
  const bool exists = first != mine.buffers().end();
  if (exists ? count == first->count && first->type == promise_.data->type : !count) return;
  const rank who = mine.place().self;
  out_.add({.what = property::form,
            .where = who,
            .buffer = exists ? static_cast<std::uint16_t>(first - mine.buffers().begin()) : k_no_buffer,
            .text = rank_text(who) + " has " + (exists ? text(first->count, first->type) + " as its" : "no") + " " +
                    std::string(name) + ", but " + (count ? text(*count, promise_.data->type) : "none") +
                    (promise_.data->of.size() == 1 ? " are promised of every rank" : " is promised of it")});
}

// --- progress ----------------------------------------------------------------------------------------------

bool proof::is_complete(const assembly& all, const progress& round) {
  for (world_op it = 0; it < all.op_count(); ++it)
    if (must_fire(all, it) && !round.has_completed(it)) return false;
  return true;
}

/// The first op that is stuck tells the story of all.
bool proof::check_progress(const assembly& all, const progress& round) {
  world_op stuck = 0;
  while (stuck < all.op_count() && (!must_fire(all, stuck) || round.has_completed(stuck))) ++stuck;
  if (stuck == all.op_count()) return true;
  progress plain(all, sending::rendezvous);
  plain.run({.is_woken = is_woken_by_signals()});
  const bool is_held = is_complete(all, plain);
  const std::string excuse = is_held                 ? "; without holding payloads back it would complete"
                             : answer_.is_eager_safe ? "; with enough buffers for messages it would complete"
                                                     : "";
  out_.add({.what = is_held ? property::holding : property::progress,
            .where = all.rank_of(stuck),
            .op = all.id_of(stuck),
            .peer = all.at(stuck).peer,
            .text = round.words_for_wait(stuck) + excuse});
  return false;
}

/// A rank's round may end before it has sent these. So everything has to happen without them: they may only wake.
void proof::check_unsure_signals(const assembly& all, const std::vector<world_op>& unsure) {
  if (unsure.empty()) return;
  progress round(all, sending::held);
  round.run({.is_woken = is_woken_by_signals(), .unsent = unsure});
  if (is_complete(all, round)) return;
  const auto wanted =
      std::find_if(unsure.begin(), unsure.end(), [&](world_op it) { return !round.has_completed(all.partner(it)); });
  out_.add({.what = property::progress,
            .where = all.rank_of(*wanted),
            .op = all.id_of(*wanted),
            .peer = all.at(*wanted).peer,
            .text = all.words_for(*wanted) + " may be left out: the round can end at op " +
                    std::to_string(all.program(all.rank_of(*wanted)).exit()) + " without it, and " +
                    all.words_for(all.partner(*wanted)) + " then waits for nothing"});
}

// --- activation --------------------------------------------------------------------------------------------

/// For each op, the longest chain of messages and signals from its completion to any exit.
std::vector<std::uint32_t> proof::hops_from_here(const assembly& all, const std::vector<world_op>& order) const {
  std::vector<std::uint32_t> hops(all.op_count(), 0);
  for (auto next = order.rbegin(); next != order.rend(); ++next) {
    const world_op it = *next;
    for (const world_op after : all.successors(it)) hops[it] = std::max(hops[it], hops[after]);
    const op_kind kind = all.kind(it);
    if (kind == op_kind::send || kind == op_kind::signal_send) hops[it] = std::max(hops[it], 1 + hops[all.partner(it)]);
  }
  return hops;
}

/// Nobody calls, so nobody may wake, send or tell others.
void proof::check_rest(const assembly& all) {
  progress rest(all, sending::eager);
  const std::vector<bool> nobody(world_.size());
  rest.run({.callers = &nobody});
  for (world_op it = 0; it < all.op_count(); ++it) {
    const op_kind kind = all.kind(it);
    const bool is_still = kind != op_kind::capture && kind != op_kind::send && kind != op_kind::signal_send;
    if (is_still || !rest.has_fired(it)) continue;
    return out_.add({.what = property::activation,
                     .where = all.rank_of(it),
                     .op = all.id_of(it),
                     .text = all.words_for(it) + " fires though nobody calls"});
  }
}

/// `order` has shown that all payload moves once every capture is given. So it is enough to run, for sets of callers
/// that are just large enough, what comes before the captures. More callers only add. Where it takes several, those who
/// count them count any: sets in which each rank is once the first are enough, and a rank less must not be.
void proof::check_activation(const assembly& all, const std::vector<world_op>& order) {
  const std::vector<std::uint32_t> rest = hops_from_here(all, order);
  const auto size = static_cast<rank>(world_.size());
  const rank arrivals = std::clamp(quota_of(world_.front()->starts(), size).arrivals, rank{1}, size);
  std::vector<world_op> captures;
  for (world_op it = 0; it < all.op_count(); ++it)
    if (all.kind(it) == op_kind::capture) captures.push_back(it);
  answer_.price.hops = 0;
  progress wake(all, sending::eager);
  for (rank first = 0; first < size && !out_.is_full(); ++first) {
    wake.run({.callers = &called(first, arrivals), .stops_at_captures = true});
    check_woken(all, wake, captures, rest);
    check_signals(all, wake);
    if (arrivals == 1) continue;
    wake.run({.callers = &called(first, arrivals - 1), .stops_at_captures = true});
    check_asleep(all, wake, captures);
  }
  if (world_.front()->starts().full_every != 0) check_full_round(all, captures);
}

/// `number` ranks from `first` on call.
const std::vector<bool>& proof::called(rank first, rank number) {
  callers_.assign(world_.size(), false);
  for (rank i = 0; i < number; ++i)
    callers_[static_cast<std::size_t>(ring_after(first, i, static_cast<rank>(world_.size())))] = true;
  first_caller_ = first;
  const std::string others = number == 1 ? "" : " and of the " + counted(number - 1, "rank") + " after it";
  calls_in_words_ = "a call of " + rank_text(first) + others + " alone";
  return callers_;
}

void proof::check_woken(const assembly& all, const progress& wake, const std::vector<world_op>& captures,
                        const std::vector<std::uint32_t>& rest) {
  for (const world_op it : captures) {
    if (!wake.has_completed(it))
      return out_.add({.what = property::activation,
                       .where = all.rank_of(it),
                       .op = all.id_of(it),
                       .peer = first_caller_,
                       .text = calls_in_words_ + " does not wake " + all.words_for(it)});
    answer_.price.hops = std::max<std::uint64_t>(answer_.price.hops, wake.hops_to(it) + rest[it]);
  }
}

void proof::check_asleep(const assembly& all, const progress& wake, const std::vector<world_op>& captures) {
  for (const world_op it : captures)
    if (wake.has_completed(it))
      return out_.add({.what = property::activation,
                       .where = all.rank_of(it),
                       .op = all.id_of(it),
                       .peer = first_caller_,
                       .text = calls_in_words_ + " wakes " + all.words_for(it) + ", though it takes one more"});
}

void proof::check_signals(const assembly& all, const progress& wake) {
  std::uint64_t signals = 0;
  for (const world_op it : wake.order())
    if (all.kind(it) == op_kind::signal_send) ++signals;
  // The coordinator counts its own call without one.
  const bool is_spared = quota_of(world_.front()->starts(), all.size()).arrivals > 1 && callers_[k_coordinator] &&
                         std::ranges::count(callers_, true) < std::ptrdiff_t{all.size()};
  const std::uint64_t counted = signals + (is_spared ? 1 : 0);
  answer_.price.signals_of_one = std::max(answer_.price.signals_of_one, counted);
  const auto declared = promise_.price ? promise_.price->signals_of_one : promise_.signals_of_one;
  if (!declared || counted == *declared) return;
  out_.add({.what = property::activation,
            .where = first_caller_,
            .text = calls_in_words_ + " takes " + lsched::counted(signals, "signal") + ", not " +
                    std::to_string(*declared - (is_spared ? 1 : 0))});
}

/// Everybody calls, and every gate opens by that alone: nothing that others do could have opened it.
void proof::check_full_round(const assembly& all, const std::vector<world_op>& captures) {
  progress round(all, sending::eager);
  round.run({.is_full = true, .stops_at_captures = true});
  for (const world_op it : captures)
    if (!round.has_completed(it))
      return out_.add({.what = property::activation,
                       .where = all.rank_of(it),
                       .op = all.id_of(it),
                       .text = "in a round that waits for everybody, the own call does not open " + all.words_for(it)});
  for (const world_op it : round.order())
    if (all.kind(it) == op_kind::signal_send || all.kind(it) == op_kind::send)
      return out_.add({.what = property::activation,
                       .where = all.rank_of(it),
                       .op = all.id_of(it),
                       .text = "in a round that waits for everybody, " + all.words_for(it) + " fires before the gate"});
}

// --- causal history and cost -----------------------------------------------------------------------------------

void proof::check_causal_history(const assembly& all, const std::vector<world_op>& order) {
  const causal_history known(all, order);
  answer_.is_synchronising = true;
  for (rank r = 0; r < all.size(); ++r) {
    const rank other = known.unheard_of(r);
    if (other == k_no_rank) continue;
    answer_.is_synchronising = false;
    const bool is_declared = all.program(r).is_synchronising();
    if (!is_declared && !promise_.is_synchronising) break;
    out_.add({.what = property::synchronising,
              .where = r,
              .op = all.program(r).exit(),
              .peer = other,
              .text = rank_text(r) + " may end its round before " + rank_text(other) + " has entered it, but " +
                      (is_declared ? "is declared synchronising" : "a synchronising world is promised")});
  }
  answer_.unexpected.assign(world_.size(), {});
  for (const world_op it : order) {
    if (all.at(it).kind != op_kind::recv || known.is_expected(it)) continue;
    unexpected_bound& bound = answer_.unexpected[static_cast<std::size_t>(all.rank_of(it))];
    ++bound.messages;
    bound.bytes += most_bytes(all.program(all.rank_of(it)), all.at(it));
  }
}

/// `full`: everybody calls.
void proof::count_price(const assembly& all, const progress& full) {
  cost& price = answer_.price;
  for (world_op it = 0; it < all.op_count(); ++it) {
    const op& what = all.at(it);
    if (what.kind == op_kind::send) {
      ++price.messages;
      price.bytes += most_bytes(all.program(all.rank_of(it)), what);
    }
    if (what.kind == op_kind::signal_send && full.has_fired(it)) ++price.signals;
    const bool is_exit = all.id_of(it) == all.program(all.rank_of(it)).exit();
    if (is_exit && full.has_completed(it)) price.hops = std::max<std::uint64_t>(price.hops, full.hops_to(it));
  }
  if (world_.front()->starts().policy == activation_policy::none) price.signals_of_one = price.signals;
}

void proof::check_price() {
  if (!promise_.price) return;
  struct entry {
    const char* name;
    std::uint64_t cost::*field;
  };
  constexpr std::array<entry, 5> k_entries{{{"messages", &cost::messages},
                                            {"bytes", &cost::bytes},
                                            {"signals", &cost::signals},
                                            {"signals for a single call", &cost::signals_of_one},
                                            {"hops", &cost::hops}}};
  for (const auto& [name, field] : k_entries) {
    const std::uint64_t counted = answer_.price.*field;
    const std::uint64_t declared = (*promise_.price).*field;
    const bool is_bound = field == &cost::hops && promise_.price->hops_are_bound;
    if (counted == declared || (is_bound && counted < declared)) continue;
    out_.add({.what = property::price,
              .text = "a round takes " + std::to_string(counted) + " " + name + ", but " + std::to_string(declared) +
                      " are declared"});
  }
}

}  // namespace

std::string_view name_of(property what) {
  constexpr std::array<std::string_view, 10> names{"form",   "matching", "progress",   "holding", "activation",
                                                   "hazard", "contents", "expression", "price",   "synchronising"};
  return names[static_cast<std::size_t>(what)];
}

unexpected_bound worst_unexpected(const verification& answer) {
  unexpected_bound worst;
  for (const unexpected_bound& it : answer.unexpected)
    worst = std::max(worst, it, [](const auto& x, const auto& y) {
      return std::pair(x.bytes, x.messages) < std::pair(y.bytes, y.messages);
    });
  return worst;
}

verification verify(std::span<const schedule_ptr> world, const postcondition& promise, const verify_options& options) {
  return proof(world, promise, options).run();
}

}  // namespace lsched
