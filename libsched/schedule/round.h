// The round rule, which defines one round of a schedule. Engine, verify, simulator and explorer all execute rounds by
// instantiating round_player. None of them decides by itself which op fires, or how firing changes the round.
//
//   1. An op has one integer, `need`, the number of incoming tokens that the op waits for.
//      need == in-degree is "all", need == 1 is "any", anything between is a quorum; need == 0 is a root.
//   2. In one round an op fires at most once: when its need-th token arrives. Tokens that arrive later in that round
//      are absorbed. A round begins with the roots.
//   3. A completed op gives one token to each of its successors. Tokens never cross rounds: a counter carries the round
//      it belongs to, so re-arming a schedule touches no counter.
//   4. An op whose guard does not hold is void: it fires as usual, moves and computes nothing, and completes.
//   5. A receive of a signal fires when its register satisfies the round. The application's own call is such a
//      register; whether the call counts in a round follows from the activation (round_calls).
//   6. A round ends when the exit op and every op that has fired have completed, and no op is enqueued. A signal
//      receive that waits for its register does not keep the round open.
//   7. A round that is cancelled or fails ends at once: no op fires any more, and ops that complete give no tokens.
//      The interpreter must not call the player for this round again. Earlier rounds are not affected.
//
// tests/libsched/firing_test.cc checks rules 1 to 3 against a reference for every DAG of up to five ops.
// docs/inside/firing.md has the pictures.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "libsched/schedule/draw.h"
#include "libsched/schedule/schedule.h"

namespace lsched {

// --- tokens --------------------------------------------------------------------------------------------------

/// Tokens that an op has received, and the round they belong to.
struct token_count {
  round_no stamp = 0;
  std::uint32_t tokens = 0;

  /// Adds a token of `round`. Returns the number of tokens that the op has now.
  constexpr std::uint32_t add(round_no round) {
    if (stamp != round) *this = {round, 0};
    return ++tokens;
  }
  constexpr std::uint32_t in(round_no round) const { return stamp == round ? tokens : 0; }
};

/// Returns true if an op with this need fires at its `tokens`-th token.
constexpr bool fires_at(std::uint32_t tokens, std::uint32_t need) { return tokens == need; }

/// Returns true if an op has the tokens that it waits for.
constexpr bool is_enabled(std::uint32_t tokens, std::uint32_t need) { return tokens >= need; }

// --- guards --------------------------------------------------------------------------------------------------

/// Returns true if the period and phase of a guard include the round. Lists are not considered.
constexpr bool is_due(const guard& when, round_no round) { return (round - 1 + when.phase) % when.every == 0; }

/// Returns true if an op with this guard is void in the round. items() returns the number of items in the lists that
/// the op moves. It is called only if the guard skips empty lists.
template <class Items>
constexpr bool is_void(const guard& when, round_no round, const Items& items) {
  return !is_due(when, round) || (when.skips_empty && items() == 0);
}

// --- registers and calls -------------------------------------------------------------------------------------

/// Returns true if a register satisfies the round. A register holds the highest round known active, and satisfies every
/// round up to that.
constexpr bool satisfies(std::uint64_t register_value, round_no round) { return register_value >= round; }

/// Value of a register whose writer will never signal again.
inline constexpr round_no k_last_round = ~round_no{0};

constexpr bool is_call(const op& o, rank self) { return o.kind == op_kind::signal_recv && o.peer == self; }

/// Returns true if the call op signals that the rank has waited for the deadline, rather than that the rank has called.
constexpr bool is_deadline_call(const op& call, const activation& starts) {
  return starts.policy == activation_policy::deadline && call.tag != k_full_call_tag;
}

/// Returns true if the op communicates with another rank.
constexpr bool has_edge(const op& o, rank self) { return is_communication(o.kind) && o.peer != self; }

/// Decides which calls count in a round. A rank has one call op, and possibly a second call op for rounds that wait for
/// every rank.
///
/// A rank that has left counts as having called in every round. If such calls started rounds, rounds would follow each
/// other without end. So these calls count in two cases only: if the round waits for every rank, or if fewer ranks
/// remain than have to call. In the second case all remaining ranks have to call, and the lowest ranks that have left
/// make up the number.
class round_calls {
 public:
  explicit round_calls(const activation& starts = {}, rank size = 0)
      : starts_(starts),
        quota_(quota_of(starts, size)),
        is_drawn_(quota_.candidates < size),
        drawn_(is_drawn_ ? size : 0) {}

