// Tests of devices that are not available, fail or hang. Each rank must return the right error, and all ranks must
// continue.
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "bindings/cpp/lsched.hpp"
#include "tests/offload/cuda/life_of_a_world.h"

namespace lsched::testing {
namespace {

class DeviceFailures : public UnderTheFake {
 protected:
  static void expect_ok(const std::vector<answer>& answers) {
    for (const answer& one : answers) EXPECT_EQ(one.code, LSCHED_OK) << one.words;
  }
  static bool says(const answer& one, const std::string& words) { return one.words.find(words) != std::string::npos; }

  answer attach_to_one(const char* fault) {
    begin_anew();
    const world_of_threads world(1);
    fake().fail(fault);
    diagnostic why;
    const lsched_status code = lsched_cuda_attach(world.at(0), nullptr, &why);
    return {code, why.text};
  }

  /// Makes one driver call of a round hang. The error of the timeout must name the device.
  void hang_in_a_round(const char* fault) {
    life_of_a_world life(gpu());
    expect_ok(life.take(life_step::attach));
    expect_ok(life.take(life_step::create));
    fake().fail(fault);
    std::array<std::string, life_of_a_world::k_ranks> words;
    run_shortly(life, words);
    const bool is_told = std::ranges::any_of(words, [](const std::string& one) {
      return one.find("on the device") != std::string::npos && one.find("allreduce") != std::string::npos;
    });
    EXPECT_TRUE(is_told) << words[0] << "; " << words[1];
    EXPECT_EQ(life.add_up_host_memory(), "");
    end_hung(life);
  }

  static void run_shortly(life_of_a_world& life, std::array<std::string, life_of_a_world::k_ranks>& words) {
    std::vector<std::jthread> threads;
    for (std::size_t r = 0; r < words.size(); ++r)
      threads.emplace_back([&, r] {
        diagnostic why;
        EXPECT_EQ(lsched_run(life.schedule(r), 300'000'000, &why), LSCHED_ERR_TIMEOUT) << why.text;
        words[r] = why.text;
      });
  }

