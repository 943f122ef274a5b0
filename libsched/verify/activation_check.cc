#include "libsched/verify/activation_check.h"

#include <algorithm>
#include <string>
#include <utility>

#include "libsched/schedule/geometry.h"
#include "libsched/verify/progress.h"
#include "ops/counted.h"

namespace lsched {
namespace {

class activation_check {
 public:
  activation_check(const assembly& all, const postcondition& promise, finding_list& out)
      : all_(all),
        promise_(promise),
        starts_(all.program(0).starts()),
        arrivals_(std::clamp(quota_of(starts_, all.size()).arrivals, rank{1}, all.size())),
        has_grace_(has_grace(starts_, all.size())),
        wake_(all, sending::eager),
        out_(out) {
    for (world_op id = 0; id < all.op_count(); ++id)
      if (all.kind(id) == op_kind::capture) captures_.push_back(id);
  }

  /// Checks that without any call, no rank captures, sends or signals. A grace would pass in this round.
  void check_rest() {
    const std::vector<bool> nobody(static_cast<std::size_t>(all_.size()));
    wake_.run({.callers = &nobody});
    for (world_op id = 0; id < all_.op_count(); ++id) {
      const op_kind kind = all_.kind(id);
      const bool is_still = kind != op_kind::capture && kind != op_kind::send && kind != op_kind::signal_send;
      if (is_still || !wake_.has_fired(id)) continue;
      return out_.add(all_.about(property::activation, id, all_.words_for(id) + " fires although no rank calls"));
    }
  }

  /// For each set of callers that is just large enough to start a round, runs the ops before the captures. Larger sets
  /// need no check, because additional callers only make more ops fire. If a round needs several calls, the calls of
  /// all ranks count alike. So for each rank, one set of consecutive ranks that begins with this rank suffices. With
  /// one caller less, the round must not start on any rank. With a grace, the round must start as soon as all remaining
  /// ranks have called, and must not start before either this event or the end of the grace.
  std::shared_ptr<const wake_cost> check_calls(memo<wake_cost>* known) {
    const fingerprint key = known == nullptr ? fingerprint() : key_of_calls();
    if (known != nullptr)
      if (auto answer = known->find(key)) return answer;
    auto found = std::make_shared<wake_cost>();
    found->hops.assign(captures_.size(), 0);
    std::uint64_t signals = 0;
    for (rank first = 0; first < all_.size() && !out_.is_full(); ++first) {
      if (first == 0 || arrivals_ < all_.size()) {  // if all ranks must call, all sets are equal
        call(first, arrivals_);
        check_woken(*found);
        signals = signals_sent();
      }
      found->signals.push_back(signals);
      if (has_grace_) check_grace(first, *found);
      if (arrivals_ == 1) continue;
      call(first, arrivals_ - 1);
      check_asleep(", although one more call is required");
    }
    if (known != nullptr && out_.is_empty()) known->keep(key, found);
    return found;
  }

  void check_cost(const wake_cost& found, const std::vector<world_op>& order, cost& total) {
    const std::vector<std::uint32_t> rest = hops_from_here(order);
    total.hops = 0;
    for (std::size_t i = 0; i < captures_.size(); ++i)
      total.hops = std::max<std::uint64_t>(total.hops, found.hops[i] + rest[captures_[i]]);
    for (rank first = 0; first < static_cast<rank>(found.signals.size()) && !out_.is_full(); ++first)
      check_signals(first, found.signals[static_cast<std::size_t>(first)], total);
  }

  /// Checks rounds that wait for all ranks. Every rank's capture must follow from the rank's own call. No op may send
  /// before the captures, so that no other rank can cause a capture.
  void check_full_round() {
    if (!starts_.has_full_call()) return;
    wake_.run({.is_full = true, .stops_at_captures = true});
    for (const world_op id : captures_)
      if (!wake_.has_completed(id))
        return out_.add(
            all_.about(property::activation, id,
                       "in a round that waits for all ranks, the rank's own call does not open " + all_.words_for(id)));
    for (const world_op id : wake_.order())
      if (is_outgoing(all_.kind(id)))
        return out_.add(
            all_.about(property::activation, id,
                       "in a round that waits for all ranks, " + all_.words_for(id) + " fires before the gate"));
  }

