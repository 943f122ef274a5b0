// How instances end before their time: they fail, are cancelled, or lose a rank.
#include <algorithm>
#include <utility>

#include "libsched/engine/engine.h"

namespace lsched {

instance* engine::instance_of(std::uint32_t id) const {
  const auto found =
      std::ranges::find_if(instances_, [id](const auto& inst) { return inst != nullptr && inst->id == id; });
  return found == instances_.end() ? nullptr : found->get();
}

// A loss explains what is given up because of it.
void engine::take_bad_news() {
  for (rank lost; (lost = net_.take_loss()) != k_no_rank;) lose(lost);
  while (const auto news = net_.take_cancellation()) {
    for (message_sink* const sink : sinks_)
      if (sink != nullptr && sink->owns(news->instance)) sink->leave(sink->members().rank_of(news->by), news->last);
    instance* const given_up = instance_of(news->instance);
    if (given_up == nullptr || given_up->phase == phase::closed) continue;
    if (!news->is_departure) given_up->is_given_up = true;
    fail(*given_up, news->is_departure ? status::peer : status::cancelled, given_up->members->rank_of(news->by));
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
    if (device_ != nullptr) inst.device_words += device_->failure_words();
    give_up(inst);  // of which no other rank can hear otherwise
  }
  if (inst.jobs == 0) publish_failure(inst);
}

void engine::leave_to_device(instance& inst) {
  if (inst.phase != phase::failed || inst.jobs == 0 || inst.most_device_jobs == 0) return;
  if (!std::exchange(inst.has_left_jobs, true)) publish_failure(inst);
}

// The last job of one that has failed has ended.
void engine::end_of_jobs(instance& inst) {
  if (!inst.has_left_jobs) return publish_failure(inst);
  if (inst.is_orphan && inst.has_settled) (void)remove(inst);
}

// Whoever sees the verdict may use the outputs: nothing is written any more.
void engine::publish_failure(instance& inst) {
  if (inst.is_linked) net_.abandon(inst.id);
  inst.verdict.store(inst.failed_with);
  if (inst.gate != nullptr) inst.gate->release(inst.called.load());
  published_ = true;
}

void engine::give_up(instance& inst) {
  if (!std::exchange(inst.is_given_up, true)) net_.cancel(inst.id, net_.place().self);
}

void engine::cancel(instance& inst) {
  if (inst.phase == phase::closed) return;
  give_up(inst);
  step();
}

// Whatever the instance has failed of: who has not read this rank's memory yet must not do it any more.
status engine::check_readers(instance& inst, rank* reader) {
  *reader = k_no_rank;
  if (inst.has_settled && !inst.is_linked) return status::ok;
  if (inst.phase == phase::failed) give_up(inst);
  if (inst.jobs != 0) return inst.has_left_jobs ? status::device : status::pending;
  const status answer = net_.check_readers(inst.id, reader);
  *reader = inst.members->rank_of(*reader);
  return answer;
}

void engine::fail_all(status why, rank culprit) {
  for (auto& inst : instances_)
    if (inst != nullptr && inst->phase != phase::closed) fail(*inst, why, inst->members->rank_of(culprit));
  for (message_sink* const sink : sinks_)
    if (sink != nullptr) sink->fail(why, culprit);
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
  for (rank others = 0; (home = net_.lost_after(others)) != k_no_rank; ++others)
    if (const rank member = world.rank_of(home); member != k_no_rank) return member;
  for (const rank known : lost_)
    if (const rank member = world.rank_of(known); member != k_no_rank) return member;
  return k_no_rank;
}

rank engine::culprit_of_loss(const membership& world, rank missed) const {
  const rank first = first_lost_of(world);
  return first == k_no_rank ? missed : first;
}

// Tasks first: of a commit that stands already, one that has not seen it yet finds out.
void engine::lose(rank home) {
  if (std::ranges::find(lost_, home) == lost_.end()) lost_.push_back(home);
  for (std::size_t i = 0; i < tasks_.size(); ++i) tasks_[i]->lose(home);  // which may step, and tasks end
  for (auto& inst : instances_) {
    if (inst == nullptr || inst->phase == phase::closed) continue;
    if (const rank member = inst->members->rank_of(home); member != k_no_rank) fail(*inst, status::peer, member);
  }
  for (message_sink* const sink : sinks_)
    if (sink != nullptr && sink->members().rank_of(home) != k_no_rank) sink->lose(sink->members().rank_of(home));
  if (device_ != nullptr) device_->forget_gone();
}

}  // namespace lsched
