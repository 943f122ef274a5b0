// The first and the last step of a sparse allreduce (ops/sparse_job.h). The results have the same bits as those of
// ops/sparse.
//
// The k elements of largest magnitude are found in passes over the residual. The counting passes determine the k-th
// largest magnitude, 11 bits at a time, the highest bits first. A counting pass considers only the elements whose
// highest bits equal the known bits of the k-th magnitude. The pass counts these elements by their next 11 bits
// (count). From the counters, one thread block determines the next bits of the k-th magnitude (narrow). Then the
// elements above and at the k-th magnitude are counted for each tile (tally). The counts are replaced by the sums over
// all earlier tiles (scan). Finally, the items of each tile are written behind those of earlier tiles (take).
//
//     [clear] ─► count ─► narrow ─► … ─► count ─► narrow ─► tally ─► scan ─► take
//
// The first counting pass also adds the gradient to the residual. All data between passes is in the workspace
// (select_workspace).
#include <cstdint>
#include <type_traits>

#include "offload/cuda/kernels/quotient.h"
#include "offload/cuda/kernels/select.h"
#include "offload/cuda/kernels/sweep.h"

namespace lsched {
namespace sparse {

// ---- magnitudes and items

template <class Format>
using element_bits =
    std::conditional_t<sizeof(typename Format::element) == 2, std::uint16_t,
                       std::conditional_t<sizeof(typename Format::element) == 4, std::uint32_t, std::uint64_t>>;

/// Rounds an element of the residual to the format of items, and returns the magnitude: the bits of the rounded value
/// without the sign. All NaNs have the same magnitude, which is 0 if `ignores_nan` is true.
template <class Format>
LSCHED_DEVICE std::uint64_t magnitude_of(typename Format::number value, bool ignores_nan) {
  if (ignores_nan && value != value) return 0;
  constexpr auto most =
      static_cast<element_bits<Format>>(static_cast<element_bits<Format>>(~element_bits<Format>{0}) >> 1);
  return static_cast<element_bits<Format>>(bits_as<element_bits<Format>>(Format::narrow(value)) & most);
}

/// Accesses items in words of 16 bits if values have 16 bits, else in words of 32 bits. Items are aligned only for such
/// words.
template <class Format>
struct item_words {
  static constexpr bool is_short = sizeof(typename Format::element) == 2;
  using word = std::conditional_t<is_short, std::uint16_t, std::uint32_t>;
  static constexpr unsigned of_index = sizeof(std::uint32_t) / sizeof(word);
  static constexpr unsigned of_value = sizeof(typename Format::element) / sizeof(word);
  static constexpr unsigned all = of_index + of_value;

