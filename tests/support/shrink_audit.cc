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

struct first_offers {
  std::int64_t number, ordinals;
};

/// Returns the number of first contributions of a rank whose weights have the sum `weights`, and the sum of weight *
/// ordinal of these contributions. If there is no such number, the second sum is -1.
first_offers first_contributions(const shrink_trial& what, rank of, std::size_t schedule, std::int64_t weights) {
  first_offers all{0, 0};
  std::int64_t sum = 0;
  while (sum < weights) {
    const std::int64_t weight = weight_of(what, of, schedule, ++all.number);
    sum += weight;
    all.ordinals += weight * all.number;
  }
  return {all.number, sum == weights ? all.ordinals : -1};
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
      const std::int64_t got = total.weights.load(), offered = board.accounts[of][schedule].offered.load();
      const auto [number, ordinals] = first_contributions(what, of, schedule, got);
      const bool fits = is_alive ? number == offered : number <= offered + 1;
      const bool is_prefix = total.ordinals.load() == ordinals;
      const bool is_equal = got == reference.weights.load() && total.ordinals.load() == reference.ordinals.load();
      if (fits && is_prefix && is_equal) continue;
      complaints += "schedule " + std::to_string(schedule) + ": rank " + std::to_string(r) + " has the weights " +
                    std::to_string(got) + " from " + std::to_string(offered) + " contributions of rank " +
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
