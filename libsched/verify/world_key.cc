#include "libsched/verify/world_key.h"

#include <algorithm>
#include <numeric>

#include "libsched/verify/memo.h"

namespace lsched {
namespace {

/// Whether the kernel does with each element what it does with any other.
bool takes_elements_alone(const op& o) {
  if (o.kind != op_kind::compute) return true;
  const symbolic_rule symbol = row_of(o.what).symbol;
  return symbol == symbolic_rule::copy || symbol == symbolic_rule::joined || symbol == symbolic_rule::quotient;
}

bool is_plain(const schedule& program) {
  return program.guards().empty() && std::ranges::none_of(program.buffers(), &buffer::has_lists) &&
         std::ranges::all_of(program.ops(), takes_elements_alone);
}

/// The largest number that divides all numbers of elements.
class unit_finder {
 public:
  void word(std::uint64_t) {}
  void wide(std::uint64_t) {}
  void elements(std::uint64_t number) {
    is_within_limits_ = is_within_limits_ && number <= k_max_count;
    if (unit_ != 1 && (unit_ == 0 || number % unit_ != 0)) unit_ = std::gcd(unit_, number);
  }
  /// 0: a number is beyond the limit of ops, so the limit decides.
  std::uint64_t unit() const { return !is_within_limits_ ? 0 : std::max<std::uint64_t>(unit_, 1); }

 private:
  std::uint64_t unit_ = 0;
  bool is_within_limits_ = true;
};

class unit_hash {
 public:
  explicit unit_hash(std::uint64_t unit) : unit_(unit) {}
  void word(std::uint64_t word) { hash_.add(word); }
  void wide(std::uint64_t word) { hash_.add_wide(word); }
  void elements(std::uint64_t number) { hash_.add(number / unit_); }
  const fingerprint& value() const { return hash_.value(); }

 private:
  word_hash hash_{};
  std::uint64_t unit_;
};

/// Names everything that what is proved follows from, in an order that says which is which.
template <class Sink>
class description {
 public:
  explicit description(Sink& to) : to_(to) {}

  void add(const schedule& program) {
    add_rank(program.place().self);
    add_rank(program.place().size);
    add_flags({program.is_synchronising(), program.is_holding()});
    const activation& starts = program.starts();
    to_.word(static_cast<std::uint64_t>(starts.policy));
    to_.word(starts.number);
    to_.wide(starts.seed);
    to_.wide(starts.full_every);
    to_.word(program.buffers().size());
    for (const buffer& one : program.buffers()) add(one);
    to_.word(program.parameters().size());
    for (const parameter_values& values : program.parameters())
      for (const parameter& value : values) to_.wide(value.bits());
    to_.word(program.exit());
    to_.word(program.roots().size());
    for (const op_id root : program.roots()) to_.word(root);
    to_.word(program.ops().size());
    for (op_id id = 0; id < program.ops().size(); ++id) {
      add(program.ops()[id]);
      to_.word(program.successors(id).size());
      for (const op_id next : program.successors(id)) to_.word(next);
    }
  }

  void add(const aliasing& in_place, rank size) {
    add_flags({in_place.exists()});
    for (rank r = 0; r < size; ++r) {
      const std::int64_t offset = in_place.offset_at(r);
      add_flags({offset < 0});
      to_.elements(static_cast<std::uint64_t>(offset < 0 ? -offset : offset));
    }
  }

  void add(const postcondition& promise) {
    add_flags({promise.is_synchronising, promise.is_same_everywhere, promise.data.has_value(),
               promise.round_cost.has_value(), promise.signals_of_one.has_value()});
    to_.word(promise.ranges.size());
    for (const promised_range& range : promise.ranges) add(range);
    if (promise.data) add(*promise.data);
    if (promise.round_cost) add(*promise.round_cost);
    to_.wide(promise.signals_of_one.value_or(0));
  }

 private:
  void add_rank(rank r) { to_.word(static_cast<std::uint32_t>(r)); }

  void add_flags(std::initializer_list<bool> flags) {
    std::uint64_t bits = 1;
    for (const bool flag : flags) bits = bits << 1 | (flag ? 1 : 0);
    to_.word(bits);
  }

  void add(const buffer& one) {
    to_.word(static_cast<std::uint64_t>(one.role) << 16 | static_cast<std::uint64_t>(one.space) << 8 |
             static_cast<std::uint64_t>(one.type));
    to_.elements(one.count);
  }

  void add(const op& o) {
    to_.word(static_cast<std::uint64_t>(o.kind) << 24 | static_cast<std::uint64_t>(o.what) << 16 |
             static_cast<std::uint64_t>(o.type) << 8 | static_cast<std::uint64_t>(o.in_place) << 7 | o.guard);
    add_rank(o.peer);
    to_.word(o.need);
    to_.word(o.tag);
    to_.word(o.releases_a);
    to_.word(o.releases_b);
    to_.elements(o.count);
    for (const region part : {o.a, o.b, o.s, o.c}) {
      to_.word(part.buffer());
      if (part.exists()) to_.elements(part.offset());
    }
  }

  void add(const promised_range& range) {
    add_rank(range.holder);
    add_rank(range.source);
    to_.word(range.output);
    to_.word(range.input);
    to_.word(static_cast<std::uint64_t>(range.what) << 16 | static_cast<std::uint64_t>(range.how) << 8 |
             static_cast<std::uint64_t>(range.merged));
    add_flags({range.is_in_rank_order, range.has_means});
    to_.elements(range.begin);
    to_.elements(range.end);
    to_.elements(range.input_begin);
    to_.wide(range.tree);
    to_.word(range.among.size());
    for (const rank one : range.among) add_rank(one);
  }

  void add(const promised_data& data) {
    to_.word(static_cast<std::uint64_t>(data.type));
    to_.word(data.of.size());
    for (const extents& one : data.of) {
      add_flags({one.input.has_value(), one.output.has_value()});
      to_.elements(one.input.value_or(0));
      to_.elements(one.output.value_or(0));
    }
  }

  /// Bytes are a number of elements in another unit.
  void add(const cost& round) {
    to_.wide(round.messages);
    to_.elements(round.bytes);
    to_.wide(round.signals);
    to_.wide(round.signals_of_one);
    to_.wide(round.hops);
    add_flags({round.hops_are_bound});
  }

  Sink& to_;
};

template <class Sink>
void describe(Sink& to, std::span<const schedule_ptr> world, const postcondition& promise, const aliasing& in_place) {
  description<Sink> all(to);
  to.word(world.size());
  for (const schedule_ptr& program : world) all.add(*program);
  all.add(in_place, static_cast<rank>(world.size()));
  all.add(promise);
}

}  // namespace

std::optional<world_key> key_of(std::span<const schedule_ptr> world, const postcondition& promise,
                                const aliasing& in_place) {
  if (!std::ranges::all_of(world, [](const schedule_ptr& program) { return is_plain(*program); })) return std::nullopt;
  unit_finder numbers;
  describe(numbers, world, promise, in_place);
  if (numbers.unit() == 0) return std::nullopt;
  unit_hash hash(numbers.unit());
  describe(hash, world, promise, in_place);
  return world_key{hash.value(), numbers.unit()};
}

}  // namespace lsched
