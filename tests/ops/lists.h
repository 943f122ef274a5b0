// Tools for tests of sparse vectors. They provide lists as values and in memory, a reference selection by magnitude,
// and difficult residuals. The tools share no code with the library's kernels.
#pragma once

#include <random>

#include "ops/sparse/sparse.h"
#include "tests/ops/elements.h"

namespace lsched {

inline constexpr std::array k_floats{dtype::f16, dtype::bf16, dtype::f32, dtype::f64};
inline constexpr std::array<std::size_t, 16> k_lengths{0, 1, 2, 3, 5, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 1000};

using elements = std::vector<std::uint64_t>;
using sizes = std::vector<std::size_t>;

struct entry {
  std::uint32_t index;
  std::uint64_t value;  ///< bit pattern of the value
  friend bool operator==(const entry&, const entry&) = default;
  friend std::ostream& operator<<(std::ostream& out, const entry& it) {
    return out << it.index << ":0x" << std::hex << it.value << std::dec;
  }
};
using list = std::vector<entry>;

inline std::uint64_t magnitude_of(dtype type, std::uint64_t bits) {
  return bits & ((std::uint64_t{1} << (8 * size_of(type) - 1)) - 1);
}
inline std::uint64_t infinity_of(dtype type) { return bits_of(type, std::numeric_limits<double>::infinity()); }
inline bool is_nan(dtype type, std::uint64_t bits) { return magnitude_of(type, bits) > infinity_of(type); }

/// Returns the k entries with the largest magnitudes, sorted by index.
inline list largest_of(dtype type, list all, std::size_t k) {
  std::stable_sort(all.begin(), all.end(), [&](const entry& a, const entry& b) {
    return magnitude_of(type, a.value) > magnitude_of(type, b.value);
  });
  all.resize(std::min(k, all.size()));
  std::sort(all.begin(), all.end(), [](const entry& a, const entry& b) { return a.index < b.index; });
  return all;
}

inline std::uint64_t least_magnitude_of(dtype type, const list& all) {
  std::uint64_t least = all.empty() ? 0 : ~std::uint64_t{0};
  for (const entry& it : all) least = std::min(least, magnitude_of(type, it.value));
  return least;
}

// ---- arithmetic of residuals

/// Rounds a value to residual_of(type). Returns the bits.
inline std::uint64_t rounded_to_residual(dtype type, double exact_or_f64) {
  return bits_of(residual_of(type), exact_or_f64);
}
/// Returns a + factor * b. The product and the sum are rounded to the residual's type.
inline std::uint64_t accumulated(dtype type, std::uint64_t a, double factor, std::uint64_t b) {
  const dtype wide = residual_of(type);
  if (wide == dtype::f64) return bits_of(wide, value_of(wide, a) + factor * value_of(type, b));
  const float product = static_cast<float>(factor) * static_cast<float>(value_of(type, b));
  return bits_of(wide, static_cast<double>(static_cast<float>(value_of(wide, a)) + product));
}
/// Returns an element of the residual, rounded to `type`, the type of list items.
inline std::uint64_t rounded(dtype type, std::uint64_t residual) {
  return bits_of(type, value_of(residual_of(type), residual));
}

// ---- memory

/// Unaligned memory of `bytes` bytes, with canaries before and behind, followed by an inaccessible page.
class fenced_bytes {
 public:
  fenced_bytes(std::size_t bytes, std::size_t behind) : bytes_(bytes), behind_(behind) {
    std::memset(data() - k_fence, k_canary, k_fence + bytes + behind);
  }

  std::byte* data() const { return memory_.last(bytes_ + behind_); }
  bool is_intact() const {
    const auto is_canary = [](std::byte it) { return it == std::byte{k_canary}; };
    const std::byte* end = data() + bytes_;
    return std::all_of(data() - k_fence, data(), is_canary) && std::all_of(end, end + behind_, is_canary);
  }

 private:
  static constexpr std::size_t k_fence = 128;
  static constexpr std::size_t k_most_bytes = std::size_t{1} << 17;
  static constexpr unsigned char k_canary = 0xA5;

  std::size_t bytes_;
  std::size_t behind_;
  reused_memory<k_most_bytes> memory_;
};

/// A list that ends directly before an inaccessible page, or memory for a result of `room` items.
class list_in_memory {
 public:
  list_in_memory(dtype type, const list& from) : type_(type), bytes_(from.size() * item_size(type), 0) {
    for (std::size_t i = 0; i < from.size(); ++i) {
      std::byte* const to = data() + i * item_size(type);
      std::memcpy(to, &from[i].index, sizeof(std::uint32_t));
      std::memcpy(to + sizeof(std::uint32_t), &from[i].value, size_of(type));
    }
  }
  list_in_memory(dtype type, std::size_t room) : type_(type), bytes_(room * item_size(type), 67) {}

