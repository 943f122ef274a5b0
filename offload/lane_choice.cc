#include "offload/lane_choice.h"

#include <algorithm>

#include "build_options.h"
#include "ops/number_text.h"

#if LSCHED_HAVE_TBB
#include "offload/tbb_lane.h"
#endif

namespace lsched {
namespace {

constexpr bool k_has_tbb = LSCHED_HAVE_TBB;

}  // namespace

std::optional<lane_choice> parse_lane(std::string_view text) {
  if (text == "auto") return k_lane_auto;
  if (text == "inline") return k_lane_inline;
  if (text == "tbb") return k_lane_tbb;
  if (!text.starts_with("tbb:")) return std::nullopt;
  const auto workers = parse_number<lane_choice>(text.substr(4));
  return workers && *workers >= 1 && *workers <= k_most_lane_workers ? workers : std::nullopt;
}

status validate_lane(lane_choice choice) {
  return (choice == k_lane_tbb || choice > 0) && !k_has_tbb ? status::unsupported : status::ok;
}

unsigned lane_workers(lane_choice choice, unsigned local_ranks, unsigned cores) {
  if (choice == k_lane_inline) return 0;
  if (choice > 0) return static_cast<unsigned>(choice);
  if (!k_has_tbb) return 0;
  const unsigned ranks = std::max(local_ranks, 1u);
  const unsigned free = std::min<unsigned>(cores > ranks ? (cores - ranks) / ranks : 0, k_most_lane_workers);
  return choice == k_lane_tbb ? std::max(free, 1u) : free;
}

std::string_view why_inline(lane_choice choice) {
  if (choice == k_lane_inline) return "as requested";
  return k_has_tbb ? "no core is free" : "oneTBB is not in this build";
}

std::unique_ptr<lane> make_lane(lane_choice choice, unsigned local_ranks, unsigned cores, doorbell& bell) {
#if LSCHED_HAVE_TBB
  if (const unsigned workers = lane_workers(choice, local_ranks, cores); workers != 0)
    return std::make_unique<tbb_lane>(bell, workers);
#else
  static_cast<void>(choice), static_cast<void>(local_ranks), static_cast<void>(cores), static_cast<void>(bell);
#endif
  return nullptr;
}

}  // namespace lsched
