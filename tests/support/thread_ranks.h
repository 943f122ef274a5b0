// Ranks of the C interface, as threads of a test.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "bindings/c/lsched.h"
#include "tests/support/open_threads.h"

namespace lsched::testing {

constexpr std::uint64_t k_limit_ns = 30'000'000'000;

struct diagnostic : lsched_diagnostic {
  diagnostic() : lsched_diagnostic{.struct_size = sizeof(lsched_diagnostic)} {}
  bool says(const std::string& word) const { return std::string(text).find(word) != std::string::npos; }
};

/// Returns the sum of `mine` over the ranks of the world. If a call fails, the test fails and the result is -1.
inline std::int64_t sum_over(lsched_world* world, std::int64_t mine) {
  std::int64_t sum = -1;
  const lsched_collective_desc desc{.struct_size = sizeof desc,
                                    .collective = "allreduce",
                                    .input = &mine,
                                    .output = &sum,
                                    .count = 1,
                                    .dtype = LSCHED_I64,
                                    .reduction = LSCHED_SUM};
  lsched_schedule* schedule = nullptr;
  diagnostic why;
  EXPECT_EQ(lsched_collective_create(world, &desc, &schedule, &why), LSCHED_OK) << why.text;
  if (schedule == nullptr) return -1;
  EXPECT_EQ(lsched_run(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
  EXPECT_EQ(lsched_schedule_destroy(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
  return sum;
}

inline lsched_config test_config() {
  lsched_config config;
  lsched_config_init(&config);
  config.region_bytes = 64 << 20;
  config.commit_timeout_ns = k_limit_ns;
  return config;
}

/// A world whose ranks are threads. The destructor closes the world. If the library refuses to close the world, the
/// test fails. Therefore the test must destroy all objects that it has created.
class world_of_threads {
 public:
  explicit world_of_threads(std::int32_t ranks, lsched_config config = test_config())
      : runtimes_(static_cast<std::size_t>(ranks)) {
    diagnostic why;
    if (open_threads(ranks, &config, runtimes_.data(), &why) != LSCHED_OK) ADD_FAILURE() << why.text;
  }
  ~world_of_threads() {
    each([](lsched_world* one, std::int32_t) { EXPECT_EQ(lsched_world_close(one), LSCHED_OK); });
  }
  world_of_threads(const world_of_threads&) = delete;
  world_of_threads& operator=(const world_of_threads&) = delete;

  std::int32_t size() const { return static_cast<std::int32_t>(runtimes_.size()); }
  lsched_world* at(std::int32_t rank) const { return runtimes_[static_cast<std::size_t>(rank)]; }

  /// Runs `body` for each rank, in one thread per rank.
  void each(const std::function<void(lsched_world*, std::int32_t)>& body) const {
    std::vector<std::jthread> threads;
    for (std::int32_t r = 0; r < size(); ++r) threads.emplace_back([&, r] { body(at(r), r); });
  }

 private:
  std::vector<lsched_world*> runtimes_;
};

/// Runs `body` for each rank of a new world of threads. The rank is passed in an object that converts to any integer
/// type, so `body` can choose the type.
template <class Body>
void as_ranks(std::int32_t size, const Body& body) {
  struct number {
    std::int32_t rank;
    operator std::int32_t() const { return rank; }
    operator std::size_t() const { return static_cast<std::size_t>(rank); }
  };
  world_of_threads(size).each([&](lsched_world* mine, std::int32_t r) { body(mine, number{r}); });
}

}  // namespace lsched::testing
