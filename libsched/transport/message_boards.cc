#include "libsched/transport/message_boards.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace lsched {

// --- messages ------------------------------------------------------------------------------------------------

std::unique_ptr<message_board> message_boards::open() { return std::make_unique<message_board>(*this, next_number_++); }

std::unique_ptr<message_board> message_boards::open_home(rank ranks) {
  std::vector<rank> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  auto made = open();
  (void)made->join(all, std::vector<member_address>(all.size()));
  return made;
}

board_carrier::content message_boards::pack(const head& first, std::span<const std::byte> rest) {
  auto bytes = std::make_shared<std::vector<std::byte>>(sizeof first + rest.size());
  std::memcpy(bytes->data(), &first, sizeof first);
  std::ranges::copy(rest, bytes->begin() + sizeof first);
  return bytes;
}

status message_boards::advance() {
  const status health = carrier_.receive(is_awaiting());
  if (health != status::ok) return health;
  for (const auto& [which, one] : boards_) {
    if (one == nullptr || !one->has_joined()) continue;
    one->note_gone_members();
    one->settle_if_known();
  }
  return status::ok;
}

void message_boards::take(rank from, std::span<const std::byte> bytes) {
  head first;
  if (bytes.size() < sizeof first) return;
  std::memcpy(&first, bytes.data(), sizeof first);
  if (first.kind == kind::met) return take_answer(from, first);
  if (first.kind == kind::offer || first.kind == kind::withdraw) return take_offer(from, first);
  const bool is_of_first = first.kind >= kind::all && (first.kind != kind::left || first.member == 0);
  const identity which(is_of_first ? from : self_, first.board);
  const auto found = boards_.find(which);
  const bool is_early = is_of_first || next_number_ == 0;  // for a board that this rank has not opened yet
  if (found == boards_.end() ? is_early : found->second != nullptr && !found->second->has_joined())
    strays_.emplace(which, std::pair(from, std::vector(bytes.begin(), bytes.end())));
  else if (found != boards_.end() && found->second != nullptr)
    found->second->take(from, first, bytes.subspan(sizeof first));
  else if (found != boards_.end() && first.kind == kind::left)
    boards_.erase(found);
}

void message_boards::take_offer(rank from, const head& news) {
  if (news.kind == kind::offer)
    offers_[{news.number, from}] = news.board;
  else
    offers_.erase({news.number, from});
}

// Handles the answer to an offer: the board joins the new world, or leaves it if the offer was withdrawn meanwhile.
void message_boards::take_answer(rank from, const head& news) {
  const auto found = boards_.find({self_, static_cast<std::uint32_t>(news.number)});
  message_board* const offered = found == boards_.end() ? nullptr : found->second;
  if (unanswered_ != 0) --unanswered_;
  if (offered != nullptr && offered->key_ != 0 && offered->offered_to_.front() == from) {
    std::vector<member_address> all(offered->offered_to_.size());
    all.front().far = news.board;
    (void)offered->join(std::vector(offered->offered_to_), all);
    return;
  }
  carrier_.begin_with(from);
  carrier_.send(from, pack({news.board, kind::left, 0, news.member, k_no_rank}));
  boards_.emplace(identity(from, news.board), nullptr);
}

// Returns the numbers of the boards that `members`, except the first, have offered under a key. Sets *missing to the
// first member without an offer, or to k_no_rank.
std::vector<std::uint32_t> message_boards::offers_of(std::uint64_t key, std::span<const rank> members,
                                                     rank* missing) const {
  std::vector<std::uint32_t> theirs;
  *missing = k_no_rank;
  for (std::size_t m = 1; m < members.size() && *missing == k_no_rank; ++m) {
    const auto found = offers_.find({key, members[m]});
    if (found == offers_.end())
      *missing = static_cast<rank>(m);
    else
      theirs.push_back(found->second);
  }
  return theirs;
}

// --- one board -----------------------------------------------------------------------------------------------

message_board::message_board(message_boards& of, std::uint32_t number) : of_(of), own_number_(number) {
  of_.boards_.emplace(message_boards::identity(of_.self_, number), this);
}

message_board::~message_board() {
  std::erase_if(of_.boards_, [this](const auto& one) { return one.second == this; });
  of_.strays_.erase({of_.self_, own_number_});
  (void)withdraw();
  await(false);
  if (has_joined() && of_.carrier_.can_send()) say_left();
}

// Sends `left`. The `left` from the first rank is the last message for a board.
void message_board::say_left() {
  const board_carrier::content word = pack(message_boards::kind::left, number_, k_no_rank);
  for (std::size_t m = 1; is_first() && m < members_.size(); ++m) of_.carrier_.send(members_[m], word);
  if (is_first() || has_first_left_) return;
  of_.carrier_.send(members_.front(), word);
  of_.boards_.emplace(message_boards::identity(members_.front(), number_of_first_), nullptr);
}

