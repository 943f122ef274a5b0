#include "tests/support/shrink_audit.h"

#include <array>

namespace lsched::testing {
namespace {

/// Returns the hash of the totals that the survivors have after a round, or 0 if the totals are unknown. Adds a
/// complaint if the survivors have different totals.
std::uint64_t agreed_sum(const shrink_trial& what, const shrink_board& board, std::size_t schedule, std::size_t round,
                         std::string& complaints) {
  std::uint64_t agreed = 0;
  for (rank r = 0; r < what.ranks; ++r) {
    const std::uint64_t sum = board.accounts[r][schedule].sums[round].load();
    if (!board.is_survivor(r) || sum == 0) continue;
    if (agreed == 0) agreed = sum;
    if (sum != agreed)
      complaints += "schedule " + std::to_string(schedule) + ": the totals of rank " + std::to_string(r) +
                    " differ after round " + std::to_string(round) + "; ";
  }
  return agreed;
}

}  // namespace

std::string audit_totals(const shrink_trial& what, const shrink_board& board, std::size_t schedule) {
  std::string complaints;
  rank first = k_no_rank;
  for (rank r = 0; r < what.ranks; ++r) {
    if (!board.is_survivor(r)) continue;
    if (first == k_no_rank) first = r;
    for (rank of = 0; of < what.ranks; ++of) {
      const bool is_alive = board.is_survivor(of);
      const auto& total = board.accounts[r][schedule].totals[of];
      const auto& reference = board.accounts[first][schedule].totals[of];
      const std::int64_t got = total.number.load(), offered = board.accounts[of][schedule].offered.load();
      const bool fits = is_alive ? got == offered : got >= 0 && got <= offered + 1;
      const bool is_prefix = total.ordinals.load() == got * (got + 1) / 2;
      const bool is_equal = got == reference.number.load() && total.ordinals.load() == reference.ordinals.load();
      if (fits && is_prefix && is_equal) continue;
      complaints += "schedule " + std::to_string(schedule) + ": rank " + std::to_string(r) + " has " +
                    std::to_string(got) + " of " + std::to_string(offered) + " contributions of rank " +
                    std::to_string(of) + (is_alive ? "" : ", which is lost") +
                    (is_prefix ? "" : ", and these are not the first contributions") + "; ";
    }
  }
  if (first == k_no_rank) complaints += "no rank has finished the training; ";
  return complaints;
}

std::string audit_rounds(const shrink_trial& what, const shrink_board& board, std::size_t schedule, int* repeated) {
  std::string complaints;
  std::array<bool, shrink_board::k_most_ranks> differs{};
  for (std::size_t round = 1; round < shrink_board::k_most_rounds; ++round) {
    const std::uint64_t agreed = agreed_sum(what, board, schedule, round, complaints);
    for (rank r = 0; r < what.ranks; ++r) {
      const std::uint64_t sum = board.accounts[r][schedule].sums[round].load();
      if (board.is_survivor(r) || sum == 0) continue;
      bool& has_differed = differs[static_cast<std::size_t>(r)];
      if (has_differed)
        complaints += "schedule " + std::to_string(schedule) + ": rank " + std::to_string(r) +
                      ", which is lost, had continued after a round with other totals; ";
      has_differed = agreed != 0 && sum != agreed;
      *repeated += has_differed ? 1 : 0;
    }
  }
  return complaints;
}

}  // namespace lsched::testing
