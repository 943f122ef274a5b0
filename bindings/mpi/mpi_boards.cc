#include "bindings/mpi/mpi_boards.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "bindings/mpi/mpi_calls.h"

namespace lsched {

// --- messages ------------------------------------------------------------------------------------------------

std::unique_ptr<mpi_board> mpi_boards::open() { return std::make_unique<mpi_board>(*this, next_number_++); }

mpi_boards::content mpi_boards::pack(const head& first, std::span<const std::byte> rest) {
  auto bytes = std::make_shared<std::vector<std::byte>>(sizeof first + rest.size());
  std::memcpy(bytes->data(), &first, sizeof first);
  std::ranges::copy(rest, bytes->begin() + sizeof first);
  return bytes;
}

void mpi_boards::send(rank peer, const content& bytes) {
  if (around_.health() != status::ok) return;
  MPI_Request request = MPI_REQUEST_NULL;
  const int code =
      MPI_Isend(bytes->data(), static_cast<int>(bytes->size()), MPI_BYTE, peer, around_.tag, around_.comm, &request);
  if (!around_.succeeded(code)) return;
  around_.note_sent(peer);
  int is_done = 0;  // usually 1 for a short message
  if (around_.succeeded(MPI_Test(&request, &is_done, MPI_STATUS_IGNORE)) && is_done != 0) return;
  sends_.push_back({request, bytes, peer});
}

void mpi_boards::receive_next(bool& found) {
  int is_here = 0, bytes = 0;
  MPI_Message message;
  MPI_Status about;
  found = around_.succeeded(MPI_Improbe(MPI_ANY_SOURCE, around_.tag, around_.comm, &is_here, &message, &about)) &&
          is_here != 0 && around_.succeeded(MPI_Get_count(&about, MPI_BYTE, &bytes));
  if (!found) return;
  auto into = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(bytes));
  MPI_Request request = MPI_REQUEST_NULL;
  found = around_.succeeded(MPI_Imrecv(into->data(), bytes, MPI_BYTE, &message, &request));
  if (found) receives_.push_back({request, std::move(into), about.MPI_SOURCE});
}

void mpi_boards::advance_transfers() {
  const auto is_done = [this](transfer& one) {
    int done = 0;
    return around_.succeeded(MPI_Test(&one.request, &done, MPI_STATUS_IGNORE)) && done != 0;
  };
  std::erase_if(sends_, is_done);
  for (auto one = receives_.begin(); one != receives_.end();) {
    if (!is_done(*one)) {
      ++one;
      continue;
    }
    around_.note_taken(one->peer);
    const content news = std::move(one->bytes);
    const rank from = one->peer;
    one = receives_.erase(one);
    take(from, news);
  }
}

void mpi_boards::advance() {
  if (around_.health() != status::ok) return;
  for (bool found = awaiting_ != 0; found;) receive_next(found);
  advance_transfers();
  for (const auto& [key, one] : boards_)
    if (one != nullptr) one->settle_if_known();
}

void mpi_boards::take(rank from, const content& bytes) {
  head first;
  if (bytes->size() < sizeof first) return;
  std::memcpy(&first, bytes->data(), sizeof first);
  if (first.kind == kind::met) return take_answer(from, first);
  if (take_offer(from, first)) return;
  const bool is_of_first = first.kind >= kind::all && (first.kind != kind::left || first.member == 0);
  const std::pair which(is_of_first ? from : around_.self, first.board);
  const auto found = boards_.find(which);
  if (found == boards_.end() ? is_of_first : found->second != nullptr && !found->second->has_joined())
    strays_.emplace(which, bytes);
  else if (found != boards_.end() && found->second != nullptr)
    found->second->take(first, std::span(*bytes).subspan(sizeof first));
  else if (found != boards_.end() && first.kind == kind::left)
    boards_.erase(found);
}

bool mpi_boards::take_offer(rank from, const head& news) {
  if (news.kind == kind::offer)
    offers_[{news.number, from}] = news.board;
  else if (news.kind == kind::withdraw)
    offers_.erase({news.number, from});
  return news.kind == kind::offer || news.kind == kind::withdraw;
}

// Handles the answer to an offer: the board joins the new world, or leaves it if the offer was withdrawn meanwhile.
void mpi_boards::take_answer(rank from, const head& news) {
  const auto found = boards_.find({around_.self, static_cast<std::uint32_t>(news.number)});
  mpi_board* const offered = found == boards_.end() ? nullptr : found->second;
  --unanswered_;
  if (offered != nullptr && offered->key_ != 0) {
    std::vector<member_address> all(offered->offered_to_.size());
    all.front().far = news.board;
    (void)offered->join(std::vector(offered->offered_to_), all);
    return;
  }
  around_.begin_with(from);
  send(from, pack({news.board, kind::left, 0, news.member, k_no_rank}, {}));
  boards_.emplace(std::pair(from, news.board), nullptr);
}

