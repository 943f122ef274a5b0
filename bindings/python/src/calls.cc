#include "bindings/python/src/calls.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <mutex>
#include <thread>

namespace lsched::python {
namespace {

std::atomic<unsigned> forked{0};

nb::object made_error(const lsched_diagnostic& why) {
  return nb::module_::import_("libsched._errors")
      .attr("error_of")(static_cast<int>(why.status), why.rank, why.op, why.round, why.text);
}

void raise(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const call_failure& failed) {
    try {
      const nb::object error = made_error(failed.why);
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
    } catch (nb::python_error& instead) {  // for example from a signal handler
      instead.restore();
    }
  }
}

// `returning` is the number of threads that are taking the interpreter's lock back. `ends_it` is the thread that ends
// the interpreter, and is set before `is_ending`.
std::atomic<unsigned> returning{0};
std::atomic<bool> is_ending{false};
std::thread::id ends_it;

/// Prevents all other threads from taking the interpreter's lock back. Waits at most a second for threads that are
/// already taking the lock.
void end_threads() {
  ends_it = std::this_thread::get_id();
  is_ending = true;
  for (int i = 0; i < 1000 && returning != 0; ++i) {
    const nb::gil_scoped_release others;
    usleep(1000);
  }
}

}  // namespace

others_may_run::~others_may_run() {
  ++returning;
  if (is_ending && std::this_thread::get_id() != ends_it) {
    --returning;
    for (;;) pause();
  }
  PyEval_RestoreThread(state_);
  --returning;
}

lsched_diagnostic told(lsched_status code, const char* text) {
  lsched_diagnostic why{.struct_size = sizeof why};
  why.status = code;
  why.rank = -1;
  why.op = UINT32_MAX;
  std::snprintf(why.text, sizeof why.text, "%s", text);
  return why;
}

void expect(lsched_status code, const lsched_diagnostic& why) {
  if (code >= 0) return;
  lsched_diagnostic all = why;
  all.status = code;
  if (all.text[0] == '\0') std::snprintf(all.text, sizeof all.text, "%s", lsched_status_text(code));
  throw call_failure(all);
}

void expect(lsched_status code) {
  if (code >= 0) return;
  const lsched_diagnostic kept = *lsched_last_failure();
  throw call_failure(kept.status == code ? kept : told(code, lsched_status_text(code)));
}

unsigned forks() { return forked.load(std::memory_order_relaxed); }

std::uint64_t nanoseconds(std::optional<double> seconds) {
  if (!seconds) return LSCHED_FOREVER;
  if (std::isnan(*seconds) || *seconds < 0)
    throw call_failure(told(LSCHED_ERR_ARGUMENT, "a timeout must be None, or a number of seconds that is 0 or more"));
  constexpr double k_longest = 1e9;  // 31 years
  return *seconds >= k_longest ? LSCHED_FOREVER : static_cast<std::uint64_t>(*seconds * 1e9);
}

void add_failures(nb::module_& module) {
  module.def("end_threads", end_threads);
  module.def("set_slice", [](double seconds) { slice_ns = nanoseconds(seconds); });
  nb::register_exception_translator(raise);
  static std::once_flag is_registered;
  std::call_once(is_registered, [] { pthread_atfork(nullptr, nullptr, [] { forked.fetch_add(1); }); });
}

}  // namespace lsched::python
