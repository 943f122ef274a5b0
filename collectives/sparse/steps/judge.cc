#include "collectives/sparse/steps/judge.h"

#include <cstring>

namespace lsched {
namespace {

std::optional<std::uint32_t> first_not_finite(dtype type, item_list list) {
  for (std::uint64_t i = 0; i < list.count; ++i) {
    const std::byte* const item = list.items + i * item_size(type);
    if (magnitude_at(type, item) < infinite_magnitude(type)) continue;
    std::uint32_t index = 0;
    std::memcpy(&index, item, sizeof index);
    return index;
  }
  return std::nullopt;
}

/// The least magnitude of a residual whose element rounds to an infinite item: halfway from the largest finite one to
/// where the next would be.
constexpr std::uint64_t least_infinite(dtype type) {
  switch (type) {
    case dtype::f16: return magnitude_in(dtype::f32, 65520);
    case dtype::bf16: return 0x7F7F8000;
    default: return infinite_magnitude(type);
  }
}

template <class Bits>
void drop(std::uint64_t least, std::byte* vector, std::uint64_t count) {
  for (std::byte* const end = vector + count * sizeof(Bits); vector != end; vector += sizeof(Bits)) {
    Bits bits = 0;
    std::memcpy(&bits, vector, sizeof bits);
    if (static_cast<Bits>(bits << 1) >> 1 >= least) std::memset(vector, 0, sizeof bits);
  }
}

}  // namespace

bool result_judge::accepts(item_list result, void* residual) {
  non_finite_ = refuses_ ? first_not_finite(type_, result) : std::nullopt;
  if (!non_finite_) return true;
  auto* const elements = static_cast<std::byte*>(residual);
  if (residual_of(type_) == dtype::f64)
    drop<std::uint64_t>(least_infinite(type_), elements, count_);
  else
    drop<std::uint32_t>(least_infinite(type_), elements, count_);
  return false;
}

}  // namespace lsched
