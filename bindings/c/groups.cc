// Partial schedules with replica groups (libsched/session/group_session.h): the arguments and the creation.
#include "bindings/c/words.h"
#include "bindings/c/world.h"
#include "collectives/requests/agreement.h"
#include "ops/counted.h"

namespace lsched {
namespace {

constexpr std::uint32_t k_most_staged = 16, k_default_staged = 2;

/// Returns ARGUMENT if rank g of the shard world is not the rank with the same shard in group g.
std::optional<failure> validate_place(const lsched_world& of_shard, const lsched_world& all, rank shards) {
  const auto [group, groups] = of_shard.place();
  const auto [self, size] = all.place();
  if (std::int64_t{groups} * shards != size)
    return argument("groups.shards is " + std::to_string(shards) + ", but the world has " + counted(groups, "rank") +
                    " and groups.all has " + counted(size, "rank") +
                    ": the ranks of groups.all must be the ranks of this world times shards");
  for (rank g = 0; g < groups; ++g)
    if (of_shard.joined.members().home_of(g) != all.joined.members().home_of(g * shards + self % shards))
      return argument("rank " + std::to_string(g) + " of this world is not rank " +
                      std::to_string(g * shards + self % shards) +
                      " of groups.all: split groups.all with the colour rank % shards");
  return std::nullopt;
}

}  // namespace

result<group_choice> read_groups(const lsched_world& of_shard, const lsched_partial_desc& desc,
                                 const activation& starts) {
  const auto known = read_struct(desc.groups);
  if (!known) return known.error();
  if (known->all == nullptr) return argument("groups.all is null: pass the world of all ranks");
  if (known->shards < 1 || known->staged > k_most_staged)
    return argument("groups.shards is " + std::to_string(known->shards) + " and groups.staged is " +
                    std::to_string(known->staged) + ": shards must be at least 1, and staged from 0 to 16");
  if (&known->all->process != &of_shard.process)
    return argument("groups.all and the world were opened separately: split groups.all with the colour rank % shards");
  if (auto why = validate_place(of_shard, *known->all, known->shards)) return std::move(*why);
  const rank groups = of_shard.place().size;
  if (auto why = validate(starts, groups)) return std::move(*why);
  if (groups > group_log::k_most_groups)
    return failure{status::unsupported, "there are " + counted(groups, "replica group") +
                                            ", but at most 64 are supported: use larger groups"};
  const auto unsupported = [](std::string_view what) {
    return failure{status::unsupported, "replica groups do not support " + std::string(what)};
  };
  if (desc.sparse != nullptr || (desc.collective != nullptr && std::string_view(desc.collective) != "allreduce"))
    return unsupported("this collective: set collective to allreduce, or leave groups null");
  if (starts.policy == activation_policy::deadline)
    return unsupported("deadline(T): use quorum(K) or another activation");
  if (desc.lag == LSCHED_HISTORY) return unsupported("LSCHED_HISTORY: use LSCHED_ACCUMULATE");
  if (desc.age != LSCHED_AGE_NONE) return unsupported("ages, which differ between shards: leave age 0");
  if (desc.fragments > 1) return unsupported("fragments: leave fragments 0, and create a schedule for each fragment");
  if (desc.averages_weights != 0)
    return unsupported("averages_weights: leave averages_weights 0, and use lsched_flush");
  return group_choice{known->all,
                      {{groups, known->shards},
                       starts,
                       desc.lag == LSCHED_LATEST ? lag_policy::latest : lag_policy::accumulate,
                       known->staged == 0 ? k_default_staged : known->staged}};
}

namespace {

/// Returns the request of the control schedule, or the failure of the rank's arguments, so that the commit fails on all
/// ranks.
creation creation_of_control(lsched_world& all, const result<creation>& made) {
  if (!made) return {{"refused arguments", made.error()}};
  const group_options& how = made->groups->how;
  const shape data{.count = group_log::width_of(how.shape), .type = dtype::u64, .what = kernel::sum};
  const auto program = all.schedules_made.get("partial_allreduce", "auto", data, {.policy = activation_policy::solo});
  std::string agreement = "control of " + counted(how.shape.groups, "group") + " of " +
                          counted(how.shape.shards, "shard") + " " + words_for(how.starts) + " seed " +
                          std::to_string(how.starts.seed) + " lag " + std::to_string(static_cast<int>(how.lag));
  if (!program) return {{std::move(agreement), program.error()}};
  return {{.agreement = std::move(agreement),
           .program = program->program,
           .options = {.lag = group_session::k_control_lag}}};
}

/// Removes instances after the creation has failed.
void discard(lsched_world& of, queued_commit& made) {
  std::vector<instance**> gone;
  for (instance*& one : made.instances) gone.push_back(&one);
  (void)of.joined.cancel(gone);
  (void)of.joined.remove(gone);
}

/// Waits until all ranks of the world have called this function. If any rank passes a failure, returns the failure on
/// all ranks.
std::optional<failure> meet(lsched_world& all, const std::optional<failure>& mine) {
  auto met = all.joined.queue_mailbox(mine);
  auto why = all.joined.await(*met);
  (void)all.joined.remove(met);
  return why;
}

}  // namespace

// The ranks meet at the end. Otherwise a rank could make rounds of the control schedule before another rank has its
// group_session, and the log of that rank would have gaps.
lsched_status commit_groups(lsched_world& of_shard, lsched_world& all, result<creation> made,
                            lsched_schedule** schedule, lsched_diagnostic* diagnostic) {
  if (schedule == nullptr) made = argument("schedule is null");
  auto handle = std::make_unique<lsched_schedule>();  // before the commits, so that all ranks fail if memory is short
  creation of_control = creation_of_control(all, made);
  of_control.request.proof = proof_of(all, of_control);
  auto control = all.joined.queue(of_control.request);
  if (const auto why = all.joined.await(control))
    return report(diagnostic, with_details_of_rank(all, with_advice(*why)));
  made->request.proof = proof_of(of_shard, *made);
  auto data = of_shard.joined.queue(made->request);
  auto why = of_shard.joined.await(data);
  engine& runs = of_shard.process.engine();
  driver& drives = of_shard.process.driver();
  std::shared_ptr<group_session> groups;
  const bool has_data = !why;
  try {
    if (has_data) {
      groups =
          std::make_shared<group_session>(runs, *control.instances.front(), *data.instances.front(), made->groups->how);
      drives.with_engine([&] { runs.carry_on(*groups); });
    }
  } catch (const std::bad_alloc&) {
    groups.reset();
    why = failure{status::no_memory, "out of memory for the offers of replica groups"};
  }
  if (const auto of_any = meet(all, why)) {
    if (groups != nullptr) drives.with_engine([&] { runs.drop(*groups); });
    discard(all, control);
    if (has_data) discard(of_shard, data);
    return report(diagnostic, why ? with_details_of_rank(of_shard, with_advice(*why))
                                  : with_details_of_rank(all, with_advice(*of_any)));
  }
  fill(*handle, of_shard, data, *made);
  handle->all = &all;
  handle->session->use_groups(std::move(groups));
  *schedule = handle.release();
  return LSCHED_OK;
}

instance** control_of(lsched_schedule& schedule) { return schedule.session->groups()->removable_control(); }

}  // namespace lsched
