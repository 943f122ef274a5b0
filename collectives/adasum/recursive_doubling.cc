// Adasum by recursive doubling of entire vectors. A fold (geometry.h) extends the algorithm to every P.
//
//   fold      an extra sends its vector to its proxy, which combines both vectors
//   step j    core ranks across dimension j exchange their vectors and combine them     j = 0 … L-1
//   unfold    a proxy sends the result to its extra
//
// A rank that combines two vectors has all elements of both, so no dot products are exchanged. There are at most L + 2
// steps, but each rank sends the vector L times and computes all dot products. So the algorithm suits short vectors.
// All ranks combine the same operands in the same order as the halving algorithm (hypercube_expression). So all ranks
// get the same result, bit for bit.
#include <array>
#include <utility>

#include "collectives/adasum/adasum.h"
#include "collectives/adasum/adasum_part.h"

namespace lsched {
namespace {

constexpr std::uint32_t k_fold_tag = 0;
constexpr std::uint32_t tag_of_step(int j) { return 1 + static_cast<std::uint32_t>(j); }

class doubling : adasum_part {
 public:
  doubling(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry)
      : adasum_part(to, data, input, output, entry, {0, data.count}) {}

  // The fragment satisfies the conditions of builder::declare_holding: the reader of a payload waits only for sends of
  // earlier steps. The conditions are not satisfied in place with one dimension, because step 0 then waits for its own
  // send.
  fragment write() {
    if (folded_.levels() == 0) {
      copy_alone(all_of(given()), all_of(result()));
    } else if (folded_.is_extra(self())) {
      send(folded_.proxy_of(self()), k_fold_tag, all_of(given()));
      recv(folded_.proxy_of(self()), unfold_tag(), all_of(result()));
    } else {
      write_core();
    }
    return finish(!(in_place() && folded_.levels() == 1));
  }

 private:
  std::uint32_t unfold_tag() const { return tag_of_step(folded_.levels()); }
  stretch all_of(place where) const { return blocks(where, 0, 1); }

  void write_core() {
    const bool is_proxy = folded_.is_proxy(self());
    place now = given();
    if (is_proxy) {
      const place folded = accumulator(0);
      combine(folded_.extra_of(self()), k_fold_tag, now, folded);
      now = folded;
    }
    for (int j = 0; j < folded_.levels(); ++j) {
      const rank partner = folded_.across(self(), j);
      send(partner, tag_of_step(j), all_of(now));
      wait_for(received_);
      const place next = j + 1 == folded_.levels() ? result() : accumulator(j + 1);
      combine(partner, tag_of_step(j), now, next);
      now = next;
    }
    if (!is_proxy) return;
    send(folded_.extra_of(self()), unfold_tag(), all_of(now));
    wait_for(received_);
  }

  /// Appends the adaptive sum of the vector `held` and the partner's vector. The result is written to `target`.
  void combine(rank partner, std::uint32_t tag, place held, place target) {
    const stretch payload = scratch(whole_.count());
    const auto tensors = map().tensors();
    const op_id before = std::exchange(received_, recv(partner, tag, payload));
    if (tensors.empty()) wait_for(before);  // without tensors, no other op waits for the previous receive
    const stretch sums = new_sums(tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const element_range part = whole_.common(tensors[i]);
      const stretch own = elements(held, part), theirs = part_of_payload(payload, 0, part);
      const stretch& lower = self() < partner ? own : theirs;
      const stretch& higher = self() < partner ? theirs : own;
      dot_norms(lower, higher, adasum_part::sums_of(sums, i));
      adasum(lower, higher, adasum_part::sums_of(sums, i), elements(target, part));
    }
    if (self() < partner) return copy_gaps(held, target, whole_);
    for (const element_range gap : map().gaps_in(whole_))  // both ranks get the elements of the lower rank
      copy(part_of_payload(payload, 0, gap), elements(target, gap));
  }

  // Returns one of two accumulators, which alternate. Accumulators are allocated on demand, because a small world needs
  // at most one.
  place accumulator(int j) {
    place& chosen = accumulators_[static_cast<std::size_t>(j % 2)];
    if (chosen.buffer == k_no_buffer) chosen = new_vector();
    return chosen;
  }

  const fold folded_{size()};
  const element_range whole_{0, count()};
  std::array<place, 2> accumulators_{};
  op_id received_ = k_no_op;  ///< receive of the most recent vector
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
