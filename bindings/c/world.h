// The objects behind the C handles, and the helpers of the C functions. The C functions check arguments, call C++ and
// translate failures. They have no logic of their own.
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

/// The options of a world, after defaults, environment variables and checks have been applied.
struct open_options {
  runtime_options process;
  std::string trace_prefix{};  ///< LSCHED_TRACE; empty: no trace is recorded
  std::uint64_t region_bytes = 0;
  std::string recorder{};  ///< file for `lsched postmortem`; empty: none
  std::chrono::nanoseconds commit_timeout{};
  std::chrono::nanoseconds start_timeout{};  ///< timeout of the wait for all ranks to open the world
  shm_options shm;
  bool proves_at_commit = false;  ///< LSCHED_VERIFY
  selection choose_by;            ///< everything except the topology
  rank ranks_per_node = 0;        ///< size of the groups of neighbouring ranks that act as nodes; 0: real nodes
};

/// Reads a caller's config. Null means the defaults and the environment. ARGUMENT names the invalid field.
result<open_options> read_config(const lsched_config* config);

failure wrong_abi(int abi);

/// Returns the deadline after a timeout from now. LSCHED_FOREVER, and timeouts above 100 years, never expire.
driver::clock::time_point deadline_after(std::uint64_t timeout_ns);

struct creation;

/// Data of a schedule besides its instance.
struct schedule_extras {
  /// Creates a partial schedule again from the same desc, in a world of its survivors. Empty: it cannot be carried.
  std::function<result<creation>(lsched_world&)> anew{};
  memory_layout layout{};
  std::vector<tensor> tensors{};               ///< ordinary adaptive sums: at least one tensor; others: empty
  bool looks_at_tensors = true;                ///< false if an adaptive sum combines no tensors: one rank, or a mean
  std::shared_ptr<sparse_state> residual{};    ///< sparse allreduces: the state that persists between rounds
  std::shared_ptr<sparse_functions> sparse{};  ///< sparse allreduces: records refused rounds
  std::shared_ptr<coo_functions> coo{};        ///< sums of users' sparse vectors: records refused rounds
  bool has_lists = false;                      ///< the blocks are lists whose places and lengths come with each round
};

/// One instance of a schedule of depth d, which runs every d-th round. Outstanding rounds need separate instances.
struct flight {
  instance* runs = nullptr;
  // Kept between rounds, so that rounds of lists do not allocate.
  binding memory{};                                            ///< the memory of the last round that brought its own
  std::vector<std::uint64_t> input_begins{}, output_begins{};  ///< displacements of contiguous lists
};

/// Options of a partial schedule's session.
struct session_choice {
  divisor by = divisor::none;
  std::vector<std::uint64_t> buckets{};
};

/// A create request: the result of reading the arguments of a create function.
struct creation {
  commit_request request;
  schedule_extras extras{};
  std::optional<session_choice> session{};  ///< partial schedules; the companions in `request` belong to the session
  std::string remark{};                     ///< a warning for the caller of a create that succeeds
};

/// Reads the caller's memory for a program's buffers: one pointer per input and per output, in their order. Returns
/// ARGUMENT if a buffer that is not empty has no memory.
result<binding> read_pointers(const schedule& program, const void* const* inputs, void* const* outputs);

/// Makes a creation from a program and the caller's memory. Returns the failure of the program if there is one. Returns
/// ARGUMENT if a buffer that is not empty has no memory, or if an output overlaps with other memory except in place
/// (libsched/session/memory_layout.h).
result<creation> bind_program(std::string agreement, result<schedule_ptr> program, const void* const* inputs,
                              void* const* outputs);

/// Reads the memory for another round of a schedule, which must have the layout and the memory spaces of the memory at
/// create. Fails with ARGUMENT, or as spaces_of().
result<binding> read_next_memory(const lsched_schedule& schedule, const void* const* inputs, void* const* outputs);

/// Returns the space of each buffer's memory: host or device. The failure names the buffer: ARGUMENT for device memory
/// if no device is attached, or the failure of device::space_of.
result<caller_spaces> spaces_of(const lsched_world& world, const schedule& program, const binding& memory);

/// Returns whether `memory` is in device memory, for calls that access it on the host. They return UNSUPPORTED, or
/// ARGUMENT if such memory makes no sense. The check costs one load if the process has no GPU driver, or had none when
/// the called object was created.
inline bool is_on_device(const void* memory) { return is_known_gpu_memory({&memory, 1}); }
/// Returns whether any of the pointers is in device memory, for the same cost. Null means no pointers.
inline bool is_any_on_device(const void* const* memory, std::size_t number) {
  return memory != nullptr && is_known_gpu_memory({memory, number});
}

