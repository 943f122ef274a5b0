#include "libsched/verify/world_key.h"

#include <algorithm>
#include <numeric>

#include "libsched/schedule/op_rules.h"
#include "libsched/verify/memo.h"

namespace lsched {
namespace {

/// Returns true if each element of the result depends only on the same element of the operands, in the same way for all
/// elements. Also returns true for every op that is not a compute.
bool takes_elements_alone(const op& o) {
  if (o.kind != op_kind::compute) return true;
  const symbolic_rule symbol = row_of(o.what).symbol;
  return symbol == symbolic_rule::copy || symbol == symbolic_rule::joined || symbol == symbolic_rule::quotient;
}

/// Returns true if the schedule treats all elements in the same way, for any number of elements.
bool treats_elements_alike(const schedule& program) {
  return has_sound_rows(program.content()) && program.guards().empty() &&
         std::ranges::all_of(program.buffers(), [](const buffer& one) { return one.lists == list_layout{}; }) &&
         std::ranges::all_of(program.ops(), takes_elements_alone);
}

// A sink receives three kinds of data: words below 2^61-1, wide words, and element counts.

/// Finds the greatest common divisor of all element counts. Ignores the other words.
class unit_finder {
 public:
  void word(std::uint64_t) {}
  void wide(std::uint64_t) {}
  void elements(std::uint64_t number) {
    is_within_limits_ = is_within_limits_ && number <= k_max_count;
    if (unit_ != 1 && (unit_ == 0 || number % unit_ != 0)) unit_ = std::gcd(unit_, number);
  }
  std::uint64_t unit() const { return std::max<std::uint64_t>(unit_, 1); }
  bool is_within_limits() const { return is_within_limits_; }

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

/// Serializes every input of the proof in a fixed order.
template <class Sink>
class description {
 public:
  explicit description(Sink& to) : to_(to) {}

  void add(const schedule& program) {
    const auto& [name, place, ops, first, next, roots, buffers, guards, parameters, exit, synchronising, holding,
                 starts, lines] = program.content();  // guards is empty; name is irrelevant
    add_rank(place.self);
    add_rank(place.size);
    add_flags({synchronising, holding});
    add(starts);
    to_.word(buffers.size());
    for (const buffer& one : buffers) add(one);
    to_.word(parameters.size());
    for (const parameter_values& values : parameters)
      for (const parameter& value : values) to_.wide(value.bits());
    to_.word(exit);
    to_.word(roots.size());
    for (const op_id root : roots) to_.word(root);
    to_.word(lines.size());  // findings contain these lines
    for (const std::uint32_t line : lines) to_.word(line);
    to_.word(ops.size());
    for (op_id id = 0; id < ops.size(); ++id) {
      add(ops[id]);
      to_.word(program.successors(id).size());
      for (const op_id after : program.successors(id)) to_.word(after);
    }
  }

  void add(const aliasing& in_place, rank size) {
    for (rank r = 0; r < size; ++r) {
      const std::int64_t offset = in_place.offset_at(r);
      add_flags({in_place.exists_at(r), offset < 0});
      const auto distance = static_cast<std::uint64_t>(offset);
      to_.elements(offset < 0 ? ~distance + 1 : distance);
    }
  }

  void add(const postcondition& promise) {
    const auto& [ranges, data, is_synchronising, is_same_everywhere, round_cost, signals_of_one] = promise;
    add_flags(
        {is_synchronising, is_same_everywhere, data.has_value(), round_cost.has_value(), signals_of_one.has_value()});
    to_.word(ranges.size());
    for (const promised_range& range : ranges) add(range);
    if (data) add(*data);
    if (round_cost) add(*round_cost);
    to_.wide(signals_of_one.value_or(0));
  }

 private:
  void add_rank(rank r) { to_.word(static_cast<std::uint32_t>(r)); }

  void add_flags(std::initializer_list<bool> flags) {
    std::uint64_t bits = 1;
    for (const bool flag : flags) bits = bits << 1 | (flag ? 1 : 0);
    to_.word(bits);
  }

  // Each function binds all members of its argument, so that a new member causes a compile error.

  void add(const activation& starts) {
    const auto& [policy, seed, number, full_every, grace_us] = starts;
    to_.word(static_cast<std::uint64_t>(policy));
    to_.wide(seed);
    to_.word(number);
    to_.wide(full_every);
    to_.word(grace_us);
  }

  void add(const buffer& one) {
    const auto& [role, space, type, count, lists] = one;  // lists is empty
    to_.word(static_cast<std::uint64_t>(role) << 16 | static_cast<std::uint64_t>(space) << 8 |
             static_cast<std::uint64_t>(type));
    to_.elements(count);
  }

  void add(const op& o) {
    const auto& [kind, what, type, in_place, guard, peer, need, tag, count, a, b, c, s, releases_a, releases_b] = o;
    to_.word(static_cast<std::uint64_t>(kind) << 24 | static_cast<std::uint64_t>(what) << 16 |
             static_cast<std::uint64_t>(type) << 8 | static_cast<std::uint64_t>(in_place) << 7 | guard);
    add_rank(peer);
    to_.word(need);
    to_.word(tag);
    to_.word(releases_a);
    to_.word(releases_b);
    to_.elements(count);
    for (const region part : {a, b, c, s}) {
      to_.word(part.buffer());
      if (part.exists()) to_.elements(part.offset());
    }
  }

  void add(const promised_range& range) {
    const auto& [holder, output, begin, end, what, input, input_begin, source, among, how, merged, is_in_rank_order,
                 tree, has_means, divisor] = range;
    add_rank(holder);
    add_rank(source);
    to_.word(output);
    to_.word(input);
    to_.word(static_cast<std::uint64_t>(what) << 16 | static_cast<std::uint64_t>(how) << 8 |
             static_cast<std::uint64_t>(merged));
    add_flags({is_in_rank_order, has_means});
    to_.elements(begin);
    to_.elements(end);
    to_.elements(input_begin);
    to_.wide(tree);
    to_.wide(divisor);
    to_.word(among.size());
    for (const rank one : among) add_rank(one);
  }

  void add(const promised_data& data) {
    const auto& [type, of] = data;
    to_.word(static_cast<std::uint64_t>(type));
    to_.word(of.size());
    for (const auto& [input, output] : of) {
      add_flags({input.has_value(), output.has_value()});
      to_.elements(input.value_or(0));
      to_.elements(output.value_or(0));
    }
  }

  /// Byte counts are treated like element counts, because both grow by the same factor.
  void add(const cost& round) {
    const auto& [messages, bytes, signals, signals_of_one, hops, hops_are_bound] = round;
    to_.wide(messages);
    to_.elements(bytes);
    to_.wide(signals);
    to_.wide(signals_of_one);
    to_.wide(hops);
    add_flags({hops_are_bound});
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
  if (!std::ranges::all_of(world, [](const schedule_ptr& program) { return treats_elements_alike(*program); }))
    return std::nullopt;
  unit_finder numbers;
  describe(numbers, world, promise, in_place);
  if (!numbers.is_within_limits()) return std::nullopt;
  unit_hash hash(numbers.unit());
  describe(hash, world, promise, in_place);
  return world_key{hash.value(), numbers.unit()};
}

}  // namespace lsched
