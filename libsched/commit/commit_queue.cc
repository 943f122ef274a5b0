#include "libsched/commit/commit_queue.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

namespace lsched {
namespace {

std::string text_of_missing(rank missing) {
  return missing == k_no_rank ? "some rank" : "rank " + std::to_string(missing);
}

}  // namespace

commit_queue::commit_queue(engine& runs, membership_ptr members, std::unique_ptr<board> meets)
    : engine_(runs), members_(std::move(members)), board_(std::move(meets)) {}

commit_queue::~commit_queue() {
  while (!queue_.empty()) {
    if (is_posted_) board_->give_up(missing_);
    if (is_posted_ && advance_first()) continue;
    end_first(failure{status::state, "the world was closed before all ranks had committed"});
  }
  engine_.drop(*this);
}

void commit_queue::add(std::shared_ptr<commitment> next) {
  ++next_number_;
  if (lost_ == k_no_rank) lost_ = engine_.first_lost_of(*members_);
  queue_.push_back(std::move(next));
  if (queue_.size() == 1) engine_.carry_on(*this);
  (void)advance();
}

bool commit_queue::advance() {
  bool moved = false;
  while (!queue_.empty() && advance_first()) moved = true;
  if (queue_.empty()) records_ = {};  // frees the memory, because a process may have many worlds
  return moved;
}

// Advances the first commit. Returns true if this call has ended the commit, posted its record, or gathered the records
// of all members.
bool commit_queue::advance_first() {
  if (!is_posted_) {
    if (lost_ != k_no_rank) return end_first(failure_of(status::peer, lost_)), true;
    std::array<std::byte, board::record_bytes> bytes{};
    queue_.front()->write_record(bytes);
    const status answer = board_->post(bytes, &missing_);
    if (answer == status::pending) return false;
    is_posted_ = true;
    records_.resize(static_cast<std::size_t>(members_->place().size) * board::record_bytes);
    if (answer != status::ok) conclude_first(answer);
    return true;
  }
  const status answer = board_->gather(records_, &missing_);
  if (answer == status::pending) return false;
  conclude_first(answer);
  return true;
}

// If a member was lost, the error is PEER, not TIMEOUT.
void commit_queue::conclude_first(status answer) {
  if (answer == status::timeout && lost_ != k_no_rank) {
    answer = status::peer;
    missing_ = lost_;
  }
  if (answer == status::timeout)
    if (missing_ != k_no_rank && engine_.net().liveness().is_lost(members_->home_of(missing_))) answer = status::peer;
  if (answer == status::peer) {
    engine_.lose(*members_, missing_);
    missing_ = engine_.culprit_of_loss(*members_, missing_);
  }
  if (answer != status::ok) return end_first(failure_of(answer, missing_));
  const auto [is_last, why] = queue_.front()->read_records(records_);
  if (is_last) return end_first(why);
  is_posted_ = false;  // the next record of this commit follows at once
}

void commit_queue::end_first(const std::optional<failure>& why) {
  const std::shared_ptr<commitment> first = std::move(queue_.front());
  queue_.pop_front();
  is_posted_ = false;
  missing_ = k_no_rank;
  first->end(why);
  engine_.publish();
}

rank commit_queue::give_up(const commitment& late) {
  (void)advance();
  const rank missing = missing_;
  const auto found = std::ranges::find_if(queue_, [&](const auto& one) { return one.get() == &late; });
  if (found == queue_.end()) return missing;
  if (found == queue_.begin() && is_posted_) {
    board_->give_up(missing_);
    (void)advance();
  } else {
    (*found)->refuse({status::timeout,
                      "the commit timed out, because earlier commits of this rank are incomplete: check that all ranks "
                      "create the same schedules"});
  }
  return missing;
}

failure commit_queue::failure_of(status answer, rank missing) const {
  failure why{answer, text_of_missing(missing), missing};
  if (answer == status::timeout) {
    why.text += " did not commit in time";
    const rank late = engine_.find_late(*members_, std::span(&missing, missing == k_no_rank ? 0 : 1), why.text);
    if (late != k_no_rank) why.peer = late;
  } else if (answer == status::peer && missing == members_->place().self) {
    why.text = k_has_grown;
  } else if (answer == status::peer) {
    why.text += " died, or closed its world, before its commit";
  } else {
    why.text = "the ranks could not exchange their commit records";
  }
  return why;
}

std::string commit_queue::describe_wait(const membership& of, rank* waits_for) const {
  if (&of != members_.get() || queue_.empty()) return {};
  *waits_for = missing_;
  return text_of_missing(missing_) + " has not yet reached commit " + std::to_string(queue_.front()->record_.number);
}

// If the record of the first commit is posted, the board decides whether that commit still succeeds.
void commit_queue::lose(rank home) {
  const rank member = members_->rank_of(home);
  if (member == k_no_rank || lost_ != k_no_rank) return;
  lost_ = member;
  if (is_posted_) board_->give_up(member);
  (void)advance();
}

}  // namespace lsched
