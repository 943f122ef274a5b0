// Tests of the fake driver's memory: accesses by the host, copies and attributes.
#include <sys/mman.h>

#include <array>
#include <cstring>
#include <vector>

#include "tests/offload/cuda/under_the_fake.h"

namespace lsched::testing {
namespace {

using FakeMemory = UnderTheFake;

CUdeviceptr address_of(const void* at) { return reinterpret_cast<CUdeviceptr>(at); }

struct facts {
  CUcontext context = nullptr;
  unsigned type = 99;
  unsigned is_managed = 99;
  int device = 99;
  unsigned is_legacy = 99;
  CUdeviceptr start = 99;
  std::size_t size = 99;
  std::uint64_t id = 99;
};

facts facts_of(const cuda_driver& cuda, CUdeviceptr at) {
  facts found;
  std::array<CUpointer_attribute, 8> attributes{
      CU_POINTER_ATTRIBUTE_CONTEXT,          CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
      CU_POINTER_ATTRIBUTE_IS_MANAGED,       CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
      CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
      CU_POINTER_ATTRIBUTE_BUFFER_ID,        CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE};
  std::array<void*, 8> into{&found.context, &found.type, &found.is_managed, &found.device,
                            &found.start,   &found.size, &found.id,         &found.is_legacy};
  EXPECT_EQ(cuda.cuPointerGetAttributes(8, attributes.data(), into.data(), at), CUDA_SUCCESS);
  return found;
}

TEST_F(FakeMemory, HostThatTouchesDeviceMemoryDies) {
  EXPECT_EXIT(*reinterpret_cast<volatile int*>(gpu().memory(64)) = 1, ::testing::KilledBySignal(SIGSEGV),
              "device memory is not for the host");
  const auto read_freed = [&] {
    const CUdeviceptr at = gpu().memory(64);
    cuda().cuMemFree(at);
    EXPECT_EQ(*reinterpret_cast<volatile char*>(at + 8), 0);
  };
  EXPECT_EXIT(read_freed(), ::testing::KilledBySignal(SIGSEGV), "device memory is not for the host");
}

/// Matches text that does not contain `about`. Other text is permitted, because other libraries may print text when a
/// process crashes.
class silence final : public ::testing::MatcherInterface<const std::string&> {
 public:
  explicit silence(std::string about) : about_(std::move(about)) {}
  bool MatchAndExplain(const std::string& text, ::testing::MatchResultListener*) const override {
    return text.find(about_) == std::string::npos;
  }
  void DescribeTo(std::ostream* to) const override { *to << "does not say: " << about_; }

