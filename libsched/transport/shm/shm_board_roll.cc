// The surviving members of a world find each other by roll calls (docs/reference/shrink.md). In a roll call, each
// survivor publishes the location of its new board. The first survivor that finds all these locations publishes a list
// of them. All words and lists are in shared memory, which outlives the rank that wrote them.
#include <algorithm>

#include "libsched/transport/shm/shm_board.h"
#include "libsched/transport/shm/shm_segment.h"

namespace lsched {
namespace {

constexpr std::uint64_t k_given_up = std::uint64_t{1} << 31;

std::uint64_t word_of(rank who) { return static_cast<std::uint64_t>(who + 2); }
rank rank_in(std::uint64_t how) { return static_cast<rank>(how & ~k_given_up) - 2; }

}  // namespace

status shm_board::regroup(board& former) {
  former_ = &static_cast<shm_board&>(former);  // an endpoint has only boards of one type
  roll_ = answered().load() + 1;
  return status::ok;
}

bool shm_board::is_gone(std::size_t member) const {
  return former_->has_closed(member) || segment_.is_lost(former_->members_[member]);
}

// Returns a member that has not read the outcome of roll call `call`. Such a member may still read the words that the
// current roll call reuses. Returns k_no_rank if no such member exists.
rank shm_board::find_undismissed(std::uint64_t call) const {
  for (std::size_t m = 0; m < former_->members_.size(); ++m)
    if (former_->of_ranks_[m]->dismissed.load() < call && !is_gone(m)) return static_cast<rank>(m);
  return k_no_rank;
}

// If other members gave up a roll call before this rank has answered it, this rank takes part in the next roll call.
status shm_board::call_roll(rank* missing) {
  while (answered().load() < roll_) {
    unanswered_ = roll_ < 2 ? k_no_rank : find_undismissed(roll_ - 2);
    if (unanswered_ != k_no_rank) return *missing = unanswered_, status::pending;
    const bool is_over = is_about(regrouped().load(), roll_);
    former_->own_.fresh[roll_ % 2].store(address().near);
    answered().store(roll_);
    if (is_over) former_->own_.dismissed.store(roll_++);
    ring(former_->members_);
  }
  std::uint64_t how = regrouped().load();
  if (is_about(how, roll_)) return end_roll(how_of(how), missing);
  if ((unanswered_ = list_survivors()) != k_no_rank) return *missing = unanswered_, status::pending;
  const auto self = std::ranges::find(former_->members_, self_) - former_->members_.begin();
  const std::uint64_t mine = settlement(roll_, word_of(static_cast<rank>(self)));
  if (regrouped().compare_exchange_strong(how, mine)) {
    how = mine;
    ring(former_->members_);
  }
  return end_roll(how_of(how), missing);
}

// Writes the list of the survivors' boards. The list is indexed by rank of `former`, and contains 0 for members that do
// not survive. Returns a surviving member that has not answered, or k_no_rank.
rank shm_board::list_survivors() {
  const std::size_t members = former_->members_.size();
  std::uint64_t* const list = own_.list(members);
  for (std::size_t m = 0; m < members; ++m) {
    const shm_board_words& theirs = *former_->of_ranks_[m];
    const bool has_answered = theirs.answered.load() >= roll_;
    const bool gone = is_gone(m);
    if (!has_answered && !gone) return static_cast<rank>(m);
    list[m] = gone ? 0 : theirs.fresh[roll_ % 2].load();
  }
  return k_no_rank;
}

status shm_board::end_roll(std::uint64_t how, rank* missing) {
  const rank about = rank_in(how);
  if ((how & k_given_up) == 0) return join_listed(static_cast<std::size_t>(about));
  dismiss();
  if (about != k_no_rank && former_->members_[static_cast<std::size_t>(about)] == self_)
    return ++roll_, call_roll(missing);  // the roll call was given up just before this rank answered
  *missing = about;
  former_ = nullptr;
  return status::timeout;
}

// The list must be read before dismiss(), because the list may change afterwards.
status shm_board::join_listed(std::size_t author) {
  const shm_board& before = *former_;
  const std::size_t members = before.members_.size();
  const std::uint64_t place = before.of_ranks_[author]->fresh[roll_ % 2].load();
  if (!segment_.holds(before.members_[author], place, shm_board_words::bytes_for(members))) return status::argument;
  const std::uint64_t* const list = reinterpret_cast<shm_board_words*>(segment_.at(place))->list(members);
  std::vector<rank> those;
  std::vector<member_address> addresses;
  for (std::size_t m = 0; m < members; ++m) {
    if (list[m] == 0) continue;
    those.push_back(before.members_[m]);
    addresses.push_back({.near = list[m]});
  }
  dismiss();
  former_ = nullptr;
  return std::ranges::find(those, self_) == those.end() ? status::peer : join(those, addresses);
}

// Gives up the roll call. If this rank has answered, the roll call ends for all members, else only for this rank.
// Returns false if the roll call already had another outcome.
bool shm_board::give_up_roll() {
  bool is_mine = answered().load() < roll_;
  if (!is_mine) {
    std::uint64_t how = regrouped().load();
    const std::uint64_t in_vain = settlement(roll_, k_given_up | word_of(unanswered_));
    is_mine = !is_about(how, roll_) && regrouped().compare_exchange_strong(how, in_vain);
    if (!is_mine) return false;
    dismiss();
  }
  former_ = nullptr;
  return true;
}

// Leaves a roll call that has an outcome. If this board is on the list of survivors, it first joins the new world. The
// other members can then detect that this board is closed.
void shm_board::leave_roll() {
  const std::uint64_t how = how_of(regrouped().load());
  if ((how & k_given_up) == 0)
    (void)join_listed(static_cast<std::size_t>(rank_in(how)));
  else
    dismiss();
}

void shm_board::dismiss() {
  former_->own_.dismissed.store(roll_);
  ring(former_->members_);  // wakes members that wait for this store
}

}  // namespace lsched
