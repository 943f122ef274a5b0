#include "collectives/sparse/steps/coo.h"

#include <array>
#include <cstring>
#include <functional>

#include "collectives/sparse/protocol/coo_steps.h"

namespace lsched {
namespace {

template <class Number>
Number read(const std::byte* from) {
  Number it;
  std::memcpy(&it, from, sizeof it);
  return it;
}

template <class Number>
void write(std::byte* to, Number it) {
  std::memcpy(to, &it, sizeof it);
}

/// Items to be, whose values are rounded a batch at a time; those for which there is no room are counted.
template <class Sum>
class rounded_items {
 public:
  rounded_items(std::byte* to, std::uint64_t room, dtype type, convert_fn round)
      : to_(to), room_(room), width_(size_of(type)), round_(round) {}

  void add(std::uint32_t index, Sum value) {
    if (count_++ >= room_) return;
    indices_[waiting_] = index;
    values_[waiting_] = value;
    if (++waiting_ == k_batch) flush();
  }

  std::uint64_t finish() {
    flush();
    return count_;
  }

 private:
  static constexpr std::size_t k_batch = 64;

  void flush() {
    alignas(8) std::array<std::byte, k_batch * sizeof(Sum)> rounded;
    round_(values_.data(), waiting_, 1, rounded.data());
    for (std::size_t i = 0; i < waiting_; ++i, to_ += sizeof(std::uint32_t) + width_) {
      write(to_, indices_[i]);
      std::memcpy(to_ + sizeof(std::uint32_t), rounded.data() + i * width_, width_);
    }
    waiting_ = 0;
  }