status message_board::join(std::span<const rank> members, std::span<const member_address> all) {
  if (all.size() != members.size() || all.empty()) return status::argument;
  members_.assign(members.begin(), members.end());
  self_ = static_cast<rank>(std::ranges::find(members, of_.self_) - members.begin());
  number_of_first_ = static_cast<std::uint32_t>(all.front().far);
  const message_boards::identity which(members_.front(), number_of_first_);
  of_.boards_.emplace(which, this);
  for (std::size_t m = 0; m < members_.size(); ++m)
    if (is_first() ? m != 0 : m == 0) of_.carrier_.begin_with(members_[m]);
  if (is_first()) {
    records_.resize(members_.size() * record_bytes);
    has_record_.assign(members_.size(), false);
    has_left_.assign(members_.size(), false);
  }
  const auto [begin, end] = of_.strays_.equal_range(which);
  const std::multimap strays(begin, end);
  of_.strays_.erase(which);
  for (const auto& [key, stray] : strays) of_.take(stray.first, stray.second);
  return status::ok;
}

board_carrier::content message_board::pack(enum message_boards::kind what, std::uint64_t number, rank missing,
                                           std::span<const std::byte> rest) const {
  return message_boards::pack({number_of_first_, what, number, self_, missing}, rest);
}

status message_board::post(std::span<const std::byte> record, rank*) {
  settled_.erase(settled_.begin(), settled_.upper_bound(number_));  // drops results of abandoned commits
  ++number_;
  await(true);
  (void)of_.advance();  // handles `given_up` if it has already arrived for this commit
  if (is_first()) {
    take_record(number_, 0, record);
    settle_if_known();
  } else if (has_first_left_) {
    settled_[number_] = {.missing = 0, .has_left = true};
  } else if (!settled_.contains(number_)) {
    of_.carrier_.send(members_.front(), pack(message_boards::kind::record, number_, k_no_rank, record));
  }
  return status::ok;
}

status message_board::gather(std::span<std::byte> all, rank* missing) {
  if (const status health = of_.advance(); health != status::ok) return health;
  const auto found = settled_.find(number_);
  *missing = found != settled_.end() ? found->second.missing : is_first() ? find_missing() : k_no_rank;
  if (found == settled_.end()) return status::pending;
  const settlement how = std::move(found->second);
  settled_.erase(found);
  await(false);
  if (how.records.empty()) return how.has_left ? status::peer : status::timeout;
  std::ranges::copy(how.records, all.begin());
  return status::ok;
}

void message_board::await(bool now) {
  if (now != is_awaiting_) now ? ++of_.awaiting_ : --of_.awaiting_;
  is_awaiting_ = now;
}

void message_board::offer(std::uint64_t key, std::span<const rank> members) {
  key_ = key;
  offered_to_.assign(members.begin(), members.end());
  await(true);
  const rank first = offered_to_.front();
  if (first == of_.self_) return;
  ++of_.unanswered_;  // the first rank may never receive the offer
  of_.carrier_.send(first, message_boards::pack({own_number_, message_boards::kind::offer, key, k_no_rank, k_no_rank}));
}

status message_board::meet(rank* missing) {
  if (const status health = of_.advance(); health != status::ok) return health;
  *missing = k_no_rank;
  if (!has_joined()) {
    if (const status how = connect_offers(missing); how != status::ok) return how;
  }
  await(false);
  key_ = 0;
  return status::ok;
}

// On the first rank, connects the offered boards if all members have offered a board. Returns PENDING while the board
// has not joined, and PEER if that can no longer happen.
status message_board::connect_offers(rank* missing) {
  board_carrier& carrier = of_.carrier_;
  const rank first = offered_to_.front();
  if (first != of_.self_) {
    if (!carrier.is_gone(first)) return status::pending;
    *missing = 0;
    return status::peer;
  }
  const std::vector<std::uint32_t> theirs = of_.offers_of(key_, offered_to_, missing);
  if (*missing != k_no_rank)
    return carrier.is_gone(offered_to_[static_cast<std::size_t>(*missing)]) ? status::peer : status::pending;
  for (std::size_t m = 1; m < offered_to_.size(); ++m) {
    of_.offers_.erase({key_, offered_to_[m]});
    carrier.begin_with(offered_to_[m]);
    carrier.send(offered_to_[m], message_boards::pack({own_number_, message_boards::kind::met, theirs[m - 1],
                                                       static_cast<rank>(m), k_no_rank}));
  }
  std::vector<member_address> all(offered_to_.size());
  all.front().far = own_number_;
  return join(std::vector(offered_to_), all);
}

bool message_board::withdraw() {
  if (key_ == 0 || has_joined()) return key_ == 0;
  await(false);
  if (offered_to_.front() != of_.self_ && of_.carrier_.can_send())
    of_.carrier_.send(offered_to_.front(),
                      message_boards::pack({own_number_, message_boards::kind::withdraw, key_, k_no_rank, k_no_rank}));
  key_ = 0;
  return true;
}

