#include "collectives/sparse/steps/coo.h"

#include <array>
#include <cstring>
#include <functional>

#include "ops/unaligned.h"

namespace lsched {
namespace {

/// Writes items, and rounds their values in batches. Items beyond the capacity are counted, but not written.
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
      write_unaligned(to_, indices_[i]);
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

constexpr std::uint64_t k_no_sample = ~std::uint64_t{0};

}  // namespace

coo_functions::coo_functions(const coo_problem& problem)
    : problem_(problem),
      sums_(residual_of(problem.type)),
      widen_(problem.type == sums_ ? nullptr : find_convert(problem.type, sums_)),
      round_(find_convert(sums_, problem.type)),
      samples_(problem.is_balanced ? sample_room(problem) * problem.ranks() : 0),
      order_(problem.room),
      widened_(widen_ == nullptr ? 0 : problem.room),
      lengths_(problem.ranks()),
      lists_(lengths_.size()),
      dense_(problem.type, problem.count, problem.has_dense ? gathered_room(problem) : 0) {
  for (std::uint64_t r = 0; r <= lengths_.size(); ++r) boundaries_.push_back(equal_regions(problem).begin(r));
  heap_.reserve(lengths_.size());
}

status coo_functions::call(std::uint32_t number, round_no round, const function_input& source, const function_input& by,
                           const function_output& target) {
  const auto given = [&] { return source.numbers<std::uint64_t>(); };
  const auto made = [&] { return target.numbers<std::uint64_t>(); };
  const bool is_good = status_.flaw == coo_flaw::none, is_wide = sums_ == dtype::f64;
  switch (static_cast<coo_step>(number)) {
    case coo_step::see_indices: user_indices_ = given().data(); break;
    case coo_step::see_values: user_values_ = source.data; break;
    case coo_step::sample:
      sort(given()[0]);
      sample(made());
      break;
    case coo_step::take:
      if (problem_.is_balanced)
        set_boundaries(by.numbers<std::uint64_t>());
      else
        sort(given()[0]);
      is_wide ? add_up<double>(target.data) : add_up<float>(target.data);
      return lay_out(target, lengths_);
    case coo_step::sum:
      gather(source, lists_);
      items_ = is_wide ? merge<double>(target.data) : merge<float>(target.data);
      return set_length(target, std::min(items_, sum_room(problem_)));
    case coo_step::tally: made()[0] = items_, made()[1] = static_cast<std::uint64_t>(flaw_); break;
    case coo_step::plan: plan(round, by.numbers<std::uint64_t>(), made()); break;
    case coo_step::keep: return is_good ? status::ok : set_length(target, 0);
    case coo_step::give_indices:
      gather(source, lists_);
      for_each_sum([to = made().data()](std::uint64_t position, const std::byte*) mutable { *to++ = position; });
      break;
    case coo_step::give_values:
      for_each_sum([to = target.data, width = size_of(problem_.type)](std::uint64_t, const std::byte* value) mutable {
        std::memcpy(to, value, width);
        to += width;
      });
      break;
    case coo_step::give_count: made()[0] = status_.items; break;
    case coo_step::give_dense:
      if (is_good) give_dense(target.data);
      break;
    default: return status::internal;
  }
  return status::ok;
}

coo_status coo_functions::status_of(round_no round) const {
  if (bad_round_.load() != round) return {};
  return {bad_flaw_.load(), bad_culprit_.load(), bad_items_.load()};
}

// --- take -----------------------------------------------------------------------------------------------------------

/// Checks and sorts the user's items of this round, for step `take`. If any item is invalid, this rank contributes no
/// items.
void coo_functions::sort(std::uint64_t number) {
  flaw_ = order(number);
  number_ = flaw_ == coo_flaw::none ? number : 0;
  const std::span all(order_.data(), number_);
  if (!std::ranges::is_sorted(all)) std::ranges::sort(all);  // ties are in the user's order
  values_ = widen_ == nullptr ? static_cast<const void*>(user_values_) : widened_.data();
  if (widen_ != nullptr) widen_(user_values_, number_, 1, widened_.data());
}

coo_flaw coo_functions::order(std::uint64_t number) {
  if (number > problem_.room) return coo_flaw::many_items;
  for (std::uint64_t i = 0; i < number; ++i) {
    if (user_indices_[i] >= problem_.count) return coo_flaw::large_index;
    order_[i] = {user_indices_[i], i};
  }
  return coo_flaw::none;
}

/// Samples the distinct indices, ascending, with distance sample_step(). Fills the rest of `samples` with k_no_sample.
void coo_functions::sample(std::span<std::uint64_t> samples) const {
  std::size_t taken = 0;
  std::uint64_t different = 0;
  for (std::uint64_t i = 0; i < number_; ++i) {
    if (i > 0 && order_[i].index == order_[i - 1].index) continue;
    if (++different % sample_step(problem_) == 0) samples[taken++] = order_[i].index;
  }
  std::fill(samples.begin() + static_cast<std::ptrdiff_t>(taken), samples.end(), k_no_sample);
}

/// Sets the boundaries from the samples of all ranks. If there are no samples, there are few items, and the boundaries
/// stay unchanged.
void coo_functions::set_boundaries(std::span<const std::uint64_t> samples) {
  std::ranges::copy(samples, samples_.begin());
  std::ranges::sort(samples_);
  const auto number = static_cast<std::uint64_t>(std::ranges::lower_bound(samples_, k_no_sample) - samples_.begin());
  const std::uint64_t ranks = boundaries_.size() - 1;
  for (std::uint64_t r = 1; r < ranks && number > 0; ++r) boundaries_[r] = samples_[r * number / ranks];
}

/// Writes the lists for all regions to `items`, in region order. Writes the lengths of the lists to lengths_. Values
/// with the same index are added.
template <class Sum>
void coo_functions::add_up(std::byte* items) {
  const auto* values = static_cast<const Sum*>(values_);
  std::ranges::fill(lengths_, 0);
  std::size_t region = 0;
  for (std::uint64_t i = 0; i < number_;) {
    const std::uint64_t index = order_[i].index;
    Sum sum = values[order_[i].position];
    for (++i; i < number_ && order_[i].index == index; ++i) sum += values[order_[i].position];
    while (index >= boundaries_[region + 1]) ++region;
    write_unaligned(items, static_cast<std::uint32_t>(index - boundaries_[region]));
    write_unaligned(items + sizeof(std::uint32_t), sum);
    items += sizeof(std::uint32_t) + sizeof sum;
    ++lengths_[region];
  }
}

// --- sum ------------------------------------------------------------------------------------------------------------

/// Makes a heap of cursors, one for each list. The cursor with the lowest index is at the top. If indices are equal,
/// the lowest rank comes first.
void coo_functions::open(std::size_t width) {
  heap_.clear();
  for (std::uint32_t i = 0; i < lists_.size(); ++i) {
    const auto& [items, count] = lists_[i];
    if (count != 0) heap_.push_back({read_unaligned<std::uint32_t>(items), i, items, items + count * width});
  }
  std::ranges::make_heap(heap_, std::greater(), [](const cursor& one) { return std::pair(one.index, one.list); });
}

/// Moves the cursor at the top of the heap to its next item.
void coo_functions::advance(std::size_t width) {
  const auto order = [](const cursor& one) { return std::pair(one.index, one.list); };
  std::ranges::pop_heap(heap_, std::greater(), order);
  cursor& last = heap_.back();
  last.at += width;
  if (last.at == last.end) return heap_.pop_back();
  last.index = read_unaligned<std::uint32_t>(last.at);
  std::ranges::push_heap(heap_, std::greater(), order);
}

/// Merges the lists and writes at most sum_room(problem) items of the sum. Returns the length of the whole sum, which
/// can exceed this capacity.
template <class Sum>
std::uint64_t coo_functions::merge(std::byte* items) {
  constexpr std::size_t width = sizeof(std::uint32_t) + sizeof(Sum);
  const auto value = [this] { return read_unaligned<Sum>(heap_.front().at + sizeof(std::uint32_t)); };
  rounded_items<Sum> to(items, sum_room(problem_), problem_.type, round_);
  open(width);
  while (!heap_.empty()) {
    const std::uint32_t index = heap_.front().index;
    Sum sum = value();
    for (advance(width); !heap_.empty() && heap_.front().index == index; advance(width)) sum += value();
    to.add(index, sum);
  }
  return to.finish();
}

// --- plan, and give -------------------------------------------------------------------------------------------------

coo_status coo_functions::status_of_all(std::span<const std::uint64_t> tallies) const {
  coo_status all;
  for (std::size_t r = 0; r < tallies.size() / k_coo_tally; ++r) {
    const auto flaw = static_cast<coo_flaw>(tallies[r * k_coo_tally + 1]);
    if (flaw != coo_flaw::none) return {flaw, static_cast<rank>(r), 0};
    all.items += tallies[r * k_coo_tally];
  }
  if (all.items > problem_.result_room) all.flaw = coo_flaw::large_result;
  return all;
}

void coo_functions::plan(round_no round, std::span<const std::uint64_t> tallies, std::span<std::uint64_t> lengths) {
  status_ = status_of_all(tallies);
  const bool is_good = status_.flaw == coo_flaw::none;
  for (std::size_t r = 0; r < lengths.size(); ++r) lengths[r] = is_good ? tallies[r * k_coo_tally] : 0;
  if (is_good) return;
  bad_flaw_.store(status_.flaw);
  bad_culprit_.store(status_.culprit);
  bad_items_.store(status_.items);
  bad_round_.store(round);
}

/// Calls visit(position in the vector, address of the value) for each item in the sums of all regions.
template <class Visit>
void coo_functions::for_each_sum(Visit visit) const {
  const std::size_t width = item_size(problem_.type);
  for (std::size_t region = 0; region < lists_.size(); ++region)
    for (std::uint64_t i = 0; i < lists_[region].count; ++i) {
      const std::byte* const item = lists_[region].items + i * width;
      visit(boundaries_[region] + read_unaligned<std::uint32_t>(item), item + sizeof(std::uint32_t));
    }
}

void coo_functions::give_dense(std::byte* vector) {
  const std::size_t width = size_of(problem_.type);
  dense_.clear(vector);
  for_each_sum([&](std::uint64_t position, const std::byte* value) {
    std::memcpy(vector + position * width, value, width);
    dense_.note(position);
  });
}

}  // namespace lsched
