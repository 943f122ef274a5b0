// Allreduce by recursive multiplying: steps of k ranks, for every P by a fold (recursive doubling is k = 2; Ruefenacht,
// Bull and Booth, "Generalisation of recursive doubling for AllReduce", 2017).
//
//   fold      an extra sends its input to its proxy, which combines both inputs
//   step j    core ranks that differ only in digit j send their values to each other, and combine all of them
//   unfold    a proxy sends the result to its extra
//
//   recursive_doubling      k = 2: latency-optimal if a rank sends one message at a time (Thakur, Rabenseifner and
//                           Gropp, 2005); each rank moves log2 P times the vector
//   recursive_multiplying   k = 4, or `radix`
//
// There are log_k P steps, and two more for a fold. In each step, a rank sends k-1 messages with the entire vector.
// Compared with recursive doubling, there are fewer hops but more bytes. The algorithm is better for short vectors as
// long as a rank can send k-1 messages in about the time of one. The core has m * k^j ranks with m < k, so that for
// example P = 8 with k = 4 needs no fold. Operands of lower ranks come first, and all ranks evaluate one expression. So
// all ranks hold the same bits, and the kernel need not commute.
#pragma once

#include <span>
#include <vector>

#include "collectives/algorithm/algorithm.h"
#include "collectives/patterns/ordered_ops.h"

namespace lsched {

/// Returns k, which is 4 if the shape has no radix.
constexpr rank multiplying_radix(const shape& data) { return data.radix == 0 ? 4 : data.radix; }

/// The ranks that take part in an allreduce, and the number of this rank among them.
struct members {
  rank self = 0;  ///< number of this rank
  rank size = 1;
  std::span<const rank> ranks{};  ///< ranks of the members, by number; empty: all ranks of the world
};

/// Appends an allreduce of `input` into `output` among some ranks. Uses fewer than 64 tags, beginning with `tag`.
/// Returns true if payloads may be held (builder::declare_holding).
bool add_multiplying(ordered_ops& to, const members& among, rank radix, std::uint32_t tag, const stretch& input,
                     const stretch& output);

/// Returns the cost of such an allreduce of `count` elements.
cost cost_of_multiplying(rank size, rank radix, std::uint64_t count, const shape& data);

/// Returns, for each member, the length of the longest chain of messages up to the result. `chains[i]` is the length of
/// the longest chain up to the input of member i.
std::vector<std::uint64_t> chains_of_multiplying(rank radix, std::vector<std::uint64_t> chains);

}  // namespace lsched
