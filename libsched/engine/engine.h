// The engine executes the ops of instances (instance.h). The engine has no thread of its own. The driver
// (offload/driver.h) decides when a thread runs the engine, and when that thread sleeps. The engine reads the clock
// to record times, and to find the end of a grace (activation.h).
//
// step() has a fixed order. First it handles the posts, which are requests of other threads. Then it polls the
// endpoint, the lane (the helper threads, lane.h), the device, the gates (round_gate.h), the graces, the peers that
// read memory of failed instances, and the tasks. Finally it flushes the endpoint. Each of these parts executes the ops
// that became ready, and publishes finished rounds. Each instance has one FIFO queue of ready ops, so there is no
// recursion. While schedules run, step() itself allocates nothing, takes no lock and makes no system call.
//
// Thread safety: exactly one thread at a time owns the engine (offload/driver.h selects the thread). Only the owner may
// call these functions, unless a comment permits any thread.
#pragma once

#include <algorithm>
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

/// The identity of an instance. Without `members`, the instance belongs to the world of all ranks, and the engine
/// assigns the number.
struct instance_identity {
  membership_ptr members{};
  std::uint64_t number = 0;  ///< sequence number of the commit in the world
  std::uint32_t part = 0;    ///< index within the commit, below 8
  std::string label{};       ///< human-readable; if empty, the engine uses the program's name and the number
};

/// Statistics for diagnosis and tests. Only the engine's owner writes these counters.
struct engine_counters {
  std::uint64_t steps = 0;
  std::uint64_t ops = 0;
  std::uint64_t rounds = 0;
  std::uint64_t messages_sent = 0;
  std::uint64_t nulls_sent = 0;  ///< part of messages_sent: null messages, without payload
  std::uint64_t bytes_sent = 0;
  std::uint64_t signals_sent = 0;
  std::uint64_t lane_jobs = 0;    ///< part of ops: executed by the lane
  std::uint64_t device_jobs = 0;  ///< part of ops: executed by the device
  std::uint64_t shown_sent = 0;   ///< part of messages_sent: messages whose payload the receiver reads in device memory
};

class engine {
 public:
  /// Creates an engine over `net`. If `beside` is not null, large arithmetic may run on that lane. The endpoint and the
  /// lane must outlive the engine.
  explicit engine(endpoint& net, lane* beside = nullptr);

  /// Waits for the jobs on the lane and, for some seconds at most, for the jobs on the device.
  ~engine();
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;

  /// Returns true if the device can read the device memory of at least one other rank in `homes`. These are transport
  /// ranks.
  bool reads_device_memory_of(std::span<const rank> homes) const;

  /// Attaches a device, so that schedules over device memory can be added. Called at most once. The device must outlive
  /// the engine.
  void use(lsched::device& gpu) {
    device_ = &gpu;
    has_cancellation_points_ = true;
  }
  bool has_device() const { return device_ != nullptr; }

  // --- cold path: commit and removal (commit.h defines the order) -----------------------------------------------

  /// Creates an instance of a schedule and reserves all its resources. On failure nothing remains reserved.
  result<instance*> add(schedule_ptr program, const binding& memory, const instance_options& options,
                        instance_identity whose = {});

  /// Connects the instance's links to those of the other members. Called after all members have agreed on the commit.
  status link(instance& inst, std::span<const member_address> all);

  /// Opens a linked instance. If the application has called for a round during the commit, that round starts now.
  void open(instance& inst);

  /// Fails the instance with `why`, because the commit has failed.
  void refuse(instance& inst, const failure& why);

  /// Publishes the failure of an instance without waiting for its jobs, because device jobs can hang. If the instance
  /// is then removed, it is freed when its last job ends. Does nothing unless the instance has failed, uses the device
  /// and has jobs in flight.
  void leave_to_device(instance& inst);

  /// Replaces the user memory between rounds. Returns STATE while a round runs, and the instance's error if the
  /// instance has failed. Returns UNSUPPORTED for a partial schedule, and ARGUMENT if the lists do not fit the
  /// schedule.
  status bind(instance& inst, const binding& memory);

