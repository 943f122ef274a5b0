#include "collectives/rooted/reduce_direct.h"

#include <algorithm>
#include <vector>

#include "collectives/patterns/rank_part.h"
#include "libsched/schedule/geometry.h"

namespace lsched {
namespace {

/// Block b belongs to the rank b places after the root, so that a vector of one element stays with the root.
class geometry {
 public:
  geometry(rank size, const shape& data) : size_(size), root_(data.root), blocks_(data.count, wide(size)) {
    constexpr std::uint64_t k_most_buffers = 4096;  // an owner needs one for each piece from each rank
    pieces_ = std::min(pieces_of(data, blocks_.length(0)), k_most_buffers / wide(size) + 1);
  }

  std::uint64_t pieces() const { return pieces_; }
  std::uint64_t filled() const { return blocks_.filled(); }
  std::uint64_t block_length(std::uint64_t block) const { return blocks_.length(block); }
  std::uint64_t begin(rank owner, std::uint64_t i) const {
    return blocks_.begin(block_of(owner)) + pieces_in(owner).begin(i);
  }
  std::uint64_t length(rank owner, std::uint64_t i) const { return pieces_in(owner).length(i); }

 private:
  std::uint64_t block_of(rank owner) const { return wide(ring_before(owner, root_, size_)); }
  portions pieces_in(rank owner) const { return {blocks_.length(block_of(owner)), pieces_}; }

  rank size_;
  rank root_;
  portions blocks_;
  std::uint64_t pieces_;
};

/// The ops of one rank while they are being written. A reader of what was sent waits for other receives alone, none of
/// which waits for anything: receives may hold.
class reduce_by_blocks {
 public:
  reduce_by_blocks(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry)
      : part_(to, data, entry), blocks_(part_.size(), data), input_(input), output_(output) {}

  fragment write() {
    const bool is_root = part_.self() == part_.data().root;
    if (!is_root && blocks_.length(part_.self(), 0) > 0 && blocks_.pieces() > 0)
      sum_ = part_.scratch(blocks_.block_length(0));
    for (std::uint64_t i = 0; i < blocks_.pieces(); ++i) {
      const std::vector<op_id> given = scatter(i);
      if (blocks_.length(part_.self(), i) > 0) combine(i);
      if (is_root) gather(i, given);
    }
    if (part_.size() == 1 && !part_.data().in_place)
      part_.end(part_.copy({input_, 0}, {output_, 0}, part_.data().count));
    return part_.finish(true);
  }

 private:
  std::uint32_t tag(std::uint64_t i) const { return static_cast<std::uint32_t>(i); }
  std::uint32_t result_tag(std::uint64_t i) const { return static_cast<std::uint32_t>(blocks_.pieces() + i); }

  /// Answers the sends by distance.
  std::vector<op_id> scatter(std::uint64_t i) {
    std::vector<op_id> given(wide(part_.size()), k_no_op);
    for (rank distance = 1; distance < part_.size(); ++distance) {
      const rank owner = part_.after(distance);
      const std::uint64_t length = blocks_.length(owner, i);
      if (length == 0) continue;
      given[wide(distance)] = part_.send(owner, tag(i), {input_, blocks_.begin(owner, i)}, length);
      part_.end(given[wide(distance)]);
    }
    return given;
  }

  /// Nearest ranks first, those below before what there is and those above after it.
  void combine(std::uint64_t i) {
    const rank self = part_.self();
    const bool is_root = self == part_.data().root;
    const std::uint64_t begin = blocks_.begin(self, i);
    const region target = is_root ? region{output_, begin} : region{sum_, begin - blocks_.begin(self, 0)};
    region value{input_, begin};
    op_id last = k_no_op;
    for (rank distance = 1; distance < part_.size(); ++distance) {
      if (distance <= self) value = add(self - distance, i, value, target, last);
      if (distance < part_.size() - self) value = add(self + distance, i, value, target, last);
    }
    part_.end(is_root ? last : part_.send(part_.data().root, result_tag(i), target, blocks_.length(self, i), {last}));
  }

  region add(rank peer, std::uint64_t i, region value, region target, op_id& last) {
    const std::uint64_t length = blocks_.length(part_.self(), i);
    const region landing{part_.scratch(length), 0};
    const op_id got = part_.recv(peer, tag(i), landing, length);
    const bool is_lower = peer < part_.self();
    last = part_.reduce(is_lower ? landing : value, is_lower ? value : landing, target, length, {got, last});
    return target;
  }

  /// In place, a result may not arrive over a block that is still leaving.
  void gather(std::uint64_t i, const std::vector<op_id>& given) {
    for (rank distance = 1; distance < part_.size(); ++distance) {
      const rank owner = part_.after(distance);
      const std::uint64_t length = blocks_.length(owner, i);
      if (length == 0) continue;
      part_.end(part_.recv(owner, result_tag(i), {output_, blocks_.begin(owner, i)}, length,
                           {part_.data().in_place ? given[wide(distance)] : k_no_op}));
    }
  }

  rank_part part_;
  const geometry blocks_;
  const buffer_id input_;
  const buffer_id output_;
  buffer_id sum_ = k_no_buffer;
};

cost cost_of_direct(rank size, const shape& data, const activation&) {
  if (size == 1 || data.count == 0) return {};
  const geometry blocks(size, data);
  const auto messages = [&](std::uint64_t block) {
    return portions(blocks.block_length(block), blocks.pieces()).filled();
  };
  const std::uint64_t longer = data.count % wide(size);
  const std::uint64_t all = longer * messages(0) + (wide(size) - longer) * messages(wide(size) - 1);
  const std::uint64_t brought = saturating_product(wide(size) - 1, bytes_of(data.count, data));
  return {.messages = all * wide(size) - messages(0),
          .bytes = saturating_sum(brought, bytes_of(data.count - blocks.block_length(0), data)),
          .hops = std::min<std::uint64_t>(blocks.filled(), 2)};
}

}  // namespace

fragment add_reduce_direct(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  return reduce_by_blocks(to, data, input, output, entry).write();
}

constinit const algorithm k_reduce_direct{
    .of = &k_reduce,
    .name = "direct",
    .add = add_reduce_direct,
    .needs = {.summary = "any P and root; every rank combines one block, two hops; rank order; for long vectors"},
    .cost_of = cost_of_direct};

}  // namespace lsched