 private:
  bool calls(rank r, rank first, rank number) const { return (r - first + all_.size()) % all_.size() < number; }

  /// Runs a round in which `number` consecutive ranks call, beginning with rank `first`. If the round has a grace, the
  /// grace passes if `passes_grace` is true. `present`: the ranks that have not left, ascending; null: all ranks.
  void call(rank first, rank number, bool passes_grace = true, const std::vector<rank>* present = nullptr) {
    callers_.resize(static_cast<std::size_t>(all_.size()));
    for (rank r = 0; r < all_.size(); ++r) callers_[static_cast<std::size_t>(r)] = calls(r, first, number);
    wake_.run({.callers = &callers_, .passes_grace = passes_grace, .present = present, .stops_at_captures = true});
    first_caller_ = first;
    number_of_callers_ = number;
  }

  /// Checks the rounds that start without the end of the grace. First all ranks are present, then all ranks except
  /// `one`, and then only rank `one`. Calls of ranks that have left do not count.
  void check_grace(rank one, wake_cost& found) {
    const rank size = all_.size();
    call(one, arrivals_, false);
    check_asleep(", although neither all ranks have called nor the grace has passed");
    if (one == 0) {  // in the rounds of other ranks, the calls of all ranks would be equal
      call(one, size, false);
      check_woken(found);
    }
    std::vector<rank> others;
    for (rank r = 0; r < size; ++r)
      if (r != one) others.push_back(r);
    call(one, size, false, &others);
    check_woken(found, ", after rank " + std::to_string(one) + " has left,");
    call(one, size - 1, false, &others);
    check_asleep(", although rank " + std::to_string(one) + " has left, and another rank has not called");
    const std::vector<rank> alone{one};
    call(one, 1, false, &alone);
    check_woken(found, ", after the other ranks have left,");
    call((one + 1) % size, size - 1, true, &alone);
    check_asleep(", although these ranks have left");
  }

  std::string words_for_calls(rank first, rank number) const {
    const std::string others = number == 1 ? "" : " and of the " + counted(number - 1, "rank") + " after it";
    return "a call of rank " + std::to_string(first) + others + " alone";
  }

  void object_to_wake(world_op id, const std::string& why) {
    finding found = all_.about(property::activation, id, words_for_calls(first_caller_, number_of_callers_) + why);
    found.peer = first_caller_;
    out_.add(std::move(found));
  }

  void check_woken(wake_cost& found, const std::string& when = {}) {
    for (std::size_t i = 0; i < captures_.size(); ++i) {
      if (!wake_.has_completed(captures_[i]))
        return object_to_wake(captures_[i], when + " does not wake " + all_.words_for(captures_[i]));
      found.hops[i] = std::max(found.hops[i], wake_.hops_to(captures_[i]));
    }
  }

  void check_asleep(const std::string& although) {
    const auto woken = std::ranges::find_if(captures_, [&](world_op id) { return wake_.has_completed(id); });
    if (woken != captures_.end()) object_to_wake(*woken, " wakes " + all_.words_for(*woken) + although);
  }

  std::uint64_t signals_sent() const {
    return static_cast<std::uint64_t>(
        std::ranges::count(wake_.order(), op_kind::signal_send, [&](world_op id) { return all_.kind(id); }));
  }

