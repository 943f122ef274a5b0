#include "ops/sparse/chunk_message.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "ops/unaligned.h"

namespace lsched {
namespace {

constexpr unsigned k_is_high = 1, k_is_negative = 2;  // bits of a code
constexpr double k_least_share = 0x1p-15;

/// Converts numbers to levels and back.
template <class Number>
struct levels_of {
  using bits = std::conditional_t<sizeof(Number) == 4, std::uint32_t, std::uint64_t>;
  using level = std::conditional_t<sizeof(Number) == 4, std::uint16_t, std::uint32_t>;
  static constexpr unsigned k_shift = 8 * sizeof(level);

  static level truncated(Number number) {
    return static_cast<level>(read_unaligned<bits>(as_bytes(number)) >> k_shift);
  }
  static Number number_of(level from) {
    const bits all = static_cast<bits>(from) << k_shift;
    return read_unaligned<Number>(as_bytes(all));
  }

 private:
  template <class Any>
  static const std::byte* as_bytes(const Any& any) {
    return reinterpret_cast<const std::byte*>(&any);
  }
};

/// The positions of the parts of a message.
struct parts_of_message {
  std::size_t codes, indices;
  parts_of_message(std::size_t slots, std::size_t residual_width)
      : codes(residual_width), indices(codes + (2 * slots + 7) / 8) {}
};

/// Two indices share three bytes.
void write_index(std::byte* indices, std::size_t slot, std::uint32_t index) {
  std::byte* const to = indices + slot / 2 * 3;
  if (slot % 2 == 0) {
    to[0] = static_cast<std::byte>(index);
    to[1] = static_cast<std::byte>(index >> 8);
  } else {
    to[1] |= static_cast<std::byte>(index << 4);
    to[2] = static_cast<std::byte>(index >> 4);
  }
}

std::uint32_t index_in(const std::byte* indices, std::size_t slot) {
  const std::byte* const from = indices + slot / 2 * 3;
  const auto byte = [&](std::size_t i) { return std::to_integer<std::uint32_t>(from[i]); };
  return slot % 2 == 0 ? byte(0) | (byte(1) & 15U) << 8 : byte(1) >> 4 | byte(2) << 4;
}

void write_code(std::byte* codes, std::size_t slot, unsigned code) {
  codes[slot / 4] |= static_cast<std::byte>(code << slot % 4 * 2);
}
unsigned code_in(const std::byte* codes, std::size_t slot) {
  return std::to_integer<unsigned>(codes[slot / 4]) >> slot % 4 * 2 & 3U;
}

/// The finite elements of a message that share a level.
template <class Number>
struct group {
  Number least = std::numeric_limits<Number>::infinity(), greatest = 0, mean = 0;
  std::size_t count = 0;

  void add(Number magnitude) {
    least = std::min(least, magnitude);
    greatest = std::max(greatest, magnitude);
    ++count;
  }
  /// Must be called for each element, in order, after all calls of add(). The sum cannot overflow.
  void add_to_mean(Number magnitude) { mean += (magnitude - least) / static_cast<Number>(count); }

  typename levels_of<Number>::level level() const {
    if (count == 0) return 0;
    return levels_of<Number>::truncated(std::min({least + mean, greatest, 2 * least}));
  }
};

/// The elements of a message, and their levels.
template <class Number>
class chunk_encoder {
 public:
  chunk_encoder(const Number* residual, std::uint16_t* places, std::size_t count)
      : residual_(residual), places_(places), count_(count) {
    keep_large();
    divide();
  }

  void write(std::size_t slots, std::byte* message) const {
    const parts_of_message at(slots, sizeof(Number));
    std::memset(message, 0, chunk_message_bytes(sizeof(Number) == 4 ? dtype::f32 : dtype::f64, slots));
    write_unaligned(message, low_.level());
    write_unaligned(message + sizeof(typename levels_of<Number>::level),
                    has_beyond_ ? levels_of<Number>::truncated(beyond_) : high_.level());
    std::uint32_t last = 0;
    for (std::size_t slot = 0; slot < slots; ++slot) {
      if (slot < count_) {
        const Number element = residual_[places_[slot]];
        const unsigned high = is_high(element) ? k_is_high : 0, negative = std::signbit(element) ? k_is_negative : 0;
        write_code(message + at.codes, slot, high | negative);
        last = places_[slot];
      }
      write_index(message + at.indices, slot, last);
    }
  }

