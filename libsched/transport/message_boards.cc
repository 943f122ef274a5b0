#include "libsched/transport/message_boards.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace lsched {
namespace {

using clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds k_patience{10};  ///< wait after which a member asks who is missing
constexpr std::chrono::milliseconds k_repeat{100};   ///< age of an answer after which the member asks again
constexpr std::chrono::milliseconds k_silence{100};  ///< silence after which the first rank counts as missing

}  // namespace

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
    if (!one->has_joined()) continue;
    one->note_gone_members();
    one->advance();
    one->roll_.advance();
  }
  return status::ok;
}

void message_boards::take(rank from, std::span<const std::byte> bytes) {
  head first;
  if (bytes.size() < sizeof first) return;
  std::memcpy(&first, bytes.data(), sizeof first);
  if (first.kind >= kind::offer) return take_offer(from, first);
  const identity which(first.first, first.board);
  const auto found = boards_.find(which);
  if (found != boards_.end() && found->second->has_joined())
    found->second->take(from, first, bytes.subspan(sizeof first));
  else if (unjoined_ != 0 || next_number_ == 0)
    strays_.emplace(which, std::pair(from, std::vector(bytes.begin(), bytes.end())));
}

// If every board of this rank has joined, all kept messages are for closed boards.
void message_boards::drop_strays() {
  if (--unjoined_ == 0) strays_.clear();
}

/// Handles a message about an offer.
void message_boards::take_offer(rank from, const head& news) {
  switch (news.kind) {
    case kind::offer: offers_[{news.number, from}] = news.board; return;
    case kind::withdraw: offers_.erase({news.number, from}); return;
    case kind::met: return take_answer(from, news);
    case kind::ask_offer: return send_missing_offer(from, news);
    case kind::missing_offer:
      if (message_board* const offered = find_offered(news.number, from)) offered->note_missing(news.missing);
      return;
    default: return;
  }
}

/// Returns the board with the id `number` if this rank has offered the board to a world whose first rank is `first`,
/// else null.
message_board* message_boards::find_offered(std::uint64_t number, rank first) const {
  const auto found = boards_.find({self_, static_cast<std::uint32_t>(number)});
  if (found == boards_.end() || found->second->key_ == 0) return nullptr;
  return found->second->offered_to_.front() == first ? found->second : nullptr;
}

/// A member that waits for a world has asked whose offer is missing. Sends this member the answer.
void message_boards::send_missing_offer(rank from, const head& question) {
  rank missing = 0;
  for (const auto& [which, one] : boards_)
    if (one->key_ != 0 && one->key_ == question.number && one->offered_to_.front() == self_)
      missing = one->find_missing_offer();
  carrier_.send(from, pack({.kind = kind::missing_offer, .number = question.board, .missing = missing}));
}

// Handles the answer to an offer. The board joins the new world. If the offer was withdrawn meanwhile, this rank leaves
// the new world instead.
void message_boards::take_answer(rank from, const head& news) {
  if (unanswered_ != 0) --unanswered_;
  if (message_board* const offered = find_offered(news.number, from)) {
    std::vector<member_address> all(offered->offered_to_.size());
    all.front().far = news.board;
    (void)offered->join(std::vector(offered->offered_to_), all);
    return;
  }
  carrier_.begin_with(from);
  carrier_.send(from, pack({.board = news.board, .kind = kind::left, .first = from, .member = news.member}));
}

// Returns the ids of the boards that `members`, except the first, have offered under a key. Sets *missing to the first
// member without an offer, or to k_no_rank.
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
  ++of_.unjoined_;
}

message_board::~message_board() {
  if (!withdraw() && former_ != nullptr) (void)join_survivors();
  if (fresh_ != nullptr) fresh_->former_ = nullptr;
  await(false);
  std::erase_if(of_.boards_, [this](const auto& one) { return one.second == this; });
  if (!has_joined()) of_.drop_strays();
  if (has_joined() && of_.carrier_.can_send()) say_left();
}

void message_board::say_left() {
  const board_carrier::content word = pack({.kind = message_boards::kind::left});
  for (std::size_t m = 0; m < members_.size(); ++m) {
    const bool is_connected = of_.carrier_.can_lose() || is_first() || m == 0;
    if (is_connected && static_cast<rank>(m) != self_ && !commit_.is_lost(static_cast<rank>(m)))
      of_.carrier_.send(members_[m], word);
  }
}