  /// Removes an instance. Returns BUSY while a round, a post or a job is outstanding. Also returns BUSY for a partial
  /// instance that is neither closed nor failed, and for a failed instance while peers read this rank's memory. If the
  /// commit has not settled, or jobs were left to the device, returns OK, and the instance is freed later.
  status remove(instance& inst);

  /// Cancels the instances of one schedule on all ranks; ignores closed instances. If one of them has failed, the other
  /// instances fail with the same error and the same culprit, but the error DEVICE becomes CANCELLED. If none of
  /// them has failed, the instances fail with CANCELLED, and the culprit is the first rank that has cancelled the
  /// instance.
  void cancel(std::span<instance* const> all);
  void cancel(instance& inst);

  /// Cancels and removes an instance after this rank has given up its commit. The application must not have called for
  /// a round. Does not call step(), because step() may end the commit and free its instances.
  void abandon(instance& inst);

  /// Returns OK if the caller may reuse the memory of a failed instance. No peer begins to read that memory after this
  /// call. Notifies the ranks that do not know of the failure. Returns PENDING while jobs are in flight, or while a
  /// peer still reads the memory, and sets `*reader` to this peer. Returns DEVICE if jobs were left to the device.
  /// Other errors are those of endpoint::check_readers().
  status check_readers(instance& inst, rank* reader);

  /// Frees all memory of a failed partial instance except its contribution and result buffers.
  void strip(instance& inst);

  /// Returns whether the instance belongs to this engine.
  bool owns(const instance& inst) const {
    return inst.index < instances_.size() && instances_[inst.index].get() == &inst;
  }

  // --- data path ------------------------------------------------------------------------------------------------

  /// Asks the owner to handle the calls that other threads have stored in the instance's atomics. Any thread may call
  /// this function. It never blocks and never fails.
  void post(instance& inst);
  bool has_posts() const { return posted_.load() != nullptr; }

  /// Makes one pass through the parts of the step. Returns true if anything progressed.
  bool step();

  /// Returns true if events outside this thread can cause progress: messages, jobs, tasks, streams, or peers that stop
  /// reading.
  bool is_listening() const {
    return jobs_ != 0 || !tasks_.empty() || is_any_read() || net_.is_listening() || is_any_at_gate();
  }

  /// Returns true if progress needs polling, because the doorbell (transport/doorbell.h) will not ring. There are three
  /// such cases: the transport cannot wake this rank, the doorbell is not armed for the device's work, or peers still
  /// read memory of a failed instance or message.
  bool is_time_driven() const { return net_.is_time_driven() || is_any_read() || (!is_armed_ && has_device_work()); }

  /// Returns true if jobs are in flight on the device, or a round waits for a stream.
  bool has_device_work() const { return device_jobs_ != 0 || is_any_at_gate(); }

  /// Returns the time at which step() must be called because a grace will have passed; k_never if no grace runs. The
  /// clock is that of trace_buffer::now_ns().
  std::uint64_t due_ns() const { return timed_.empty() ? k_never : next_grace_ns(); }

  /// Arms the doorbell for the next progress of the device. Called by an owner that is about to sleep.
  void arm_device();

  /// Adds a gate to an ordinary instance, so that its rounds can wait for streams. Returns NO_MEMORY or DEVICE, or
  /// STATE if the instance already has a gate.
  status add_gate(instance& inst);

  /// Returns true if a round, a task or a message is in flight. Progress is then expected soon. A partial instance that
  /// only serves other ranks does not count.
  bool is_busy() const {
    return outstanding_ != 0 || messages_ != 0 || !std::ranges::all_of(tasks_, &engine_task::is_idle);
  }

  /// Returns true if there are no partial instances, gates, tasks or messages. Then only rounds that callers have
  /// started are outstanding, and those callers will wait for them.
  bool has_only_called_rounds() const { return partial_ == 0 && gated_.empty() && tasks_.empty() && messages_ == 0; }

  /// Returns true if at least one operation for which threads can wait has ended since the last call.
  bool take_published() { return std::exchange(published_, false); }
  /// Makes take_published() return true. Called when an operation for which threads can wait has ended.
  void publish() { published_ = true; }

