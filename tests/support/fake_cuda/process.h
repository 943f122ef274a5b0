// The state of the fake driver in one process. Every call of the driver passes through the function call().
#pragma once

#include <unistd.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/fake_cuda/control.h"
#include "tests/support/fake_cuda/faults.h"
#include "tests/support/fake_cuda/objects.h"
#include "tests/support/fake_cuda/options.h"
#include "tests/support/fake_cuda/registry.h"

namespace fake_cuda {

using lock = std::unique_lock<std::mutex>;

/// A range of addresses that a program has reserved for mappings of virtual memory management (VMM). The driver
/// accesses the mapped memory through `alias`, a range of the same size.
struct vmm_reservation {
  std::size_t size = 0;
  std::byte* alias = nullptr;
};

/// A test's request to run one piece of work while the worker is held.
struct step_request {
  CUstream stream = nullptr;
  bool any = false;
  std::optional<bool> answer;
};

struct process {
  std::mutex guard;                      ///< protects all fields below; not held while work runs
  std::condition_variable changed;       ///< notified when work has completed, or the driver has failed for good
  std::condition_variable work_arrived;  ///< notified when the worker must check its state again

  options settings;
  fault_plan faults;
  std::map<std::string, std::uint64_t, std::less<>> calls;
  std::optional<CUresult> dead;  ///< result of all further calls, after a sticky fault
  bool is_initialised = false;
  pid_t id = getpid();
  std::uint64_t generation = 0;  ///< incremented by each reset

  std::vector<std::unique_ptr<CUctx_st>> contexts;  ///< primary contexts, by device
  registry<CUstream_st> streams;
  registry<CUevent_st> events;
  registry<CUmod_st> modules;
  registry<CUfunc_st> functions;
  registry<CUgraph_st> graphs;
  std::vector<std::shared_ptr<capture>> captures;  ///< open captures
  lsched::testing::kernel_finder find_kernel = nullptr;

  memory_map memory;
  std::map<CUmemGenericAllocationHandle, std::shared_ptr<chunk>> handles;
  std::map<address, vmm_reservation> reservations;
  CUmemGenericAllocationHandle last_handle = 0;

  std::vector<CUstream> busy;  ///< streams with work
  CUstream running = nullptr;
  std::uint64_t last_work = 0;
  bool has_worker = false;
  bool is_held = false;
  step_request* step = nullptr;
  std::mt19937_64 order;
};

/// Returns the state of this process. It is created by the first call and never destroyed, because threads may outlive
/// static objects.
process& the_process();

/// Reads the environment and restores the initial state, except that the driver stays initialised. Requires the lock.
void start_anew(process& p);

/// Returns the default function that finds kernels; nullptr if no kernels are linked to this library.
lsched::testing::kernel_finder linked_kernels();

/// Makes all further calls fail with `answer`, and stops queued work. Requires the lock.
void die(process& p, CUresult answer);

/// Returns one line for each leak. Requires the lock.
std::vector<std::string> leaks_of(const process& p);

/// The state of one thread.
struct thread_state {
  std::vector<CUcontext> contexts;
  std::uint64_t generation = 0;  ///< generation of the process when the contexts were pushed
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  bool is_in_host_function = false;
  bool call_hangs = false;  ///< whether this call hangs: the work that it queues never completes, and the objects that
                            ///< it queries are never ready
};
thread_state& this_thread();

/// Returns the current context of the calling thread, or nullptr. Requires the lock.
CUcontext current_context(const process& p);

// Properties of a call, for admit().
inline constexpr unsigned k_anywhere = 0;
inline constexpr unsigned k_needs_context = 1;      ///< requires a current context
inline constexpr unsigned k_unsafe_in_capture = 2;  ///< forbidden during captures unless the thread's mode is RELAXED
inline constexpr unsigned k_before_init = 4;        ///< allowed before cuInit
inline constexpr unsigned k_always = 8;             ///< works even after the driver has failed for good
inline constexpr unsigned k_queues = 16;            ///< queues work, or queries its completion

/// Counts a call, checks the call for misuse, and applies faults. If this function returns a result, the call must do
/// nothing and return this result.
std::optional<CUresult> admit(process& p, lock& held, const char* name, unsigned what);

/// Performs a call of the driver. First calls admit(), and then `body`, which does the work of the call. The calling
/// thread holds the lock during both.
template <class Body>
CUresult call(const char* name, unsigned what, Body&& body) {
  process& p = the_process();
  lock held(p.guard);
  if (const std::optional<CUresult> answer = admit(p, held, name, what)) return *answer;
  return body(p, held);
}

}  // namespace fake_cuda
