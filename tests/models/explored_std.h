// Replaces `std::atomic`, the futex call, the clock and yields by versions that the explorer controls. The library's
// own source, compiled with this header, is the model. This header must be included first, before the library's source.
//
// The copy of the library has another namespace (CMakeLists.txt defines `lsched` as a macro), because the program also
// contains the unchanged library. CMakeLists.txt plants bugs into the copy (bug.h).
#pragma once

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

// All standard headers that the library includes. The macros below must not apply to them.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "tests/models/bug.h"
#include "tests/models/threads.h"

namespace std {

template <class T>
class explored_atomic {
 public:
  static_assert(sizeof(T) <= sizeof(models::word));

  explored_atomic() = default;
  explored_atomic(T value) : word_(to(value)) {}
  explored_atomic(const explored_atomic&) = delete;
  explored_atomic& operator=(const explored_atomic&) = delete;

  T load(memory_order = memory_order_seq_cst) const { return from(models::load(&word_)); }
  void store(T value, memory_order order = memory_order_seq_cst) {
    order == memory_order_seq_cst ? models::store_in_order(&word_, to(value)) : models::store(&word_, to(value));
  }
  T exchange(T value, memory_order = memory_order_seq_cst) {
    return from(std::exchange(models::locked(&word_), to(value)));
  }
  bool compare_exchange_strong(T& expected, T value, memory_order = memory_order_seq_cst) {
    models::word& now = models::locked(&word_);
    const bool is_equal = now == to(expected);
    expected = from(now);
    if (is_equal) now = to(value);
    return is_equal;
  }
  bool compare_exchange_weak(T& expected, T value, memory_order = memory_order_seq_cst) {
    return compare_exchange_strong(expected, value);
  }
  T fetch_add(T more, memory_order = memory_order_seq_cst) {
    models::word& now = models::locked(&word_);
    return from(std::exchange(now, to(static_cast<T>(from(now) + more))));
  }
  T fetch_sub(T less, memory_order = memory_order_seq_cst) {
    models::word& now = models::locked(&word_);
    return from(std::exchange(now, to(static_cast<T>(from(now) - less))));
  }
  T fetch_or(T bits, memory_order = memory_order_seq_cst) {
    models::word& now = models::locked(&word_);
    return from(std::exchange(now, to(static_cast<T>(from(now) | bits))));
  }

  models::word* operator&() { return &word_; }

 private:
  static models::word to(T value) {
    models::word bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    return bits;
  }
  static T from(models::word bits) {
    T value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }

  models::word word_ = 0;
};

inline void explored_fence(memory_order) {
  static models::word nowhere;
  models::locked(&nowhere);
}

namespace this_thread {
inline void explored_yield() {}
}  // namespace this_thread

namespace chrono {

/// A clock that stands still until the deadline of an impatient thread (threads.h) has passed.
struct explored_clock {
  using duration = nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = chrono::time_point<explored_clock>;
  static constexpr bool is_steady = true;
  static time_point now() { return time_point(models::is_expired() ? hours(1) : hours(0)); }
};

}  // namespace chrono
}  // namespace std

#define atomic explored_atomic
#define atomic_thread_fence explored_fence
#define steady_clock explored_clock
#define yield explored_yield
#define sched_yield std::this_thread::yield
#define syscall models::futex
