// Loops over many elements. If all operands are aligned, a loop processes vectors of 16 bytes, else single elements.
// Elements after the last full vector are also processed one by one. A grid of any size processes all elements, but a
// grid with a thread for each vector is fastest.
#pragma once

#include <cstdint>

#include "offload/cuda/kernels/formats.h"

namespace lsched {

inline constexpr unsigned k_vector_bytes = 16;

/// The data of one load or store.
template <unsigned Bytes>
struct alignas(Bytes) [[gnu::may_alias]] chunk {
  std::uint32_t words[Bytes / 4];
};

template <class Element, unsigned Number>
struct elements {
  Element at[Number];
};

/// Storage of `Number` elements as chunks of the largest possible size.
template <class Element, unsigned Number>
struct chunks {
  static constexpr unsigned bytes = Number * sizeof(Element);
  static constexpr unsigned each = bytes < k_vector_bytes ? bytes : k_vector_bytes;
  chunk<each> at[bytes / each];
};

template <unsigned Number, class Element>
LSCHED_DEVICE elements<Element, Number> load(const Element* from) {
  using whole = chunks<Element, Number>;
  whole read;
  for (unsigned i = 0; i < whole::bytes / whole::each; ++i)
    read.at[i] = reinterpret_cast<const chunk<whole::each>*>(from)[i];
  return bits_as<elements<Element, Number>>(read);
}

template <unsigned Number, class Element>
LSCHED_DEVICE void store(const elements<Element, Number>& values, Element* to) {
  using whole = chunks<Element, Number>;
  const auto written = bits_as<whole>(values);
  for (unsigned i = 0; i < whole::bytes / whole::each; ++i)
    reinterpret_cast<chunk<whole::each>*>(to)[i] = written.at[i];
}

LSCHED_DEVICE bool is_aligned(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % k_vector_bytes == 0;
}

/// If `by_vectors` is true, calls whole(i) for each full vector of `Number` elements, where i is the index of its first
/// element. Calls single(i) for all other elements.
template <unsigned Number, class Whole, class Single>
LSCHED_DEVICE void sweep(std::uint64_t count, bool by_vectors, const Whole& whole, const Single& single) {
  const std::uint64_t first = std::uint64_t{block_index()} * block_size() + thread_index();
  const std::uint64_t step = std::uint64_t{grid_size()} * block_size();
  const std::uint64_t vectors = by_vectors ? count / Number : 0;
  LSCHED_UNROLL(1)
  for (std::uint64_t i = first; i < vectors; i += step) whole(i * Number);
  LSCHED_UNROLL(1)
  for (std::uint64_t i = vectors * Number + first; i < count; i += step) single(i);
}

/// Computes c[i] = change(a[i]).
template <class From, class To, class Change>
LSCHED_DEVICE void map_one(const device_arguments& with, const Change& change) {
  constexpr unsigned number = k_vector_bytes / (sizeof(From) > sizeof(To) ? sizeof(From) : sizeof(To));
  const auto* a = static_cast<const From*>(with.a);
  auto* c = static_cast<To*>(with.c);
  const auto whole = [=](std::uint64_t i) {
    const elements<From, number> from = load<number>(a + i);
    elements<To, number> to;
    for (unsigned k = 0; k < number; ++k) to.at[k] = change(from.at[k]);
    store<number>(to, c + i);
  };
  sweep<number>(with.count, is_aligned(a) && is_aligned(c), whole, [=](std::uint64_t i) { c[i] = change(a[i]); });
}

/// Computes c[i] = combine(a[i], b[i]). combine_vectors() does the same for two vectors of elements.
template <class Element, class Combine, class CombineVectors>
LSCHED_DEVICE void map_two(const device_arguments& with, const Combine& combine,
                           const CombineVectors& combine_vectors) {
  constexpr unsigned number = k_vector_bytes / sizeof(Element);
  const auto* a = static_cast<const Element*>(with.a);
  const auto* b = static_cast<const Element*>(with.b);
  auto* c = static_cast<Element*>(with.c);
  const auto whole = [=](std::uint64_t i) {
    const elements<Element, number> lower = load<number>(a + i), upper = load<number>(b + i);
    store<number>(combine_vectors(lower, upper), c + i);
  };
  sweep<number>(with.count, is_aligned(a) && is_aligned(b) && is_aligned(c), whole,
                [=](std::uint64_t i) { c[i] = combine(a[i], b[i]); });
}

template <class Element, class Combine>
LSCHED_DEVICE void map_two(const device_arguments& with, const Combine& combine) {
  using vector = elements<Element, k_vector_bytes / sizeof(Element)>;
  map_two<Element>(with, combine, [=](const vector& a, const vector& b) {
    vector result;
    for (unsigned k = 0; k < k_vector_bytes / sizeof(Element); ++k) result.at[k] = combine(a.at[k], b.at[k]);
    return result;
  });
}

}  // namespace lsched
