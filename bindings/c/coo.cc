// Sums of users' sparse vectors, of the C interface: check, describe, commit; and what was wrong with a round.
#include <array>

#include "bindings/c/sized.h"
#include "bindings/c/words.h"
#include "bindings/c/world.h"
#include "collectives/sparse/coo_allreduce.h"
#include "collectives/sparse/steps/coo.h"
#include "ops/counted.h"

namespace lsched {
namespace {

failure refused(std::string why) { return {status::argument, std::move(why)}; }

result<coo_problem> read_problem(world place, const lsched_coo_desc& desc) {
  const auto data = read_shape(desc.count, desc.dtype);
  if (!data) return data.error();
  if (desc.regions < LSCHED_EQUAL_REGIONS || desc.regions > LSCHED_BALANCED_REGIONS)
    return refused("regions is not an lsched_regions");
  const coo_problem problem{.count = desc.count,
                            .room = desc.room,
                            .result_room = desc.out_room,
                            .place = place,
                            .type = data->type,
                            .is_balanced = desc.regions == LSCHED_BALANCED_REGIONS,
                            .has_dense = desc.dense != nullptr};
  if (auto why = validate(problem)) return std::move(*why);
  return problem;
}

/// The memory of the user, as the schedule's inputs and outputs.
struct user_memory {
  std::array<const void*, 3> inputs;
  std::array<void*, 4> outputs;  ///< the last one perhaps null
};

user_memory memory_of(const lsched_coo_desc& desc) {
  return {{desc.indices, desc.values, desc.item_count},
          {desc.out_indices, desc.out_values, desc.out_count, desc.dense}};
}

/// All that ranks have to agree about, in words.
std::string agreement_of(const coo_problem& it) {
  return "coo_allreduce " + std::string(name_of(it.type)) + " count " + std::to_string(it.count) + " room " +
         std::to_string(it.room) + " out_room " + std::to_string(it.result_room) + (it.is_balanced ? " balanced" : "");
}

struct described {
  commit_request request;
  std::shared_ptr<coo_functions> steps{};
};

described describe(world place, const lsched_coo_desc& desc) {
  const std::string nothing = "a coo allreduce with bad arguments";
  const auto problem = read_problem(place, desc);
  if (!problem) return {{nothing, problem.error()}};
  const user_memory memory = memory_of(desc);
  described all{bound(agreement_of(*problem), coo_schedule(*problem), memory.inputs.data(), memory.outputs.data())};
  if (!all.request.program) return all;
  if (has_overlaps(*problem, memory.inputs.data(), memory.outputs.data()))
    return {{nothing, refused("an output overlaps with other memory")}};
  try {
    all.steps = std::make_shared<coo_functions>(*problem);
  } catch (const std::bad_alloc&) {
    return {{nothing, failure{status::no_memory, "there is no memory for so much room"}}};
  }
  all.request.options.local = all.steps;
  return all;
}

lsched_status create(lsched_world* world, const lsched_coo_desc* desc, lsched_schedule** schedule,
                     lsched_diagnostic* diagnostic) {
  const auto known = read_struct(desc);
  described all = known ? describe(world->joined.place(), *known)
                        : described{{"a coo allreduce with bad arguments", known.error()}};
  const lsched_status answer = commit(world, std::move(all.request), schedule, diagnostic);
  if (answer == LSCHED_OK) (*schedule)->coo = std::move(all.steps);
  return answer;
}

}  // namespace

failure failure_of(const coo_status& verdict, const coo_problem& of) {
  const std::string who = "rank " + std::to_string(verdict.culprit);
  switch (verdict.flaw) {
    case coo_flaw::none: return {status::ok, {}};
    case coo_flaw::many_items:
      return {status::bounds, who + " brings more than " + counted(of.room, "item"), verdict.culprit};
    case coo_flaw::large_index:
      return {status::bounds, who + " has an index that is not below " + std::to_string(of.count), verdict.culprit};
    case coo_flaw::large_result: break;
  }
  return {status::bounds, "the result has " + counted(verdict.items, "item") + ", and there is room for " +
                              std::to_string(of.result_room)};
}

}  // namespace lsched

using namespace lsched;

extern "C" lsched_status lsched_coo_allreduce_create(lsched_world* world, const lsched_coo_desc* desc,
                                                     lsched_schedule** schedule, lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] {
    if (world == nullptr) return report(diagnostic, {status::argument, "world is null"});
    return create(world, desc, schedule, diagnostic);
  });
}