  /// Opens a round and draws its candidates, unless all ranks are candidates. `present`: the remaining ranks,
  /// ascending.
  void open(round_no round, std::span<const rank> present) {
    waits_for_all_ = starts_.is_woken() && starts_.is_full(round);
    if (is_drawn_) drawn_.draw(starts_.seed, round, present, quota_.candidates);
  }

  /// Opens a round of a scenario, without a draw. The round waits for every rank, or every rank is a candidate and the
  /// scenario decides which ranks call.
  void open_scenario(bool waits_for_all) {
    waits_for_all_ = waits_for_all;
    is_drawn_ = false;
  }

  /// Makes a rank the only candidate, in place of the drawn ranks.
  void appoint(rank one) {
    is_drawn_ = true;
    drawn_.set_only(one);
  }

  bool waits_for_all() const { return waits_for_all_; }
  bool is_candidate(rank r) const { return !is_drawn_ || drawn_.holds(r); }

  /// Returns true if the call of `self` through the call op with this tag counts. `present`: the remaining ranks,
  /// ascending, or nullptr if no rank has left.
  bool counts(rank self, std::uint32_t tag, const std::vector<rank>* present) const {
    if (!starts_.is_woken()) return true;
    if (tag == k_full_call_tag) return waits_for_all_ || starts_.policy == activation_policy::deadline;
    if (waits_for_all_) return false;
    if (present == nullptr) return is_candidate(self);
    const auto place = std::ranges::lower_bound(*present, self);
    if (place != present->end() && *place == self) return is_candidate(self);
    const auto left_before = self - static_cast<rank>(place - present->begin());
    return left_before < quota_.arrivals - static_cast<rank>(present->size());
  }

 private:
  activation starts_;
  quota quota_;
  bool is_drawn_;
  drawn_ranks drawn_;
  bool waits_for_all_ = false;
};

// --- the player ----------------------------------------------------------------------------------------------

/// State of an op after the interpreter has started it.
enum class outcome : std::uint8_t {
  done,     ///< the op has completed
  pending,  ///< in flight: the interpreter calls finish() when the op has completed
  failed,   ///< the interpreter has ended the round
};

/// Executes rounds by the rule. The interpreter keeps the state and carries out ops. Its functions must not throw, and
/// must not call the player while a function of the player runs. A `number` identifies an op, of one rank or of a
/// world. The interpreter has these functions:
///
///   the schedule   const op& at(number) · std::uint32_t need(number) · successors(number) · bool is_exit(number)
///                  const guard* guard_of(number, op)
///   its state      std::uint32_t add_token(number to, number from): returns the tokens of `to`, this token included
///                  void mark(number): the op has completed · void exited(number): the exit op has completed
///                  void add_outstanding(number, int): changes the number of the rank's ops in flight
///   its queue      void enqueue(number): the op has its tokens, and the interpreter must call fire() for it; in FIFO
///                  order if the order in which ops fire is visible
///   the round      round_no round() · std::uint64_t items_of(number, op): items in the lists that the op moves
///   calls          const round_calls& calls() · rank rank_of(number) · const std::vector<rank>* present()
///   registers      round_no listen(number, op): value of the register of a signal receive, or of the rank's call; any
///                  value is valid that satisfies the same rounds up to the current round
///   ops            outcome nop, send, receive, compute, capture, signal (number, op); take_signal, for a signal
///                  receive whose register satisfies the round; pass_over, for a void op
template <class Interpreter>
class round_player {
 public:
  using number = typename Interpreter::number;
  explicit round_player(Interpreter& interpreter) : interpreter_(interpreter) {}

