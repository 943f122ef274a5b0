// Adasum along the line of ranks: the vectors of ranks 0 and 1 are combined, then the result is combined with the
// vector of rank 2, and so on. (This is the ring in section 4.2.3 of Maleki and others, "Scaling distributed training
// with adaptive summation", MLSys 2021.)
//
// Each tensor moves up the line and back down independently, so that ranks work on different tensors at the same time.
// The dot product of a tensor requires the whole tensor, so a single tensor needs 2 (P-1) hops. Other algorithms are
// faster. This algorithm is useful only for its semantics. If vectors are parallel, the last rank has the weight 1/2,
// the rank before the last has the weight 1/4, and so on. "auto" never chooses this algorithm, because its results
// differ from those of the other algorithms.
#include "collectives/baselines/linear_adasum.h"

#include <vector>

#include "collectives/adasum/adasum_part.h"
#include "collectives/registry.h"
#include "libsched/postcondition/postcondition.h"

namespace lsched {
namespace {

/// Returns the tensors that move independently. For a vector without tensors, returns one empty tensor, so that the
/// ranks still synchronise.
std::vector<tensor> travellers(const shape& data) {
  std::vector<tensor> all = tensors_of(data);
  if (all.empty()) all.push_back({});
  return all;
}

constexpr std::uint32_t up_tag(std::size_t i) { return 2 * static_cast<std::uint32_t>(i); }
constexpr std::uint32_t down_tag(std::size_t i) { return up_tag(i) + 1; }

class line : adasum_part {
 public:
  line(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry)
      : adasum_part(to, data, input, output, entry, {0, data.count}) {}

  fragment write() {
    if (last_ == 0) {
      copy_alone(blocks(given(), 0, 1), blocks(result(), 0, 1));
      return finish(true);
    }
    for (std::size_t i = 0; i < tensors_.size(); ++i) go_up(i);
    for (std::size_t i = 0; i < tensors_.size(); ++i) come_down(i);
    copy_gaps(given(), result(), {0, count()});
    return finish(true);
  }

 private:
  stretch part(place where, std::size_t i) const {
    if (tensors_[i].count == 0) return {{where.buffer, 0}, 0, where.cell, 1};
    return elements(where, {tensors_[i].begin, tensors_[i].end()});
  }

  // The first rank sends its input, because its output receives the result.
  void go_up(std::size_t i) {
    if (self() > 0) {
      const stretch payload = scratch(tensors_[i].count);
      received_ = recv(self() - 1, up_tag(i), payload);
      if (tensors_[i].count != 0) {
        const stretch sums = new_sums(1), own = part(given(), i);
        dot_norms(payload, own, sums);
        adasum(payload, own, sums, part(result(), i));
      }
    }
    if (self() == last_) return;
    send(self() + 1, up_tag(i), part(self() == 0 ? given() : result(), i));
    wait_for(received_);
  }

  void come_down(std::size_t i) {
    const stretch finished = part(result(), i);
    if (self() < last_) recv(self() + 1, down_tag(i), finished);
    if (self() == 0) return;
    send(self() - 1, down_tag(i), finished);
    if (tensors_[i].count == 0) wait_for(received_);
  }

  const rank last_ = size() - 1;
  const std::vector<tensor> tensors_ = travellers(data());
  op_id received_ = k_no_op;  ///< the last receive on the way up
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

/// Each tensor needs two buffers: one for the vector that arrives from the previous rank, and one for the dot products.
/// A schedule has at most 65535 buffers.
constexpr std::uint64_t k_most_tensors = 32'766;

constexpr algorithm k_adasum_linear{
    .of = &k_adasum,
    .name = "linear",
    .add = add_by<line>,
    .needs = {.by_name_only = true,
              .needs_everybody = true,
              .summary = "any P, slow; rank after rank, so that later ranks weigh more; a baseline of `lsched`"},
    .cost_of = cost_of_line,
    .looks_at = {.tensors = true},
    .expression_of = line_expression,
    .most_tensors = k_most_tensors};

}  // namespace

void add_linear_adasum() { add_algorithm(k_adasum_linear); }

}  // namespace lsched
