// Reductions compute c[i] = a[i] (op) b[i]. The results have the same bits as those of ops/elementwise/elementwise.cc.
#include <cstdint>
#include <type_traits>

#include "offload/cuda/kernels/formats.h"
#include "offload/cuda/kernels/sweep.h"

namespace lsched {
namespace reductions {

/// The type for integer arithmetic. Integers wrap around, which C++ defines for unsigned types only.
template <class Number, bool IsFloating = std::is_floating_point_v<Number>>
struct wrapping {
  using type = std::make_unsigned_t<Number>;
};
template <class Number>
struct wrapping<Number, true> {
  using type = Number;
};
template <class Number>
using wrap = typename wrapping<Number>::type;

template <class Number>
using bits = std::conditional_t<sizeof(Number) == 4, std::uint32_t, std::uint64_t>;

struct sum {
  template <class Number>
  LSCHED_DEVICE Number operator()(Number a, Number b) const {
    return static_cast<Number>(static_cast<wrap<Number>>(a) + static_cast<wrap<Number>>(b));
  }
};

struct prod {
  template <class Number>
  LSCHED_DEVICE Number operator()(Number a, Number b) const {
    return static_cast<Number>(static_cast<wrap<Number>>(a) * static_cast<wrap<Number>>(b));
  }
};

/// Computes the minimum. Numbers that compare equal have equal bits, except zeros of opposite sign. For such zeros, the
/// bitwise OR gives the negative zero.
struct min {
  template <class Number>
  LSCHED_DEVICE Number operator()(Number a, Number b) const {
    if constexpr (std::is_floating_point_v<Number>) {
      if (a != a) return a;
      if (a == b) return bits_as<Number>(bits_as<bits<Number>>(a) | bits_as<bits<Number>>(b));
    }
    return a < b ? a : b;  // returns b if b is NaN
  }
};

struct max {
  template <class Number>
  LSCHED_DEVICE Number operator()(Number a, Number b) const {
    if constexpr (std::is_floating_point_v<Number>) {
      if (a != a) return a;
      if (a == b) return bits_as<Number>(bits_as<bits<Number>>(a) & bits_as<bits<Number>>(b));
    }
    return a > b ? a : b;
  }
};

struct land {
  template <class Number>
  LSCHED_DEVICE Number operator()(Number a, Number b) const {
    return static_cast<Number>(a != 0 && b != 0);
  }
};

struct lor {
  template <class Number>
  LSCHED_DEVICE Number operator()(Number a, Number b) const {
    return static_cast<Number>((a | b) != 0);
  }
};

struct lxor {
  template <class Number>
  LSCHED_DEVICE Number operator()(Number a, Number b) const {
    return static_cast<Number>((a != 0) != (b != 0));
  }
};

struct band {
  template <class Number>
  LSCHED_DEVICE Number operator()(Number a, Number b) const {
    return static_cast<Number>(a & b);
  }
};

struct bor {
  template <class Number>
  LSCHED_DEVICE Number operator()(Number a, Number b) const {
    return static_cast<Number>(a | b);
  }
};

struct bxor {
  template <class Number>
  LSCHED_DEVICE Number operator()(Number a, Number b) const {
    return static_cast<Number>(a ^ b);
  }
};

/// True for bitwise operations, which can process several elements as one word.
template <class Operation>
inline constexpr bool k_is_bitwise =
    std::is_same_v<Operation, band> || std::is_same_v<Operation, bor> || std::is_same_v<Operation, bxor>;

template <class Operation, class Vector>
LSCHED_DEVICE Vector of_words(const Vector& a, const Vector& b) {
  using words = elements<std::uint32_t, k_vector_bytes / sizeof(std::uint32_t)>;
  const auto lower = bits_as<words>(a), upper = bits_as<words>(b);
  words result;
  for (unsigned i = 0; i < k_vector_bytes / sizeof(std::uint32_t); ++i)
    result.at[i] = Operation()(lower.at[i], upper.at[i]);
  return bits_as<Vector>(result);
}

template <class Operation, class Format>
LSCHED_DEVICE void reduce(const device_arguments& with) {
  using element = typename Format::element;
  const auto combine = [](element a, element b) {
    return Format::narrow(Operation()(Format::widen(a), Format::widen(b)));
  };
  if constexpr (k_is_bitwise<Operation>)
    map_two<element>(with, combine, [](const auto& a, const auto& b) { return of_words<Operation>(a, b); });
  else
    map_two<element>(with, combine);
}

}  // namespace reductions
}  // namespace lsched

#define LSCHED_REDUCTION(what, type)                                                   \
  LSCHED_KERNEL(lsched_##what##_##type) {                                              \
    lsched::reductions::reduce<lsched::reductions::what, lsched::format_##type>(with); \
  }

LSCHED_OF_NUMBERS(LSCHED_REDUCTION, sum)
LSCHED_OF_NUMBERS(LSCHED_REDUCTION, prod)
LSCHED_OF_NUMBERS(LSCHED_REDUCTION, min)
LSCHED_OF_NUMBERS(LSCHED_REDUCTION, max)
LSCHED_OF_INTEGERS(LSCHED_REDUCTION, land)
LSCHED_OF_INTEGERS(LSCHED_REDUCTION, lor)
LSCHED_OF_INTEGERS(LSCHED_REDUCTION, lxor)
LSCHED_OF_INTEGERS(LSCHED_REDUCTION, band)
LSCHED_OF_INTEGERS(LSCHED_REDUCTION, bor)
LSCHED_OF_INTEGERS(LSCHED_REDUCTION, bxor)
