// Tests of the library under the fake driver, in worlds of threads. All, some or none of the ranks have their buffers
// in device memory. Results must have the same bits as in host memory, and all resources must be released.
#include <algorithm>
#include <cstring>
#include <functional>
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

/// Describes an allreduce. If `segment_bytes` is 0, the library chooses the size of segments.
lsched_collective_desc sum_of(const void* input, void* output, std::uint64_t count, std::uint64_t segment_bytes = 0) {
  return {.struct_size = sizeof(lsched_collective_desc),
          .collective = "allreduce",
          .input = input,
          .output = output,
          .count = count,
          .dtype = LSCHED_F32,
          .reduction = LSCHED_SUM,
          .segment_bytes = segment_bytes};
}

class CudaWorlds : public UnderTheFake {
 protected:
  static void attach(lsched_world* world, lsched_status expected = LSCHED_OK, const std::string& words = "",
                     lsched_cuda_peers peers = LSCHED_CUDA_PEERS_AUTO) {
    diagnostic why;
    lsched_cuda_config config;
    lsched_cuda_config_init(&config);
    config.device = 0;
    config.staging_bytes = 1 << 20;
    config.peers = peers;
    EXPECT_EQ(lsched_cuda_attach(world, &config, &why), expected) << why.text;
    EXPECT_TRUE(why.says(words)) << why.text;
  }

