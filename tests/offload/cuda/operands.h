// Helpers for the tests of device kernels: operands in memory, and launches of emulated kernels.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "offload/cuda/driver/launch.h"
#include "tests/offload/cuda/emulated.h"
#include "tests/ops/elements.h"
#include "tests/support/sampling.h"

namespace lsched::testing {

/// An operand in memory. The first element is `shift` elements after an aligned address. The allocation ends with the
/// last element.
class operand {
 public:
  operand(dtype type, std::size_t count, std::size_t shift)
      : begin_(shift * size_of(type)), bytes_(count * size_of(type)), memory_(take(begin_ + bytes_)) {
    std::memset(memory_.get(), 0xA5, begin_ + bytes_);
  }
  operand(const operand& other) : begin_(other.begin_), bytes_(other.bytes_), memory_(take(begin_ + bytes_)) {
    std::memcpy(memory_.get(), other.memory_.get(), begin_ + bytes_);
  }
  operand& operator=(const operand&) = delete;

  std::byte* data() { return memory_.get() + begin_; }
  const std::byte* data() const { return memory_.get() + begin_; }
  std::size_t bytes() const { return bytes_; }

 private:
  static constexpr std::align_val_t k_alignment{64};
  struct give_back {
    void operator()(std::byte* memory) const { ::operator delete(memory, k_alignment); }
  };
  using memory = std::unique_ptr<std::byte, give_back>;
  static memory take(std::size_t bytes) { return memory(static_cast<std::byte*>(::operator new(bytes, k_alignment))); }

  std::size_t begin_, bytes_;
  memory memory_;
};

/// A source of bit patterns. One of four patterns is from hard_patterns(), and the others are random.
class patterns {
 public:
  patterns(dtype type, std::uint64_t seed) : type_(type), hard_(hard_values(type)), random_(seed) {}

  operand draw(std::size_t count, std::size_t shift) {
    operand drawn(type_, count, shift);
    for (std::size_t i = 0; i < count; ++i) write_element(drawn.data(), i, type_, next());
    return drawn;
  }

  /// Draws an operand. Some elements equal the elements of `other` at the same positions, or differ from them only in
  /// the sign.
  operand draw_like(const operand& other, std::size_t count, std::size_t shift) {
    operand drawn = draw(count, shift);
    for (std::size_t i = 0; i < count; i += 1 + random_() % 16) {
      const std::uint64_t sign = (random_() & 1) << (8 * size_of(type_) - 1);
      write_element(drawn.data(), i, type_, read_element(other.data(), i, type_) ^ sign);
    }
    return drawn;
  }

 private:
  std::uint64_t next() {
    const std::uint64_t bits = random_();
    return random_() % 4 == 0 ? hard_[bits % hard_.size()] : bits;
  }

  dtype type_;
  std::vector<std::uint64_t> hard_;
  std::mt19937_64 random_;
};

/// The parameters of one launch: the number of elements, the distance of each operand from an aligned address, and
/// whether the grid is smaller than usual.
struct trial {
  std::size_t count = 0;
  std::array<std::size_t, 3> shifts{};  ///< shifts of the operands a, b and c, in elements
  bool is_narrow = false;
};

inline std::ostream& operator<<(std::ostream& out, const trial& it) {
  return out << it.count << " elements, shifts " << it.shifts[0] << ' ' << it.shifts[1] << ' ' << it.shifts[2]
             << (it.is_narrow ? ", narrow grid" : "");
}

/// Returns trials with several numbers of elements. The last trial has `most` elements.
inline std::vector<trial> trials(std::size_t most) {
  return {{0},
          {1},
          {7},
          {33},
          {4099},
          {4099, {1, 0, 0}},
          {4099, {0, 1, 0}},
          {4099, {0, 0, 1}},
          {4099, {1, 1, 1}},
          {4099, {}, true},
          {4099, {1, 1, 1}, true},
          {most}};
}

inline std::size_t many() { return sampled() ? 20'000 : 1'000'003; }

inline const emulated_kernel& emulated(std::uint32_t function) {
  const emulated_kernel* found = find_emulated(device_symbols()[function]);
  if (found == nullptr) throw std::runtime_error(std::string(device_symbols()[function]));
  return *found;
}

/// Launches a kernel with the grid that a lane chooses. If `is_narrow` is true, the grid has fewer threads than
/// elements.
inline void launch(const device_kernel& it, device_arguments with, bool is_narrow) {
  std::vector<double> workspace(it.workspace_bytes(with.count) / sizeof(double));
  with.workspace = workspace.data();
  const device_grid first = is_narrow ? device_grid{2, 32} : it.grid_of_first(with.count);
  emulated(it.first).run(with, first.blocks, first.threads);
  if (!it.has_two_passes()) return;
  const device_grid second = is_narrow ? device_grid{1, 32} : it.grid_of_second(with.count);
  emulated(it.second).run(with, second.blocks, second.threads);
}

/// Expects that both operands have the same bits. The failure names the first element that differs.
inline void expect_same_bits(const operand& is, const operand& wanted, dtype type) {
  if (is.bytes() == wanted.bytes() && std::memcmp(is.data(), wanted.data(), is.bytes()) == 0) return;
  for (std::size_t i = 0; i < is.bytes() / size_of(type); ++i)
    ASSERT_EQ(read_element(is.data(), i, type), read_element(wanted.data(), i, type)) << "element " << i;
}

}  // namespace lsched::testing
