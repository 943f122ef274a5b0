// A mailbox_commit creates a mailbox for all members of a world.
#pragma once

#include <memory>

#include "libsched/commit/commit.h"
#include "libsched/engine/mailbox.h"

namespace lsched {

class mailbox_commit final : public commitment {
 public:
  /// Reserves all resources. Only the engine's owner may call the constructor. If this rank cannot create the mailbox,
  /// the caller passes the reason in `unable`, and the commit fails on all ranks.
  mailbox_commit(engine& where, membership_ptr members, std::uint64_t number, const std::optional<failure>& unable);

  /// Returns the mailbox. Messages may be posted at once, but their transfer begins only after the commit has
  /// succeeded. The mailbox lives as long as this object.
  mailbox& made() const { return *made_; }

  void abandon() override {}

 private:
  std::optional<failure> conclude(const std::vector<commit_record>& all) override;
  void withdraw(const failure& why) override { made_->refuse(why); }

  const std::unique_ptr<mailbox> made_;
};

}  // namespace lsched
