// Kernels that pass over vectors, each on data of its own making; the levels of the memory hierarchy that they are
// measured in, and loops that move as many bytes with next to no arithmetic.
//
// Bytes are those that a dense kernel reads and writes; of `select` and `exact_kth`, the exact top k by the hint of the
// pass before, those of the residual; of `merge_add` those of both lists and their sum; of `scatter_add` those of its
// list; its region is the memory that lies in a level.
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
inline constexpr std::size_t k_lines = 64;  ///< of one stream before the next one has its turn

struct level {
  const char* name;
  std::size_t bytes;   ///< of all streams together
  std::size_t window;  ///< of them, those of a sample; the next sample has the next ones
};

/// L1, L2, L3 and DRAM: half a cache of its own, a few megabytes of one that cores share, and more than all caches
/// hold.
std::array<level, 4> memory_levels();

/// Memory for all streams. As elements of any type its words are numbers between 2^-64 and 2.
class arena {
 public:
  explicit arena(std::size_t bytes);
  arena(const arena&) = delete;
  arena& operator=(const arena&) = delete;
  ~arena();

  /// Beginnings of streams of so many bytes, each at another place of its page.
  std::byte* stream(std::size_t k, std::size_t bytes) const {
    return start_ + k * ((bytes + k_page - 1) / k_page * k_page + 5 * k_line);
  }

 private:
  static constexpr std::size_t k_page = 4096;
  std::size_t bytes_;
  std::byte* start_;
};

/// What a kernel works in. Results go to memory of their own: no dense kernel reads what another wrote.
struct kernel_memory {
  kernel_memory(std::size_t input_bytes, std::size_t output_bytes) : inputs(input_bytes), outputs(output_bytes) {}

  arena inputs;
  arena outputs;
  std::vector<std::byte> items{};
  std::vector<std::uint64_t> touched{};
  double sums[k_dot_sums]{};
};

/// A kernel on one piece of memory after the other, and a loop that moves the bytes that count.
struct kernel_cell {
  std::size_t bytes;  ///< of a piece
  std::size_t pieces;
  std::function<void(std::size_t piece)> kernel;
  std::function<void(std::size_t piece)> loop;
};

struct kernel_kind {
  const char* name;
  std::span<const double> densities;  ///< that are measured; 0: there is none
  kernel_cell (*cell_of)(kernel_memory& in, dtype type, double density, const level& place);
};

/// The dense ones first: the others overwrite the memory that these work in.
std::span<const kernel_kind> kernels_of_vectors();

}  // namespace lsched::bench
