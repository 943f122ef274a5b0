// Symbolic execution of the schedules of all ranks, in an order that a seed determines.
//
// Ops fire by the rules of libsched/schedule/round.h. The content of a buffer is a term. A term has the number of
// contributions of each rank, and a hash of the expression that combined the contributions. The reading of a send's
// source, the arrival of the message and the completion of the send are separate events. A signal arrives some time
// after it was sent. Ranks begin their rounds at any time, and run ahead as far as the schedules allow.
//
// The world reports the following errors, with rank, op and round:
//   * a message without a receiver, a duplicate message, or different counts at sender and receiver;
//   * an op that reads a buffer which was not written in this round, or that accesses memory while another op in flight
//     reads or writes there (a compute op or a receive writes from its firing to its completion);
//   * an exit that completes before every rank has entered the round, or before all payload and compute ops of the same
//     rank have completed. A rank enters when its capture fires. Without a capture, it enters when its application
//     calls. Without a capture and a call, it enters when it begins the round;
//   * a round that gets stuck.
// The world supports whole buffers only. A schedule that uses parts of a buffer is an error.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "libsched/schedule/round.h"
#include "libsched/schedule/schedule.h"
#include "ops/status.h"

namespace lsched::testing {

/// The content of a buffer.
struct term {
  bool is_null = false;
  bool in_rank_order = true;            ///< whether every step of the expression has the operand of the lower ranks
                                        ///< first
  rank lowest = 0, highest = 0;         ///< lowest and highest rank that contributes
  std::vector<std::uint16_t> copies{};  ///< number of times that each rank's contribution is included
  std::uint64_t tree = 0;               ///< hash of the expression; equal trees give equal bits
};
using term_ptr = std::shared_ptr<const term>;  ///< content of a buffer; nullptr if the buffer was not written in this
                                               ///< round

enum class order : std::uint8_t {
  shuffled,    ///< the next event is drawn from all possible events, with equal probability
  late_sends,  ///< like `shuffled`, but a send completes only when no other event is possible
  by_hops,     ///< order of virtual time: a message or signal takes one unit (a hop), and all other events take no time
};

struct circumstances {
  order how = order::shuffled;
  std::uint64_t seed = 1;
  rank straggler = k_no_rank;  ///< rank that begins a round, or makes a call, only when no other event is possible
  bool one_by_one = false;     ///< whether every rank begins a round only when no other event is possible
  bool in_place = false;       ///< whether the k-th output and the k-th input are the same memory
};

/// The actions of the applications in one round. Schedules without a call or capture ignore these actions.
struct round_plan {
  std::vector<bool> calls;    ///< for each rank, whether its application calls
  std::vector<bool> pending;  ///< for each rank, whether a contribution is pending
  bool is_full = false;       ///< whether the round waits for all ranks
  bool passes_grace = false;  ///< whether the grace passes, if the grace begins
  std::vector<rank> left{};   ///< ranks that have left; these ranks do not call
};

/// The cost of one round.
struct tally {
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  std::uint64_t signals = 0;
  // The times are set only in the first round, and only if the order is `by_hops`.
  std::uint64_t hops = 0;       ///< time at which the last exit completed
  std::uint64_t wake_hops = 0;  ///< time at which the last capture fired
};

/// Returns one schedule per rank of a world. Throws std::runtime_error if `make` fails.
std::vector<schedule_ptr> whole_world(rank size, const std::function<result<schedule_ptr>(world)>& make);

class symbolic_world {
 public:
  /// Rank r runs the schedule `programs[r]`.
  symbolic_world(std::vector<schedule_ptr> programs, circumstances around);

  /// Runs one round on all ranks for each plan. Returns the first error, or an empty string. Call only one of the two
  /// functions run(), and only once.
  std::string run(std::vector<round_plan> plans);

  /// Runs `rounds` rounds in which every rank calls and contributes. Returns the first error, or an empty string.
  std::string run(std::size_t rounds = 1);

  /// Returns the first output of rank `r` at the end of its i-th round (from 0).
  const term_ptr& result(std::size_t i, rank r) const { return results_[i][at(r)]; }
  const tally& took(std::size_t i) const { return tallies_[i]; }
  std::uint64_t furthest_ahead() const { return furthest_ahead_; }

