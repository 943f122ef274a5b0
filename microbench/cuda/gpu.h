// A GPU as benchmarks, and the examination of one, use it beside the library: its context with the library's kernels,
// memory, streams and events, which end with their scope. What the driver refuses is thrown.
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

/// There is no GPU that can be used; what() says why.
struct no_gpu : failed {
  using failed::failed;
};

/// There is not so much memory; what() names the call.
struct no_gpu_memory : failed {
  using failed::failed;
};

/// Any thread; who calls the driver makes a cuda_scope of context() first.
class gpu {
 public:
  /// Loads kernels, which takes up to seconds. Throws `no_gpu`.
  explicit gpu(std::int32_t number = 0);

  const cuda_driver& cuda() const { return in_->driver(); }
  const cuda_context& context() const { return *in_; }
  /// Nothing that it takes says anything about a GPU: the driver is the one of the tests.
  bool is_fake() const;
  int attribute(CUdevice_attribute which) const;

  /// Throws `failed`, or `no_gpu_memory`, naming the call, unless the driver says that it was done.
  void expect(CUresult answer, const char* call) const;

  /// Any two places, of the device or of the host.
  void copy(void* to, const void* from, std::uint64_t bytes, CUstream in) const;
  /// On the grid that the library would take; of two passes both.
  void launch(const device_kernel& it, device_arguments with, CUstream in) const;
  void launch(const device_launch& it, CUstream in) const;
  void synchronise(CUstream stream) const;
  /// The stream goes on once the word holds that much; and writes it.
  void wait_for(const std::uint64_t* word, std::uint64_t value, CUstream in) const;
  void write(std::uint64_t* word, std::uint64_t value, CUstream in) const;

 private:
  std::unique_ptr<cuda_context> in_;
};

CUdeviceptr address_of(const void* memory);

enum class gpu_place : std::uint8_t { device, pinned };

/// Memory of a device, or pinned memory of the host. Its end waits for the device.
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

/// Of the lowest priority, as an application's are, or of the highest.
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

/// Without timing.
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
