// Helpers for all calls from Python into the C interface. Failures become Python exceptions, and signals interrupt
// waits. In a child of fork() all calls fail, because the world belongs to the parent process.
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

/// A failed call. Python raises it as a libsched.Error.
struct call_failure : std::exception {
  explicit call_failure(const lsched_diagnostic& told) : why(told) {}
  const char* what() const noexcept override { return why.text; }
  lsched_diagnostic why;
};

/// Returns a diagnostic with this status and text.
lsched_diagnostic told(lsched_status code, const char* text);

/// Throws call_failure if `code` is an error.
void expect(lsched_status code, const lsched_diagnostic& why);
/// Throws call_failure if a function without a diagnostic has failed. The details come from lsched_last_failure().
void expect(lsched_status code);

/// Returns the number of forks between the process that imported the module and this process.
unsigned forks();

/// Converts a timeout from seconds to nanoseconds. Without a value, returns the timeout that never expires. Throws
/// call_failure if the timeout is negative or NaN.
std::uint64_t nanoseconds(std::optional<double> seconds);

/// Releases the interpreter's lock until the end of the scope. While the interpreter ends, the destructor makes the
/// thread sleep forever instead of taking the lock back. If the thread took the lock, Python would end the thread
/// inside C++ code, which would terminate the process.
class others_may_run {
 public:
  others_may_run() : state_(PyEval_SaveThread()) {}
  others_may_run(const others_may_run&) = delete;
  others_may_run& operator=(const others_may_run&) = delete;
  ~others_may_run();

 private:
  PyThreadState* state_;
};

/// Runs `call` without the interpreter's lock, and returns its result. `call` must not block for long.
template <class Call>
auto unlocked(Call&& call) {
  const others_may_run meanwhile;
  return call();
}

/// The maximum time between two checks for signals, such as the signal of Ctrl-C.
inline constexpr std::uint64_t k_slice_ns = 100'000'000;
/// The time between two checks. Tests set a shorter time.
inline std::atomic<std::uint64_t> slice_ns{k_slice_ns};

/// Calls `attempt(timeout_ns, diagnostic*)` repeatedly, each time without the interpreter's lock and with a timeout of
/// at most slice_ns. Ends when `attempt` returns a status other than TIMEOUT, or when `timeout_ns` has passed. Throws
/// call_failure for an error, TIMEOUT included, and python_error if a signal handler has raised.
template <class Attempt>
void wait(std::uint64_t timeout_ns, Attempt&& attempt) {
  using clock = std::chrono::steady_clock;
  std::optional<clock::time_point> begin, last;
  std::uint64_t left = timeout_ns;
  for (;;) {
    lsched_diagnostic why{.struct_size = sizeof why};
    const std::uint64_t slice = std::min(left, slice_ns.load());
    const lsched_status code = unlocked([&] { return attempt(slice, &why); });
    if (code != LSCHED_ERR_TIMEOUT) return expect(code, why);
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    const clock::time_point now = clock::now();
    const std::chrono::nanoseconds length(slice);
    if (last && now - *last < length / 2) return expect(code, why);  // a timeout of the call, not of the slice
    last = now;
    if (timeout_ns == LSCHED_FOREVER) continue;
    if (!begin) begin = now - length;
    const auto passed = static_cast<std::uint64_t>(std::chrono::nanoseconds(now - *begin).count());
    if (passed >= timeout_ns) return expect(code, why);
    left = timeout_ns - passed;
  }
}

/// Calls `attempt(diagnostic*)`, which has no timeout, without the interpreter's lock. Signals do not interrupt the
/// call. Throws call_failure for an error.
template <class Attempt>
void blocking(Attempt&& attempt) {
  lsched_diagnostic why{.struct_size = sizeof why};
  const lsched_status code = unlocked([&] { return attempt(&why); });
  expect(code, why);
}

/// Adds end_threads() and set_slice() to the module, and registers the translation of call_failure.
void add_failures(nb::module_& module);

}  // namespace lsched::python
