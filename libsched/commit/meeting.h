// A world that some ranks of another one make, which alone know of it. Either each of them knows who they are: they
// meet by a key that they all make of the parent, their list and a tag (docs/inside/worlds.md). Or they are those who
// are left of the parent after a death (docs/reference/shrink.md).
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
  /// By the engine's owner, whose steps carry it on. `ranks`: of the parent, each once, this one among them, in the
  /// order that they get.
  meeting(engine& runs, membership_ptr parent, std::span<const rank> ranks, std::int32_t tag,
          std::unique_ptr<board> offered);

  /// Of those who are left of the parent, whose board is `former`; `fresh` is for as many members, and outlived by it.
  meeting(engine& runs, membership_ptr parent, board& former, std::unique_ptr<board> fresh);
  ~meeting() override;
  meeting(const meeting&) = delete;
  meeting& operator=(const meeting&) = delete;

  /// What is waited for. Any thread.
  const common_step& progress() const { return progress_; }

  /// Once it has ended, and not well.
  const failure& why() const { return why_; }

  rank first() const { return ranks_.front(); }

  /// Once it has ended well: the world, and where its members meet.
  const membership_ptr& made() const { return made_; }
  std::unique_ptr<board> take_board() { return std::move(board_); }

  /// This rank waits no longer. True: it has ended, perhaps well. False: the others are about to find it there; who
  /// leaves it to the engine then leaves the world when they have.
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

  engine& engine_;
  const membership_ptr parent_;
  const bool is_of_survivors_;
  const std::string name_;   ///< of the world, in its parent
  std::vector<rank> ranks_;  ///< that are waited for
  std::vector<rank> homes_;  ///< theirs
  std::unique_ptr<board> board_;
  rank missing_ = k_no_rank;               ///< as in ranks_
  std::optional<failure> gives_up_for_{};  ///< as soon as the offer can be taken back
  common_step progress_;
  failure why_{status::ok, {}};
  membership_ptr made_{};
};

}  // namespace lsched
