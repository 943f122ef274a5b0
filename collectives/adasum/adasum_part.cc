#include "collectives/adasum/adasum_part.h"

#include <algorithm>

#include "libsched/postcondition/postcondition.h"
#include "libsched/schedule/geometry.h"

namespace lsched {

element_range element_range::common(const tensor& t) const {
  return {std::max(begin, t.begin), std::min(end, t.end())};
}

// --- the map -------------------------------------------------------------------------------------------------

tensor_map::tensor_map(const shape& data, std::vector<std::uint64_t> blocks)
    : tensors_(tensors_of(data)), blocks_(std::move(blocks)) {
  std::vector<std::uint64_t> cuts;
  for (const tensor& t : tensors_) {
    cuts.push_back(t.begin);
    cuts.push_back(t.end());
  }
  auto next = cuts.begin();
  for (std::size_t b = 0; b + 1 < blocks_.size(); ++b) {
    first_cell_.push_back(static_cast<std::uint32_t>(starts_.size()));
    starts_.push_back(blocks_[b]);
    for (; next != cuts.end() && *next < blocks_[b + 1]; ++next)
      if (*next > starts_.back()) starts_.push_back(*next);
  }
  first_cell_.push_back(static_cast<std::uint32_t>(starts_.size()));
}

std::span<const tensor> tensor_map::tensors_in(element_range part) const {
  const auto first = std::ranges::upper_bound(tensors_, part.begin, {}, &tensor::end);
  const auto last = std::ranges::lower_bound(tensors_, part.end, {}, &tensor::begin);
  return first < last ? std::span(first, last) : std::span<const tensor>{};
}

std::vector<element_range> tensor_map::gaps_in(element_range part) const {
  std::vector<element_range> gaps;
  std::uint64_t at = part.begin;
  for (const tensor& t : tensors_in(part)) {
    if (at < t.begin) gaps.push_back({at, t.begin});
    at = t.end();
  }
  if (at < part.end) gaps.push_back({at, part.end});
  return gaps;
}

std::vector<element_range> tensor_map::runs_in(element_range part) const {
  std::vector<element_range> runs;
  std::uint64_t at = part.begin;
  for (const element_range& gap : gaps_in(part)) {
    if (at < gap.begin) runs.push_back({at, gap.begin});
    at = gap.end;
  }
  if (at < part.end) runs.push_back({at, part.end});
  return runs;
}

stretch tensor_map::blocks(buffer_id in, std::uint32_t cell, std::uint64_t first, std::uint64_t end) const {
  return {{in, blocks_[first]},
          blocks_[end] - blocks_[first],
          cell + first_cell_[first],
          first_cell_[end] - first_cell_[first]};
}

/// If several cells begin at the same element, only the last of them has elements.
stretch tensor_map::elements(buffer_id in, std::uint32_t cell, element_range part) const {
  const auto first = std::ranges::upper_bound(starts_, part.begin) - starts_.begin() - 1;
  const auto end = std::ranges::lower_bound(starts_, part.end) - starts_.begin();
  return {{in, part.begin},
          part.count(),
          cell + static_cast<std::uint32_t>(first),
          static_cast<std::uint32_t>(std::max<std::ptrdiff_t>(end - first, 1))};
}

// --- a rank's vectors ----------------------------------------------------------------------------------------

adasum_part::place adasum_part::new_vector() {
  const stretch all = scratch(count(), map_.cells());
  return {all.at.buffer(), all.cell};
}

stretch adasum_part::sums_of(const stretch& all, std::uint64_t number) {
  return {{all.at.buffer(), number * k_dot_sums}, k_dot_sums, all.cell + static_cast<std::uint32_t>(number)};
}

void adasum_part::copy_gaps(place from, place to, element_range part) {
  if (is_same(from, to)) return;
  for (const element_range gap : map_.gaps_in(part)) copy(elements(from, gap), elements(to, gap));
}

stretch part_of_payload(const stretch& payload, std::uint64_t from, element_range part) {
  return {{payload.at.buffer(), part.begin - from}, part.count(), payload.cell, payload.cells};
}

// --- expressions ---------------------------------------------------------------------------------------------

std::uint64_t hypercube_tree(const std::vector<std::uint64_t>& leaves, const tensor& part) {
  const fold folded(static_cast<rank>(leaves.size()));
  const auto leaf = [&](rank at) { return leaves[static_cast<std::size_t>(at)]; };
  const auto join = [&](std::uint64_t lower, std::uint64_t higher) {
    return adasum_expression(lower, higher, part.begin, part.end());
  };
  std::vector<std::uint64_t> values;
  for (rank index = 0; index < folded.core(); ++index) {
    const rank own = folded.real_of(index);
    values.push_back(folded.is_proxy(own) ? join(leaf(own), leaf(folded.extra_of(own))) : leaf(own));
  }
  for (std::size_t count = values.size(); count > 1; count /= 2)
    for (std::size_t i = 0; i < count / 2; ++i) values[i] = join(values[2 * i], values[2 * i + 1]);
  return values.front();
}

std::uint64_t hypercube_expression(rank size, const shape&, const tensor& part) {
  std::vector<std::uint64_t> leaves;
  for (rank r = 0; r < size; ++r) leaves.push_back(leaf_tree(r, 0));
  return hypercube_tree(leaves, part);
}

}  // namespace lsched
