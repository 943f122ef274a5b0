#include "libsched/session/group_session.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "libsched/trace/trace_buffer.h"
#include "ops/float_mode.h"

namespace lsched {

group_session::group_session(engine& runs, instance& control, instance& rounds, const group_options& how)
    : engine_(runs),
      control_(&control),
      rounds_(&rounds),
      self_(control.program->place().self),
      group_(self_ / how.shape.shards),
      lag_(how.lag),
      how_(combiners_of(*rounds.partial, *rounds.program, {}).results),
      offers_(how.staged),
      accounts_(how.staged + 2),
      log_(how.shape, how.starts),
      entry_(log_.width()),
      news_(log_.width()) {
  for (staged_offer& one : offers_) one.data.resize(how_.bytes);
  for (account& one : accounts_) one.data.resize(how_.bytes);
}

// --- application -----------------------------------------------------------------------------------------------------

status group_session::verdict() const {
  if (const status failed = rounds_->verdict.load(); failed != status::ok) return failed;
  return control_->verdict.load();
}

status group_session::may_offer() const {
  if (const status failed = verdict(); failed != status::ok) return failed;
  if (leaves_.load() || is_flushing_.load()) return status::state;
  return staged_.load() - taken_ticket_.load() >= offers_.size() ? status::busy : status::ok;
}

const char* group_session::why_no_offer() const {
  if (leaves_.load()) return "this rank has left the schedule, so no contribution is accepted: create another schedule";
  if (is_flushing_.load())
    return "lsched_flush is incomplete on this rank: call lsched_flush again before the next offer";
  return "a contribution in buckets is incomplete: give all buckets by lsched_offer_bucket and call lsched_offer_end";
}

void group_session::stage(std::uint64_t weight, round_no* ticket) {
  const std::uint64_t number = staged_.load() + 1;
  slot_of(number).weight = weight;
  slot_of(number).call = begun_.load() + 1;
  staged_.store(number);
  engine_.post(*control_);
  *ticket = number;
}

status group_session::offer(std::span<const source_part> parts, std::uint64_t weight, round_no* ticket) {
  if (const status why = may_offer(); why != status::ok) return why;
  if (is_prepared_) return status::state;
  std::byte* const into = slot_of(staged_.load() + 1).data.data();
  if (weight != 0)
    for_each_part(parts, how_, [&](const source_part& piece, std::uint64_t begin, std::uint64_t bytes) {
      std::memcpy(into + begin, piece.data, bytes);
    });
  stage(parts.empty() ? 0 : weight, ticket);
  return status::ok;
}

status group_session::prepare(std::uint64_t begin, const source_part& one) {
  if (const status why = may_offer(); why != status::ok) return why;
  const std::uint64_t element = how_.element_bytes();
  if (one.count > 0)
    std::memcpy(slot_of(staged_.load() + 1).data.data() + begin * element, one.data, one.count * element);
  is_prepared_ = true;
  return status::ok;
}

status group_session::commit(std::uint64_t weight, round_no* ticket) {
  if (const status why = may_offer(); why != status::ok) return why;
  is_prepared_ = false;
  stage(weight, ticket);
  return status::ok;
}

// The caller has read `applied` before it has looked for a closed account. So an account that is closed later is closed
// by a later entry.
group_session::wait group_session::pending(round_no applied) const {
  if (is_broken_.load()) return {.answer = status::internal, .reason = "entries of the log of groups were combined"};
  if (const status failed = rounds_->verdict.load(); failed != status::ok) return {failed, rounds_};
  if (const status failed = control_->verdict.load(); failed != status::ok) return {failed, control_};
  return {.answer = status::pending, .round = applied + 1};
}

group_session::wait group_session::await(round_no ticket) const {
  if (is_flushing_.load())
    return {.answer = status::state,
            .reason = "lsched_flush is incomplete on this rank: call lsched_flush again before the next collect"};
  const round_no applied = applied_.load();
  const std::uint64_t closed = closed_.load();
  if (taken_ticket_.load() >= ticket || (closed > taken_ && account_at(closed - 1).tickets >= ticket)) return {};
  return pending(applied);
}

std::optional<delivered> group_session::collect(round_no ticket, std::span<const target_part> into) {
  if (taken_ticket_.load() >= ticket) return std::nullopt;
  std::uint64_t last = taken_;
  while (account_at(last).tickets < ticket) ++last;
  return take(last, into);
}

// Takes the closed accounts up to number `last`.
delivered group_session::take(std::uint64_t last, std::span<const target_part> into) {
  const default_float_mode here;
  account& sum = account_at(taken_);
  for (std::uint64_t number = taken_ + 1; number <= last; ++number)
    add(sum, account_at(number).what, account_at(number).data.data());
  if (!sum.what.null) rounds_->partial->fragments.front().results->copy(sum.data.data(), into);
  collected_ = sum.what;
  taken_ = last + 1;
  taken_ticket_.store(account_at(last).tickets);
  return collected_;
}

group_session::wait group_session::flush() {
  if (is_prepared_ || leaves_.load()) return {.answer = status::state, .reason = why_no_offer()};
  if (!is_flushing_.exchange(true)) {
    flushes_.fetch_add(1);
    engine_.post(*control_);
  }
  const round_no applied = applied_.load();
  if (flushed_.load() < flushes_.load()) return pending(applied);
  if (!is_uneven_.load()) return {};
  return {.answer = status::state,
          .reason =
              "the shards of a group have made different numbers of offers before the flush: all shards of a "
              "group must offer in the same steps"};
}

// Accounts after the flush do not exist, because all offers of this rank precede the flush.
delivered group_session::end_flush(std::span<const target_part> into) {
  is_flushing_.store(false);
  return take(closed_.load() - 1, into);
}

void group_session::leave() {
  leaves_.store(true);
  if (control_ != nullptr) engine_.post(*control_);
}

// --- accounts --------------------------------------------------------------------------------------------------------

// Adds a later result to an account.
void group_session::add(account& into, const delivered& what, const std::byte* data) const {
  const delivered old = std::exchange(into.what, what);
  if (old.to != 0) {
    add_rounds(into.what, old, lag_);
    into.what.null = what.null && old.null;
  }
  if (what.null) return;
  const bool is_sum = lag_ != lag_policy::latest && old.to != 0 && !old.null;
  if (is_sum && how_.count > 0) {
    how_.reduce(into.data.data(), data, into.data.data(), how_.count);
  } else if (how_.bytes > 0) {
    std::memcpy(into.data.data(), data, how_.bytes);
  }
}

// --- engine ----------------------------------------------------------------------------------------------------------

bool group_session::advance() {
  if (has_left_) return false;
  if (leaves_.load()) {
    has_left_ = true;
    for (instance* const one : {control_, rounds_}) {
      one->partial->fragments.front().offers->leave();  // must precede the call, as in session::leave()
      call_for(*one, k_last_round);
      engine_.post(*one);
    }
    return true;
  }
  if (has_failed_) return false;
  if (rounds_->phase == phase::failed || control_->phase == phase::failed) {
    has_failed_ = true;                            // must precede cancel(), which makes a step
    instance* const both[] = {rounds_, control_};  // the control gets the error of the rounds
    if (control_->phase != phase::failed) engine_.cancel(both);
    return true;
  }
  const bool has_applied = apply_entries(), has_ended = end_round(), has_contributed = contribute();
  return has_applied || has_ended || has_contributed;
}

bool group_session::apply_entries() {
  bool any = false;
  while (const auto got =
             control_->partial->fragments.front().results->collect(reinterpret_cast<std::byte*>(entry_.data()))) {
    any = true;
    if (got->to - got->from != 1) is_broken_.store(true);
    const bool begins = !got->null && log_.apply(entry_);
    // If a round begins, the round before is final.
    if (const round_no last = log_.begun() - (log_.is_final() ? 0 : 1); exposed_ < last) expose();
    if (begins) begin_round();
    applied_.store(got->to);
  }
  return any;
}

void group_session::begin_round() {
  const round_no round = log_.begun();
  members_ = log_.members();
  is_flush_ = log_.is_flush();
  if (is_flush_ && log_.find_uneven() != k_no_rank) is_uneven_.store(true);
  while (given_ < log_.taken_of(group_)) {
    const staged_offer& one = slot_of(++given_);
    const source_part whole{one.data.data(), how_.count};
    if (one.weight != 0) rounds_->partial->fragments.front().offers->offer(std::span(&whole, 1), one.call, one.weight);
  }
  begun_.store(round);
  rounds_->partial->stats->calls.note(round, trace_buffer::now_ns());
  call_for(*rounds_, round);
  engine_.post(*rounds_);
}

bool group_session::end_round() {
  if (ended_ == log_.begun() || rounds_->finished.load() < log_.begun()) return false;
  result_ = rounds_->partial->fragments.front().results->borrow().value_or(delivery::loan{});
  ended_ = log_.begun();
  return true;
}

// Adds the result of the last round to the open account. The round has ended here, because this rank has marked its
// end.
void group_session::expose() {
  exposed_ = ended_;
  const std::uint64_t open = closed_.load();
  account& into = account_at(open);
  delivered what = result_.what;
  what.groups = members_;
  add(into, what, result_.data);
  if ((members_ >> group_ & 1) == 0 && !is_flush_) return;
  into.tickets = given_;
  account_at(open + 1).what = {};
  closed_.store(open + 1);
  if (is_flush_) flushed_.fetch_add(1);
}

// Contributes what is new to the log. The call is for the first entry that has not captured this rank's contribution.
// A call for an entry that has captured would not start the next entry, and no rank might start it.
bool group_session::contribute() {
  const std::uint64_t flushes = flushes_.load();  // must be read before staged_: a flush follows its rank's offers
  const std::uint64_t staged = staged_.load();
  if (staged == noted_offers_ && ended_ == noted_ends_ && flushes == noted_flushes_) return false;
  std::ranges::fill(news_, 0);
  news_[log_.offers_at(self_)] = staged - std::exchange(noted_offers_, staged);
  news_[log_.ends_at(self_)] = ended_ - std::exchange(noted_ends_, ended_);
  news_[log_.flushes_at(self_)] = flushes - std::exchange(noted_flushes_, flushes);
  const round_no next = control_->partial->gated.load() + 1;
  control_->partial->fragments.front().offers->offer(reinterpret_cast<const std::byte*>(news_.data()), next);
  if (control_->called.load() < next) call_for(*control_, next);
  engine_.post(*control_);
  return true;
}

// --- diagnosis -------------------------------------------------------------------------------------------------------

std::string group_session::describe_wait(rank* waits_for) const {
  const auto state = log_.state();
  const group_shape shape = log_.shape();
  // The log may not contain the last offers of this rank yet.
  const auto offers_of = [&](rank r) { return r == self_ ? staged_.load() : state[log_.offers_at(r)]; };
  const auto fewest_of = [&](rank group) {
    rank least = group * shape.shards;
    for (rank s = 1; s < shape.shards; ++s)
      if (offers_of(group * shape.shards + s) < offers_of(least)) least = group * shape.shards + s;
    return least;
  };
  const auto name_of_rank = [&](rank r) {
    return "rank " + std::to_string(r) + " (shard " + std::to_string(r % shape.shards) + " of group " +
           std::to_string(r / shape.shards) + ")";
  };
  for (rank r = 0; r < shape.ranks(); ++r)
    if (state[log_.ends_at(r)] < log_.begun()) {
      *waits_for = r;
      return "round " + std::to_string(log_.begun()) + " has not ended on " + name_of_rank(r);
    }
  if (log_.offered_by(group_) < staged_.load()) {
    *waits_for = fewest_of(group_);
    return "the own group waits for an offer of " + name_of_rank(*waits_for);
  }
  for (rank r = 0; r < shape.ranks(); ++r) {
    const bool flushes = state[log_.flushes_at(r)] > log_.flushes_begun();
    const bool has_offered = state[log_.offers_at(r)] > log_.taken_of(r / shape.shards);
    if (flushes || (has_offered && !is_flushing_.load())) continue;
    *waits_for = r;
    return name_of_rank(r) + (is_flushing_.load() ? " has not begun to flush" : " has made no further offer");
  }
  return "no rank is known to be late";
}

}  // namespace lsched
