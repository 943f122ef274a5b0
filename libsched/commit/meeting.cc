#include "libsched/commit/meeting.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "ops/hash.h"

namespace lsched {
namespace {

std::uint64_t key_of(const membership& parent, std::span<const rank> homes, std::int32_t tag) {
  fnv_hash all;
  all.add(std::uint64_t{parent.number()});
  all.add(static_cast<std::uint64_t>(tag));
  for (const rank home : homes) all.add(static_cast<std::uint64_t>(home));
  return std::max<std::uint64_t>(all.value() % board::k_end_of_keys, 1);
}

}  // namespace

meeting::meeting(engine& runs, membership_ptr parent, std::span<const rank> ranks, std::int32_t tag,
                 std::unique_ptr<board> offered)
    : engine_(runs),
      parent_(std::move(parent)),
      is_of_survivors_(false),
      name_("tag" + std::to_string(tag)),
      ranks_(ranks.begin(), ranks.end()),
      board_(std::move(offered)) {
  for (const rank one : ranks_) homes_.push_back(parent_->home_of(one));
  board_->offer(key_of(*parent_, homes_, tag), homes_);
  rank home = k_no_rank;
  for (rank others = 0; (home = engine_.net().liveness().lost_after(others)) != k_no_rank; ++others) lose(home);
  (void)advance();
  if (!is_over()) engine_.carry_on(*this);
}

meeting::meeting(engine& runs, membership_ptr parent, board& former, std::unique_ptr<board> fresh)
    : engine_(runs),
      parent_(std::move(parent)),
      is_of_survivors_(true),
      name_("survivors"),
      ranks_(parent_->homes().size()),
      homes_(parent_->homes().begin(), parent_->homes().end()),
      board_(std::move(fresh)) {
  std::iota(ranks_.begin(), ranks_.end(), 0);
  rank home = k_no_rank;
  for (rank others = 0; (home = engine_.net().liveness().lost_after(others)) != k_no_rank; ++others)
    lost_before_.push_back(home);
  if (const status answer = board_->regroup(former); answer != status::ok)
    (void)end({answer,
               "MPI does not continue after the death of a rank, so survivors cannot open a world: open "
               "the first world without MPI"});
  (void)advance();
  if (!is_over()) engine_.carry_on(*this);
}

meeting::~meeting() { engine_.drop(*this); }

bool meeting::advance() {
  if (is_over()) return false;
  status answer = board_->meet(&missing_);
  if (answer == status::peer && !is_of_survivors_) {
    gives_up_for_ = lost(ranks_[static_cast<std::size_t>(missing_)]);
    answer = status::pending;
  }
  if (answer == status::pending && gives_up_for_) {
    if (board_->withdraw()) return end(*gives_up_for_);
    if (is_of_survivors_) answer = board_->meet(&missing_);  // the board may have decided meanwhile
  }
  if (answer == status::pending) return false;
  if (answer == status::ok) return make();
  if (answer == status::timeout) return end(late(missing_));
  if (answer == status::peer && missing_ != k_no_rank) return end(cut_off(missing_));
  return end({answer, "the ranks of the new world could not be connected: look for earlier errors of the other ranks"});
}

// Creates the new world. A meeting of survivors fails if a rank of the new world was lost before the meeting, because
// no commit with that rank can succeed. A rank that only other hosts have lost may take part, because ranks of a node
// meet through shared memory.
bool meeting::make() {
  if (is_of_survivors_) homes_.assign(board_->homes().begin(), board_->homes().end());
  const auto lost = std::ranges::find_first_of(homes_, lost_before_);
  if (lost != homes_.end()) return end(cut_off(parent_->rank_of(*lost)));
  const rank home = parent_->home_of(parent_->place().self);
  const auto self = static_cast<rank>(std::ranges::find(homes_, home) - homes_.begin());
  made_ = std::make_shared<const membership>(homes_, self, name_of_made(), board_->number());
  progress_.finished.store(1);
  engine_.publish();
  return true;
}

// Returns the new world's name. If the parent and the new world are both worlds of survivors, replaces the last part of
// the parent's name.
std::string meeting::name_of_made() const {
  const std::string& parent = parent_->name();
  if (!is_of_survivors_) return (parent.empty() ? "" : parent + ".") + name_;
  const std::size_t last = parent.rfind('.') + 1;  // 0 if the name has no dot
  const std::string base = parent.substr(last).starts_with(name_) ? parent.substr(0, last) : parent + ".";
  return (base == "." ? "" : base) + name_ + std::to_string(homes_.size());
}

bool meeting::end(const failure& why) {
  board_.reset();
  why_ = why;
  progress_.verdict.store(why.code);
  engine_.publish();
  return true;
}

failure meeting::late(rank member) const {
  const rank missing = member == k_no_rank ? k_no_rank : ranks_[static_cast<std::size_t>(member)];
  failure why{status::timeout,
              (missing == k_no_rank ? "some rank" : "rank " + std::to_string(missing)) +
                  (is_of_survivors_ ? " is alive but did not call lsched_shrink in time"
                                    : " did not call with the same ranks and tag in time"),
              missing};
  if (is_of_survivors_) return why;  // `why` is equal on all ranks
  const rank late = engine_.find_late(*parent_, std::span(&missing, missing == k_no_rank ? 0 : 1), why.text);
  if (late != k_no_rank) why.peer = late;
  return why;
}

failure meeting::undecided() const {
  const rank who = is_of_survivors_ ? missing_ : ranks_.front();
  return {status::timeout,
          (who == k_no_rank ? "some rank" : "rank " + std::to_string(who)) +
              " did not decide in time whether the new world exists: check that this rank runs",
          who};
}

/// Returns the error of survivors that may not continue. The network may be partitioned, and `member` may be on the
/// larger side.
failure meeting::cut_off(rank member) const {
  return {status::peer,
          "rank " + std::to_string(member) +
              " does not respond, and may run on the other side of a network partition. That side may have as many "
              "ranks as this side or more, so the ranks of this side cannot open a world: end this process",
          member};
}

/// Returns the error for a lost member of the parent.
failure meeting::lost(rank member) const {
  const rank first = engine_.culprit_of_loss(*parent_, member);
  return {status::peer,
          "rank " + std::to_string(first) + " died, or closed its world, before all listed ranks had made this call",
          first};
}

bool meeting::give_up() {
  (void)advance();
  if (!gives_up_for_) gives_up_for_ = late(missing_);
  return is_over() || advance();
}

// A meeting of survivors continues without the lost rank. Any other meeting fails, unless the other ranks have already
// accepted this rank's offer. If the first member is lost, the meeting always fails, because only that member can
// answer the offers.
void meeting::lose(rank home) {
  const auto found = std::ranges::find(homes_, home);
  if (found == homes_.end() || is_over()) return;
  if (is_of_survivors_) return (void)advance();
  gives_up_for_ = lost(ranks_[static_cast<std::size_t>(found - homes_.begin())]);
  (void)advance();
  if (!is_over() && home == homes_.front()) (void)end(*gives_up_for_);
}

}  // namespace lsched