  template <class Number>
  static LSCHED_DEVICE Number read(const word* from) {
    elements<word, sizeof(Number) / sizeof(word)> words;
    for (unsigned i = 0; i < sizeof(Number) / sizeof(word); ++i) words.at[i] = from[i];
    return bits_as<Number>(words);
  }
  template <class Number>
  static LSCHED_DEVICE void write(Number number, word* to) {
    const auto words = bits_as<elements<word, sizeof(Number) / sizeof(word)>>(number);
    for (unsigned i = 0; i < sizeof(Number) / sizeof(word); ++i) to[i] = words.at[i];
  }
};

/// Calls each(index, value) for all items of a list.
template <class Format, class Each>
LSCHED_DEVICE void for_each_item(const device_arguments& with, const Each& each) {
  using words = item_words<Format>;
  const auto* items = static_cast<const typename words::word*>(with.a);
  const auto one = [=](std::uint64_t i) {
    const auto* const item = items + i * words::all;
    each(words::template read<std::uint32_t>(item),
         words::template read<typename Format::element>(item + words::of_index));
  };
  sweep<1>(
      with.count, false, [](std::uint64_t) {}, one);
}

// ---- passes that count

/// Returns value + factor * gradient, the new value of an element of the residual.
template <class Format>
LSCHED_DEVICE typename Format::number accumulated(typename Format::number value, typename Format::element gradient,
                                                  typename Format::number factor) {
  return canonical(value + factor * Format::widen(gradient));
}

/// Adds the gradient, if there is one, to the residual, and calls each(value) for all elements of the residual.
template <class Format, class Each>
LSCHED_DEVICE void for_each_value(const device_arguments& with, const Each& each) {
  using number = typename Format::number;
  using element = typename Format::element;
  constexpr unsigned wide = k_vector_bytes / sizeof(number);
  auto* residual = static_cast<number*>(with.c);
  const auto* gradient = static_cast<const element*>(with.a);
  const auto factor = static_cast<number>(with.x);
  const auto single = [=](std::uint64_t i) {
    if (gradient != nullptr) residual[i] = accumulated<Format>(residual[i], gradient[i], factor);
    each(residual[i]);
  };
  const auto whole = [=](std::uint64_t i) {
    elements<number, wide> values = load<wide>(residual + i);
    if (gradient != nullptr) {
      const elements<element, wide> added = load<wide>(gradient + i);
      for (unsigned k = 0; k < wide; ++k) values.at[k] = accumulated<Format>(values.at[k], added.at[k], factor);
      store<wide>(values, residual + i);
    }
    for (unsigned k = 0; k < wide; ++k) each(values.at[k]);
  };
  sweep<wide>(with.count, is_aligned(residual) && is_aligned(gradient), whole, single);
}

/// Counts elements by the next bits of their magnitudes. Only elements whose higher bits are the known bits of the k-th
/// magnitude are counted.
template <class Format>
LSCHED_DEVICE void count(const device_arguments& with) {
  LSCHED_SHARED std::uint32_t bins[k_select_bins];
  auto* const all = static_cast<select_workspace*>(static_cast<void*>(with.workspace));
  for (std::uint32_t i = thread_index(); i < k_select_bins; i += block_size()) bins[i] = 0;
  sync_block();
  const std::uint64_t known = all->low >> with.shift >> with.bits;
  const std::uint32_t shift = with.shift, width = with.bits, last = (1u << with.bits) - 1;
  const bool ignores_nan = with.ignores_nan;
  for_each_value<Format>(with, [=](typename Format::number value) {
    const std::uint64_t magnitude = magnitude_of<Format>(value, ignores_nan);
    if (magnitude >> shift >> width == known) add_atomically(&bins[magnitude >> shift & last], 1u);
  });
  sync_block();
  for (std::uint32_t i = thread_index(); i < k_select_bins; i += block_size())
    if (bins[i] != 0) add_atomically(&all->bins[i], bins[i]);
}

/// Determines the next bits of the k-th magnitude, in one thread block. Because zeros are counted, too, there are at
/// least k elements.
LSCHED_DEVICE void narrow(const device_arguments& with) {
  LSCHED_SHARED std::uint64_t sums[LSCHED_MOST_THREADS];
  auto* const all = static_cast<select_workspace*>(static_cast<void*>(with.workspace));
  const std::uint32_t each = (k_select_bins + block_size() - 1) / block_size(), first = thread_index() * each;
  const std::uint32_t end = first + each < k_select_bins ? first + each : k_select_bins;
  std::uint64_t sum = 0;
  for (std::uint32_t i = first; i < end; ++i) sum += all->bins[i];
  sums[thread_index()] = sum;
  sync_block();
  if (thread_index() == 0) {
    std::uint32_t part = block_size() - 1;
    std::uint64_t above = all->above;
    for (; part > 0 && above + sums[part] < with.wanted; --part) above += sums[part];
    std::uint32_t bin = (part + 1) * each < k_select_bins ? (part + 1) * each - 1 : k_select_bins - 1;
    for (; bin > 0 && above + all->bins[bin] < with.wanted; --bin) above += all->bins[bin];
    all->above = above;
    all->low += std::uint64_t{bin} << with.shift;
  }
  sync_block();
  for (std::uint32_t i = first; i < end; ++i) all->bins[i] = 0;
}

// ---- tiles

/// The neighbouring elements that one thread processes in a row of a tile.
template <class Format>
struct own_elements {
  using number = typename Format::number;
  static constexpr unsigned wide = k_vector_bytes / sizeof(number);
  const number* residual;
  std::uint64_t first, end;

