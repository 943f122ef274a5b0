// The commits of one world, in the order in which its application has made them. One is on its way at a time: its
// record is shown, all are gathered, it is concluded, and the next one's turn comes.
//
// A commit that its rank has given up while others were before it shows its record in its turn, as one that has failed:
// the others hear of it like of any other error, and the world goes on. One whose record is out is settled for all
// members at once, by the board.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "libsched/commit/commit.h"
#include "libsched/engine/engine_task.h"

namespace lsched {

/// The engine's owner calls it.
class commit_queue final : public engine_task {
 public:
  /// `runs` carries it on, and outlives it.
  commit_queue(engine& runs, membership_ptr members, std::unique_ptr<board> meets);

  /// Leaves the world. What is still queued ends with STATE here; over a medium without shared memory the others may
  /// find that it stands.
  ~commit_queue() override;
  commit_queue(const commit_queue&) = delete;
  commit_queue& operator=(const commit_queue&) = delete;

  const membership_ptr& members() const { return members_; }

  /// Where the members meet.
  board& place_of_meeting() { return *board_; }

  /// The number that the next commit has to bear.
  std::uint64_t next_number() const { return next_number_; }
  void add(std::shared_ptr<commitment> next);

  /// This rank waits no longer. The commit has ended when this returns, perhaps well; over a medium without shared
  /// memory perhaps later. Answers whose record was missing.
  rank give_up(const commitment& late);

  /// Why a commit does not stand for which the records of all could not be had.
  failure failure_of(status answer, rank missing) const;

  bool advance() override;
  bool is_over() const override { return queue_.empty(); }
  void lose(rank home) override;
  std::string describe_wait(const membership& of, rank* waits_for) const override;

 private:
  bool advance_first();
  void conclude_first(status answer);
  void end_first(const std::optional<failure>& why);
  void end_unsettled(const failure& why);

  engine& engine_;
  const membership_ptr members_;
  std::unique_ptr<board> board_;
  std::deque<std::shared_ptr<commitment>> queue_;
  std::vector<std::shared_ptr<commitment>> unsettled_;  ///< that have failed here, and perhaps not elsewhere
  bool is_posted_ = false;                              ///< the first one's record is out
  std::uint64_t next_number_ = 0;
  rank missing_ = k_no_rank;  ///< whose record the first one waits for
  rank lost_ = k_no_rank;     ///< a member: no commit can stand any more
  std::vector<std::byte> records_;
};

}  // namespace lsched
