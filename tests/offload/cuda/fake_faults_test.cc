// Tests of the faults that a test can inject into the fake driver, and of the misuse that the fake driver detects.
#include <sys/resource.h>

#include <atomic>
#include <cstdlib>
#include <string>

#include "tests/offload/cuda/under_the_fake.h"

namespace lsched::testing {
namespace {

CUdeviceptr address_of(const void* at) { return reinterpret_cast<CUdeviceptr>(at); }

class FakeFaults : public UnderTheFake {
 protected:
  CUresult destroy(CUevent event) { return cuda().cuEventDestroy(event); }
};

TEST_F(FakeFaults, OneCallFails) {
  say("FAKE_CUDA_FAIL", "cuMemAlloc:2:2,cuEventCreate:1:CUDA_ERROR_UNKNOWN");
  CUdeviceptr at = 0;
  const CUdeviceptr first = gpu().memory(8);
  EXPECT_EQ(cuda().cuMemAlloc(&at, 8), CUDA_ERROR_OUT_OF_MEMORY);
  const CUdeviceptr third = gpu().memory(8);
  CUevent event = nullptr;
  EXPECT_EQ(cuda().cuEventCreate(&event, 0), CUDA_ERROR_UNKNOWN);
  fake().fail("cuMemFree:1:999");  // the n-th call is counted from here
  EXPECT_EQ(cuda().cuMemFree(first), CUDA_ERROR_UNKNOWN);
  EXPECT_EQ(cuda().cuMemFree(first), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuMemFree(third), CUDA_SUCCESS);
}

TEST_F(FakeFaults, NothingRunsAfterOneThatSticks) {
  for (const char* code : {"700", "CUDA_ERROR_DEINITIALIZED"}) {
    const CUresult answer = code[0] == '7' ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_ERROR_DEINITIALIZED;
    say("FAKE_CUDA_FAIL", std::string("cuEventQuery:2:") + code + ":sticky");
    static std::atomic<bool> has_run;
    has_run = false;
    const CUstream stream = gpu().stream();
    const CUevent event = gpu().event();
    fake().hold();
    EXPECT_EQ(cuda().cuLaunchHostFunc(
                  stream, [](void*) { has_run = true; }, nullptr),
              CUDA_SUCCESS);
    EXPECT_EQ(cuda().cuEventRecord(event, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuda().cuEventQuery(event), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(cuda().cuEventQuery(event), answer);
    fake().go_on();
    EXPECT_EQ(cuda().cuStreamSynchronize(stream), answer);
    EXPECT_EQ(cuda().cuCtxPushCurrent(gpu().context()), answer);
    EXPECT_FALSE(wait_until([&] { return has_run.load(); }, std::chrono::milliseconds(5)));
  }
}

TEST_F(FakeFaults, WorkHangs) {
  const CUstream stream = gpu().stream();
  const CUstream other = gpu().stream();
  const CUevent event = gpu().event();
  fake().fail("cuLaunchHostFunc:1:hang");
  EXPECT_EQ(cuda().cuLaunchHostFunc(
                stream, [](void*) {}, nullptr),
            CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuEventRecord(event, stream), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuLaunchHostFunc(
                other, [](void*) {}, nullptr),
            CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuStreamSynchronize(other), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuEventQuery(event), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(fake().pending(stream), 2U);
  const CUevent asked = gpu().event();
  fake().fail("cuEventQuery:1:hang");
  EXPECT_EQ(cuda().cuEventQuery(asked), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(cuda().cuEventQuery(asked), CUDA_ERROR_NOT_READY);
  for (const CUevent gone : {event, asked}) EXPECT_EQ(destroy(gone), CUDA_SUCCESS);
  for (const CUstream gone : {stream, other}) EXPECT_EQ(cuda().cuStreamDestroy(gone), CUDA_SUCCESS);
}

TEST_F(FakeFaults, CallsHangUntilTheDeviceFails) {
  fake().fail("cuMemAlloc:1:hang,cuEventCreate:1:719:sticky");
  std::atomic<bool> has_returned{false};
  std::thread allocates([&] {
    const fake_device mine;
    CUdeviceptr at = 0;
    EXPECT_EQ(mine.cuda().cuMemAlloc(&at, 8), CUDA_ERROR_LAUNCH_FAILED);
    has_returned = true;
  });
  EXPECT_TRUE(wait_until([&] { return fake().calls("cuMemAlloc") == 1; }));
  EXPECT_FALSE(wait_until([&] { return has_returned.load(); }, std::chrono::milliseconds(5)));
  CUevent event = nullptr;
  EXPECT_EQ(cuda().cuEventCreate(&event, 0), CUDA_ERROR_LAUNCH_FAILED);
  allocates.join();
}

TEST_F(FakeFaults, EnvironmentSaysWhatDriverItIs) {
  say("FAKE_CUDA_VERSION", "12030");
  say("FAKE_CUDA_MISSING", "cuStreamQuery");
  say("FAKE_CUDA_ATTRIBUTES", "122:0,75:8");
  EXPECT_EQ(LSCHED_CUDA_FUNCTION(cuFuncLoad, 12040), nullptr);
  EXPECT_NE(LSCHED_CUDA_FUNCTION(cuMemAlloc, 3020), nullptr);
  EXPECT_EQ(LSCHED_CUDA_FUNCTION(cuStreamQuery, 2000), nullptr);
  int version = 0;
  EXPECT_EQ(LSCHED_CUDA_FUNCTION(cuDriverGetVersion, 2020)(&version), CUDA_SUCCESS);
  EXPECT_EQ(version, 12030);
  int value = -1;
  const auto attribute = [&](CUdevice_attribute of) {
    EXPECT_EQ(cuda().cuDeviceGetAttribute(&value, of, 0), CUDA_SUCCESS);
    return value;
  };
  EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS), 0);
  EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR), 8);
  EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING), 1);
}

