// The round rule, which defines the execution of one round of a schedule. The engine, the verifier, the simulator and
// the explorer all execute rounds by instantiating round_player. None of them has its own rule for which op fires, or
// for how a firing op changes the state of the round. (An op *fires* when its execution begins.)
//
//   1. Each op has an integer `need`, the number of tokens for which the op waits. If `need` equals the in-degree,
//      the op waits for all its deps; if `need` is 1, for any dep. A number between these two is a quorum. An op whose
//      `need` is 0 is a root.
//   2. In a round an op fires at most once, when token number `need` arrives. Tokens that arrive later in this round
//      have no effect. A round begins with the roots.
//   3. A completed op gives one token to each of its successors. Tokens do not count in other rounds: each token
//      counter stores the number of its round, so counters need no reset between rounds.
//   4. An op whose guard (a condition on the round, schedule.h) is false is void. A void op fires as usual, but
//      moves and computes nothing, and completes.
//   5. A signal receive that has its tokens is armed. Its register holds the highest round that was signaled. The
//      receive completes when the register holds at least the number of the round. The application's call to start
//      a round sets such a register, too. The activation defines whether that call has an effect in a round
//      (round_calls).
//   6. A round ends when the exit op has completed, every op that has fired has completed, and no op is enqueued. An
//      armed signal receive does not keep the round open.
//   7. A round that is cancelled or fails ends at once: no more ops fire, and ops that complete give no tokens. The
//      interpreter must not call the player again for this round.
//
// tests/libsched/schedule/firing_test.cc checks rules 1 to 3 against a reference for every DAG of up to five ops.
// docs/inside/firing.md explains the rule with pictures.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "libsched/schedule/draw.h"
#include "libsched/schedule/schedule.h"

namespace lsched {

// --- tokens --------------------------------------------------------------------------------------------------

/// The number of tokens that an op has received in round `stamp`.
struct token_count {
  round_no stamp = 0;
  std::uint32_t tokens = 0;

  /// Adds a token of `round`. Returns the new number of tokens.
  constexpr std::uint32_t add(round_no round) {
    if (stamp != round) *this = {round, 0};
    return ++tokens;
  }
  constexpr std::uint32_t in(round_no round) const { return stamp == round ? tokens : 0; }
};

/// Returns true if token number `tokens` makes an op with this `need` fire.
constexpr bool fires_at(std::uint32_t tokens, std::uint32_t need) { return tokens == need; }

/// Returns true if `tokens` tokens are enough for an op with this `need`.
constexpr bool is_enabled(std::uint32_t tokens, std::uint32_t need) { return tokens >= need; }

// --- guards --------------------------------------------------------------------------------------------------

/// Returns true if the guard, without regard to guard::skips_empty, is true in the round.
constexpr bool is_due(const guard& when, round_no round) { return (round - 1 + when.phase) % when.every == 0; }

/// Returns true if an op with guard `when` is void in the round. items() must return the number of items in the lists
/// that the op moves. It is called only if the guard skips empty lists.
template <class Items>
constexpr bool is_void(const guard& when, round_no round, const Items& items) {
  return !is_due(when, round) || (when.skips_empty && items() == 0);
}

// --- registers and calls -------------------------------------------------------------------------------------

/// Returns true if a register satisfies the round. A register holds the highest round that was signaled. It satisfies
/// that round and all earlier rounds.
constexpr bool satisfies(std::uint64_t register_value, round_no round) { return register_value >= round; }

/// Value of a register whose writer will never signal again.
inline constexpr round_no k_last_round = ~round_no{0};

constexpr bool is_call(const op& o, rank self) { return o.kind == op_kind::signal_recv && o.peer == self; }

/// Returns true if the call op means that the rank's deadline has passed, not that the application has called.
constexpr bool is_deadline_call(const op& call, const activation& starts) {
  return starts.policy == activation_policy::deadline && call.tag != k_full_call_tag;
}

/// Returns true if the call op completes by an event of the engine: the end of the grace, or a departure.
constexpr bool is_engine_call(const op& call) { return call.tag >= k_grace_tag; }

/// Returns true if the op communicates with another rank.
constexpr bool has_edge(const op& o, rank self) { return is_communication(o.kind) && o.peer != self; }

/// Decides which calls have an effect in a round. A rank has a call op, and possibly a second call op for rounds that
/// wait for every rank.
///
/// A rank that has left the world counts as having called in every round. Such calls must not start rounds, because
/// rounds would then start without end. So they have an effect in two cases only: if the round waits for every rank, or
/// if fewer ranks remain than the round needs calls. In the second case, all remaining ranks must call. The ranks with
/// the lowest numbers among the ranks that have left make the missing calls. With a grace, only the ops with tag
/// k_left_tag count for these ranks, and each of them counts in every round.
class round_calls {
 public:
  explicit round_calls(const activation& starts = {}, rank size = 0)
      : starts_(starts),
        quota_(quota_of(starts, size)),
        has_grace_(has_grace(starts, size)),
        is_drawn_(quota_.candidates < size),
        drawn_(is_drawn_ ? size : 0) {}

  /// Opens a round, and draws the candidates of this round unless all ranks are candidates. `present`: the ranks that
  /// have not left the world, ascending.
  void open(round_no round, std::span<const rank> present) {
    waits_for_all_ = starts_.is_woken() && starts_.is_full(round);
    if (is_drawn_) drawn_.draw(starts_.seed, round, present, quota_.candidates);
  }

