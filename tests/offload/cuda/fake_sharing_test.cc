// Tests of device memory that two processes share, under the fake driver. The test forks before either process loads
// the driver.
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <functional>

#include "tests/offload/cuda/under_the_fake.h"
#include "tests/support/shared_object.h"

namespace lsched::testing {
namespace {

/// State that the two processes share.
struct table {
  std::atomic<int> step;
  CUipcMemHandle handle;
  CUdeviceptr at;
  int fd;
  pid_t owner;

  void reach(int next) { step = next; }
  bool await(int awaited) {
    return wait_until([&] { return step >= awaited; });
  }
};

#define LSCHED_NEED(condition)                                             \
  do {                                                                     \
    if (!(condition)) {                                                    \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      return 1;                                                            \
    }                                                                      \
  } while (false)

using side = std::function<int(table&)>;

/// Runs the owner in a forked process and the other side in this process, and exits. This process must not have loaded
/// the driver before.
[[noreturn]] void run_both(const side& owner, const side& other) {
  alarm(100);
  const shared_object<table> shared;
  const pid_t child = fork();
  if (child == 0) {
    alarm(100);
    _exit(owner(*shared));
  }
  const int code = other(*shared);
  int state = 0;
  if (waitpid(child, &state, 0) != child || (WIFEXITED(state) && WEXITSTATUS(state) != 0)) std::_Exit(1);
  std::_Exit(code);
}

/// Returns 1 if the device memory begins with `text`, otherwise 0.
int says(const fake_device& gpu, CUdeviceptr at, const std::string& text) {
  std::array<char, 16> found{};
  return gpu.fake().read(found.data(), at, text.size()) == 1 && text == found.data() ? 1 : 0;
}
void write(const fake_device& gpu, CUdeviceptr at, const std::string& text) {
  EXPECT_EQ(gpu.fake().write(at, text.data(), text.size()), 1);
}

/// The owner exports memory by a legacy handle (cuIpcGetMemHandle) and checks the other side's write. The owner then
/// kills itself while the memory is still open on the other side.
int legacy_owner(table& shared) {
  const fake_device gpu;
  LSCHED_NEED(gpu.is_there());
  const CUdeviceptr at = gpu.memory(1000);
  write(gpu, at, "owner");
  LSCHED_NEED(gpu.cuda().cuIpcGetMemHandle(&shared.handle, at + 100) == CUDA_SUCCESS);
  CUdeviceptr own = 0;
  LSCHED_NEED(gpu.cuda().cuIpcOpenMemHandle(&own, shared.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) ==
              CUDA_ERROR_INVALID_CONTEXT);
  shared.reach(1);
  LSCHED_NEED(shared.await(2));
  LSCHED_NEED(says(gpu, at, "other"));
  kill(getpid(), SIGKILL);
  return 1;
}

/// Returns 1 if the call returns only after the device has finished its work.
int waits_for_the_device(const fake_device& gpu, const std::function<CUresult()>& call) {
  const CUstream stream = gpu.stream();
  std::atomic<bool> has_come_back{false};
  gpu.fake().hold();
  bool is_right = gpu.cuda().cuEventRecord(gpu.event(), stream) == CUDA_SUCCESS;
  std::jthread caller([&] {
    is_right = gpu.cuda().cuCtxPushCurrent(gpu.context()) == CUDA_SUCCESS && call() == CUDA_SUCCESS && is_right;
    has_come_back = true;
  });
  const bool was_waiting = !wait_until([&] { return has_come_back.load(); }, std::chrono::milliseconds(20));
  gpu.fake().go_on();
  caller.join();
  return was_waiting && is_right && gpu.cuda().cuStreamDestroy(stream) == CUDA_SUCCESS ? 1 : 0;
}

int legacy_other(table& shared) {
  const fake_device gpu;
  LSCHED_NEED(gpu.is_there() && shared.await(1));
  const cuda_driver& cuda = gpu.cuda();
  CUdeviceptr at = 0;
  CUdeviceptr again = 0;
  LSCHED_NEED(cuda.cuIpcOpenMemHandle(&at, shared.handle, 0) == CUDA_ERROR_INVALID_VALUE);
  LSCHED_NEED(cuda.cuIpcOpenMemHandle(&at, shared.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) == CUDA_SUCCESS);
  LSCHED_NEED(cuda.cuIpcOpenMemHandle(&again, shared.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) == CUDA_SUCCESS);
  LSCHED_NEED(at == again);
  LSCHED_NEED(says(gpu, at, "owner"));
  LSCHED_NEED(gpu.fake().read(&again, at + 999, 2) == 0);  // a read beyond the end of the memory fails
  CUipcMemHandle none;
  LSCHED_NEED(cuda.cuIpcGetMemHandle(&none, at) == CUDA_ERROR_INVALID_VALUE);
  LSCHED_NEED(cuda.cuMemFree(at) == CUDA_ERROR_INVALID_VALUE);
  write(gpu, at, "other");
  shared.reach(2);
  siginfo_t end{};
  LSCHED_NEED(waitid(P_ALL, 0, &end, WEXITED | WNOWAIT) == 0 && end.si_status == SIGKILL);
  LSCHED_NEED(says(gpu, at, "other"));  // the memory outlives its owner
  LSCHED_NEED(waits_for_the_device(gpu, [&] { return cuda.cuIpcCloseMemHandle(at); }));
  LSCHED_NEED(says(gpu, at, "other"));  // the memory is still open, because it was opened twice
  LSCHED_NEED(gpu.fake().leaked().find("device memory not closed: 1000 bytes") != std::string::npos);
  LSCHED_NEED(cuda.cuIpcCloseMemHandle(at) == CUDA_SUCCESS);
  LSCHED_NEED(!says(gpu, at, "other"));
  return 0;
}

TEST(FakeSharing, LegacyHandlesOpenInAnotherProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(run_both(legacy_owner, legacy_other), ::testing::ExitedWithCode(0), "^$");
}

/// Maps a handle readable and writable. Returns the address, or 0 on failure.
CUdeviceptr map(const fake_device& gpu, CUmemGenericAllocationHandle handle, std::size_t size) {
  const cuda_driver& cuda = gpu.cuda();
  CUdeviceptr at = 0;
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  const bool is_mapped = cuda.cuMemAddressReserve(&at, size, 0, 0, 0) == CUDA_SUCCESS &&
                         cuda.cuMemMap(at, size, 0, handle, 0) == CUDA_SUCCESS &&
                         cuda.cuMemSetAccess(at, size, &access, 1) == CUDA_SUCCESS;
  return is_mapped ? at : 0;
}

constexpr std::size_t k_size = std::size_t{4} << 20U;

int vmm_owner(table& shared) {
  const fake_device gpu;
  LSCHED_NEED(gpu.is_there());
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemGenericAllocationHandle handle = 0;
  LSCHED_NEED(gpu.cuda().cuMemCreate(&handle, k_size, &properties, 0) == CUDA_SUCCESS);
  LSCHED_NEED(gpu.cuda().cuMemExportToShareableHandle(&shared.fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                                      0) == CUDA_ERROR_INVALID_VALUE);  // the memory was not created
                                                                                        // for export
  LSCHED_NEED(gpu.cuda().cuMemRelease(handle) == CUDA_SUCCESS);
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  LSCHED_NEED(gpu.cuda().cuMemCreate(&handle, k_size, &properties, 0) == CUDA_SUCCESS);
  const CUdeviceptr at = map(gpu, handle, k_size);
  LSCHED_NEED(at != 0);
  write(gpu, at, "owner");
  LSCHED_NEED(gpu.cuda().cuMemExportToShareableHandle(&shared.fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                                      0) == CUDA_SUCCESS);
  shared.owner = getpid();
  shared.reach(1);
  LSCHED_NEED(shared.await(2));
  LSCHED_NEED(says(gpu, at, "other"));
  shared.reach(3);
  LSCHED_NEED(shared.await(4));
  return 0;
}

int vmm_other(table& shared) {
  const fake_device gpu;
  LSCHED_NEED(gpu.is_there() && shared.await(1));
  const auto owner = static_cast<int>(syscall(SYS_pidfd_open, shared.owner, 0));
  const auto fd = static_cast<int>(syscall(SYS_pidfd_getfd, owner, shared.fd, 0));
  LSCHED_NEED(fd >= 0);
  CUmemGenericAllocationHandle handle = 0;
  const auto import = [&](int from) {
    return gpu.cuda().cuMemImportFromShareableHandle(&handle, reinterpret_cast<void*>(std::intptr_t{from}),
                                                     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  };
  const int foreign = memfd_create("none of the driver's", MFD_CLOEXEC);
  LSCHED_NEED(import(foreign) == CUDA_ERROR_INVALID_VALUE);
  LSCHED_NEED(import(fd) == CUDA_SUCCESS);
  close(fd);
  close(owner);
  const CUdeviceptr at = map(gpu, handle, k_size);
  LSCHED_NEED(at != 0);
  LSCHED_NEED(gpu.cuda().cuMemRelease(handle) == CUDA_SUCCESS);
  LSCHED_NEED(says(gpu, at, "owner"));
  write(gpu, at, "other");
  shared.reach(2);
  LSCHED_NEED(shared.await(3));
  shared.reach(4);
  LSCHED_NEED(gpu.cuda().cuMemUnmap(at, k_size) == CUDA_SUCCESS);
  LSCHED_NEED(gpu.cuda().cuMemAddressFree(at, k_size) == CUDA_SUCCESS);
  return gpu.fake().leaked() == "context of device 0 not released: 1\n" ? 0 : 1;
}

TEST(FakeSharing, HandlesOfVirtualMemoryTravelAsDescriptors) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(run_both(vmm_owner, vmm_other), ::testing::ExitedWithCode(0), "^$");
}

int forked_after_load(table& /*shared*/) {
  const fake_device gpu;
  int state = 0;
  const pid_t child = fork();
  if (child == 0) {
    int count = 0;
    gpu.cuda().cuDeviceGetCount(&count);
    _exit(0);
  }
  LSCHED_NEED(waitpid(child, &state, 0) == child);
  return WIFSIGNALED(state) && WTERMSIG(state) == SIGABRT ? 0 : 1;
}

TEST(FakeSharing, AForkedProcessHasNoDriver) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(run_both([](table&) { return 0; }, forked_after_load), ::testing::ExitedWithCode(0),
              "misuse: cuDeviceGetCount in a process that was forked");
}

}  // namespace
}  // namespace lsched::testing
