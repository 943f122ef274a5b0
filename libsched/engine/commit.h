// Commit: the one collective step between describing a schedule and running it.
//
// Every rank reserves first (so that early messages find their place), then publishes a record of what it is
// about to commit, gathers everybody's, and connects only if all agree. A rank whose own arguments are bad still
// publishes a record, with its error, so that every rank returns and none is left waiting.
//
// The record also carries this rank's part of the world's edge_balance: whether every send has its receive, with
// the same peer, tag, kind, dtype and capacity, every rank knows without another message. And it says by which
// reduction a rank combines elements of each dtype, which the two ends of an edge cannot tell: ranks that know but one
// must mean the same.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "libsched/engine/engine.h"

namespace lsched {

/// What the ranks must agree on, in words: "allreduce recursive_doubling sum f32 count 1000". Only differences
/// that matter belong in it.
struct commit_request {
  std::string agreement;
  result<schedule_ptr> program;  ///< or why this rank has none
  binding memory{};
  instance_options options{};
};

/// One commit in progress at this rank. Construct it, then call advance() until it is not PENDING; the owner of
/// the engine does both.
class commitment {
 public:
  commitment(engine& where, const commit_request& request);

  /// Never blocks. After ok, `committed` is open for use. After any other final answer nothing remains of it.
  status advance();

  /// Gives up: names who is missing. The records are out of step from now on, so no other commit can follow.
  void abandon();

  instance* committed() const { return instance_; }
  const failure& why() const { return why_; }

 private:
  status check();
  void undo(failure why);

  engine& engine_;
  instance* instance_ = nullptr;
  failure why_{status::ok, {}, k_no_rank, k_no_op};
  rank missing_ = k_no_rank;
  std::vector<std::byte> records_;
};

}  // namespace lsched
