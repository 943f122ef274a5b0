// Benchmark cells for the kernels that process whole vectors. Each cell has its own data, and a loop that moves as many
// bytes with almost no arithmetic. Kernels are measured in each level of the memory hierarchy.
//
// The bytes of a cell depend on the kernel. Dense kernels: the bytes that the kernel reads and writes. `select`, and
// `exact_kth` (the exact top k with the hint of the previous pass): the bytes of the residual. `merge_add`: the bytes
// of both lists and of their sum. `scatter_add`: the bytes of the list; only the region that receives the list fits
// into the memory level.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "ops/base.h"
#include "ops/kernel.h"

namespace lsched::bench {

inline constexpr std::size_t k_most_inputs = 2;
inline constexpr std::size_t k_line = 64;
inline constexpr std::size_t k_lines = 64;  ///< cache lines that a loop reads from a stream before it switches streams

struct level {
  const char* name;
  std::size_t bytes;   ///< bytes of all streams together
  std::size_t window;  ///< bytes of a sample; the next sample uses the next bytes
};

/// Returns the levels L1, L2, L3 and DRAM. The size of L1 and L2 is half of that cache. The size of L3 is a few
/// megabytes of the shared cache. The size of DRAM exceeds all caches.
std::array<level, 4> memory_levels();

/// Memory for all streams. The contents are numbers between 2^-64 and 2 in every element type.
class arena {
 public:
  explicit arena(std::size_t bytes);
  arena(const arena&) = delete;
  arena& operator=(const arena&) = delete;
  ~arena();

  /// Returns the beginning of stream `k` if all streams have `bytes` bytes. Each stream has a different offset in its
  /// first page.
  std::byte* stream(std::size_t k, std::size_t bytes) const {
    return start_ + k * ((bytes + k_page - 1) / k_page * k_page + 5 * k_line);
  }

 private:
  static constexpr std::size_t k_page = 4096;
  std::size_t bytes_;
  std::byte* start_;
};

/// The memory of a kernel. Inputs and results are separate, so that no dense kernel reads the results of another dense
/// kernel.
struct kernel_memory {
  kernel_memory(std::size_t input_bytes, std::size_t output_bytes) : inputs(input_bytes), outputs(output_bytes) {}

  arena inputs;
  arena outputs;
  std::vector<std::byte> items{};
  std::vector<std::uint64_t> touched{};
  double sums[k_dot_sums]{};
};

/// A kernel that processes consecutive pieces of memory, and a loop that moves the same bytes.
struct kernel_cell {
  std::size_t bytes;  ///< bytes of a piece
  std::size_t pieces;
  std::function<void(std::size_t piece)> kernel;
  std::function<void(std::size_t piece)> loop;
};

struct kernel_kind {
  const char* name;
  std::span<const double> densities;  ///< densities to measure; 0: the kernel has no density
  kernel_cell (*cell_of)(kernel_memory& in, dtype type, double density, const level& place);
};

/// Returns all kernels. Dense kernels come first, because the others overwrite their memory.
std::span<const kernel_kind> kernels_of_vectors();

}  // namespace lsched::bench
