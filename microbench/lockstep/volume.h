// The volume of Ok-Topk: the published bound on the data that a rank sends and receives, and the data of a round.
//
// Payload is counted in items. Items that a rank keeps are not counted. There are three phases. `split` sends lists to
// the owners of regions. `balance` moves items between owners until their shares have equal lengths. `gather`
// disseminates the shares. An item has item_size / 4 words of 4 bytes.
#pragma once

#include <span>
#include <vector>

#include "collectives/sparse/steps/balance.h"

namespace lsched {

/// Returns the number of words of 4 bytes in `items` items.
constexpr double words_of(dtype type, std::uint64_t items) {
  return static_cast<double>(items) * static_cast<double>(item_size(type)) / 4;
}

/// Returns 3 k (P-1)/P rounded down. This is the published bound on the items that a rank sends in a round, and also on
/// the items that it receives.
std::uint64_t bound_items(const sparse_problem& problem);

/// The volume of one phase of a round in items.
struct phase_volume {
  std::uint64_t most_sent = 0;      ///< maximum over ranks
  std::uint64_t most_received = 0;  ///< maximum over ranks
  std::uint64_t total = 0;          ///< number of items that all ranks together have sent

  void add(item_traffic of_rank);
};

struct round_volume {
  bool looks = false;      ///< true: the round updates the boundaries
  std::uint64_t kept = 0;  ///< number of gathered items: the result, or more if the round updates reused thresholds
  phase_volume split{};
  phase_volume balance{};
  phase_volume gather{};
  phase_volume payload{};  ///< sum of split, balance and gather for each rank
  rank over_bound = 0;     ///< number of ranks that sent or received more than bound_items
};

/// Counts the volume of each round.
class volume_meter {
 public:
  explicit volume_meter(const sparse_problem& problem);

  /// Begins a round. `looks` is true if the round updates the boundaries.
  void begin(bool looks);
  /// Adds the lists that `from` sends. `lengths` has P elements.
  void add_split(rank from, std::span<const std::uint64_t> lengths);
  void finish(const balance_plan& plan);

  /// Returns the volume of the last finished round.
  const round_volume& volume() const { return volume_; }
  /// Returns the payload of a rank in the last finished round.
  item_traffic payload_of(rank r) const { return payload_[static_cast<std::size_t>(r)]; }

 private:
  sparse_problem problem_;
  round_volume volume_{};
  std::vector<item_traffic> payload_;  ///< P elements
};

}  // namespace lsched
