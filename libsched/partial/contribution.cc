#include "libsched/partial/contribution.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <thread>
#include <utility>

#include "ops/float_mode.h"
#include "ops/saturating.h"

namespace lsched {

std::optional<std::uint32_t> spares::take() {
  std::uint64_t bits = bits_.load(std::memory_order_acquire);
  while (bits != 0) {
    if (bits_.compare_exchange_weak(bits, bits & (bits - 1), std::memory_order_acq_rel))
      return static_cast<std::uint32_t>(std::countr_zero(bits));
  }
  return std::nullopt;
}

void contribution::offer(std::span<const source_part> gradient, round_no call, std::uint64_t weight) {
  deposit({gradient, weight, weight, call});
}

void contribution::load(const std::byte* saved, std::uint64_t offers, round_no call) {
  const source_part whole{saved, how_.count};
  deposit({std::span(&whole, 1), offers, 1, call});  // the offers were multiplied by their weights before the save
}

void contribution::deposit(const offered& one) {
  const std::uint32_t spare = *spares_.take();
  if (add_to_pending(one, spare)) return;
  copy(one, buffers_[spare].data);
  buffers_[spare].offers = one.offers;
  buffers_[spare].since = buffers_[spare].newest = one.call;
  pending_.put(spare);
}

// Writes the sum of the pending contribution and `one` to the buffer `sum`, which then becomes the pending buffer.
// Returns false if nothing is pending, or if a capture has taken the pending contribution meanwhile.
bool contribution::add_to_pending(const offered& one, std::uint32_t sum) {
  const auto waiting = pending_.look();
  if (!waiting) return false;
  const default_float_mode here;
  const pending& old = buffers_[*waiting];
  pending& fresh = buffers_[sum];
  if (how_.merge) {
    copy(one, fresh.data);
    how_.merge(old.data, fresh.data);
  } else {
    const merging by{factor_of(old.newest, one.call), one.factor};
    for_each_part(one.gradient, how_, [&](const source_part& piece, std::uint64_t begin, std::uint64_t) {
      combine(old.data + begin, piece, by, fresh.data + begin);
    });
  }
  fresh.offers = saturating_sum(old.offers, one.offers);
  fresh.since = old.since;
  fresh.newest = std::max(old.newest, one.call);
  if (!pending_.replace(*waiting, sum)) return false;
  spares_.put(*waiting);
  return true;
}

void contribution::copy(const offered& one, std::byte* into) const {
  const default_float_mode here;
  for_each_part(one.gradient, how_, [&](const source_part& piece, std::uint64_t begin, std::uint64_t bytes) {
    if (one.factor == 1)
      std::memcpy(into + begin, piece.data, bytes);
    else
      how_.multiply(piece.data, into + begin, piece.count, one.factor);
  });
}

// Adds the later data to the earlier data, after both were multiplied by their factors. Works in blocks that fit into
// the first-level cache, so that each vector is read from memory once.
void contribution::combine(const std::byte* earlier, const source_part& later, const merging& by,
                           std::byte* into) const {
  if (by.fade == 1 && by.factor == 1) return how_.reduce(earlier, later.data, into, later.count);
  constexpr std::uint64_t k_block = 1024;
  const std::uint64_t element = how_.element_bytes();
  alignas(sizeof(std::uint64_t)) std::byte faded[k_block * sizeof(std::uint64_t)];
  for (std::uint64_t first = 0; first < later.count; first += k_block) {
    const std::uint64_t count = std::min(k_block, later.count - first), at = first * element;
    const std::byte *old = earlier + at, *fresh = later.data + at;
    if (by.fade != 1) how_.scale(std::exchange(old, faded), count, by.fade, faded);
    if (by.factor != 1) how_.multiply(std::exchange(fresh, into + at), into + at, count, by.factor);
    how_.reduce(old, fresh, into + at, count);
  }
}

std::byte* contribution::data_for(std::uint32_t buffer, round_no round) const {
  const double factor = factor_of(buffer, round);
  if (factor == 1) return buffers_[buffer].data;
  how_.scale(buffers_[buffer].data, how_.count, factor, aged_);
  return aged_;
}

void contribution::prepare(std::uint64_t begin, const source_part& one) {
  if (!prepared_) prepared_ = spares_.take();
  const std::uint64_t element = how_.element_bytes();
  if (one.count > 0) std::memcpy(buffers_[*prepared_].data + begin * element, one.data, one.count * element);
}

void contribution::commit(round_no call, std::uint64_t weight) {
  if (!prepared_) prepared_ = spares_.take();  // for a gradient without elements, prepare() was not called
  std::uint32_t made = *std::exchange(prepared_, std::nullopt);
  if (weight == 0) return spares_.put(made);
  std::uint32_t sum = *spares_.take();
  const source_part whole{buffers_[made].data, how_.count};
  const offered one{std::span(&whole, 1), weight, weight, call};
  if (add_to_pending(one, sum)) return spares_.put(made);
  if (weight != 1) {
    copy(one, buffers_[sum].data);
    std::swap(made, sum);
  }
  spares_.put(sum);
  buffers_[made].offers = weight;
  buffers_[made].since = buffers_[made].newest = call;
  pending_.put(made);
}

std::uint64_t contribution::withdraw() {
  if (prepared_) spares_.put(*std::exchange(prepared_, std::nullopt));
  const auto taken = pending_.take();
  if (!taken) return 0;
  const std::uint64_t offers = buffers_[*taken].offers;
  spares_.put(*taken);
  return offers;
}

// A capture may take the buffer during the copy. This is safe, because pending and captured buffers are only read.
std::uint64_t contribution::save(std::byte* into) const {
  const auto waiting = pending_.look();
  if (!waiting) return 0;
  const std::uint64_t offers = buffers_[*waiting].offers;
  if (how_.bytes > 0) std::memcpy(into, buffers_[*waiting].data, how_.bytes);
  return pending_.look() == waiting ? offers : 0;
}

void contribution::add(const pending& earlier, pending& later) const {
  const default_float_mode here;
  if (how_.merge)
    how_.merge(earlier.data, later.data);
  else if (how_.count > 0)
    combine(earlier.data, {later.data, how_.count}, {factor_of(earlier.newest, later.newest), 1}, later.data);
  later.offers = saturating_sum(later.offers, earlier.offers);
  later.since = earlier.since;
  later.newest = std::max(earlier.newest, later.newest);
}

void contribution::give_back(std::uint32_t buffer) {
  const auto waiting = pending_.take();
  if (!waiting) return pending_.put(buffer);
  add(buffers_[buffer], buffers_[*waiting]);
  spares_.put(buffer);
  pending_.put(*waiting);
}

std::vector<std::byte*> contribution::memory() const {
  std::vector<std::byte*> all;
  for (const pending& one : buffers_) all.push_back(one.data);
  if (aged_ != nullptr) all.push_back(aged_);
  return all;
}

void contribution::move_to(std::span<std::byte* const> memory) {
  for (std::uint32_t i = 0; i < k_buffers; ++i) {
    if (!spares_.has(i) && how_.bytes > 0) std::memcpy(memory[i], buffers_[i].data, how_.bytes);
    buffers_[i].data = memory[i];
  }
  if (aged_ != nullptr) aged_ = memory[k_buffers];  // has no data between rounds
}

std::vector<std::byte*> delivery::memory() const {
  std::vector<std::byte*> all;
  for (const slot& one : slots_) all.push_back(one.data);
  return all;
}

void delivery::move_to(std::span<std::byte* const> memory) {
  for (std::uint32_t i = 0; i < slots_.size(); ++i) {
    const bool is_newest = newest_.data != nullptr && slots_[i].data == newest_.data;
    const bool is_used = is_newest || (i != writing_ && !spares_.has(i));
    if (is_used && how_.bytes > 0) std::memcpy(memory[i], slots_[i].data, how_.bytes);
    slots_[i].data = memory[i];
    if (is_newest) newest_.data = memory[i];
  }
}

delivery::delivery(combiner how, lag_rule lag, std::span<std::byte* const> memory)
    : how_(std::move(how)), lag_(lag), slots_(lag.buffers()), queue_(lag.results), spares_(lag.buffers()) {
  for (std::uint32_t i = 0; i < lag.buffers(); ++i) slots_[i].data = memory[i];
  writing_ = *spares_.take();
}

void add_rounds(delivered& into, const delivered& older, lag_policy policy) {
  into.from = older.from;
  into.mine = saturating_sum(into.mine, older.mine);
  into.staleness = std::max(into.staleness, older.staleness);
  into.age_factor = std::min(into.age_factor, older.age_factor);
  if (policy != lag_policy::latest) {
    into.offers = saturating_sum(into.offers, older.offers);
  } else if (into.null) {
    into.offers = older.offers;
    into.in_result = older.in_result;
  }
}

// Publishes a result. If the queue is full, the last queued result is merged into the new one. If the last queued
// result is gone, the application has just taken it and all earlier results, so the queue is no longer full.
std::byte* delivery::publish(std::byte* data, const delivered& what) {
  slot& fresh = slots_[writing_];
  fresh.data = data;
  fresh.what = what;
  newest_ = {what.null ? nullptr : data, what};
  if (kept_) spares_.put(*std::exchange(kept_, std::nullopt));
  const bool has_room = !at(queued_).look();
  const auto uncollected = has_room ? std::nullopt : at(queued_ - 1).take();
  if (!uncollected) ++queued_;
  const bool is_combined = uncollected && absorb(fresh, slots_[*uncollected]);
  if (uncollected && fresh.what.null && !slots_[*uncollected].what.null) {
    fresh.what.null = false;  // the new round has no result, so the older result is published for both rounds
    std::swap(fresh.data, slots_[*uncollected].data);
  }
  if (is_combined)
    kept_ = uncollected;
  else if (uncollected)
    spares_.put(*uncollected);
  // At most `results` buffers are queued, the application holds one, and one may be kept. So a spare buffer exists. The
  // spare buffer is taken before the new result is queued. Otherwise the application could collect the new result
  // first, and this result's buffer would become the spare buffer. The next round would then overwrite newest_.
  const std::uint32_t done = std::exchange(writing_, *spares_.take());
  at(queued_ - 1).put(done);
  published_.store(what.to, std::memory_order_release);
  return slots_[writing_].data;
}

// Merges an older result into the newest result. Returns true if data was combined. The memory of the older result then
// holds the combined data, and the memory of the newest result is unchanged.
bool delivery::absorb(slot& into, slot& older) {
  add_rounds(into.what, older.what, lag_.policy);
  if (lag_.policy == lag_policy::latest || into.what.null || older.what.null) return false;
  if (how_.count > 0) how_.reduce(older.data, into.data, older.data, how_.count);
  std::swap(into.data, older.data);
  return true;
}

void delivery::copy(const std::byte* result, std::span<const target_part> into) const {
  for_each_part(into, how_, [&](const target_part& piece, std::uint64_t begin, std::uint64_t bytes) {
    std::memcpy(piece.data, result + begin, bytes);
  });
}

std::optional<delivered> delivery::collect(std::span<const target_part> result) {
  const auto one = borrow();
  if (!one) return std::nullopt;
  if (!one->what.null) copy(one->data, result);
  give_back();
  return one->what;
}

void delivery::give_back() {
  if (lent_) spares_.put(*std::exchange(lent_, std::nullopt));
}

// While publish() replaces the last result by a newer one, the queue is empty for a moment, although an uncollected
// result exists. So this function waits for the end of publish(), which itself never waits. The previous loan ends
// first, because no buffer exists for a second loan.
std::optional<delivery::loan> delivery::borrow() {
  for (;;) {
    const round_no published = published_.load(std::memory_order_acquire);
    if (at(taken_).look()) {
      give_back();
      if (const auto taken = at(taken_).take()) {
        const slot& first = slots_[*taken];
        lent_ = taken;
        collected_ = first.what;
        ++taken_;
        return loan{first.data, first.what};
      }
    } else if (collected_.to >= published) {
      return std::nullopt;
    }
    std::this_thread::yield();
  }
}

}  // namespace lsched
