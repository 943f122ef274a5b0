#include "collectives/allgather/allgather_dissemination.h"

#include <algorithm>

#include "collectives/patterns/rank_part.h"
#include "libsched/schedule/geometry.h"

namespace lsched {
namespace {

class dissemination {
 public:
  dissemination(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry)
      : part_(to, data, entry),
        input_(input),
        output_(output),
        offsets_(block_offsets(data, part_.size())),
        mine_(block_count(data, part_.self())) {}

  fragment write() {
    if (part_.size() == 1) {
      if (!part_.data().in_place) part_.end(part_.copy({input_, 0}, {output_, 0}, mine_));
      return part_.finish(true);
    }
    gathered_ = part_.scratch(offsets_.back());
    part_.end(part_.send(part_.before(1), 0, {input_, 0}, mine_));
    op_id last = part_.copy({input_, 0}, {gathered_, 0}, mine_);
    for (rank distance = 1; distance < part_.size(); distance *= 2) last = step(distance, last);
    put_in_place(last);
    return part_.finish(true);
  }

 private:
  /// Elements of the `blocks` blocks from this rank's on, round the ring.
  std::uint64_t elements(rank blocks) const {
    const std::uint64_t begin = wide(part_.self());
    const std::uint64_t end = begin + wide(blocks);
    const std::uint64_t size = wide(part_.size());
    return end <= size ? offsets_[end] - offsets_[begin] : offsets_[size] - offsets_[begin] + offsets_[end - size];
  }

  /// Answers an op after which all that was gathered so far is there: each receive follows the one before.
  op_id step(rank distance, op_id last) {
    const auto tag = static_cast<std::uint32_t>(floor_log2(distance));
    const rank blocks = std::min(distance, part_.size() - distance);
    if (distance > 1) part_.end(part_.send(part_.before(distance), tag, {gathered_, 0}, elements(blocks), {last}));
    const std::uint64_t begin = elements(distance);
    const op_id got = part_.recv(part_.after(distance), tag, {gathered_, begin}, elements(distance + blocks) - begin);
    return part_.nop({got, last});
  }

  /// From this rank's block to the last one's, and the rest. In place, this rank's is where it belongs.
  void put_in_place(op_id last) {
    const std::uint64_t begin = part_.data().in_place ? mine_ : 0;
    const std::uint64_t upper = elements(part_.size() - part_.self());
    part_.end(part_.copy({gathered_, begin}, {output_, offsets_[wide(part_.self())] + begin}, upper - begin, {last}));
    part_.end(part_.copy({gathered_, upper}, {output_, 0}, offsets_.back() - upper, {last}));
  }

  rank_part part_;
  const buffer_id input_;
  const buffer_id output_;
  const std::vector<std::uint64_t> offsets_;
  const std::uint64_t mine_;
  buffer_id gathered_ = k_no_buffer;
};

/// Every block moves once to every other rank.
cost cost_of_dissemination(rank size, const shape& data, const activation&) {
  const auto steps = static_cast<std::uint64_t>(ceil_log2(size));
  cost all{.messages = wide(size) * steps, .hops = steps};
  if (data.counts.empty()) {
    all.bytes = saturating_product(wide(size) * (wide(size) - 1), bytes_of(data.count, data));
  } else {
    all.bytes = saturating_product(wide(size) - 1, bytes_of(block_offsets(data, size).back(), data));
  }
  return all;
}

}  // namespace

fragment add_allgather_dissemination(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  return dissemination(to, data, input, output, entry).write();
}

constinit const algorithm k_allgather_dissemination{
    .of = &k_allgather,
    .name = "dissemination",
    .add = add_allgather_dissemination,
    .needs = {.needs_everybody = true,
              .summary = "any P; ceil(log2 P) steps that double what a rank has; for short blocks"},
    .cost_of = cost_of_dissemination};

constinit const algorithm k_allgatherv_dissemination{
    .of = &k_allgatherv,
    .name = "dissemination",
    .add = add_allgather_dissemination,
    .needs = {.needs_everybody = true,
              .summary = "any P; ceil(log2 P) steps that double what a rank has; for short blocks"},
    .cost_of = cost_of_dissemination};

}  // namespace lsched
