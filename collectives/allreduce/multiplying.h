// Allreduce by recursive multiplying: steps of k ranks, for every P by a fold (recursive doubling is k = 2;
// Ruefenacht, Bull and Booth, "Generalisation of recursive doubling for AllReduce", 2017).
//
//   fold      an extra sends its input to its proxy, which combines the two
//   step j    core ranks that differ in digit j alone exchange what they have, everybody with everybody, and combine it
//   unfold    a proxy sends the result to its extra
//
//   recursive_doubling      k = 2: latency-optimal in messages of one rank at a time (Thakur, Rabenseifner and Gropp,
//                           2005); each rank moves log2 P times the vector
//   recursive_multiplying   k = 4, or `radix`
//
// log_k P steps (+2) of k-1 messages of the entire vector: fewer hops than recursive doubling for more bytes, which is
// the better bargain for short vectors as long as a rank can send k-1 messages in about the time of one. The core is m
// * k^j ranks with m < k, so that a P like 8 with k = 4 needs no fold.
// Operands of lower ranks come first; all ranks evaluate one expression, so they hold the same bits, and the kernel
// need not commute.
#pragma once

#include <span>
#include <vector>

#include "collectives/algorithm/algorithm.h"
#include "collectives/patterns/ordered_ops.h"

namespace lsched {

/// k: 4 if the shape does not say.
constexpr rank multiplying_radix(const shape& data) { return data.radix == 0 ? 4 : data.radix; }

/// The ranks that take part.
struct members {
  rank self = 0;  ///< the number of this one
  rank size = 1;
  std::span<const rank> ranks{};  ///< by number; empty: all ranks of the world
};

/// Appends an allreduce of `input` into `output` among some ranks. Tags from `tag` on, fewer than k_multiplying_tags of
/// them, are used. Answers whether payloads may be held.
bool add_multiplying(ordered_ops& to, const members& among, rank radix, std::uint32_t tag, const stretch& input,
                     const stretch& output);
inline constexpr std::uint32_t k_multiplying_tags = 64;

/// Of one such allreduce of `count` elements.
cost cost_of_multiplying(rank size, rank radix, std::uint64_t count, const shape& data);

/// The longest chain of messages up to each rank's result, where one of `chains[i]` messages leads to what number i
/// brings.
std::vector<std::uint64_t> chains_of_multiplying(rank radix, std::vector<std::uint64_t> chains);

}  // namespace lsched
