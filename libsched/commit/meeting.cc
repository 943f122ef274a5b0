#include "libsched/commit/meeting.h"

#include <algorithm>
#include <utility>

namespace lsched {
namespace {

/// FNV-1a over numbers.
class hash {
 public:
  void add(std::uint64_t number) {
    for (int shift = 0; shift < 64; shift += 8) value_ = (value_ ^ (number >> shift & 0xff)) * 0x100000001b3;
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325;
};

std::uint64_t key_of(const membership& parent, std::span<const rank> homes, std::int32_t tag) {
  hash all;
  all.add(parent.number());
  all.add(static_cast<std::uint64_t>(tag));
  for (const rank home : homes) all.add(static_cast<std::uint64_t>(home));
  return std::max<std::uint64_t>(all.value() % board::k_end_of_keys, 1);
}

}  // namespace

meeting::meeting(engine& runs, membership_ptr parent, std::span<const rank> ranks, std::int32_t tag,
                 std::unique_ptr<board> offered)
    : engine_(runs),
      parent_(std::move(parent)),
      ranks_(ranks.begin(), ranks.end()),
      tag_(tag),
      board_(std::move(offered)) {
  for (const rank one : ranks_) homes_.push_back(parent_->home_of(one));
  board_->offer(key_of(*parent_, homes_, tag_), homes_);
  for (const rank home : homes_)
    if (engine_.net().is_lost(home)) lose(home);
  (void)advance();
  if (!is_over()) engine_.carry_on(*this);
}

meeting::~meeting() { engine_.drop(*this); }

bool meeting::advance() {
  if (is_over()) return false;
  const status answer = board_->meet(&missing_);
  if (answer == status::pending) return gives_up_for_ && board_->withdraw() && end(*gives_up_for_);
  if (answer != status::ok) return end({answer, "the boards of the new world could not be connected"});
  const auto self = static_cast<rank>(std::ranges::find(ranks_, parent_->place().self) - ranks_.begin());
  const std::string& name = parent_->name();
  made_ = std::make_shared<const membership>(
      homes_, self, (name.empty() ? "" : name + ".") + "tag" + std::to_string(tag_), board_->number());
  progress_.finished.store(1);
  engine_.publish();
  return true;
}

bool meeting::end(const failure& why) {
  board_.reset();
  why_ = why;
  progress_.verdict.store(why.code);
  engine_.publish();
  return true;
}

bool meeting::give_up() {
  (void)advance();
  const rank late = missing_ == k_no_rank ? k_no_rank : ranks_[static_cast<std::size_t>(missing_)];
  if (!gives_up_for_)
    gives_up_for_ = failure{status::timeout,
                            (late == k_no_rank ? "some rank" : "rank " + std::to_string(late)) +
                                " has not called with the same ranks and tag in time",
                            late};
  return is_over() || advance();
}

// One that has been accepted ends well, unless it is the first member that does not answer any more.
void meeting::lose(rank home) {
  const auto found = std::ranges::find(homes_, home);
  if (found == homes_.end() || is_over()) return;
  const rank member = ranks_[static_cast<std::size_t>(found - homes_.begin())];
  gives_up_for_ = failure{status::peer, "rank " + std::to_string(member) + " died before it called", member};
  (void)advance();
  if (!is_over() && home == homes_.front()) (void)end(*gives_up_for_);
}

}  // namespace lsched
