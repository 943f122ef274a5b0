// Worlds whose ranks all do the same, so that one of them stands for all.
//
// If op i of every rank is of one kind, waits for the same ops and moves as much, and what op i sends is received by op
// j of its peer, whoever that is, then on a machine that makes no difference between ranks all of them are at the same
// point at all times: one rank is enough, which gets what it sends. Nothing is assumed: a world is looked at rank by
// rank, and only one schedule is kept. 4096 ranks of 16,000 ops then need the memory of two.
#pragma once

#include <functional>
#include <vector>

#include "libsched/schedule.h"
#include "ops/status.h"

namespace lsched {

struct alike_world {
  schedule_ptr one;  ///< rank 0's
  rank size = 1;
  std::vector<op_id> receiver_of{};   ///< of each send and signal, at the peer; else k_no_op
  std::vector<std::uint64_t> work{};  ///< of each op, as bytes_of_work: the mean of all ranks, where they differ
};

/// Asks for every rank's schedule once. Who receives from whom is compared by sums of 64-bit hashes over all ranks.
/// Failures: those of `generate`; ARGUMENT (no ranks); UNSUPPORTED (ranks differ, with the first that does; a partial
/// schedule).
result<alike_world> fold_world(rank size, const std::function<result<schedule_ptr>(world)>& generate);

}  // namespace lsched
