// Tests of the fake driver's streams, events, captures and launches.
#include <array>
#include <atomic>
#include <set>
#include <string>
#include <vector>

#include "tests/offload/cuda/under_the_fake.h"

namespace lsched::testing {
namespace {

CUdeviceptr address_of(const void* at) { return reinterpret_cast<CUdeviceptr>(at); }

class FakeStreams : public UnderTheFake {
 protected:
  bool is_done(CUevent event) { return cuda().cuEventQuery(event) == CUDA_SUCCESS; }
  void destroy(const std::vector<CUstream>& streams) {
    for (const CUstream stream : streams) EXPECT_EQ(cuda().cuStreamDestroy(stream), CUDA_SUCCESS);
  }
};

/// The argument of a host function that appends `letter` to `into`. Afterwards `into` shows the order of execution.
struct written {
  std::string* into;
  char letter;
};
void write_letter(void* data) {
  const auto* const what = static_cast<written*>(data);
  what->into->push_back(what->letter);
}

TEST_F(FakeStreams, EventsOrderThem) {
  std::string order;
  written a{&order, 'a'};
  written b{&order, 'b'};
  const CUstream first = gpu().stream();
  const CUstream second = gpu().stream();
  const CUevent event = gpu().event();
  EXPECT_TRUE(is_done(event));  // an event that was never recorded is complete
  fake().hold();
  EXPECT_EQ(cuda().cuLaunchHostFunc(first, write_letter, &a), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuEventRecord(event, first), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuStreamWaitEvent(second, event, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuLaunchHostFunc(second, write_letter, &b), CUDA_SUCCESS);
  EXPECT_EQ(LSCHED_CUDA_FUNCTION(cuStreamQuery, 2000)(second), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(fake().step(second, 0), 0);
  EXPECT_EQ(fake().pending(second), 2U);
  EXPECT_EQ(fake().step(first, 0), 1);
  EXPECT_FALSE(is_done(event));
  EXPECT_EQ(fake().step(nullptr, 1), 1);  // only the record can run, because `second` waits for the recorded event
  EXPECT_TRUE(is_done(event));
  fake().go_on();
  EXPECT_EQ(cuda().cuStreamSynchronize(second), CUDA_SUCCESS);
  EXPECT_EQ(order, "ab");
  EXPECT_EQ(LSCHED_CUDA_FUNCTION(cuEventSynchronize, 2000)(event), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuEventDestroy(event), CUDA_SUCCESS);
  destroy({first, second});
}

TEST_F(FakeStreams, SeedDrawsTheOrder) {
  std::set<std::string> orders;
  for (const char* seed : {"1", "1", "2", "3", "4", "5", "6", "7", "8"}) {
    say("FAKE_CUDA_SEED", seed);
    std::string order;
    std::array<written, 4> letters{{{&order, 'a'}, {&order, 'b'}, {&order, 'c'}, {&order, 'd'}}};
    std::vector<CUstream> streams;
    fake().hold();
    for (written& letter : letters) {
      streams.push_back(gpu().stream());
      EXPECT_EQ(cuda().cuLaunchHostFunc(streams.back(), write_letter, &letter), CUDA_SUCCESS);
    }
    fake().go_on();
    EXPECT_EQ(LSCHED_CUDA_FUNCTION(cuCtxSynchronize, 2000)(), CUDA_SUCCESS);
    EXPECT_EQ(order.size(), 4U);
    EXPECT_TRUE(orders.empty() || seed[0] != '1' || orders.count(order) == 1);  // seed 1 always gives the same order
    orders.insert(order);
    destroy(streams);
  }
  EXPECT_GT(orders.size(), 2U);
}

TEST_F(FakeStreams, WaitForWordsAndWriteThem) {
  auto* const words = gpu().pinned<std::uint64_t>(2);
  const CUstream stream = gpu().stream();
  const CUevent event = gpu().event();
  EXPECT_EQ(
      cuda().cuStreamWaitValue64(stream, address_of(words), 5, CU_STREAM_WAIT_VALUE_GEQ | CU_STREAM_WAIT_VALUE_FLUSH),
      CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuStreamWriteValue64(stream, address_of(words + 1), 9, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuEventRecord(event, stream), CUDA_SUCCESS);
  std::atomic_ref<std::uint64_t>(words[0]).store(4);
  EXPECT_FALSE(wait_until([&] { return is_done(event); }, std::chrono::milliseconds(5)));
  std::atomic_ref<std::uint64_t>(words[0]).store(INT64_MAX);
  EXPECT_TRUE(wait_until([&] { return is_done(event); }));
  EXPECT_EQ(words[1], 9U);
  EXPECT_EQ(cuda().cuStreamWaitValue64(stream, address_of(words), 5, CU_STREAM_WAIT_VALUE_EQ), CUDA_SUCCESS);
  EXPECT_FALSE(wait_until([&] { return fake().pending(stream) != 1; }, std::chrono::milliseconds(5)));
  std::atomic_ref<std::uint64_t>(words[0]).store(5);
  EXPECT_EQ(cuda().cuStreamSynchronize(stream), CUDA_SUCCESS);

  std::uint64_t unknown = 0;
  EXPECT_EQ(cuda().cuStreamWaitValue64(stream, address_of(&unknown), 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuda().cuStreamWriteValue64(stream, address_of(words), 0, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuda().cuEventDestroy(event), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuMemFreeHost(words), CUDA_SUCCESS);
  destroy({stream});
}

TEST_F(FakeStreams, WorkBehindAWaitIsStuckWithOneQueueOnly) {
  for (const char* has_one : {"0", "1"}) {
    say("FAKE_CUDA_ONE_QUEUE", has_one);
    auto* const word = gpu().pinned<std::uint64_t>(1);
    const CUstream waiting = gpu().stream();
    const CUstream other = gpu().stream();
    const CUevent event = gpu().event();
    EXPECT_EQ(cuda().cuStreamWaitValue64(waiting, address_of(word), 1, CU_STREAM_WAIT_VALUE_GEQ), CUDA_SUCCESS);
    EXPECT_EQ(cuda().cuEventRecord(event, other), CUDA_SUCCESS);
    if (has_one[0] == '1') {
      EXPECT_FALSE(wait_until([&] { return is_done(event); }, std::chrono::milliseconds(20)));
      std::atomic_ref<std::uint64_t>(*word).store(1);
    }
    EXPECT_TRUE(wait_until([&] { return is_done(event); }));
    EXPECT_EQ(fake().pending(waiting), has_one[0] == '1' ? 0U : 1U);
    std::atomic_ref<std::uint64_t>(*word).store(1);
    EXPECT_EQ(cuda().cuStreamSynchronize(waiting), CUDA_SUCCESS);
    EXPECT_EQ(cuda().cuEventDestroy(event), CUDA_SUCCESS);
    EXPECT_EQ(cuda().cuMemFreeHost(word), CUDA_SUCCESS);
    destroy({waiting, other});
  }
}

TEST_F(FakeStreams, DefaultStreamIsOrderedWithBlockingOnes) {
  std::string order;
  written a{&order, 'a'};
  written b{&order, 'b'};
  written c{&order, 'c'};
  const CUstream blocking = gpu().stream(CU_STREAM_DEFAULT);
  const CUstream free = gpu().stream();
  fake().hold_stream(blocking, 1);
  EXPECT_EQ(cuda().cuLaunchHostFunc(blocking, write_letter, &a), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuLaunchHostFunc(nullptr, write_letter, &b), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuLaunchHostFunc(free, write_letter, &c), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuStreamSynchronize(free), CUDA_SUCCESS);
  EXPECT_EQ(order, "c");
  fake().hold_stream(blocking, 0);
  EXPECT_EQ(cuda().cuStreamSynchronize(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(order, "cab");
  destroy({blocking, free});
}

TEST_F(FakeStreams, FreeingBlocksWhileAnyStreamWaits) {
  auto* const word = gpu().pinned<std::uint64_t>(1);
  const CUdeviceptr memory = gpu().memory(8);
  const CUstream waiting = gpu().stream();
  EXPECT_EQ(cuda().cuStreamWaitValue64(waiting, address_of(word), 1, 0), CUDA_SUCCESS);
  CUdeviceptr other = 0;
  EXPECT_EQ(cuda().cuMemAlloc(&other, 8), CUDA_SUCCESS);  // an allocation does not block
  std::atomic<bool> is_free{false};
  std::thread frees([&] {
    const fake_device mine;
    EXPECT_EQ(cuda().cuMemFree(memory), CUDA_SUCCESS);
    is_free = true;
  });
  EXPECT_FALSE(wait_until([&] { return is_free.load(); }, std::chrono::milliseconds(20)));
  std::atomic_ref<std::uint64_t>(*word).store(1);
  frees.join();
  EXPECT_EQ(cuda().cuMemFree(other), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuMemFreeHost(word), CUDA_SUCCESS);
  destroy({waiting});
}

TEST_F(FakeStreams, FullQueueBlocksItsCaller) {
  const CUstream stream = gpu().stream();
  fake().hold();
  for (int i = 0; i < 1020; ++i)
    ASSERT_EQ(cuda().cuLaunchHostFunc(
                  stream, [](void*) {}, nullptr),
              CUDA_SUCCESS);
  std::atomic<bool> is_queued{false};
  std::thread queues([&] {
    const fake_device mine;
    EXPECT_EQ(cuda().cuLaunchHostFunc(
                  stream, [](void*) {}, nullptr),
              CUDA_SUCCESS);
    is_queued = true;
  });
  EXPECT_FALSE(wait_until([&] { return is_queued.load(); }, std::chrono::milliseconds(20)));
  EXPECT_EQ(fake().step(stream, 0), 1);
  queues.join();
  fake().go_on();
  EXPECT_EQ(cuda().cuStreamSynchronize(stream), CUDA_SUCCESS);
  destroy({stream});
}

TEST_F(FakeStreams, ManyThreadsShareTheDriver) {
  constexpr int rounds = 50;
  std::vector<std::thread> threads;
  for (int device : {0, 1, 0, 1}) {
    threads.emplace_back([device] {
      const fake_device mine(device);
      const cuda_driver& cuda = mine.cuda();
      const CUstream stream = mine.stream();
      const CUevent event = mine.event();
      auto* const words = mine.pinned<std::uint64_t>(2);
      for (std::uint64_t round = 1; round <= rounds; ++round) {
        const CUdeviceptr memory = mine.memory(8);
        EXPECT_EQ(cuda.cuStreamWaitValue64(stream, address_of(words), round, 0), CUDA_SUCCESS);
        EXPECT_EQ(cuda.cuMemcpyAsync(memory, address_of(words), 8, stream), CUDA_SUCCESS);
        EXPECT_EQ(cuda.cuMemcpyAsync(address_of(words + 1), memory, 8, stream), CUDA_SUCCESS);
        EXPECT_EQ(cuda.cuEventRecord(event, stream), CUDA_SUCCESS);
        std::atomic_ref<std::uint64_t>(words[0]).store(round);
        EXPECT_TRUE(wait_until([&] { return cuda.cuEventQuery(event) == CUDA_SUCCESS; }));
        EXPECT_EQ(words[1], round);
        EXPECT_EQ(cuda.cuMemFree(memory), CUDA_SUCCESS);
      }
      EXPECT_EQ(cuda.cuMemFreeHost(words), CUDA_SUCCESS);
      EXPECT_EQ(cuda.cuEventDestroy(event), CUDA_SUCCESS);
      EXPECT_EQ(cuda.cuStreamDestroy(stream), CUDA_SUCCESS);
    });
  }
  for (std::thread& one : threads) one.join();
}

TEST_F(FakeStreams, EachThreadHasADefaultStream) {
  auto* const word = gpu().pinned<std::uint64_t>(1);
  *word = 0;
  std::string order;
  written a{&order, 'a'}, b{&order, 'b'};
  EXPECT_EQ(cuda().cuStreamWaitValue64(CU_STREAM_PER_THREAD, address_of(word), 1, CU_STREAM_WAIT_VALUE_GEQ),
            CUDA_SUCCESS);
  std::thread([&] {
    EXPECT_EQ(cuda().cuCtxPushCurrent(gpu().context()), CUDA_SUCCESS);
    EXPECT_EQ(cuda().cuLaunchHostFunc(CU_STREAM_PER_THREAD, write_letter, &a), CUDA_SUCCESS);
    EXPECT_EQ(cuda().cuStreamSynchronize(CU_STREAM_PER_THREAD), CUDA_SUCCESS);
  }).join();
  EXPECT_EQ(order, "a");
  EXPECT_EQ(cuda().cuLaunchHostFunc(nullptr, write_letter, &b), CUDA_SUCCESS);
  EXPECT_EQ(fake().pending(CU_STREAM_LEGACY), 1U) << "the legacy stream waits for the streams of threads";
  std::atomic_ref<std::uint64_t>(*word).store(1);
  EXPECT_EQ(cuda().cuStreamSynchronize(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(order, "ab");
  EXPECT_EQ(cuda().cuMemFreeHost(word), CUDA_SUCCESS);
}

TEST_F(FakeStreams, CaptureKeepsWorkBack) {
  const auto begin = LSCHED_CUDA_FUNCTION(cuStreamBeginCapture, 10010);
  const auto end = LSCHED_CUDA_FUNCTION(cuStreamEndCapture, 10000);
  const CUstream stream = gpu().stream();
  const CUstream joined = gpu().stream();
  const CUevent event = gpu().event();
  const auto status_of_stream = [&](CUstream of) {
    CUstreamCaptureStatus status{};
    EXPECT_EQ(cuda().cuStreamIsCapturing(of, &status), CUDA_SUCCESS);
    return status;
  };
  EXPECT_EQ(begin(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
  std::string order;
  written a{&order, 'a'};
  EXPECT_EQ(cuda().cuLaunchHostFunc(stream, write_letter, &a), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuEventRecord(event, stream), CUDA_SUCCESS);
  EXPECT_EQ(status_of_stream(joined), CU_STREAM_CAPTURE_STATUS_NONE);
  EXPECT_EQ(cuda().cuStreamWaitEvent(joined, event, 0), CUDA_SUCCESS);
  EXPECT_EQ(status_of_stream(joined), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  CUgraph graph = nullptr;
  EXPECT_EQ(end(stream, &graph), CUDA_SUCCESS);
  EXPECT_EQ(status_of_stream(stream), CU_STREAM_CAPTURE_STATUS_NONE);
  EXPECT_EQ(fake().pending(stream), 0U);
  EXPECT_EQ(order, "");
  EXPECT_EQ(LSCHED_CUDA_FUNCTION(cuGraphDestroy, 10000)(graph), CUDA_SUCCESS);

  EXPECT_EQ(begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuEventRecord(event, stream), CUDA_SUCCESS);
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  EXPECT_EQ(cuda().cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
  EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
  EXPECT_EQ(cuda().cuMemFree(gpu().memory(8)), CUDA_SUCCESS);  // a thread in mode RELAXED may free memory
  EXPECT_EQ(cuda().cuEventQuery(event), CUDA_ERROR_CAPTURED_EVENT);
  EXPECT_EQ(status_of_stream(stream), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  EXPECT_EQ(cuda().cuLaunchHostFunc(stream, write_letter, &a), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(end(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(cuda().cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuEventDestroy(event), CUDA_SUCCESS);
  destroy({stream, joined});
}

// --- launches -------------------------------------------------------------------------------------------

/// A kernel that adds a and b, for a grid of one thread.
void add(const device_arguments& with) {
  for (std::uint64_t i = 0; i < with.count; ++i)
    static_cast<float*>(const_cast<void*>(static_cast<const void*>(with.c)))[i] =
        static_cast<const float*>(with.a)[i] + static_cast<const float*>(with.b)[i];
}
const emulated_kernel* find_add(std::string_view name) {
  static constexpr emulated_kernel one{"add", add, false};
  return name == one.name ? &one : nullptr;
}

class FakeLaunches : public FakeStreams {
 protected:
  void SetUp() override {
    FakeStreams::SetUp();
    fake().set_kernels(find_add);
    EXPECT_EQ(cuda().cuModuleLoadData(&module_, "an image"), CUDA_SUCCESS);
    EXPECT_EQ(cuda().cuModuleGetFunction(&add_, module_, "add"), CUDA_SUCCESS);
    EXPECT_EQ(cuda().cuFuncLoad(add_), CUDA_SUCCESS);
    stream_ = gpu().stream();
  }
  CUresult launch(const void* a, const void* b, void* c, std::uint64_t count) {
    device_arguments with{a, b, c, nullptr, count, 1, 0, 0};
    void* parameters[] = {&with};
    return cuda().cuLaunchKernel(add_, 1, 1, 1, 1, 1, 1, 0, stream_, parameters, nullptr);
  }
  CUmodule module_ = nullptr;
  CUfunction add_ = nullptr;
  CUstream stream_ = nullptr;
};

TEST_F(FakeLaunches, RunKernelsByName) {
  CUfunction none = nullptr;
  EXPECT_EQ(cuda().cuModuleGetFunction(&none, module_, "multiply"), CUDA_ERROR_NOT_FOUND);
  auto* const pinned = gpu().pinned<float>(4);
  const CUdeviceptr device = gpu().memory(4 * sizeof(float));
  const std::array<float, 4> values{1, 2, 3, 4};
  EXPECT_EQ(fake().write(device, values.data(), sizeof values), 1);
  for (int i = 0; i < 4; ++i) pinned[i] = 10;
  auto* const at = reinterpret_cast<float*>(device);
  EXPECT_EQ(launch(at, pinned, at, 4), CUDA_SUCCESS);
  EXPECT_EQ(launch(at + 1, at + 1, pinned, 3), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(pinned[0], 24.0F);
  EXPECT_EQ(pinned[2], 28.0F);
  std::array<float, 4> sums{};
  EXPECT_EQ(fake().read(sums.data(), device, sizeof sums), 1);
  EXPECT_EQ(sums, (std::array<float, 4>{11, 12, 13, 14}));
  EXPECT_EQ(fake().calls("cuLaunchKernel"), 2U);
  EXPECT_EQ(cuda().cuMemFree(device), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuMemFreeHost(pinned), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuModuleUnload(module_), CUDA_SUCCESS);
  destroy({stream_});
}

TEST_F(FakeLaunches, AddressThatAKernelCannotUseEndsTheDevice) {
  std::array<float, 4> host{};
  const CUdeviceptr here = gpu().memory(16);
  EXPECT_EQ(launch(host.data(), host.data(), host.data(), 0), CUDA_SUCCESS);  // with 0 elements, a kernel accesses no
                                                                              // memory
  EXPECT_EQ(cuda().cuStreamSynchronize(stream_), CUDA_SUCCESS);
  auto* const at = reinterpret_cast<float*>(here);
  EXPECT_EQ(launch(at, host.data(), at, 4), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuStreamSynchronize(stream_), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(cuda().cuMemFree(here), CUDA_ERROR_ILLEGAL_ADDRESS);
  CUevent event = nullptr;
  EXPECT_EQ(cuda().cuEventCreate(&event, 0), CUDA_ERROR_ILLEGAL_ADDRESS);
  const char* name = nullptr;
  EXPECT_EQ(cuda().cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &name), CUDA_SUCCESS);
  EXPECT_STREQ(name, "CUDA_ERROR_ILLEGAL_ADDRESS");
}

TEST_F(FakeLaunches, MemoryOfAnotherDeviceIsNotAKernels) {
  CUdeviceptr there = 0;
  {
    const fake_device other(1);
    there = other.memory(16);
  }
  auto* const at = reinterpret_cast<float*>(there);
  EXPECT_EQ(launch(at, at, at, 4), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuStreamSynchronize(stream_), CUDA_ERROR_ILLEGAL_ADDRESS);
}

}  // namespace
}  // namespace lsched::testing
