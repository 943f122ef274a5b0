#include "microbench/baselines/gtopk.h"

#include <algorithm>
#include <cstring>

namespace lsched {
namespace {

bool has(const std::uint64_t* bits, std::size_t i) { return (bits[i / 64] >> i % 64 & 1) != 0; }

}  // namespace

gtopk::gtopk(const sparse_problem& problem, arrival_rule rule, std::uint32_t children)
    : type_(problem.type),
      rule_(rule),
      room_(most_sent(problem)),
      ranks_(static_cast<std::uint64_t>(problem.place.size)),
      merge_add_(sparse_kernels_of(problem.type).merge_add),
      keep_largest_(sparse_kernels_of(problem.type).keep_largest),
      settle_(sparse_kernels_of(problem.type).settle),
      own_(problem),
      merged_(2 * room_ * item_size(problem.type)),
      parts_(rule == arrival_rule::exact ? children + 1 : 0),
      update_(problem.type, problem.count, room_),
      judge_(problem) {
  for (part& it : parts_) {
    it.indices.reserve(room_);
    it.survivors.resize(bitmap_words(room_));
  }
}

std::uint64_t gtopk::select(std::byte* residual, const std::byte* gradient, top_k_hint& hint, std::byte* items) {
  sent_ = own_.select(residual, gradient, hint);
  std::copy_n(sent_.items, sent_.count * item_size(type_), items);
  n_parts_ = 0;
  take_up(sent_);
  return sent_.count;
}

std::uint64_t gtopk::merge(item_list partial, item_list child, std::byte* items) {
  const std::size_t sum = merge_add_(partial.items, partial.count, child.items, child.count, merged_.data());
  const std::size_t kept = keep_largest_(merged_.data(), sum, room_).count;
  std::copy_n(merged_.data(), kept * item_size(type_), items);
  take_up(child);
  for (std::size_t i = 0; i < n_parts_; ++i) strike(parts_[i], {items, kept}, nullptr);
  return kept;
}

void gtopk::learn(item_list partial, std::span<const std::uint64_t> survivors) {
  for (std::size_t i = 0; i < n_parts_; ++i) strike(parts_[i], partial, survivors.data());
}

void gtopk::settle(item_list result, std::byte* residual, std::byte* update) {
  if (!judge_.accepts(result, residual)) sent_ = result = {};
  const item_list what = rule_ == arrival_rule::exact ? arrived() : result;
  settle_(residual, sent_.items, sent_.count, what.items, what.count);
  update_.write(result, ranks_, update);
}

/// All of it is there, so far.
void gtopk::take_up(item_list list) {
  if (rule_ == arrival_rule::published) return;
  part& to = parts_[n_parts_++];
  to.indices.resize(list.count);
  for (std::size_t i = 0; i < list.count; ++i) to.indices[i] = index_at(type_, list.items, i);
  std::fill(to.survivors.begin(), to.survivors.end(), 0);
  for (std::size_t i = 0; i < list.count; ++i) to.survivors[i / 64] |= std::uint64_t{1} << i % 64;
}

/// What is not in the partial result, or is there but does not survive (nullptr: all does), is lost for good.
void gtopk::strike(part& from, item_list partial, const std::uint64_t* survivors) const {
  std::size_t at = 0;
  for (std::size_t i = 0; i < from.indices.size(); ++i) {
    while (at < partial.count && index_at(type_, partial.items, at) < from.indices[i]) ++at;
    const bool is_there = at < partial.count && index_at(type_, partial.items, at) == from.indices[i];
    const bool survives = is_there && (survivors == nullptr || has(survivors, at));
    if (!survives) from.survivors[i / 64] &= ~(std::uint64_t{1} << i % 64);
  }
}

/// Those of this rank's own items that are part of the result.
item_list gtopk::arrived() {
  const std::size_t size = item_size(type_);
  std::byte* to = merged_.data();
  for (std::size_t i = 0; i < sent_.count; ++i)
    if (has(parts_[0].survivors.data(), i)) to = std::copy_n(sent_.items + i * size, size, to);
  return {merged_.data(), static_cast<std::uint64_t>(to - merged_.data()) / size};
}

}  // namespace lsched
