// The worlds that come of a world: a commit by which all its members say which new world each wants to be in.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "libsched/commit/commit.h"

namespace lsched {

/// Where a member wants to be: with those of its colour, in the order of keys, and of ranks where keys are equal. A
/// negative colour: in none.
struct split_choice {
  std::int32_t colour = 0;
  std::int32_t key = 0;
};

/// The ranks, in the parent world, that the new world of `colour` has: by rank there.
std::vector<rank> ranks_of_colour(std::int32_t colour, const std::vector<split_choice>& all);

class split_commit final : public commitment {
 public:
  /// By the engine's owner.
  split_commit(endpoint& net, membership_ptr parent, std::uint64_t number, const result<split_choice>& choice);

  /// Once it stands: the new world, and where its members meet; null of a negative colour. By the engine's owner.
  const membership_ptr& made() const { return made_; }
  std::unique_ptr<board> take_board() { return std::move(board_); }

  void abandon() override { is_wanted_ = false; }

 private:
  std::optional<failure> conclude(const std::vector<commit_record>& all) override;
  void withdraw(const failure&) override { board_.reset(); }

  split_choice choice_;
  std::unique_ptr<board> board_;
  membership_ptr made_{};
  bool is_wanted_ = true;
};

}  // namespace lsched
