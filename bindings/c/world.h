// What stands behind the C handles. The C functions check arguments, call C++ and translate failures; they hold no
// logic of their own.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "bindings/c/lsched.h"
#include "bindings/c/sized.h"
#include "collectives/schedule_cache.h"
#include "collectives/sparse/steps/coo.h"
#include "collectives/sparse/steps/sparse_functions.h"
#include "collectives/sparse/steps/state.h"
#include "libsched/place/place.h"
#include "libsched/session/memory_layout.h"
#include "libsched/transport/no_cancellation.h"
#include "libsched/transport/shm/shm_endpoint.h"
#include "offload/joined_world.h"
#include "offload/runtime.h"
#include "offload/session_calls.h"
#include "ops/float_mode.h"

namespace lsched {

/// Options after defaults, environment and checks.
struct open_options {
  runtime_options process;
  std::string trace_prefix{};  ///< LSCHED_TRACE; empty: no trace is recorded
  std::uint64_t region_bytes = 0;
  std::string recorder{};  ///< the file for the recording; empty: none
  std::chrono::nanoseconds commit_timeout{};
  std::chrono::nanoseconds start_timeout{};  ///< of the wait for ranks that have not opened
  shm_options shm;
  bool proves_at_commit = false;  ///< LSCHED_VERIFY
  selection choose_by;            ///< all but the topology
  rank ranks_per_node = 0;        ///< so many neighbours play a node; 0: real nodes
};

/// Reads a caller's config (null: defaults and environment). ARGUMENT names the field that is wrong.
result<open_options> read_config(const lsched_config* config);

failure wrong_abi(int abi);

/// A deadline that far from now; LSCHED_FOREVER is never.
driver::clock::time_point deadline_after(std::uint64_t timeout_ns);

struct creation;

/// What a schedule keeps besides its instance.
struct schedule_extras {
  /// Of a partial one that can go on in a world of less ranks: makes it anew there, of the same desc.
  std::function<result<creation>(lsched_world&)> anew{};
  memory_layout layout{};
  std::vector<tensor> tensors{};  ///< of an ordinary adasum, at least one; of all others none
  bool looks_at_tensors = true;   ///< of an ordinary adasum: false where there is nothing to combine, or a mean to take
  std::shared_ptr<sparse_state> residual{};    ///< of a sparse allreduce: what lives from round to round
  std::shared_ptr<sparse_functions> sparse{};  ///< likewise: what judges its rounds
  std::shared_ptr<coo_functions> coo{};        ///< of a sum of users' sparse vectors: what judges its rounds
  bool has_lists = false;                      ///< whose places and lengths come with each round
};

/// What runs every so many-th of a schedule's rounds: rounds that may be outstanding at once have an instance each.
struct flight {
  instance* runs = nullptr;
  binding memory{};  ///< of the last round that had its own; kept, like these, so that rounds of lists allocate nothing
  std::vector<std::uint64_t> input_begins{}, output_begins{};  ///< of lists that lie one after the other
};

/// What a partial schedule's session is told.
struct session_choice {
  divisor by = divisor::none;
  std::vector<std::uint64_t> buckets{};
};

/// What a create function makes of its arguments.
struct creation {
  commit_request request;
  schedule_extras extras{};
  std::optional<session_choice> session{};  ///< of a partial schedule, whose companions are its session's
  std::string remark{};                     ///< for the caller, although all is well
};

/// The caller's memory for a program's buffers, one pointer per input and per output in their order. ARGUMENT: a buffer
/// that is not empty has none.
result<binding> read_pointers(const schedule& program, const void* const* inputs, void* const* outputs);

/// A creation from a program, if there is one, and the caller's memory for it. ARGUMENT: a buffer that is not empty has
/// none, or an output overlaps with other memory and not as in place (libsched/session/memory_layout.h).
result<creation> bind_program(std::string agreement, result<schedule_ptr> program, const void* const* inputs,
                              void* const* outputs);

/// Memory for another round of a schedule: there, lying as that of its create does, and in the same spaces. ARGUMENT,
/// or as spaces_of().
result<binding> read_next_memory(const lsched_schedule& schedule, const void* const* inputs, void* const* outputs);

/// Where that memory is: host or device. The failure names the buffer: ARGUMENT (device memory, and no device was
/// attached), or as device::space_of.
result<caller_spaces> spaces_of(const lsched_world& world, const schedule& program, const binding& memory);

/// Whether the host cannot touch what lies there, for calls whose memory it does touch: UNSUPPORTED, or ARGUMENT where
/// such memory makes no sense. In a process that has no driver, or had none when what is called was created, costs a
/// load.
inline bool is_on_device(const void* memory) { return is_known_gpu_memory({&memory, 1}); }
/// The same of any of them, for the same load; null: there are none.
inline bool is_any_on_device(const void* const* memory, std::size_t number) {
  return memory != nullptr && is_known_gpu_memory({memory, number});
}

/// An array that a create reads: its name, and where it is.
struct named_array {
  std::string_view name;
  const void* place;
};

/// ARGUMENT with the first of them that the host cannot read. Looks for a driver if there is any array.
std::optional<failure> first_on_device(std::initializer_list<named_array> arrays);

/// A request's program for memory that is where the request's is (libsched/place).
result<schedule_ptr> placed_in_memory(const lsched_world& world, const schedule_ptr& program,
                                      const commit_request& request);

/// Returns the proof of a creation, which takes place if any rank asks for the proof.
commit_proof proof_of(const lsched_world& world, const creation& made);

/// How every create ends: commits, makes the handle, and waits for the other ranks where creates wait. A rank whose
/// arguments are bad commits its failure, since the others have to learn of it.
lsched_status commit(lsched_world* world, result<creation> made, lsched_schedule** schedule,
                     lsched_diagnostic* diagnostic);

/// Adds the rank's number in the world that was opened to the text, if that number is another one.
failure in_both_numberings(const lsched_world& world, failure why);

/// A round that a caller waits for.
struct awaited_round {
  const instance& runs;
  round_no round;  ///< of the instance
  round_no shown;  ///< as the caller counts rounds; 0: the caller waits for the creation or the end of the schedule
};

/// Turns the answer of a wait into the status of the caller, and reports why the wait has not succeeded. The caller is
/// told of `awaited` only. OK if the round has ended although its wait had answered TIMEOUT.
lsched_status explain(const lsched_schedule& schedule, const awaited_round& awaited, status answer,
                      lsched_diagnostic* diagnostic);

/// The same for the answer of a session's call. After OK the call has to be made again.
lsched_status explain(const lsched_schedule& schedule, const call_progress& made, lsched_diagnostic* diagnostic);

/// Makes a call of a partial schedule's session until the call is done, has failed, or the time is over; reports
/// failures.
template <class Call>
lsched_status complete(const lsched_schedule& schedule, std::uint64_t timeout_ns, lsched_diagnostic* diagnostic,
                       const Call& call);

/// Copies as much of a text as there is room for, terminated; *needed (optional) = the room for all of it.
void copy_out(const std::string& whole, char* text, std::size_t bytes, std::size_t* needed);

/// The schedule's instances, in the order in which they are removed.
std::vector<instance**> instances_of(lsched_schedule& schedule);

/// Returns ARGUMENT for a missing schedule, and STATE for a schedule of the other kind (ordinary or partial).
lsched_status refuse(const lsched_schedule* schedule);
/// Does the same, and reports the reason.
lsched_status refuse(const lsched_schedule* schedule, const char* reason, lsched_diagnostic* diagnostic);

/// Reports a failed start, offer or rebind of an instance to lsched_last_failure(), and returns its status.
lsched_status explain_start(const lsched_schedule& schedule, const instance& started, status answer);

/// Runs a cold call, in the default floating-point mode: what ranks choose or convert must be the same on all of them.
/// Only the standard library throws exceptions, and none of them crosses the C interface. The call is no cancellation
/// point.
template <class Call>
lsched_status guarded(lsched_diagnostic* diagnostic, Call&& call) {
  const default_float_mode here;
  const no_cancellation during_call;
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return report(diagnostic, {status::no_memory, "out of memory"});
  } catch (const std::system_error& error) {
    return report(diagnostic,
                  {status::no_memory,
                   std::string("the system refuses a thread (`ulimit -u`) or random numbers: ") + error.what()});
  } catch (const std::exception& error) {
    return report(diagnostic, {status::internal, error.what()});
  }
}

