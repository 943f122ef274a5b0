// A meeting creates a world from some ranks of a parent world. The other ranks of the parent do not take part. There
// are two kinds of meeting. In a meeting of listed ranks, each of these ranks has the list. They find each other by a
// key that is computed from the parent, the list and a tag (docs/inside/worlds.md). A meeting of survivors consists of
// all ranks that remain in the parent after other ranks were lost (docs/reference/shrink.md).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "libsched/engine/engine.h"
#include "libsched/engine/engine_task.h"

namespace lsched {

class meeting final : public engine_task {
 public:
  /// Creates a world of listed ranks. Only the engine's owner may call this constructor. `ranks` must contain distinct
  /// ranks of the parent, including this rank, in the order of the new world. `offered` is this rank's board for the
  /// new world.
  meeting(engine& runs, membership_ptr parent, std::span<const rank> ranks, std::int32_t tag,
          std::unique_ptr<board> offered);

  /// Creates a world of the survivors of the parent. `former` is the parent's board and must outlive the meeting.
  /// `fresh` is a new board with as many members as the parent.
  meeting(engine& runs, membership_ptr parent, board& former, std::unique_ptr<board> fresh);
  ~meeting() override;
  meeting(const meeting&) = delete;
  meeting& operator=(const meeting&) = delete;

  /// Returns the progress object on which threads wait. Any thread may call this function.
  const common_step& progress() const { return progress_; }

  /// Returns the error. The meeting must have failed.
  const failure& why() const { return why_; }

  /// Returns the error of a meeting that give_up() could not end, because a member did not decide in time.
  failure undecided() const;
  bool is_of_survivors() const { return is_of_survivors_; }

  /// Returns the new world after success. take_board() returns the board of the new world.
  const membership_ptr& made() const { return made_; }
  std::unique_ptr<board> take_board() { return std::move(board_); }

  /// Gives up the meeting, because this rank no longer waits for it. Returns true if the meeting has ended, possibly
  /// with success. Returns false if the other ranks may still accept this rank. The caller may then pass the meeting to
  /// engine::adopt(). This rank then leaves the new world when the meeting ends.
  bool give_up();

  bool advance() override;
  bool is_over() const override { return progress_.has_ended(); }
  void lose(rank home) override;
  std::string describe_wait(const membership&, rank*) const override { return {}; }

 private:
  bool end(const failure& why);
  bool make();
  std::string name_of_made() const;
  failure late(rank member) const;
  failure lost(rank member) const;
  failure cut_off(rank member) const;

  engine& engine_;
  const membership_ptr parent_;
  const bool is_of_survivors_;
  const std::string name_;           ///< last part of the new world's name
  std::vector<rank> ranks_;          ///< ranks of the parent for which the meeting waits
  std::vector<rank> homes_;          ///< home ranks of ranks_
  std::vector<rank> lost_before_{};  ///< home ranks that were lost before the meeting of survivors began
  std::unique_ptr<board> board_;
  rank missing_ = k_no_rank;               ///< index in ranks_ of a rank whose offer is missing
  std::optional<failure> gives_up_for_{};  ///< if set: error with which the meeting ends once the offer is withdrawn
  common_step progress_;
  failure why_{status::ok, {}};
  membership_ptr made_{};
};

}  // namespace lsched
