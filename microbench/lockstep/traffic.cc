#include "microbench/lockstep/traffic.h"

#include <algorithm>

#include "libsched/schedule/geometry.h"
#include "collectives/baselines/merge_add.h"
#include "collectives/baselines/topk_dsa.h"

namespace lsched {
namespace {

std::uint64_t busiest(std::span<const rank_traffic> ranks) {
  std::uint64_t most = 0;
  for (const rank_traffic& one : ranks) most = std::max({most, one.sent_bytes, one.received_bytes});
  return most;
}

/// Adds an allgather of lengths of type u64. Every rank receives the lengths of all other ranks.
void add_allgather_of_lengths(world_traffic& to) {
  const std::uint64_t bytes = (to.ranks.size() - 1) * sizeof(std::uint64_t);
  for (rank_traffic& one : to.ranks) one.sent_metadata_bytes += bytes, one.received_metadata_bytes += bytes;
}

}  // namespace

void add_allgather(std::span<const std::uint64_t> block_bytes, world_traffic& to) {
  const std::size_t size = block_bytes.size();
  std::vector<std::uint64_t> before(2 * size + 1);  // prefix sums of block sizes, twice around the ring
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
  for (std::uint64_t& size : bytes) size *= item_size(type);
  add_allgather_of_lengths(traffic);
  add_allgather(bytes, traffic);
  return traffic;
}

/// If the values of an index cancel out, no item is sent for that index. This function counts such an item
/// nevertheless.
world_traffic traffic_of_topk_dsa(const sparse_problem& problem, std::span<const item_list> lists) {
  const std::size_t item = item_size(problem.type);
  const cut regions(problem.count, lists.size());
  world_traffic traffic{.ranks = std::vector<rank_traffic>(lists.size())};
  std::vector<bool> touched(problem.count);
  for (std::size_t r = 0; r < lists.size(); ++r) {
    std::size_t region = 0;
    for (std::uint64_t i = 0; i < lists[r].count; ++i) {
      const std::uint32_t index = index_at(problem.type, lists[r].items, i);
      touched[index] = true;
      while (index >= regions.begin(region + 1)) ++region;
      if (region == r) continue;
      traffic.ranks[r].sent_bytes += item;
      traffic.ranks[region].received_bytes += item;
    }
  }
  traffic.critical_bytes = busiest(traffic.ranks);
  std::vector<std::uint64_t> bytes;
  for (std::size_t region = 0; region < lists.size(); ++region) {
    const auto begin = touched.begin() + static_cast<std::ptrdiff_t>(regions.begin(region));
    const std::uint64_t size = regions.size(region);
    const auto items = std::count(begin, begin + static_cast<std::ptrdiff_t>(size), true);
    bytes.push_back(units_of_block(problem.type, size, static_cast<std::uint64_t>(items)) * item);
  }
  add_allgather_of_lengths(traffic);
  add_allgather(bytes, traffic);
  return traffic;
}

/// The steps have distances d = 1, 2, 4, …. In a step, rank r + d sends its partial result to rank r, if r is a
/// multiple of 2 d.
world_traffic traffic_of_gtopk(const sparse_problem& problem, std::span<const item_list> lists, arrival_rule rule,
                               std::vector<std::byte>* result) {
  const std::size_t item = item_size(problem.type), k = most_items(problem);
  const sparse_kernels& kernels = sparse_kernels_of(problem.type);
  const merge_add_fn merge_add = find_merge_add(problem.type);
  std::vector<std::vector<std::byte>> partial;
  for (const item_list& list : lists) partial.emplace_back(list.items, list.items + list.count * item);
  world_traffic traffic{.ranks = std::vector<rank_traffic>(lists.size())};
  std::vector<std::byte> sum(2 * k * item);
  std::uint64_t steps = 0;
  for (std::size_t distance = 1; distance < lists.size(); distance *= 2, ++steps) {
    std::uint64_t longest = 0;
    for (std::size_t r = 0; r + distance < lists.size(); r += 2 * distance) {
      std::vector<std::byte>&parent = partial[r], &child = partial[r + distance];
      traffic.ranks[r + distance].sent_bytes += child.size();
      traffic.ranks[r].received_bytes += child.size();
      longest = std::max<std::uint64_t>(longest, child.size());
      const std::size_t count =
          merge_add(parent.data(), parent.size() / item, child.data(), child.size() / item, sum.data());
      const std::size_t kept = kernels.keep_largest(sum.data(), count, k).count;
      parent.assign(sum.data(), sum.data() + kept * item);
    }
    traffic.critical_bytes += longest;
  }
  const std::uint64_t down = partial.front().size();
  const std::uint64_t bitmap = rule == arrival_rule::exact ? bitmap_words(k) * sizeof(std::uint64_t) : 0;
  const knomial tree(static_cast<rank>(lists.size()), 2);
  for (rank r = 1; r < static_cast<rank>(lists.size()); ++r) {
    rank_traffic& parent = traffic.ranks[static_cast<std::size_t>(tree.parent_of(r))];
    rank_traffic& child = traffic.ranks[static_cast<std::size_t>(r)];
    parent.sent_bytes += down, child.received_bytes += down;
    parent.sent_metadata_bytes += bitmap, child.received_metadata_bytes += bitmap;
  }
  traffic.critical_bytes += steps * down;
  if (result != nullptr) *result = partial.front();
  return traffic;
}

}  // namespace lsched
