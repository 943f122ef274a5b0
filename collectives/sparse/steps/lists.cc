#include "collectives/sparse/steps/lists.h"

#include <algorithm>
#include <cstring>

namespace lsched {

// --- own top k -------------------------------------------------------------------------------------------------------

own_top_k::own_top_k(const sparse_problem& problem)
    : problem_(problem),
      room_(std::min(4 * most_items(problem), problem.count)),
      items_(room_ * item_size(problem.type)) {}

item_list own_top_k::select(std::byte* residual, const std::byte* gradient, top_k_hint& hint) {
  const accumulation from{residual, gradient, problem_.scale, problem_.count};
  const auto top_k = sparse_kernels_of(problem_.type).top_k;
  return {items_.data(), top_k(from, most_items(problem_), problem_.nans, items_.data(), room_, hint).count};
}

// --- sums ------------------------------------------------------------------------------------------------------------

namespace {

std::uint64_t drop_nan(dtype type, std::byte* items, std::uint64_t count) {
  const std::size_t bytes = item_size(type);
  std::uint64_t kept = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (magnitude_of_item(type, items + i * bytes) > infinite_magnitude(type)) continue;
    if (kept != i) std::memcpy(items + kept * bytes, items + i * bytes, bytes);
    ++kept;
  }
  return kept;
}

}  // namespace

void shift_indices(dtype type, std::byte* items, std::uint64_t count, std::uint32_t distance) {
  if (distance == 0) return;
  for (std::byte* const end = items + count * item_size(type); items != end; items += item_size(type)) {
    const std::uint32_t index = index_at(type, items, 0) + distance;
    std::memcpy(items, &index, sizeof index);
  }
}

region_sum::region_sum(dtype type, std::uint64_t count, nan_policy nans)
    : type_(type),
      nans_(nans),
      sums_(count * size_of(residual_of(type))),
      touched_(bitmap_words(count) * sizeof(std::uint64_t)) {}

void region_sum::add(item_list list) { add_as(type_, list); }
void region_sum::add_wide(item_list list) { add_as(residual_of(type_), list); }

void region_sum::add_as(dtype type, item_list list) {
  auto* const touched = reinterpret_cast<std::uint64_t*>(touched_.data());
  sparse_kernels_of(type).scatter_add(list.items, list.count, sums_.data(), touched);
}

std::uint64_t region_sum::take(std::uint64_t begin, std::uint64_t end, std::byte* items) {
  if (begin == end) return 0;
  const std::uint64_t word = begin / 64, first = word * 64;  // a word of the bitmap stands for 64 elements
  std::byte* const sums = sums_.data() + first * size_of(residual_of(type_));
  std::uint64_t* const touched = reinterpret_cast<std::uint64_t*>(touched_.data()) + word;
  const std::uint64_t count = sparse_kernels_of(type_).gather_touched(sums, touched, end - first, items);
  shift_indices(type_, items, count, static_cast<std::uint32_t>(first));
  return nans_ == nan_policy::ignore ? drop_nan(type_, items, count) : count;
}

// --- end of a round --------------------------------------------------------------------------------------------------

dense_update::dense_update(dtype type, std::uint64_t count, std::uint64_t room) : type_(type), count_(count) {
  last_.reserve(room);
}

void dense_update::write(item_list result, std::uint64_t divisor, std::byte* vector) {
  if (vector == nullptr) return;
  clear(vector);
  sparse_kernels_of(type_).scatter(result.items, result.count, divisor, vector);
  for (std::uint64_t i = 0; i < result.count; ++i) note(index_at(type_, result.items, i));
}

void dense_update::clear(std::byte* vector) {
  const std::size_t width = size_of(type_);
  if (vector == last_vector_)
    for (const std::uint64_t position : last_) std::memset(vector + position * width, 0, width);
  else if (count_ != 0)
    std::memset(vector, 0, count_ * width);
  last_vector_ = vector;
  last_.clear();
}

namespace {

std::optional<std::uint32_t> first_not_finite(dtype type, item_list list) {
  for (std::uint64_t i = 0; i < list.count; ++i)
    if (magnitude_of_item(type, list.items + i * item_size(type)) >= infinite_magnitude(type))
      return index_at(type, list.items, i);
  return std::nullopt;
}

}  // namespace

std::uint64_t least_infinite(dtype type) {
  switch (type) {
    case dtype::f16: return magnitude_in(dtype::f32, 65520);
    case dtype::bf16: return 0x7F7F8000;
    default: return infinite_magnitude(type);
  }
}

bool result_check::accepts(item_list result) {
  non_finite_ = refuses_ ? first_not_finite(type_, result) : std::nullopt;
  return !non_finite_;
}

bool result_check::accepts(item_list result, void* residual) {
  if (accepts(result)) return true;
  const dtype wide = residual_of(type_);
  auto* element = static_cast<std::byte*>(residual);
  for (std::uint64_t i = 0; i < count_; ++i, element += size_of(wide))
    if (magnitude_at(wide, element) >= least_infinite(type_)) std::memset(element, 0, size_of(wide));
  return false;
}

round_end::round_end(const sparse_problem& problem, std::uint64_t room)
    : type_(problem.type),
      vectors_(problem, room),
      ranks_(problem.ranks()),
      update_(problem.type, problem.count, room),
      check_(problem) {}

std::uint64_t round_end::settle(item_list sent, item_list arrived, item_list result, void* residual,
                                std::byte* update) {
  if (!write_update(result, residual, update)) return 0;
  return sparse_kernels_of(type_).settle(residual, sent.items, sent.count, arrived.items, arrived.count);
}

bool round_end::write_update(item_list result, void* residual, std::byte* update) {
  const bool is_accepted = check_.accepts(result, residual);
  update_.write(is_accepted ? result : item_list{}, ranks_, update);
  return is_accepted;
}

const sparse_job* round_end::prepare_to_settle(item_list sent, item_list arrived, item_list result, std::byte* update) {
  const bool is_refused = !check_.accepts(result);
  if (is_refused) sent = arrived = result = {};
  return vectors_.settle(sent, arrived, result, is_refused ? least_infinite(type_) : 0, update);
}

}  // namespace lsched
