#include "collectives/allreduce/multiplying.h"

#include <algorithm>
#include <array>
#include <vector>

#include "collectives/allreduce/allreduce.h"

namespace lsched {
namespace {

enum : std::uint32_t { k_fold_tag, k_unfold_tag, k_first_step_tag };

class multiplying {
 public:
  multiplying(ordered_ops& to, const members& among, rank radix, std::uint32_t tag, const stretch& input,
              const stretch& output)
      : ops_(to),
        ranks_(among.ranks),
        self_(among.self),
        digits_(among.size, radix),
        folded_(among.size, digits_.core()),
        tag_(tag),
        input_(input),
        output_(output) {}

  // Returns true if the conditions of builder::declare_holding are satisfied: the reader of a payload waits only for
  // sends of earlier steps. If the collective is in place and has only one step, the conditions are not satisfied: the
  // reader then waits for the sends of its own step.
  bool write() {
    if (digits_.steps() == 0) {
      if (!is_in_place()) ops_.copy(input_, output_);
    } else if (folded_.is_extra(self_)) {
      write_extra();
    } else {
      write_core();
    }
    return !(is_in_place() && digits_.steps() == 1);
  }

 private:
  bool is_in_place() const { return input_.cell == output_.cell; }
  rank real(rank member) const { return ranks_.empty() ? member : ranks_[wide(member)]; }
  stretch scratch() { return ops_.scratch(input_.count); }

  void write_extra() {
    const rank proxy = real(folded_.proxy_of(self_));
    ops_.send(proxy, tag_ + k_fold_tag, input_);
    ops_.recv(proxy, tag_ + k_unfold_tag, output_);
  }

  void write_core() {
    stretch now = folded_.is_proxy(self_) ? fold_in() : input_;
    for (int j = 0; j < digits_.steps(); ++j) now = step(j, now);
    if (folded_.is_proxy(self_)) ops_.send(real(folded_.extra_of(self_)), tag_ + k_unfold_tag, output_);
  }

  stretch fold_in() {
    const stretch landing = scratch();
    ops_.recv(real(folded_.extra_of(self_)), tag_ + k_fold_tag, landing);
    const stretch target = accumulator(0);
    ops_.reduce(input_, landing, target);
    return target;
  }

  /// Appends step j. Ranks send to their peers in different orders.
  stretch step(int j, const stretch& now) {
    const rank number = folded_.virtual_of(self_);
    const rank base = digits_.base(j), own_digit = digits_.digit(number, j);
    const std::uint32_t tag = tag_ + k_first_step_tag + static_cast<std::uint32_t>(j);
    std::vector<stretch> operands(wide(base), now);
    const auto peer = [&](rank digit) { return real(folded_.real_of(digits_.with(number, j, digit))); };
    for (rank distance = 1; distance < base; ++distance)
      ops_.send(peer(ring_after(own_digit, distance, base)), tag, now);
    for (rank distance = 1; distance < base; ++distance) {
      const rank from = ring_before(own_digit, distance, base);
      operands[wide(from)] = scratch();
      ops_.recv(peer(from), tag, operands[wide(from)]);
    }
    return combine(operands, own_digit, j + 1 == digits_.steps() ? output_ : accumulator(j + 1));
  }

  /// Combines the operands from left to right. The rank's own operand may be in the memory of the target.
  stretch combine(const std::vector<stretch>& operands, rank own_digit, const stretch& target) {
    const bool keeps_own = operands[wide(own_digit)].cell == target.cell && own_digit >= 2;
    const stretch partial = keeps_own ? scratch() : target;
    stretch so_far = operands[0];
    for (rank digit = 1; digit < static_cast<rank>(operands.size()); ++digit) {
      const stretch to = digit < own_digit ? partial : target;
      ops_.reduce(so_far, operands[wide(digit)], to);
      so_far = to;
    }
    return target;
  }

  /// Returns one of two accumulators, which alternate. Accumulators are allocated on demand, because a small world
  /// needs at most one.
  stretch accumulator(int j) {
    stretch& chosen = accumulators_[static_cast<std::size_t>(j % 2)];
    if (chosen.cells == 0) chosen = scratch();
    return chosen;
  }

