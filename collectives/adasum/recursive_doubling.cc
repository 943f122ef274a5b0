// Adasum by recursive doubling of entire vectors, for every P by a fold.
//
//   fold      an extra sends its vector to its proxy, which combines the two
//   step j    core ranks across dimension j exchange what they have and combine it     j = 0 … L-1
//   unfold    a proxy sends the result to its extra
//
// Whoever combines two vectors has all of both, so no sums travel: L + 2 steps at most, and the choice for short
// vectors. Each rank moves L times the vector and takes all its dot products. All ranks combine the same operands in
// the same order, so they hold the same bits; and what they combine is what the halving algorithm does
// (hypercube_expression).
#include <array>
#include <utility>

#include "collectives/adasum/adasum_vector.h"
#include "collectives/adasum/adasum.h"

namespace lsched {
namespace {

constexpr std::uint32_t k_fold_tag = 0;
constexpr std::uint32_t tag_of_step(int j) { return 1 + static_cast<std::uint32_t>(j); }

/// The ops of one rank while they are being written.
class doubling {
 public:
  doubling(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry)
      : self_(to.place().self),
        folded_(to.place().size),
        whole_{0, data.count},
        in_place_(data.in_place),
        map_(data, {0, data.count}),
        ops_(to, data, entry),
        vector_(ops_, data, map_, input, output) {}

  // As in the allreduce: a payload is held for the reader of step j, which waits for the sends of earlier steps only;
  // but in place with one dimension step 0 waits for its own send.
  fragment write() {
    if (folded_.levels() == 0) {
      if (!in_place_) ops_.copy(all_of(vector_.input()), all_of(vector_.output()));
    } else if (folded_.is_extra(self_)) {
      ops_.send(folded_.proxy_of(self_), k_fold_tag, all_of(vector_.input()));
      ops_.recv(folded_.proxy_of(self_), unfold_tag(), all_of(vector_.output()));
    } else {
      write_core();
    }
    return ops_.finish(!(in_place_ && folded_.levels() == 1));
  }

 private:
  using place = adasum_vector::place;

  std::uint32_t unfold_tag() const { return tag_of_step(folded_.levels()); }
  stretch all_of(place where) const { return vector_.blocks(where, 0, 1); }

  void write_core() {
    const bool is_proxy = folded_.is_proxy(self_);
    place now = vector_.input();
    if (is_proxy) {
      const place folded = accumulator(0);
      combine(folded_.extra_of(self_), k_fold_tag, now, folded);
      now = folded;
    }
    for (int j = 0; j < folded_.levels(); ++j) {
      const rank partner = folded_.across(self_, j);
      ops_.send(partner, tag_of_step(j), all_of(now));
      ops_.wait_for(received_);
      const place next = j + 1 == folded_.levels() ? vector_.output() : accumulator(j + 1);
      combine(partner, tag_of_step(j), now, next);
      now = next;
    }
    if (!is_proxy) return;
    ops_.send(folded_.extra_of(self_), unfold_tag(), all_of(now));
    ops_.wait_for(received_);
  }

  /// target = the adaptive sum of what is in `mine` and what the partner sends.
  void combine(rank partner, std::uint32_t tag, place mine, place target) {
    const stretch payload = ops_.scratch(whole_.count());
    const auto tensors = map_.tensors();
    const op_id before = std::exchange(received_, ops_.recv(partner, tag, payload));
    if (tensors.empty()) ops_.wait_for(before);  // since no sum does
    const stretch sums = vector_.sums(tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const element_range part = whole_.common(tensors[i]);
      const stretch own = vector_.elements(mine, part), theirs = part_of_payload(payload, 0, part);
      const stretch& lower = self_ < partner ? own : theirs;
      const stretch& higher = self_ < partner ? theirs : own;
      ops_.dot_norms(lower, higher, adasum_vector::sums_of(sums, i));
      ops_.adasum(lower, higher, adasum_vector::sums_of(sums, i), vector_.elements(target, part));
    }
    if (self_ < partner) return vector_.copy_gaps(mine, target, whole_);
    for (const element_range gap : map_.gaps_in(whole_))  // all ranks end up with those of the first
      ops_.copy(part_of_payload(payload, 0, gap), vector_.elements(target, gap));
  }

  // The two take turns; a small world needs one or none.
  place accumulator(int j) {
    place& chosen = accumulators_[static_cast<std::size_t>(j % 2)];
    if (chosen.buffer == k_no_buffer) chosen = vector_.scratch();
    return chosen;
  }

  const rank self_;
  const fold folded_;
  const element_range whole_;
  const bool in_place_;
  const tensor_map map_;
  ordered_ops ops_;
  adasum_vector vector_;
  std::array<place, 2> accumulators_{};
  op_id received_ = k_no_op;  ///< the vector that came last
};

}  // namespace

constinit const algorithm k_adasum_doubling{
    .of = &k_adasum,
    .name = "recursive_doubling",
    .add = add_by<doubling>,
    .needs = {.summary = "short vectors, any P; log2 P steps, each with the entire vector; no sums travel"},
    .cost_of =
        [](rank size, const shape& data) {
          return cost_of_messages(messages_of_doubling(size), data.count, data, hops_of_doubling(size));
        },
    .looks_at = {.tensors = true},
    .expression_of = hypercube_expression};

}  // namespace lsched
