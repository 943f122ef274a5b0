#include "tests/offload/cuda/emulated.h"

#include <atomic>
#include <barrier>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "offload/cuda/kernels/device.h"

namespace lsched {
namespace emulation {

constinit thread_local place current;

namespace {

/// Returns the table of kernels. The table is filled before main() and does not change later.
std::map<std::string_view, emulated_kernel>& kernels() {
  static std::map<std::string_view, emulated_kernel> all;
  return all;
}

struct block_barrier {
  explicit block_barrier(unsigned threads) : wait(threads) {}
  std::barrier<> wait;
};

/// The barrier of this thread's block, or nullptr if the kernel has no barriers.
constinit thread_local block_barrier* barrier = nullptr;
constinit thread_local unsigned barriers_passed = 0;
std::atomic<unsigned> left_out{0};

void run_one_by_one(kernel_function run, const device_arguments& with, unsigned blocks, unsigned threads) {
  for (unsigned block = 0; block < blocks; ++block)
    for (unsigned thread = 0; thread < threads; ++thread) {
      current = {thread, block, threads, blocks};
      run(with);
    }
}

/// Runs a kernel that has barriers. Only one launch runs at a time, because all launches use the same memory as the
/// shared memory of a block.
void run_together(kernel_function run, const device_arguments& with, unsigned blocks, unsigned threads) {
  static std::mutex one_launch;
  const std::lock_guard lock(one_launch);
  block_barrier together(threads);
  const auto thread = [&](unsigned index) {
    barrier = &together;
    for (unsigned block = 0; block < blocks; ++block) {
      current = {index, block, threads, blocks};
      barriers_passed = 0;
      run(with);
      together.wait.arrive_and_wait();
    }
  };
  std::vector<std::jthread> all;
  for (unsigned index = 0; index < threads; ++index) all.emplace_back(thread, index);
}

}  // namespace

registered::registered(const char* symbol, kernel_function run, bool waits) {
  if (!kernels().emplace(symbol, emulated_kernel{symbol, run, waits}).second) std::abort();
}

}  // namespace emulation

void sync_block() {
  using namespace emulation;
  if (barrier == nullptr) {
    std::fputs("a kernel waits for its block, but is no LSCHED_BLOCK_KERNEL\n", stderr);
    std::abort();
  }
  if (++barriers_passed != left_out.load(std::memory_order_relaxed)) barrier->wait.arrive_and_wait();
}

void leave_out_barrier(unsigned number) { emulation::left_out.store(number, std::memory_order_relaxed); }

void emulated_kernel::run(const device_arguments& with, unsigned blocks, unsigned threads) const {
  if (threads == 0 || threads > LSCHED_MOST_THREADS) std::abort();
  (waits ? emulation::run_together : emulation::run_one_by_one)(function, with, blocks, threads);
}

const emulated_kernel* find_emulated(std::string_view name) {
  const auto found = emulation::kernels().find(name);
  return found == emulation::kernels().end() ? nullptr : &found->second;
}

std::vector<std::string_view> emulated_names() {
  std::vector<std::string_view> all;
  for (const auto& [name, kernel] : emulation::kernels()) all.push_back(name);
  return all;
}

// ---- IEEE binary16

/// Converts to f32. The value of a subnormal half is its fraction bits times 2^-24.
float widen_half(std::uint16_t bits) {
  const std::uint32_t magnitude = bits & 0x7FFFu, sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  if (magnitude < 0x0400u) {
    const float value = static_cast<float>(magnitude) * 0x1p-24F;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
  }
  const std::uint32_t bias = (magnitude > 0x7BFFu ? 224u : 112u) << 23;
  return std::bit_cast<float>(((magnitude << 13) + bias) | sign);
}

/// Rounds to the nearest value, ties to even. The function adds half a unit of the last kept bit, minus one, to the
/// dropped bits. If the kept bits are odd, it adds one more. The sum carries into the kept bits if, and only if, the
/// value must be rounded up. Subnormals are rounded by an addition of 0.5, because the last bit of an f32 near 0.5 is
/// 2^-24.
std::uint16_t narrow_to_half(float value) {
  const std::uint32_t exact = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = exact & 0x7FFFFFFFu, sign = (exact ^ magnitude) >> 16;
  std::uint32_t narrow = 0x7C00u;
  if (magnitude < 113u << 23)
    narrow = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - (126u << 23);
  else if (magnitude < 143u << 23)
    narrow = (magnitude - (112u << 23) + 0x0FFFu + (magnitude >> 13 & 1u)) >> 13;
  return static_cast<std::uint16_t>(sign | narrow);
}

}  // namespace lsched
