#include "collectives/allgather/alltoall_bruck.h"

#include <vector>

#include "collectives/patterns/rank_part.h"
#include "libsched/schedule/geometry.h"

namespace lsched {
namespace {

class bruck {
 public:
  bruck(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry)
      : part_(to, data, entry), input_(input), output_(output) {}

  fragment write() {
    for (rank i = 0; i < part_.size(); ++i) blocks_.push_back({{input_, place_of(part_.after(i))}, k_no_op});
    if (part_.data().in_place) input_is_read_ = part_.nop();
    for (int bit = ceil_log2(part_.size()) - 1; bit >= 0; --bit) step(bit);
    put_in_place();
    return part_.finish(true);
  }

 private:
  /// Where a block is, and the receive that brought it: none if it is this rank's own.
  struct block {
    region where;
    op_id got;
  };

  std::uint64_t place_of(rank r) const { return wide(r) * part_.data().count; }

  void step(int bit) {
    const rank distance = rank{1} << bit;
    std::vector<rank> moving;
    for (rank i = distance; i < part_.size(); ++i)
      if ((i & distance) != 0) moving.push_back(i);
    const std::uint64_t count = moving.size() * part_.data().count;
    const buffer_id leaving = part_.scratch(count);
    const buffer_id arriving = part_.scratch(count);
    const std::vector<op_id> packed = pack(moving, leaving);
    const auto tag = static_cast<std::uint32_t>(bit);
    const op_id sent = part_.send(part_.after(distance), tag, {leaving, 0}, count, {packed.front()});
    for (std::size_t i = 1; i < packed.size(); ++i) part_.order(packed[i], sent);
    part_.end(sent);
    const op_id got = part_.recv(part_.before(distance), tag, {arriving, 0}, count);
    for (std::size_t at = 0; at < moving.size(); ++at)
      blocks_[wide(moving[at])] = {{arriving, at * part_.data().count}, got};
  }

  /// Blocks that lie side by side are copied at once.
  std::vector<op_id> pack(const std::vector<rank>& moving, buffer_id leaving) {
    std::vector<op_id> packed;
    const std::uint64_t count = part_.data().count;
    for (std::size_t at = 0, end = 0; at < moving.size(); at = end) {
      const block& first = blocks_[wide(moving[at])];
      for (end = at + 1; end < moving.size(); ++end) {
        const block& next = blocks_[wide(moving[end])];
        if (next.got != first.got ||
            next.where != region{first.where.buffer(), first.where.offset() + (end - at) * count})
          break;
      }
      packed.push_back(part_.copy(first.where, {leaving, at * count}, (end - at) * count, {first.got}));
      if (first.got == k_no_op) part_.order(packed.back(), input_is_read_);
    }
    return packed;
  }

  /// Block i has come from the rank i places before.
  void put_in_place() {
    for (rank i = part_.data().in_place ? 1 : 0; i < part_.size(); ++i) {
      const block& it = blocks_[wide(i)];
      part_.end(
          part_.copy(it.where, {output_, place_of(part_.before(i))}, part_.data().count, {it.got, input_is_read_}));
    }
  }

  rank_part part_;
  const buffer_id input_;
  const buffer_id output_;
  std::vector<block> blocks_{};
  op_id input_is_read_ = k_no_op;  ///< in place: from then on, the input may be overwritten
};

/// Numbers below `size` with that bit.
std::uint64_t numbers_with(int bit, rank size) {
  const std::uint64_t period = std::uint64_t{2} << bit;
  const std::uint64_t rest = wide(size) % period;
  return wide(size) / period * (period / 2) + (rest > period / 2 ? rest - period / 2 : 0);
}

// Hops. Two steps depend on each other if a block takes part in both, which is so for any two bits but the highest, m,
// and for that one and the next if 2^m + 2^(m-1) is a block's number. If not, all steps but one of them are the longest
// chain.
cost cost_of_bruck(rank size, const shape& data, const activation&) {
  const int steps = ceil_log2(size);
  std::uint64_t blocks = 0;
  for (int bit = 0; bit < steps; ++bit) blocks += numbers_with(bit, size);
  const bool is_chain = steps < 2 || (rank{3} << (steps - 2)) < size;
  return {.messages = wide(size) * static_cast<std::uint64_t>(steps),
          .bytes = saturating_product(wide(size), saturating_product(blocks, bytes_of(data.count, data))),
          .hops = static_cast<std::uint64_t>(is_chain ? steps : steps - 1)};
}

}  // namespace

fragment add_alltoall_bruck(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  return bruck(to, data, input, output, entry).write();
}

constinit const algorithm k_alltoall_bruck{
    .of = &k_alltoall,
    .name = "bruck",
    .add = add_alltoall_bruck,
    .needs = {.summary = "any P; ceil(log2 P) steps, each with half of all blocks; for short blocks"},
    .cost_of = cost_of_bruck};

}  // namespace lsched
