// Scan and exscan, in rank order.
//
//   recursive_doubling   step k: rank r sends what it has of ranks r-2^k+1 … r to r+2^k              ceil(log2 P) steps
//                        (simultaneous binomial trees: Hillis and Steele, 1986), any P; one combination a step, two in
//                        an exscan, which keeps its own contribution apart
//   chain                rank r waits for r-1 and goes on to r+1, segment by segment; P-1 vectors on the wire in all
//
// The steps carry P log2 P vectors, but only floor(log2 P) hops follow one another; the chain is for long vectors.
#pragma once

#include "collectives/algorithm/algorithm.h"

namespace lsched {

/// Each appends a prefix reduction of `data.count` elements from `input` to `output`, which may be the same memory if
/// `data` says so. An exscan leaves rank 0's output alone.
fragment add_scan_recursive_doubling(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);
fragment add_scan_chain(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);
fragment add_exscan_recursive_doubling(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);
fragment add_exscan_chain(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);

extern const algorithm k_scan_recursive_doubling, k_scan_chain, k_exscan_recursive_doubling, k_exscan_chain;

}  // namespace lsched
