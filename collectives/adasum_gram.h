// Adasum in one go, by the Gram matrix of all contributions: for up to 64 ranks that are not far from each other.
//
//   scatter   every rank sends block q of its vector straight to rank q, which has a row of P vectors then
//   multiply  rank q makes the sums of its row with each other, tensor by tensor; ranks that share a tensor exchange
//             them
//   combine   by these the result is one weighted sum of the row (ops/adasum.h)
//   spread    rank q sends its block of the result to all others
//
// Three hops, whatever P is, where the halving algorithm has 2 log2 P + log2 P (log2 P + 1) / 2, and folds for other
// than powers of two. Nothing between contribution and result is rounded to the element's type. Sums are P (P + 1) / 2
// products of two doubles each, so that no exchange has to be made again where vectors cancel; but of f64 a combination
// that cancels to 2^-46 or less counts as zeros, which other algorithms do not do (ops/gram_pairs.h). All ranks add
// them in rank order: the same coefficients and the same bits. What is computed is what the halving algorithm computes
// (hypercube_expression).
//
// A rank takes P (P + 1) / 2 products of each element of its block, so the arithmetic is (P + 1) / 2 times that of dot
// products alone. Two blocks have one tensor in common at most, since they are neither side by side nor else is all
// between them of that tensor.
#pragma once

#include "collectives/algorithm.h"

namespace lsched {

/// Appends an adaptive sum of `data.count` elements from `input` to `output`.
fragment add_adasum_gram(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry);

extern const algorithm k_adasum_gram;

}  // namespace lsched
