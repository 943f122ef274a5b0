// The memory that blame_test.cc shares with the ranks of a job. A job is a run of blame_rank.cc in which one rank, the
// victim, ends or stops. The other ranks are the survivors.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace lsched::testing {

/// The kinds of calls. All ranks of a job repeat calls of one kind until the victim ends.
inline constexpr std::array k_families{"rounds", "creates", "splits", "partial", "sparse", "messages", "opening"};

/// The ways in which the victim ends. The last entry stops the victim (SIGSTOP) instead of ending it.
inline constexpr std::array k_ends{"kill", "exit", "_exit", "abort", "segv", "term", "exec", "stop"};
inline constexpr std::size_t k_deaths = k_ends.size() - 1;

inline constexpr std::int32_t k_most_ranks = 8;

/// The content of the shared memory. All bytes are zero when a job begins.
struct blame_ground {
  /// The first error that a survivor gets.
  struct report {
    std::int32_t status;
    std::int32_t named;  ///< rank that the error names, in the numbering of the opened world
    char text[512];
    /// 0 means no report, 1 means a report, and 2 means a report that was written before the victim ended.
    std::atomic<std::int32_t> is_there;
  };
  std::atomic<std::int32_t> victim;      ///< process id of the victim
  std::atomic<std::int32_t> has_ended;   ///< 1 if the victim is about to end or to stop, otherwise 0
  std::atomic<std::int32_t> reports_in;  ///< number of reports by survivors
  report reports[k_most_ranks];
};

/// A mapped file that holds a blame_ground. The process that has created the file removes the file.
class shared_ground {
 public:
  shared_ground(std::string path, bool creates) : path_(std::move(path)), is_owner_(creates) {
    const int file = open(path_.c_str(), O_RDWR | O_CLOEXEC | (creates ? O_CREAT | O_EXCL : 0), 0600);
    if (file < 0 || (creates && ftruncate(file, sizeof(blame_ground)) != 0)) throw std::runtime_error(path_);
    void* const place = mmap(nullptr, sizeof(blame_ground), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (place == MAP_FAILED) throw std::runtime_error(path_);
    place_ = static_cast<blame_ground*>(place);
  }
  ~shared_ground() {
    munmap(place_, sizeof(blame_ground));
    if (is_owner_) unlink(path_.c_str());
  }
  shared_ground(const shared_ground&) = delete;
  shared_ground& operator=(const shared_ground&) = delete;

  blame_ground* operator->() const { return place_; }
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
  const bool is_owner_;
  blame_ground* place_;
};

}  // namespace lsched::testing
