// The schedules and mailboxes of a world that were created and not yet destroyed.
#pragma once

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace lsched {

/// A list of objects and their labels, protected by a lock. The list is not a part of the engine, because it is also
/// read when a world is closed after MPI_Finalize. At that time, no thread may run the engine.
///
/// Any thread may call the functions.
class open_objects {
 public:
  void add(const void* object, std::string label) {
    const std::lock_guard lock(guard_);
    all_.emplace_back(object, std::move(label));
  }

  void remove(const void* object) {
    const std::lock_guard lock(guard_);
    std::erase_if(all_, [object](const auto& each) { return each.first == object; });
  }

  /// Returns the labels in the order of creation.
  std::vector<std::string> labels() const {
    const std::lock_guard lock(guard_);
    std::vector<std::string> found;
    for (const auto& [object, label] : all_) found.push_back(label);
    return found;
  }

 private:
  mutable std::mutex guard_;
  std::vector<std::pair<const void*, std::string>> all_;
};

}  // namespace lsched