 private:
  Number magnitude(std::size_t i) const { return std::abs(residual_[places_[i]]); }

  /// Finds the largest finite element, and leaves out all elements that are too small beside it.
  void keep_large() {
    for (std::size_t i = 0; i < count_; ++i) {
      const Number one = magnitude(i);
      if (std::isfinite(one)) {
        greatest_ = std::max(greatest_, one);
      } else if (!std::isnan(beyond_)) {
        beyond_ = one, has_beyond_ = true;
      }
    }
    if (std::isnan(beyond_)) beyond_ = std::numeric_limits<Number>::quiet_NaN();
    const Number least = greatest_ * static_cast<Number>(k_least_share);
    std::size_t kept = 0;
    for (std::size_t i = 0; i < count_; ++i)
      if (!(magnitude(i) < least)) places_[kept++] = places_[i];
    count_ = kept;
  }

  /// Divides the finite elements at the middle of their range.
  void divide() {
    Number smallest = greatest_;
    for (std::size_t i = 0; i < count_; ++i) smallest = std::min(smallest, magnitude(i));
    middle_ = has_beyond_ ? greatest_ : smallest + (greatest_ - smallest) / 2;
    const auto for_each_finite = [&](auto&& visit) {
      for (std::size_t i = 0; i < count_; ++i)
        if (const Number one = magnitude(i); std::isfinite(one)) visit(one > middle_ ? high_ : low_, one);
    };
    for_each_finite([](group<Number>& its, Number one) { its.add(one); });
    for_each_finite([](group<Number>& its, Number one) { its.add_to_mean(one); });
  }

  bool is_high(Number element) const { return !(std::abs(element) <= middle_); }

  const Number* residual_;
  std::uint16_t* places_;
  std::size_t count_;
  Number greatest_ = 0, middle_ = 0;
  Number beyond_ = 0;  ///< infinity or NaN if an element is not finite
  bool has_beyond_ = false;
  group<Number> low_, high_;
};

template <class Number>
void encode(const void* residual, std::uint16_t* places, std::size_t count, std::size_t slots, std::byte* message) {
  chunk_encoder<Number>(static_cast<const Number*>(residual), places, count).write(slots, message);
}

template <class Number>
std::size_t decode(const std::byte* message, std::size_t slots, std::uint64_t elements, std::byte* items) {
  using level = typename levels_of<Number>::level;
  const parts_of_message at(slots, sizeof(Number));
  Number values[4];
  for (unsigned code = 0; code < 4; ++code) {
    const Number size =
        levels_of<Number>::number_of(read_unaligned<level>(message + ((code & k_is_high) != 0 ? sizeof(level) : 0)));
    values[code] = (code & k_is_negative) != 0 ? -size : size;
  }
  std::byte* to = items;
  std::int64_t last = -1;
  for (std::size_t slot = 0; slot < slots; ++slot) {
    const std::uint32_t index = index_in(message + at.indices, slot);
    const Number value = values[code_in(message + at.codes, slot)];
    const bool is_there = index > last && index < elements && value != 0;
    last = std::max<std::int64_t>(last, index);
    if (!is_there) continue;
    write_unaligned(to, index);
    write_unaligned(to + sizeof index, value);
    to += sizeof index + sizeof value;
  }
  return static_cast<std::size_t>(to - items) / (sizeof(std::uint32_t) + sizeof(Number));
}

template <class Number>
void subtract(const std::byte* items, std::size_t count, void* residual) {
  for (const std::byte* const end = items + count * (sizeof(std::uint32_t) + sizeof(Number)); items != end;
       items += sizeof(std::uint32_t) + sizeof(Number)) {
    Number& element = static_cast<Number*>(residual)[read_unaligned<std::uint32_t>(items)];
    const Number rest = element - read_unaligned<Number>(items + sizeof(std::uint32_t));
    element = std::isfinite(rest) ? rest : 0;
  }
}

template <class Number>
constexpr chunk_kernels k_kernels{encode<Number>, decode<Number>, subtract<Number>};

}  // namespace

const chunk_kernels& chunk_kernels_of(dtype residual) {
  return residual == dtype::f64 ? k_kernels<double> : k_kernels<float>;
}

}  // namespace lsched
