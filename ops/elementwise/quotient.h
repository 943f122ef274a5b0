// Division with integer arithmetic: for integers, and for floating-point numbers with large divisors. For such
// divisors, SIMD lanes would not round correctly. The code is scalar and does not depend on the SIMD target. Only files
// of ops/ include this header. Other code calls find_divide() (ops/kernel.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace lsched {

/// A divide_fn for an integer type.
template <class Integer>
void divide_integers(const void* a, void* c, std::size_t count, std::uint64_t divisor);

/// A divide_fn for bf16, or for an IEEE 754 binary format. The format has the size of `Bits`, and its fraction has
/// `Fraction` bits.
template <class Bits, int Fraction>
void divide_floats_exactly(const void* a, void* c, std::size_t count, std::uint64_t divisor);

}  // namespace lsched
