// The round rule: what one round of a schedule means. Everything that plays rounds, the engine, verify, the simulator
// and the explorer, instantiates round_player; none of them decides by itself which op fires or what firing does to the
// round.
//
//   1. An op has one integer, `need`: how many of its incoming tokens it waits for.
//      need == in-degree is "all", need == 1 is "any", anything between is a quorum; need == 0 is a root.
//   2. In one round an op fires at most once: when its need-th token arrives. Tokens that arrive later in that round
//      are absorbed. A round begins with the roots.
//   3. A completed op gives one token to each of its successors. Tokens never cross rounds: a counter carries the round
//      it belongs to, so re-arming a schedule touches no counter.
//   4. An op whose guard does not hold is void: it fires as ever, moves and computes nothing, and completes.
//   5. A receive of a signal fires when its register satisfies the round. The application's own call is such a
//      register; whether the call counts in a round follows from the activation (round_calls).
//   6. A round ends when the exit op and every op that has fired have completed, and no op is enqueued. A signal
//      receive that waits for its register does not keep the round open.
//   7. A round that is given up, or fails, ends there: no op fires any more, and what completes gives no tokens.
//      Whoever plays asks the player nothing more about it. Rounds that have ended before stay as they are.
//
// tests/libsched/firing_test.cc holds rules 1 to 3 against a reference for every DAG of up to five ops;
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

  /// One more token, of `round`. Returns how many the op has now.
  constexpr std::uint32_t add(round_no round) {
    if (stamp != round) *this = {round, 0};
    return ++tokens;
  }
  constexpr std::uint32_t in(round_no round) const { return stamp == round ? tokens : 0; }
};

/// Whether the token that made it `tokens` is the one that fires an op.
constexpr bool fires_at(std::uint32_t tokens, std::uint32_t need) { return tokens == need; }

/// Whether an op has the tokens that it waits for.
constexpr bool is_enabled(std::uint32_t tokens, std::uint32_t need) { return tokens >= need; }

// --- guards --------------------------------------------------------------------------------------------------

/// Whether the round is one of those that a guard names; lists aside.
constexpr bool is_due(const guard& when, round_no round) { return (round - 1 + when.phase) % when.every == 0; }

/// Whether an op with that guard is void in the round. `items`: how many are in the lists that the op moves, asked only
/// where the guard skips empty lists.
template <class Items>
constexpr bool is_void(const guard& when, round_no round, const Items& items) {
  return !is_due(when, round) || (when.skips_empty && items() == 0);
}

// --- registers and calls -------------------------------------------------------------------------------------

/// A register holds the highest round known active; it satisfies every round up to that.
constexpr bool satisfies(std::uint64_t register_value, round_no round) { return register_value >= round; }

/// What a register holds once its writer will never signal again.
inline constexpr round_no k_last_round = ~round_no{0};

constexpr bool is_call(const op& o, rank self) { return o.kind == op_kind::signal_recv && o.peer == self; }

/// Whether the call op says that the rank has waited for the deadline, not that it has called.
constexpr bool is_deadline_call(const op& call, const activation& starts) {
  return starts.policy == activation_policy::deadline && call.tag != k_full_call_tag;
}

/// Whether it communicates with another rank: has an edge.
constexpr bool has_edge(const op& o, rank self) { return is_communication(o.kind) && o.peer != self; }

/// Whose calls count in a round. A rank has one call op, or a second one for rounds that wait for every rank.
///
/// Ranks that have left have called in every round; if that started rounds, these would follow each other without end.
/// So their calls count only where the round waits for every rank, or where fewer ranks stay than have to call: then
/// all that stay have to call, and of those who have left the lowest make up the number.
class round_calls {
 public:
  explicit round_calls(const activation& starts = {}, rank size = 0)
      : starts_(starts),
        quota_(quota_of(starts, size)),
        is_drawn_(quota_.candidates < size),
        drawn_(is_drawn_ ? size : 0) {}

  /// Opens a round for the ranks that have not left, ascending: draws the candidates where not all ranks are.
  void open(round_no round, std::span<const rank> present) {
    waits_for_all_ = starts_.is_woken() && starts_.is_full(round);
    if (is_drawn_) drawn_.draw(starts_.seed, round, present, quota_.candidates);
  }

