// Handles failures, cancellations and lost ranks. Each of these ends instances early.
#include <algorithm>
#include <utility>

#include "libsched/engine/engine.h"

namespace lsched {

instance* engine::instance_of(std::uint32_t id) const {
  const auto found =
      std::ranges::find_if(instances_, [id](const auto& inst) { return inst != nullptr && inst->id == id; });
  return found == instances_.end() ? nullptr : found->get();
}

// Handles losses first, because they may be the cause of cancellations.
void engine::take_bad_news() {
  for (rank lost; (lost = net_.take_loss()) != k_no_rank;) lose(lost);
  while (const auto news = net_.take_cancellation()) {
    const auto [who, why] = news->reason;
    for (message_sink* const sink : sinks_) {
      if (sink == nullptr || !sink->owns(news->instance)) continue;
      if (news->is_departure)
        sink->leave(sink->members().rank_of(who), news->last);
      else if (who != net_.place().self && !sink->fail(status::peer, who))  // a rank that cancels ends its messages
        closing_sinks_.push_back({sink, who});
    }
    instance* const ended = instance_of(news->instance);
    if (ended == nullptr || ended->phase == phase::closed) continue;
    if (why == status::cancelled) ended->is_given_up = true;
    fail(*ended, why, ended->members->rank_of(who));
  }
}

void engine::fail(instance& inst, status why, rank culprit) {
  if (inst.phase == phase::failed) return;
  inst.phase = phase::failed;
  outstanding_ -= inst.outstanding - inst.jobs;
  inst.outstanding = inst.jobs;
  inst.culprit.store(why == status::peer ? culprit_of_loss(*inst.members, culprit) : culprit);
  inst.failed_with = why;
  if (why == status::device && !inst.refusal) {
    if (device_ != nullptr && inst.device != nullptr) inst.device->failure_words += device_->failure_words();
    give_up(inst, reason_of(inst));  // notifies the other ranks, which cannot detect this failure
  }
  if (inst.jobs == 0) close(inst);
}

void engine::leave_to_device(instance& inst) {
  if (inst.phase != phase::failed || inst.jobs == 0 || !uses_device(inst)) return;
  if (!std::exchange(inst.device->has_left_jobs, true)) close(inst);
}

// Handles the end of the last job of a failed instance.
void engine::end_of_jobs(instance& inst) {
  if (!has_left_jobs(inst)) return close(inst);
  if (inst.is_orphan && inst.has_settled) (void)remove(inst);
}

// Returns the reason that the other ranks receive: the error of this rank, or CANCELLED if the instance has not failed
// yet or this rank's device has failed.
end_reason engine::reason_of(const instance& inst) const {
  const rank culprit = inst.culprit.load();
  if (inst.phase != phase::failed || inst.failed_with == status::device) return {net_.place().self};
  return {culprit == k_no_rank ? k_no_rank : inst.members->home_of(culprit), inst.failed_with};
}

// Ends the accesses to memory for a failed instance, and then publishes its error:
//   1. abandon           from now on, this rank writes no output and reads no payload in a peer's memory
//   2. close_to_readers  no peer begins to read this rank's memory
//   3. check_readers     in each call of step(), until no peer reads this rank's memory
//   4. publish_failure   the caller may reuse the buffers
// Action 1 never waits, so failed ranks do not wait for each other. Action 3 does not wait for dead readers. While a
// reader's process is stopped, waits for this instance end with TIMEOUT, and the caller must not reuse the buffers.
void engine::close(instance& inst) {
  if (inst.is_linked) {
    net_.abandon(inst.id);
    net_.close_to_readers(inst.id, reason_of(inst));
  }
  if (reader_of(inst) == k_no_rank)
    publish_failure(inst);
  else
    closing_.push_back(&inst);  // add() has reserved the capacity
}

// Returns a member that reads this rank's memory for the instance, or k_no_rank.
rank engine::reader_of(const instance& inst) const {
  rank reader = k_no_rank;
  const bool is_read = inst.is_linked && net_.check_readers(inst.id, &reader) != status::ok;
  return is_read && reader != k_no_rank ? inst.members->rank_of(reader) : k_no_rank;
}

bool engine::poll_readers() {
  const auto is_over = [this](instance* one) {
    if (reader_of(*one) != k_no_rank) return false;
    publish_failure(*one);
    return true;
  };
  const auto has_ended = [](const closing_sink& one) { return one.sink->fail(status::peer, one.culprit); };
  const auto ended = std::erase_if(closing_, is_over) + std::erase_if(closing_sinks_, has_ended);
  return ended != 0;
}

void engine::publish_failure(instance& inst) {
  inst.verdict.store(inst.failed_with);
  if (inst.has_gate.load()) inst.device->gate->release(inst.called.load());
  published_ = true;
}

void engine::give_up(instance& inst, const end_reason& why) {
  if (!std::exchange(inst.is_given_up, true)) net_.cancel(inst.id, why);
}

// Another rank may have cancelled the same instances before, and its cancellation may have arrived here for only some
// of them. The remaining instances must get the reason of that rank, because that rank was the first to cancel the
// schedule.
void engine::cancel(std::span<instance* const> all) {
  const auto failed = std::ranges::find(all, phase::failed, &instance::phase);
  const end_reason first = failed == all.end() ? end_reason{net_.place().self} : reason_of(**failed);
  for (instance* const one : all)
    if (one->phase != phase::closed) give_up(*one, one->phase == phase::failed ? reason_of(*one) : first);
  step();
}

void engine::cancel(instance& inst) {
  instance* const only = &inst;
  cancel(std::span(&only, 1));
}

void engine::abandon(instance& inst) {
  give_up(inst, reason_of(inst));
  fail(inst, status::cancelled, inst.members->place().self);
  (void)remove(inst);
}

// Gives up a failed instance before the check, so that no peer begins to read this rank's memory.
status engine::check_readers(instance& inst, rank* reader) {
  *reader = k_no_rank;
  if (inst.has_settled && !inst.is_linked) return status::ok;
  if (inst.phase == phase::failed) give_up(inst, reason_of(inst));
  if (inst.jobs != 0) return has_left_jobs(inst) ? status::device : status::pending;
  const status answer = net_.check_readers(inst.id, reader);
  *reader = inst.members->rank_of(*reader);
  return answer;
}

void engine::fail_all(status why, rank culprit) {
  for (auto& inst : instances_)
    if (inst != nullptr && inst->phase != phase::closed) fail(*inst, why, inst->members->rank_of(culprit));
  for (message_sink* const sink : sinks_)
    if (sink != nullptr) (void)sink->fail(why, culprit);  // the driver repeats the call of fail_all()
}

void engine::lose(const membership& of, rank member) {
  for (auto& inst : instances_)
    if (inst != nullptr && inst->members.get() == &of) lose(*inst, member);
  for (message_sink* const sink : sinks_)
    if (sink != nullptr && &sink->members() == &of) sink->lose(member);
}

void engine::lose(instance& inst, rank member) {
  if (inst.phase != phase::closed) fail(inst, status::peer, member);
}

rank engine::first_lost_of(const membership& world) const {
  rank home = k_no_rank;
  for (rank others = 0; (home = net_.liveness().lost_after(others)) != k_no_rank; ++others)
    if (const rank member = world.rank_of(home); member != k_no_rank) return member;
  for (const rank known : lost_)
    if (const rank member = world.rank_of(known); member != k_no_rank) return member;
  return k_no_rank;
}

rank engine::culprit_of_loss(const membership& world, rank missed) const {
  const rank first = first_lost_of(world);
  return first == k_no_rank ? missed : first;
}

// Notifies the tasks before the instances: if a commit has succeeded on other ranks, it must succeed on this rank, too,
// before the instances of the commit fail.
void engine::lose(rank home) {
  if (std::ranges::find(lost_, home) == lost_.end()) lost_.push_back(home);
  for (std::size_t i = 0; i < tasks_.size(); ++i) tasks_[i]->lose(home);  // lose() may remove tasks
  for (auto& inst : instances_) {
    if (inst == nullptr || inst->phase == phase::closed) continue;
    if (const rank member = inst->members->rank_of(home); member != k_no_rank) fail(*inst, status::peer, member);
  }
  for (message_sink* const sink : sinks_)
    if (sink != nullptr && sink->members().rank_of(home) != k_no_rank) sink->lose(sink->members().rank_of(home));
  if (device_ == nullptr) return;
  if (device_peers* const peers = device_->memory().peers()) peers->forget_gone();
}

}  // namespace lsched
