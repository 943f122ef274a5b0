// Progress: which ops fire in one round of a world, and in what order they may complete.
//
// Firing is monotone, so the answer does not depend on the order of events and one linear pass finds it: the least
// fixpoint of the round rule (round.h) and of what messages do.
//
//   recv completes      when it and its send have fired
//   send completes      eager: at once.  rendezvous: when its receive has completed.  held: if the payload stays in
//                       place and the receiving rank declares holding, when its readers have completed; else as before
//   signal_recv fires   when it has its tokens and its signal_send has fired, or the application calls
//
// Where messages are buffered, a send that finds a slot completes at once under rendezvous and held, too. The slots
// from one rank to another are taken in the order of op ids: with k of them, a send waits for the receives of the
// k-th, 2k-th, ... send before it, and for those who read these payloads in place. So which send waits does not depend
// on the order of events either.
//
// Rendezvous waits for more than any eager limit does, and held for more than rendezvous: what fires under held fires
// under all of them. (For rendezvous: Siegel and Avrunin, "Analysis of MPI programs", 2003.)
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "libsched/schedule/round.h"
#include "libsched/verify/assembly.h"

namespace lsched {

enum class sending : std::uint8_t { eager, rendezvous, held };

/// What a caller says of the buffers that messages have. The default: none.
struct buffering {
  std::uint64_t bytes = 0;  ///< messages of at most so many are buffered
  std::uint32_t slots = 0;  ///< from each rank to each other; 0: as many as it takes, if `bytes` is not 0
  bool exists() const { return bytes > 0 || slots > 0; }
};

/// What starts a round.
struct round_start {
  const std::vector<bool>* callers = nullptr;  ///< by rank: whose call counts; null: everybody's
  bool is_full = false;                        ///< calls count as they do in rounds that wait for everybody
  bool is_woken = false;               ///< captures are given; calls and signals they usually wait for are not needed
  bool stops_at_captures = false;      ///< nothing follows from a capture
  std::span<const world_op> unsent{};  ///< signals that nobody hears, though they fire
  std::optional<round_no> guards{};    ///< of which guards speak; none: all of them hold, and no list is empty
};

class progress {
 public:
  progress(const assembly& all, sending how, const buffering& buffers = {});

  /// One round. Rounds on one object reuse its counters.
  void run(const round_start& start);

  bool has_fired(world_op id) const { return ops_[id].fired == round_; }
  bool has_completed(world_op id) const { return ops_[id].completed == round_; }
  /// Whether it fired and did nothing, since its guard does not hold.
  bool was_void(world_op id) const { return ops_[id].passed_over == round_; }
  /// Messages and signals on the shortest way to its completion that gives it its tokens, if it has completed.
  std::uint32_t hops_to(world_op id) const { return ops_[id].hops; }
  /// What has completed, each op after all it had to wait for.
  const std::vector<world_op>& order() const { return order_; }

  /// Why an op that has not completed has not: "… waits for …, which waits for …".
  std::string words_for_wait(world_op id) const;

 private:
  /// How the round player sees the world.
  struct interpreter;
  friend struct interpreter;

  /// An op's state, together because a round comes to ops in no order of memory. All but the last are numbers of
  /// rounds.
  struct op_state {
    token_count tokens{};
    std::uint32_t enabled = 0, arrived = 0, fired = 0, completed = 0, passed_over = 0;
    std::uint32_t hops = 0;
  };

  bool has_arrived(world_op id) const { return ops_[id].arrived == round_; }
  /// Of a signal receive: whether it has its tokens. One that needs none is looked at when its signal arrives.
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
  std::vector<world_op> roots_;  ///< but receives of signals
  std::vector<world_op> calls_;
  std::vector<world_op> captures_;
  std::vector<std::pair<world_op, world_op>> readers_;  ///< held: a send, and who reads its payload in place; ascending
  /// By send: whether it takes a slot; whose slot it takes, and who takes its own: k_no_world_op, nobody's. Empty:
  /// nothing is buffered.
  std::vector<bool> is_buffered_;
  std::vector<world_op> slot_of_, next_in_slot_;
  std::vector<std::uint32_t> cleared_;  ///< by send: in which round its slot was last free for the next one
  round_calls whose_;
  std::vector<op_state> ops_;
  std::vector<bool> is_unsent_;          ///< empty: none is
  std::vector<world_op> queue_, later_;  ///< completed; arrive one hop from now
  std::vector<world_op> order_;
};

}  // namespace lsched
