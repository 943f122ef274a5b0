// A handover is a commit that continues failed partial instances of another world. The members compare their progress,
// and each member takes over the result of the last round that any member has ended. See docs/reference/shrink.md.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "libsched/commit/commit.h"

namespace lsched {

class handover final : public commitment {
 public:
  static constexpr std::size_t k_most = 3;

  /// Creates the commit. Engine's owner only. `from` must have one to k_most instances, in the same order on all
  /// members. The instances must outlive the commit. If an instance has not failed, the commit is refused. If this
  /// member cannot create the successors of the instances, the caller passes the reason in `unable`, and the commit is
  /// refused with that error.
  handover(engine& where, membership_ptr members, std::uint64_t number, std::span<instance* const> from,
           const std::optional<failure>& unable);

  void abandon() override { from_.clear(); }

 private:
  std::optional<failure> conclude(const std::vector<commit_record>& all) override;
  void withdraw(const failure&) override {}
  std::optional<failure> tell();
  std::optional<failure> take_over(instance& mine, std::size_t index, const std::vector<commit_record>& all);

  engine& engine_;
  std::vector<instance*> from_;
};

}  // namespace lsched