TEST(FakeDriver, OneThatCannotBeUsedIsUnsupported) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto no_device = [] {
    const result<const cuda_driver*> found = load_cuda_driver();
    if (found.has_value()) std::exit(1);
    std::fprintf(stderr, "%s\n", found.error().text.c_str());
    std::exit(found.error().code == status::unsupported ? 0 : 2);
  };
  setenv("FAKE_CUDA_DEVICES", "0", 1);
  EXPECT_EXIT(no_device(), ::testing::ExitedWithCode(0),
              "CUDA cannot be used: cuInit: CUDA_ERROR_NO_DEVICE \\(no device\\)");
  unsetenv("FAKE_CUDA_DEVICES");
  setenv("FAKE_CUDA_VERSION", "11080", 1);
  EXPECT_EXIT(no_device(), ::testing::ExitedWithCode(0), "supports CUDA 11.8, but CUDA 12.0 is needed");
  unsetenv("FAKE_CUDA_VERSION");
}

TEST_F(FakeFaults, WaitingForAWordTakesLittleTime) {
  auto* const word = gpu().pinned<std::uint64_t>(1);
  const CUstream stream = gpu().stream();
  EXPECT_EQ(cuda().cuStreamWaitValue64(stream, address_of(word), 1, 0), CUDA_SUCCESS);
  const auto spent = [] {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
  };
  const auto before = spent();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_LT(spent() - before, std::chrono::milliseconds(120));
  std::atomic_ref<std::uint64_t>(*word).store(1);
  EXPECT_EQ(cuda().cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuMemFreeHost(word), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuStreamDestroy(stream), CUDA_SUCCESS);
}

TEST_F(FakeFaults, TellsWhatIsNotGivenBack) {
  gpu().memory(100);
  gpu().stream();
  gpu().event();
  gpu().pinned<char>(10);
  EXPECT_EQ(fake().leaked().find("context of device 0 not released: 1\n"), 0U);
  expect_leaks(
      "streams not destroyed: 1\nevents not destroyed: 1\n"
      "device memory not freed: 100 bytes\nhost memory not freed: 10 bytes\n");
}

TEST_F(FakeFaults, AProcessThatLeaksSaysSoAtItsEnd) {
  const auto ends = [&](bool leaks) {
    say("FAKE_CUDA_LEAKS", "1");
    const CUevent event = gpu().event();
    if (!leaks) destroy(event);
    release();
    std::exit(0);
  };
  EXPECT_EXIT(ends(true), ::testing::ExitedWithCode(71), "leak: events not destroyed: 1");
  EXPECT_EXIT(ends(false), ::testing::ExitedWithCode(0), "");
}

// --- misuse ---------------------------------------------------------------------------------------------

