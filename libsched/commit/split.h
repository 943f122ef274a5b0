// A split_commit splits a world. Each member chooses the new world that it joins.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "libsched/commit/commit.h"

namespace lsched {

/// The choice of a member, as in MPI_Comm_split. Members of the same colour form a world, ordered by key and then by
/// rank. A member with a negative colour joins no world.
struct split_choice {
  std::int32_t colour = 0;
  std::int32_t key = 0;
};

/// Returns the parent's ranks that form the new world of `colour`, by rank in the new world.
std::vector<rank> ranks_of_colour(std::int32_t colour, const std::vector<split_choice>& all);

class split_commit final : public commitment {
 public:
  /// Creates the commit with this rank's choice, or with the error of an invalid choice. Only the engine's owner may
  /// call the constructor.
  split_commit(endpoint& net, membership_ptr parent, std::uint64_t number, const result<split_choice>& choice);

  /// Returns the new world after success, or null for a negative colour. take_board() returns the board of the new
  /// world. Only the engine's owner may call the two functions.
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