  /// Advances the task in every step until the task is over. The caller keeps ownership.
  void carry_on(engine_task& more) { tasks_.push_back(&more); }
  void drop(engine_task& gone) { std::erase(tasks_, &gone); }
  /// Takes ownership of a task, which is destroyed when it is over, or with the engine.
  void adopt(std::unique_ptr<engine_task> more) { adopted_.push_back(std::move(more)); }
  /// Destroys the adopted tasks. Called before the transport closes.
  void end_adopted() { std::exchange(adopted_, {}).clear(); }

  /// Returns a new instance number for the transport.
  std::uint32_t take_id() { return next_id_++; }

  /// Registers a sink and returns the base of its cookies. The engine passes each completion with a cookie in [base,
  /// base + 2^32) to the sink. The caller keeps ownership.
  std::uint64_t add_sink(message_sink& more);
  void drop_sink(const message_sink& gone);
  /// Adds `by` to the number of unfinished messages of sinks. `by` may be negative.
  void count_messages(int by) { messages_ += static_cast<std::uint64_t>(std::int64_t{by}); }

  /// Fails every instance and every sink with `why`. Waiters receive the error only when no job and no peer uses the
  /// memory of the instance or message any more. `culprit` is a transport rank.
  void fail_all(status why, rank culprit);

  /// Fails every instance whose world contains the lost transport rank `home`.
  void lose(rank home);
  /// Returns the member that was lost first, or k_no_rank.
  rank first_lost_of(const membership& world) const;
  /// Returns the member that a PEER error must name if member `missed` is missing. This is the first lost member,
  /// because the first loss can cause other losses. If no loss is known, returns `missed`. All PEER errors follow this
  /// rule.
  rank culprit_of_loss(const membership& world, rank missed) const;

  /// `member` has left the world `of` for good. Fails the instances of this world.
  void lose(const membership& of, rank member);
  void lose(instance& inst, rank member);

  /// Describes in one line what the instance waits for, and sets `*waits_for` to the rank to blame. A rank whose
  /// process is stopped or ending comes first. Next comes a rank that has not called for the round. If that rank itself
  /// waits, the last rank of its chain of waits is blamed instead. The last choice is a rank whose message is missing.
  std::string describe_wait(const instance& inst, rank* waits_for) const;

  /// Writes one line for each waiting or failed instance of a world. Sets `*waits_for` to the first member blamed.
  std::string describe_waits(const membership& of, rank* waits_for) const;

  /// Returns the rank to blame for a wait, and appends the reason to `text`. Each member of `awaited` could end the
  /// wait. The rank to blame is a member whose process is stopped or ending, else the last rank in the chain of waits
  /// that begins at a member of `awaited`.
  rank find_late(const membership& of, std::span<const rank> awaited, std::string& text) const;

  /// Publishes to the other ranks what this rank waits for. `since_ns` is the time at which the wait began.
  void note_wait(const instance& inst, std::uint64_t since_ns);
  void note_wait(const wait_note& what) { net_.recorder().note_wait(what); }
  void note_end_of_wait() { net_.recorder().note_wait({}); }

  /// Makes the engine record every op and round in `into`. Null stops recording. The caller owns the buffer.
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
  bool poll_graces();
  static round_no begin_grace(instance& inst, const op& call);
  static bool is_grace_over(const instance& inst);
  std::uint64_t next_grace_ns() const;
  instance* instance_of(std::uint32_t id) const;
  instance* instance_on_record(std::uint64_t number) const;
  std::vector<rank> ranks_late_for(const instance& inst, round_no round) const;
  std::string describe_commit(const instance& inst, rank* waits_for) const;
  std::string describe_failure(const instance& inst, rank* culprit) const;
  rank find_stopped(const membership& of, std::string& text) const;
  rank end_of_waits(const membership& of, rank from, std::string& text) const;
  rank find_culprit(const instance& inst, std::string& text) const;
  void take_bad_news();
  void give_up(instance& inst, const end_reason& why);
  static bool has_fired(const instance& inst, op_id id, std::uint32_t more = 0);
  void look(instance& inst);
  void advance(instance& inst);
  void begin_round(instance& inst);
  void end_round(instance& inst);
  void begin_closing(instance& inst);
  void last_signal_seen(instance& inst);
  void fail(instance& inst, status why, rank culprit);
  end_reason reason_of(const instance& inst) const;
  void close(instance& inst);
  rank reader_of(const instance& inst) const;
  bool poll_readers();
  bool is_any_read() const { return !closing_.empty() || !closing_sinks_.empty(); }
  void publish_failure(instance& inst);
  void end_of_jobs(instance& inst);