/// An array that a create function reads on the host.
struct named_array {
  std::string_view name;
  const void* place;
};

/// Returns ARGUMENT with the name of the first array that is in device memory. Looks for a GPU driver if any array
/// is given.
std::optional<failure> first_on_device(std::initializer_list<named_array> arrays);

/// Returns the program placed for the memory spaces of the request's buffers (libsched/place).
result<schedule_ptr> placed_in_memory(const lsched_world& world, const schedule_ptr& program,
                                      const commit_request& request);

/// Returns the proof of a creation, which takes place if any rank asks for the proof.
commit_proof proof_of(const lsched_world& world, const creation& made);

/// Completes a create: commits, waits for the other ranks if creates of the world wait, and makes the handle. A rank
/// with invalid arguments commits its failure, because the other ranks must learn of it.
lsched_status commit(lsched_world* world, result<creation> made, lsched_schedule** schedule,
                     lsched_diagnostic* diagnostic);

/// Adds to the text the number that the failure's rank has in the world that was opened, if it is different there.
failure in_both_numberings(const lsched_world& world, failure why);

/// A round that a caller waits for.
struct awaited_round {
  const instance& runs;
  round_no round;  ///< as the instance counts rounds
  round_no shown;  ///< as the caller counts rounds; 0: the caller waits for the creation or the end of the schedule
};

/// Turns the result of a wait into the caller's status, and reports why the wait failed. The diagnostic covers
/// `awaited` only. Returns OK if the round has ended after its wait had returned TIMEOUT.
lsched_status explain(const lsched_schedule& schedule, const awaited_round& awaited, status answer,
                      lsched_diagnostic* diagnostic);

/// Does the same for the result of a session's call. After OK the call must be repeated.
lsched_status explain(const lsched_schedule& schedule, const call_progress& made, lsched_diagnostic* diagnostic);

/// Repeats a call of a partial schedule's session until it is done, has failed, or the timeout has expired. Reports
/// failures.
template <class Call>
lsched_status complete(const lsched_schedule& schedule, std::uint64_t timeout_ns, lsched_diagnostic* diagnostic,
                       const Call& call);

/// Copies as much of a text as fits into `bytes` bytes, with a terminator. *needed (optional) receives the size of the
/// whole text with its terminator.
void copy_out(const std::string& whole, char* text, std::size_t bytes, std::size_t* needed);

/// Returns the schedule's instances in the order of their removal.
std::vector<instance**> instances_of(lsched_schedule& schedule);

/// Returns ARGUMENT for a missing schedule, and STATE for a schedule of the other kind (ordinary or partial).
lsched_status refuse(const lsched_schedule* schedule);
/// Does the same, and reports the reason.
lsched_status refuse(const lsched_schedule* schedule, const char* reason, lsched_diagnostic* diagnostic);

/// Reports a failed start, offer or rebind of an instance to lsched_last_failure(), and returns its status.
lsched_status explain_start(const lsched_schedule& schedule, const instance& started, status answer);

/// Runs a call that is not on the path of a round, and reports exceptions as failures. Only the standard library
/// throws, and no exception crosses the C interface. The call runs in the default floating-point mode, because choices
/// and conversions must be equal on all ranks. The call is not a cancellation point of the thread.
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

/// Runs a create function. `describe` reads the arguments and returns a result<creation> for the world.
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
  const std::shared_ptr<lsched::runtime> runtime_;  ///< shared by all worlds of the process; ends with the last world

 public:
  lsched::runtime& process;
  const std::chrono::nanoseconds commit_timeout;
  lsched::joined_world joined;
  lsched::schedule_cache schedules_made;
  std::atomic<bool> creates_wait{true};
  std::atomic<bool> proves_at_commit{false};  ///< this rank asks for proofs of its schedules

  lsched::world place() const { return joined.place(); }
  /// The node of each rank, as in shape::nodes.
  const std::vector<lsched::rank>& nodes() const { return schedules_made.by().around.nodes; }
};

struct lsched_schedule {
  lsched_world* world;
  lsched::instance* instance;             ///< the instance of the first flight
  std::vector<lsched::flight> flights{};  ///< round t runs in flight (t - 1) mod flights.size()
  std::size_t next_flight = 0;            ///< the flight of the next round
  std::shared_ptr<const lsched::schedule_commit> commit{};
  lsched::schedule_extras extras{};
  lsched::round_no bound_after = 0;          ///< number of rounds before the present memory was bound
  std::optional<lsched::session> session{};  ///< only in partial schedules
  bool is_partial() const { return instance->program->is_partial(); }
  /// Returns whether every round has memory of its own.
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
