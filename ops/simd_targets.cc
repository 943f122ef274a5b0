#include "ops/simd_targets.h"

#include <algorithm>
#include <vector>

#include "ops/target.h"

#include "hwy/highway.h"

namespace lsched {
namespace {

/// Returns the targets that this build contains and this CPU supports, from best to worst. The list is created at the
/// first call, before force_simd_target restricts the targets.
const std::vector<std::int64_t>& runnable_targets() {
  static const std::vector<std::int64_t> all = hwy::SupportedAndGeneratedTargets();
  return all;
}

}  // namespace

std::string_view simd_target() { return hwy::TargetName(hwy::SupportedAndGeneratedTargets().front()); }

std::string_view simd_target_at(std::size_t place) {
  return place < runnable_targets().size() ? hwy::TargetName(runnable_targets()[place]) : std::string_view();
}

bool force_simd_target(std::string_view name) {
  const auto& all = runnable_targets();
  const auto found = std::ranges::find(all, name, [](std::int64_t target) { return hwy::TargetName(target); });
  if (!name.empty() && found == all.end()) return false;
  hwy::SetSupportedTargetsForTest(name.empty() ? 0 : *found);
  return true;
}

}  // namespace lsched
