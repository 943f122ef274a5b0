// How much Ok-Topk makes a rank send and receive: what was promised, and what a round came to.
//
// Payload is counted in items, what a rank keeps to itself not among them: `split` are the lists to regions' owners,
// `balance` the pieces by which shares become equal, `gather` the dissemination of shares. An item is item_size / 4
// words of 4 bytes. Metadata is counted in words: the allreduce of position bins in rounds that look at the boundaries,
// that of drift's counters, and one of magnitude bins in each pass, if there are any, all by recursive doubling (of
// 2^floor(log2 P) ranks; the others hand theirs to a neighbour and are told the outcome), and the allgather of tallies,
// 4 words of each rank, by dissemination.
#pragma once

#include <span>
#include <vector>

#include "collectives/sparse/steps/balance.h"

namespace lsched {

/// Items / 4 bytes.
constexpr double words_of(dtype type, std::uint64_t items) {
  return static_cast<double>(items) * static_cast<double>(item_size(type)) / 4;
}

/// 3 k (P-1)/P, the published bound on what a rank sends, and receives, in a round: in items, rounded down.
std::uint64_t bound_items(const sparse_problem& problem);

/// Of one phase of a round.
struct phase_volume {
  std::uint64_t most_sent = 0;      ///< by any rank
  std::uint64_t most_received = 0;  ///< by any rank
  std::uint64_t total = 0;          ///< sent by all

  void add(item_traffic of_rank);
};

struct round_volume {
  round_no round = 0;
  bool looks = false;  ///< at the boundaries
  bool is_balanced = false;
  std::uint64_t kept = 0;  ///< items that are gathered: the result, or more where reused thresholds are looked for
  phase_volume split{};    ///< items, as the next three are
  phase_volume balance{};
  phase_volume gather{};
  phase_volume payload{};   ///< a rank's three phases together
  phase_volume metadata{};  ///< words
  rank over_bound = 0;      ///< how many ranks sent or received more than bound_items
};

/// Counts one round after the other.
class volume_meter {
 public:
  explicit volume_meter(const sparse_problem& problem);

  void begin(round_no round, bool looks);
  /// lengths: P, of the lists that `from` sends.
  void add_split(rank from, std::span<const std::uint64_t> lengths);
  void finish(const balance_plan& plan);

  /// Of the last round that was finished.
  const round_volume& volume() const { return volume_; }
  /// A rank's payload in that round.
  item_traffic payload_of(rank r) const { return payload_[static_cast<std::size_t>(r)]; }

 private:
  item_traffic metadata_of(rank r) const;

  sparse_problem problem_;
  round_volume volume_{};
  std::vector<item_traffic> payload_;  ///< P
};

}  // namespace lsched