  std::byte* to_;
  std::uint64_t room_, count_ = 0;
  std::size_t width_, waiting_ = 0;
  convert_fn round_;
  std::array<std::uint32_t, k_batch> indices_;
  std::array<Sum, k_batch> values_;
};

/// visit(position in the vector, where its value is), for each item.
template <class Visit>
void for_each(std::span<const item_list> sums, std::span<const std::uint64_t> boundaries, dtype type,
              const Visit& visit) {
  const std::size_t width = item_size(type);
  for (std::size_t region = 0; region < sums.size(); ++region) {
    const std::byte* const begin = sums[region].items;
    for (std::uint64_t i = 0; i < sums[region].count; ++i) {
      const std::byte* const it = begin + i * width;
      visit(boundaries[region] + read<std::uint32_t>(it), it + sizeof(std::uint32_t));
    }
  }
}

}  // namespace

coo::coo(const coo_problem& of)
    : problem_(of),
      sums_(residual_of(of.type)),
      widen_(of.type == sums_ ? nullptr : find_convert(of.type, sums_)),
      round_(find_convert(sums_, of.type)),
      samples_(of.is_balanced ? sample_room(of) * static_cast<std::uint64_t>(of.place.size) : 0),
      order_(of.room),
      widened_(widen_ == nullptr ? 0 : of.room) {
  for (std::uint64_t r = 0; r <= static_cast<std::uint64_t>(of.place.size); ++r)
    boundaries_.push_back(equal_regions(of).begin(r));
  heap_.reserve(static_cast<std::size_t>(of.place.size));
  if (of.has_dense) last_.reserve(gathered_room(of));
}

// --- take -----------------------------------------------------------------------------------------------------------

coo_flaw coo::sort(const std::uint64_t* indices, const void* values, std::uint64_t number) {
  number_ = 0;
  if (number > problem_.room) return coo_flaw::many_items;
  for (std::uint64_t i = 0; i < number; ++i) {
    if (indices[i] >= problem_.count) return coo_flaw::large_index;
    order_[i] = {indices[i], i};
  }
  number_ = number;
  const std::span all(order_.data(), number);
  if (!std::ranges::is_sorted(all)) std::ranges::sort(all);  // positions make it stable
  values_ = values;
  if (widen_ == nullptr) return coo_flaw::none;
  widen_(values, number, 1, widened_.data());
  values_ = widened_.data();
  return coo_flaw::none;
}

void coo::sample(std::span<std::uint64_t> samples) const {
  std::size_t taken = 0;
  std::uint64_t different = 0;
  for (std::uint64_t i = 0; i < number_; ++i) {
    if (i > 0 && order_[i].index == order_[i - 1].index) continue;
    if (++different % sample_step(problem_) == 0) samples[taken++] = order_[i].index;
  }
  std::fill(samples.begin() + static_cast<std::ptrdiff_t>(taken), samples.end(), k_no_sample);
}

/// Without samples there is so little that anything will do.
void coo::set_boundaries(std::span<const std::uint64_t> samples) {
  std::ranges::copy(samples, samples_.begin());
  std::ranges::sort(samples_);
  const auto number = static_cast<std::uint64_t>(std::ranges::lower_bound(samples_, k_no_sample) - samples_.begin());
  const std::uint64_t ranks = boundaries_.size() - 1;
  for (std::uint64_t r = 1; r < ranks && number > 0; ++r) boundaries_[r] = samples_[r * number / ranks];
}

template <class Sum>
void coo::add_up(const Sum* values, std::byte* items, std::span<std::uint64_t> lengths) const {
  std::size_t region = 0;
  for (std::uint64_t i = 0; i < number_;) {
    const std::uint64_t index = order_[i].index;
    Sum sum = values[order_[i].position];
    for (++i; i < number_ && order_[i].index == index; ++i) sum += values[order_[i].position];
    while (index >= boundaries_[region + 1]) ++region;
    write(items, static_cast<std::uint32_t>(index - boundaries_[region]));
    write(items + sizeof(std::uint32_t), sum);
    items += sizeof(std::uint32_t) + sizeof sum;
    ++lengths[region];
  }
}

void coo::take(std::byte* items, std::span<std::uint64_t> lengths) {
  std::ranges::fill(lengths, 0);
  if (sums_ == dtype::f64)
    add_up(static_cast<const double*>(values_), items, lengths);
  else
    add_up(static_cast<const float*>(values_), items, lengths);
}

// --- sum ------------------------------------------------------------------------------------------------------------

/// The heap's first is the least index, and of equal ones the lowest rank's.
void coo::open(std::span<const item_list> lists, std::size_t width) {
  heap_.clear();
  for (std::uint32_t i = 0; i < lists.size(); ++i) {
    const auto& [items, count] = lists[i];
    if (count != 0) heap_.push_back({read<std::uint32_t>(items), i, items, items + count * width});
  }
  std::ranges::make_heap(heap_, std::greater(), [](const cursor& it) { return std::pair(it.index, it.list); });
}

/// Its first goes on by an item.
void coo::advance(std::size_t width) {
  const auto order = [](const cursor& it) { return std::pair(it.index, it.list); };
  std::ranges::pop_heap(heap_, std::greater(), order);
  cursor& it = heap_.back();
  it.at += width;
  if (it.at == it.end) return heap_.pop_back();
  it.index = read<std::uint32_t>(it.at);
  std::ranges::push_heap(heap_, std::greater(), order);
}

template <class Sum>
std::uint64_t coo::merge(std::span<const item_list> lists, std::byte* items) {
  constexpr std::size_t width = sizeof(std::uint32_t) + sizeof(Sum);
  const auto value = [this] { return read<Sum>(heap_.front().at + sizeof(std::uint32_t)); };
  rounded_items<Sum> to(items, sum_room(problem_), problem_.type, round_);
  open(lists, width);
  while (!heap_.empty()) {
    const std::uint32_t index = heap_.front().index;
    Sum sum = value();
    for (advance(width); !heap_.empty() && heap_.front().index == index; advance(width)) sum += value();
    to.add(index, sum);
  }
  return to.finish();
}

std::uint64_t coo::sum(std::span<const item_list> lists, std::byte* items) {
  return sums_ == dtype::f64 ? merge<double>(lists, items) : merge<float>(lists, items);
}

// --- judge, and give ------------------------------------------------------------------------------------------------

coo_verdict coo::judge(std::span<const std::uint64_t> tallies) const {
  coo_verdict all;
  for (std::size_t r = 0; r < tallies.size() / k_coo_tally; ++r) {
    const auto flaw = static_cast<coo_flaw>(tallies[r * k_coo_tally + 1]);
    if (flaw != coo_flaw::none) return {flaw, static_cast<rank>(r), 0};
    all.items += tallies[r * k_coo_tally];
  }
  if (all.items > problem_.result_room) all.flaw = coo_flaw::large_result;
  return all;
}

void coo::give_indices(std::span<const item_list> sums, std::uint64_t* indices) const {
  for_each(sums, boundaries_, problem_.type, [&](std::uint64_t position, const std::byte*) { *indices++ = position; });
}

void coo::give_values(std::span<const item_list> sums, std::byte* values) const {
  const std::size_t width = size_of(problem_.type);
  for_each(sums, boundaries_, problem_.type, [&](std::uint64_t, const std::byte* value) {
    std::memcpy(values, value, width);
    values += width;
  });
}

void coo::give_dense(std::span<const item_list> sums, std::byte* vector) {
  const std::size_t width = size_of(problem_.type);
  if (vector != last_vector_ && problem_.count != 0) std::memset(vector, 0, problem_.count * width);
  if (vector == last_vector_)
    for (const std::uint64_t position : last_) std::memset(vector + position * width, 0, width);
  last_vector_ = vector;
  last_.clear();
  for_each(sums, boundaries_, problem_.type, [&](std::uint64_t position, const std::byte* value) {
    std::memcpy(vector + position * width, value, width);
    last_.push_back(position);
  });
}

}  // namespace lsched