status message_board::join(std::span<const rank> members, std::span<const member_address> all) {
  if (all.size() != members.size() || all.empty()) return status::argument;
  members_.assign(members.begin(), members.end());
  const auto size = static_cast<rank>(members_.size());
  self_ = static_cast<rank>(std::ranges::find(members, of_.self_) - members.begin());
  number_of_first_ = static_cast<std::uint32_t>(all.front().far);
  commit_ = agreement(self_, size, !of_.carrier_.can_lose(), to_commit_);
  roll_ = roll_call(self_, size, to_roll_);
  const message_boards::identity which(members_.front(), number_of_first_);
  of_.boards_.emplace(which, this);
  for (std::size_t m = 0; m < members_.size(); ++m)
    if (is_first() ? m != 0 : m == 0) of_.carrier_.begin_with(members_[m]);
  if (is_first()) {
    records_.resize(members_.size() * record_bytes);
    has_record_.assign(members_.size(), false);
  }
  const auto [begin, end] = of_.strays_.equal_range(which);
  const std::multimap strays(begin, end);
  of_.strays_.erase(which);
  of_.drop_strays();
  for (const auto& [key, stray] : strays) of_.take(stray.first, stray.second);
  return status::ok;
}

/// Returns a message about this board. Adds the board and the sender to the head `about`.
board_carrier::content message_board::pack(const message_boards::head& about, std::span<const std::byte> rest) const {
  message_boards::head whole = about;
  whole.board = number_of_first_;
  whole.first = members_.front();
  whole.member = self_;
  return message_boards::pack(whole, rest);
}

void message_board::agreement_sender::send(rank member, const agreement::message& what) {
  if (!of.of_.carrier_.can_lose() && !of.is_first() && member != 0) return;
  of.of_.carrier_.send(of.members_[static_cast<std::size_t>(member)], of.pack({.kind = kind,
                                                                               .number = what.number,
                                                                               .missing = what.about.missing,
                                                                               .step = what.kind,
                                                                               .why = what.about.why},
                                                                              what.value));
}

status message_board::post(std::span<const std::byte> record, rank*) {
  commit_.begin(commit_.number() + 1);
  begin_to_wait();
  (void)of_.advance();  // handles a refusal that has already arrived for this commit
  if (is_first())
    take_record(commit_.number(), 0, record);
  else if (!commit_.is_over())
    of_.carrier_.send(members_.front(),
                      pack({.kind = message_boards::kind::record, .number = commit_.number()}, record));
  advance();
  return status::ok;
}

status message_board::gather(std::span<std::byte> all, rank* missing) {
  if (const status health = of_.advance(); health != status::ok) return health;
  *missing = k_no_rank;
  if (!commit_.is_over()) {
    *missing = is_first() ? missing_or(k_no_rank) : ask_missing();
    return status::pending;
  }
  await(false);
  if (commit_.phase() == agreement::phase::refused) {
    *missing = commit_.why().missing;
    return commit_.why().why;
  }
  std::ranges::copy(commit_.value(), all.begin());
  commit_.drop_value();
  return status::ok;
}

void message_board::await(bool now) {
  if (now != is_awaiting_) now ? ++of_.awaiting_ : --of_.awaiting_;
  is_awaiting_ = now;
}

// --- the missing member ------------------------------------------------------------------------------------------

void message_board::begin_to_wait() {
  await(true);
  is_asking_ = false;
  missing_ = k_no_rank;
  asks_at_ = clock::now() + k_patience;
}

// Only the first rank has the records or the offers of all members. So the other members ask the first rank which
// member is missing. If the first rank does not answer, it has not begun to wait, or does not run. So the first rank
// then counts as missing. At most one question is unanswered at a time. Over a transport that cannot lose ranks, the
// first rank might never receive a question, so no question is sent.
rank message_board::ask_missing() {
  if (!of_.carrier_.can_lose()) return k_no_rank;
  const auto now = clock::now();
  if (!is_asking_ && now >= asks_at_) {
    is_asking_ = true;
    asks_at_ = now;
    if (has_joined())
      of_.carrier_.send(members_.front(), pack({.kind = message_boards::kind::ask, .number = commit_.number()}));
    else
      of_.carrier_.send(
          offered_to_.front(),
          message_boards::pack({.board = own_number_, .kind = message_boards::kind::ask_offer, .number = key_}));
  }
  return is_asking_ && now - asks_at_ > k_silence ? 0 : missing_;
}

/// Sends a member the rank for which the commit waits. Sends nothing if the commit is over, because the member then
/// gets the decision.
void message_board::send_missing(std::uint64_t number, rank member) const {
  if (!is_first() || number < commit_.number() || (number == commit_.number() && commit_.is_over())) return;
  const rank missing = number == commit_.number() ? missing_or(k_no_rank) : 0;
  of_.carrier_.send(members_[static_cast<std::size_t>(member)],
                    pack({.kind = message_boards::kind::missing,
                          .number = number,
                          .missing = missing == static_cast<rank>(members_.size()) ? k_no_rank : missing}));
}