  /// The interpreter of an instance. round_player (schedule/round.h) calls its functions to run a round.
  struct interpreter;
  friend struct interpreter;

  outcome send(instance& inst, op_id id, const op& o);
  outcome receive(instance& inst, op_id id, const op& o);
  outcome compute(instance& inst, op_id id, const op& o);
  void begin_long();
  struct null_operands {
    bool is_settled = false;  ///< the result is complete without a call of the kernel
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
  outcome map_exposed(instance& inst, op_id id, const op& o, const arrival& news);
  void expose_sources(instance& inst);
  std::uint64_t expose_source(const instance& inst, op_id id) const;
  outcome combined(instance& inst, const op& o);
  outcome released(instance& inst, const op& o);
  static buffer_swap may_swap(const instance& inst, op_id id);
  void select(instance& inst, const op& o, region from, op_id payload, bool may_swap);
  void release_payload(instance& inst, op_id receive);
  outcome arrived(instance& inst, op_id id, const op& o, const arrival& news);
  bool may_stay(const instance& inst, op_id id, const op& o, const arrival& news) const;
  void copy_to_storage(instance& inst, op_id id, const op& o);
  void note_firing(const instance& inst, op_id id, std::uint64_t begin_ns);
  void note_end(const instance& inst, op_id id);

  outcome pass_over(instance& inst, op_id id, const op& o);
  outcome compute_lists(instance& inst, op_id id, const op& o);
  static compute_way way_of(const instance& inst, const op& o);

  static constexpr std::uint64_t k_sink_cookie = std::uint64_t{1} << 63;

  /// Before arithmetic or a copy of at least this many bytes, the engine flushes messages. Such work takes about 2 us
  /// or longer.
  static constexpr std::uint64_t k_long_bytes = std::uint64_t{1} << 15;

  endpoint& net_;
  lane* const lane_;
  lsched::device* device_ = nullptr;
  bool has_cancellation_points_;    ///< steps may call MPI, a GPU's driver or user code
  const membership_ptr home_;       ///< the world of all ranks
  const std::uint64_t long_bytes_;  ///< minimum bytes of arithmetic for which is_taken_by_lane() is called
  std::vector<std::unique_ptr<instance>> instances_;
  std::vector<std::uint32_t> free_places_;  ///< free indices of instances_
  std::size_t live_ = 0;
  std::size_t partial_ = 0;  ///< partial instances among live_
  std::uint32_t next_id_ = 0;
  std::vector<instance*> gated_;      ///< instances that have a gate
  std::vector<instance*> timed_;      ///< instances that have a grace op
  std::vector<instance*> closing_;    ///< failed instances whose memory peers still read
  bool is_armed_ = false;             ///< the doorbell will ring when the device has progressed
  std::vector<message_sink*> sinks_;  ///< registered sinks; null: free index
  /// A cancelled sink that has sends whose memory peers still read.
  struct closing_sink {
    message_sink* sink = nullptr;
    rank culprit = k_no_rank;  ///< transport rank
  };
  std::vector<closing_sink> closing_sinks_;
  std::vector<engine_task*> tasks_;
  std::vector<std::unique_ptr<engine_task>> adopted_;  ///< tasks that the engine owns
  std::vector<rank> lost_;  ///< lost transport ranks; needed if the transport does not record losses
  std::atomic<instance*> posted_{nullptr};
  bool published_ = false;
  std::uint64_t outstanding_ = 0;  ///< ops that have fired but not completed, over all instances
  std::uint64_t jobs_ = 0;         ///< number of outstanding ops on the lane or the device
  std::uint64_t device_jobs_ = 0;  ///< number of outstanding ops on the device
  std::uint64_t messages_ = 0;     ///< unfinished messages of sinks
  engine_counters counters_;
  trace_buffer* trace_ = nullptr;
  std::vector<completion> news_ = std::vector<completion>(64);
};

}  // namespace lsched