  /// After a hang, cancels and destroys the schedules and closes the worlds. Expects that this takes only seconds. The
  /// schedules may already be destroyed (null).
  void end_hung(life_of_a_world& life) {
    const auto begin = std::chrono::steady_clock::now();
    const bool is_destroyed = life.schedule(0) == nullptr;
    for (std::size_t r = 0; r < life.k_ranks && !is_destroyed; ++r) {
      diagnostic why;
      const lsched_status given_up = lsched_cancel(life.schedule(r), &why);
      EXPECT_TRUE(given_up == LSCHED_OK || given_up == LSCHED_ERR_DEVICE) << why.text;
    }
    std::size_t hung = 0;
    for (const answer& one : life.take(life_step::destroy)) {
      EXPECT_TRUE(one.code == LSCHED_OK || (one.code == LSCHED_ERR_DEVICE && says(one, "has not completed")))
          << one.words;
      hung += one.code == LSCHED_ERR_DEVICE ? 1 : 0;
    }
    EXPECT_EQ(hung, is_destroyed ? 0u : 1u);
    expect_ok(life.take(life_step::close));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(15));
    life.forget_driver();
    begin_anew();
  }
};

TEST_F(DeviceFailures, AttachSaysWhatIsMissing) {
  struct {
    const char* fault;
    lsched_status code;
    const char* words;
  } const all[] = {
      {"cuDeviceGetCount:1:100", LSCHED_ERR_UNSUPPORTED, "CUDA_ERROR_NO_DEVICE"},
      {"cuDevicePrimaryCtxRetain:1:46", LSCHED_ERR_UNSUPPORTED, "CUDA_ERROR_DEVICE_UNAVAILABLE"},
      {"cuDevicePrimaryCtxRetain:1:2", LSCHED_ERR_NOMEM, "CUDA_ERROR_OUT_OF_MEMORY"},
      {"cuModuleLoadData:1:200", LSCHED_ERR_UNSUPPORTED, "CUDA_ERROR_INVALID_IMAGE"},
      {"cuModuleLoadData:1:209", LSCHED_ERR_UNSUPPORTED, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
      {"cuModuleLoadData:1:222", LSCHED_ERR_UNSUPPORTED, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"},
      {"cuModuleLoadData:1:1", LSCHED_ERR_DEVICE, "CUDA_ERROR_INVALID_VALUE"},
      {"cuMemAlloc:1:2", LSCHED_ERR_NOMEM, "CUDA_ERROR_OUT_OF_MEMORY"},
      {"cuModuleLoadData:1:214:sticky", LSCHED_ERR_DEVICE, "CUDA_ERROR_ECC_UNCORRECTABLE"},
      {"cuLaunchKernel:1:700:sticky", LSCHED_ERR_DEVICE, "CUDA_ERROR_ILLEGAL_ADDRESS"},
  };
  for (const auto& one : all) {
    const answer told = attach_to_one(one.fault);
    EXPECT_EQ(told.code, one.code) << one.fault << ": " << told.words;
    EXPECT_TRUE(says(told, one.words)) << one.fault << ": " << told.words;
  }
  begin_anew();
}

TEST_F(DeviceFailures, AnErrorWithoutANameHasItsNumber) {
  const answer told = attach_to_one("cuModuleLoadData:1:209,cuGetErrorName:1:1");
  EXPECT_EQ(told.code, LSCHED_ERR_UNSUPPORTED);
  EXPECT_TRUE(says(told, "error 209")) << told.words;
}

TEST_F(DeviceFailures, AttachGivesUpADeviceThatHangs) {
  const auto begin = std::chrono::steady_clock::now();
  const answer told = attach_to_one("cuLaunchKernel:1:hang");
  EXPECT_EQ(told.code, LSCHED_ERR_DEVICE) << told.words;
  EXPECT_TRUE(says(told, "does not execute")) << told.words;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  begin_anew();
}

TEST_F(DeviceFailures, MemoryThatIsNotPinnedIsReplaced) {
  life_of_a_world life(gpu());
  expect_ok(life.take(life_step::attach));
  fake().fail("cuMemHostRegister:1:801,cuMemHostRegister:2:801,cuMemHostRegister:3:801,cuMemHostRegister:4:801");
  expect_ok(life.take(life_step::create));
  expect_ok(life.take(life_step::run));
  for (std::size_t r = 0; r < life.k_ranks; ++r) EXPECT_TRUE(life.output(r) == life.sum()) << r;
  EXPECT_NE(life.describe(0).find("does not pin the transport's memory"), std::string::npos) << life.describe(0);
  EXPECT_EQ(life.describe(2).find("device"), std::string::npos) << life.describe(2);
  expect_ok(life.take(life_step::destroy));
  expect_ok(life.take(life_step::close));
}

TEST_F(DeviceFailures, StreamsThatCannotWaitAreWaitedFor) {
  fake().fail("cuStreamWaitValue64:1:801,cuStreamWaitValue64:2:801");
  life_of_a_world life(gpu());
  for (const life_step step : k_life_steps) {
    if (step == life_step::destroy) {
      EXPECT_NE(life.describe(0).find("do not wait"), std::string::npos) << life.describe(0);
    }
    expect_ok(life.take(step));
  }
}

TEST_F(DeviceFailures, OneRanksFailureIsToldToTheOthersAtOnce) {
  life_of_a_world life(gpu());
  expect_ok(life.take(life_step::attach));
  expect_ok(life.take(life_step::create));
  fake().fail("cuMemcpyAsync:1:999");
  const auto answers = life.take(life_step::run);
  const auto failed = std::ranges::find(answers, LSCHED_ERR_DEVICE, &answer::code);
  ASSERT_NE(failed, answers.end());
  EXPECT_TRUE(says(*failed, "CUDA_ERROR_UNKNOWN")) << failed->words;
  for (const answer& one : answers) {
    if (&one == &*failed) continue;
    EXPECT_EQ(one.code, LSCHED_ERR_CANCELLED) << one.words;
    EXPECT_EQ(one.peer, failed - answers.begin()) << one.words;
  }
  EXPECT_EQ(life.add_up_host_memory(), "");
  expect_ok(life.take(life_step::destroy));
  expect_ok(life.take(life_step::close));
}

TEST_F(DeviceFailures, ACopyThatHangs) { hang_in_a_round("cuMemcpyAsync:1:hang"); }
TEST_F(DeviceFailures, AnEventThatNeverComes) { hang_in_a_round("cuEventQuery:1:hang"); }

// lsched_schedule_destroy frees the schedule even if it returns DEVICE. The C++ object must not use the handle again.
TEST_F(DeviceFailures, AScheduleOfTheCppApiIsFreedOnce) {
  life_of_a_world life(gpu());
  expect_ok(life.take(life_step::attach));
  expect_ok(life.take(life_step::create));
  fake().fail("cuMemcpyAsync:1:hang");
  std::array<std::string, life_of_a_world::k_ranks> words;
  run_shortly(life, words);
  std::size_t hung = 0;
  for (std::size_t r = 0; r < life.k_ranks; ++r) {
    diagnostic why;
    (void)lsched_cancel(life.schedule(r), &why);
    lsched::schedule sum(std::exchange(life.schedule(r), nullptr));
    try {
      sum.close();
    } catch (const lsched::error& failed) {
      EXPECT_EQ(failed.status(), LSCHED_ERR_DEVICE) << failed.what();
      ++hung;
    }
    EXPECT_FALSE(sum);
  }
  EXPECT_EQ(hung, 1u);
  end_hung(life);
}

// A sleeping rank is normally woken by a host function of the stream. In this test the host function hangs, so the rank
// must poll.
TEST_F(DeviceFailures, ABellThatHangs) {
  life_of_a_world life(gpu());
  expect_ok(life.take(life_step::attach));
  expect_ok(life.take(life_step::create));
  fake().fail("cuLaunchHostFunc:1:hang");
  fake().hold();
  const std::uint64_t before = fake().calls("cuLaunchHostFunc");
  std::jthread lets_go([&] {
    EXPECT_TRUE(wait_until([&] { return fake().calls("cuLaunchHostFunc") > before; })) << "no rank went to sleep";
    fake().go_on();
  });
  expect_ok(life.take(life_step::run));
  lets_go.join();
  expect_ok(life.take(life_step::stream));
  expect_ok(life.take(life_step::destroy));
  const auto begin = std::chrono::steady_clock::now();
  expect_ok(life.take(life_step::close));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  life.forget_driver();
  begin_anew();
}

/// A world of one rank with a device, and a stream of the application that waits for a word.
struct closing_beside_a_stream {
  explicit closing_beside_a_stream(const fake_device& gpu) : word(gpu.pinned<std::uint64_t>(1)), stream(gpu.stream()) {
    const lsched_config config = test_config();
    EXPECT_EQ(lsched_world_open_threads(1, &config, &world, nullptr), LSCHED_OK);
    EXPECT_EQ(lsched_cuda_attach(world, nullptr, nullptr), LSCHED_OK);
    void* memory = nullptr;
    EXPECT_EQ(lsched_cuda_alloc(world, 4096, &memory), LSCHED_OK);
    *word = 0;
    EXPECT_EQ(gpu.cuda().cuStreamWaitValue64(stream, reinterpret_cast<CUdeviceptr>(word), 1, 0), CUDA_SUCCESS);
  }
  /// Closes the world. Returns whether the close succeeds within seconds.
  bool closes() const {
    const auto begin = std::chrono::steady_clock::now();
    return lsched_world_close(world) == LSCHED_OK &&
           std::chrono::steady_clock::now() - begin < std::chrono::seconds(10);
  }

  std::uint64_t* word;
  CUstream stream;
  lsched_world* world = nullptr;
};

// If the close cannot wait for the end of device work, the close leaks the device memory. If the device hangs, a close
// does the same.
TEST_F(DeviceFailures, ClosingNeedsNoMemory) {
  const closing_beside_a_stream it(gpu());
  fake().fail("cuMemAlloc:1:2");
  EXPECT_TRUE(it.closes());
  EXPECT_NE(fake().leaked(), "");
  std::atomic_ref(*it.word).store(1);
  EXPECT_EQ(cuda().cuStreamSynchronize(it.stream), CUDA_SUCCESS);
  begin_anew();
}

TEST_F(DeviceFailures, ClosingNeedsNoThread) {
  const auto close_without_threads = [&] {
    const closing_beside_a_stream it(gpu());
    alarm(20);
    const rlimit none{0, 0};
    const bool is_limited = setrlimit(RLIMIT_NPROC, &none) == 0 && (getuid() != 0 || setuid(65534) == 0);
    std::_Exit(is_limited && it.closes() && fake().leaked() != "" ? 0 : 1);
  };
  EXPECT_EXIT(close_without_threads(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace lsched::testing
