// Tests of rounds in the order of streams, under the fake driver. Streams of the application write a round's input,
// start the round, wait for the round and copy the output. Threads of the application wait only for the ends of
// streams.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>

#include "bindings/c/lsched_cuda.h"
#include "libsched/schedule/draw.h"
#include "tests/offload/cuda/under_the_fake.h"
#include "tests/offload/cuda/user_memory.h"
#include "tests/support/sampling.h"
#include "tests/support/thread_ranks.h"
#include "tests/support/wait_until.h"

namespace lsched::testing {
namespace {

/// A rank with an allreduce of i64 over device memory, and the application's inputs and outputs in pinned memory.
struct summing_rank {
  summing_rank(const fake_device& device, lsched_world* world, std::int32_t self, std::uint64_t elements, int rounds)
      : gpu(device),
        here(device),
        rank(self),
        count(elements),
        input(gpu.memory(bytes())),
        output(gpu.memory(bytes())) {
    brought = gpu.pinned<std::int64_t>(count * static_cast<std::uint64_t>(rounds));
    taken = gpu.pinned<std::int64_t>(count * static_cast<std::uint64_t>(rounds));
    diagnostic why;
    lsched_collective_desc desc{.struct_size = sizeof desc,
                                .collective = "allreduce",
                                .input = reinterpret_cast<void*>(input),
                                .output = reinterpret_cast<void*>(output),
                                .count = count,
                                .dtype = LSCHED_I64,
                                .reduction = LSCHED_SUM};
    EXPECT_EQ(lsched_collective_create(world, &desc, &schedule, &why), LSCHED_OK) << why.text;
  }
  ~summing_rank() {
    diagnostic why;
    EXPECT_EQ(lsched_schedule_destroy(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
    for (void* one : {static_cast<void*>(brought), static_cast<void*>(taken)})
      EXPECT_EQ(gpu.cuda().cuMemFreeHost(one), CUDA_SUCCESS);
    for (const CUdeviceptr one : {input, output}) EXPECT_EQ(gpu.cuda().cuMemFree(one), CUDA_SUCCESS);
  }
  summing_rank(const summing_rank&) = delete;
  summing_rank& operator=(const summing_rank&) = delete;

  std::size_t bytes() const { return count * sizeof(std::int64_t); }
  std::int64_t* brought_in(int round) const { return brought + count * static_cast<std::uint64_t>(round); }
  std::int64_t* taken_in(int round) const { return taken + count * static_cast<std::uint64_t>(round); }

  void bring(int round, CUstream stream) const {
    EXPECT_EQ(gpu.cuda().cuMemcpyAsync(input, reinterpret_cast<CUdeviceptr>(brought_in(round)), bytes(), stream),
              CUDA_SUCCESS);
  }
  void take(int round, CUstream stream) const {
    EXPECT_EQ(gpu.cuda().cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(taken_in(round)), output, bytes(), stream),
              CUDA_SUCCESS);
  }
  /// Returns element i of the input of rank r in a round.
  static std::int64_t number(std::int32_t r, int round, std::uint64_t i) {
    return (r + 1) * 1'000'000 + round * 1000 + static_cast<std::int64_t>(i % 1000);
  }
  void fill(int round) const {
    for (std::uint64_t i = 0; i < count; ++i) brought_in(round)[i] = number(rank, round, i);
  }
  bool is_right(int round, std::int32_t ranks) const {
    for (std::uint64_t i = 0; i < count; ++i) {
      std::int64_t sum = 0;
      for (std::int32_t r = 0; r < ranks; ++r) sum += number(r, round, i);
      if (taken_in(round)[i] != sum) return false;
    }
    return true;
  }

  const fake_device& gpu;
  context_of_thread here;
  std::int32_t rank;
  std::uint64_t count;
  CUdeviceptr input, output;
  std::int64_t* brought = nullptr;
  std::int64_t* taken = nullptr;
  lsched_schedule* schedule = nullptr;
};

class StreamOrder : public UnderTheFake {
 protected:
  static void attach(lsched_world* world, bool host_waits = false) {
    diagnostic why;
    lsched_cuda_config config;
    lsched_cuda_config_init(&config);
    config.device = 0;
    config.staging_bytes = 1 << 20;
    config.host_waits = host_waits ? 1 : 0;
    ASSERT_EQ(lsched_cuda_attach(world, &config, &why), LSCHED_OK) << why.text;
  }

