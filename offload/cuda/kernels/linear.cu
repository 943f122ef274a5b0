// The kernels of adaptive sums. The results have the same bits as those of ops/adasum. That code defines the order of
// summation and all roundings.
//
// The kernel dot_norms has two passes. In the first pass, each thread block sums the products of a group of 64 blocks
// of elements, and writes three sums to the workspace. In the second pass, which is the same for all formats, one
// thread block adds the sums of all groups.
#include <cstdint>
#include <type_traits>

#include "offload/cuda/kernels/dots.h"
#include "offload/cuda/kernels/formats.h"
#include "offload/cuda/kernels/sweep.h"

namespace lsched {
namespace linear {

// ---- dots

/// Describes the lanes (partial sums) of the dot products of a format: the type of a lane, the number of lanes, and the
/// number of lanes per thread.
template <class Format>
struct lanes_of {
  static constexpr bool is_half = std::is_same_v<Format, half>;
  static constexpr bool has_exact_products = !std::is_same_v<typename Format::number, double>;
  using lane = std::conditional_t<is_half, float, double>;
  static constexpr std::uint32_t all = is_half ? 32 : 16;
  static constexpr std::uint32_t own = all / k_threads_of_dot_block;
};

/// The lanes of all blocks of a group. The order of the indices is chosen so that neighbouring threads read
/// neighbouring numbers.
template <class Format>
using group_lanes = typename lanes_of<Format>::lane[k_device_dots][lanes_of<Format>::all][k_device_dot_group];

/// The lanes of one thread in one block of elements.
template <class Format>
struct own_lanes {
  using lane = typename lanes_of<Format>::lane;
  using element = typename Format::element;
  static constexpr std::uint32_t own = lanes_of<Format>::own;
  lane sums[k_device_dots][own] = {};

  LSCHED_DEVICE void add(std::uint32_t i, element a, element b) {
    const auto lower = static_cast<lane>(Format::widen(a)), upper = static_cast<lane>(Format::widen(b));
    add_product(sums[0][i], lower, upper);
    add_product(sums[1][i], lower, lower);
    add_product(sums[2][i], upper, upper);
  }

  static LSCHED_DEVICE void add_product(lane& sum, lane one, lane other) {
    if constexpr (lanes_of<Format>::has_exact_products)
      sum = add_exact_product(sum, one, other);
    else
      sum += one * other;
  }

