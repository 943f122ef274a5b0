// A whole world of schedules in one object, executed symbolically in any order a seed can think of.
//
// Every op fires by round.h. A buffer's content is a term: which ranks contributed how often, and a
// hash of the expression that combined them. Sends are read, arrive and complete at separate moments; signals
// land some time after they were sent; ranks begin their rounds when they like and run ahead as far as the
// schedules let them.
//
// What it objects to, in words that name rank, op and round:
//   * a message nobody receives, twice the same message, unequal counts;
//   * an op that reads what was never written in this round, or touches memory that an op in flight is still
//     reading or writing (a compute's and a receive's writes count from firing to completion);
//   * an exit before every rank has entered (captured, called or begun: the first of these that its schedule
//     has), or before every payload and compute op of its own rank has completed;
//   * a round that gets stuck.
// It knows whole buffers only; a schedule that uses parts of one is refused.
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

/// What a buffer holds.
struct term {
  bool is_null = false;
  bool in_rank_order = true;            ///< all operands of lower ranks came first
  rank lowest = 0, highest = 0;         ///< of the contributors
  std::vector<std::uint16_t> copies{};  ///< per rank: how often its contribution is in
  std::uint64_t tree = 0;               ///< hash of the expression; equal trees give equal bits
};
using term_ptr = std::shared_ptr<const term>;  ///< nullptr: never written in this round

enum class order : std::uint8_t {
  shuffled,    ///< whatever can happen next, happens with equal probability
  late_sends,  ///< shuffled, but a send completes only when nothing else can happen
  by_hops,     ///< in virtual time: a message or signal takes one unit, everything else none
};

struct circumstances {
  order how = order::shuffled;
  std::uint64_t seed = 1;
  rank straggler = k_no_rank;  ///< begins, and calls, only when nothing else can happen
  bool one_by_one = false;     ///< every rank begins a round only when nothing else can happen
  bool in_place = false;       ///< the k-th output is the same memory as the k-th input
};

/// What the applications do in one round. Only schedules with a call or a capture look at it.
struct round_plan {
  std::vector<bool> calls;    ///< whose own call counts
  std::vector<bool> pending;  ///< who has something to capture
  bool is_full = false;       ///< the round waits for everybody
};

/// What one round took.
struct tally {
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  std::uint64_t signals = 0;
  std::uint64_t hops = 0;       ///< by_hops, first round: when the last exit completed
  std::uint64_t wake_hops = 0;  ///< by_hops, first round: when the last capture fired
};

/// One schedule for each rank of a world. Throws where `make` fails.
std::vector<schedule_ptr> whole_world(rank size, const std::function<result<schedule_ptr>(world)>& make);

class symbolic_world {
 public:
  /// Rank r runs programs[r].
  symbolic_world(std::vector<schedule_ptr> programs, circumstances around);

  /// Runs one round of every rank for each plan, and answers what is wrong, or an empty string. Once.
  std::string run(std::vector<round_plan> plans);

  /// The same, with `rounds` rounds in which everybody calls and contributes.
  std::string run(std::size_t rounds = 1);

  /// What rank `r` had in its first output when its round (the i-th, from 0) ended.
  const term_ptr& result(std::size_t i, rank r) const { return results_[i][at(r)]; }
  const tally& took(std::size_t i) const { return tallies_[i]; }
  std::uint64_t furthest_ahead() const { return furthest_ahead_; }

  /// What is wrong with round i as an allreduce of exactly these contributors (none: null everywhere), in
  /// rank order and with the same bits on all ranks; or an empty string.
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
    round_no armed = 0, fired = 0, completed = 0;
    round_no signalled = 0;          ///< signal_recv: its register
    std::vector<message> arrived{};  ///< recv: not yet taken
  };
  struct rank_state {
    schedule_ptr program;
    std::vector<op_state> ops;
    std::vector<memory> memories;
    std::vector<std::uint16_t> memory_of;                    ///< by buffer
    std::unordered_map<std::uint64_t, op_id> receiver_of{};  ///< by kind, sender and tag
    op_id entry = k_no_op;                                   ///< capture, else call, else none
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
  std::vector<std::size_t> entered_;  ///< by round: ranks
  std::vector<std::vector<term_ptr>> results_;
  std::vector<tally> tallies_;
  std::uint64_t furthest_ahead_ = 0;
  std::string fault_;
};

// --- sabotage ----------------------------------------------------------------------------------------------

/// The schedule with one dep less, by mutant.h (nullptr: it has no such dep).
schedule_ptr without_dep(const schedule& from, op_id before, op_id after);

/// The schedule with an op changed. Its deps stay.
schedule_ptr with_op(const schedule& from, op_id id, const std::function<void(op&)>& change);

/// Whether `after` waits for `before` even without the dep between them; for schedules of ops that wait for
/// all their deps.
bool is_implied(const schedule& in, op_id before, op_id after);

}  // namespace lsched::testing
