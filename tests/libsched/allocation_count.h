// Counts the allocations of this test program, and makes allocations fail. For this purpose, engine_test.cc replaces
// operator new and operator delete.
#pragma once

#include <cstdint>

namespace lsched::testing {

/// Counts the calls of operator new in all threads during the lifetime of the object. Only one object may exist at a
/// time.
class counting_allocations {
 public:
  counting_allocations();
  ~counting_allocations();
  counting_allocations(const counting_allocations&) = delete;
  counting_allocations& operator=(const counting_allocations&) = delete;

  std::uint64_t count() const;
  std::uint64_t bytes() const;  ///< sum of all requested sizes

 private:
  std::uint64_t before_;
  std::uint64_t bytes_before_;
};

/// During the lifetime of the object, operator new succeeds `after` times on this thread and then throws.
class failing_allocations {
 public:
  explicit failing_allocations(int after);
  ~failing_allocations();
  failing_allocations(const failing_allocations&) = delete;
  failing_allocations& operator=(const failing_allocations&) = delete;
};

/// Returns the number of live allocations with an alignment of at least 64 bytes. The inproc transport makes such
/// allocations.
std::int64_t aligned_allocations();

}  // namespace lsched::testing
