// The event queue: pending events in windows of equal width, and no heap.
//
// Nothing that a rank does is felt by another sooner than one width, o + L, later. So the events of a window can be
// taken out together, and each rank's be handled by themselves in the order of time, then source, then sequence. A
// window is a chain of small chunks; taking it out sorts it by blocks of ranks (counting), then inside each block.
// Windows further than the ring reaches wait in a list of their own. O(1) per event.
//
// Ranks that share something are a group; with IsGrouped, a group's events are handled in one order. Groups are of
// neighbours and of equal size.
//
// How an event is kept is the Code's business; inside its window it need not say which one that is.
//
//   Code::event · pack(time, rank, label) · rank who(event) · picoseconds order(event): its instant, or as good inside
//   the window · bool is_before(event, event): ties, at one rank
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "libsched/simulate/loggops.h"

namespace lsched {

template <class Code, bool IsGrouped = false>
class event_queue {
 public:
  using Event = typename Code::event;

  /// Windows are as wide as 2^shift_of(width).
  event_queue(rank size, picoseconds width, rank group, const Code& code)
      : code_(code),
        group_(group),
        window_shift_(shift_of(width)),
        block_shift_(std::max(0, static_cast<int>(std::bit_width(static_cast<unsigned>(size))) - k_block_bits)) {}