void mpi_boards::abandon() {
  for (std::list<transfer>* each : {&sends_, &receives_})
    for (transfer& one : *each) (void)new content(std::move(one.bytes));  // leaked, because MPI may still use it
  sends_.clear();
  receives_.clear();
}

// --- one board -----------------------------------------------------------------------------------------------

mpi_board::mpi_board(mpi_boards& of, std::uint32_t number) : of_(of), own_number_(number) {
  of_.boards_.emplace(std::pair(of_.around_.self, number), this);
}

mpi_board::~mpi_board() {
  std::erase_if(of_.boards_, [this](const auto& one) { return one.second == this; });
  of_.strays_.erase({of_.around_.self, own_number_});
  (void)withdraw();
  await(false);
  if (has_joined() && is_mpi_running()) say_left();
}

// Sends `left`. The `left` from the first rank is the last message for a board.
void mpi_board::say_left() {
  const mpi_boards::content word = pack(mpi_boards::kind::left, number_, k_no_rank);
  for (std::size_t m = 1; is_first() && m < members_.size(); ++m) of_.send(members_[m], word);
  if (is_first() || has_first_left_) return;
  of_.send(members_.front(), word);
  of_.boards_.emplace(std::pair(members_.front(), number_of_first_), nullptr);
}

status mpi_board::join(std::span<const rank> members, std::span<const member_address> all) {
  if (all.size() != members.size() || all.empty()) return status::argument;
  members_.assign(members.begin(), members.end());
  self_ = static_cast<rank>(std::ranges::find(members, of_.around_.self) - members.begin());
  number_of_first_ = static_cast<std::uint32_t>(all.front().far);
  of_.boards_.emplace(std::pair(members_.front(), number_of_first_), this);
  for (std::size_t m = 0; m < members_.size(); ++m)
    if (is_first() ? m != 0 : m == 0) of_.around_.begin_with(members_[m]);
  if (is_first()) {
    records_.resize(members_.size() * record_bytes);
    has_record_.assign(members_.size(), false);
    has_left_.assign(members_.size(), false);
  }
  const std::pair which(members_.front(), number_of_first_);
  const auto [begin, end] = of_.strays_.equal_range(which);
  const std::multimap<std::pair<rank, std::uint32_t>, mpi_boards::content> strays(begin, end);
  of_.strays_.erase(which);
  for (const auto& [key, bytes] : strays) of_.take(key.first, bytes);
  return status::ok;
}

mpi_boards::content mpi_board::pack(enum mpi_boards::kind what, std::uint64_t number, rank missing,
                                    std::span<const std::byte> rest) const {
  return mpi_boards::pack({number_of_first_, what, number, self_, missing}, rest);
}

status mpi_board::post(std::span<const std::byte> record, rank*) {
  settled_.erase(settled_.begin(), settled_.upper_bound(number_));  // drops results of abandoned commits
  ++number_;
  await(true);
  of_.advance();  // handles `given_up` if it has already arrived for this commit
  if (is_first()) {
    take_record(number_, 0, record);
    settle_if_known();
  } else if (has_first_left_) {
    settled_[number_] = {.missing = 0, .has_left = true};
  } else if (!settled_.contains(number_)) {
    of_.send(members_.front(), pack(mpi_boards::kind::record, number_, k_no_rank, record));
  }
  return status::ok;
}

