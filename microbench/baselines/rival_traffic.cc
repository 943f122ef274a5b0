#include "microbench/baselines/rival_traffic.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "collectives/sparse/steps/own_top_k.h"
#include "microbench/baselines/topk_dsa.h"

namespace lsched {
namespace {

std::uint64_t busiest(std::span<const rank_traffic> ranks) {
  std::uint64_t most = 0;
  for (const rank_traffic& it : ranks) most = std::max({most, it.sent_bytes, it.received_bytes});
  return most;
}

/// Lengths are u64; everybody receives those of all others.
void add_allgather_of_lengths(world_traffic& to) {
  const std::uint64_t bytes = (to.ranks.size() - 1) * sizeof(std::uint64_t);
  for (rank_traffic& it : to.ranks) it.sent_metadata_bytes += bytes, it.received_metadata_bytes += bytes;
}

}  // namespace

void add_allgather(std::span<const std::uint64_t> block_bytes, world_traffic& to) {
  const std::size_t size = block_bytes.size();
  std::vector<std::uint64_t> before(2 * size + 1);  // of blocks round the ring, twice
  for (std::size_t i = 0; i < 2 * size; ++i) before[i + 1] = before[i] + block_bytes[i % size];
  for (std::size_t distance = 1; distance < size; distance *= 2) {
    const std::size_t blocks = std::min(distance, size - distance);
    std::uint64_t longest = 0;
    for (std::size_t r = 0; r < size; ++r) {
      const std::uint64_t bytes = before[r + blocks] - before[r];
      to.ranks[r].sent_bytes += bytes;
      to.ranks[(r + size - distance) % size].received_bytes += bytes;
      longest = std::max(longest, bytes);
    }
    to.critical_bytes += longest;
  }
}

world_traffic traffic_of_gathered_lists(dtype type, std::span<const std::uint64_t> items) {
  world_traffic traffic{.ranks = std::vector<rank_traffic>(items.size())};
  std::vector<std::uint64_t> bytes(items.begin(), items.end());
  for (std::uint64_t& it : bytes) it *= item_size(type);
  add_allgather_of_lengths(traffic);
  add_allgather(bytes, traffic);
  return traffic;
}

topk_dsa_traffic::topk_dsa_traffic(const sparse_problem& problem)
    : type_(problem.type),
      regions_(problem.count, static_cast<std::uint64_t>(problem.place.size)),
      split_{.ranks = std::vector<rank_traffic>(static_cast<std::size_t>(problem.place.size))},
      touched_(bitmap_words(problem.count)) {}

void topk_dsa_traffic::add(rank from, item_list list) {
  const auto self = static_cast<std::size_t>(from);
  std::size_t region = 0;
  for (std::uint64_t i = 0; i < list.count; ++i) {
    std::uint32_t index = 0;
    std::memcpy(&index, list.items + i * item_size(type_), sizeof index);
    touched_[index / 64] |= std::uint64_t{1} << index % 64;
    while (index >= regions_.begin(region + 1)) ++region;
    if (region == self) continue;
    split_.ranks[self].sent_bytes += item_size(type_);
    split_.ranks[region].received_bytes += item_size(type_);
  }
}

/// An index whose values cancel out is counted, though no item is sent for it.
world_traffic topk_dsa_traffic::finish() const {
  world_traffic traffic = split_;
  traffic.critical_bytes = busiest(traffic.ranks);
  std::vector<std::uint64_t> bytes;
  for (std::size_t region = 0; region < traffic.ranks.size(); ++region) {
    std::uint64_t items = 0;
    for (std::uint64_t i = regions_.begin(region); i < regions_.begin(region + 1); ++i)
      items += touched_[i / 64] >> i % 64 & 1;
    bytes.push_back(units_of_block(type_, regions_.size(region), items) * item_size(type_));
  }
  add_allgather_of_lengths(traffic);
  add_allgather(bytes, traffic);
  return traffic;
}

gtopk_traffic::gtopk_traffic(const sparse_problem& problem, arrival_rule rule)
    : type_(problem.type),
      rule_(rule),
      k_(most_sent(problem)),
      merge_add_(sparse_kernels_of(problem.type).merge_add),
      keep_largest_(sparse_kernels_of(problem.type).keep_largest),
      merged_(2 * k_ * item_size(problem.type)),
      subtrees_(static_cast<std::size_t>(ceil_log2(problem.place.size)) + 2),
      longest_(static_cast<std::size_t>(ceil_log2(problem.place.size))),
      traffic_{.ranks = std::vector<rank_traffic>(static_cast<std::size_t>(problem.place.size))} {
  for (subtree& it : subtrees_) it.items.resize(k_ * item_size(problem.type));
}

/// Subtrees of equal size are neighbours that belong together, like digits of a counter.
void gtopk_traffic::add(item_list list) {
  subtree& one = subtrees_[open_++];
  one.first = added_++;
  one.size = 1;
  one.count = list.count;
  std::copy_n(list.items, list.count * item_size(type_), one.items.data());
  while (open_ > 1 && subtrees_[open_ - 2].size == subtrees_[open_ - 1].size) merge_last();
}

world_traffic gtopk_traffic::finish() {
  while (open_ > 1) merge_last();
  const std::uint64_t down = result().count * item_size(type_);
  const std::uint64_t bitmap =
      rule_ == arrival_rule::exact ? bitmap_words(k_) * sizeof(std::uint64_t) : std::uint64_t{0};
  const knomial tree(static_cast<rank>(added_), 2);
  for (rank r = 1; r < static_cast<rank>(added_); ++r) {
    rank_traffic& parent = traffic_.ranks[static_cast<std::size_t>(tree.parent_of(r))];
    rank_traffic& child = traffic_.ranks[static_cast<std::size_t>(r)];
    parent.sent_bytes += down, child.received_bytes += down;
    parent.sent_metadata_bytes += bitmap, child.received_metadata_bytes += bitmap;
  }
  for (const std::uint64_t up : longest_) traffic_.critical_bytes += up + down;
  return traffic_;
}

/// The last subtree's root is a child of the one before it.
void gtopk_traffic::merge_last() {
  subtree& parent = subtrees_[open_ - 2];
  const subtree& child = subtrees_[--open_];
  const std::uint64_t up = child.count * item_size(type_);
  traffic_.ranks[child.first].sent_bytes += up;
  traffic_.ranks[parent.first].received_bytes += up;
  std::uint64_t& longest = longest_[static_cast<std::size_t>(std::countr_zero(child.first))];
  longest = std::max(longest, up);
  const std::size_t sum =
      merge_add_(parent.items.data(), parent.count, child.items.data(), child.count, merged_.data());
  parent.count = keep_largest_(merged_.data(), sum, k_).count;
  std::copy_n(merged_.data(), parent.count * item_size(type_), parent.items.data());
  parent.size += child.size;
}

}  // namespace lsched