  /// Adds the products of rows of `own` elements. The rows begin at the elements first, first + all, first + 2 all, …
  /// Elements from `end` on are left out.
  LSCHED_DEVICE void add_rows(const element* a, const element* b, std::uint64_t first, std::uint64_t end,
                              bool by_vectors) {
    constexpr std::uint32_t all = lanes_of<Format>::all;
    LSCHED_UNROLL(4)
    for (; by_vectors && first + own <= end; first += all) {
      const elements<element, own> lower = load<own>(a + first), upper = load<own>(b + first);
      for (std::uint32_t i = 0; i < own; ++i) add(i, lower.at[i], upper.at[i]);
    }
    LSCHED_UNROLL(1)
    for (; first < end; first += all)
      for (std::uint32_t i = 0; i < own; ++i)
        if (first + i < end) add(i, a[first + i], b[first + i]);
  }
};

/// Returns the number of elements, or 0 if a vector is null. The sums are then zero.
LSCHED_DEVICE std::uint64_t count_of(const device_arguments& with) {
  return with.a == nullptr || with.b == nullptr ? 0 : with.count;
}

LSCHED_DEVICE std::uint64_t groups_of(std::uint64_t count) {
  return count / k_device_dot_group_elements + (count % k_device_dot_group_elements != 0 ? 1 : 0);
}

/// Computes the lanes that thread `part` has in one block of elements. Elements after the end of the vectors count as
/// zeros.
template <class Format>
LSCHED_DEVICE void add_lanes(const device_arguments& with, std::uint64_t group, std::uint32_t block, std::uint32_t part,
                             group_lanes<Format>& lanes) {
  using element = typename Format::element;
  constexpr std::uint32_t own = lanes_of<Format>::own;
  const auto* a = static_cast<const element*>(with.a);
  const auto* b = static_cast<const element*>(with.b);
  const std::uint64_t begin = (group * k_device_dot_group + block) * k_device_dot_block;
  const std::uint64_t end = with.count < begin + k_device_dot_block ? with.count : begin + k_device_dot_block;
  own_lanes<Format> mine;
  mine.add_rows(a, b, begin + part * own, end, is_aligned(a) && is_aligned(b));
  for (std::uint32_t p = 0; p < k_device_dots; ++p)
    for (std::uint32_t i = 0; i < own; ++i) lanes[p][part * own + i][block] = mine.sums[p][i];
}

/// Returns lane `number` of a block's 16 lanes, as f64. If the block has 32 lanes of f32, first adds lane (`number` +
/// 16) in f32.
LSCHED_DEVICE double wide_lane(const double (&lanes)[16][k_device_dot_group], std::uint32_t number,
                               std::uint32_t block) {
  return lanes[number][block];
}
LSCHED_DEVICE double wide_lane(const float (&lanes)[32][k_device_dot_group], std::uint32_t number,
                               std::uint32_t block) {
  return static_cast<double>(lanes[number][block] + lanes[number + 16][block]);
}

/// Adds the lanes of a block of elements in the order of a balanced tree.
template <class Lanes>
LSCHED_DEVICE double sum_of_lanes(const Lanes& lanes, std::uint32_t block) {
  double sums[16];
  for (std::uint32_t i = 0; i < 16; ++i) sums[i] = wide_lane(lanes, i, block);
  for (std::uint32_t i = 0; i < 8; ++i) sums[i] += sums[i + 8];
  for (std::uint32_t i = 0; i < 4; ++i) sums[i] += sums[i + 4];
  return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}

/// The first pass: computes the sums of this thread block's groups. Barriers ensure that all threads have read the
/// lanes and block sums of a group before any thread overwrites them for the next group.
template <class Format>
LSCHED_DEVICE void add_groups(const device_arguments& with) {
  LSCHED_SHARED group_lanes<Format> lanes;
  LSCHED_SHARED double blocks[k_device_dots][k_device_dot_group];
  const std::uint64_t groups = groups_of(count_of(with));
  for (std::uint64_t group = block_index(); group < groups; group += grid_size()) {
    for (std::uint32_t i = thread_index(); i < k_device_dot_group * k_threads_of_dot_block; i += block_size())
      add_lanes<Format>(with, group, i / k_threads_of_dot_block, i % k_threads_of_dot_block, lanes);
    sync_block();
    for (std::uint32_t i = thread_index(); i < k_device_dots * k_device_dot_group; i += block_size())
      blocks[i / k_device_dot_group][i % k_device_dot_group] =
          sum_of_lanes(lanes[i / k_device_dot_group], i % k_device_dot_group);
    sync_block();
    if (thread_index() < k_device_dots) {
      double sum = 0;
      for (std::uint32_t i = 0; i < k_device_dot_group; ++i) sum += blocks[thread_index()][i];
      with.workspace[k_device_dots * group + thread_index()] = sum;
    }
  }
}

/// The second pass: adds the sums of all groups, in one thread block. Each of three threads computes one of the three
/// sums from shared memory.
LSCHED_DEVICE void add_sums_of_groups(const device_arguments& with) {
  LSCHED_SHARED double sums[k_device_dots * LSCHED_MOST_THREADS];
  const std::uint64_t groups = groups_of(count_of(with));
  double sum = 0;
  for (std::uint64_t first = 0; first < groups; first += block_size()) {
    const std::uint64_t left = groups - first;
    const std::uint32_t number = left < block_size() ? static_cast<std::uint32_t>(left) : block_size();
    for (std::uint32_t i = thread_index(); i < k_device_dots * number; i += block_size())
      sums[i] = with.workspace[k_device_dots * first + i];
    sync_block();
    if (thread_index() < k_device_dots)
      for (std::uint32_t i = 0; i < number; ++i) sum += sums[k_device_dots * i + thread_index()];
    sync_block();
  }
  if (thread_index() < k_device_dots) static_cast<double*>(with.c)[thread_index()] = canonical(sum);
}

// ---- weighted sums

/// The range of coefficients for which f32 arithmetic is sufficient. Magnitudes are compared by their bits, because the
/// bits have the same order as the magnitudes.
template <class Format>
struct moderate {
  static constexpr bool exists = sizeof(typename Format::element) < sizeof(float);
  static constexpr bool is_brain = std::is_same_v<Format, brain>;
  static constexpr double shift_factor = is_brain ? 0x1p10 : 1.0;

  static LSCHED_DEVICE bool has(double x) {
    const std::uint64_t magnitude = bits_as<std::uint64_t>(x) << 1;
    const std::uint64_t smallest = bits_as<std::uint64_t>(0x1p-100) << 1;
    const std::uint64_t greatest = bits_as<std::uint64_t>(is_brain ? 0x1p9 : 0x1p64) << 1;
    return magnitude == 0 || (magnitude >= smallest && magnitude <= greatest);
  }
};

template <class Format>
LSCHED_DEVICE void scaled_add(const device_arguments& with) {
  using element = typename Format::element;
  using limits = moderate<Format>;
  const double x = with.x, y = with.y;
  if constexpr (limits::exists) {
    if (limits::has(x) && limits::has(y)) {
      const auto lower = static_cast<float>(x / limits::shift_factor);
      const auto upper = static_cast<float>(y / limits::shift_factor);
      map_two<element>(with, [=](element a, element b) {
        const float sum = lower * Format::widen(a) + upper * Format::widen(b);
        return Format::narrow(limits::is_brain ? sum * static_cast<float>(limits::shift_factor) : sum);
      });
      return;
    }
  }
  map_two<element>(with, [=](element a, element b) {
    return narrow_double<Format>(x * static_cast<double>(Format::widen(a)) + y * static_cast<double>(Format::widen(b)));
  });
}

}  // namespace linear
}  // namespace lsched

#define LSCHED_DOTS(what, type) \
  LSCHED_BLOCK_KERNEL(lsched_##what##_##type) { lsched::linear::add_groups<lsched::format_##type>(with); }
#define LSCHED_SCALED_ADD(what, type) \
  LSCHED_KERNEL(lsched_##what##_##type) { lsched::linear::scaled_add<lsched::format_##type>(with); }

LSCHED_OF_FLOATS(LSCHED_DOTS, dot_norms)
LSCHED_BLOCK_KERNEL(lsched_dot_norms_end) {
  if (lsched::block_index() == 0) lsched::linear::add_sums_of_groups(with);
}
LSCHED_OF_FLOATS(LSCHED_SCALED_ADD, scaled_add)
