// Elements of any type as bit patterns. The patterns are random, or are values for which wrong arithmetic is most
// likely to show.
#pragma once

#include <cstring>
#include <vector>

#include "libsched/schedule/draw.h"
#include "ops/base.h"

namespace lsched::exam {

/// Returns values of a type, with either sign, for which wrong arithmetic is most likely to show. Floating types have
/// zeros, subnormals, the smallest and largest normal numbers, infinities, NaNs with and without payload, one, and the
/// neighbours of one. Integer types have the smallest and largest values and the neighbours of both.
inline std::vector<std::uint64_t> hard_patterns(dtype type) {
  const unsigned bits = 8 * static_cast<unsigned>(size_of(type));
  const std::uint64_t sign = std::uint64_t{1} << (bits - 1), all = sign | (sign - 1);
  std::vector<std::uint64_t> some{0, 1, 2, 3, sign - 1, sign, all, all - 1, sign >> 1};
  if (is_floating(type)) {
    const unsigned fraction = type == dtype::f16 ? 10 : type == dtype::bf16 ? 7 : type == dtype::f32 ? 23 : 52;
    const std::uint64_t normal = std::uint64_t{1} << fraction;  // the smallest normal number
    const std::uint64_t infinity = (sign - 1) & ~(normal - 1);  // all exponent bits
    const std::uint64_t one = (infinity >> 1) & ~(normal - 1);
    some = {0,
            1,
            normal - 1,
            normal / 2,
            normal,
            normal + 1,
            infinity - 1,
            infinity,
            infinity + 1,
            infinity | normal / 2,
            sign - 1,
            one - 1,
            one,
            one + 1,
            one + normal};
  }
  const std::size_t positive = some.size();
  for (std::size_t i = 0; i < positive; ++i) some.push_back(some[i] ^ sign);
  return some;
}

/// Draws `count` elements. One of eight is from hard_patterns().
inline void draw_patterns(dtype type, std::uint64_t count, std::uint64_t seed, std::byte* to) {
  const std::uint64_t bytes = count * size_of(type);
  for (std::uint64_t at = 0; at < bytes; at += 8) {
    const std::uint64_t word = mix(seed * 0x9E3779B97F4A7C15 + at);
    std::memcpy(to + at, &word, bytes - at < 8 ? bytes - at : 8);
  }
  const std::vector<std::uint64_t> hard = hard_patterns(type);
  std::uint64_t draw = mix(~seed);
  for (std::uint64_t i = draw % 8; i < count; i += 1 + draw % 15) {
    draw = mix(draw);
    std::memcpy(to + i * size_of(type), &hard[(draw >> 8) % hard.size()], size_of(type));
  }
}

}  // namespace lsched::exam
