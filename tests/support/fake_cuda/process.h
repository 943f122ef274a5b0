// All that the fake driver knows in one process, and how a call enters it.
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

/// A handle of VMM, as many times as it was given out.
struct vmm_handle {
  std::shared_ptr<chunk> of;
  int owners = 0;
};

/// Addresses of VMM: `alias` is as large, and the driver finds there what is mapped.
struct vmm_reservation {
  std::size_t size = 0;
  std::byte* alias = nullptr;
};

/// A test steps a worker that is held.
struct step_request {
  CUstream stream = nullptr;
  bool any = false;
  std::optional<bool> answer;
};

struct process {
  std::mutex guard;                      ///< of all that follows; not held while work runs
  std::condition_variable changed;       ///< work has completed, or nothing will any more
  std::condition_variable work_arrived;  ///< what the worker looks at is new

  options settings;
  fault_plan faults;
  std::map<std::string, std::uint64_t, std::less<>> calls;
  std::optional<CUresult> dead;  ///< the answer of every call from now on
  bool is_initialised = false;
  pid_t id = getpid();
  std::uint64_t generation = 0;  ///< resets so far

  std::vector<std::unique_ptr<CUctx_st>> contexts;  ///< the primary one of each device
  registry<CUstream_st> streams;
  registry<CUevent_st> events;
  registry<CUmod_st> modules;
  registry<CUfunc_st> functions;
  registry<CUgraph_st> graphs;
  std::vector<std::shared_ptr<capture>> captures;  ///< that have not ended
  lsched::testing::kernel_finder find_kernel = nullptr;

  memory_map memory;
  std::map<CUmemGenericAllocationHandle, vmm_handle> handles;
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

/// Made at the first call and never destroyed: threads may outlive everything else.
process& the_process();

/// Reads the environment, and is as a driver that nobody has called. With the lock.
void start_anew(process& p);

/// Where kernels are found when a test says nothing. nullptr: none are linked to this library.
lsched::testing::kernel_finder linked_kernels();

/// Nothing succeeds any more, and nothing that is queued runs. With the lock.
void die(process& p, CUresult answer);

/// One line for each thing that was not given back. With the lock.
std::vector<std::string> leaks_of(const process& p);

/// What belongs to a thread.
struct thread_state {
  std::vector<CUcontext> contexts;
  std::uint64_t generation = 0;  ///< of the process, when they were pushed
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  bool is_in_host_function = false;
  bool call_hangs = false;  ///< what this call queues never completes; what it asks for is never ready
};
thread_state& this_thread();

/// nullptr: none is current. With the lock.
CUcontext current_context(const process& p);

// What a call is, for admit().
inline constexpr unsigned k_anywhere = 0;
inline constexpr unsigned k_needs_context = 1;      ///< one must be current
inline constexpr unsigned k_unsafe_in_capture = 2;  ///< by threads whose mode is not RELAXED
inline constexpr unsigned k_before_init = 4;        ///< may come before cuInit
inline constexpr unsigned k_always = 8;             ///< has its own answer even when nothing succeeds any more
inline constexpr unsigned k_queues = 16;            ///< queues work, or asks for its end

/// What comes before the work of every call: it is counted, may be misuse, and may fail. An answer: the call has no
/// more to do.
std::optional<CUresult> admit(process& p, lock& held, const char* name, unsigned what);

/// A call of the driver: `body` does its work, with the lock.
template <class Body>
CUresult call(const char* name, unsigned what, Body&& body) {
  process& p = the_process();
  lock held(p.guard);
  if (const std::optional<CUresult> answer = admit(p, held, name, what)) return *answer;
  return body(p, held);
}

}  // namespace fake_cuda
