// Counts what this test program allocates, and lets that fail. The replaced operators are in engine_test.cc.
#pragma once

#include <cstdint>

namespace lsched::testing {

/// Counts calls of operator new, of any thread, while it lives. One at a time.
class counting_allocations {
 public:
  counting_allocations();
  ~counting_allocations();
  counting_allocations(const counting_allocations&) = delete;
  counting_allocations& operator=(const counting_allocations&) = delete;

  std::uint64_t count() const;
  std::uint64_t bytes() const;  ///< asked for, in all

 private:
  std::uint64_t before_;
  std::uint64_t bytes_before_;
};

/// While it lives, this thread's operator new succeeds so many times, and then throws.
class failing_allocations {
 public:
  explicit failing_allocations(int after);
  ~failing_allocations();
  failing_allocations(const failing_allocations&) = delete;
  failing_allocations& operator=(const failing_allocations&) = delete;
};

/// Live allocations that asked for 64 bytes of alignment or more: what the inproc transport has handed out.
std::int64_t aligned_allocations();

}  // namespace lsched::testing