  /// A scenario instead: the round waits for every rank, or every rank is a candidate and the scenario says who calls.
  void open_scenario(bool waits_for_all) {
    waits_for_all_ = waits_for_all;
    is_drawn_ = false;
  }

  /// This rank is the only candidate, whoever was drawn.
  void appoint(rank one) {
    is_drawn_ = true;
    drawn_.set_only(one);
  }

  bool waits_for_all() const { return waits_for_all_; }
  bool is_candidate(rank r) const { return !is_drawn_ || drawn_.holds(r); }

  /// Whether the call of `self` through the call op with this tag counts. `present`: the ranks that have not left,
  /// ascending; nullptr: none has.
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

/// What an interpreter answers when it is asked to carry out an op.
enum class outcome : std::uint8_t {
  done,     ///< the op has completed
  pending,  ///< the interpreter calls finish() when it has
  failed,   ///< the interpreter has ended the round
};

/// Plays rounds by the rule. The interpreter keeps the state and carries ops out; its functions do not throw, and do
/// not call the player back while it is at work. A `number` names an op, of one rank or of a world.
///
///   the schedule   const op& at(number) · std::uint32_t need(number) · successors(number) · bool is_exit(number)
///                  const guard* guard_of(number, op)
///   its state      std::uint32_t add_token(number to, number from): how many tokens `to` has with this one
///                  void mark(number): the op has completed · void exited(number): the exit op has
///                  void add_outstanding(number, int): so many more ops of the rank have fired and not completed
///   its queue      void enqueue(number): the op has its tokens, and fire() is to be called for it; where the order in
///                  which ops fire shows, first come, first served
///   the round      round_no round() · std::uint64_t items_of(number, op): items in the lists that the op moves
///   calls          const round_calls& calls() · rank rank_of(number) · const std::vector<rank>* present()
///   registers      round_no listen(number, op): what the register of a signal receive, or of the rank's call, holds;
///                  any number that satisfies the same rounds up to this one will do
///   carrying out   outcome nop, send, receive, compute, capture, signal (number, op); take_signal, of a signal receive
///                  whose register satisfies the round; pass_over, of an op that is void
template <class Interpreter>
class round_player {
 public:
  using number = typename Interpreter::number;
  explicit round_player(Interpreter& interpreter) : interpreter_(interpreter) {}

  /// The round begins with the ops that wait for no token.
  template <class Roots>
  void begin(const Roots& roots) {
    for (const auto root : roots) interpreter_.enqueue(root);
  }

  /// An op that was enqueued.
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

  /// The register of a signal receive that is armed may have changed, or is known to hold `value`.
  void hear(number id) { hear(id, interpreter_.listen(id, interpreter_.at(id))); }
  void hear(number id, round_no value) {
    const op& o = interpreter_.at(id);
    const rank self = interpreter_.rank_of(id);
    if (!satisfies(value, interpreter_.round())) return;
    if (is_call(o, self) && !interpreter_.calls().counts(self, o.tag, interpreter_.present())) return;
    settle(id, interpreter_.take_signal(id, o));
  }

  /// News of an op that has fired: of a signal receive, that its register holds `value`; of a receive, that its message
  /// is there, which `take()` answers for as receive() does; any other op that was pending has been carried out.
  template <class Take>
  void resume(number id, round_no value, const Take& take) {
    const op_kind kind = interpreter_.at(id).kind;
    if (kind == op_kind::signal_recv) return hear(id, value);
    if (kind != op_kind::recv || take() == outcome::done) finish(id);
  }

  /// An op that was pending has been carried out.
  void finish(number id) {
    interpreter_.add_outstanding(id, -1);
    complete(id);
  }

  bool is_void(number id, const op& o) const {
    const guard* const when = interpreter_.guard_of(id, o);
    return when != nullptr &&
           lsched::is_void(*when, interpreter_.round(), [&] { return interpreter_.items_of(id, o); });
  }

  /// Whether the application has called for the round after `last`, the last one so far.
  static constexpr bool may_begin(round_no called, round_no last) { return satisfies(called, last + 1); }

  /// Whether an op has fired that has so many tokens.
  static constexpr bool has_fired(std::uint32_t tokens, std::uint32_t need) { return is_enabled(tokens, need); }

  /// Of a rank: whether its exit has completed, how many of its ops are enqueued, and how many have fired and not
  /// completed.
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
