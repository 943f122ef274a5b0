// A simulated device for tests that run all ranks step by step in one thread. The device needs no GPU. A seed
// determines when and in which order jobs end, and which memory the device can access. The device runs the kernels of
// the host. Until the job of a kernel ends, the job's target holds a pattern, unless the target is also an operand.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "libsched/engine/device.h"
#include "libsched/schedule/draw.h"
#include "libsched/transport/endpoint.h"
#include "tests/support/device_memory.h"
#include "tests/support/sparse_on_host.h"
#include "tests/support/stepped_gate.h"

namespace lsched::testing {

class stepped_device final : public device, public lsched::device_memory {
 public:
  stepped_device(endpoint& net, std::uint64_t seed) : net_(net), seed_(seed) {}
  ~stepped_device() override {
    EXPECT_TRUE(jobs_.empty()) << "a job outlives its engine";
    EXPECT_EQ(allocated_, 0u) << "memory was not freed";
    EXPECT_EQ(room_, 0u) << "room for jobs was not released";
  }
  stepped_device(const stepped_device&) = delete;
  stepped_device& operator=(const stepped_device&) = delete;

  /// Allocates device memory for buffers of a test. The device owns the memory.
  std::byte* take(std::size_t bytes) {
    std::byte* const place = memory_.begin() + used_;
    used_ += (bytes + 255) / 256 * 256;
    EXPECT_LE(used_, k_bytes);
    return place;
  }
  /// Returns the address at which a test accesses `place`.
  std::byte* seen(const std::byte* place) const { return memory_.seen(place); }

  /// Makes the device fail. Jobs in flight write no result.
  void fail() { has_failed_ = true; }
  /// While the device is held, no job ends, unless the device fails.
  void hold(bool is_held) { is_held_ = is_held; }
  /// Lets the next `number` allocations, reservations and creations of gates succeed. All later ones fail.
  void refuse_after(int number) { left_ = number; }

  std::uint64_t done() const { return done_; }

  // --- the interface of a device ---------------------------------------------------------------------------

  std::string name() const override { return "stepped"; }
  lsched::device_memory& memory() override { return *this; }

  result<memory_space> space_of(const std::byte* memory, std::uint64_t) const override {
    return memory_.holds(memory) ? memory_space::device : memory_space::host;
  }

  std::byte* allocate(memory_space space, std::uint64_t bytes) override {
    if (left_-- <= 0) return nullptr;
    std::byte* const place = space == memory_space::device ? take(bytes) : net_.memory().allocate(bytes);
    ++allocated_;
    if (space == memory_space::staging) staging_.push_back({place, bytes});
    return place;
  }

  void deallocate(std::byte* memory) override {
    --allocated_;
    if (memory_.holds(memory)) return;
    std::erase_if(staging_, [&](const auto& one) { return one.data() == memory; });
    net_.memory().deallocate(memory);
  }
  std::byte* lend(std::uint64_t) override { return nullptr; }
  bool take_back(std::byte*) override { return false; }

  status copy_at_once(std::byte* to, const std::byte* from, std::uint64_t bytes) override {
    if (has_failed_) return status::device;
    if (bytes != 0 && from == nullptr) std::memset(seen(to), 0, bytes);
    if (bytes != 0 && from != nullptr) std::memcpy(seen(to), seen(from), bytes);
    return status::ok;
  }

  status reserve(std::uint32_t jobs, std::uint64_t) override {
    if (left_-- <= 0) return status::no_memory;
    room_ += jobs;
    return status::ok;
  }
  void unreserve(std::uint32_t jobs) override { room_ -= jobs; }

  /// Returns true for staging memory of this device, and a random result for other memory.
  bool reaches(const std::byte* memory, std::uint64_t bytes) override {
    return is_staging(memory, bytes) || below(2) == 0;
  }

  void submit(const device_job& what) override {
    ASSERT_LT(jobs_.size(), room_) << "more jobs than were reserved";
    if (has_failed_ || what.sparse != nullptr) return jobs_.push_back(what);
    const bool is_operand = what.call.c == what.call.a || what.call.c == what.call.b;
    const std::size_t width = size_of(row_of(what.what).c.type_in(what.type));
    const std::uint64_t count = what.what == kernel::dot_norms ? k_dot_sums : what.call.count;
    if (!is_operand) std::memset(seen(what.call.c), 0xA5, count * width);
    jobs_.push_back(what);
  }

  std::size_t poll(std::span<std::uint64_t> out) override {
    std::size_t count = 0;
    while (count < out.size() && !jobs_.empty() && (has_failed_ || (!is_held_ && below(3) == 0)))
      out[count++] = end_one();
    return count;
  }

  status health() const override { return has_failed_ ? status::device : status::ok; }
  std::string failure_words() const override { return "the device has failed"; }

  void drain() override { jobs_.clear(); }

  /// Returns false, because a stepped world polls and needs no doorbell.
  bool arm() override { return false; }
  /// Creates a gate, which lets streams of the test wait for rounds (stepped_gate.h).
  std::unique_ptr<round_gate> make_gate() override {
    if (has_failed_ || left_-- <= 0) return nullptr;
    return std::make_unique<stepped_gate>(has_failed_);
  }

 private:
  static constexpr std::size_t k_bytes = std::size_t{64} << 20;

  bool is_staging(const std::byte* memory, std::uint64_t bytes) const {
    return std::ranges::any_of(
        staging_, [&](const auto& one) { return memory >= one.data() && memory + bytes <= one.data() + one.size(); });
  }

  std::uint64_t end_one() {
    const auto which = jobs_.begin() + static_cast<std::ptrdiff_t>(below(jobs_.size()));
    const device_job job = *which;
    jobs_.erase(which);
    if (!has_failed_) compute(job), ++done_;
    return job.cookie;
  }

  void compute(const device_job& job) const {
    if (job.sparse != nullptr)
      return run_on_host(*job.sparse, [this](const void* place) { return seen(static_cast<const std::byte*>(place)); });
    kernel_call call = job.call;
    call.a = seen(call.a), call.b = seen(call.b), call.c = seen(call.c);
    if (job.what == kernel::copy) {
      if (call.count > 0) std::memmove(call.c, call.a, call.count * size_of(job.type));
    } else {
      find(job.what, job.type)(call);
    }
  }

  std::size_t below(std::size_t limit) { return mix(mix(seed_) + ++draws_) % limit; }

  endpoint& net_;
  std::uint64_t seed_;
  std::uint64_t draws_ = 0;
  testing::device_memory memory_{k_bytes};
  std::size_t used_ = 0;
  std::uint64_t allocated_ = 0, room_ = 0, done_ = 0;
  bool has_failed_ = false, is_held_ = false;
  int left_ = 1 << 30;
  std::vector<std::span<std::byte>> staging_;
  std::vector<device_job> jobs_;
};

}  // namespace lsched::testing
