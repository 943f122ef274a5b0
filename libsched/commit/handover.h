// A handover is a commit that continues failed partial instances of another world. The members compare their progress,
// and each member takes over the result of the last round that any member has ended. If all members share memory, they
// copy this result during the commit. Otherwise the caller must send the result after the commit. See
// docs/reference/shrink.md.
//
// The other world may belong to another engine, and members of the new world may be new. A new member has no instances,
// so it takes over no result. It learns the number of rounds that are over.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "libsched/commit/commit.h"
#include "libsched/engine/partial_state.h"

namespace lsched {

class handover final : public commitment {
 public:
  static constexpr std::size_t k_most = 3;

  /// The session of a member. A new member has an empty object.
  struct origin {
    std::span<instance* const> from{};  ///< one to k_most instances, in the same order on all members
    std::uint64_t ranks = 0;            ///< session::ranks()
    bool is_in_common_call = false;     ///< session::is_in_common_call()
  };

  /// Creates the commit. Only the engine's owner may call the constructor. `where` owns all instances of the origin, or
  /// on all members none of them. New members are permitted only in the second case. The instances must outlive the
  /// commit. If an instance has not failed, the commit is refused. If a member is in a common call, new members are
  /// refused, because they cannot take part in this call. If this member cannot create the successors of the instances,
  /// the caller passes the reason in `unable`, and the commit is refused with that error.
  handover(engine& where, membership_ptr members, std::uint64_t number, const origin& of,
           const std::optional<failure>& unable);

  /// The last result of an instance, for the members that lack this result.
  struct transfer {
    instance* of;              ///< null on a new member, which takes no part in the transfer
    last_result what;          ///< `data` is set only on the owner, and only if a member contributed
    rank owner;                ///< a member that has the result
    std::vector<rank> behind;  ///< the members that lack the result
    std::uint64_t bytes;       ///< 0: the result has no data, or this member is new
  };
  /// Returns the results to send. The list is equal on all members, except for `of`, `data` and `bytes`. The commit
  /// must have succeeded. If the list is not empty, the caller must send the data to the members that lack it, and then
  /// call end_transfers().
  const std::vector<transfer>& transfers() const { return transfers_; }
  /// Adopts the results that this member lacked. `received` has the data of each transfer, in the order of transfers().
  /// Only the engine's owner may call this function.
  void end_transfers(const std::vector<std::vector<std::byte>>& received);

  /// Returns the number of rounds that are over, for each instance. If all members are new, the numbers are 0. The
  /// commit must have succeeded. The numbers are equal on all members.
  const std::array<round_no, k_most>& rounds() const { return rounds_; }
  /// Returns `ranks` of the members that are not new. If all members are new, returns the size of this world.
  std::uint64_t ranks() const { return ranks_; }

  void abandon() override { from_.clear(); }

 private:
  std::optional<failure> conclude(const std::vector<commit_record>& all) override;
  void withdraw(const failure&) override {}
  std::optional<failure> write_progress();
  std::optional<failure> compare(const std::vector<commit_record>& all);
  std::optional<failure> take_over(std::size_t index, const std::vector<commit_record>& all);
  bool share_memory(const std::vector<commit_record>& all) const;
  void strip_instances();

  engine& engine_;
  std::vector<instance*> from_;
  bool shares_memory_ = true;
  std::array<round_no, k_most> rounds_{};
  std::uint64_t ranks_;
  bool is_in_common_call_;
  std::vector<transfer> transfers_;
};

}  // namespace lsched
