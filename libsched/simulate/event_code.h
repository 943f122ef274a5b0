// How the event engine stores a pending event (event_queue.h: Code), and the order of events at the same instant.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <tuple>

#include "libsched/simulate/event_queue.h"
#include "libsched/simulate/packed_world.h"

namespace lsched {

enum class event_kind : std::uint8_t { start, signal, data, request, grant, moved };

/// What happens at a rank, and the op of the rank that it happens to.
struct label {
  event_kind kind = event_kind::start;
  op_id op = 0;
};
constexpr std::uint32_t number_of(const label& one) { return one.op << 3 | static_cast<std::uint32_t>(one.kind); }
constexpr label label_of(std::uint32_t number) { return {static_cast<event_kind>(number & 7), number >> 3}; }

/// The order of two events that reach rank `who` in the same picosecond: by the rank that caused the event, then by
/// kind, then by tag.
inline bool is_before(const packed_world& world, rank who, const label& x, const label& y) {
  const auto [shape, index] = world.member(who);
  const packed_shape& mine = world.shapes()[shape];
  const auto cause = [&](const label& event) {
    const bool is_own = event.kind == event_kind::start || event.kind == event_kind::moved;
    const packed_op& op = mine.ops()[event.op];
    return std::tuple(is_own ? who : world.peer_of(mine, op, who, index), event.kind,
                      is_own ? 0 : packed_world::tag_of(mine, op, index));
  };
  return cause(x) < cause(y);
}

/// Events that hold their instant, and with traced_time the longest path to this instant.
template <class Time>
struct wide_code {
  struct event {
    Time when{};
    rank rank_of = 0;
    std::uint32_t number = 0;
  };
  const packed_world* world;

  wide_code(const packed_world& all, picoseconds) : world(&all) {}
  static event pack(const Time& when, rank who, const label& what) { return {when, who, number_of(what)}; }
  static rank who(const event& one) { return one.rank_of; }
  static label what(const event& one) { return label_of(one.number); }
  static picoseconds order(const event& one) { return instant_of(one.when); }
  static Time time(const event& one, picoseconds) { return one.when; }
  bool is_before(const event& x, const event& y) const { return lsched::is_before(*world, who(x), what(x), what(y)); }
};

/// Events in 8 bytes: rank, time since the beginning of the window, label. The window itself says the rest of the time.
struct narrow_code {
  using event = std::uint64_t;
  const packed_world* world;
  int time_bits, label_bits;

  narrow_code(const packed_world& all, picoseconds width)
      : world(&all), time_bits(event_queue<narrow_code>::shift_of(width)), label_bits(bits_of_labels(all)) {}
  static int bits_of_labels(const packed_world& all) {
    std::size_t most = 1;
    for (const packed_shape& shape : all.shapes()) most = std::max(most, shape.ops().size());
    return static_cast<int>(std::bit_width(most)) + 3;
  }
  static bool is_possible(const packed_world& all, picoseconds width) {
    const narrow_code code(all, width);
    return static_cast<int>(std::bit_width(static_cast<unsigned>(all.size()))) + code.time_bits + code.label_bits <= 64;
  }
  event pack(picoseconds when, rank who, const label& what) const {
    const auto since = static_cast<std::uint64_t>(when) & ((std::uint64_t{1} << time_bits) - 1);
    return (static_cast<std::uint64_t>(who) << time_bits | since) << label_bits | number_of(what);
  }
  rank who(event one) const { return static_cast<rank>(one >> label_bits >> time_bits); }
  label what(event one) const {
    return label_of(static_cast<std::uint32_t>(one & ((std::uint64_t{1} << label_bits) - 1)));
  }
  picoseconds order(event one) const {
    return static_cast<picoseconds>(one >> label_bits & ((std::uint64_t{1} << time_bits) - 1));
  }
  picoseconds time(event one, picoseconds begin) const { return begin + order(one); }
  bool is_before(event x, event y) const { return lsched::is_before(*world, who(x), what(x), what(y)); }
};

}  // namespace lsched