// Stores the answer of the first rank. An answer that names the first rank does not replace an answer that has named
// another member. In this case, the first rank has given up its offer because of that other member.
void message_board::note_missing(rank missing) {
  const auto size = static_cast<rank>(has_joined() ? members_.size() : offered_to_.size());
  if (!is_asking_ || missing < k_no_rank || missing >= size) return;
  is_asking_ = false;
  if (missing != 0 || missing_ == k_no_rank) missing_ = missing;
  asks_at_ = clock::now() + k_repeat;
}

// --- offers and requests -----------------------------------------------------------------------------------------

void message_board::offer(std::uint64_t key, std::span<const rank> members) {
  key_ = key;
  offered_to_.assign(members.begin(), members.end());
  begin_to_wait();
  const rank first = offered_to_.front();
  if (first == of_.self_) return;
  ++of_.unanswered_;  // the first rank may never receive the offer
  of_.carrier_.send(
      first,
      message_boards::pack({.board = own_number_, .kind = message_boards::kind::offer, .number = key, .first = first}));
}

status message_board::meet(rank* missing) {
  if (const status health = of_.advance(); health != status::ok) return health;
  *missing = k_no_rank;
  if (former_ != nullptr) return meet_survivors(missing);
  if (!has_joined() && offered_to_.empty()) return status::peer;  // the world of the roll call was closed
  if (!has_joined()) {
    if (const status how = connect_offers(missing); how != status::ok) return how;
  }
  await(false);
  key_ = 0;
  return status::ok;
}

// On the first rank, connects the offered boards if all members have offered a board. Returns PENDING while the board
// has not joined, and PEER if the board can no longer join.
status message_board::connect_offers(rank* missing) {
  board_carrier& carrier = of_.carrier_;
  const rank first = offered_to_.front();
  if (first != of_.self_) {
    const bool is_gone = carrier.is_gone(first);
    *missing = is_gone ? 0 : ask_missing();
    return is_gone ? status::peer : status::pending;
  }
  *missing = find_missing_offer();
  if (*missing != k_no_rank)
    return carrier.is_gone(offered_to_[static_cast<std::size_t>(*missing)]) ? status::peer : status::pending;
  const std::vector<std::uint32_t> theirs = of_.offers_of(key_, offered_to_, missing);
  for (std::size_t m = 1; m < offered_to_.size(); ++m) {
    of_.offers_.erase({key_, offered_to_[m]});
    carrier.begin_with(offered_to_[m]);
    carrier.send(offered_to_[m], message_boards::pack({.board = own_number_,
                                                       .kind = message_boards::kind::met,
                                                       .number = theirs[m - 1],
                                                       .first = of_.self_,
                                                       .member = static_cast<rank>(m)}));
  }
  std::vector<member_address> all(offered_to_.size());
  all.front().far = own_number_;
  return join(std::vector(offered_to_), all);
}

// Members may withdraw their offers after a timeout because another member was missing. So this function returns the
// member that was missing first, until the offer of that member arrives.
rank message_board::find_missing_offer() {
  const auto has_offered = [this](rank m) {
    return of_.offers_.contains({key_, offered_to_[static_cast<std::size_t>(m)]});
  };
  if (missing_ == k_no_rank || has_offered(missing_)) (void)of_.offers_of(key_, offered_to_, &missing_);
  return missing_;
}

bool message_board::withdraw() {
  if (former_ != nullptr) return leave_roll();
  if (key_ == 0 || has_joined()) return key_ == 0;
  await(false);
  const rank first = offered_to_.front();
  if (first != of_.self_ && of_.carrier_.can_send())
    of_.carrier_.send(
        first, message_boards::pack(
                   {.board = own_number_, .kind = message_boards::kind::withdraw, .number = key_, .first = first}));
  key_ = 0;
  return true;
}

// If `missing` is lost, no request is needed. The first rank detects the loss itself, and then decides.
void message_board::give_up(rank missing) {
  if (commit_.is_over()) return;
  if (missing != k_no_rank && of_.carrier_.is_gone(members_[static_cast<std::size_t>(missing)])) return;
  if (is_first())
    refuse_commit(commit_.number(), {status::timeout, missing_or(missing)});
  else
    of_.carrier_.send(members_.front(),
                      pack({.kind = message_boards::kind::give_up, .number = commit_.number(), .missing = missing}));
}

