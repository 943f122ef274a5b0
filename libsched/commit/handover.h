// How far the members of a world have come with partial instances of another world, which have failed, and what each
// takes over from the others: the result of the last round that any of them has ended. (docs/reference/shrink.md)
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "libsched/commit/commit.h"

namespace lsched {

class handover final : public commitment {
 public:
  static constexpr std::size_t k_most = 3;

  /// By the engine's owner. `from`: one to k_most, in the same order on all members, who have them all; they outlive
  /// the commit. A member one of whose instances has not failed is refused, and so is one that cannot make what goes on
  /// from them, of which `unable` tells.
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
