// Numbers in memory of any alignment. All supported machines are little-endian.
#pragma once

#include <cstddef>
#include <cstring>

namespace lsched {

template <class Number>
Number read_unaligned(const std::byte* from) {
  Number number;
  std::memcpy(&number, from, sizeof number);
  return number;
}

template <class Number>
void write_unaligned(std::byte* to, Number number) {
  std::memcpy(to, &number, sizeof number);
}

}  // namespace lsched