  /// Begins the round with the ops that wait for no token.
  template <class Roots>
  void begin(const Roots& roots) {
    for (const auto root : roots) interpreter_.enqueue(root);
  }

  /// Fires an op that was enqueued.
  void fire(number id) {
    const op& o = interpreter_.at(id);
    if (o.guard != 0 && is_void(id, o)) return settle(id, interpreter_.pass_over(id, o));
    switch (o.kind) {
      case op_kind::nop: return settle(id, interpreter_.nop(id, o));
      case op_kind::send: return settle(id, interpreter_.send(id, o));
      case op_kind::recv: return settle(id, interpreter_.receive(id, o));
      case op_kind::compute: return settle(id, interpreter_.compute(id, o));
      case op_kind::capture: return settle(id, interpreter_.capture(id, o));
      case op_kind::signal_send: return settle(id, interpreter_.signal(id, o));
      case op_kind::signal_recv: return hear(id);  // if the register does not satisfy the round yet, the op is armed
    }
  }

  /// Checks an armed signal receive, whose register may have changed, or is known to hold `value`.
  void hear(number id) { hear(id, interpreter_.listen(id, interpreter_.at(id))); }
  void hear(number id, round_no value) {
    const op& o = interpreter_.at(id);
    const rank self = interpreter_.rank_of(id);
    if (!satisfies(value, interpreter_.round())) return;
    if (is_call(o, self) && !interpreter_.calls().counts(self, o.tag, interpreter_.present())) return;
    settle(id, interpreter_.take_signal(id, o));
  }

  /// Continues an op that is armed or in flight. The register of a signal receive holds `value`. The message of a
  /// receive has arrived, and take() returns an outcome like receive(). Any other op has been carried out.
  template <class Take>
  void resume(number id, round_no value, const Take& take) {
    const op_kind kind = interpreter_.at(id).kind;
    if (kind == op_kind::signal_recv) return hear(id, value);
    if (kind != op_kind::recv || take() == outcome::done) finish(id);
  }

  /// Completes an op that was pending.
  void finish(number id) {
    interpreter_.add_outstanding(id, -1);
    complete(id);
  }

  bool is_void(number id, const op& o) const {
    const guard* const when = interpreter_.guard_of(id, o);
    return when != nullptr &&
           lsched::is_void(*when, interpreter_.round(), [&] { return interpreter_.items_of(id, o); });
  }

  /// Returns true if the application has called for the round after `last`, the latest round.
  static constexpr bool may_begin(round_no called, round_no last) { return satisfies(called, last + 1); }

  /// Returns true if an op with this number of tokens has fired.
  static constexpr bool has_fired(std::uint32_t tokens, std::uint32_t need) { return is_enabled(tokens, need); }

  /// Returns true if the round of a rank is over. `outstanding` is the number of its ops in flight.
  static constexpr bool is_over(bool has_exited, std::uint64_t enqueued, std::uint64_t outstanding) {
    return has_exited && enqueued == 0 && outstanding == 0;
  }

 private:
  void settle(number id, outcome now) {
    if (now == outcome::done) return complete(id);
    if (now == outcome::pending) interpreter_.add_outstanding(id, 1);
  }

  void complete(number id) {
    interpreter_.mark(id);
    if (interpreter_.is_exit(id)) interpreter_.exited(id);
    for (const auto after : interpreter_.successors(id))
      if (fires_at(interpreter_.add_token(after, id), interpreter_.need(after))) interpreter_.enqueue(after);
  }

  Interpreter& interpreter_;
};

}  // namespace lsched
