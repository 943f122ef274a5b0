// Cells for the kernels that pass over vectors, each with its own data. Also the levels of the memory hierarchy in
// which they are measured, and loops that move as many bytes with almost no arithmetic.
//
// For a dense kernel, bytes are those that it reads and writes. For `select`, and for `exact_kth` (the exact top k with
// the hint of the previous pass), they are those of the residual. For `merge_add` they are those of both lists and
// their sum. For `scatter_add` they are those of its list, and the region is the memory that is in a level.
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
inline constexpr std::size_t k_lines = 64;  ///< cache lines that a loop reads of a stream at a time

struct level {
  const char* name;
  std::size_t bytes;   ///< bytes of all streams together
  std::size_t window;  ///< bytes of a sample; the next sample uses the next bytes
};

/// Returns the levels L1, L2, L3 and DRAM. Their sizes are half of a private cache, a few megabytes of a shared cache,
/// and more than all caches hold.
std::array<level, 4> memory_levels();

/// Memory for all streams. As elements of any type, its words are numbers between 2^-64 and 2.
class arena {
 public:
  explicit arena(std::size_t bytes);
  arena(const arena&) = delete;
  arena& operator=(const arena&) = delete;
  ~arena();

  /// Returns the beginning of stream k of this size. Each stream has a different offset in its page.
  std::byte* stream(std::size_t k, std::size_t bytes) const {
    return start_ + k * ((bytes + k_page - 1) / k_page * k_page + 5 * k_line);
  }

 private:
  static constexpr std::size_t k_page = 4096;
  std::size_t bytes_;
  std::byte* start_;
};

/// The memory of a kernel. Results have memory of their own, so that no dense kernel reads the results of another.
struct kernel_memory {
  kernel_memory(std::size_t input_bytes, std::size_t output_bytes) : inputs(input_bytes), outputs(output_bytes) {}

  arena inputs;
  arena outputs;
  std::vector<std::byte> items{};
  std::vector<std::uint64_t> touched{};
  double sums[k_dot_sums]{};
};

/// A kernel on consecutive pieces of memory, and a loop that moves the same bytes.
struct kernel_cell {
  std::size_t bytes;  ///< bytes of a piece
  std::size_t pieces;
  std::function<void(std::size_t piece)> kernel;
  std::function<void(std::size_t piece)> loop;
};

struct kernel_kind {
  const char* name;
  std::span<const double> densities;  ///< densities that are measured; 0: the kernel has none
  kernel_cell (*cell_of)(kernel_memory& in, dtype type, double density, const level& place);
};

/// Returns all kernels. Dense kernels come first, because the others overwrite their memory.
std::span<const kernel_kind> kernels_of_vectors();

}  // namespace lsched::bench
