// Counts the allocations of this test program, and makes them fail. engine_test.cc replaces the operators.
#pragma once

#include <cstdint>

namespace lsched::testing {

/// Counts the calls of operator new in all threads during its lifetime. Only one object may exist at a time.
class counting_allocations {
 public:
  counting_allocations();
  ~counting_allocations();
  counting_allocations(const counting_allocations&) = delete;
  counting_allocations& operator=(const counting_allocations&) = delete;

  std::uint64_t count() const;
  std::uint64_t bytes() const;  ///< sum of the requested sizes

 private:
  std::uint64_t before_;
  std::uint64_t bytes_before_;
};

/// During its lifetime, operator new of this thread succeeds `after` times and then throws.
class failing_allocations {
 public:
  explicit failing_allocations(int after);
  ~failing_allocations();
  failing_allocations(const failing_allocations&) = delete;
  failing_allocations& operator=(const failing_allocations&) = delete;
};

/// Returns the number of live allocations with an alignment of at least 64 bytes. The inproc transport makes these.
std::int64_t aligned_allocations();

}  // namespace lsched::testing
