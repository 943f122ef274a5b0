// The volume of Ok-Topk: the published bound on the data that a rank sends and receives, and the data of a round.
//
// Payload is counted in items, without items that a rank keeps: `split` are the lists for owners of regions, `balance`
// the pieces that make shares equal, and `gather` the dissemination of shares. An item is item_size / 4 words of 4
// bytes.
//
// Metadata is counted in words. It consists of allreduces by recursive doubling and of the allgather of tallies, 4
// words of each rank, by dissemination. There is an allreduce of position bins in rounds that update the boundaries, of
// drift counters, and of magnitude bins in each pass. Recursive doubling runs on 2^floor(log2 P) ranks. Each of the
// remaining ranks sends its numbers to a neighbour and receives the result.
#pragma once

#include <span>
#include <vector>

#include "collectives/sparse/steps/balance.h"

namespace lsched {

/// Returns the number of words of 4 bytes that items take.
constexpr double words_of(dtype type, std::uint64_t items) {
  return static_cast<double>(items) * static_cast<double>(item_size(type)) / 4;
}

/// Returns 3 k (P-1)/P rounded down, the published bound on the items that a rank sends, and receives, in a round.
std::uint64_t bound_items(const sparse_problem& problem);

/// The volume of one phase of a round.
struct phase_volume {
  std::uint64_t most_sent = 0;      ///< by any rank
  std::uint64_t most_received = 0;  ///< by any rank
  std::uint64_t total = 0;          ///< sent by all

  void add(item_traffic of_rank);
};

struct round_volume {
  round_no round = 0;
  bool looks = false;  ///< true: the round updates the boundaries
  bool is_balanced = false;
  std::uint64_t kept = 0;  ///< gathered items: the result, or more if the round updates reused thresholds
  phase_volume split{};    ///< items, as in the next three
  phase_volume balance{};
  phase_volume gather{};
  phase_volume payload{};   ///< the three phases of a rank together
  phase_volume metadata{};  ///< words
  rank over_bound = 0;      ///< number of ranks that sent or received more than bound_items
};

/// Counts the volume of each round.
class volume_meter {
 public:
  explicit volume_meter(const sparse_problem& problem);

  void begin(round_no round, bool looks);
  /// Adds the lists that `from` sends. `lengths` has P elements.
  void add_split(rank from, std::span<const std::uint64_t> lengths);
  void finish(const balance_plan& plan);

  /// Returns the volume of the last finished round.
  const round_volume& volume() const { return volume_; }
  /// Returns the payload of a rank in that round.
  item_traffic payload_of(rank r) const { return payload_[static_cast<std::size_t>(r)]; }

 private:
  item_traffic metadata_of(rank r) const;

  sparse_problem problem_;
  round_volume volume_{};
  std::vector<item_traffic> payload_;  ///< P
};

}  // namespace lsched
