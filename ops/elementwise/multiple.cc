#include <cstddef>
#include <cstdint>

#include "ops/elementwise/elementwise.h"

namespace lsched {
namespace {

/// Unsigned integers wrap around, and have the same bits as signed integers of the same size.
template <class Unsigned>
void multiply_integers(const void* a, void* c, std::size_t count, std::uint64_t factor) {
  const auto* from = static_cast<const Unsigned*>(a);
  auto* to = static_cast<Unsigned*>(c);
  for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<Unsigned>(factor * from[i]);
}

template <dtype Type>
void multiply_floats(const void* a, void* c, std::size_t count, std::uint64_t factor) {
  find_convert(Type, Type)(a, count, static_cast<double>(factor), c);
}

}  // namespace

multiply_fn find_multiply(dtype type) {
  switch (type) {
    case dtype::i8:
    case dtype::u8: return multiply_integers<std::uint8_t>;
    case dtype::i32: return multiply_integers<std::uint32_t>;
    case dtype::i64:
    case dtype::u64: return multiply_integers<std::uint64_t>;
    case dtype::f16: return multiply_floats<dtype::f16>;
    case dtype::bf16: return multiply_floats<dtype::bf16>;
    case dtype::f32: return multiply_floats<dtype::f32>;
    case dtype::f64: return multiply_floats<dtype::f64>;
    default: return nullptr;
  }
}

}  // namespace lsched