 private:
  std::string about_;
};
[[maybe_unused]] ::testing::Matcher<const std::string&> silent_about(const std::string& what) {
  return ::testing::Matcher<const std::string&>(new silence(what));
}

TEST_F(FakeMemory, OtherFaultsAreNotTheDevices) {
  const auto other = [&] {
    cuda().cuMemFree(gpu().memory(64));
    void* const closed = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *static_cast<volatile int*>(closed) = 1;
  };
#if defined(__SANITIZE_ADDRESS__)
  EXPECT_DEATH(other(), "AddressSanitizer: SEGV");
#elif defined(__SANITIZE_THREAD__)
  EXPECT_DEATH(other(), "ThreadSanitizer:DEADLYSIGNAL");
#else
  EXPECT_EXIT(other(), ::testing::KilledBySignal(SIGSEGV), silent_about("device memory is not for the host"));
#endif
}

TEST_F(FakeMemory, CopiesGoThereAndBack) {
  constexpr std::size_t count = 1000;
  auto* const pinned = gpu().pinned<int>(count);
  const CUdeviceptr first = gpu().memory(count * sizeof(int));
  const CUdeviceptr second = gpu().memory(count * sizeof(int));
  const CUstream stream = gpu().stream();
  for (std::size_t i = 0; i < count; ++i) pinned[i] = static_cast<int>(i);
  std::vector<int> pageable(count, -1);
  EXPECT_EQ(cuda().cuMemcpyAsync(first, address_of(pinned), count * sizeof(int), stream), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuMemcpyAsync(second, first, count * sizeof(int), stream), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuMemcpyAsync(address_of(pageable.data()), second + 40, 400, stream), CUDA_SUCCESS);
  // A copy to pageable memory is complete when the call returns.
  for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(pageable[i], static_cast<int>(i + 10));
  EXPECT_EQ(pageable[100], -1);
  EXPECT_EQ(cuda().cuMemFree(first), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuMemFree(second), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuMemFreeHost(pinned), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuStreamDestroy(stream), CUDA_SUCCESS);
}

TEST_F(FakeMemory, CopiesThatCannotBeMadeAreErrors) {
  constexpr std::size_t page = 4096;
  auto* const host =
      static_cast<char*>(mmap(nullptr, 4 * page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const CUdeviceptr device = gpu().memory(2 * page);
  const CUstream stream = gpu().stream();
  EXPECT_EQ(cuda().cuMemHostRegister(host, page, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuMemHostRegister(host + page, page, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuMemHostRegister(host + page, 1, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  const auto copy = [&](CUdeviceptr into, const char* from, std::size_t size) {
    return cuda().cuMemcpyAsync(into, address_of(from), size, stream);
  };
  EXPECT_EQ(copy(device, host, page), CUDA_SUCCESS);
  EXPECT_EQ(copy(device, host + page - 1, 2), CUDA_ERROR_INVALID_VALUE);      // the range extends over two
                                                                              // registrations
  EXPECT_EQ(copy(device, host + 2 * page - 1, 2), CUDA_ERROR_INVALID_VALUE);  // only a part of the range is registered
  EXPECT_EQ(copy(device + page, host, page + 1), CUDA_ERROR_INVALID_VALUE);   // the range extends beyond the
                                                                              // registration
  EXPECT_EQ(copy(device + 2 * page - 1, host, 2), CUDA_ERROR_INVALID_VALUE);  // the range extends beyond the device
                                                                              // memory
  EXPECT_EQ(copy(device, host + 2 * page, page), CUDA_SUCCESS);               // the range is pageable
  munmap(host + 3 * page, page);
  EXPECT_EQ(copy(device, host + 3 * page - 1, 2), CUDA_ERROR_INVALID_VALUE);  // the range extends beyond the mapping
  mprotect(host + 2 * page, page, PROT_READ);
  EXPECT_EQ(cuda().cuMemcpyAsync(address_of(host + 2 * page), device, 1, stream), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuda().cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuMemHostUnregister(host + 1), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  EXPECT_EQ(cuda().cuMemHostUnregister(host), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuMemHostUnregister(host + page), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuMemFree(device), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuStreamDestroy(stream), CUDA_SUCCESS);
  munmap(host, 3 * page);
}

TEST_F(FakeMemory, AttributesSayWhatMemoryIs) {
  const CUdeviceptr device = gpu().memory(1000);
  auto* const pinned = gpu().pinned<char>(100);
  CUdeviceptr managed = 0;
  const auto allocate_managed = LSCHED_CUDA_FUNCTION(cuMemAllocManaged, 6000);
  EXPECT_EQ(allocate_managed(&managed, 100, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
  *reinterpret_cast<char*>(managed) = 7;  // the host may write managed memory

  const facts of_device = facts_of(cuda(), device + 999);
  EXPECT_EQ(of_device.type, static_cast<unsigned>(CU_MEMORYTYPE_DEVICE));
  EXPECT_EQ(of_device.context, gpu().context());
  EXPECT_EQ(of_device.start, device);
  EXPECT_EQ(of_device.size, 1000U);
  EXPECT_EQ(of_device.is_legacy, 1U);
  EXPECT_EQ(of_device.is_managed, 0U);
  EXPECT_EQ(facts_of(cuda(), device + 1000).type, 0U);
  EXPECT_EQ(facts_of(cuda(), address_of(pinned)).type, static_cast<unsigned>(CU_MEMORYTYPE_HOST));
  EXPECT_EQ(facts_of(cuda(), managed).is_managed, 1U);
  EXPECT_NE(facts_of(cuda(), managed).id, of_device.id);

  EXPECT_EQ(cuda().cuMemFree(device), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuMemFree(managed), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuMemFreeHost(pinned), CUDA_SUCCESS);
  int local = 0;
  for (const CUdeviceptr at : {device, address_of(&local), CUdeviceptr{0}}) {
    const facts of_nothing = facts_of(cuda(), at);
    EXPECT_EQ(of_nothing.type, 0U);
    EXPECT_EQ(of_nothing.context, nullptr);
    EXPECT_EQ(of_nothing.size, 99U);  // the failed call leaves the size unchanged
    unsigned type = 0;
    EXPECT_EQ(LSCHED_CUDA_FUNCTION(cuPointerGetAttribute, 4000)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at),
              CUDA_ERROR_INVALID_VALUE);
  }
}

TEST_F(FakeMemory, PoolsHaveNoContextAndFreeInOrder) {
  const CUstream stream = gpu().stream();
  CUdeviceptr at = 0;
  EXPECT_EQ(LSCHED_CUDA_FUNCTION(cuMemAllocAsync, 11020)(&at, 100, stream), CUDA_SUCCESS);
  EXPECT_EQ(facts_of(cuda(), at).context, nullptr);
  EXPECT_EQ(facts_of(cuda(), at).is_legacy, 0U);
  fake().hold();
  EXPECT_EQ(LSCHED_CUDA_FUNCTION(cuMemFreeAsync, 11020)(at, stream), CUDA_SUCCESS);
  EXPECT_EQ(facts_of(cuda(), at).type, static_cast<unsigned>(CU_MEMORYTYPE_DEVICE));
  fake().go_on();
  EXPECT_EQ(cuda().cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(facts_of(cuda(), at).type, 0U);
  EXPECT_EQ(cuda().cuStreamDestroy(stream), CUDA_SUCCESS);
}

TEST_F(FakeMemory, ADeviceIsFullAtSomeTime) {
  CUdeviceptr at = 0;
  EXPECT_EQ(cuda().cuMemAlloc(&at, std::size_t{81} << 30U), CUDA_ERROR_OUT_OF_MEMORY);
  const CUdeviceptr most = gpu().memory(std::size_t{79} << 30U);
  EXPECT_EQ(cuda().cuMemAlloc(&at, std::size_t{2} << 30U), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuda().cuMemFree(most), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuMemAlloc(&at, std::size_t{2} << 30U), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuMemFree(at), CUDA_SUCCESS);
}

TEST_F(FakeMemory, OneRangeMayBeSeveralHandles) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  std::size_t grain = 0;
  EXPECT_EQ(cuda().cuMemGetAllocationGranularity(&grain, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM), CUDA_SUCCESS);
  CUdeviceptr at = 0;
  EXPECT_EQ(cuda().cuMemAddressReserve(&at, 3 * grain, 0, 0, 0), CUDA_SUCCESS);
  std::array<CUmemGenericAllocationHandle, 2> handles{};
  for (std::size_t i = 0; i < handles.size(); ++i) {
    EXPECT_EQ(cuda().cuMemCreate(&handles[i], grain, &properties, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuda().cuMemMap(at + i * grain, grain, 0, handles[i], 0), CUDA_SUCCESS);
  }
  std::array<char, 8> text{"device!"};
  EXPECT_EQ(fake().write(at, text.data(), text.size()), 0);  // access is not permitted yet
  CUmemAccessDesc access{};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  EXPECT_EQ(cuda().cuMemSetAccess(at, 3 * grain, &access, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuda().cuMemSetAccess(at, 2 * grain, &access, 1), CUDA_SUCCESS);
  EXPECT_EQ(fake().write(at + grain - 4, text.data(), text.size()), 1);  // the write extends over both handles
  EXPECT_EQ(fake().write(at + 2 * grain - 4, text.data(), text.size()), 0);

  auto* const pinned = gpu().pinned<char>(8);
  const CUstream stream = gpu().stream();
  EXPECT_EQ(cuda().cuMemcpyAsync(address_of(pinned), at + grain - 4, 8, stream), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_STREQ(pinned, "device!");
  EXPECT_EQ(facts_of(cuda(), at + grain).start, at + grain);
  EXPECT_EQ(facts_of(cuda(), at).context, nullptr);
  CUipcMemHandle none;
  EXPECT_EQ(cuda().cuIpcGetMemHandle(&none, at), CUDA_ERROR_INVALID_VALUE);

  for (const auto handle : handles) EXPECT_EQ(cuda().cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuMemAddressFree(at, 3 * grain), CUDA_ERROR_INVALID_VALUE);  // the memory is still mapped
  EXPECT_EQ(cuda().cuMemUnmap(at, 2 * grain), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuMemAddressFree(at, 3 * grain), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuMemFreeHost(pinned), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuStreamDestroy(stream), CUDA_SUCCESS);
}

}  // namespace
}  // namespace lsched::testing