  /// Runs rounds of an allreduce. The buffers of rank r are in device memory if on_device[r] is true. Returns the
  /// outputs of all ranks.
  std::vector<floats> allreduce(std::int32_t ranks, std::uint64_t count, const std::vector<bool>& on_device,
                                lsched_cuda_peers peers = LSCHED_CUDA_PEERS_AUTO) {
    const world_of_threads world(ranks);
    std::vector<floats> results(static_cast<std::size_t>(ranks));
    if (std::ranges::count(on_device, true) != 0)
      world.each([&](lsched_world* mine, std::int32_t) { attach(mine, LSCHED_OK, "", peers); });
    world.each([&](lsched_world* mine, std::int32_t r) {
      const context_of_thread here(gpu());
      const auto self = static_cast<std::size_t>(r);
      user_buffer input(gpu(), on_device[self], random_floats(count, static_cast<unsigned>(r)));
      user_buffer output(gpu(), on_device[self], floats(count, -1));
      const bool is_mixed = std::ranges::find(on_device, !on_device.front()) != on_device.end();
      const auto desc = sum_of(input.data(), output.data(), count, is_mixed ? 1 << 20 : 0);
      lsched_schedule* sum = nullptr;
      diagnostic why;
      EXPECT_EQ(lsched_collective_create(mine, &desc, &sum, &why), LSCHED_OK) << why.text;
      for (int round = 0; round < 3 && sum != nullptr; ++round)
        EXPECT_EQ(lsched_run(sum, k_limit_ns, &why), LSCHED_OK) << why.text;
      EXPECT_EQ(lsched_schedule_destroy(sum, k_limit_ns, &why), LSCHED_OK) << why.text;
      lsched_stats stats{.struct_size = sizeof stats};
      EXPECT_EQ(lsched_get_stats(mine, &stats), LSCHED_OK);
      const bool is_long = count * sizeof(float) >= 1 << 20 && ranks > 1 && on_device[self];
      EXPECT_EQ(stats.device_jobs > 0, on_device[self] && count > 0) << r;
      EXPECT_TRUE(stats.device_messages_shared == 0 || peers != LSCHED_CUDA_PEERS_NEVER);
      EXPECT_TRUE(stats.device_messages_shared > 0 || !is_long || peers != LSCHED_CUDA_PEERS_ALWAYS)
          << r << " of " << ranks;
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
      for (const auto peers : {LSCHED_CUDA_PEERS_NEVER, LSCHED_CUDA_PEERS_AUTO, LSCHED_CUDA_PEERS_ALWAYS})
        EXPECT_TRUE(allreduce(ranks, count, all, peers) == expected) << ranks << " ranks, " << count << ", " << peers;
      EXPECT_TRUE(allreduce(ranks, count, some) == expected) << ranks << " ranks, " << count;
    }
}

TEST_F(CudaWorlds, SayThatADeviceIsToBeAttached) {
  const world_of_threads world(1);
  user_buffer input(gpu(), true, floats(10)), output(gpu(), false, floats(10));
  const auto desc = sum_of(input.data(), output.data(), 10);
  lsched_schedule* sum = nullptr;
  diagnostic why;
  EXPECT_EQ(lsched_collective_create(world.at(0), &desc, &sum, &why), LSCHED_ERR_ARGUMENT);
  EXPECT_TRUE(why.says("input 0") && why.says("lsched_cuda_attach")) << why.text;
  EXPECT_EQ(sum, nullptr);
}

TEST_F(CudaWorlds, ReadMemoryOfTheirOwnWhereItIs) {
  constexpr std::uint64_t count = 1'000'000;
  const world_of_threads world(3);
  world.each([](lsched_world* mine, std::int32_t) { attach(mine); });
  world.each([&](lsched_world* mine, std::int32_t r) {
    const context_of_thread here(gpu());
    void *input = nullptr, *output = nullptr;
    for (void** one : {&input, &output}) ASSERT_EQ(lsched_cuda_alloc(mine, count * sizeof(float), one), LSCHED_OK);
    const floats ones(count, static_cast<float>(r + 1));
    floats sums(count);
    EXPECT_EQ(fake().write(reinterpret_cast<CUdeviceptr>(input), ones.data(), count * sizeof(float)), 1);
    const auto desc = sum_of(input, output, count);
    lsched_schedule* sum = nullptr;
    diagnostic why;
    ASSERT_EQ(lsched_collective_create(mine, &desc, &sum, &why), LSCHED_OK) << why.text;
    EXPECT_EQ(lsched_run(sum, k_limit_ns, &why), LSCHED_OK) << why.text;
    EXPECT_EQ(lsched_schedule_destroy(sum, k_limit_ns, &why), LSCHED_OK) << why.text;
    EXPECT_EQ(fake().read(sums.data(), reinterpret_cast<CUdeviceptr>(output), count * sizeof(float)), 1);
    EXPECT_TRUE(sums == floats(count, 6)) << "rank " << r;
    lsched_stats stats{.struct_size = sizeof stats};
    EXPECT_EQ(lsched_get_stats(mine, &stats), LSCHED_OK);
    EXPECT_GT(stats.device_messages_shared, 0u);
    for (void* one : {input, output}) EXPECT_EQ(lsched_cuda_free(mine, one), LSCHED_OK);
    EXPECT_EQ(lsched_cuda_free(mine, input), LSCHED_ERR_ARGUMENT) << "the memory was freed before";
    EXPECT_EQ(lsched_cuda_free(mine, &stats), LSCHED_ERR_ARGUMENT) << "the memory is not from the library";
  });
}

// --- the segments of vectors -----------------------------------------------------------------------------------------

/// A collective in a world of three ranks. Either only the first rank or all ranks have their buffers in device memory.
struct cut_collective {
  const char* collective;
  std::uint64_t count;
  const char* algorithm = nullptr;
  std::uint64_t segment_bytes = 0;
  bool is_mixed = true;
};

/// The result of a create on one rank, and the text of the schedule.
struct cut_answer {
  lsched_status code = LSCHED_OK;
  std::string words{}, schedule{};
};

class CudaCuts : public CudaWorlds {
 protected:
  static constexpr std::int32_t k_ranks = 3;

  std::vector<cut_answer> create(const cut_collective& what) {
    const world_of_threads world(k_ranks);
    std::vector<cut_answer> all(k_ranks);
    world.each([&](lsched_world* mine, std::int32_t r) {
      const context_of_thread here(gpu());
      attach(mine);
      const bool on_device = r == 0 || !what.is_mixed;
      const std::string_view name = what.collective;
      const floats content(name == "allreduce" ? what.count : what.count * k_ranks);
      user_buffer input(gpu(), on_device, content), output(gpu(), on_device, content);
      const bool has_input = r == 0 || (name != "bcast" && name != "scatter");
      const bool has_output = name == "bcast" ? r != 0 : r == 0 || (name != "reduce" && name != "gather");
      lsched_collective_desc desc = sum_of(has_input ? input.data() : nullptr, has_output ? output.data() : nullptr,
                                           what.count, what.segment_bytes);
      desc.collective = what.collective;
      desc.algorithm = what.algorithm;
      if (name != "reduce" && name != "scan" && name != "allreduce") desc.reduction = lsched_reduction{};
      all[static_cast<std::size_t>(r)] = create(mine, desc);
    });
    return all;
  }

  static cut_answer create(lsched_world* world, const lsched_collective_desc& desc) {
    lsched_schedule* made = nullptr;
    diagnostic why;
    const lsched_status code = lsched_collective_create(world, &desc, &made, &why);
    std::string text(1 << 20, '\0');
    if (code == LSCHED_OK) {
      EXPECT_EQ(lsched_schedule_print(made, LSCHED_PRINT_TEXT, text.data(), text.size(), nullptr), LSCHED_OK);
    }
    EXPECT_EQ(lsched_schedule_destroy(made, k_limit_ns, nullptr), LSCHED_OK);
    return {code, why.text, text.substr(0, text.find('\0'))};
  }
};

TEST_F(CudaCuts, RanksWithAndWithoutDeviceMemoryAgreeWhereTheyAreCutAlike) {
  for (const cut_collective& what : {cut_collective{"bcast", 30'000},
                                     {"bcast", 900'000, "binomial"},
                                     {"reduce", 30'000},
                                     {"gather", 30'000},
                                     {"scatter", 30'000},
                                     {"allgather", 30'000},
                                     {"alltoall", 30'000},
                                     {"scan", 30'000},
                                     {"allreduce", 20'000},
                                     {"allreduce", 30'000, "ring"},
                                     {"allreduce", 2'000'000, "recursive_doubling"},
                                     {"allreduce", 1'000'000, "ring", 1 << 20}})
    for (const cut_answer& one : create(what))
      EXPECT_EQ(one.code, LSCHED_OK) << what.collective << ", " << what.count << ": " << one.words;
}

TEST_F(CudaCuts, WhereTheyAreNotTheySayWhatIsToBeDone) {
  for (const cut_answer& one : create({"allreduce", 1'000'000, "ring"})) {
    EXPECT_EQ(one.code, LSCHED_ERR_MISMATCH);
    EXPECT_NE(one.words.find("set segment_bytes on all ranks"), std::string::npos) << one.words;
  }
}

TEST_F(CudaCuts, LongVectorsInDeviceMemoryAreCutIntoFourMebibytes) {
  for (const char* algorithm : {"ring", "direct"}) {
    const auto chosen = create({"allreduce", 5'000'000, algorithm, 0, false});
    const auto told = create({"allreduce", 5'000'000, algorithm, 4 << 20, false});
    for (std::size_t r = 0; r < k_ranks; ++r) {
      EXPECT_EQ(chosen[r].code, LSCHED_OK) << chosen[r].words;
      EXPECT_EQ(chosen[r].schedule, told[r].schedule) << algorithm;
    }
  }
}

TEST_F(CudaWorlds, WhatIsMisspeltIsNamed) {
  const world_of_threads world(1);
  for (const auto& [variable, value] : {std::pair{"LSCHED_CUDA_DEVICE", "zero"}, {"LSCHED_CUDA_STREAMS", "hots"}}) {
    say(variable, value);
    lsched_cuda_config config;
    lsched_cuda_config_init(&config);
    for (lsched_cuda_config* one : {&config, static_cast<lsched_cuda_config*>(nullptr)}) {
      diagnostic why;
      EXPECT_EQ(lsched_cuda_attach(world.at(0), one, &why), LSCHED_ERR_ARGUMENT);
      EXPECT_TRUE(why.says(variable) && why.says(value)) << why.text;
    }
    unsetenv(variable);
  }
  lsched_cuda_config config;
  lsched_cuda_config_init(&config);
  config.device = -5;
  diagnostic why;
  EXPECT_EQ(lsched_cuda_attach(world.at(0), &config, &why), LSCHED_ERR_ARGUMENT);
  EXPECT_TRUE(why.says("-5")) << why.text;
}

TEST_F(CudaWorlds, AllocateOnlyOnADevice) {
  const world_of_threads world(1);
  void* memory = nullptr;
  EXPECT_EQ(lsched_cuda_alloc(world.at(0), 100, &memory), LSCHED_ERR_STATE);
  EXPECT_EQ(memory, nullptr);
}

TEST_F(CudaWorlds, AttachADeviceOnce) {
  const world_of_threads world(1);
  attach(world.at(0));
  attach(world.at(0), LSCHED_ERR_STATE, "already");
}

}  // namespace
}  // namespace lsched::testing