  /// Opens a round of a scenario, in which the verifier or a test has chosen the ranks that call. No candidates are
  /// drawn. If `waits_for_all` is true, the round waits for every rank. Otherwise every rank is a candidate.
  void open_scenario(bool waits_for_all) {
    waits_for_all_ = waits_for_all;
    is_drawn_ = false;
  }

  /// Makes one rank the only candidate, and removes the drawn candidates.
  void appoint(rank one) {
    is_drawn_ = true;
    drawn_.set_only(one);
  }

  bool waits_for_all() const { return waits_for_all_; }
  bool is_candidate(rank r) const { return !is_drawn_ || drawn_.holds(r); }

  /// Returns true if the call op with tag `tag` of rank `self` has an effect in this round. `present`: the ranks that
  /// have not left the world, ascending, or nullptr if no rank has left.
  bool counts(rank self, std::uint32_t tag, const std::vector<rank>* present) const {
    if (!starts_.is_woken()) return true;
    if (tag == k_full_call_tag) return waits_for_all_ || starts_.policy == activation_policy::deadline;
    if (waits_for_all_) return false;
    if (tag == k_grace_tag) return has_grace_;
    if (tag >= k_left_tag) return has_grace_ && !is_present(static_cast<rank>(tag - k_left_tag), present);
    if (is_present(self, present)) return is_candidate(self);
    if (has_grace_) return false;
    const auto place = std::ranges::lower_bound(*present, self);
    const auto left_before = self - static_cast<rank>(place - present->begin());
    return left_before < quota_.arrivals - static_cast<rank>(present->size());
  }

 private:
  static bool is_present(rank r, const std::vector<rank>* present) {
    return present == nullptr || std::ranges::binary_search(*present, r);
  }

  activation starts_;
  quota quota_;
  bool has_grace_;
  bool is_drawn_;
  drawn_ranks drawn_;
  bool waits_for_all_ = false;
};

// --- the player ----------------------------------------------------------------------------------------------

/// State of an op after the interpreter has started it.
enum class outcome : std::uint8_t {
  done,     ///< the op has completed
  pending,  ///< the op is in flight; the interpreter must call finish() when the op has completed
  failed,   ///< the round has failed, and the interpreter has ended it
};

/// Executes rounds by the round rule. An Interpreter (such as the engine) stores the state and carries out ops.
/// Functions of the interpreter must not throw, and must not call the player. A `number` identifies an op, either
/// within one rank or within a whole world. The interpreter has these functions:
///
///   the schedule   const op& at(number) · std::uint32_t need(number) · successors(number) · bool is_exit(number)
///                  const guard* guard_of(number, op)
///   state          std::uint32_t add_token(number to, number from): returns the new number of tokens of `to`
///                  void mark(number): the op has completed · void exited(number): the exit op has completed
///                  void add_outstanding(number, int): changes the number of the rank's ops in flight
///   queue          void enqueue(number): the op has its tokens, so the interpreter must call fire(number); in FIFO
///                  order if the order of firing can be observed
///   the round      round_no round() · std::uint64_t items_of(number, op): items in the lists that the op moves
///   calls          const round_calls& calls() · rank rank_of(number) · const std::vector<rank>* present()
///   registers      round_no listen(number, op): register value of a signal receive or call; may return any
///                  value that satisfies the same rounds up to the current round
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

  /// Fires an enqueued op.
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
      case op_kind::signal_recv: return hear(id);  // arms the op if the register does not satisfy the round yet
    }
  }

  /// Completes an armed receive of a signal if the signal of the round has arrived in the register. Must be called when
  /// the register may have changed. `value`: the current value of the register, if known.
  void hear(number id) { hear(id, interpreter_.listen(id, interpreter_.at(id))); }
  void hear(number id, round_no value) {
    const op& o = interpreter_.at(id);
    const rank self = interpreter_.rank_of(id);
    if (!satisfies(value, interpreter_.round())) return;
    if (is_call(o, self) && !interpreter_.calls().counts(self, o.tag, interpreter_.present())) return;
    settle(id, interpreter_.take_signal(id, o));
  }

  /// Continues an op that is armed or in flight. For a signal receive, `value` is the value of the register. For a
  /// receive, the message must have arrived, and take() returns an outcome as receive() does. Any other op must have
  /// been executed, and this function completes it.
  template <class Take>
  void resume(number id, round_no value, const Take& take) {
    const op_kind kind = interpreter_.at(id).kind;
    if (kind == op_kind::signal_recv) return hear(id, value);
    if (kind != op_kind::recv || take() == outcome::done) finish(id);
  }

  /// Completes an op whose outcome was `pending`.
  void finish(number id) {
    interpreter_.add_outstanding(id, -1);
    complete(id);
  }

  bool is_void(number id, const op& o) const {
    const guard* const when = interpreter_.guard_of(id, o);
    return when != nullptr &&
           lsched::is_void(*when, interpreter_.round(), [&] { return interpreter_.items_of(id, o); });
  }

  /// Returns true if the application has called for round `last` + 1. `last`: the latest round. `called`: the latest
  /// round for which the application has called.
  static constexpr bool may_begin(round_no called, round_no last) { return satisfies(called, last + 1); }

  /// Returns true if an op with this number of tokens has fired.
  static constexpr bool has_fired(std::uint32_t tokens, std::uint32_t need) { return is_enabled(tokens, need); }

  /// Returns true if the round of a rank is over. `outstanding` is the number of the rank's ops in flight.
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
