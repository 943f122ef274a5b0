// Ranks of one device that are processes, under the fake driver: they read each other's device memory, and each other's
// staging memory, and go on when one of them is killed. The driver belongs to the children: a process that has loaded
// one must not fork. (ctest runs this suite in a process of its own.)
#include <gtest/gtest.h>
#include <signal.h>

#include <functional>
#include <thread>

#include "bindings/c/lsched_cuda.h"
#include "tests/offload/cuda/under_the_fake.h"
#include "tests/offload/cuda/user_memory.h"
#include "tests/support/child_ranks.h"
#include "tests/support/launched_rank.h"
#include "tests/support/thread_ranks.h"

namespace lsched::testing {
namespace {

using namespace std::chrono_literals;

constexpr rank k_ranks = 3;

/// What a child does, as a rank of the world; false: something is wrong, which it has said.
using rank_life = std::function<bool(const fake_device& gpu, lsched_world* world)>;

bool is_ok(lsched_status answer, const diagnostic& why, const char* call) {
  if (answer != LSCHED_OK) std::fprintf(stderr, "%s: %s: %s\n", call, lsched_status_name(answer), why.text);
  return answer == LSCHED_OK;
}

int live(lsched_cuda_peers peers, const rank_life& body) {
  if (!load_cuda_driver() || find_fake_cuda() == nullptr) return 3;
  lsched_world* world = nullptr;
  diagnostic why;
  const lsched_config config = test_config();
  if (!is_ok(lsched_world_open(&config, &world, &why), why, "open")) return 4;
  lsched_cuda_config device;
  lsched_cuda_config_init(&device);
  device.device = 0;
  device.staging_bytes = 1 << 20;
  device.peers = peers;
  if (!is_ok(lsched_cuda_attach(world, &device, &why), why, "attach")) return 5;
  bool is_right = false;
  {
    const fake_device gpu;
    is_right = body(gpu, world);
  }
  if (!is_ok(lsched_world_close(world), why, "close")) return 6;
  if (const std::string leaked = find_fake_cuda()->leaked(); !leaked.empty()) {
    std::fprintf(stderr, "%s", leaked.c_str());
    return 7;
  }
  return is_right ? 0 : 8;
}

/// A sum over device memory of a world, whose inputs are rank + 1.
class device_sum {
 public:
  device_sum(const fake_device& gpu, lsched_world* world, std::uint64_t count)
      : world_(world),
        input_(gpu, true, floats(count, static_cast<float>(lsched_rank(world) + 1))),
        output_(gpu, true, floats(count)),
        count_(count) {
    const lsched_collective_desc desc{.struct_size = sizeof desc,
                                      .collective = "allreduce",
                                      .input = input_.data(),
                                      .output = output_.data(),
                                      .count = count,
                                      .dtype = LSCHED_F32,
                                      .reduction = LSCHED_SUM};
    is_made_ = is_ok(lsched_collective_create(world, &desc, &schedule_, &why_), why_, "create");
  }
  ~device_sum() { (void)destroy(); }
  device_sum(const device_sum&) = delete;
  device_sum& operator=(const device_sum&) = delete;

  lsched_status run() { return is_made_ ? lsched_run(schedule_, k_limit_ns, &why_) : LSCHED_ERR_INTERNAL; }
  bool destroy() {
    lsched_schedule* const gone = std::exchange(schedule_, nullptr);
    return gone == nullptr || is_ok(lsched_schedule_destroy(gone, k_limit_ns, &why_), why_, "destroy");
  }
  bool is_right() {
    const auto size = static_cast<float>(lsched_size(world_));
    if (output_.content() == floats(count_, size * (size + 1) / 2)) return true;
    std::fprintf(stderr, "rank %d of %d: a wrong sum of %zu\n", lsched_rank(world_), lsched_size(world_), count_);
    return false;
  }
  bool runs_well() { return is_ok(run(), why_, "run") && is_right(); }
  const diagnostic& why() const { return why_; }

 private:
  lsched_world* world_;
  user_buffer input_, output_;
  std::uint64_t count_;
  diagnostic why_;
  lsched_schedule* schedule_ = nullptr;
  bool is_made_ = false;
};

std::uint64_t messages_shown(lsched_world* world) {
  lsched_cuda_stats stats{.struct_size = sizeof stats};
  EXPECT_EQ(lsched_cuda_get_stats(world, &stats), LSCHED_OK);
  return stats.messages_shown;
}

class CudaProcesses : public ::testing::Test {
 protected:
  void SetUp() override {
    if (find_cuda_driver() != nullptr) GTEST_SKIP() << "this process has loaded a driver: run this suite by itself";
  }

  /// Of children; empty: all went well.
  std::string run(rank ranks, lsched_cuda_peers peers, const rank_life& body) {
    const auto segment = shm_segment::create(ranks, std::size_t{64} << 20);
    if (!segment) return segment.error().text;
    return child_ranks(ranks,
                       [&](rank self) {
                         be_launched(**segment, self);
                         return live(peers, body);
                       })
        .wait();
  }
};

TEST_F(CudaProcesses, ReadEachOthersMemory) {
  for (const auto peers : {LSCHED_CUDA_PEERS_NEVER, LSCHED_CUDA_PEERS_AUTO, LSCHED_CUDA_PEERS_ALWAYS}) {
    const auto sum_all = [peers](const fake_device& gpu, lsched_world* world) {
      for (const std::uint64_t count : {0u, 1u, 999u, 100'003u, 3'000'001u}) {
        device_sum sum(gpu, world, count);
        for (int round = 0; round < 3; ++round)
          if (!sum.runs_well()) return false;
      }
      return (messages_shown(world) != 0) == (peers != LSCHED_CUDA_PEERS_NEVER) || peers == LSCHED_CUDA_PEERS_AUTO;
    };
    for (const rank ranks : {2, 3}) EXPECT_EQ(run(ranks, peers, sum_all), "") << ranks << " ranks, " << peers;
  }
}

TEST_F(CudaProcesses, GoOnWhenOneIsKilled) {
  for (rank victim = 0; victim < k_ranks; ++victim)
    for (const auto peers : {LSCHED_CUDA_PEERS_NEVER, LSCHED_CUDA_PEERS_ALWAYS}) {
      const auto survive = [victim](const fake_device& gpu, lsched_world* world) {
        device_sum sum(gpu, world, 300'000);
        if (!sum.runs_well()) return false;
        lsched_status answer = sum.run();  // in which a survivor may hear of the death already
        if (lsched_rank(world) == victim) raise(SIGKILL);
        if (answer == LSCHED_OK) answer = sum.run();
        if (answer != LSCHED_ERR_PEER) return is_ok(LSCHED_ERR_INTERNAL, sum.why(), lsched_status_name(answer));
        if (!sum.destroy()) return false;
        lsched_world* left = nullptr;
        diagnostic why;
        if (!is_ok(lsched_shrink(world, k_limit_ns, &left, &why), why, "shrink")) return false;
        bool is_well = lsched_size(left) == k_ranks - 1;
        {
          device_sum other(gpu, left, 300'000);
          is_well = other.runs_well() && is_well;
        }
        return is_ok(lsched_world_close(left), why, "close what is left") && is_well;
      };
      EXPECT_EQ(run(k_ranks, peers, survive), "rank " + std::to_string(victim) + " was ended by signal 9; ") << peers;
    }
}

}  // namespace
}  // namespace lsched::testing
