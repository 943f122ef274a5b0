#include "microbench/exercise.h"

#include <algorithm>
#include <utility>

namespace lsched::bench {
namespace {

// Element i of the input of rank r is base_of(i) + share_of(r).
float base_of(std::uint64_t element, std::uint64_t salt) {
  return static_cast<float>((static_cast<std::uint32_t>(element + salt * 977) * 2654435761u) >> 26);
}
float share_of(std::uint64_t rank) { return static_cast<float>(rank % 97); }

/// Returns the number of elements i of `output` that differ from factor * base_of(first + i, salt) + term.
std::uint64_t count_unlike(const float* output, std::uint64_t count, std::uint64_t first, std::uint64_t salt,
                           float factor, float term) {
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < count; ++i) wrong += output[i] == factor * base_of(first + i, salt) + term ? 0u : 1u;
  return wrong;
}

/// Returns the request of a collective whose blocks all have `count` elements.
shape shape_of(const collective& kind, int size, std::uint64_t count) {
  shape data{.count = count, .what = kind.reduces ? kernel::sum : kernel::none};
  if (kind.has_counts) data.counts.assign(static_cast<std::size_t>(size), count);
  for (int from = 0; kind.has_blocks && from < size; ++from)
    for (int to = 0; to < size; ++to) data.blocks.push_back({from, to, count});
  return data;
}

/// Returns the ranks whose inputs are combined in a range of an output.
std::vector<int> sources_of(const promised_range& range, int size) {
  if (range.what == promised_content::moved) return {range.source};
  std::vector<int> all = range.among;
  for (int r = 0; range.among.empty() && r < size; ++r) all.push_back(r);
  return all;
}

}  // namespace

std::vector<const collective*> exercises() {
  std::vector<const collective*> all;
  for (const collective* const kind : collectives())
    if (!kind->activates && !kind->adapts && kind != &k_neighbor_exchange) all.push_back(kind);
  return all;
}

exercise::exercise(const collective& kind, int rank, int size, std::uint64_t bytes)
    : kind_(&kind), rank_(rank), size_(size), count_(kind.moves_data ? bytes / sizeof(float) : 0) {
  const auto ranks = static_cast<std::uint64_t>(size);
  if (kind.reduces && kind.output.of == content::own_block) count_ = (count_ + ranks - 1) / ranks;
  const shape data = shape_of(kind, size, count_);
  const lsched::world place{.self = rank, .size = size};
  buffers_ = kind.extents_of(place, data);
  if (buffers_.input && buffers_.output) offset_ = kind.aliasing_of(place, data);
  for (promised_range& range : kind.contents_of(size, data).ranges)
    if (range.holder == rank) expected_.push_back(std::move(range));
}

void exercise::fill(float* input, std::uint64_t salt) const {
  const float share = share_of(static_cast<std::uint64_t>(rank_));
  const std::uint64_t floats = inputs();
  for (std::uint64_t i = 0; i < floats; ++i) input[i] = base_of(i, salt) + share;
}

std::uint64_t exercise::count_wrong(const float* output, std::uint64_t salt) const {
  std::uint64_t wrong = 0;
  for (const promised_range& range : expected_) {
    const std::vector<int> sources = sources_of(range, size_);
    float shares = 0;
    for (const int r : sources) shares += share_of(static_cast<std::uint64_t>(r));
    wrong += count_unlike(output + range.begin, range.end - range.begin, range.input_begin, salt,
                          static_cast<float>(sources.size()), shares);
  }
  return wrong;
}

}  // namespace lsched::bench