  std::byte* data() const { return bytes_.data(); }
  bool is_intact() const { return bytes_.is_intact(); }
  list content(std::size_t count) const {
    list all(count);
    for (std::size_t i = 0; i < count; ++i) {
      const std::byte* const from = data() + i * item_size(type_);
      std::memcpy(&all[i].index, from, sizeof(std::uint32_t));
      std::memcpy(&all[i].value, from + sizeof(std::uint32_t), size_of(type_));
    }
    return all;
  }

 private:
  dtype type_;
  fenced_bytes bytes_;
};

class dense_in_memory {
 public:
  dense_in_memory(dtype type, const elements& from)
      : type_(type), count_(from.size()), bytes_(from.size() * size_of(type), 0) {
    for (std::size_t i = 0; i < count_; ++i) write_element(data(), i, type, from[i]);
  }
  std::byte* data() const { return bytes_.data(); }
  bool is_intact() const { return bytes_.is_intact(); }
  elements content() const {
    elements all(count_);
    for (std::size_t i = 0; i < count_; ++i) all[i] = read_element(data(), i, type_);
    return all;
  }

 private:
  dtype type_;
  std::size_t count_;
  fenced_bytes bytes_;
};

// ---- inputs

inline double drawn_normal(std::mt19937_64& draw) {
  const double a = static_cast<double>((draw() >> 11) + 1) * 0x1p-53, b = static_cast<double>(draw() >> 11) * 0x1p-53;
  return std::sqrt(-2 * std::log(a)) * std::cos(6.283185307179586 * b);
}

struct pattern {
  const char* name;
  elements values;
};

/// Returns vectors that are likely to reveal incorrect sorts, counts and thresholds.
inline std::vector<pattern> patterns(dtype type, std::size_t count, std::uint64_t seed) {
  std::mt19937_64 draw(seed);
  const auto of = [&](const char* name, const auto& at) {
    pattern made{name, elements(count)};
    for (std::size_t i = 0; i < count; ++i) made.values[i] = low_bytes(at(i), type);
    return made;
  };
  const auto real = [&](double value) { return bits_of(type, value); };
  const elements hard = hard_values(type);
  const auto length = static_cast<double>(count);
  return {of("normal", [&](std::size_t) { return real(drawn_normal(draw)); }),
          of("zeros", [&](std::size_t i) { return real(i % 2 == 0 ? 0.0 : -0.0); }),
          of("equal", [&](std::size_t i) { return real(i % 3 == 0 ? -1.5 : 1.5); }),
          of("ascending", [&](std::size_t i) { return real(static_cast<double>(i) / 8); }),
          of("descending", [&](std::size_t i) { return real((length - static_cast<double>(i)) / 8); }),
          of("first only", [&](std::size_t i) { return real(i == 0 ? -3 : 0); }),
          of("last only", [&](std::size_t i) { return real(i + 1 == count ? 3 : 0); }),
          of("denormals", [&](std::size_t) { return draw() % 9 | draw() << 63 >> (64 - 8 * size_of(type)); }),
          of("few magnitudes", [&](std::size_t) { return real(static_cast<double>(draw() % 7) - 3); }),
          of("nearly equal", [&](std::size_t) { return real(1.0) + draw() % 5; }),
          of("not finite", [&](std::size_t i) { return i % 3 == 0 ? infinity_of(type) : infinity_of(type) + i % 2; }),
          of("hard", [&](std::size_t) { return hard[draw() % hard.size()]; })};
}

/// Returns a random list of about `count` entries, whose indices are below `span`.
inline list drawn_list(dtype type, std::size_t count, std::size_t span, std::mt19937_64& draw, bool is_hard = false) {
  const elements hard = hard_values(type);
  list drawn;
  for (std::size_t i = 0; i < span; ++i) {
    if (draw() % span >= count) continue;
    const std::uint64_t value =
        is_hard && draw() % 3 == 0 ? low_bytes(hard[draw() % hard.size()], type) : bits_of(type, drawn_normal(draw));
    if (magnitude_of(type, value) != 0) drawn.push_back({static_cast<std::uint32_t>(i), value});
  }
  return drawn;
}

}  // namespace lsched
