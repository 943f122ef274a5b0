// Allreduce by recursive multiplying: in each step, groups of k ranks exchange vectors (Ruefenacht, Bull and Booth,
// "Generalisation of recursive doubling for AllReduce", 2017). For k = 2, this is recursive doubling. A fold
// (geometry.h) extends the algorithm to every P.
//
//   fold      an extra sends its input to its proxy, which combines both inputs
//   step j    core ranks that differ only in digit j send their values to each other, and combine all of them
//   unfold    a proxy sends the result to its extra
//
//   recursive_doubling      k = 2: latency-optimal if a rank sends one message at a time (Thakur, Rabenseifner and
//                           Gropp, 2005); each rank sends the vector log2 P times
//   recursive_multiplying   k = 4, or `radix`
//
// There are log_k P steps, and two more for a fold. In each step, a rank sends k-1 messages with the entire vector. So
// a larger k gives fewer hops but more bytes. A larger k is faster for short vectors if a rank can send k-1 messages in
// about the time of one message. The core has m * k^j ranks with m < k, so for example P = 8 with k = 4 needs no fold.
// Operands are combined in rank order, and all ranks evaluate the same expression. So all ranks get the same result,
// bit for bit, and the kernel need not be commutative.
#pragma once

#include <span>
#include <vector>

#include "collectives/algorithm/algorithm.h"
#include "collectives/patterns/ordered_ops.h"

namespace lsched {

/// Returns k: shape::radix, or 4 if that is 0.
constexpr rank multiplying_radix(const shape& data) { return data.radix == 0 ? 4 : data.radix; }

/// The ranks that take part in an allreduce (the members), numbered from 0.
struct members {
  rank self = 0;  ///< index of this rank among the members
  rank size = 1;
  std::span<const rank> ranks{};  ///< rank of each member, by index; empty: all ranks of the world
};

/// Appends an allreduce of `input` into `output` among some ranks. Uses fewer than 64 tags, beginning with `tag`.
/// Returns true if the conditions of builder::declare_holding are satisfied.
bool add_multiplying(ordered_ops& to, const members& among, rank radix, std::uint32_t tag, const stretch& input,
                     const stretch& output);

cost cost_of_multiplying(rank size, rank radix, std::uint64_t count, const shape& data);

/// Returns one length for each member: the longest chain of messages that leads to the member's result. `chains[i]` is
/// the length of the longest chain that leads to the input of member i.
std::vector<std::uint64_t> chains_of_multiplying(rank radix, std::vector<std::uint64_t> chains);

}  // namespace lsched
