// Exchanges in which every pair of ranks has its own block: alltoall, alltoallv and neighbor_exchange.
//
//   direct     everything at once; peers in the order r+1, r+2, …, so that no rank is everybody's first       1 hop
//   pairwise   alltoallv only: step k exchanges with r+k and r-k, and waits for step k-W: W = `radix`, or 8, peers at
//              a time
//              (throttled; Kumar and others, 2008; Thakur, Rabenseifner and Gropp, 2005)
//
// Each block moves once, from where it is to where it belongs. Long ones go in segments. Of an alltoall in place, what
// is to be sent is copied to scratch memory first, since it may leave later than what replaces it comes. An alltoall(v)
// is synchronising: a pair without a block, or with an empty one, exchanges an empty message. Several blocks of one
// pair are told apart by their order in the list.
#pragma once

#include "collectives/algorithm/algorithm.h"

namespace lsched {

/// Each appends an exchange of `data`'s blocks from `input` to `output`.
fragment add_alltoall_direct(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);
fragment add_alltoallv_direct(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);
fragment add_alltoallv_pairwise(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);
fragment add_neighbor_exchange_direct(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);

extern const algorithm k_alltoall_direct, k_alltoallv_direct, k_alltoallv_pairwise,
    k_neighbor_exchange_direct;

}  // namespace lsched
