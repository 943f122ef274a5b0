// The event queue of the simulator. Pending events are stored in time windows of equal width.
//
// The lookahead (at most o + L) is the minimum time between an event at one rank and the events that it causes at other
// ranks. A window is at most as wide as the lookahead, so its events cause no events of other ranks in the same window.
// Therefore a window is removed as a whole. A counting sort divides its events into blocks of ranks. Then the events of
// each block are sorted. The events of each rank are handled separately, in the order of time, source, kind and tag. A
// window is a linked list of small chunks. A ring buffer stores the next k_ring windows, and a heap stores the events
// of later windows.
//
// Ranks that share a NIC form a group. The events of a group are handled in one common order. A group consists of
// consecutive ranks, and all groups have the same size.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "libsched/simulate/packed_world.h"
#include "libsched/simulate/transfer.h"

namespace lsched {

enum class event_kind : std::uint8_t { start, signal, data, request, grant, moved, deadline };

/// The kind of an event, and the op to which the event belongs.
struct label {
  event_kind kind = event_kind::start;
  op_id op = 0;
};
constexpr std::uint32_t number_of(const label& one) { return one.op << 3 | static_cast<std::uint32_t>(one.kind); }
constexpr label label_of(std::uint32_t number) { return {static_cast<event_kind>(number & 7), number >> 3}; }

/// Returns true if event x is handled before event y. Both events must arrive at rank `self` in the same picosecond.
/// Events are ordered by the rank that caused them, then by kind, then by tag.
inline bool is_before(const packed_world& world, rank self, const label& x, const label& y) {
  const auto [number, index] = world.member(self);
  const packed_shape& shape = world.shapes()[number];
  const auto cause = [&, its = index](const label& event) {
    const bool is_own = event.kind == event_kind::start || event.kind == event_kind::moved;
    const packed_op& op = shape.ops()[event.op];
    return std::tuple(is_own ? self : world.peer_of(shape, op, self, its), event.kind,
                      is_own ? 0 : packed_world::tag_of(shape, op, its));
  };
  return cause(x) < cause(y);
}

/// The stored form of a pending event. If `Time` is traced_time, the form also contains the longest path to the event.
template <class Time>
struct event_code {
  struct event {
    Time when{};
    rank rank_of = 0;
    std::uint32_t number = 0;
  };
  int time_bits;  ///< number of bits of a time inside a window

  event_code(const packed_world&, picoseconds width)
      : time_bits(static_cast<int>(std::bit_width(static_cast<std::uint64_t>(width))) - 1) {}
  static event pack(const Time& when, rank r, const label& what) { return {when, r, number_of(what)}; }
  static rank who(const event& one) { return one.rank_of; }
  static label what(const event& one) { return label_of(one.number); }
  static picoseconds order(const event& one) { return instant_of(one.when); }
  static Time time(const event& one, picoseconds) { return one.when; }
};

/// If `Time` is picoseconds, an event has 8 bytes: the rank, the time since the beginning of the window, and the label.
/// If labels need many bits, the windows are made narrower, so that all three fit.
template <>
struct event_code<picoseconds> {
  using event = std::uint64_t;
  int label_bits, time_bits;

  event_code(const packed_world& world, picoseconds width) : label_bits(bits_of_labels(world)) {
    const int rank_bits = static_cast<int>(std::bit_width(static_cast<unsigned>(world.size() - 1)));
    const int width_bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(width))) - 1;
    time_bits = std::min(width_bits, 64 - rank_bits - label_bits);
  }
  static int bits_of_labels(const packed_world& world) {
    std::size_t most = 1;
    for (const packed_shape& shape : world.shapes()) most = std::max(most, shape.ops().size());
    return static_cast<int>(std::bit_width(most)) + 3;
  }
  event pack(picoseconds when, rank r, const label& what) const {
    const auto since = static_cast<std::uint64_t>(when) & ((std::uint64_t{1} << time_bits) - 1);
    return (static_cast<std::uint64_t>(r) << time_bits | since) << label_bits | number_of(what);
  }
  rank who(event one) const { return static_cast<rank>(one >> label_bits >> time_bits); }
  label what(event one) const {
    return label_of(static_cast<std::uint32_t>(one & ((std::uint64_t{1} << label_bits) - 1)));
  }
  picoseconds order(event one) const {
    return static_cast<picoseconds>(one >> label_bits & ((std::uint64_t{1} << time_bits) - 1));
  }
  picoseconds time(event one, picoseconds begin) const { return begin + order(one); }
};

template <class Time>
class event_queue {
 public:
  using code = event_code<Time>;
  using stored = typename code::event;

  /// The width of windows is the largest possible power of two, at most `width`. A group has `group` ranks.
  event_queue(const packed_world& world, picoseconds width, rank group)
      : world_(world),
        code_(world, width),
        group_(group),
        block_shift_(
            std::max(0, static_cast<int>(std::bit_width(static_cast<unsigned>(world.size()))) - k_block_bits)) {
    heads_.fill(k_none);
  }

  /// Adds an event. The event must not be earlier than the window that take() returned last. If the event is in that
  /// window, the next take() returns that window again, with only the new events.
  void push(const Time& time, rank r, const label& what) {
    const std::int64_t window = instant_of(time) >> code_.time_bits;
    const stored event = code_.pack(time, r, what);
    if (window < base_ + k_ring) return push_near(event, window);
    far_.emplace_back(window, event);
    std::push_heap(far_.begin(), far_.end(), is_later);
  }