  LSCHED_DEVICE own_elements(const number* all, std::uint64_t count, std::uint64_t row) : residual(all) {
    first = (row * block_size() + thread_index()) * k_select_own;
    end = first + k_select_own < count ? first + k_select_own : count;
  }

  /// Calls each(i, value) for each element; after the end of the residual, the value is 0. The residual must be aligned
  /// for vectors.
  template <class Each>
  LSCHED_DEVICE void for_each(const Each& each) const {
    LSCHED_UNROLL(1)
    for (std::uint64_t i = first; i < end; i += wide) {
      elements<number, wide> values{};
      if (i + wide <= end)
        values = load<wide>(residual + i);
      else
        for (unsigned k = 0; k < wide; ++k) values.at[k] = i + k < end ? residual[i + k] : number{0};
      for (unsigned k = 0; k < wide; ++k) each(i + k, values.at[k]);
    }
  }
};

/// Classifies magnitudes. All elements above the k-th magnitude are selected. The first elements with the k-th
/// magnitude complete the selection to k elements. Zeros are never selected.
struct places_of {
  std::uint64_t low;
  LSCHED_DEVICE bool is_above(std::uint64_t magnitude) const { return magnitude > low; }
  LSCHED_DEVICE bool is_equal(std::uint64_t magnitude) const { return low != 0 && magnitude == low; }

