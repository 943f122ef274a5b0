// Allgather(v) by dissemination (Bruck and others, 1997): ceil(log2 P) steps for every P.
//
//   step k    rank r sends blocks r, r+1, …, r+2^k-1 to rank r-2^k, and receives the next 2^k blocks from rank r+2^k
//
// The last step sends only the missing blocks. Blocks are stored in scratch memory in the order of arrival, and then
// copied to their final places by two copy ops. There are P ceil(log2 P) messages, and each rank receives each block
// once. The algorithm suits short blocks. It is synchronising: no rank ends before every rank has begun.
#include <algorithm>

#include "collectives/allgather/allgather.h"
#include "collectives/patterns/rank_part.h"

namespace lsched {
namespace {

class dissemination : rank_part {
 public:
  using rank_part::rank_part;

  fragment write() {
    if (size() == 1) {
      end_with_copy(own_count_);
      return finish(true);
    }
    gathered_ = scratch(offsets_.back());
    end(send(before(1), 0, {input(), 0}, own_count_));
    op_id last = copy({input(), 0}, {gathered_, 0}, own_count_);
    for (rank distance = 1; distance < size(); distance *= 2) last = step(distance, last);
    put_in_place(last);
    return finish(true);
  }

 private:
  /// Returns the number of elements of `blocks` adjacent blocks. The first of them is this rank's block. Block 0
  /// follows block P-1.
  std::uint64_t elements(rank blocks) const {
    const std::uint64_t begin = wide(self());
    const std::uint64_t end = begin + wide(blocks);
    const std::uint64_t ranks = wide(size());
    return end <= ranks ? offsets_[end] - offsets_[begin] : offsets_[ranks] - offsets_[begin] + offsets_[end - ranks];
  }

  /// Appends a step. `last` is the op that the previous step returned. Returns an op after which all blocks of this and
  /// earlier steps have arrived.
  op_id step(rank distance, op_id last) {
    const auto tag = static_cast<std::uint32_t>(floor_log2(distance));
    const rank blocks = std::min(distance, size() - distance);
    if (distance > 1) end(send(before(distance), tag, {gathered_, 0}, elements(blocks), {last}));
    const std::uint64_t begin = elements(distance);
    const op_id got = recv(after(distance), tag, {gathered_, begin}, elements(distance + blocks) - begin);
    return nop({got, last});
  }

  /// First copies blocks self … P-1, and then the other blocks. In place, this rank's block is already in the output.
  void put_in_place(op_id last) {
    const std::uint64_t begin = in_place() ? own_count_ : 0;
    const std::uint64_t upper = elements(size() - self());
    end(copy({gathered_, begin}, {output(), offsets_[wide(self())] + begin}, upper - begin, {last}));
    end(copy({gathered_, upper}, {output(), 0}, offsets_.back() - upper, {last}));
  }

  const std::vector<std::uint64_t> offsets_ = block_offsets(data(), size());
  const std::uint64_t own_count_ = block_count(data(), self());
  buffer_id gathered_ = k_no_buffer;
};

cost cost_of_dissemination(rank size, const shape& data) {
  const auto steps = static_cast<std::uint64_t>(ceil_log2(size));
  return {.messages = wide(size) * steps, .bytes = bytes_to_all(size, data), .hops = steps};
}

constexpr algorithm dissemination_of(const collective& of) {
  return {.of = &of,
          .name = "dissemination",
          .add = add_allgather_dissemination,
          .needs = {.needs_everybody = true,
                    .summary = "any P; ceil(log2 P) steps that double the blocks of a rank; for short blocks"},
          .cost_of = cost_of_dissemination};
}

}  // namespace

fragment add_allgather_dissemination(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  return dissemination(to, data, input, output, entry).write();
}

constinit const algorithm k_allgather_dissemination = dissemination_of(k_allgather);
constinit const algorithm k_allgatherv_dissemination = dissemination_of(k_allgatherv);

}  // namespace lsched