// The first rank detects the loss of a member itself, and then decides.
void message_board::give_up(rank missing) {
  if (settled_.contains(number_)) return;
  if (missing != k_no_rank && of_.carrier_.is_gone(members_[static_cast<std::size_t>(missing)])) return;
  if (is_first())
    settle(message_boards::kind::given_up, missing);
  else
    of_.carrier_.send(members_.front(), pack(message_boards::kind::give_up, number_, missing));
}

// A message that the sender may not send, or that names a rank outside the world, is dropped.
void message_board::take(rank from, const message_boards::head& first, std::span<const std::byte> rest) {
  const auto size = static_cast<rank>(members_.size());
  if (first.member < 0 || first.member >= size || members_[static_cast<std::size_t>(first.member)] != from) return;
  if (first.missing < k_no_rank || first.missing >= size) return;
  switch (first.kind) {
    case message_boards::kind::record: return take_record(first.number, first.member, rest);
    case message_boards::kind::give_up:
      if (first.number == last_settled_ + 1) settle_if_known();  // all records may be here already
      if (is_first() && first.number == last_settled_ + 1)
        settle(message_boards::kind::given_up, missing_or(first.missing));
      return;
    case message_boards::kind::all:
      if (rest.size() == members_.size() * record_bytes)
        settled_[first.number] = {.records = {rest.begin(), rest.end()}};
      return;
    case message_boards::kind::given_up:
    case message_boards::kind::gone:
      settled_[first.number] = {.missing = first.missing, .has_left = first.kind == message_boards::kind::gone};
      return;
    case message_boards::kind::left: return take_left(first.member);
    default: return;
  }
}

// A member that the transport cannot reach any more counts as a member that has left. Only the first rank has messages
// from all members, and the other members have messages from the first rank only.
void message_board::note_gone_members() {
  if (!is_first() && !has_first_left_ && of_.carrier_.is_gone(members_.front())) take_left(0);
  for (std::size_t m = 1; is_first() && m < members_.size(); ++m)
    if (of_.carrier_.is_gone(members_[m])) has_left_[m] = true;
}

// --- the first rank ----------------------------------------------------------------------------------------------

rank message_board::find_missing() const {
  return static_cast<rank>(std::ranges::find(has_record_, false) - has_record_.begin());
}

rank message_board::missing_or(rank named) const {
  return named != k_no_rank && !has_record_[static_cast<std::size_t>(named)] ? named : find_missing();
}

// Stores a record. A late record, for a commit that already has a result, is dropped; its sender will get the result.
void message_board::take_record(std::uint64_t number, rank member, std::span<const std::byte> record) {
  const auto place = static_cast<std::size_t>(member);
  if (!is_first() || number <= last_settled_ || place >= members_.size() || record.size() > record_bytes) return;
  const auto target = records_.begin() + static_cast<std::ptrdiff_t>(place * record_bytes);
  std::fill(std::ranges::copy(record, target).out, target + record_bytes, std::byte{});
  has_record_[place] = true;
}

void message_board::take_left(rank member) {
  if (is_first() && static_cast<std::size_t>(member) < has_left_.size())
    has_left_[static_cast<std::size_t>(member)] = true;
  if (is_first()) return;
  has_first_left_ = true;
  if (is_awaiting_ && !settled_.contains(number_)) settled_[number_] = {.missing = member, .has_left = true};
}

// Sends the result of the commit if it is known. All arrived messages must be handled before, because a `give_up`
// message follows the sender's record.
void message_board::settle_if_known() {
  if (!is_first() || std::ranges::count(has_record_, true) == 0) return;
  rank gone = k_no_rank;
  for (std::size_t m = 0; m < members_.size(); ++m)
    if (!has_record_[m] && gone == k_no_rank && has_left_[m]) gone = static_cast<rank>(m);
  if (gone != k_no_rank)
    settle(message_boards::kind::gone, gone);
  else if (find_missing() == static_cast<rank>(members_.size()))
    settle(message_boards::kind::all, k_no_rank);
}

void message_board::settle(enum message_boards::kind how, rank missing) {
  ++last_settled_;
  const bool stands = how == message_boards::kind::all;
  const board_carrier::content answer =
      pack(how, last_settled_, missing, stands ? std::span<const std::byte>(records_) : std::span<const std::byte>{});
  for (std::size_t m = 1; m < members_.size(); ++m) of_.carrier_.send(members_[m], answer);
  settled_[last_settled_] = {.records = stands ? records_ : std::vector<std::byte>{},
                             .missing = missing,
                             .has_left = how == message_boards::kind::gone};
  has_record_.assign(members_.size(), false);
}

}  // namespace lsched
