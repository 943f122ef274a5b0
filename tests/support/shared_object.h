// An object that a test shares with its child processes.
#pragma once

#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace lsched::testing {

/// An object in memory that this process shares with its children. The object is value-initialised. Create it before
/// the children are forked.
template <class Object>
class shared_object {
 public:
  shared_object() : place_(mmap(nullptr, sizeof(Object), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (place_ == MAP_FAILED) std::abort();
    new (place_) Object{};
  }
  ~shared_object() { munmap(place_, sizeof(Object)); }
  shared_object(const shared_object&) = delete;
  shared_object& operator=(const shared_object&) = delete;
  Object* operator->() const { return static_cast<Object*>(place_); }
  Object& operator*() const { return *operator->(); }

 private:
  void* place_;
};

}  // namespace lsched::testing
