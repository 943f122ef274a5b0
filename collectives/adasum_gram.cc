#include "collectives/adasum_gram.h"

#include <vector>

#include "collectives/adasum_vector.h"
#include "collectives/blocks.h"

namespace lsched {
namespace {

enum : std::uint32_t { k_scatter_tag, k_sums_tag, k_spread_tag };

std::vector<std::uint64_t> block_begins(const shape& data, rank size) {
  const cut blocks = cut_into_blocks(data, data.count, wide(size));
  std::vector<std::uint64_t> begins;
  for (rank i = 0; i <= size; ++i) begins.push_back(blocks.begin(wide(i)));
  return begins;
}

element_range block_of(const tensor_map& map, rank owner) { return map.range(wide(owner), wide(owner) + 1); }

/// Whose blocks have elements of it, ascending.
std::vector<rank> owners_of(const tensor_map& map, rank size, const tensor& it) {
  std::vector<rank> owners;
  for (rank r = 0; r < size; ++r)
    if (block_of(map, r).overlaps(it)) owners.push_back(r);
  return owners;
}

/// The ops of one rank while they are being written.
class gram {
 public:
  gram(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry)
      : self_(to.place().self),
        size_(to.place().size),
        map_(data, block_begins(data, size_)),
        mine_(block_of(map_, self_)),
        ops_(to, data, entry),
        vector_(ops_, data, map_, input, output) {}

  fragment write() {
    if (size_ == 1) {
      if (!vector_.is_same(vector_.input(), vector_.output())) ops_.copy(input_of(self_), output_of(self_));
      return ops_.finish(true);
    }
    row_ = ops_.scratch(wide(size_) * mine_.count(), wide(size_));
    scatter();
    for (const tensor& it : map_.tensors_in(mine_)) combine(it);
    fill_gaps();
    spread();
    return ops_.finish(true);
  }

 private:
  stretch input_of(rank owner) const { return vector_.blocks(vector_.input(), wide(owner), wide(owner) + 1); }
  stretch output_of(rank owner) const { return vector_.blocks(vector_.output(), wide(owner), wide(owner) + 1); }
  rank at_distance(rank distance) const { return ring_after(self_, distance, size_); }

  /// A rank's vector in the row.
  stretch vector_of(rank whose) const {
    return {
        {row_.at.buffer(), wide(whose) * mine_.count()}, mine_.count(), row_.cell + static_cast<std::uint32_t>(whose)};
  }

  void scatter() {
    for (rank distance = 1; distance < size_; ++distance)
      ops_.send(at_distance(distance), k_scatter_tag, input_of(at_distance(distance)));
    ops_.copy(input_of(self_), vector_of(self_));
    for (rank distance = 1; distance < size_; ++distance) {
      const rank from = at_distance(size_ - distance);
      ops_.recv(from, k_scatter_tag, vector_of(from));
    }
  }

  void combine(const tensor& it) {
    const element_range part = mine_.common(it);
    stretch row = row_;
    row.at = {row_.at.buffer(), part.begin - mine_.begin};
    const std::vector<rank> owners = owners_of(map_, size_, it);
    const std::uint64_t each = gram_sums(wide(size_));
    const stretch sums = ops_.scratch(dtype::f64, owners.size() * each, owners.size());
    const auto sums_of = [&](std::size_t i) {
      return stretch{{sums.at.buffer(), i * each}, each, sums.cell + static_cast<std::uint32_t>(i)};
    };
    const vector_row how{static_cast<std::uint32_t>(size_), static_cast<std::uint32_t>(owners.size())};
    for (std::size_t i = 0; i < owners.size(); ++i) {
      if (owners[i] != self_) continue;
      ops_.gram(how.vectors, row, mine_.count(), part.count(), sums_of(i));
      for (const rank other : owners)
        if (other != self_) ops_.send(other, k_sums_tag, sums_of(i));
    }
    for (std::size_t i = 0; i < owners.size(); ++i)
      if (owners[i] != self_) ops_.recv(owners[i], k_sums_tag, sums_of(i));
    ops_.gram_adasum(how, row, mine_.count(), sums, vector_.elements(vector_.output(), part));
  }

  /// With those of the first rank, as other algorithms do. Where no tensor makes the block wait for all ranks, this
  /// does.
  void fill_gaps() {
    for (const element_range gap : map_.gaps_in(mine_))
      ops_.copy(part_of_payload(vector_of(0), mine_.begin, gap), vector_.elements(vector_.output(), gap));
    if (!map_.tensors_in(mine_).empty()) return;
    stretch nothing = row_, at_output = output_of(self_);
    nothing.count = at_output.count = 0;
    ops_.copy(nothing, at_output);
  }

  void spread() {
    for (rank distance = 1; distance < size_; ++distance)
      ops_.send(at_distance(distance), k_spread_tag, output_of(self_));
    for (rank distance = 1; distance < size_; ++distance) {
      const rank from = at_distance(size_ - distance);
      ops_.recv(from, k_spread_tag, output_of(from));
    }
  }

  const rank self_;
  const rank size_;
  const tensor_map map_;
  const element_range mine_;  ///< this rank's block
  ordered_ops ops_;
  adasum_vector vector_;
  stretch row_{};  ///< all ranks' vectors, as far as they are of this block; a cell for each
};

cost cost_of_gram(rank size, const shape& data, const activation&) {
  if (size == 1) return {};
  const tensor_map map(data, block_begins(data, size));
  const std::uint64_t pairs = wide(size) * (wide(size) - 1);
  cost all{
      .messages = 2 * pairs, .bytes = saturating_product(2 * (wide(size) - 1), bytes_of(data.count, data)), .hops = 2};
  for (const tensor& it : map.tensors()) {
    const std::uint64_t owners = owners_of(map, size, it).size();
    const std::uint64_t messages = owners * (owners - 1);
    all.messages += messages;
    all.bytes = saturating_sum(all.bytes, messages * gram_sums(wide(size)) * sizeof(double));
    if (messages != 0) all.hops = 3;
  }
  return all;
}

/// A rank has a buffer of sums for each that reaches into its block, perhaps all; a schedule has 65535, of all kinds.
constexpr std::uint64_t k_most_tensors = 65'000;

}  // namespace

constinit const algorithm k_adasum_gram{
    .of = &k_adasum,
    .name = "gram",
    .generate = generated<k_adasum_gram, add_adasum_gram>,
    .needs = {.most_ranks = static_cast<rank>(k_most_vectors),
              .summary = "up to 64 ranks; blocks scattered and spread, all sums in one exchange: three hops"},
    .cost_of = cost_of_gram,
    .looks_at = {.tensors = true},
    .expression_of = hypercube_expression,
    .most_tensors = k_most_tensors};

fragment add_adasum_gram(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  return gram(to, data, input, output, entry).write();
}

}  // namespace lsched
