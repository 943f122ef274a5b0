// The engine: fires ops. Single-threaded, no thread of its own, no policy, no clock but to note when things happened.
//
// step() is a fixed sequence: drain the posts, poll the endpoint and the lane, fire what became ready (a FIFO per
// instance, no recursion), publish finished rounds, flush the endpoint. For schedules it allocates nothing, locks
// nothing and makes no system call of its own. Exactly one thread at a time owns the engine (offload/driver.h says
// which); every function here is for the owner unless it says "any thread".
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "libsched/engine/device.h"
#include "libsched/engine/engine_task.h"
#include "libsched/engine/instance.h"
#include "libsched/engine/lane.h"
#include "libsched/engine/message_sink.h"
#include "libsched/schedule/round.h"
#include "libsched/trace/trace_buffer.h"
#include "libsched/transport/endpoint.h"

namespace lsched {

/// Whose an instance is. Without members it belongs to the world of all ranks, under a number of the engine's own.
struct instance_identity {
  membership_ptr members{};
  std::uint64_t number = 0;  ///< of its commit in that world
  std::uint32_t part = 0;    ///< of what is committed together, below 8
  std::string label{};       ///< for people; empty: as the program and the number are called
};

/// Counters for people and tests; the owner writes them.
struct engine_counters {
  std::uint64_t steps = 0;
  std::uint64_t ops = 0;
  std::uint64_t rounds = 0;
  std::uint64_t messages_sent = 0;
  std::uint64_t nulls_sent = 0;  ///< of messages_sent: without payload
  std::uint64_t bytes_sent = 0;
  std::uint64_t signals_sent = 0;
  std::uint64_t lane_jobs = 0;    ///< of ops: computed by the lane
  std::uint64_t device_jobs = 0;  ///< of ops: carried out by the device
  std::uint64_t shown_sent = 0;   ///< of messages_sent: in device memory that the receiver reads
};

class engine {
 public:
  /// `beside`: where large arithmetic may run; null: nowhere. Outlives the engine, as `net` does.
  explicit engine(endpoint& net, lane* beside = nullptr);

  /// Waits for what the lane still computes.
  ~engine();
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;

  /// Whether the device reads device memory of any of these ranks.
  bool reads_device_memory_of(std::span<const rank> homes) const;

  /// From now on schedules over device memory can be added. Once; outlives the engine.
  void use(lsched::device& gpu) {
    device_ = &gpu;
    has_cancellation_points_ = true;
  }
  bool has_device() const { return device_ != nullptr; }

  // --- cold: commit and removal (commit.h puts them in order) ---------------------------------------

  /// Reserves everything for a schedule. On failure nothing of it remains.
  result<instance*> add(schedule_ptr program, const binding& memory, const instance_options& options,
                        instance_identity whose = {});

  /// Connects the links to the other members' ends, once all agree.
  status link(instance& inst, std::span<const member_address> all);

  /// Of a linked one: runs what has been called for meanwhile.
  void open(instance& inst);

  /// The ranks do not agree upon it: it ends with that verdict.
  void refuse(instance& inst, const failure& why);

  /// Of one that has failed: nobody waits for its jobs any more, which do not end. Its verdict is told, and once it is
  /// removed it goes by itself, when they have ended. Nothing, if none of them is a device's.
  void leave_to_device(instance& inst);

  /// New user memory, between rounds. STATE while a round runs; the verdict of an instance that has failed.
  status bind(instance& inst, const binding& memory);

  /// BUSY while a round runs, the lane still computes for it, peers may still signal, or, of one that has failed, read
  /// this rank's memory. One that was cancelled before the ranks have agreed goes by itself as soon as they have, and
  /// one whose jobs are left to the device when these have ended.
  status remove(instance& inst);

  /// Gives the instance up on all ranks, unless it has ended: its verdict is CANCELLED, by whoever was first.
  void cancel(instance& inst);

  /// Whether the memory of an instance that has failed is the caller's again (endpoint::check_readers): from here on no
  /// peer begins to read it, and all are told that the instance was given up, if they do not know. PENDING: the lane
  /// or the device still computes, or `reader` still reads. DEVICE: jobs are left to the device.
  status check_readers(instance& inst, rank* reader);

  // --- going on from an instance that has failed (docs/reference/shrink.md) ---------------------------------------

