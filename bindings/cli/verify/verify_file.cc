#include "bindings/cli/verify/verify_file.h"

#include "bindings/cli/common/errors.h"
#include "bindings/cli/common/words.h"
#include "bindings/cli/common/world_file.h"
#include "collectives/promise.h"
#include "libsched/schedule/schedule_file.h"
#include "ops/counted.h"

namespace lsched::cli {
namespace {

/// The collective that the name speaks of, if not in the way that says which: the longest, so that a
/// "partial_allreduce_2" is no allreduce.
std::string collective_in(const std::string& name) {
  std::string longest;
  for (const std::string& known : collective_names())
    if (known.size() > longest.size() && name.find(known) != std::string::npos) longest = known;
  return longest;
}

std::string words_for(const world_promise& promise, const std::string& name) {
  if (promise.of != nullptr)
    return "promised as " + std::string(promise.of->name) +
           (promise.by == nullptr ? "" : "/" + std::string(promise.by->name));
  const std::string meant = collective_in(name);
  const collective* of = find_collective(meant);
  if (of != nullptr && of->adapts)
    return "nothing promised of its outputs (a file does not say which tensors there are; `lsched verify " + meant +
           "` proves what the library runs)";
  if (of != nullptr && of->has_owners)
    return "nothing promised of its outputs (a file does not say which ranks share a node; `lsched verify " + meant +
           "` proves what the library runs)";
  return "nothing promised of its outputs" +
         (meant.empty() ? "" : " (if it is meant to be " + meant + ": --promise " + meant + ")");
}

}  // namespace

world_file read_world(const std::string& path, const std::string& promised) {
  auto world = read_world_file(path);
  auto promise = require(promise_for(world, promised));
  const auto size = world.size();
  std::string title = escaped(world.front()->name());
  title += ", " + counted(size, "rank");
  title += ", " + words_for(promise, world.front()->name());
  return {.world = std::move(world),
          .promise = std::move(promise.what),
          .in_place = std::move(promise.in_place),
          .title = std::move(title),
          .is_promised = promise.of != nullptr};
}

}  // namespace lsched::cli
