#include "collectives/allreduce/allreduce_flat.h"

#include <utility>
#include <vector>

#include "libsched/schedule/geometry.h"

namespace lsched {
namespace {

constexpr std::uint32_t k_tag = 0;

/// The ops of one rank while they are being written.
class all_to_all {
 public:
  all_to_all(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry)
      : to_(to), data_(data), place_(to.place()), input_(input), output_(output), entry_(entry) {}

  fragment write() {
    exit_ = to_.nop();
    const std::vector<op_id> given = send_to_all();
    op_id result = combine();
    if (place_.size == 1 ? !data_.in_place : sum_ != output_)
      result = after(result, to_.copy(whole(sum_), whole(output_), count()));
    // In place, the result must not come over an input that is still leaving. Nothing else waits for a send.
    for (const op_id sent : given) to_.dep(sent, data_.in_place ? result : exit_);
    to_.dep(result, exit_);
    // A payload waits for those of lower ranks, and their senders wait for nothing.
    return {.entry = entry_, .exit = exit_, .holding = true};
  }

 private:
  std::vector<op_id> send_to_all() {
    std::vector<op_id> sent;
    for (rank distance = 1; distance < place_.size; ++distance) {
      const rank peer = ring_after(place_.self, distance, place_.size);
      sent.push_back(after(entry_, to_.send(peer, k_tag, whole(input_), count())));
    }
    return sent;
  }

  /// Answers the op that completes the result, which is then in `sum_`.
  op_id combine() {
    sum_ = input_;
    if (place_.size == 1) return entry_;
    const buffer_id target = data_.in_place ? to_.scratch(data_.type, data_.count) : output_;
    op_id producer = k_no_op;
    for (rank r = 0; r < place_.size; ++r) {
      const auto [from, arrived] = contribution_of(r);
      if (r == 0) {
        sum_ = from;
        producer = arrived;
      } else {
        const op_id before = std::exchange(
            producer, to_.reduce(data_.what, whole(sum_), whole(from), whole(target), count(), {arrived}));
        to_.dep(before, producer);
        sum_ = target;
      }
    }
    return producer;
  }

  /// Where rank r's vector is, and what puts it there.
  std::pair<buffer_id, op_id> contribution_of(rank r) {
    if (r == place_.self) return {input_, entry_};
    const buffer_id landing = to_.scratch(data_.type, data_.count);
    return {landing, after(entry_, to_.recv(r, k_tag, whole(landing), count()))};
  }

  std::uint64_t count() const { return data_.count; }
  region whole(buffer_id buffer) const { return {buffer, 0}; }
  op_id after(op_id before, op_id what) {
    to_.dep(before, what);
    return what;
  }

  builder& to_;
  const shape& data_;
  const world place_;
  const buffer_id input_;
  const buffer_id output_;
  const op_id entry_;
  op_id exit_ = k_no_op;
  buffer_id sum_ = k_no_buffer;
};

cost cost_of_flat(rank size, const shape& data, const activation&) {
  const auto ranks = static_cast<std::uint64_t>(size);
  const std::uint64_t messages = ranks * (ranks - 1);
  return {.messages = messages,
          .bytes = saturating_product(messages, bytes_of(data.count, data)),
          .hops = size == 1 ? 0u : 1u};
}

}  // namespace

constinit const algorithm k_allreduce_flat{
    .of = &k_allreduce,
    .name = "flat",
    .add = add_allreduce_flat,
    .needs = {.summary = "any P and count; one hop, P(P-1) messages, for short vectors; same bits on every rank"},
    .cost_of = cost_of_flat};

fragment add_allreduce_flat(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  return all_to_all(to, data, input, output, entry).write();
}

}  // namespace lsched
