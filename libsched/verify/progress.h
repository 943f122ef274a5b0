// Computes the ops that fire in one round of a world, and an order in which these ops can complete.
//
// The result is the least fixpoint of the round rule (round.h) and of the following rules for messages. This fixpoint
// does not depend on the order of events, because firing is monotone: no op prevents another from firing. One linear
// pass finds the fixpoint.
//
//   - A receive completes when the receive and its send have fired.
//   - An eager send completes at once.
//   - A rendezvous send completes when its receive has completed.
//   - A held send completes when the ops that read its payload in place have completed. If there are no such ops, or if
//     the receiving rank does not declare holding, the send completes like a rendezvous send.
//   - A signal receive fires when it has its tokens and its signal was sent. A call op fires when it has its tokens and
//     the application has called.
//
// If messages are buffered, a rendezvous or held send that gets a slot (a buffer for one message) completes at once,
// too. The slots from one rank to another are assigned in the order of op ids. With k slots, every k-th buffered send
// uses the same slot. A send gets its slot when the payloads of all earlier sends of this slot have been received and
// read. So the fixpoint does not depend on the order of events in this case, either.
//
// A held send waits for the most events, a rendezvous send for fewer, and an eager send for none. So an op that fires
// if all sends are held also fires with rendezvous and with every eager limit. (For rendezvous: Siegel and Avrunin,
// "Analysis of MPI programs", 2003.)
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "libsched/schedule/round.h"
#include "libsched/verify/assembly.h"

namespace lsched {

enum class sending : std::uint8_t { eager, rendezvous, held };

/// The assumed buffers for messages. The default is no buffer.
struct buffering {
  std::uint64_t bytes = 0;  ///< size of the largest buffered message; 0: any size, if `slots` is not 0
  std::uint32_t slots = 0;  ///< number of slots from each rank to each other rank; 0: unlimited, if `bytes` is not 0
  bool exists() const { return bytes > 0 || slots > 0; }
};

/// The events that start a round.
struct round_start {
  const std::vector<bool>* callers = nullptr;  ///< by rank: true if the rank calls; null: all ranks call
  bool is_full = false;                        ///< the round waits for the calls of all ranks
  bool passes_grace = true;                    ///< the grace passes, if it begins
  const std::vector<rank>* present = nullptr;  ///< ranks that have not left, ascending; null: all ranks
  bool is_woken = false;                       ///< captures fire without the calls and signals before them
  bool stops_at_captures = false;              ///< captures give no tokens to the ops that wait for them
  std::span<const world_op> unsent{};          ///< signals that are sent but do not arrive
  std::optional<round_no> guards{};            ///< round for which guards are evaluated; empty: all guards are true
};

class progress {
 public:
  progress(const assembly& all, sending how, const buffering& buffers = {});

  /// Executes one round. The object can be reused for further rounds.
  void run(const round_start& start);

  bool has_fired(world_op id) const { return ops_[id].fired == round_; }
  bool has_completed(world_op id) const { return ops_[id].completed == round_; }
  /// Returns true if the op fired without effect, because its guard is false.
  bool was_void(world_op id) const { return ops_[id].passed_over == round_; }
  /// Returns the number of messages and signals on the shortest chain to the completion of op `id`. The op must have
  /// completed.
  std::uint32_t hops_to(world_op id) const { return ops_[id].hops; }
  /// Returns the ops that have completed, each after all ops for which it had to wait.
  const std::vector<world_op>& order() const { return order_; }

  /// Explains why an op did not complete: "… waits for …, which waits for …".
  std::string words_for_wait(world_op id) const;

 private:
  /// The interpreter of a world. round_player (round.h) calls its functions to run a round.
  struct interpreter;
  friend struct interpreter;

  /// The state of an op. The members are in one struct, for locality, because a round visits ops in no fixed order. The
  /// members from `enabled` to `passed_over` are round numbers: the last round in which the op was enabled, its message
  /// arrived, and so on.
  struct op_state {
    token_count tokens{};
    std::uint32_t enabled = 0, arrived = 0, fired = 0, completed = 0, passed_over = 0;
    std::uint32_t hops = 0;
  };

  bool has_arrived(world_op id) const { return ops_[id].arrived == round_; }
  /// Returns true if a signal receive has its tokens, or needs none.
  bool is_armed(world_op id) const { return all_.need(id) == 0 || ops_[id].enabled == round_; }
  bool is_made(world_op call) const;
  void drain();
  void arrive(world_op id);
  void finish(world_op id);
  void release(world_op send);
  void take_slots(const buffering& buffers);
  bool has_slot(world_op send) const;
  bool has_slots() const { return !next_in_slot_.empty(); }
  bool is_cleared(world_op send) const { return cleared_[send] == round_; }
  void clear_slot(world_op send);
  world_op send_to(rank r, op_id receive) const { return all_.partner(all_.number(r, receive)); }
  world_op reader_of(world_op send) const;
  world_op awaited(world_op id) const;

  const assembly& all_;
  const sending how_;
  round_start start_;
  std::uint32_t round_ = 0;
  std::uint32_t now_ = 0;
  std::vector<world_op> roots_;  ///< ops that need no token, except signal receives
  std::vector<world_op> calls_;
  std::vector<world_op> captures_;
  /// For sending::held: pairs of a send and an op that reads its payload in place, ascending
  std::vector<std::pair<world_op, world_op>> readers_;
  /// For each send, true if the send uses a slot. slot_of_ and next_in_slot_ contain the previous and the next send of
  /// this slot, or k_no_world_op. All three vectors are empty if no message is buffered.
  std::vector<bool> is_buffered_;
  std::vector<world_op> slot_of_, next_in_slot_;
  std::vector<std::uint32_t> cleared_;  ///< by send: last round in which its slot became free for the next send
  round_calls whose_;
  std::vector<op_state> ops_;
  std::vector<bool> is_unsent_;          ///< by op: the signal does not arrive; empty: all signals arrive
  std::vector<world_op> queue_, later_;  ///< completed ops; ops that a message or signal reaches in the next hop
  std::vector<world_op> order_;
};

}  // namespace lsched