  /// Who was in a round: the same on all ranks.
  struct round_totals {
    std::uint64_t contributors = 0;
    std::uint64_t offers = 0;
    std::uint64_t ranks = 0;  ///< of the world
  };

  /// A partial instance's last round that is over, as applications count, and its result: where it is, null where
  /// nobody contributed or no round is over.
  struct last_result {
    round_no round = 0;
    const std::byte* data = nullptr;
    round_totals totals{};
  };
  static last_result last_result_of(const instance& inst);

  /// The round in which the instance has failed was the last one for others, and this is its result: it is this
  /// instance's, too.
  void adopt(instance& inst, const last_result& theirs);

  /// What an instance that goes on has is its contributions and results: all other memory goes back.
  void strip(instance& inst);

  // --- data path ------------------------------------------------------------------------------------------------

  /// Any thread: tells the owner to look at the instance's registers. Never blocks, never full.
  void post(instance& inst);
  bool has_posts() const { return posted_.load() != nullptr; }

  /// One pass. Answers whether anything moved.
  bool step();

  /// Whether a message, or the end of a job on the lane or the device, could make something happen.
  bool is_listening() const {
    return jobs_ != 0 || !tasks_.empty() || !closing_.empty() || net_.is_listening() || is_any_at_gate();
  }

  /// Whether progress needs polling: no bell rings when a device's job or a peer's read of this rank's memory ends.
  bool is_time_driven() const {
    return net_.is_time_driven() || !closing_.empty() || (!is_armed_ && has_device_work());
  }

  /// Whether the device, or a stream before a round, has something to do.
  bool has_device_work() const { return device_jobs_ != 0 || is_any_at_gate(); }

  /// Somebody is to ring when the device has done some of that. For an owner who is about to sleep.
  void arm_device();

  /// From now on rounds of an ordinary instance may be asked for by streams. NO_MEMORY, DEVICE; STATE: it has a gate.
  status add_gate(instance& inst);

  /// Whether a round, a task or a message is under way: something is due soon, unlike with a partial instance that
  /// merely serves.
  bool is_busy() const { return outstanding_ != 0 || !tasks_.empty() || messages_ != 0; }

  /// Whether no partial instance is served, no stream asks for rounds, and nothing but rounds is under way: who has
  /// called for them comes back.
  bool has_only_called_rounds() const { return partial_ == 0 && gated_.empty() && tasks_.empty() && messages_ == 0; }

  /// Answers once per batch of finished rounds (or failures): somebody may be waiting for them.
  bool take_published() { return std::exchange(published_, false); }
  /// What somebody may be waiting for has ended.
  void publish() { published_ = true; }

  /// Advances the task in every step until it is over.
  void carry_on(engine_task& more) { tasks_.push_back(&more); }
  void drop(engine_task& gone) { std::erase(tasks_, &gone); }
  /// The same, of one that has nobody else: it ends when it is over, or with the engine.
  void adopt(std::unique_ptr<engine_task> more) { adopted_.push_back(std::move(more)); }
  /// Ends what was adopted and is not over: the transport is about to close.
  void end_adopted() { std::exchange(adopted_, {}).clear(); }

  /// A number for the transport that no instance has had.
  std::uint32_t take_id() { return next_id_++; }

  /// From now on completions whose cookies are this one and a number below 2^32 are the sink's. It stays the caller's.
  std::uint64_t add_sink(message_sink& more);
  void drop_sink(const message_sink& gone);
  /// So many more messages of sinks are waited for.
  void count_messages(int by) { messages_ += static_cast<std::uint64_t>(std::int64_t{by}); }

  /// Ends every instance with an error; waiters see it as soon as the lane has let go of their memory. `culprit`, like
  /// below, at home.
  void fail_all(status why, rank culprit);

  /// A rank is lost: ends every instance of the worlds that it is a member of.
  void lose(rank home);
  /// The member of a world that was lost first; k_no_rank: none is.
  rank first_lost_of(const membership& world) const;
  /// The member that PEER names where `missed` was found missing: the member that was lost first, because later ends
  /// may follow from that loss. All PEERs follow this rule.
  rank culprit_of_loss(const membership& world, rank missed) const;

  /// A member has left the world for good: ends the world's instances.
  void lose(const membership& of, rank member);
  /// Likewise for one instance.
  void lose(instance& inst, rank member);

