// A registry contains the objects that programs refer to by handles. The memory of a destroyed object is not freed, so
// no handle is reused. Therefore the registry detects every use after destruction.
#pragma once

#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tests/support/fake_cuda/misuse.h"

namespace fake_cuda {

/// The objects of one type. The type must have a member `bool is_alive`. All functions require the driver's lock.
template <class Object>
class registry {
 public:
  Object* add(std::unique_ptr<Object> made) {
    known_.insert(made.get());
    ++alive_;
    return all_.emplace_back(std::move(made)).get();
  }

  /// Returns the object, or nullptr if no object ever had this handle. If the object was destroyed, aborts the process
  /// with a message that names `what`.
  Object* find(Object* handle, const char* what) const {
    if (known_.count(handle) == 0) return nullptr;
    if (!handle->is_alive) misuse(std::string(what) + " is used after it was destroyed");
    return handle;
  }

  void retire(Object* gone) {
    gone->is_alive = false;
    --alive_;
  }
  void retire_all() {
    for (const auto& one : all_) one->is_alive = false;
    alive_ = 0;
  }
  std::size_t alive() const { return alive_; }

 private:
  std::vector<std::unique_ptr<Object>> all_;
  std::unordered_set<const Object*> known_;
  std::size_t alive_ = 0;
};

}  // namespace fake_cuda