  ordered_ops& ops_;
  const std::span<const rank> ranks_;
  const rank self_;
  const digits digits_;
  const fold folded_;
  const std::uint32_t tag_;
  const stretch input_;
  const stretch output_;
  std::array<stretch, 2> accumulators_{{{.cells = 0}, {.cells = 0}}};
};

class multiplying_part : ordered_part {
 public:
  using ordered_part::ordered_part;

  fragment write(rank radix) {
    set_blocks({0, count()});
    const block_range whole{0, 1};
    return finish(add_multiplying(*this, {self(), size()}, radix, 0, in_input(whole), in_output(whole)));
  }
};

constexpr rank k_doubling = 2;

}  // namespace

bool add_multiplying(ordered_ops& to, const members& among, rank radix, std::uint32_t tag, const stretch& input,
                     const stretch& output) {
  return multiplying(to, among, radix, tag, input, output).write();
}

// Hops: the longest chain starts and ends at an extra. Such a chain has a message for each digit only if two proxies
// differ in all digits. In base k, the lowest such pair is 10…0 and 01…1. (If the highest digit has a smaller base,
// that digit is 0 for every proxy, so no such pair exists.)
cost cost_of_multiplying(rank size, rank radix, std::uint64_t count, const shape& data) {
  const digits places(size, radix);
  const fold folded(size, places.core());
  std::uint64_t messages = 2 * wide(folded.rem());
  for (int j = 0; j < places.steps(); ++j) messages += wide(places.core()) * wide(places.base(j) - 1);
  const bool is_even = places.steps() > 0 && places.base(places.steps() - 1) == radix;
  const bool has_opposites = is_even && folded.rem() > places.stride(places.steps() - 1);
  const std::uint64_t ends = folded.rem() == 0 ? 0 : has_opposites ? 2 : 1;
  return cost_of_messages(messages, count, data, static_cast<std::uint64_t>(places.steps()) + ends);
}

std::vector<std::uint64_t> chains_of_multiplying(rank radix, std::vector<std::uint64_t> chains) {
  const auto size = static_cast<rank>(chains.size());
  const digits places(size, radix);
  const fold folded(size, places.core());
  const auto at = [&](rank number) -> std::uint64_t& { return chains[wide(folded.real_of(number))]; };
  const auto extra = [&](rank i) -> std::uint64_t& { return chains[wide(folded.extra_of(2 * i))]; };
  for (rank i = 0; i < folded.rem(); ++i) at(i) = std::max(at(i), extra(i) + 1);
  for (int j = 0; j < places.steps(); ++j) {
    std::vector<std::uint64_t> next;
    for (rank number = 0; number < places.core(); ++number) {
      next.push_back(at(number));
      for (rank digit = 0; digit < places.base(j); ++digit)
        if (digit != places.digit(number, j))
          next.back() = std::max(next.back(), at(places.with(number, j, digit)) + 1);
    }
    for (rank number = 0; number < places.core(); ++number) at(number) = next[wide(number)];
  }
  for (rank i = 0; i < folded.rem(); ++i) extra(i) = at(i) + 1;
  return chains;
}

fragment add_allreduce(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  return multiplying_part(to, data, input, output, entry).write(k_doubling);
}

constinit const algorithm k_allreduce_recursive_doubling{
    .of = &k_allreduce,
    .name = "recursive_doubling",
    .add = add_allreduce,
    .needs = {.summary = "any P and count; log2 P short steps, each with the entire vector; same bits on every rank"},
    .cost_of = [](rank size, const shape& data) { return cost_of_multiplying(size, k_doubling, data.count, data); }};

constinit const algorithm k_allreduce_multiplying{
    .of = &k_allreduce,
    .name = "recursive_multiplying",
    .add = [](builder& to, const shape& data, buffer_id input, buffer_id output,
              op_id entry) { return multiplying_part(to, data, input, output, entry).write(multiplying_radix(data)); },
    .needs = {.summary =
                  "short vectors, any P: log_k P steps of k-1 messages with the entire vector, k = 4 or the radix"},
    .cost_of = [](rank size,
                  const shape& data) { return cost_of_multiplying(size, multiplying_radix(data), data.count, data); },
    .looks_at = {.radix = true}};

}  // namespace lsched
