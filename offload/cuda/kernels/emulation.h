// The primitives of device.h on the host, for tests. tests/offload/cuda/emulated.cc runs the kernels.
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "offload/cuda/kernels/arguments.h"

#define LSCHED_MOST_THREADS 256
#define LSCHED_DEVICE inline
/// Thread blocks are executed one after the other, so one copy of shared memory is enough.
#define LSCHED_SHARED static

#define LSCHED_KERNEL(symbol) LSCHED_EMULATED(symbol, false)
#define LSCHED_BLOCK_KERNEL(symbol) LSCHED_EMULATED(symbol, true)
#define LSCHED_EMULATED(symbol, waits)                                                     \
  static void symbol(const lsched::device_arguments& with);                                \
  static const lsched::emulation::registered registered_##symbol{#symbol, &symbol, waits}; \
  static void symbol(const lsched::device_arguments& with)

#define LSCHED_UNROLL(times)

namespace lsched {
namespace emulation {

/// The grid position of the device thread that this host thread currently executes.
struct place {
  std::uint32_t thread = 0, block = 0, threads = 1, blocks = 1;
};
extern constinit thread_local place current;

using kernel_function = void (*)(const device_arguments& with);

/// Registers a kernel before main().
struct registered {
  registered(const char* symbol, kernel_function run, bool waits);
};

}  // namespace emulation

inline std::uint32_t thread_index() { return emulation::current.thread; }
inline std::uint32_t block_index() { return emulation::current.block; }
inline std::uint32_t block_size() { return emulation::current.threads; }
inline std::uint32_t grid_size() { return emulation::current.blocks; }

void sync_block();

template <class Number>
void add_atomically(Number* to, std::type_identity_t<Number> number) {
  std::atomic_ref(*to).fetch_add(number, std::memory_order_relaxed);
}

inline double add_exact_product(double sum, double one, double other) { return sum + one * other; }
inline float add_exact_product(float sum, float one, float other) { return sum + one * other; }

inline std::int32_t keep_wide(std::int32_t number) { return number; }

/// These functions convert from and to IEEE binary16 by integer arithmetic, because the CPU may not have conversion
/// instructions.
float widen_half(std::uint16_t bits);
std::uint16_t narrow_to_half(float value);

}  // namespace lsched
