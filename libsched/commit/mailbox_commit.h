// The commit that makes a mailbox: all members of a world, once each and in order, like any other.
#pragma once

#include <memory>

#include "libsched/commit/commit.h"
#include "libsched/engine/mailbox.h"

namespace lsched {

class mailbox_commit final : public commitment {
 public:
  /// By the engine's owner. Reserves everything.
  mailbox_commit(engine& where, membership_ptr members, std::uint64_t number);

  /// There from the beginning: takes messages, which move when the commit stands. Goes with the last owner.
  mailbox& made() const { return *made_; }

  void abandon() override {}

 private:
  std::optional<failure> conclude(const std::vector<commit_record>& all) override;
  void withdraw(const failure& why) override { made_->refuse(why); }

  const std::unique_ptr<mailbox> made_;
};

}  // namespace lsched