  /// Checks that the results of round i are those of an allreduce of `contributors`. The results must contain exactly
  /// their contributions, in rank order, and must have equal bits on all ranks. If there are no contributors, all
  /// results must be null (without any contribution). Returns the first error, or an empty string.
  std::string allreduce_fault(std::size_t i, const std::vector<bool>& contributors) const;

 private:
  enum class step : std::uint8_t { begin, call, read, arrive, complete };
  struct event {
    step what;
    rank who;
    op_id id;
    round_no round;
    std::uint64_t time;
    std::uint64_t number;
    term_ptr payload;
  };
  struct message {
    round_no round;
    std::uint64_t count;
    term_ptr payload;
  };
  struct memory {
    term_ptr content;
    int readers = 0;
    int writers = 0;
  };
  struct op_state {
    token_count tokens;
    round_no fired = 0, completed = 0;
    round_no signalled = 0;          ///< signal_recv: value of the latest signal
    std::vector<message> arrived{};  ///< recv: messages that have arrived and were not consumed
  };
  struct rank_state {
    schedule_ptr program;
    std::vector<op_state> ops;
    std::vector<memory> memories;
    std::vector<std::uint16_t> memory_of;                    ///< index in `memories` of each buffer's memory
    std::unordered_map<std::uint64_t, op_id> receiver_of{};  ///< receiving op for each kind, sender and tag
    op_id entry = k_no_op;  ///< op by which the rank enters a round: the capture or, without a capture, the call;
                            ///< k_no_op if the schedule has neither op
    round_no round = 0;
    bool is_running = false;
    std::size_t in_flight = 0;
  };

  static std::size_t at(rank r) { return static_cast<std::size_t>(r); }
  const op& op_of(rank r, op_id id) const { return ranks_[at(r)].program->ops()[id]; }
  std::size_t index_of(round_no round) const { return static_cast<std::size_t>(round - 1); }

  void prepare(rank_state& me, bool in_place);
  bool is_deferred(const event& it) const;
  void push(event it, std::uint64_t delay = 0);
  bool pop(event& next);
  void handle(const event& it);

  void begin(rank r);
  void give_token(rank r, op_id id);
  void arm(rank r, op_id id);
  void try_receive(rank r, op_id id);
  void fire(rank r, op_id id);
  void arrive(const event& it);
  void complete(rank r, op_id id);
  void finish(rank r, op_id id);
  void check_exit(rank r, op_id id);
  void end_if_over(rank r);

  void start_reading(rank r, op_id id, region from, std::uint64_t count);
  void start_writing(rank r, op_id id, std::uint64_t count);
  void stop_reading(rank r, region from);
  void stop_writing(rank r, op_id id, term_ptr content);
  memory& memory_at(rank r, region where);
  term_ptr content_at(rank r, region where) { return memory_at(r, where).content; }
  term_ptr computed(rank r, const op& what);
  term_ptr leaf(rank r, round_no round) const;

  void object(std::string text);
  std::string name_of_op(rank r, op_id id) const;
  std::string stuck() const;

  std::vector<rank_state> ranks_;
  circumstances around_;
  std::mt19937_64 random_;
  std::vector<round_plan> plans_;
  std::vector<event> events_;
  std::vector<event> deferred_;
  std::uint64_t now_ = 0;
  std::uint64_t pushed_ = 0;
  std::vector<std::size_t> entered_;  ///< number of ranks that have entered each round
  std::vector<std::vector<term_ptr>> results_;
  std::vector<tally> tallies_;
  std::uint64_t furthest_ahead_ = 0;
  std::string fault_;
};

// --- planted faults ----------------------------------------------------------------------------------------

/// Returns the schedule without one dep (a dependency between two ops); nullptr if there is no such dep.
schedule_ptr without_dep(const schedule& from, op_id before, op_id after);

/// Returns the schedule with one op changed. The deps stay the same.
schedule_ptr with_op(const schedule& from, op_id id, const std::function<void(op&)>& change);

/// Returns whether other deps make `after` wait for `before`, even without the dep between the two ops. Every op of the
/// schedule must wait for all of its deps.
bool is_implied(const schedule& in, op_id before, op_id after);

}  // namespace lsched::testing
