// Division by integer arithmetic: of integers, and of floating-point numbers by divisors for which lanes are too
// narrow. Plain code, the same for every SIMD target. Internal to ops/. Other code calls find_divide (ops/kernel.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace lsched {

/// A divide_fn for an integer type.
template <class Integer>
void divide_integers(const void* a, void* c, std::size_t count, std::uint64_t divisor);

/// A divide_fn for an IEEE 754 binary format, or bf16, that has the size of `Bits` and `Fraction` bits of fraction.
template <class Bits, int Fraction>
void divide_floats_exactly(const void* a, void* c, std::size_t count, std::uint64_t divisor);

}  // namespace lsched
