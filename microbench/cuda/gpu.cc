#include "microbench/cuda/gpu.h"

#include <dlfcn.h>

#include <array>
#include <string>

namespace lsched::bench {

CUdeviceptr address_of(const void* memory) { return reinterpret_cast<CUdeviceptr>(memory); }

gpu::gpu(std::int32_t number) {
  const auto driver = load_cuda_driver();
  if (!driver) throw no_gpu(driver.error().text);
  int devices = 0;
  if (const CUresult answer = (*driver)->cuDeviceGetCount(&devices); answer != CUDA_SUCCESS || number >= devices)
    throw no_gpu("CUDA cannot be used: GPU " + std::to_string(number) + " does not exist");
  auto opened = cuda_context::open(**driver, number);
  if (!opened) throw no_gpu(opened.error().text);
  in_ = std::move(*opened);
}

bool gpu::is_fake() const {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return false;
  const bool is_ours = dlsym(library, "fake_cuda_reset") != nullptr;
  dlclose(library);
  return is_ours;
}

int gpu::attribute(CUdevice_attribute which) const {
  int value = 0;
  expect(cuda().cuDeviceGetAttribute(&value, which, in_->number()), "cuDeviceGetAttribute");
  return value;
}

void gpu::expect(CUresult answer, const char* call) const {
  if (answer == CUDA_ERROR_OUT_OF_MEMORY) throw no_gpu_memory(failure_of(cuda(), call, answer).text);
  if (answer != CUDA_SUCCESS) throw failed(failure_of(cuda(), call, answer).text);
}

void gpu::copy(void* to, const void* from, std::uint64_t bytes, CUstream in) const {
  expect(cuda().cuMemcpyAsync(address_of(to), address_of(from), bytes, in), "cuMemcpyAsync");
}

void gpu::launch(const device_kernel& it, device_arguments with, CUstream in) const {
  launch({it.first, it.grid_of_first(with.count), with}, in);
  if (it.has_two_passes()) launch({it.second, it.grid_of_second(with.count), with}, in);
}

void gpu::launch(const device_launch& it, CUstream in) const {
  device_arguments with = it.with;
  std::array<void*, 1> parameters{&with};
  expect(cuda().cuLaunchKernel(in_->function(it.function), it.grid.blocks, 1, 1, it.grid.threads, 1, 1, 0, in,
                               parameters.data(), nullptr),
         "cuLaunchKernel");
}

void gpu::synchronise(CUstream stream) const { expect(cuda().cuStreamSynchronize(stream), "cuStreamSynchronize"); }

void gpu::wait_for(const std::uint64_t* word, std::uint64_t value, CUstream in) const {
  expect(cuda().cuStreamWaitValue64(in, address_of(word), value, CU_STREAM_WAIT_VALUE_GEQ), "cuStreamWaitValue64");
}

void gpu::write(std::uint64_t* word, std::uint64_t value, CUstream in) const {
  expect(cuda().cuStreamWriteValue64(in, address_of(word), value, CU_STREAM_WRITE_VALUE_DEFAULT),
         "cuStreamWriteValue64");
}

gpu_memory::gpu_memory(const gpu& on, gpu_place place, std::uint64_t bytes) : on_(&on), place_(place), bytes_(bytes) {
  const std::uint64_t taken = bytes == 0 ? 1 : bytes;
  if (place == gpu_place::device) {
    CUdeviceptr made = 0;
    on.expect(on.cuda().cuMemAlloc(&made, taken), "cuMemAlloc");
    begin_ = reinterpret_cast<std::byte*>(made);
  } else {
    void* made = nullptr;
    on.expect(on.cuda().cuMemHostAlloc(&made, taken, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
              "cuMemHostAlloc");
    begin_ = static_cast<std::byte*>(made);
  }
}

gpu_memory::~gpu_memory() {
  if (begin_ == nullptr) return;
  const cuda_scope here(on_->context());
  if (place_ == gpu_place::device)
    (void)on_->cuda().cuMemFree(address_of(begin_));
  else
    (void)on_->cuda().cuMemFreeHost(begin_);
}

gpu_stream::gpu_stream(const gpu& on, bool is_urgent) : on_(&on) {
  int least = 0, greatest = 0;
  on.expect(on.cuda().cuCtxGetStreamPriorityRange(&least, &greatest), "cuCtxGetStreamPriorityRange");
  on.expect(on.cuda().cuStreamCreateWithPriority(&it_, CU_STREAM_NON_BLOCKING, is_urgent ? greatest : 0),
            "cuStreamCreateWithPriority");
}

gpu_stream::~gpu_stream() {
  if (it_ == nullptr) return;
  const cuda_scope here(on_->context());
  (void)on_->cuda().cuStreamSynchronize(it_);
  (void)on_->cuda().cuStreamDestroy(it_);
}

gpu_event::gpu_event(const gpu& on) : on_(&on) {
  on.expect(on.cuda().cuEventCreate(&it_, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
}

gpu_event::~gpu_event() {
  if (it_ == nullptr) return;
  const cuda_scope here(on_->context());
  (void)on_->cuda().cuEventDestroy(it_);
}

void gpu_event::record(CUstream in) const { on_->expect(on_->cuda().cuEventRecord(it_, in), "cuEventRecord"); }

bool gpu_event::has_passed() const {
  const CUresult answer = on_->cuda().cuEventQuery(it_);
  if (answer == CUDA_ERROR_NOT_READY) return false;
  on_->expect(answer, "cuEventQuery");
  return true;
}

}  // namespace lsched::bench
