// A GPU for benchmarks: a context with the library's kernels, memory, streams and events. The library does not know of
// these objects. Destructors free them. All functions throw if the driver returns an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "microbench/harness.h"
#include "offload/cuda/driver/context.h"
#include "offload/cuda/driver/sparse_launch.h"
#include "offload/cuda/kernels/arguments.h"

namespace lsched::bench {

/// Thrown if no GPU can be used. what() has the reason.
struct no_gpu : failed {
  using failed::failed;
};

/// Thrown if the device has too little memory. what() names the call.
struct no_gpu_memory : failed {
  using failed::failed;
};

/// A context on one device. Any thread that has created a cuda_scope of context() may call the functions.
class gpu {
 public:
  /// Loads the kernels, which may take seconds. Throws `no_gpu`.
  explicit gpu(std::int32_t number = 0);

  const cuda_driver& cuda() const { return in_->driver(); }
  const cuda_context& context() const { return *in_; }
  /// Returns true if the driver is the fake driver of the tests, whose measurements are meaningless.
  bool is_fake() const;
  int attribute(CUdevice_attribute which) const;

  /// Throws `failed` or `no_gpu_memory` with the name of the call, unless `answer` is CUDA_SUCCESS.
  void expect(CUresult answer, const char* call) const;

  /// Copies between any two places on the device or the host.
  void copy(void* to, const void* from, std::uint64_t bytes, CUstream in) const;
  /// Launches a kernel with the grid that the library would use. If the kernel has two passes, launches both passes.
  void launch(const device_kernel& it, device_arguments with, CUstream in) const;
  void launch(const device_launch& it, CUstream in) const;
  void synchronise(CUstream stream) const;
  /// Makes the stream wait until `*word` is at least `value`.
  void wait_for(const std::uint64_t* word, std::uint64_t value, CUstream in) const;
  /// Makes the stream write `value` to `*word` after all earlier work of the stream.
  void write(std::uint64_t* word, std::uint64_t value, CUstream in) const;

 private:
  std::unique_ptr<cuda_context> in_;
};

CUdeviceptr address_of(const void* memory);

enum class gpu_place : std::uint8_t { device, pinned };

/// Memory of a device, or pinned memory of the host. The destructor waits for the device.
class gpu_memory {
 public:
  gpu_memory(const gpu& on, gpu_place place, std::uint64_t bytes);
  ~gpu_memory();
  gpu_memory(gpu_memory&& other) noexcept
      : on_(other.on_), place_(other.place_), bytes_(other.bytes_), begin_(std::exchange(other.begin_, nullptr)) {}
  gpu_memory& operator=(gpu_memory&&) = delete;

  std::byte* data() const { return begin_; }
  template <class Value>
  Value* as() const {
    return reinterpret_cast<Value*>(begin_);
  }
  std::uint64_t bytes() const { return bytes_; }

 private:
  const gpu* on_;
  gpu_place place_;
  std::uint64_t bytes_;
  std::byte* begin_ = nullptr;
};

/// A stream of default priority, as in applications, or of the highest priority (`is_urgent`).
class gpu_stream {
 public:
  explicit gpu_stream(const gpu& on, bool is_urgent = false);
  ~gpu_stream();
  gpu_stream(gpu_stream&& other) noexcept : on_(other.on_), it_(std::exchange(other.it_, nullptr)) {}
  gpu_stream& operator=(gpu_stream&&) = delete;
  operator CUstream() const { return it_; }

 private:
  const gpu* on_;
  CUstream it_ = nullptr;
};

/// An event without timing.
class gpu_event {
 public:
  explicit gpu_event(const gpu& on);
  ~gpu_event();
  gpu_event(gpu_event&& other) noexcept : on_(other.on_), it_(std::exchange(other.it_, nullptr)) {}
  gpu_event& operator=(gpu_event&&) = delete;
  operator CUevent() const { return it_; }

  void record(CUstream in) const;
  bool has_passed() const;

 private:
  const gpu* on_;
  CUevent it_ = nullptr;
};

}  // namespace lsched::bench
