#include "libsched/closed_form.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace lsched {
namespace {

picoseconds combination(const machine& where, std::uint64_t bytes) { return time_of(bytes, where.compute); }

result<picoseconds> time_in(const machine& where, const recursive_doubling_program& it) {
  if (it.folded.rem() != 0) return failure{status::unsupported, "a closed form is known for powers of two only"};
  return static_cast<picoseconds>(it.levels()) * (hop(where, it.bytes) + combination(where, it.bytes));
}

result<picoseconds> time_in(const machine& where, const dissemination_program& it) {
  return ceil_log2(it.size) * hop(where, it.bytes);
}

result<picoseconds> time_in(const machine& where, const tree_program& it) {
  const bool is_full = std::has_single_bit(static_cast<unsigned>(it.size));
  if (it.radix != 2 || !it.is_reduce || !is_full)
    return failure{status::unsupported, "a closed form is known for a binomial reduction on a power of two only"};
  return ceil_log2(it.size) * (hop(where, it.bytes) + combination(where, it.bytes));
}

result<picoseconds> time_in(const machine& where, const ring_program& it) {
  const auto size = static_cast<std::uint64_t>(it.size);
  if (it.bytes % size != 0) return failure{status::unsupported, "the blocks of the ring differ in size"};
  return (it.size - 1) * (2 * hop(where, it.bytes / size) + combination(where, it.bytes / size));
}

/// The root takes one message after the other, at the pace of its NIC or of its CPU.
result<picoseconds> time_in(const machine& where, const gather_program& it) {
  if (it.size < 2) return picoseconds{0};
  const message_cost cost = cost_of(where, 0, it.bytes);
  return hop(where, it.bytes) + (it.size - 2) * std::max(cost.gap.time, cost.receiver.time);
}

}  // namespace

picoseconds hop(const machine& where, std::uint64_t bytes) {
  const message_cost it = cost_of(where, 0, bytes);
  if (where.rules == semantics::libsched && !it.is_eager)
    return 2 * it.overhead.time + 3 * it.latency.time + it.tail.time + it.receiver.time;
  return it.overhead.time + it.latency.time + it.tail.time + it.receiver.time;
}

result<picoseconds> closed_form(const simulation& what) {
  const bool is_plain = what.skew.kind == skew_kind::none && what.noise.is_silent() &&
                        what.where.levels.size() == 1 && what.starts == activation_policy::none;
  if (!is_plain) return failure{status::unsupported, "closed forms know no skew, noise, levels or activation"};
  return std::visit([&](const auto& it) { return time_in(what.where, it); }, what.what);
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
