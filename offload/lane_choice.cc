#include "offload/lane_choice.h"

#include <algorithm>
#include <charconv>

#if LSCHED_HAVE_TBB
#include "offload/tbb_lane.h"
#endif

namespace lsched {
namespace {

constexpr bool k_has_tbb = LSCHED_HAVE_TBB;

}  // namespace

std::optional<lane_choice> parse_lane(std::string_view text) {
  if (text == "auto") return lane_choice{};
  if (text == "inline") return lane_choice{lane_mode::inlined, 0};
  if (text == "tbb") return lane_choice{lane_mode::tbb, 0};
  if (text.starts_with("tbb:")) {
    unsigned workers = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + 4, end, workers);
    if (error == std::errc() && stop == end && workers >= 1 && workers <= k_most_lane_workers)
      return lane_choice{lane_mode::tbb, workers};
  }
  return std::nullopt;
}

status validate(const lane_choice& choice) {
  return choice.mode == lane_mode::tbb && !k_has_tbb ? status::unsupported : status::ok;
}

unsigned lane_workers(const lane_choice& choice, unsigned local_ranks, unsigned cores) {
  if (choice.mode == lane_mode::inlined) return 0;
  if (choice.workers != 0) return choice.workers;
  if (!k_has_tbb) return 0;
  const unsigned ranks = std::max(local_ranks, 1u);
  const unsigned free = std::min(cores > ranks ? (cores - ranks) / ranks : 0, k_most_lane_workers);
  return choice.mode == lane_mode::tbb ? std::max(free, 1u) : free;
}

std::string_view why_inline(const lane_choice& choice) {
  if (choice.mode == lane_mode::inlined) return "as asked for";
  return k_has_tbb ? "no core is free" : "oneTBB is not in this build";
}

std::unique_ptr<lane> make_lane(const lane_choice& choice, unsigned local_ranks, unsigned cores, doorbell& bell) {
#if LSCHED_HAVE_TBB
  if (const unsigned workers = lane_workers(choice, local_ranks, cores); workers != 0)
    return std::make_unique<tbb_lane>(bell, workers);
#else
  static_cast<void>(choice), static_cast<void>(local_ranks), static_cast<void>(cores), static_cast<void>(bell);
#endif
  return nullptr;
}

}  // namespace lsched
