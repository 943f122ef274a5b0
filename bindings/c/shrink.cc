// Changes of the ranks of a training run. Creates the world of the survivors after a death, and moves partial schedules
// into another world (lsched_carry, docs/reference/shrink.md).
#include "bindings/c/sized.h"
#include "bindings/c/world.h"

namespace lsched {
namespace {

/// Moves a partial schedule to the world `to`. If the arguments are invalid, this rank does not inform the other ranks.
/// Ranks with the same arguments find the same error. Ranks with valid arguments wait for this rank until their
/// timeout.
std::optional<failure> carry(lsched_schedule& schedule, lsched_world& to) {
  const std::string& label = schedule.instance->label;
  if (!schedule.is_partial())
    return failure{status::unsupported, label +
                                            " is an ordinary schedule, but lsched_carry moves only partial schedules: "
                                            "create the schedule in the other world"};
  if (schedule.extras.anew == nullptr)
    return failure{status::unsupported,
                   label +
                       " cannot be moved to another world, because lsched_carry moves only allreduce and adasum: "
                       "create the schedule in the other world"};
  const auto anew = [&]() -> result<commit_request> {
    auto made = schedule.extras.anew(to);
    if (!made) return made.error();
    made->request.proof = proof_of(to, *made);
    return std::move(made->request);
  };
  queued_commit made;
  auto why = to.joined.carry(*schedule.session, schedule.world->joined, anew, &made);
  if (made.commit == nullptr) return why;
  schedule.instance = made.instances.front();
  schedule.flights = flights(std::span(made.instances).first(1));
  schedule.commit = made.commit;
  schedule.world = &to;
  return why;
}

}  // namespace
}  // namespace lsched

using namespace lsched;

extern "C" {

lsched_status lsched_world_lost(const lsched_world* world, int32_t* ranks, int32_t* count) {
  if (world == nullptr || count == nullptr) return fail(status::argument, "world or count is null");
  if (*count < 0 || (*count > 0 && ranks == nullptr))
    return fail(status::argument, "*count is negative, or there is room for ranks but ranks is null");
  *count = world->joined.lost({ranks, static_cast<std::size_t>(*count)});
  return LSCHED_OK;
}

lsched_status lsched_shrink(lsched_world* world, uint64_t timeout_ns, lsched_world** survivors,
                            lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] {
    if (world == nullptr || survivors == nullptr)
      return report(diagnostic, {status::argument, "world or survivors is null"});
    *survivors = nullptr;
    auto left = world->joined.shrink(deadline_after(timeout_ns));
    if (!left) return report(diagnostic, with_details_of_rank(*world, left.error()));
    *survivors = new lsched_world(*world, std::move(*left));
    return LSCHED_OK;
  });
}

lsched_status lsched_carry(lsched_schedule* schedule, lsched_world* to, lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] {
    if (schedule == nullptr || to == nullptr) return report(diagnostic, {status::argument, "schedule or to is null"});
    const auto why = carry(*schedule, *to);
    return why ? report(diagnostic, *why) : LSCHED_OK;
  });
}

}  // extern "C"