/// A create function: `describe` makes a result<creation> of its arguments in the world.
template <class Describe>
lsched_status create(lsched_world* world, lsched_schedule** schedule, lsched_diagnostic* diagnostic,
                     const Describe& describe) {
  return guarded(diagnostic, [&] {
    if (world == nullptr) return report(diagnostic, {status::argument, "world is null"});
    return commit(world, describe(*world), schedule, diagnostic);
  });
}

}  // namespace lsched

struct lsched_world {
  /// The world of all ranks of the transport.
  lsched_world(std::unique_ptr<lsched::endpoint> net, const lsched::open_options& options,
               const lsched::neighbourhood& around);

  /// One that has come of `parent`.
  lsched_world(const lsched_world& parent, lsched::new_world made);

 private:
  const std::shared_ptr<lsched::runtime> runtime_;  ///< of all worlds of the process; ends with the last one

 public:
  lsched::runtime& process;
  const std::chrono::nanoseconds commit_timeout;
  lsched::joined_world joined;
  lsched::schedule_cache schedules_made;
  std::atomic<bool> creates_wait{true};
  std::atomic<bool> proves_at_commit{false};  ///< this rank asks for proofs of its schedules

  lsched::world place() const { return joined.place(); }
  /// As in shape::nodes.
  const std::vector<lsched::rank>& nodes() const { return schedules_made.by().around.nodes; }
};

struct lsched_schedule {
  lsched_world* world;
  lsched::instance* instance;             ///< that of the first flight
  std::vector<lsched::flight> flights{};  ///< round t is that of number (t - 1) modulo so many
  std::size_t next_flight = 0;            ///< which runs the next round
  std::shared_ptr<const lsched::schedule_commit> commit{};
  lsched::schedule_extras extras{};
  lsched::round_no bound_after = 0;          ///< rounds that wrote to memory that was bound earlier
  std::optional<lsched::session> session{};  ///< of a partial one
  bool is_partial() const { return instance->program->is_partial(); }
  /// Whether every round has memory of its own.
  bool is_started_with_memory() const { return flights.size() > 1 || extras.has_lists; }
};

template <class Call>
lsched_status lsched::complete(const lsched_schedule& schedule, std::uint64_t timeout_ns, lsched_diagnostic* diagnostic,
                               const Call& call) {
  const driver::clock::time_point deadline = deadline_after(timeout_ns);
  for (;;) {
    const call_progress made = complete(schedule.world->process.driver(), deadline, call);
    if (made.answer == status::ok) return LSCHED_OK;
    if (const lsched_status why = explain(schedule, made, diagnostic); why != LSCHED_OK) return why;
  }
}