  /// For people: what the instance is waiting for, in one line, and the rank to blame: one that is stopped or being
  /// ended; or the end of the chain of those that have not entered the round; or one whose message is missing.
  std::string describe_wait(const instance& inst, rank* waits_for) const;

  /// For people: a line for each instance of a world that waits or has failed, and the member that the first of them
  /// blames.
  std::string describe_waits(const membership& of, rank* waits_for) const;

  /// For people: why none of the awaited members of a world has done its part. Returns the rank to blame: a member
  /// whose process does not run, else the first rank that does not wait in the chain of waits from an awaited member
  /// on.
  rank find_late(const membership& of, std::span<const rank> awaited, std::string& text) const;

  /// Notes for the others what the instance waits for, where it does for a while; and that it does no more.
  void note_wait(const instance& inst, std::uint64_t since_ns);
  void note_wait(const wait_note& what) { net_.note_wait(what); }
  void note_end_of_wait() { net_.note_wait({}); }

  /// Notes every op and round in `into` from now on, until told otherwise; null: nowhere. `into` stays the caller's.
  void record(trace_buffer* into);

  endpoint& net() { return net_; }
  const engine_counters& counters() const { return counters_; }
  std::size_t instance_count() const { return live_; }

 private:
  std::optional<failure> reserve(instance& inst, const binding& memory, const instance_options& options);
  std::optional<failure> reserve_partial(instance& inst, const instance_options& options);
  std::byte* own(instance& inst, std::uint64_t bytes);
  std::optional<failure> find_kernels(instance& inst, const instance_options& options);
  void set_binding(instance& inst, const binding& memory);
  std::vector<edge_spec> edges_of(const instance& inst) const;
  void release_memory(instance& inst);

  bool drain_posts();
  bool advance_tasks();
  bool poll_endpoint();
  bool poll_lane();
  instance* instance_of(std::uint32_t id) const;
  instance* instance_on_record(std::uint64_t number) const;
  std::vector<rank> ranks_late_for(const instance& inst, round_no round) const;
  std::string describe_commit(const instance& inst, rank* waits_for) const;
  std::string describe_failure(const instance& inst, rank* culprit) const;
  rank find_stopped(const membership& of, std::string& text) const;
  rank end_of_waits(const membership& of, rank from, std::string& text) const;
  rank find_culprit(const instance& inst, std::string& text) const;
  void take_bad_news();
  void give_up(instance& inst);
  static bool has_fired(const instance& inst, op_id id, std::uint32_t more = 0);
  void look(instance& inst);
  void advance(instance& inst);
  void begin_round(instance& inst);
  void end_round(instance& inst);
  void begin_closing(instance& inst);
  static void publish_result(instance& inst, const round_totals& totals, bool is_null);
  static void take_over(instance& heir, instance& from);
  void last_signal_seen(instance& inst);
  void fail(instance& inst, status why, rank culprit);
  end_reason reason_of(const instance& inst) const;
  void close(instance& inst);
  rank reader_of(const instance& inst) const;
  bool poll_readers();
  void publish_failure(instance& inst);
  void end_of_jobs(instance& inst);

  /// How the round player sees an instance.
  struct interpreter;
  friend struct interpreter;

  outcome send(instance& inst, op_id id, const op& o);
  outcome receive(instance& inst, op_id id, const op& o);
  outcome compute(instance& inst, op_id id, const op& o);
  void begin_long();
  struct null_operands {
    bool is_settled = false;  ///< the result is there without a call
    bool a = false, b = false;
  };
  null_operands settle_nulls(instance& inst, op_id id, const op& o);
  bool is_taken_by_lane(instance& inst, op_id id, const op& o, const kernel_call& call);
  struct function_operands {
    std::uint32_t number = 0;
    function_input source, by;
    function_output target;
  };
  static function_operands operands_of_function(instance& inst, op_id id, const op& o);
  outcome call_function(instance& inst, op_id id, const op& o);
  bool has_computed(instance& inst, op_id id);