status mpi_board::gather(std::span<std::byte> all, rank* missing) {
  if (const status health = of_.around_.health(); health != status::ok) return health;
  of_.advance();
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

void mpi_board::await(bool now) {
  if (now != is_awaiting_) now ? ++of_.awaiting_ : --of_.awaiting_;
  is_awaiting_ = now;
}

void mpi_board::offer(std::uint64_t key, std::span<const rank> members) {
  key_ = key;
  offered_to_.assign(members.begin(), members.end());
  await(true);
  const rank first = offered_to_.front();
  if (first == of_.around_.self) return;
  ++of_.unanswered_;  // the first rank may never receive the offer
  of_.send(first, mpi_boards::pack({own_number_, mpi_boards::kind::offer, key, k_no_rank, k_no_rank}, {}));
}

status mpi_board::meet(rank* missing) {
  if (const status health = of_.around_.health(); health != status::ok) return health;
  of_.advance();
  *missing = k_no_rank;
  if (!has_joined() && offered_to_.front() == of_.around_.self) {
    std::vector<std::uint32_t> theirs;
    for (std::size_t m = 1; m < offered_to_.size(); ++m) {
      const auto found = of_.offers_.find({key_, offered_to_[m]});
      if (found == of_.offers_.end()) return *missing = static_cast<rank>(m), status::pending;
      theirs.push_back(found->second);
    }
    for (std::size_t m = 1; m < offered_to_.size(); ++m) {
      of_.offers_.erase({key_, offered_to_[m]});
      of_.around_.begin_with(offered_to_[m]);
      of_.send(
          offered_to_[m],
          mpi_boards::pack({own_number_, mpi_boards::kind::met, theirs[m - 1], static_cast<rank>(m), k_no_rank}, {}));
    }
    std::vector<member_address> all(offered_to_.size());
    all.front().far = own_number_;
    (void)join(std::vector(offered_to_), all);
  }
  if (!has_joined()) return status::pending;
  await(false);
  key_ = 0;
  return status::ok;
}

bool mpi_board::withdraw() {
  if (key_ == 0 || has_joined()) return key_ == 0;
  await(false);
  if (offered_to_.front() != of_.around_.self && is_mpi_running())
    of_.send(offered_to_.front(),
             mpi_boards::pack({own_number_, mpi_boards::kind::withdraw, key_, k_no_rank, k_no_rank}, {}));
  key_ = 0;
  return true;
}

void mpi_board::give_up(rank missing) {
  if (settled_.contains(number_)) return;
  if (is_first())
    settle(mpi_boards::kind::given_up, missing);
  else
    of_.send(members_.front(), pack(mpi_boards::kind::give_up, number_, missing));
}

void mpi_board::take(const mpi_boards::head& first, std::span<const std::byte> rest) {
  switch (first.kind) {
    case mpi_boards::kind::record: return take_record(first.number, first.member, rest);
    case mpi_boards::kind::give_up:
      if (is_first() && first.number == last_settled_ + 1) settle(mpi_boards::kind::given_up, find_missing());
      return;
    case mpi_boards::kind::all:
      if (rest.size() == members_.size() * record_bytes)
        settled_[first.number] = {.records = {rest.begin(), rest.end()}};
      return;
    case mpi_boards::kind::given_up:
    case mpi_boards::kind::gone:
      settled_[first.number] = {.missing = first.missing, .has_left = first.kind == mpi_boards::kind::gone};
      return;
    case mpi_boards::kind::left: return take_left(first.member);
    default: return;
  }
}

// --- the first rank ----------------------------------------------------------------------------------------------

rank mpi_board::find_missing() const {
  return static_cast<rank>(std::ranges::find(has_record_, false) - has_record_.begin());
}

// Stores a record. A late record, for a commit that already has a result, is dropped; its sender will get the result.
void mpi_board::take_record(std::uint64_t number, rank member, std::span<const std::byte> record) {
  const auto place = static_cast<std::size_t>(member);
  if (!is_first() || number <= last_settled_ || place >= members_.size() || record.size() > record_bytes) return;
  const auto target = records_.begin() + static_cast<std::ptrdiff_t>(place * record_bytes);
  std::fill(std::ranges::copy(record, target).out, target + record_bytes, std::byte{});
  has_record_[place] = true;
}

void mpi_board::take_left(rank member) {
  if (is_first() && static_cast<std::size_t>(member) < has_left_.size())
    has_left_[static_cast<std::size_t>(member)] = true;
  if (is_first()) return;
  has_first_left_ = true;
  if (is_awaiting_ && !settled_.contains(number_)) settled_[number_] = {.missing = member, .has_left = true};
}

// Sends the result of the commit if it is known. All arrived messages must be handled before, because a `give_up`
// message follows the sender's record.
void mpi_board::settle_if_known() {
  if (!is_first() || std::ranges::count(has_record_, true) == 0) return;
  rank gone = k_no_rank;
  for (std::size_t m = 0; m < members_.size(); ++m)
    if (!has_record_[m] && gone == k_no_rank && has_left_[m]) gone = static_cast<rank>(m);
  if (gone != k_no_rank)
    settle(mpi_boards::kind::gone, gone);
  else if (find_missing() == static_cast<rank>(members_.size()))
    settle(mpi_boards::kind::all, k_no_rank);
}

void mpi_board::settle(enum mpi_boards::kind how, rank missing) {
  ++last_settled_;
  const bool stands = how == mpi_boards::kind::all;
  const mpi_boards::content answer =
      pack(how, last_settled_, missing, stands ? std::span<const std::byte>(records_) : std::span<const std::byte>{});
  for (std::size_t m = 1; m < members_.size(); ++m) of_.send(members_[m], answer);
  settled_[last_settled_] = {.records = stands ? records_ : std::vector<std::byte>{},
                             .missing = missing,
                             .has_left = how == mpi_boards::kind::gone};
  has_record_.assign(members_.size(), false);
}

}  // namespace lsched
