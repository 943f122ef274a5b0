// The levels of the memory hierarchy that kernels are measured in, memory to measure in, and loops that move as many
// bytes as a kernel with next to no arithmetic.
#pragma once

#include <array>
#include <cstddef>

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

/// Reads all streams.
void read_streams(const void* const* x, std::size_t inputs, std::size_t bytes);

/// Reads all streams, and writes one.
void mix_streams(const void* const* x, std::size_t inputs, void* to, std::size_t bytes);

}  // namespace lsched::bench
