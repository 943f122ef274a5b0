// What every call from Python into the C interface goes through: failures become exceptions, waits can be interrupted,
// and a process that was forked off is told that the world is not its own.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>

#include "bindings/c/lsched.h"

namespace lsched::python {

namespace nb = nanobind;

/// A failed call; becomes a libsched.Error.
struct call_failure : std::exception {
  explicit call_failure(const lsched_diagnostic& told) : why(told) {}
  const char* what() const noexcept override { return why.text; }
  lsched_diagnostic why;
};

/// A diagnostic that says so.
lsched_diagnostic told(lsched_status code, const char* text);

/// Throws call_failure for an error.
void expect(lsched_status code, const lsched_diagnostic& why);
/// Throws call_failure for the error of a function without a diagnostic, with the detail of lsched_last_failure().
void expect(lsched_status code);

/// How many forks lie between the process that imported the module and this one.
unsigned forks();

/// Seconds as Python says them; nothing: forever. Throws call_failure for what is negative or not a number.
std::uint64_t nanoseconds(std::optional<double> seconds);

/// Without the interpreter's lock. Once the interpreter ends, a thread that would take the lock back sleeps for good
/// instead: Python would end the thread there, and C++ would end the process of that.
class others_may_run {
 public:
  others_may_run() : state_(PyEval_SaveThread()) {}
  others_may_run(const others_may_run&) = delete;
  others_may_run& operator=(const others_may_run&) = delete;
  ~others_may_run();

 private:
  PyThreadState* state_;
};

/// Answers what a call that cannot block for long answers, without the interpreter's lock.
template <class Call>
auto unlocked(Call&& call) {
  const others_may_run meanwhile;
  return call();
}

/// How long a wait lasts before it looks whether a signal has come, such as that of Ctrl-C.
inline constexpr std::uint64_t k_slice_ns = 100'000'000;
/// The same; tests make it shorter.
inline std::atomic<std::uint64_t> slice_ns{k_slice_ns};

/// Calls `attempt(timeout_ns, diagnostic*)` until it answers something else than TIMEOUT, the time is over or a signal
/// handler has raised; without the interpreter's lock. Throws what went wrong.
template <class Attempt>
void wait(std::uint64_t timeout_ns, Attempt&& attempt) {
  using clock = std::chrono::steady_clock;
  std::optional<clock::time_point> begin, last;
  std::uint64_t left = timeout_ns;
  for (;;) {
    lsched_diagnostic why;
    lsched_diagnostic_init(&why);
    const std::uint64_t slice = std::min(left, slice_ns.load());
    const lsched_status code = unlocked([&] { return attempt(slice, &why); });
    if (code != LSCHED_ERR_TIMEOUT) return expect(code, why);
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    const clock::time_point now = clock::now();
    const std::chrono::nanoseconds length(slice);
    if (last && now - *last < length / 2) return expect(code, why);  // the end of something else: of a create's time
    last = now;
    if (timeout_ns == LSCHED_FOREVER) continue;
    if (!begin) begin = now - length;
    const auto passed = static_cast<std::uint64_t>(std::chrono::nanoseconds(now - *begin).count());
    if (passed >= timeout_ns) return expect(code, why);
    left = timeout_ns - passed;
  }
}

/// The same of a call without a timeout of its own; it is not interrupted.
template <class Attempt>
void blocking(Attempt&& attempt) {
  lsched_diagnostic why;
  lsched_diagnostic_init(&why);
  const lsched_status code = unlocked([&] { return attempt(&why); });
  expect(code, why);
}

/// The translation of call_failure, and end_threads().
void add_failures(nb::module_& module);

}  // namespace lsched::python
