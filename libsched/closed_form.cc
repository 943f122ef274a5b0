#include "libsched/closed_form.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace lsched {
namespace {

/// Of a program whose ranks are all at the same place, one message each: the sender's CPU may be the last to be done.
picoseconds round(const machine& where, std::uint64_t bytes) {
  const message_cost it = cost_of(where, 0, bytes);
  const bool is_eager = it.is_eager || where.rules == semantics::loggopsim;
  return is_eager ? std::max(hop(where, bytes), picoseconds{0} + it.sender + it.receiver) : hop(where, bytes);
}

picoseconds combination(const machine& where, std::uint64_t bytes) { return time_of(bytes, where.compute); }

/// Whether a NIC may still be busy with one message when the next comes.
std::optional<failure> objection(const machine& where, std::uint64_t bytes, rank size) {
  const message_cost it = cost_of(where, 0, bytes);
  if (size < 2 || it.gap.time <= picoseconds{0} + it.latency + it.tail + it.receiver) return std::nullopt;
  return failure{status::unsupported,
                 "messages may wait for a NIC, which no closed form knows: it takes "
                 "g + (m-1) G <= L + o + (m-1) max(G, O)"};
}

result<picoseconds> time_in(const machine& where, const recursive_doubling_program& it) {
  if (it.folded.rem() != 0) return failure{status::unsupported, "a closed form is known for powers of two only"};
  if (const auto why = objection(where, it.bytes, it.size)) return *why;
  return product(it.levels(), sum(round(where, it.bytes), product(it.passes, combination(where, it.bytes))));
}

result<picoseconds> time_in(const machine& where, const dissemination_program& it) {
  if (const auto why = objection(where, it.bytes, it.size)) return *why;
  return product(ceil_log2(it.size), round(where, it.bytes));
}

result<picoseconds> time_in(const machine& where, const tree_program& it) {
  const bool is_full = std::has_single_bit(static_cast<unsigned>(it.size));
  if (it.radix != 2 || !it.is_reduce || !is_full)
    return failure{status::unsupported, "a closed form is known for a binomial reduction on a power of two only"};
  if (const auto why = objection(where, it.bytes, it.size)) return *why;
  return product(ceil_log2(it.size), sum(hop(where, it.bytes), combination(where, it.bytes)));
}

result<picoseconds> time_in(const machine& where, const ring_program& it) {
  const auto size = static_cast<std::uint64_t>(it.size);
  if (it.bytes % size != 0) return failure{status::unsupported, "the blocks of the ring differ in size"};
  const std::uint64_t block = it.bytes / size;
  if (const auto why = objection(where, block, it.size)) return *why;
  const picoseconds one = round(where, block);
  return product(it.size - 1, sum(sum(one, combination(where, block)), one));
}

/// All ranks are at the same place all the time.
result<picoseconds> time_in(const machine& where, const halving_program& it) {
  picoseconds time = 0;
  for (std::uint32_t i = 0; it.at(0, i).kind != step_kind::end; i += 2) {
    const step now = it.at(0, i + 1);
    const std::uint64_t bytes = it.bytes_of(now.size);
    if (const auto why = objection(where, bytes, it.size)) return *why;
    time = sum(time, sum(round(where, bytes), product(now.passes, combination(where, bytes))));
  }
  return time;
}

/// The root takes one message after the other, at the pace of its NIC or of its CPU.
result<picoseconds> time_in(const machine& where, const gather_program& it) {
  if (it.size < 2) return picoseconds{0};
  const message_cost cost = cost_of(where, 0, it.bytes);
  if (where.rules == semantics::libsched && !cost.is_eager)
    return failure{status::unsupported, "a closed form of gather is known for eager messages only"};
  return sum(hop(where, it.bytes), product(it.size - 2, std::max(cost.gap.time, cost.receiver.time)));
}

}  // namespace

picoseconds hop(const machine& where, std::uint64_t bytes) {
  const message_cost it = cost_of(where, 0, bytes);
  if (where.rules == semantics::libsched && !it.is_eager)
    return picoseconds{0} + it.overhead + it.overhead + it.latency + it.latency + it.latency + it.tail + it.receiver;
  return picoseconds{0} + it.overhead + it.latency + it.tail + it.receiver;
}

result<picoseconds> closed_form(const simulation& what) {
  const bool is_plain = what.skew.kind == skew_kind::none && what.noise.is_silent() && what.where.levels.size() == 1 &&
                        what.starts.policy == activation_policy::none;
  if (!is_plain) return failure{status::unsupported, "closed forms know no skew, noise, levels or activation"};
  auto time = std::visit([&](const auto& it) { return time_in(what.where, it); }, what.what);
  if (time && *time >= k_forever) return failure{status::unsupported, "it takes longer than 26 days of simulated time"};
  return time;
}

partial_latency latency_under_linear_skew(rank size, picoseconds skew, picoseconds cost) {
  const double ranks = size, each = static_cast<double>(skew), all = static_cast<double>(cost);
  const double waiting = skew == 0 ? ranks : std::min(ranks, std::floor(all / each) + 1);  // before rank 0's result
  const double solo = (waiting * all - waiting * (waiting - 1) / 2 * each) / ranks;
  return {.synchronous = std::llround((ranks - 1) / 2 * each + all),
          .majority = std::llround((ranks * ranks - 1) / (6 * ranks) * each + (ranks + 1) / (2 * ranks) * all),
          .solo = std::llround(solo)};
}

}  // namespace lsched
