// Computes c[i] = a[i] / divisor. The arithmetic is in quotient.h.
#include <cstdint>
#include <type_traits>

#include "offload/cuda/kernels/quotient.h"
#include "offload/cuda/kernels/sweep.h"

namespace lsched {
namespace quotients {

template <class Format>
LSCHED_DEVICE void divide_numbers(const device_arguments& with) {
  using element = typename Format::element;
  const auto divisor = static_cast<typename Format::number>(with.divisor);
  map_one<element, element>(with, [=](element a) { return Format::narrow(Format::widen(a) / divisor); });
}

template <class Format>
LSCHED_DEVICE void divide(const device_arguments& with) {
  using element = typename Format::element;
  const std::uint64_t divisor = with.divisor;
  if constexpr (std::is_integral_v<typename Format::number>) {
    map_one<element, element>(with, [=](element a) { return of_integer(a, divisor); });
  } else if (divisor <= k_most_divisor<Format>) {
    divide_numbers<Format>(with);
  } else {
    const auto* a = static_cast<const element*>(with.a);
    auto* c = static_cast<element*>(with.c);
    sweep<1>(
        with.count, false, [](std::uint64_t) {}, [=](std::uint64_t i) { c[i] = of_element<Format>(a[i], divisor); });
  }
}

}  // namespace quotients
}  // namespace lsched

#define LSCHED_QUOTIENT(what, type) \
  LSCHED_KERNEL(lsched_##what##_##type) { lsched::quotients::divide<lsched::format_##type>(with); }

LSCHED_OF_NUMBERS(LSCHED_QUOTIENT, divide)
