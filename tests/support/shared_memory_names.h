// Finds the names under /dev/shm that processes of a test leave behind.
#pragma once

#include <chrono>
#include <filesystem>
#include <set>
#include <string>

#include "tests/support/wait_until.h"

namespace lsched::testing {

/// Records the names under /dev/shm, and later finds new names that do not disappear. The MPI library of a concurrent
/// test also creates names for a short time when it starts. Therefore a name counts as left behind only if it exists in
/// every check during ten seconds.
class shared_memory_names {
 public:
  std::string left_behind() const {
    std::set<std::string> left = now();
    const bool is_clean = wait_until(
        [&] {
          const std::set<std::string> names = now();
          std::erase_if(left, [&](const std::string& name) { return before_.contains(name) || !names.contains(name); });
          return left.empty();
        },
        std::chrono::seconds(10));
    return is_clean ? std::string() : *left.begin();
  }

 private:
  static std::set<std::string> now() {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
      names.insert(entry.path().filename().string());
    return names;
  }

  std::set<std::string> before_ = now();
};

}  // namespace lsched::testing
