// The library under the fake driver: worlds of threads whose ranks have their buffers in device memory, some of them,
// or none. Results have the bits that they have in host memory, and everything is given back.
#include <algorithm>
#include <cstring>
#include <random>

#include "bindings/c/lsched_cuda.h"
#include "tests/offload/cuda/under_the_fake.h"
#include "tests/offload/cuda/user_memory.h"
#include "tests/support/thread_ranks.h"

namespace lsched::testing {
namespace {

floats random_floats(std::uint64_t count, unsigned seed) {
  std::mt19937 draw(seed);
  floats all(count);
  for (float& one : all) one = static_cast<float>(draw() % 2000) / 64 - 15;
  return all;
}

lsched_allreduce_desc sum_of(const void* input, void* output, std::uint64_t count) {
  return {.struct_size = sizeof(lsched_allreduce_desc),
          .input = input,
          .output = output,
          .count = count,
          .dtype = LSCHED_F32,
          .reduction = LSCHED_SUM};
}

class CudaWorlds : public UnderTheFake {
 protected:
  static void attach(lsched_world* world, lsched_status expected = LSCHED_OK, const std::string& words = "") {
    diagnostic why;
    lsched_cuda_config config;
    lsched_cuda_config_init(&config);
    config.device = 0;
    config.staging_bytes = 1 << 20;
    EXPECT_EQ(lsched_cuda_attach(world, &config, &why), expected) << why.text;
    EXPECT_TRUE(why.says(words)) << why.text;
  }

  /// Rounds of an allreduce over buffers that are where `on_device` says, by rank. Answers the outputs of all ranks.
  std::vector<floats> allreduce(std::int32_t ranks, std::uint64_t count, const std::vector<bool>& on_device) {
    const world_of_threads world(ranks);
    std::vector<floats> results(static_cast<std::size_t>(ranks));
    world.each([&](lsched_world* mine, std::int32_t r) {
      const context_of_thread here(gpu());
      const auto self = static_cast<std::size_t>(r);
      if (std::ranges::count(on_device, true) != 0) attach(mine);
      user_buffer input(gpu(), on_device[self], random_floats(count, static_cast<unsigned>(r)));
      user_buffer output(gpu(), on_device[self], floats(count, -1));
      const auto desc = sum_of(input.data(), output.data(), count);
      lsched_schedule* sum = nullptr;
      diagnostic why;
      EXPECT_EQ(lsched_allreduce_create(mine, &desc, &sum, &why), LSCHED_OK) << why.text;
      for (int round = 0; round < 3 && sum != nullptr; ++round)
        EXPECT_EQ(lsched_run(sum, k_limit_ns, &why), LSCHED_OK) << why.text;
      EXPECT_EQ(lsched_schedule_destroy(sum, k_limit_ns, &why), LSCHED_OK) << why.text;
      results[self] = output.content();
    });
    return results;
  }
};

TEST_F(CudaWorlds, AddUpDeviceMemoryAsHostMemory) {
  for (const std::int32_t ranks : {1, 2, 3, 5})
    for (const std::uint64_t count : {0u, 1u, 1000u, 100'000u, 1'000'000u}) {
      const auto size = static_cast<std::size_t>(ranks);
      std::vector<bool> none(size, false), all(size, true), some(size, false);
      for (std::size_t r = 0; r < size; r += 2) some[r] = true;
      const auto expected = allreduce(ranks, count, none);
      EXPECT_TRUE(allreduce(ranks, count, all) == expected) << ranks << " ranks, " << count;
      EXPECT_TRUE(allreduce(ranks, count, some) == expected) << ranks << " ranks, " << count;
    }
}

TEST_F(CudaWorlds, SayThatADeviceIsToBeAttached) {
  const world_of_threads world(1);
  user_buffer input(gpu(), true, floats(10)), output(gpu(), false, floats(10));
  const auto desc = sum_of(input.data(), output.data(), 10);
  lsched_schedule* sum = nullptr;
  diagnostic why;
  EXPECT_EQ(lsched_allreduce_create(world.at(0), &desc, &sum, &why), LSCHED_ERR_ARGUMENT);
  EXPECT_TRUE(why.says("input 0") && why.says("lsched_cuda_attach")) << why.text;
  EXPECT_EQ(sum, nullptr);
}

TEST_F(CudaWorlds, AttachADeviceOnce) {
  const world_of_threads world(1);
  attach(world.at(0));
  attach(world.at(0), LSCHED_ERR_STATE, "already");
}

}  // namespace
}  // namespace lsched::testing
