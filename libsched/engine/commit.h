// A commit: a step that all members of a world make together, each once and in the same order. (docs/worlds.md)
//
// Every rank reserves first, so that early messages find their place; then it shows the others a record of what it is
// about to commit, gathers theirs, and goes on only if all agree. A rank whose own arguments are bad still shows a
// record, with its error, so that every rank hears of it and none is left waiting.
//
//     made ── queued ── record posted ── all records gathered ── concluded: it stands, or why not
//                    └─────────────────────────────────────────── given up by some member
//
// commit_queue.h moves commits through that; here is what a commit is. What is common to all is commitment; a schedule
// that a world's ranks are to run is a schedule_commit.
#pragma once

#include <atomic>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libsched/engine/engine.h"
#include "libsched/transport/membership.h"

namespace lsched {

/// What a rank tells the others. Plain bytes: they cross process and node borders.
struct commit_record {
  std::uint64_t number;  ///< in the world: catches ranks that commit in different orders
  std::int32_t code;     ///< this rank's own status of its arguments
  std::int32_t is_synchronising;
  std::uint64_t agreement_hash;  ///< of all of it
  std::uint64_t reductions;      ///< of a schedule: by which reduction the rank combines elements of each dtype
  member_address address;        ///< of this rank's end of what is made
  char agreement[144];           ///< as much as there is room for
  char detail[320];              ///< the text that goes with an error, or what the kind of commit has to tell
};
static_assert(sizeof(commit_record) <= board::record_bytes);

class commitment {
 public:
  virtual ~commitment() = default;
  commitment(const commitment&) = delete;
  commitment& operator=(const commitment&) = delete;

  // As those of an instance; the only round is 1. Any thread.
  std::atomic<round_no> finished{0};
  std::atomic<status> verdict{status::ok};

  /// Once it has ended.
  const failure& why() const { return why_; }

 protected:
  /// `agreement`: what all ranks must have said, in words, such as "allreduce recursive_doubling sum f32 count 1000".
  commitment(membership_ptr members, std::uint64_t number, const std::string& agreement);

  /// This rank cannot: what the record tells the others. Before it is queued.
  void refuse(failure why);

  /// Whether all agree, and what follows from it: the records of all members, by rank.
  virtual std::optional<failure> conclude(const std::vector<commit_record>& all) = 0;
  /// It does not stand: nothing of it may remain.
  virtual void withdraw() = 0;
  /// It stands, although this rank has given it up before that was known.
  virtual void orphan() = 0;

  rank self() const { return members_->place().self; }

  const membership_ptr members_;
  const std::uint64_t number_;
  commit_record record_{};

 private:
  friend class commit_queue;
  void end(const std::optional<failure>& why);
  void end_as(const failure& why);
  std::optional<failure> find_disagreement(const std::vector<commit_record>& all) const;

  bool is_given_up_ = false;
  std::optional<failure> refused_{};
  failure why_{status::ok, {}, k_no_rank, k_no_op};
};

/// What the ranks must agree on, in words. Only differences that matter belong in it.
struct commit_request {
  std::string agreement;
  result<schedule_ptr> program;  ///< or why this rank has none
  binding memory{};
  instance_options options{};
};

/// The record also carries this rank's part of the world's edge_balance: whether every send has its receive, with the
/// same peer, tag, kind, dtype and capacity, every rank knows without another message. And it says by which reduction a
/// rank combines elements of each dtype, which the two ends of an edge cannot tell: ranks that know but one must mean
/// the same.
class schedule_commit final : public commitment {
 public:
  /// By the engine's owner. Reserves everything.
  schedule_commit(engine& where, membership_ptr members, std::uint64_t number, const commit_request& request);

  /// Null if it has failed.
  instance* committed() const { return instance_; }

 private:
  std::optional<failure> conclude(const std::vector<commit_record>& all) override;
  void withdraw() override;
  void orphan() override;

  void reserve(const commit_request& request);

  engine& engine_;
  instance* instance_ = nullptr;
};

}  // namespace lsched