  void check_signals(rank first, std::uint64_t signals, cost& total) {
    // If the coordinator itself calls, the round needs one signal less, because the coordinator counts its own call.
    const bool is_spared =
        has_coordinator(starts_, all_.size()) && arrivals_ < all_.size() && calls(k_coordinator, first, arrivals_);
    const std::uint64_t counted = signals + (is_spared ? 1 : 0);
    total.signals_of_one = std::max(total.signals_of_one, counted);
    const auto declared = promise_.round_cost ? promise_.round_cost->signals_of_one : promise_.signals_of_one;
    if (!declared || counted == *declared) return;
    out_.add({.what = property::activation,
              .where = first,
              .text = words_for_calls(first, arrivals_) + " takes " + lsched::counted(signals, "signal") + ", not " +
                      std::to_string(*declared - (is_spared ? 1 : 0))});
  }

  /// Returns, for each op, the length of the longest chain of messages and signals from the op's completion to any
  /// exit.
  std::vector<std::uint32_t> hops_from_here(const std::vector<world_op>& order) const {
    std::vector<std::uint32_t> hops(all_.op_count(), 0);
    for (auto next = order.rbegin(); next != order.rend(); ++next) {
      const world_op id = *next;
      for (const world_op after : all_.successors(id)) hops[id] = std::max(hops[id], hops[after]);
      if (is_outgoing(all_.kind(id))) hops[id] = std::max(hops[id], 1 + hops[all_.partner(id)]);
    }
    return hops;
  }

  /// Returns the ops that can complete before a capture, in ascending order: the ops to which the roots lead.
  std::vector<world_op> ops_before_captures() const {
    std::vector<bool> is_found(all_.op_count());
    std::vector<world_op> found;
    const auto add = [&](world_op id) {
      if (id == k_no_world_op || is_found[id]) return;
      is_found[id] = true;
      found.push_back(id);
    };
    for (world_op id = 0; id < all_.op_count(); ++id)
      if (all_.need(id) == 0 && (!is_incoming(all_.kind(id)) || all_.is_call(id))) add(id);
    for (std::size_t i = 0; i < found.size(); ++i) {
      const world_op id = found[i];
      if (all_.kind(id) == op_kind::capture) continue;
      for (const world_op after : all_.successors(id)) add(after);
      if (is_outgoing(all_.kind(id))) add(all_.partner(id));
    }
    std::ranges::sort(found);
    return found;
  }

  /// Returns the hash of the graph of the ops that can complete before the captures.
  fingerprint key_of_calls() const {
    std::vector<std::uint32_t> place(all_.op_count(), k_no_world_op);
    const std::vector<world_op> ops = ops_before_captures();
    for (std::uint32_t i = 0; i < ops.size(); ++i) place[ops[i]] = i;
    word_hash key;
    key.add(static_cast<std::uint32_t>(all_.size()));
    key.add(static_cast<std::uint32_t>(arrivals_));
    key.add(has_grace_ ? 1u : 0u);
    key.add(captures_.size());
    key.add(ops.size());
    for (const world_op id : ops) {
      const op& o = all_.at(id);
      const world_op partner = all_.partner(id);
      for (const auto word : {static_cast<std::uint32_t>(o.kind), static_cast<std::uint32_t>(all_.rank_of(id)), o.need,
                              all_.is_call(id) ? o.tag : 0, partner == k_no_world_op ? partner : place[partner]})
        key.add(word);
      for (const world_op after : all_.successors(id))
        if (place[after] != k_no_world_op) key.add(place[after]);
      key.add(k_no_world_op);
    }
    return key.value();
  }

  const assembly& all_;
  const postcondition& promise_;
  const activation& starts_;
  const rank arrivals_;
  const bool has_grace_;
  progress wake_;
  finding_list& out_;
  std::vector<world_op> captures_;
  std::vector<bool> callers_;  ///< by rank: true if the rank calls in the current run
  rank first_caller_ = 0;
  rank number_of_callers_ = 0;
};

}  // namespace

void check_activation(const assembly& all, const std::vector<world_op>& order, const postcondition& promise,
                      memo<wake_cost>* known, cost& total, finding_list& out) {
  activation_check check(all, promise, out);
  check.check_rest();
  if (!all.program(0).starts().is_woken()) return;
  check.check_cost(*check.check_calls(known), order, total);
  check.check_full_round();
}

}  // namespace lsched
