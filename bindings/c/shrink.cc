// Recovery after the death of a rank: creates the world of the survivors, and carries partial schedules into that world
// (docs/reference/shrink.md).
#include <algorithm>
#include <array>
#include <vector>

#include "bindings/c/sized.h"
#include "bindings/c/words.h"
#include "bindings/c/world.h"

namespace lsched {
namespace {

/// Checks the arguments locally: the other ranks are not informed of an error. Ranks with the same arguments find the
/// same error. Ranks with valid arguments wait for this rank until their timeout.
std::optional<failure> validate_carry(const lsched_schedule& schedule, const lsched_world& to) {
  const std::string& label = schedule.instance->label;
  if (!schedule.is_partial())
    return failure{status::unsupported, label + " is an ordinary schedule: create it anew in the other world"};
  if (schedule.extras.anew == nullptr)
    return failure{status::unsupported, label + " cannot be carried: only allreduce and adasum can"};
  if (&to.process != &schedule.world->process || &to == schedule.world)
    return argument("the other world and the schedule's world are not two worlds of this process");
  for (const rank home : to.joined.members().homes())
    if (schedule.world->joined.members().rank_of(home) == k_no_rank)
      return argument("the other world has a rank that is not in the schedule's world");
  return std::nullopt;
}

/// Makes the schedule fail with PEER, unless it has failed before. The failure names the first member that is not in
/// the other world. Returns the reason if the schedule cannot be carried. The caller must commit that reason, so that
/// the other ranks fail too.
std::optional<failure> fail_of_missing(const lsched_schedule& schedule, const lsched_world& to) {
  const membership& members = schedule.world->joined.members();
  const auto is_missing = [&](rank home) { return to.joined.members().rank_of(home) == k_no_rank; };
  const auto missing = std::ranges::find_if(members.homes(), is_missing);
  const auto all = schedule.session->all().in_order();
  const auto has_ended = [](const instance* one) { return one->finished.load() == k_last_round; };
  if (std::ranges::any_of(all, has_ended))
    return failure{status::state, schedule.instance->label + " has ended: all ranks have left it"};
  if (missing != members.homes().end())
    schedule.world->process.driver().with_engine([&] {
      for (instance* const one : all) schedule.world->process.engine().lose(*one, members.rank_of(*missing));
    });
  else if (std::ranges::any_of(all, [](const instance* one) { return one->verdict.load() == status::ok; }))
    return failure{status::state, schedule.instance->label + " did not fail: use it in its present world"};
  return std::nullopt;
}

/// Waits until no other rank reads this rank's memory, at most for the commit timeout.
std::optional<failure> await_readers(lsched_world& world, std::span<instance** const> all) {
  const auto deadline = driver::clock::now() + world.commit_timeout;
  auto why = world.joined.cancel(all);
  while (why && why->code == status::busy && driver::clock::now() < deadline) why = world.joined.cancel(all);
  return why;
}

/// Commits the schedule's new instances in the other world. If the commit succeeds, the schedule owns the new
/// instances.
std::optional<failure> commit_anew(lsched_schedule& schedule, lsched_world& to, commit_request& request) {
  const session_instances before = schedule.session->all();
  request.options.predecessor = before.rounds;
  std::array<instance*, 2> companions{before.agreement, before.mean};
  for (std::size_t i = 0; i < request.companions.size(); ++i) request.companions[i].predecessor = companions[i];
  queued_commit made = to.joined.queue(request);
  if (auto why = to.joined.await(made)) return why;
  schedule.session->go_on_with(session_instances::of(made.instances));
  schedule.instance = schedule.flights.front().runs = made.instances.front();
  schedule.commit = made.commit;
  return std::nullopt;
}

std::optional<failure> carry(lsched_schedule& schedule, lsched_world& to) {
  lsched_world& from = *schedule.world;
  std::vector<instance*> before = schedule.session->all().in_order();
  std::vector<instance**> gone;
  for (instance*& one : before) gone.push_back(&one);
  std::optional<failure> unable = fail_of_missing(schedule, to);
  if (!unable) unable = await_readers(from, gone);
  auto made = unable ? result<creation>(*unable) : schedule.extras.anew(to);
  if (!made) unable = made.error();
  if (auto why = to.joined.hand_over(before, unable)) return why;
  made->request.proof = proof_of(to, *made);
  if (auto why = commit_anew(schedule, to, made->request)) return why;
  schedule.world = &to;
  return from.joined.remove(gone);
}

}  // namespace
}  // namespace lsched

using namespace lsched;

extern "C" {

lsched_status lsched_world_lost(const lsched_world* world, int32_t* ranks, int32_t* count) {
  if (world == nullptr || count == nullptr) return fail(status::argument, "world or count is null");
  if (*count < 0 || (*count > 0 && ranks == nullptr))
    return fail(status::argument, "*count is negative, or there is room for ranks but ranks is null");
  const endpoint& net = world->process.net();
  const std::int32_t room = *count;
  *count = 0;
  rank home = k_no_rank;
  for (rank others = 0; (home = net.liveness().lost_after(others)) != k_no_rank; ++others) {
    const rank member = world->joined.members().rank_of(home);
    if (member == k_no_rank) continue;
    if (*count < room) ranks[*count] = member;
    ++*count;
  }
  return LSCHED_OK;
}

lsched_status lsched_shrink(lsched_world* world, uint64_t timeout_ns, lsched_world** survivors,
                            lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] {
    if (world == nullptr || survivors == nullptr)
      return report(diagnostic, {status::argument, "world or survivors is null"});
    *survivors = nullptr;
    auto left = world->joined.shrink(deadline_after(timeout_ns));
    if (!left) return report(diagnostic, in_both_numberings(*world, left.error()));
    *survivors = new lsched_world(*world, std::move(*left));
    return LSCHED_OK;
  });
}

lsched_status lsched_carry(lsched_schedule* schedule, lsched_world* survivors, lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] {
    if (schedule == nullptr || survivors == nullptr)
      return report(diagnostic, {status::argument, "schedule or survivors is null"});
    auto why = validate_carry(*schedule, *survivors);
    if (!why) why = carry(*schedule, *survivors);
    return why ? report(diagnostic, *why) : LSCHED_OK;
  });
}

}  // extern "C"