  bool is_empty() const { return near_count_ == 0 && far_.empty(); }

  /// Removes all events of the earliest non-empty window, and returns them sorted by group, then by time. time_of(),
  /// rank_of() and label_of() decode these events.
  const std::vector<stored>& take() {
    base_ = near_count_ > 0 ? base_ + distance_to_first() : far_.front().first;
    while (!far_.empty() && far_.front().first < base_ + k_ring) {
      push_near(far_.front().second, far_.front().first);
      std::pop_heap(far_.begin(), far_.end(), is_later);
      far_.pop_back();
    }
    const std::size_t place = place_of(base_);
    std::uint32_t head = heads_[place];
    heads_[place] = k_none;
    used_[place / 64] &= ~(std::uint64_t{1} << place % 64);
    sort(head);
    near_count_ -= taken_.size();
    while (head != k_none) {
      const std::uint32_t next = chunk_at(head).next;
      chunk_at(head).next = free_;
      free_ = std::exchange(head, next);
    }
    return taken_;
  }

  // These functions decode an event that the last take() returned.
  Time time_of(const stored& event) const { return code_.time(event, base_ << code_.time_bits); }
  rank rank_of(const stored& event) const { return code_.who(event); }
  label label_of(const stored& event) const { return code_.what(event); }

  /// Returns the number of bytes of memory in use. Memory is freed only by the destructor, so the result is also the
  /// maximum so far.
  std::size_t memory() const {
    return sizeof(*this) + slabs_.size() * k_slab * sizeof(chunk) + far_.capacity() * sizeof(far_[0]) +
           taken_.capacity() * sizeof(stored);
  }

 private:
  static constexpr std::int64_t k_ring = 4096;
  static constexpr int k_block_bits = 11;    ///< base-2 logarithm of the maximum number of blocks of ranks
  static constexpr std::size_t k_few = 256;  ///< maximum number of events that are sorted without blocks
  static constexpr std::uint32_t k_none = ~0u;
  static constexpr std::size_t k_slab = 256, k_chunk = 63;

  struct chunk {
    std::uint32_t next = k_none;
    std::uint32_t count = 0;
    std::array<stored, k_chunk> events;
  };
  using far_event = std::pair<std::int64_t, stored>;  ///< index of the window, and event
  static bool is_later(const far_event& x, const far_event& y) { return x.first > y.first; }

  static std::size_t place_of(std::int64_t window) { return static_cast<std::size_t>(window % k_ring); }
  chunk& chunk_at(std::uint32_t i) { return slabs_[i / k_slab][i % k_slab]; }

  void push_near(const stored& event, std::int64_t window) {
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

  rank group_of(const stored& event) const { return group_ == 1 ? code_.who(event) : code_.who(event) / group_; }

  bool comes_before(const stored& x, const stored& y) const {
    if (group_of(x) != group_of(y)) return group_of(x) < group_of(y);
    if (code_.order(x) != code_.order(y)) return code_.order(x) < code_.order(y);
    if (code_.who(x) != code_.who(y)) return code_.who(x) < code_.who(y);
    return is_before(world_, code_.who(x), code_.what(x), code_.what(y));
  }

  /// Copies the events of a list of chunks to taken_, in sorted order.
  void sort(std::uint32_t head) {
    std::size_t count = 0;
    for (std::uint32_t i = head; i != k_none; i = chunk_at(i).next) count += chunk_at(i).count;
    taken_.resize(count);
    const bool has_blocks = count > k_few;
    const auto block_of = [&](const stored& event) {
      return has_blocks ? static_cast<std::size_t>(group_of(event) >> block_shift_) : 0;
    };
    const auto for_each_event = [&](const auto& act) {
      for (std::uint32_t i = head; i != k_none; i = chunk_at(i).next)
        std::for_each_n(chunk_at(i).events.begin(), chunk_at(i).count, act);
    };
    ends_.assign(has_blocks ? (1 << k_block_bits) + 1 : 2, 0);
    for_each_event([&](const stored& event) { ++ends_[block_of(event) + 1]; });
    std::partial_sum(ends_.begin(), ends_.end(), ends_.begin());
    for_each_event([&](const stored& event) { taken_[ends_[block_of(event)]++] = event; });
    std::uint32_t begin = 0;
    for (const std::uint32_t end : ends_) {  // the counting sort has made each element the end of its block
      if (end > begin + 1)
        std::sort(taken_.begin() + begin, taken_.begin() + end,
                  [this](const stored& x, const stored& y) { return comes_before(x, y); });
      begin = std::max(begin, end);
    }
  }

  const packed_world& world_;
  const code code_;
  rank group_;
  int block_shift_;
  std::int64_t base_ = 0;
  std::size_t near_count_ = 0;
  std::array<std::uint32_t, k_ring> heads_;
  std::array<std::uint64_t, k_ring / 64> used_{};
  std::vector<std::unique_ptr<chunk[]>> slabs_;
  std::uint32_t free_ = k_none;
  std::vector<far_event> far_;  ///< heap of events, the earliest window first
  std::vector<stored> taken_;
  std::vector<std::uint32_t> ends_;  ///< end of each block in taken_
};

}  // namespace lsched