  // engine_device.cc
  std::optional<failure> reserve_device(instance& inst);
  std::optional<failure> give_functions_memory(instance& inst);
  std::byte* own_on_device(instance& inst, memory_space space, std::uint64_t bytes);
  void release_device(instance& inst);
  outcome compute_on_device(instance& inst, op_id id, const op& o);
  outcome prepare_function(instance& inst, op_id id, const op& o);
  outcome submit_to_device(instance& inst, const device_job& job);
  std::size_t poll_device(std::span<std::uint64_t> ended);
  bool is_any_at_gate() const;
  bool poll_gates();
  bool is_gate_open(instance& inst);
  bool may_begin_next(instance& inst);
  bool is_out_of_reach(const instance& inst, const op& receive, const arrival& news) const;
  void find_device_readers(const instance& inst, std::span<edge_spec> edges) const;
  outcome take_shown(instance& inst, op_id id, const op& o, const arrival& news);
  void choose_shown(instance& inst);
  std::uint64_t show_source(const instance& inst, op_id id) const;
  outcome combined(instance& inst, const op& o);
  outcome released(instance& inst, const op& o);
  static segment_state segment_state_of_result(const instance& inst);
  static segment_state segment_state_of(const instance& inst, segment_range op_segments::*operand, op_id id);
  static void set_segment_state(instance& inst, op_id id, const segment_state& now);
  outcome capture(instance& inst, op_id id, const op& o);
  static buffer_swap may_swap(const instance& inst, op_id id);
  void select(instance& inst, const op& o, region from, op_id payload, bool may_swap);
  void release_payload(instance& inst, op_id receive);
  outcome arrived(instance& inst, op_id id, const op& o, const arrival& news);
  bool may_stay(const instance& inst, op_id id, const op& o, const arrival& news) const;
  void copy_to_storage(instance& inst, op_id id, const op& o);
  void note_firing(const instance& inst, op_id id, std::uint64_t begin_ns);
  void note_end(const instance& inst, op_id id);

  // engine_lists.cc
  static std::optional<failure> validate_lists(const schedule& program, const binding& memory);
  static std::optional<failure> reserve_lists(instance& inst, const binding& memory);
  static void bind_lists(instance& inst, const binding& memory);
  bool take_lengths(instance& inst);
  static void give_lengths(const instance& inst);
  static list_table* lists_of(instance& inst, region at);
  static item_run run_of(const instance& inst, region part, std::uint64_t count);
  static item_run target_of(const instance& inst, region part, std::uint64_t count);
  outcome pass_over(instance& inst, op_id id, const op& o);
  bool note_lengths(instance& inst, const op& o, std::uint64_t bytes);
  static bool is_about_lists(const instance& inst, const op& o);
  static compute_way way_of(const instance& inst, const op& o);
  outcome compute_lists(instance& inst, op_id id, const op& o);
  static bool copy_lists(instance& inst, const op& o);

  static constexpr std::uint64_t k_sink_cookie = std::uint64_t{1} << 63;

  /// Arithmetic or copies of this size take so long (2 us) that nobody sleeps on messages published before.
  static constexpr std::uint64_t k_long_bytes = std::uint64_t{1} << 15;

  endpoint& net_;
  lane* const lane_;
  lsched::device* device_ = nullptr;
  bool has_cancellation_points_;    ///< in steps: calls of MPI, a GPU's driver or the program
  const membership_ptr home_;       ///< the world of all ranks
  const std::uint64_t long_bytes_;  ///< arithmetic from this size on is looked at before it is begun
  std::vector<std::unique_ptr<instance>> instances_;
  std::vector<std::uint32_t> free_places_;  ///< of instances_
  std::size_t live_ = 0;
  std::size_t partial_ = 0;  ///< of live_
  std::uint32_t next_id_ = 0;
  std::vector<instance*> gated_;      ///< that have a gate
  std::vector<instance*> closing_;    ///< failed instances whose memory peers still read
  bool is_armed_ = false;             ///< somebody rings when the device has done something
  std::vector<message_sink*> sinks_;  ///< null: dropped
  std::vector<engine_task*> tasks_;
  std::vector<std::unique_ptr<engine_task>> adopted_;  ///< some of them
  std::vector<rank> lost_;                             ///< at home, where the medium has no record of losses
  std::atomic<instance*> posted_{nullptr};
  bool published_ = false;
  std::uint64_t outstanding_ = 0;  ///< over all instances
  std::uint64_t jobs_ = 0;         ///< of outstanding_: on the lane or the device
  std::uint64_t device_jobs_ = 0;  ///< of jobs_: on the device
  std::uint64_t messages_ = 0;     ///< of sinks, that are waited for
  engine_counters counters_;
  trace_buffer* trace_ = nullptr;
  std::vector<completion> news_ = std::vector<completion>(64);
};

}  // namespace lsched
