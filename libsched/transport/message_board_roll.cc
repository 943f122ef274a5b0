// The survivors of a world meet by a roll call of the world's board (roll_call.h).
#include <algorithm>

#include "libsched/transport/message_boards.h"

namespace lsched {

status message_board::regroup(board& former) {
  if (!of_.carrier_.can_lose()) return status::unsupported;
  former_ = &static_cast<message_board&>(former);  // an endpoint has only boards of one type
  has_answered_ = false;
  await(true);
  if (const status health = of_.advance(); health != status::ok) return health;  // handles earlier refusals
  answer_roll();
  return status::ok;
}

// In an earlier roll call, this rank may have accepted a list of survivors with another new board of this rank. The
// survivors may still settle that list. So this function does nothing until the decision about the list is known.
void message_board::answer_roll() {
  if (has_answered_ || former_->fresh_ != nullptr) return;
  has_answered_ = true;
  former_->fresh_ = this;
  former_->roll_.answer(own_number_);
}

void message_board::agreement_sender::send_answer(rank member, std::uint64_t roll, std::uint32_t fresh) {
  of.of_.carrier_.send(of.members_[static_cast<std::size_t>(member)],
                       of.pack({.kind = message_boards::kind::call, .number = roll, .fresh = fresh}));
}

status message_board::meet_survivors(rank* missing) {
  answer_roll();
  const agreement& roll = former_->roll_.on();
  *missing = former_->roll_.find_missing();
  if (!has_answered_ || !roll.is_over()) return status::pending;
  if (roll.phase() == agreement::phase::settled) return join_survivors();
  *missing = roll.why().missing;
  end_roll();
  return roll.why().why;
}

status message_board::join_survivors() {
  const std::vector<std::uint32_t> list = former_->roll_.list();
  std::vector<rank> those;
  std::vector<member_address> addresses;
  for (std::size_t m = 0; m < list.size(); ++m) {
    if (list[m] == 0) continue;
    those.push_back(former_->members_[m]);
    addresses.push_back({.far = list[m] - 1});
  }
  end_roll();
  return std::ranges::find(those, of_.self_) == those.end() ? status::peer : join(those, addresses);
}

// Gives up the roll call. Returns false if this rank has accepted a list of survivors.
bool message_board::leave_roll() {
  if (has_answered_ && !former_->roll_.give_up()) return false;
  end_roll();
  return true;
}

void message_board::end_roll() {
  if (has_answered_) former_->fresh_ = nullptr;
  former_ = nullptr;
  await(false);
}

}  // namespace lsched