  /// Returns two counts for a thread's elements. The lower 16 bits count elements above the k-th magnitude. The upper
  /// 16 bits count elements with the k-th magnitude. (A row has less than 2^16 elements.)
  template <class Format>
  LSCHED_DEVICE std::uint32_t tally(const own_elements<Format>& own, bool ignores_nan) const {
    std::uint32_t both = 0;
    own.for_each([&](std::uint64_t, typename Format::number value) {
      const std::uint64_t magnitude = magnitude_of<Format>(value, ignores_nan);
      both += (is_above(magnitude) ? 1u : 0u) + (is_equal(magnitude) ? 0x10000u : 0u);
    });
    return both;
  }
};

LSCHED_DEVICE std::uint64_t rows_of(std::uint64_t count) {
  const std::uint64_t each = std::uint64_t{block_size()} * k_select_own;
  return count / each + (count % each != 0 ? 1 : 0);
}

/// Calls each(tile) for each tile of this thread block.
template <class Each>
LSCHED_DEVICE void for_each_tile(const device_arguments& with, const Each& each) {
  for (std::uint64_t tile = block_index(); tile < with.tiles; tile += grid_size()) each(tile);
}

/// Calls each(own) for this thread's elements in each row of a tile.
template <class Format, class Each>
LSCHED_DEVICE void for_each_row(const device_arguments& with, std::uint64_t tile, const Each& each) {
  const auto* residual = static_cast<const typename Format::number*>(with.c);
  const std::uint64_t rows = rows_of(with.count), first = tile * k_select_rows;
  const std::uint64_t end = first + k_select_rows < rows ? first + k_select_rows : rows;
  LSCHED_UNROLL(1)
  for (std::uint64_t row = first; row < end; ++row) each(own_elements<Format>(residual, with.count, row));
}

/// For each tile, counts the elements above the k-th magnitude, and the elements with the k-th magnitude.
template <class Format>
LSCHED_DEVICE void tally(const device_arguments& with) {
  LSCHED_SHARED std::uint32_t above, equal;
  auto* const all = static_cast<select_workspace*>(static_cast<void*>(with.workspace));
  const places_of where{all->low};
  const bool ignores_nan = with.ignores_nan;
  for_each_tile(with, [&](std::uint64_t tile) {
    if (thread_index() == 0) above = equal = 0;
    sync_block();
    for_each_row<Format>(with, tile, [&](const own_elements<Format>& own) {
      const std::uint32_t both = where.tally(own, ignores_nan);
      if ((both & 0xFFFFu) != 0) add_atomically(&above, both & 0xFFFFu);
      if (both >> 16 != 0) add_atomically(&equal, both >> 16);
    });
    sync_block();
    if (thread_index() == 0) all->tiles[tile] = {above, equal};
  });
}

/// Replaces the counts of each tile by the sums over all earlier tiles. Also writes the number of selected items.
/// Executed by one thread block.
LSCHED_DEVICE void scan(const device_arguments& with) {
  LSCHED_SHARED select_tally sums[LSCHED_MOST_THREADS];
  auto* const all = static_cast<select_workspace*>(static_cast<void*>(with.workspace));
  const std::uint64_t tiles = with.tiles, each = tiles / block_size() + (tiles % block_size() != 0 ? 1 : 0);
  const std::uint64_t first = thread_index() * each < tiles ? thread_index() * each : tiles;
  const std::uint64_t end = first + each < tiles ? first + each : tiles;
  select_tally sum{0, 0};
  for (std::uint64_t i = first; i < end; ++i) sum.above += all->tiles[i].above, sum.equal += all->tiles[i].equal;
  sums[thread_index()] = sum;
  sync_block();
  if (thread_index() == 0) {
    select_tally before{0, 0};
    for (std::uint32_t i = 0; i < block_size(); ++i) {
      const select_tally one = sums[i];
      sums[i] = before;
      before.above += one.above, before.equal += one.equal;
    }
    *static_cast<std::uint64_t*>(with.found) = all->low != 0 ? with.wanted : before.above;
  }
  sync_block();
  select_tally before = sums[thread_index()];
  for (std::uint64_t i = first; i < end; ++i) {
    const select_tally one = all->tiles[i];
    all->tiles[i] = before;
    before.above += one.above, before.equal += one.equal;
  }
}

/// Returns the sum of `number` over all earlier threads of the block. Sets *sum to the sum over all threads. `sums`
/// must be in shared memory.
LSCHED_DEVICE std::uint32_t sum_before(std::uint32_t number, std::uint32_t (&sums)[2 * LSCHED_MOST_THREADS],
                                       std::uint32_t* sum) {
  std::uint32_t from = 0;
  sums[thread_index()] = number;
  sync_block();
  for (std::uint32_t step = 1; step < block_size(); step *= 2) {
    const std::uint32_t to = LSCHED_MOST_THREADS - from, mine = sums[from + thread_index()];
    sums[to + thread_index()] = mine + (thread_index() >= step ? sums[from + thread_index() - step] : 0);
    sync_block();
    from = to;
  }
  const std::uint32_t before = sums[from + thread_index()] - number;
  *sum = sums[from + block_size() - 1];
  sync_block();
  return before;
}

template <class Format>
LSCHED_DEVICE void take(const device_arguments& with) {
  using words = item_words<Format>;
  LSCHED_SHARED std::uint32_t sums[2 * LSCHED_MOST_THREADS];
  const auto* const all = static_cast<const select_workspace*>(static_cast<const void*>(with.workspace));
  const places_of where{all->low};
  const std::uint64_t ties = all->low != 0 ? with.wanted - all->above : 0;
  auto* const items = static_cast<typename words::word*>(with.items);
  const bool ignores_nan = with.ignores_nan;
  for_each_tile(with, [&](std::uint64_t tile) {
    select_tally before = all->tiles[tile];
    for_each_row<Format>(with, tile, [&](const own_elements<Format>& own) {
      const std::uint32_t mine = where.tally(own, ignores_nan);
      std::uint32_t sum = 0;
      const std::uint32_t others = sum_before(mine, sums, &sum);
      select_tally at{before.above + (others & 0xFFFFu), before.equal + (others >> 16)};
      before.above += sum & 0xFFFFu, before.equal += sum >> 16;
      if (mine == 0) return;
      own.for_each([&](std::uint64_t i, typename Format::number value) {
        const std::uint64_t magnitude = magnitude_of<Format>(value, ignores_nan);
        const bool is_above = where.is_above(magnitude), is_equal = where.is_equal(magnitude);
        if (is_above || (is_equal && at.equal < ties)) {
          auto* const item = items + (at.above + (at.equal < ties ? at.equal : ties)) * words::all;
          words::template write<std::uint32_t>(static_cast<std::uint32_t>(i), item);
          words::template write<typename Format::element>(Format::narrow(value), item + words::of_index);
        }
        at.above += is_above ? 1 : 0, at.equal += is_equal ? 1 : 0;
      });
    });
  });
}

// ---- settlement: writes the update and removes sent items from the residual

/// Computes c[index] = value / divisor for each item, or 0 if the divisor is 0.
template <class Format>
LSCHED_DEVICE void put(const device_arguments& with) {
  using element = typename Format::element;
  auto* const update = static_cast<element*>(with.c);
  const std::uint64_t divisor = with.divisor;
  for_each_item<Format>(with, [=](std::uint32_t index, element value) {
    update[index] = divisor == 0 ? element{0} : quotients::quotient<Format>(value, divisor);
  });
}

/// Subtracts each sent item from the residual, so that only the item's rounding error remains. If the error is not
/// finite, writes zero.
template <class Format>
LSCHED_DEVICE void leave(const device_arguments& with) {
  using number = typename Format::number;
  auto* const residual = static_cast<number*>(with.c);
  for_each_item<Format>(with, [=](std::uint32_t index, typename Format::element value) {
    number rest = 0;
    if constexpr (sizeof(typename Format::element) < sizeof(number)) {
      rest = residual[index] - Format::widen(value);
      if (!(rest - rest == 0)) rest = 0;
    }
    residual[index] = rest;
  });
}

/// Sets to zero each element of the residual whose magnitude is at least `wanted`.
template <class Number>
LSCHED_DEVICE void drop(const device_arguments& with) {
  using bits = std::conditional_t<sizeof(Number) == 4, std::uint32_t, std::uint64_t>;
  auto* const residual = static_cast<Number*>(with.c);
  const std::uint64_t least = with.wanted;
  const auto one = [=](std::uint64_t i) {
    if (static_cast<bits>(bits_as<bits>(residual[i]) << 1) >> 1 >= least) residual[i] = 0;
  };
  sweep<1>(
      with.count, false, [](std::uint64_t) {}, one);
}

/// Sets `count` bytes at c to zero. c may have any alignment.
LSCHED_DEVICE void clear(const device_arguments& with) {
  auto* const bytes = static_cast<std::uint8_t*>(with.c);
  const auto whole = [=](std::uint64_t i) {
    store<k_vector_bytes>(elements<std::uint8_t, k_vector_bytes>{}, bytes + i);
  };
  sweep<k_vector_bytes>(with.count, is_aligned(bytes), whole, [=](std::uint64_t i) { bytes[i] = 0; });
}

}  // namespace sparse
}  // namespace lsched

