#include "tests/support/fake_cuda/process.h"

#include "tests/support/fake_cuda/capture.h"
#include "tests/support/fake_cuda/misuse.h"

namespace lsched {
[[gnu::weak]] const emulated_kernel* find_emulated(std::string_view name);  // null if no kernels are linked
}

namespace fake_cuda {
namespace {

void sleep_for_ever(process& p, lock& held) {
  p.changed.wait(held, [&] { return p.dead.has_value(); });
}

}  // namespace

process& the_process() {
  static process* const one = [] {
    auto* made = new process;
    start_anew(*made);
    return made;
  }();
  return *one;
}

void start_anew(process& p) {
  p.settings = read_options();
  p.faults = {};
  p.faults.add(p.settings.faults);
  p.calls.clear();
  p.dead.reset();
  ++p.generation;
  for (CUstream stream : p.busy) stream->queue.clear();
  p.busy.clear();
  p.streams.retire_all();
  p.events.retire_all();
  p.modules.retire_all();
  p.functions.retire_all();
  p.graphs.retire_all();
  p.captures.clear();
  while (!p.memory.all().empty()) p.memory.remove(p.memory.all().begin()->first);
  p.handles.clear();
  p.reservations.clear();
  while (static_cast<int>(p.contexts.size()) < p.settings.devices) {
    p.contexts.push_back(std::make_unique<CUctx_st>());
    p.contexts.back()->device = static_cast<int>(p.contexts.size()) - 1;
    p.contexts.back()->legacy.context = p.contexts.back().get();
  }
  for (const auto& context : p.contexts) {
    context->retained = 0;
    context->legacy.is_held = context->legacy.hangs = false;
    for (auto& [thread, stream] : context->of_threads) {
      stream.is_held = stream.hangs = false;
      stream.capture = nullptr;
    }
  }
  p.find_kernel = linked_kernels();
  p.is_held = false;
  p.order.seed(p.settings.seed);
}

lsched::testing::kernel_finder linked_kernels() { return lsched::find_emulated; }

void die(process& p, CUresult answer) {
  if (!p.dead) p.dead = answer;
  p.changed.notify_all();
  p.work_arrived.notify_all();
}

thread_state& this_thread() {
  thread_local thread_state state;
  return state;
}

CUcontext current_context(const process& p) {
  thread_state& mine = this_thread();
  if (mine.generation != p.generation) mine.contexts.clear();
  mine.generation = p.generation;
  return mine.contexts.empty() ? nullptr : mine.contexts.back();
}

std::optional<CUresult> admit(process& p, lock& held, const char* name, unsigned what) {
  thread_state& mine = this_thread();
  if (mine.is_in_host_function) misuse(std::string(name) + " inside a host function");
  if (p.id != getpid()) misuse(std::string(name) + " in a process that was forked after the driver was loaded");
  ++p.calls[name];
  const std::optional<fault> failing = p.faults.on_call(name);
  if (failing && failing->is_sticky) die(p, failing->code);
  if (p.dead && (what & k_always) == 0) return p.dead;
  if (failing && !failing->hangs) return failing->code;
  if (!p.is_initialised && (what & (k_before_init | k_always)) == 0) return CUDA_ERROR_NOT_INITIALIZED;
  if ((what & k_needs_context) != 0) {
    const CUcontext current = current_context(p);
    if (current == nullptr) misuse(std::string(name) + ": no context is current");
    if (current->retained == 0) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  }
  if ((what & k_unsafe_in_capture) != 0 && forbids_unsafe_calls(p))
    misuse(std::string(name) + " would end a capture: the thread's mode is not RELAXED");
  mine.call_hangs = failing.has_value();
  if (mine.call_hangs && (what & k_queues) == 0) {
    sleep_for_ever(p, held);
    return p.dead;
  }
  return std::nullopt;
}

}  // namespace fake_cuda
