// Progress: the ops that fire in one round of a world, and an order in which they may complete.
//
// Firing is monotone, so the result does not depend on the order of events. The result is the least fixpoint of the
// round rule (round.h) and of these rules for messages. One linear pass finds it.
//
//   recv completes      when it and its send have fired
//   send completes      eager: at once.  rendezvous: when its receive has completed.  held: if the payload stays in
//                       place and the receiving rank declares holding, when its readers have completed, else as
//                       under rendezvous
//   signal_recv fires   when it has its tokens and its signal_send has fired, or the application calls
//
// If messages are buffered, a send that finds a slot completes at once under rendezvous and held, too. The slots from
// one rank to another are taken in the order of op ids. With k slots, a send waits for the receives of the k-th, 2k-th,
// ... send before it, and for the ops that read these payloads in place. So the result does not depend on the order of
// events here either.
//
// Under held, a send waits for more events than under rendezvous. Under rendezvous, it waits for more events than with
// any eager limit. So an op that fires under held also fires under rendezvous and with every eager limit. (For
// rendezvous: Siegel and Avrunin, "Analysis of MPI programs", 2003.)
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "libsched/schedule/round.h"
#include "libsched/verify/assembly.h"

namespace lsched {

enum class sending : std::uint8_t { eager, rendezvous, held };

/// The buffers for messages that a caller assumes. The default is no buffer.
struct buffering {
  std::uint64_t bytes = 0;  ///< size of the largest buffered message; 0: any size, if `slots` is not 0
  std::uint32_t slots = 0;  ///< number of slots from each rank to each other rank; 0: unlimited, if `bytes` is not 0
  bool exists() const { return bytes > 0 || slots > 0; }
};

/// The events that start a round.
struct round_start {
  const std::vector<bool>* callers = nullptr;  ///< whether the rank's call counts, by rank; null: all calls count
  bool is_full = false;                        ///< calls count as in rounds that wait for all ranks
  bool is_woken = false;                       ///< captures fire at once, without the calls and signals before them
  bool stops_at_captures = false;              ///< captures give no tokens
  std::span<const world_op> unsent{};          ///< signals that fire but do not arrive
  std::optional<round_no> guards{};            ///< round whose guards apply; empty: all guards hold, no list is empty
};

class progress {
 public:
  progress(const assembly& all, sending how, const buffering& buffers = {});

  /// Plays one round. Rounds of one object share its counters.
  void run(const round_start& start);

  bool has_fired(world_op id) const { return ops_[id].fired == round_; }
  bool has_completed(world_op id) const { return ops_[id].completed == round_; }
  /// Returns whether the op fired without effect, because its guard does not hold.
  bool was_void(world_op id) const { return ops_[id].passed_over == round_; }
  /// Returns the messages and signals on the shortest chain that leads to the completion of an op that has completed.
  std::uint32_t hops_to(world_op id) const { return ops_[id].hops; }
  /// Returns the ops that have completed, each after all ops that it had to wait for.
  const std::vector<world_op>& order() const { return order_; }

  /// Explains why an op did not complete: "… waits for …, which waits for …".
  std::string words_for_wait(world_op id) const;

 private:
  /// The view that the round player has of the world.
  struct interpreter;
  friend struct interpreter;

  /// The state of an op. The fields lie together because a round visits ops in no order of memory. The fields `enabled`
  /// to `passed_over` are numbers of rounds.
  struct op_state {
    token_count tokens{};
    std::uint32_t enabled = 0, arrived = 0, fired = 0, completed = 0, passed_over = 0;
    std::uint32_t hops = 0;
  };

  bool has_arrived(world_op id) const { return ops_[id].arrived == round_; }
  /// Returns whether a signal receive has its tokens. A receive that needs no token is checked when its signal arrives.
  bool is_armed(world_op id) const { return all_.need(id) == 0 || ops_[id].enabled == round_; }
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
  std::vector<world_op> roots_;  ///< ops that need no token, without signal receives
  std::vector<world_op> calls_;
  std::vector<world_op> captures_;
  /// Held: pairs of a send and an op that reads its payload in place, ascending.
  std::vector<std::pair<world_op, world_op>> readers_;
  /// For each send: whether the send uses a slot, the send that uses the slot before it, and the send that uses the
  /// slot after it; k_no_world_op: no such send. Empty if no message is buffered.
  std::vector<bool> is_buffered_;
  std::vector<world_op> slot_of_, next_in_slot_;
  std::vector<std::uint32_t> cleared_;  ///< last round in which the send's slot became free for the next send, by send
  round_calls whose_;
  std::vector<op_state> ops_;
  std::vector<bool> is_unsent_;          ///< empty: all signals are sent
  std::vector<world_op> queue_, later_;  ///< completed ops; ops that a message or signal reaches one hop later
  std::vector<world_op> order_;
};

}  // namespace lsched