  /// Runs rounds one after the other in one stream of each rank. The host waits for the last round.
  void run_rounds(std::int32_t ranks, std::uint64_t count, int rounds, bool host_waits) {
    const world_of_threads world(ranks);
    world.each([&](lsched_world* mine, std::int32_t r) {
      attach(mine, host_waits);
      const summing_rank it(gpu(), mine, r, count, rounds);
      const CUstream stream = gpu().stream();
      for (int round = 0; round < rounds; ++round) {
        it.fill(round);
        it.bring(round, stream);
        lsched_ticket ticket{};
        while (lsched_start_on_stream(it.schedule, stream, &ticket) == LSCHED_ERR_BUSY) std::this_thread::yield();
        ASSERT_EQ(lsched_wait_on_stream(ticket, stream), LSCHED_OK);
        it.take(round, stream);
      }
      EXPECT_EQ(cuda().cuStreamSynchronize(stream), CUDA_SUCCESS);
      for (int round = 0; round < rounds; ++round) EXPECT_TRUE(it.is_right(round, ranks)) << r << ", " << round;
      EXPECT_EQ(cuda().cuStreamDestroy(stream), CUDA_SUCCESS);
    });
  }
};

TEST_F(StreamOrder, RoundsFollowAStreamAndItFollowsThem) {
  for (const std::int32_t ranks : {1, 2, 3})
    for (const std::uint64_t count : {1u, 1000u})
      for (const bool host_waits : {false, true}) run_rounds(ranks, count, 40, host_waits);
}

std::string described(lsched_world* world) {
  std::string text(512, '\0');
  EXPECT_EQ(lsched_world_describe(world, text.data(), text.size()), LSCHED_OK);
  return text.substr(0, text.find('\0'));
}

TEST_F(StreamOrder, WhereWaitingStreamsHoldUpOthersTheHostWaits) {
  {
    const world_of_threads world(1);
    attach(world.at(0));
    EXPECT_NE(described(world.at(0)).find("up to 4 streams wait"), std::string::npos) << described(world.at(0));
  }
  say("FAKE_CUDA_ONE_QUEUE", "1");
  {
    const world_of_threads world(1);
    attach(world.at(0));
    EXPECT_NE(described(world.at(0)).find("streams do not wait"), std::string::npos) << described(world.at(0));
  }
  run_rounds(3, 100, 20, false);
}

TEST_F(StreamOrder, AsleepTheProgressThreadIsRung) {
  const world_of_threads world(2);
  world.each([&](lsched_world* mine, std::int32_t r) {
    attach(mine);
    const summing_rank it(gpu(), mine, r, 10, 1);
    const CUstream stream = gpu().stream();
    fake().hold_stream(stream, 1);
    it.fill(0);
    it.bring(0, stream);
    lsched_ticket ticket{};
    ASSERT_EQ(lsched_start_on_stream(it.schedule, stream, &ticket), LSCHED_OK);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(lsched_test(ticket), LSCHED_PENDING) << "the stream has not reached the round";
    EXPECT_GT(fake().calls("cuLaunchHostFunc"), 0u) << "no host function was enqueued";
    fake().hold_stream(stream, 0);
    EXPECT_EQ(lsched_wait(ticket, k_limit_ns, nullptr), LSCHED_OK);
    EXPECT_EQ(cuda().cuStreamDestroy(stream), CUDA_SUCCESS);
  });
}

TEST_F(StreamOrder, AFailedScheduleLetsItsStreamsGo) {
  const world_of_threads world(2);
  std::atomic<bool> is_started{false};
  world.each([&](lsched_world* mine, std::int32_t r) {
    attach(mine);
    const summing_rank it(gpu(), mine, r, 10, 3);
    const CUstream stream = gpu().stream();
    lsched_ticket ticket{};
    diagnostic why;
    if (r == 0) {  // the other rank never starts
      for (int round = 0; round < 3; ++round) {
        ASSERT_EQ(lsched_start_on_stream(it.schedule, stream, &ticket), LSCHED_OK);
        ASSERT_EQ(lsched_wait_on_stream(ticket, stream), LSCHED_OK);
      }
      is_started = true;
    } else {
      EXPECT_TRUE(wait_until([&] { return is_started.load(); }));
      EXPECT_EQ(lsched_cancel(it.schedule, &why), LSCHED_OK) << why.text;
    }
    EXPECT_EQ(cuda().cuStreamSynchronize(stream), CUDA_SUCCESS);
    if (r == 0) {
      EXPECT_EQ(lsched_test(ticket), LSCHED_ERR_CANCELLED);
      EXPECT_EQ(lsched_start_on_stream(it.schedule, stream, &ticket), LSCHED_ERR_CANCELLED);
      EXPECT_EQ(lsched_wait_on_stream(ticket, stream), LSCHED_OK) << "the stream must not wait for a failed round";
      EXPECT_EQ(cuda().cuStreamSynchronize(stream), CUDA_SUCCESS);
    }
    EXPECT_EQ(cuda().cuStreamDestroy(stream), CUDA_SUCCESS);
  });
}

TEST_F(StreamOrder, RoundsAreAskedForAheadUpToABound) {
  const world_of_threads world(1);
  attach(world.at(0));
  const summing_rank it(gpu(), world.at(0), 0, 10, 1);
  const CUstream stream = gpu().stream();
  fake().hold_stream(stream, 1);
  it.fill(0);
  it.bring(0, stream);
  lsched_ticket ticket{}, refused{};
  for (int round = 1; round <= 16; ++round)
    ASSERT_EQ(lsched_start_on_stream(it.schedule, stream, &ticket), LSCHED_OK) << round;
  EXPECT_EQ(lsched_start_on_stream(it.schedule, stream, &refused), LSCHED_ERR_BUSY);
  EXPECT_EQ(lsched_start(it.schedule, &refused), LSCHED_ERR_STATE) << "rounds of streams are outstanding";
  EXPECT_EQ(refused.schedule, nullptr);
  EXPECT_EQ(lsched_wait_on_stream({it.schedule, 17}, stream), LSCHED_ERR_STATE) << "no call has started that round";
  fake().hold_stream(stream, 0);
  EXPECT_EQ(lsched_wait(ticket, k_limit_ns, nullptr), LSCHED_OK);
  EXPECT_EQ(cuda().cuStreamDestroy(stream), CUDA_SUCCESS);
}

// --- the number of waiting streams ---------------------------------------------------------------------------------

/// A world of one rank with a round that begins only after let_go(). Streams wait for this round.
struct waiting_rank {
  waiting_rank(const fake_device& gpu, lsched_world* world) : of(gpu, world, 0, 10, 1), before(gpu.stream()) {
    gpu.fake().hold_stream(before, 1);
    of.fill(0);
    of.bring(0, before);
    EXPECT_EQ(lsched_start_on_stream(of.schedule, before, &round), LSCHED_OK);
  }
  ~waiting_rank() { EXPECT_EQ(of.gpu.cuda().cuStreamDestroy(before), CUDA_SUCCESS); }
  waiting_rank(const waiting_rank&) = delete;
  waiting_rank& operator=(const waiting_rank&) = delete;

