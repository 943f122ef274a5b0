// Tests of ranks that are processes, each with its own fake driver. Results must have the same bits as in host memory.
// Ranks must read device memory of peers in place. If a rank is killed in a round, the other ranks must survive. The
// tests are a separate program, because a process with a driver must not fork.
#include <signal.h>

#include <algorithm>
#include <cstring>

#include "collectives/requests/sample_requests.h"
#include "tests/offload/cuda/process_ranks.h"
#include "tests/support/c_request.h"
#include "tests/support/sampling.h"

namespace lsched::testing {
namespace {

/// Runs a collective with buffers in device or host memory. Returns the rank's output.
floats output_of(lsched_world* world, const fake_device& gpu, bool on_device, const collective& of, dtype type,
                 std::uint64_t count) {
  const lsched::world place{lsched_rank(world), lsched_size(world)};
  const shape data = typical_shape(of, place.size, count, type, of.reduces ? kernel::sum : kernel::none);
  const extents elements = of.extents_of(place, data);
  const std::uint64_t output_bytes = elements.output.value_or(0) * size_of(type);
  user_buffer input(gpu, on_device, numbers_of(elements.input.value_or(0) * size_of(type), place.self));
  user_buffer output(gpu, on_device, floats((output_bytes + 3) / 4));
  c_request request(of, place, data, "auto");
  request.desc.dtype = type == dtype::u8 ? LSCHED_U8 : LSCHED_F32;
  request.desc.input = input.data();
  request.desc.output = output.data();
  if (of.moves_data && !of.adapts) request.desc.segment_bytes = 1 << 20;  // needed because some ranks have no device
  lsched_schedule* made = nullptr;
  diagnostic why;
  EXPECT_EQ(lsched_collective_create(world, &request.desc, &made, &why), LSCHED_OK) << of.name << ": " << why.text;
  for (int round = 0; round < 2 && made != nullptr; ++round)
    EXPECT_EQ(lsched_run(made, k_limit_ns, &why), LSCHED_OK) << of.name << ": " << why.text;
  EXPECT_EQ(lsched_schedule_destroy(made, k_limit_ns, &why), LSCHED_OK) << why.text;
  return output.content();
}

bool have_same_bits(const floats& x, const floats& y) {
  return x.size() == y.size() && (x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0);
}

void compare(const rank_of_process& mine, const fake_device& gpu, const collective& of, dtype type,
             std::uint64_t count) {
  const floats expected = output_of(mine.world(), gpu, false, of, type, count);
  const floats seen = output_of(mine.world(), gpu, mine.has_device(), of, type, count);
  EXPECT_TRUE(have_same_bits(seen, expected)) << of.name << ", " << count << " of " << name_of(type);
}

void compare_all(const rank_of_process& mine, const fake_device& gpu) {
  for (const collective* const of : {&k_allreduce, &k_allgather, &k_alltoall, &k_bcast, &k_adasum})
    for (const std::uint64_t bytes : {0u, 1u, 13u, 4000u, (1u << 20) + 4, 12'000'004u}) {
      const bool is_odd = bytes % 4 != 0;
      if (is_odd && !of->adapts) compare(mine, gpu, *of, dtype::u8, bytes);
      if (!is_odd && (!sampled() || bytes < 5000)) compare(mine, gpu, *of, dtype::f32, bytes / 4);
    }
}

/// Runs all collectives in device memory and compares the results with host memory. messages_read_directly() counts the
/// long messages that a rank reads in the device memory of another rank. The test sends no message from memory of the
/// library.
int compare_with_host(rank self, const std::function<bool(rank)>& has_device, lsched_cuda_peers peers) {
  return with_driver([&](const fake_device& gpu) {
    const rank_of_process mine(has_device(self), peers);
    compare_all(mine, gpu);
    if (!has_device(self)) return;
    EXPECT_TRUE(mine.messages_read_directly() == 0 || peers != LSCHED_CUDA_PEERS_NEVER);
    EXPECT_TRUE(mine.messages_read_directly() != 0 || peers != LSCHED_CUDA_PEERS_ALWAYS || sampled());
    const std::string text = mine.description();
    EXPECT_EQ(text.find("does not pin"), std::string::npos) << text;
    if (sampled() || peers == LSCHED_CUDA_PEERS_ALWAYS) return;
    EXPECT_GE(gpu.fake().calls("cuMemHostRegister"), 2u) << "no peer's memory was read in place";
  });
}

TEST(CudaProcesses, OnDevicesHaveTheBitsOfHostMemory) {
  const auto all = [](rank) { return true; };
  for (const auto peers : {LSCHED_CUDA_PEERS_NEVER, LSCHED_CUDA_PEERS_AUTO, LSCHED_CUDA_PEERS_ALWAYS})
    for (const rank ranks : {2, 3, 4})
      EXPECT_EQ(run_as_ranks(ranks, [&](rank self) { return compare_with_host(self, all, peers); }), "")
          << ranks << " ranks, " << peers;
}

TEST(CudaProcesses, SomeOnDevicesHaveTheBitsOfHostMemory) {
  const auto has_device = [](rank self) { return self != 1; };
  EXPECT_EQ(run_as_ranks(3, [&](rank self) { return compare_with_host(self, has_device, LSCHED_CUDA_PEERS_AUTO); }),
            "");
}

// --- a rank is killed ------------------------------------------------------------------------------------------------

constexpr std::uint64_t k_count = 500'000;
constexpr int k_last_round = 3;  ///< round in which the rank is killed

/// Runs allreduces over device memory until rank `killed` has died.
void run_until_killed(const rank_of_process& mine, const fake_device& gpu, rank killed) {
  const rank self = lsched_rank(mine.world());
  user_buffer input(gpu, true, numbers_of(k_count * 4, self)), output(gpu, true, floats(k_count));
  const lsched_collective_desc desc{.struct_size = sizeof desc,
                                    .collective = "allreduce",
                                    .input = input.data(),
                                    .output = output.data(),
                                    .count = k_count,
                                    .dtype = LSCHED_F32,
                                    .reduction = LSCHED_SUM};
  lsched_schedule* sum = nullptr;
  diagnostic why;
  ASSERT_EQ(lsched_collective_create(mine.world(), &desc, &sum, &why), LSCHED_OK) << why.text;
  lsched_status code = LSCHED_OK;
  for (int round = 1; code == LSCHED_OK && round <= k_last_round; ++round) {
    if (round < k_last_round || self != killed) {
      code = lsched_run(sum, k_limit_ns, &why);
      continue;
    }
    lsched_ticket ticket{};
    EXPECT_EQ(lsched_start(sum, &ticket), LSCHED_OK);
    raise(SIGKILL);
  }
  if (code == LSCHED_OK) code = lsched_run(sum, k_limit_ns, &why);  // the rank may have died after its round
  EXPECT_EQ(code, LSCHED_ERR_PEER) << why.text;
  EXPECT_EQ(why.rank, killed) << why.text;
  EXPECT_EQ(lsched_schedule_destroy(sum, k_limit_ns, &why), LSCHED_OK) << why.text;
}

int outlive(rank killed, lsched_cuda_peers peers) {
  return with_driver([&](const fake_device& gpu) {
    const rank_of_process mine(true, peers);
    run_until_killed(mine, gpu, killed);
    lsched_world* left = nullptr;
    diagnostic why;
    ASSERT_EQ(lsched_shrink(mine.world(), k_limit_ns, &left, &why), LSCHED_OK) << why.text;
    const floats expected = output_of(left, gpu, false, k_allreduce, dtype::f32, k_count);
    EXPECT_TRUE(have_same_bits(output_of(left, gpu, true, k_allreduce, dtype::f32, k_count), expected));
    EXPECT_EQ(lsched_world_close(left), LSCHED_OK);
  });
}

TEST(CudaProcesses, OutliveAnyOfThem) {
  for (const auto peers : {LSCHED_CUDA_PEERS_NEVER, LSCHED_CUDA_PEERS_ALWAYS})
    for (const rank ranks : {2, 3, 4})
      for (rank killed = 0; killed < ranks; ++killed)
        EXPECT_EQ(run_as_ranks(
                      ranks, [&](rank) { return outlive(killed, peers); }, killed),
                  "")
            << "rank " << killed << " of " << ranks << ", " << peers;
}

// --- under `lsched run` ----------------------------------------------------------------------------------------------

// Without `lsched run` the world has one rank. This test must be the last, because it loads the driver into this
// process.
TEST(CudaRank, HasTheBitsOfHostMemory) {
  const auto is_odd_or_first = [](rank self) { return self == 0 || self % 2 == 1; };
  const char* const launched = std::getenv("LSCHED_RUN_RANK");
  const rank self = launched == nullptr ? 0 : std::atoi(launched);
  EXPECT_EQ(with_driver([&](const fake_device& gpu) {
              const rank_of_process mine(is_odd_or_first(self));
              for (const std::uint64_t count : {1u, 1000u, 300'001u})
                compare(mine, gpu, k_allreduce, dtype::f32, count);
            }),
            0);
}

}  // namespace
}  // namespace lsched::testing