using FakeMisuse = FakeFaults;

TEST_F(FakeMisuse, CallInAHostFunction) {
  const auto calls = [&] {
    const CUstream stream = gpu().stream();
    cuda().cuLaunchHostFunc(
        stream, [](void* driver) { static_cast<const cuda_driver*>(driver)->cuStreamSynchronize(nullptr); },
        const_cast<cuda_driver*>(&cuda()));
    cuda().cuStreamSynchronize(stream);
  };
  EXPECT_DEATH(calls(), "misuse: cuStreamSynchronize inside a host function");
}

TEST_F(FakeMisuse, NoContext) {
  CUdeviceptr at = 0;
  EXPECT_DEATH(std::thread([&] { cuda().cuMemAlloc(&at, 8); }).join(), "misuse: cuMemAlloc: no context is current");
}

TEST_F(FakeMisuse, UnsafeCallWhileAnotherThreadCaptures) {
  const auto begin = LSCHED_CUDA_FUNCTION(cuStreamBeginCapture, 10010);
  const auto asks = [&](CUstreamCaptureMode captured) {
    const CUstream stream = gpu().stream();
    const CUevent event = gpu().event();
    begin(stream, captured);
    std::thread([&] {
      const fake_device mine;
      mine.cuda().cuEventQuery(event);
    }).join();
    std::_Exit(0);
  };
  EXPECT_DEATH(asks(CU_STREAM_CAPTURE_MODE_GLOBAL), "misuse: cuEventQuery would end a capture");
  EXPECT_EXIT(asks(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), ::testing::ExitedWithCode(0), "");
}

TEST_F(FakeMisuse, FreeOfMemoryInUse) {
  auto* const pinned = gpu().pinned<char>(64);
  const CUdeviceptr device = gpu().memory(64);
  const CUstream stream = gpu().stream();
  const auto copies = [&](bool frees_device) {
    fake().hold();
    cuda().cuMemcpyAsync(device, address_of(pinned), 64, stream);
    if (frees_device)
      cuda().cuMemFree(device);
    else
      cuda().cuMemFreeHost(pinned);
  };
  EXPECT_DEATH(copies(true), "misuse: cuMemFree of memory that queued work uses");
  EXPECT_DEATH(copies(false), "misuse: cuMemFreeHost of memory that queued work uses");
  EXPECT_EQ(cuda().cuMemFree(device), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuMemFreeHost(pinned), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuStreamDestroy(stream), CUDA_SUCCESS);
}

TEST_F(FakeMisuse, UseOfFreedMemory) {
  const CUdeviceptr device = gpu().memory(64);
  EXPECT_EQ(cuda().cuMemFree(device), CUDA_SUCCESS);
  EXPECT_DEATH(cuda().cuMemFree(device), "misuse: cuMemFree of memory that was freed");
  char host = 0;
  EXPECT_DEATH(cuda().cuMemcpyAsync(address_of(&host), device, 1, nullptr), "misuse: a copy of freed device memory");
}

TEST_F(FakeMisuse, UseAfterDestruction) {
  const CUstream stream = gpu().stream();
  const CUevent event = gpu().event();
  EXPECT_EQ(cuda().cuStreamDestroy(stream), CUDA_SUCCESS);
  EXPECT_EQ(destroy(event), CUDA_SUCCESS);
  EXPECT_DEATH(cuda().cuStreamSynchronize(stream), "misuse: a stream is used after it was destroyed");
  EXPECT_DEATH(destroy(event), "misuse: an event is used after it was destroyed");
  int no_event = 0;
  EXPECT_EQ(cuda().cuEventQuery(reinterpret_cast<CUevent>(&no_event)), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(FakeMisuse, FaultsThatCannotBeRead) {
  EXPECT_DEATH(fake().fail("cuMemAlloc"), "misuse: a fault is function:n:code");
  EXPECT_DEATH(fake().fail("cuMemAlloc:0:2"), "misuse: there is no fault cuMemAlloc:0:2");
  EXPECT_DEATH(fake().fail("cuMemAlloc:1:CUDA_ERROR_NONSENSE"), "misuse: there is no fault");
  EXPECT_DEATH(say("FAKE_CUDA_SEED", "x"), "misuse: FAKE_CUDA_SEED: x is not a number");
}

}  // namespace
}  // namespace lsched::testing