#define LSCHED_SELECTION(what, type) \
  LSCHED_BLOCK_KERNEL(lsched_select_##what##_##type) { lsched::sparse::what<lsched::format_##type>(with); }
#define LSCHED_SETTLEMENT(what, type) \
  LSCHED_KERNEL(lsched_##what##_##type) { lsched::sparse::what<lsched::format_##type>(with); }

LSCHED_OF_FLOATS(LSCHED_SELECTION, count)
LSCHED_BLOCK_KERNEL(lsched_select_narrow) {
  if (lsched::block_index() == 0) lsched::sparse::narrow(with);
}
LSCHED_OF_FLOATS(LSCHED_SELECTION, tally)
LSCHED_BLOCK_KERNEL(lsched_select_scan) {
  if (lsched::block_index() == 0) lsched::sparse::scan(with);
}
LSCHED_OF_FLOATS(LSCHED_SELECTION, take)
LSCHED_OF_FLOATS(LSCHED_SETTLEMENT, put)
LSCHED_OF_FLOATS(LSCHED_SETTLEMENT, leave)
LSCHED_KERNEL(lsched_drop_f32) { lsched::sparse::drop<float>(with); }
LSCHED_KERNEL(lsched_drop_f64) { lsched::sparse::drop<double>(with); }
LSCHED_KERNEL(lsched_clear) { lsched::sparse::clear(with); }
