// Runs ranks as processes. Each process loads its own fake driver. The parent process must not load the driver, because
// a process with a driver must not fork.
#pragma once

#include <functional>
#include <string>

#include "bindings/c/lsched_cuda.h"
#include "libsched/transport/shm/shm_segment.h"
#include "tests/offload/cuda/user_memory.h"
#include "tests/support/barrier.h"
#include "tests/support/child_ranks.h"
#include "tests/support/launched_rank.h"
#include "tests/support/thread_ranks.h"

namespace lsched::testing {

/// This process as a rank, with or without a device. Errors are reported as failed expectations of googletest.
class rank_of_process {
 public:
  explicit rank_of_process(bool has_device, lsched_cuda_peers peers = LSCHED_CUDA_PEERS_AUTO)
      : has_device_(has_device) {
    diagnostic why;
    lsched_config config;
    lsched_config_init(&config);
    EXPECT_EQ(lsched_world_open(&config, &world_, &why), LSCHED_OK) << why.text;
    if (has_device) {
      EXPECT_EQ(attach(peers, why), LSCHED_OK) << why.text;
    }
    meet();
  }
  ~rank_of_process() { EXPECT_EQ(lsched_world_close(world_), LSCHED_OK); }
  rank_of_process(const rank_of_process&) = delete;
  rank_of_process& operator=(const rank_of_process&) = delete;

  /// Attaches a device to this rank, which must not have a device yet.
  lsched_status attach(lsched_cuda_peers peers, diagnostic& why) const {
    lsched_cuda_config cuda;
    lsched_cuda_config_init(&cuda);
    cuda.device = 0;
    cuda.staging_bytes = 16 << 20;
    cuda.peers = peers;
    return lsched_cuda_attach(world_, &cuda, &why);
  }

  lsched_world* world() const { return world_; }
  bool has_device() const { return has_device_; }
  std::string description() const {
    std::array<char, 512> text{};
    EXPECT_EQ(lsched_world_describe(world_, text.data(), text.size()), LSCHED_OK);
    return text.data();
  }

  std::uint64_t messages_read_directly() const {
    lsched_stats stats{.struct_size = sizeof stats};
    EXPECT_EQ(lsched_get_stats(world_, &stats), LSCHED_OK);
    return stats.device_messages_shared;
  }

 private:
  /// Waits until all ranks with devices have attached their devices.
  void meet() const {
    lsched_schedule* barrier = nullptr;
    diagnostic why;
    EXPECT_EQ(create_barrier(world_, &barrier, &why), LSCHED_OK) << why.text;
    EXPECT_EQ(lsched_run(barrier, k_limit_ns, &why), LSCHED_OK) << why.text;
    EXPECT_EQ(lsched_schedule_destroy(barrier, k_limit_ns, &why), LSCHED_OK) << why.text;
  }

  bool has_device_;
  lsched_world* world_ = nullptr;
};

inline floats numbers_of(std::uint64_t bytes, rank self) {
  floats all((bytes + 3) / 4);
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = static_cast<float>((i + 1) % 97 * static_cast<std::size_t>(self + 1));
  return all;
}

/// Calls `life` with a fake driver, and expects that all resources are released afterwards. Returns the exit status.
template <class Life>
int with_driver(const Life& life) {
  {
    const fake_device gpu;
    if (!gpu.is_there()) return 2;
    life(gpu);
  }
  EXPECT_EQ(find_fake_cuda()->leaked(), "");
  return ::testing::Test::HasFailure() ? 1 : 0;
}

/// Calls `body` in each of `ranks` processes. The process of rank `killed` must end by SIGKILL. Returns the errors, or
/// an empty text.
inline std::string run_as_ranks(rank ranks, const std::function<int(rank)>& body, rank killed = k_no_rank) {
  const auto segment = shm_segment::create(ranks, std::uint64_t{256} << 20);
  if (!segment) return segment.error().text;
  child_ranks children(ranks, [&](rank self) {
    be_launched(**segment, self);
    return body(self);
  });
  std::string complaints;
  for (rank r = 0; r < ranks; ++r) {
    const std::string one = children.wait(r);
    const bool is_proper = r == killed ? one.find("by signal 9") != std::string::npos : one.empty();
    if (!is_proper) complaints += "rank " + std::to_string(r) + ": " + one + "; ";
  }
  return complaints;
}

}  // namespace lsched::testing
