// The objects behind the C handles, and the helpers of the C functions. The C functions check arguments, call C++ and
// translate failures, and have no further logic.
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
#include "libsched/session/flights.h"
#include "libsched/session/memory_layout.h"
#include "libsched/session/outcome.h"
#include "libsched/transport/no_cancellation.h"
#include "offload/joined_world.h"
#include "offload/open/segment_world.h"
#include "offload/runtime.h"
#include "offload/session_calls.h"
#include "ops/float_mode.h"

namespace lsched {

/// The validated options of a world, with defaults and environment variables applied.
struct open_options {
  runtime_options process;
  std::string trace_prefix{};  ///< value of LSCHED_TRACE; empty: no trace is recorded
  segment_options segment{};
  std::chrono::nanoseconds commit_timeout{};
  bool proves_at_commit = false;  ///< LSCHED_VERIFY
  selection choose_by;            ///< data for choosing algorithms, except the topology
};

/// Reads a caller's config. If `config` is null, uses the defaults and the environment. Returns ARGUMENT, with the
/// member's name, for an invalid member.
result<open_options> read_config(const lsched_config* config);

failure wrong_abi(int abi);

/// Returns the time at which a timeout that begins now expires. LSCHED_FOREVER, and timeouts above 100 years, never
/// expire.
driver::clock::time_point deadline_after(std::uint64_t timeout_ns);

struct creation;
class growth;

/// The validated replica groups of a partial schedule.
struct group_choice {
  lsched_world* all = nullptr;
  group_options how{};
};

/// Data that a handle of a schedule keeps besides the instance (the object that runs rounds).
struct schedule_extras {
  /// Creates a partial schedule again from the same desc, in a world of survivors (lsched_carry). If empty, the
  /// schedule cannot be moved.
  std::function<result<creation>(lsched_world&)> anew{};
  memory_layout layout{};
  std::vector<tensor> tensors{};               ///< tensors of an ordinary adaptive sum, at least one; empty for other
                                               ///< schedules
  bool looks_at_tensors = true;                ///< false if an adaptive sum combines no tensors: in a world of one
                                               ///< rank, or if the result is a mean
  std::shared_ptr<sparse_state> residual{};    ///< state of a sparse allreduce between rounds
  std::shared_ptr<sparse_functions> sparse{};  ///< kernels of a sparse allreduce, which also record refused rounds
  std::shared_ptr<coo_functions> coo{};        ///< kernels of an lsched_coo_allreduce_create, which also record refused
                                               ///< rounds
  bool has_weights = false;                    ///< true if offers may have weights, because a partial schedule adds up
                                               ///< dense vectors
  bool has_lists = false;                      ///< true if the caller passes positions and lengths of blocks with each
                                               ///< round
};

/// Options of the session of a partial schedule (offload/session_calls.h).
struct session_choice {
  divisor by = divisor::none;
  std::vector<std::uint64_t> buckets{};
};

/// A create request: the result of reading the arguments of a create function.
struct creation {
  commit_request request;
  schedule_extras extras{};
  std::optional<group_choice> groups{};     ///< replica groups; the request is that of the shard world
  std::optional<session_choice> session{};  ///< options of the session, only for partial schedules; the companion
                                            ///< instances in `request` belong to the session
  std::string warning{};                    ///< warning for the caller if the create succeeds
};

/// Reads the caller's memory for a program's buffers: one pointer per input and per output, in their order. Returns
/// ARGUMENT if a buffer that is not empty has no memory.
result<binding> read_pointers(const schedule& program, const void* const* inputs, void* const* outputs);

/// Combines a program (a compiled schedule) and the caller's memory into the input of a commit (`creation`). If
/// `program` is a failure, returns that failure. Returns ARGUMENT if a buffer that is not empty has no memory, or if an
/// output overlaps with other memory except in place (libsched/session/memory_layout.h).
result<creation> bind_program(std::string agreement, result<schedule_ptr> program, const void* const* inputs,
                              void* const* outputs);

/// Reads the memory for a round of an existing schedule. That memory must have the same layout and the same memory
/// spaces as the memory at create. Returns ARGUMENT, or a failure of spaces_of().
result<binding> read_next_memory(const lsched_schedule& schedule, const void* const* inputs, void* const* outputs);

/// Returns the space of each buffer's memory: host or device. Returns ARGUMENT for device memory if no device is
/// attached, or the failure of device_memory::space_of. A failure names the buffer.
result<caller_spaces> spaces_of(const lsched_world& world, const schedule& program, const binding& memory);

/// Returns whether `memory` is in device memory. Calls that access memory on the host use this check to refuse device
/// memory with UNSUPPORTED or ARGUMENT. The check costs one load if no GPU driver had been loaded when a world or
/// schedule was last created.
inline bool is_on_device(const void* memory) { return is_known_gpu_memory({&memory, 1}); }
/// Returns whether any of `number` pointers is in device memory. The cost is that of is_on_device. If `memory` is null,
/// returns false.
inline bool is_any_on_device(const void* const* memory, std::size_t number) {
  return memory != nullptr && is_known_gpu_memory({memory, number});
}

/// An array that a create function reads on the host.
struct named_array {
  std::string_view name;
  const void* place;
};

/// Returns ARGUMENT with the name of the first array that is in device memory. Looks for a GPU driver if any array is
/// not null.
std::optional<failure> first_on_device(std::initializer_list<named_array> arrays);

/// Returns the program with a memory space, host or device, for each scratch buffer. The memory spaces of the request's
/// buffers determine these spaces (libsched/place).
result<schedule_ptr> placed_in_memory(const lsched_world& world, const schedule_ptr& program,
                                      const commit_request& request);

/// Returns the functions by which the commit can prove the schedules of a creation (commit_proof). The commit makes the
/// proof if any rank requires it.
commit_proof proof_of(const lsched_world& world, const creation& made);

/// Completes a create function: commits, waits for the other ranks if creates of the world wait, and makes the handle.
/// If `made` is a failure, commits the failure, so that the other ranks fail too.
lsched_status commit(lsched_world* world, result<creation> made, lsched_schedule** schedule,
                     lsched_diagnostic* diagnostic);

/// Reads the replica groups of a partial schedule of the world `of_shard`. Returns ARGUMENT or UNSUPPORTED if they do
/// not fit the world or the other members of `desc`. `starts` is the activation, which counts groups.
result<group_choice> read_groups(const lsched_world& of_shard, const lsched_partial_desc& desc,
                                 const activation& starts);

/// Completes the create function of a schedule with replica groups, as commit() does. First commits the control
/// schedule in the world `all`, then the data schedule in the world `of_shard`. If `made` is a failure, the call fails
/// on all ranks of `all`.
lsched_status commit_groups(lsched_world& of_shard, lsched_world& all, result<creation> made,
                            lsched_schedule** schedule, lsched_diagnostic* diagnostic);

/// Returns the pointer to the control instance of a schedule with replica groups, or a pointer to null.
instance** control_of(lsched_schedule& schedule);

/// Fills in a handle from a commit and the request of that commit. `ranks` is the number by which a partial schedule
/// divides with divisor::ranks; 0: the size of the world.
void fill(lsched_schedule& handle, lsched_world& world, const queued_commit& queued, creation& made,
          std::uint64_t ranks = 0);

/// If the failure names a rank, adds details of that rank to the text. If the rank has another number in the opened
/// world, adds that number. If the rank is on another node, adds the host.
failure with_details_of_rank(const lsched_world& world, failure why);

/// Turns the result `answer` of a wait into the caller's status, and reports why the wait failed. The diagnostic covers
/// only `awaited`. If the round has ended since the wait returned TIMEOUT, returns OK.
lsched_status explain(const lsched_schedule& schedule, const awaited_round& awaited, status answer,
                      lsched_diagnostic* diagnostic);

/// Turns the result of a session's call into the caller's status, and reports why the call failed. Returns OK if the
/// awaited event has happened meanwhile; the caller must then repeat the call.
lsched_status explain(const lsched_schedule& schedule, const call_progress& made, lsched_diagnostic* diagnostic);

/// Repeats a call of a partial schedule's session until the call is done or has failed, or until the timeout has
/// expired. Reports failures.
template <class Call>
lsched_status complete(const lsched_schedule& schedule, std::uint64_t timeout_ns, lsched_diagnostic* diagnostic,
                       const Call& call);

/// Copies as much of a text as fits into `bytes` bytes, with a terminator. *needed (optional) receives the size of the
/// whole text with its terminator.
void copy_out(const std::string& whole, char* text, std::size_t bytes, std::size_t* needed);

/// Returns the statistics of a partial schedule as a JSON object.
std::string stats_json_of(const lsched_schedule& schedule);

/// Returns the pointers to the schedule's instances, in the order in which the instances must be removed.
std::vector<instance**> instances_of(lsched_schedule& schedule);

/// Returns ARGUMENT for a missing schedule, and STATE for a schedule of the other kind (ordinary or partial).
lsched_status refuse(const lsched_schedule* schedule);
/// Returns the status of refuse(schedule), and reports `reason`.
lsched_status refuse(const lsched_schedule* schedule, const char* reason, lsched_diagnostic* diagnostic);

/// Reports the failure `answer` of a start, offer or rebind to lsched_last_failure(), and returns the status of that
/// failure.
lsched_status explain_start(const lsched_schedule& schedule, const instance& started, status answer);

/// Runs a call that is not on the path of a round, and reports exceptions as failures. Only the standard library
/// throws, and no exception crosses the C interface. The call runs in the default floating-point mode, because choices
/// and conversions must be equal on all ranks. pthread_cancel does not take effect during the call.
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
                   std::string("the system refused to start a thread (see `ulimit -u`) or to return random numbers: ") +
                       error.what()});
  } catch (const std::exception& error) {
    return report(diagnostic, {status::internal, error.what()});
  }
}