  /// The largest power of two up to `width`.
  static int shift_of(picoseconds width) {
    return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(width))) - 1;
  }
  std::int64_t window_of(picoseconds time) const { return time >> window_shift_; }
  picoseconds begin_of(std::int64_t window) const { return window << window_shift_; }

  /// `event` happens at `time`, in the window last taken or later; in that one only before it is asked for again.
  void push(picoseconds time, const Event& event) {
    const std::int64_t window = window_of(time);
    if (window >= base_ + k_ring) return push_far(event, window);
    push_near(event, window);
  }

  bool is_empty() const { return near_count_ == 0 && far_.empty(); }

  /// The earliest window that has events; only if there are any.
  std::int64_t first_window() const { return near_count_ > 0 ? base_ + distance_to_first() : first_far_; }

  /// Takes all events of a window, the earliest there is or an empty one before it, in the order of ranks, then times.
  const std::vector<Event>& take(std::int64_t window) {
    base_ = window;
    if (!far_.empty() && first_far_ < base_ + k_ring) bring_near();
    const std::size_t place = place_of(window);
    const std::uint32_t head = heads_[place];
    heads_[place] = k_none;
    used_[place / 64] &= ~(std::uint64_t{1} << place % 64);
    std::size_t count = 0;
    for (std::uint32_t at = head; at != k_none; at = chunk_at(at).next) count += chunk_at(at).count;
    near_count_ -= count;
    taken_.resize(count);
    count <= k_few ? sort_few(head) : sort_by_blocks(head);
    release(head);
    return taken_;
  }

  /// Bytes held at the moment; nothing is given back before the end, so this is the most so far.
  std::size_t memory() const {
    return sizeof(*this) + slabs_.size() * k_slab * sizeof(chunk) + far_.capacity() * sizeof(far_[0]) +
           taken_.capacity() * sizeof(Event);
  }

 private:
  static constexpr std::int64_t k_ring = 4096;
  static constexpr int k_block_bits = 11;    ///< at most 2^11 blocks of ranks
  static constexpr std::size_t k_few = 256;  ///< so many are sorted without blocks
  static constexpr std::uint32_t k_none = ~0u;
  static constexpr std::size_t k_slab = 256, k_chunk = 63;

  struct chunk {
    std::uint32_t next = k_none;
    std::uint32_t count = 0;
    std::array<Event, k_chunk> events;
  };

  static std::size_t place_of(std::int64_t window) { return static_cast<std::size_t>(window % k_ring); }
  chunk& chunk_at(std::uint32_t i) { return slabs_[i / k_slab][i % k_slab]; }

  void push_near(const Event& event, std::int64_t window) {
    const std::size_t place = place_of(window);
    std::uint32_t& head = heads_[place];
    if (head == k_none || chunk_at(head).count == k_chunk) {
      const std::uint32_t fresh = new_chunk();
      chunk_at(fresh).next = head;
      head = fresh;
      used_[place / 64] |= std::uint64_t{1} << place % 64;
    }
    chunk& to = chunk_at(head);
    to.events[to.count++] = event;
    ++near_count_;
  }

  std::uint32_t new_chunk() {
    if (free_ == k_none) {
      const auto first = static_cast<std::uint32_t>(slabs_.size() * k_slab);
      slabs_.push_back(std::make_unique<chunk[]>(k_slab));
      for (std::uint32_t i = 0; i < k_slab; ++i) chunk_at(first + i).next = i + 1 < k_slab ? first + i + 1 : k_none;
      free_ = first;
    }
    const std::uint32_t fresh = free_;
    free_ = chunk_at(fresh).next;
    chunk_at(fresh).count = 0;
    return fresh;
  }

  void push_far(const Event& event, std::int64_t window) {
    first_far_ = far_.empty() ? window : std::min(first_far_, window);
    far_.push_back({window, event});
  }

  void bring_near() {
    std::size_t kept = 0;
    first_far_ = std::numeric_limits<std::int64_t>::max();
    for (const auto& [window, event] : far_) {
      if (window < base_ + k_ring) {
        push_near(event, window);
      } else {
        first_far_ = std::min(first_far_, window);
        far_[kept++] = {window, event};
      }
    }
    far_.erase(far_.begin() + static_cast<std::ptrdiff_t>(kept), far_.end());
  }

  std::int64_t distance_to_first() const {
    const std::size_t begin = place_of(base_);
    for (std::size_t i = 0; i <= used_.size(); ++i) {
      std::uint64_t word = used_[(begin / 64 + i) % used_.size()];
      if (i == 0) word &= ~std::uint64_t{0} << begin % 64;
      if (i == used_.size()) word &= ~(~std::uint64_t{0} << begin % 64);
      if (word == 0) continue;
      const auto found = static_cast<std::int64_t>((begin / 64 + i) * 64) + std::countr_zero(word);
      return found - static_cast<std::int64_t>(begin);
    }
    return k_ring;
  }

  rank group_of(const Event& it) const {
    if constexpr (IsGrouped)
      return code_.who(it) / group_;
    else
      return code_.who(it);
  }

  auto order() const {
    return [this](const Event& x, const Event& y) {
      if (group_of(x) != group_of(y)) return group_of(x) < group_of(y);
      if (code_.order(x) != code_.order(y)) return code_.order(x) < code_.order(y);
      if (IsGrouped && code_.who(x) != code_.who(y)) return code_.who(x) < code_.who(y);
      return code_.is_before(x, y);
    };
  }

  template <class Place>
  void scatter(std::uint32_t head, Place place_of_event) {
    for (std::uint32_t at = head; at != k_none; at = chunk_at(at).next) {
      const chunk& from = chunk_at(at);
      for (std::uint32_t i = 0; i < from.count; ++i) taken_[place_of_event(from.events[i])] = from.events[i];
    }
  }

  void sort_few(std::uint32_t head) {
    std::size_t filled = 0;
    scatter(head, [&](const Event&) { return filled++; });
    std::sort(taken_.begin(), taken_.end(), order());
  }

  void sort_by_blocks(std::uint32_t head) {
    std::array<std::uint32_t, (1 << k_block_bits) + 1> ends{};
    const auto block_of = [&](const Event& it) { return static_cast<std::size_t>(group_of(it) >> block_shift_); };
    for (std::uint32_t at = head; at != k_none; at = chunk_at(at).next)
      for (std::uint32_t i = 0; i < chunk_at(at).count; ++i) ++ends[block_of(chunk_at(at).events[i]) + 1];
    for (std::size_t i = 1; i < ends.size(); ++i) ends[i] += ends[i - 1];
    scatter(head, [&](const Event& it) { return ends[block_of(it)]++; });  // now each holds the end of its block
    std::uint32_t begin = 0;
    for (const std::uint32_t end : ends) {
      if (end > begin + 1) std::sort(taken_.begin() + begin, taken_.begin() + end, order());
      begin = std::max(begin, end);
    }
  }

  void release(std::uint32_t head) {
    while (head != k_none) {
      const std::uint32_t next = chunk_at(head).next;
      chunk_at(head).next = free_;
      free_ = head;
      head = next;
    }
  }

  const Code code_;
  rank group_;
  int window_shift_;
  int block_shift_;
  std::int64_t base_ = 0;
  std::size_t near_count_ = 0;
  std::array<std::uint32_t, k_ring> heads_ = all_none();
  std::array<std::uint64_t, k_ring / 64> used_{};
  std::vector<std::unique_ptr<chunk[]>> slabs_;
  std::uint32_t free_ = k_none;
  std::vector<std::pair<std::int64_t, Event>> far_;  ///< with their windows
  std::int64_t first_far_ = 0;
  std::vector<Event> taken_;

  static std::array<std::uint32_t, k_ring> all_none() {
    std::array<std::uint32_t, k_ring> none;
    none.fill(k_none);
    return none;
  }
};

}  // namespace lsched
