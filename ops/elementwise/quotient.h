// Division in integers: of integers, and of floating numbers by divisors for which lanes are too narrow. Plain code,
// the same for every SIMD target. Internal to ops/; everybody else calls find_divide (ops/kernel.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace lsched {

/// As divide_fn, of an integer type.
template <class Integer>
void divide_integers(const void* a, void* c, std::size_t count, std::uint64_t divisor);

/// As divide_fn, of an IEEE 754 binary format (or bf16) of so many bits, `fraction` of which are behind its point.
template <class Bits, int Fraction>
void divide_floats_exactly(const void* a, void* c, std::size_t count, std::uint64_t divisor);

}  // namespace lsched
