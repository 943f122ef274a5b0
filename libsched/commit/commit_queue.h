// A commit_queue contains the commits of a world, in the order in which the application made them. One commit is in
// progress at a time. The queue posts the record of this commit, gathers the records of all members, and concludes the
// commit.
//
// If a rank gives up a commit before its record is posted, the queue later posts a record with an error. So all ranks
// get the error, and the world continues. If the record is already posted, the board (transport/board.h) decides for
// all members at once whether the commit succeeds.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "libsched/commit/commit.h"
#include "libsched/engine/engine_task.h"

namespace lsched {

/// Thread safety: only the engine's owner may call the functions of this class.
class commit_queue final : public engine_task {
 public:
  /// Creates the queue of a world. `meets` is the world's board. `runs` is the engine that advances the queue. It must
  /// outlive the queue.
  commit_queue(engine& runs, membership_ptr members, std::unique_ptr<board> meets);

  /// Leaves the world. Queued commits end with STATE on this rank. Over a transport without shared memory, these
  /// commits may still succeed on other ranks.
  ~commit_queue() override;
  commit_queue(const commit_queue&) = delete;
  commit_queue& operator=(const commit_queue&) = delete;

  const membership_ptr& members() const { return members_; }

  board& place_of_meeting() { return *board_; }

  /// Returns the number that the next commit must have.
  std::uint64_t next_number() const { return next_number_; }
  void add(std::shared_ptr<commitment> next);

  /// Gives up a commit, because this rank no longer waits for it. If the record is posted, the commit has ended when
  /// this function returns, possibly with success. Over a transport without shared memory, the commit may end later. If
  /// the record is not posted, the commit is refused, and ends when it becomes the first of the queue. Returns the rank
  /// whose record was missing.
  rank give_up(const commitment& late);

  /// Returns the error of a commit that has failed with `answer`. `missing` is the rank whose record did not arrive.
  failure failure_of(status answer, rank missing) const;

  bool advance() override;
  bool is_over() const override { return queue_.empty(); }
  void lose(rank home) override;
  std::string describe_wait(const membership& of, rank* waits_for) const override;

 private:
  bool advance_first();
  void conclude_first(status answer);
  void end_first(const std::optional<failure>& why);

  engine& engine_;
  const membership_ptr members_;
  std::unique_ptr<board> board_;
  std::deque<std::shared_ptr<commitment>> queue_;
  bool is_posted_ = false;  ///< the record of the first commit is posted
  std::uint64_t next_number_ = 0;
  rank missing_ = k_no_rank;  ///< rank for whose record the first commit waits
  rank lost_ = k_no_rank;     ///< a lost member; no commit can succeed without it
  std::vector<std::byte> records_;
};

}  // namespace lsched
