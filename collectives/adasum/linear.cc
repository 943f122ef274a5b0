// Adasum along the line of ranks: rank 0's vector with rank 1's, that with rank 2's, and so on (Maleki and others,
// "Scaling distributed training with adaptive summation", MLSys 2021, the ring of section 4.2.3).
//
// Each tensor goes up the line and comes back down by itself, so that ranks work on different tensors at a time. A
// tensor has to be complete before its dot product is known, so that one tensor alone takes 2 (P-1) hops with all of
// it. Other algorithms are faster; this one is for who wants its semantics: the last rank weighs 1/2 where vectors are
// parallel, the one before 1/4, and so on. Never chosen by "auto", since its results are other results.
#include <vector>

#include "collectives/adasum/adasum_vector.h"
#include "collectives/adasum/adasum.h"
#include "libsched/postcondition/postcondition.h"

namespace lsched {
namespace {

/// What goes up and down by itself. A vector without tensors goes as an empty one, so that the world is synchronised.
std::vector<tensor> travellers(const shape& data) {
  std::vector<tensor> all = tensors_of(data);
  if (all.empty()) all.push_back({});
  return all;
}

constexpr std::uint32_t up_tag(std::size_t i) { return 2 * static_cast<std::uint32_t>(i); }
constexpr std::uint32_t down_tag(std::size_t i) { return up_tag(i) + 1; }

/// The ops of one rank while they are being written.
class line {
 public:
  line(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry)
      : self_(to.place().self),
        last_(to.place().size - 1),
        whole_{0, data.count},
        tensors_(travellers(data)),
        map_(data, {0, data.count}),
        ops_(to, data, entry),
        vector_(ops_, data, map_, input, output) {}

  fragment write() {
    if (last_ == 0) {
      if (!vector_.is_same(vector_.input(), vector_.output()))
        ops_.copy(vector_.blocks(vector_.input(), 0, 1), vector_.blocks(vector_.output(), 0, 1));
      return ops_.finish(true);
    }
    for (std::size_t i = 0; i < tensors_.size(); ++i) go_up(i);
    for (std::size_t i = 0; i < tensors_.size(); ++i) come_down(i);
    vector_.copy_gaps(vector_.input(), vector_.output(), whole_);
    return ops_.finish(true);
  }

 private:
  stretch part(adasum_vector::place where, std::size_t i) const {
    if (tensors_[i].count == 0) return {{where.buffer, 0}, 0, where.cell, 1};
    return vector_.elements(where, {tensors_[i].begin, tensors_[i].end()});
  }

  // The first rank's output is not its to send: it is what comes back.
  void go_up(std::size_t i) {
    if (self_ > 0) {
      const stretch payload = ops_.scratch(tensors_[i].count);
      received_ = ops_.recv(self_ - 1, up_tag(i), payload);
      if (tensors_[i].count != 0) {
        const stretch sums = vector_.sums(1), own = part(vector_.input(), i);
        ops_.dot_norms(payload, own, sums);
        ops_.adasum(payload, own, sums, part(vector_.output(), i));
      }
    }
    if (self_ == last_) return;
    ops_.send(self_ + 1, up_tag(i), part(self_ == 0 ? vector_.input() : vector_.output(), i));
    ops_.wait_for(received_);
  }

  void come_down(std::size_t i) {
    const stretch result = part(vector_.output(), i);
    if (self_ < last_) ops_.recv(self_ + 1, down_tag(i), result);
    if (self_ == 0) return;
    ops_.send(self_ - 1, down_tag(i), result);
    if (tensors_[i].count == 0) ops_.wait_for(received_);
  }

  const rank self_;
  const rank last_;
  const element_range whole_;
  const std::vector<tensor> tensors_;
  const tensor_map map_;
  ordered_ops ops_;
  adasum_vector vector_;
  op_id received_ = k_no_op;  ///< what came up last
};

cost cost_of_line(rank size, const shape& data) {
  const std::uint64_t hops = 2 * (wide(size) - 1);
  std::uint64_t elements = 0;
  for (const tensor& part : tensors_of(data)) elements += part.count;
  return {.messages = hops * travellers(data).size(),
          .bytes = saturating_product(hops, bytes_of(elements, data)),
          .hops = hops};
}

std::uint64_t line_expression(rank size, const shape&, const tensor& part) {
  std::uint64_t all = leaf_tree(0, 0);
  for (rank r = 1; r < size; ++r) all = adasum_expression(all, leaf_tree(r, 0), part.begin, part.end());
  return all;
}

/// Each has two buffers of its own, its vector that comes up and its sums; a schedule has 65535 in all.
constexpr std::uint64_t k_most_tensors = 32'766;

}  // namespace

constinit const algorithm k_adasum_linear{
    .of = &k_adasum,
    .name = "linear",
    .add = add_by<line>,
    .needs = {.by_name_only = true,
              .needs_everybody = true,
              .summary = "any P, slow; rank after rank, so that later ranks weigh more; never chosen by auto"},
    .cost_of = cost_of_line,
    .looks_at = {.tensors = true},
    .expression_of = line_expression,
    .most_tensors = k_most_tensors};

}  // namespace lsched