/// Runs the body of a C create function. `describe` reads the caller's arguments and returns a result<creation> for the
/// world.
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
  /// Opens the world of all ranks of the transport.
  lsched_world(std::unique_ptr<lsched::endpoint> net, const lsched::open_options& options,
               const lsched::neighbourhood& around);

  /// Makes a world that was derived from `parent` by a split or a shrink.
  lsched_world(const lsched_world& parent, lsched::new_world made);

 private:
  const std::shared_ptr<lsched::runtime> runtime_;  ///< shared by a world that was opened and all worlds made from it;
                                                    ///< destroyed with the last of these worlds

 public:
  lsched::runtime& process;
  lsched::joined_world joined;
  lsched::schedule_cache schedules_made;
  std::atomic<bool> creates_wait{true};
  std::atomic<bool> proves_at_commit{false};  ///< true if this rank requires proofs of its schedules
  std::shared_ptr<lsched::growth> growing{};  ///< set by lsched_grow_begin; ends before the other members

  lsched::world place() const { return joined.place(); }
  /// Returns the node of each rank, as in shape::nodes.
  const std::vector<lsched::rank>& nodes() const { return schedules_made.by().around.nodes; }
};

struct lsched_schedule {
  lsched_world* world;
  lsched_world* all = nullptr;  ///< world of the control instance; null unless the schedule has replica groups
  lsched::instance* instance;   ///< the first of the schedule's instances (flights)
  lsched::flights flights{};
  std::shared_ptr<const lsched::schedule_commit> commit{};
  lsched::schedule_extras extras{};
  std::optional<lsched::session> session{};  ///< only in partial schedules
  bool is_partial() const { return instance->program->is_partial(); }
  bool has_groups() const { return all != nullptr; }
  /// Returns the world of an instance of the schedule.
  const lsched_world& world_of(const lsched::instance& one) const {
    return has_groups() && &one == *session->groups()->removable_control() ? *all : *world;
  }
  /// Returns whether the caller passes memory with each round (lsched_start_with).
  bool is_started_with_memory() const { return flights.depth() > 1 || extras.has_lists; }
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