// Drops a message that its sender must not send, or that names a rank outside the world.
void message_board::take(rank from, const message_boards::head& first, std::span<const std::byte> rest) {
  const auto size = static_cast<rank>(members_.size());
  if (first.member < 0 || first.member >= size || members_[static_cast<std::size_t>(first.member)] != from) return;
  const bool is_of_roll = first.kind == message_boards::kind::call || first.kind == message_boards::kind::roll;
  if (is_of_roll && !of_.carrier_.can_lose()) return;
  if (first.missing < k_no_rank || first.missing >= size) return;
  const status why = first.why == status::peer ? status::peer : status::timeout;
  const agreement::message what{first.step, first.number, {why, first.missing}, rest};
  const bool has_value =
      first.step == agreement::kind::propose || (first.step == agreement::kind::settled && !of_.carrier_.can_lose());
  switch (first.kind) {
    case message_boards::kind::record: return take_record(first.number, first.member, rest);
    case message_boards::kind::give_up: return take_request(first.number, first.missing);
    case message_boards::kind::commit:
      if (!has_value || rest.size() == members_.size() * record_bytes) commit_.take(first.member, what);
      return;
    case message_boards::kind::call: return roll_.take_answer(first.member, first.number, first.fresh);
    case message_boards::kind::roll:
      if (!has_value || rest.size() == members_.size() * sizeof(std::uint32_t)) roll_.take(first.member, what);
      return;
    case message_boards::kind::left: return lose(first.member);
    case message_boards::kind::ask: return send_missing(first.number, first.member);
    case message_boards::kind::missing:
      if (first.member == 0 && first.number == commit_.number()) note_missing(first.missing);
      return;
    default: return;
  }
}

void message_board::lose(rank member) {
  commit_.lose(member);
  roll_.lose(member);
}

// A member that the transport cannot reach any more counts as a member that has left.
void message_board::note_gone_members() {
  for (rank m = 0; m < static_cast<rank>(members_.size()); ++m) {
    const bool is_new = !commit_.is_lost(m) || !roll_.on().is_lost(m);
    if (is_new && of_.carrier_.is_gone(members_[static_cast<std::size_t>(m)])) lose(m);
  }
}

// If the first rank is lost before this member has accepted the commit, this member refuses the commit. No member can
// have settled the commit, because every living member must accept first.
void message_board::advance() {
  if (is_first())
    propose_if_known();
  else if (commit_.phase() == agreement::phase::open && commit_.is_lost(0))
    (void)commit_.refuse({status::peer, 0});
}

// --- the first rank ----------------------------------------------------------------------------------------------

rank message_board::find_missing() const {
  return static_cast<rank>(std::ranges::find(has_record_, false) - has_record_.begin());
}

rank message_board::missing_or(rank named) const {
  if (commit_.phase() == agreement::phase::accepted) return commit_.find_undecided();
  return named != k_no_rank && !has_record_[static_cast<std::size_t>(named)] ? named : find_missing();
}

// Stores a record. A late record of a refused commit is dropped, because the refusal was already sent to all members.
void message_board::take_record(std::uint64_t number, rank member, std::span<const std::byte> record) {
  const auto place = static_cast<std::size_t>(member);
  if (!is_first() || number < next_ || record.size() > record_bytes) return;
  const auto target = records_.begin() + static_cast<std::ptrdiff_t>(place * record_bytes);
  std::fill(std::ranges::copy(record, target).out, target + record_bytes, std::byte{});
  has_record_[place] = true;
}

// Handles the request of a member to give up a commit.
void message_board::take_request(std::uint64_t number, rank missing) {
  if (!is_first() || number != next_) return;
  propose_if_known();  // all records may be here already
  if (number == next_) refuse_commit(number, {status::timeout, missing_or(missing)});
}

void message_board::propose_if_known() {
  if (std::ranges::count(has_record_, true) == 0) return;
  if (find_missing() != static_cast<rank>(members_.size())) {
    for (rank m = 0; m < static_cast<rank>(members_.size()); ++m)
      if (commit_.is_lost(m)) return refuse_commit(next_, {status::peer, m});  // some members no longer post records
    return;
  }
  ++next_;
  has_record_.assign(members_.size(), false);
  commit_.propose(records_);
}

// Refuses a commit. The first rank may not have begun this commit yet, because members may give up a commit before the
// first rank posts its own record.
void message_board::refuse_commit(std::uint64_t number, const refusal& about) {
  if (number == next_) {
    ++next_;
    has_record_.assign(members_.size(), false);
  }
  if (number == commit_.number())
    (void)commit_.refuse(about);
  else
    commit_.refuse_later(number, about);
}

}  // namespace lsched