  void let_go() const { of.gpu.fake().hold_stream(before, 0); }

  /// Makes a stream wait for the round. The call runs in a separate thread, because it may block. Returns a future for
  /// the status of the call.
  std::future<lsched_status> wait_on(CUstream stream) const {
    return std::async(std::launch::async, [this, stream] { return lsched_wait_on_stream(round, stream); });
  }

  summing_rank of;
  CUstream before;
  lsched_ticket round{};
};

class WaitingStreams : public StreamOrder {
 protected:
  static constexpr std::size_t k_most = 4;  ///< maximum number of streams that wait at a time

  static bool comes_back(const std::future<lsched_status>& call, std::chrono::milliseconds within) {
    return call.wait_for(within) == std::future_status::ready;
  }
  void expect_to_wait(std::future<lsched_status> call) {
    ASSERT_TRUE(comes_back(call, std::chrono::seconds(5))) << "the host waits instead of the stream";
    EXPECT_EQ(call.get(), LSCHED_OK);
  }
  static void expect_host_to_wait(const std::future<lsched_status>& call) {
    EXPECT_FALSE(comes_back(call, std::chrono::milliseconds(50))) << "a stream waits instead of the host";
  }

  std::vector<std::jthread> threads_;
};

TEST_F(WaitingStreams, AreCountedForAllRanksOfADevice) {
  const world_of_threads one(1), two(1);
  for (const world_of_threads* each : {&one, &two}) attach(each->at(0));
  std::vector<CUstream> streams(k_most + 1);
  for (CUstream& each : streams) each = gpu().stream();
  const std::uint64_t before = fake().calls("cuStreamWaitValue64");
  {
    const waiting_rank first(gpu(), one.at(0)), second(gpu(), two.at(0));
    for (std::size_t i = 0; i < k_most; ++i) expect_to_wait((i < 3 ? first : second).wait_on(streams[i]));
    expect_to_wait(second.wait_on(streams[0]));  // is not counted again, because this stream already waits
    auto one_more = second.wait_on(streams[k_most]);
    expect_host_to_wait(one_more);
    EXPECT_EQ(fake().calls("cuStreamWaitValue64") - before, k_most + 1);
    first.let_go();
    for (std::size_t i = 1; i < 3; ++i) EXPECT_EQ(cuda().cuStreamSynchronize(streams[i]), CUDA_SUCCESS);
    expect_to_wait(second.wait_on(streams[1]));  // this wait takes the place of a wait that has ended
    second.let_go();
    EXPECT_EQ(one_more.get(), LSCHED_OK);
    for (const CUstream each : streams) EXPECT_EQ(cuda().cuStreamSynchronize(each), CUDA_SUCCESS);
  }
  for (const CUstream each : streams) EXPECT_EQ(cuda().cuStreamDestroy(each), CUDA_SUCCESS);
}

TEST_F(WaitingStreams, OfARankThatHasClosedAreForgotten) {
  const world_of_threads stays(1);
  const CUstream stream = gpu().stream();
  const auto wait_once = [&](lsched_world* world) {
    const waiting_rank rank(gpu(), world);
    expect_to_wait(rank.wait_on(stream));
    rank.let_go();
    EXPECT_EQ(cuda().cuStreamSynchronize(stream), CUDA_SUCCESS);
  };
  attach(stays.at(0));
  {
    const world_of_threads goes(1);
    attach(goes.at(0));
    wait_once(goes.at(0));
  }
  wait_once(stays.at(0));  // the driver must not access the word of the closed world
  EXPECT_EQ(cuda().cuStreamDestroy(stream), CUDA_SUCCESS);
}

TEST_F(WaitingStreams, TheDefaultStreamIsOneByBothNames) {
  const world_of_threads world(1);
  attach(world.at(0));
  std::vector<CUstream> streams(k_most);
  for (CUstream& each : streams) each = gpu().stream();
  {
    const waiting_rank rank(gpu(), world.at(0));
    for (const CUstream each : {CUstream{nullptr}, CU_STREAM_LEGACY}) expect_to_wait(rank.wait_on(each));
    for (std::size_t i = 0; i + 1 < k_most; ++i) expect_to_wait(rank.wait_on(streams[i]));
    auto one_more = rank.wait_on(streams.back());
    expect_host_to_wait(one_more);
    rank.let_go();
    EXPECT_EQ(one_more.get(), LSCHED_OK);
    EXPECT_EQ(cuda().cuStreamSynchronize(nullptr), CUDA_SUCCESS);
    for (const CUstream each : streams) EXPECT_EQ(cuda().cuStreamSynchronize(each), CUDA_SUCCESS);
  }
  for (const CUstream each : streams) EXPECT_EQ(cuda().cuStreamDestroy(each), CUDA_SUCCESS);
}

TEST_F(WaitingStreams, EachThreadHasOneOfItsOwn) {
  const world_of_threads world(1);
  attach(world.at(0));
  const waiting_rank rank(gpu(), world.at(0));
  std::vector<std::future<lsched_status>> calls;
  std::promise<void> may_end;
  const std::shared_future<void> end = may_end.get_future().share();
  for (std::size_t i = 0; i < k_most; ++i) {
    std::promise<lsched_status> told;
    calls.push_back(told.get_future());
    threads_.emplace_back([&rank, end, told = std::move(told)]() mutable {
      told.set_value(lsched_wait_on_stream(rank.round, CU_STREAM_PER_THREAD));
      end.wait();
    });
  }
  for (auto& each : calls) expect_to_wait(std::move(each));
  auto one_more = rank.wait_on(CU_STREAM_PER_THREAD);
  expect_host_to_wait(one_more);
  rank.let_go();
  EXPECT_EQ(one_more.get(), LSCHED_OK);
  may_end.set_value();
  threads_.clear();
}

}  // namespace
}  // namespace lsched::testing
