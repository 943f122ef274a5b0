#include "collectives/requests/sample_requests.h"

#include <algorithm>

namespace lsched {
namespace {

/// Returns count - 1, count, count + 1, count - 1, … for `number` = 0, 1, 2, 3, …. The result is never negative.
std::uint64_t uneven(std::uint64_t count, rank number) {
  const std::uint64_t more = count + static_cast<std::uint64_t>(number % 3);
  return more == 0 ? 0 : more - 1;
}

std::vector<exchanged_block> typical_blocks(rank size, std::uint64_t count, bool with_all) {
  std::vector<exchanged_block> blocks;
  for (rank from = 0; from < size; ++from)
    for (rank to = 0; to < size; ++to) {
      const rank distance = (to - from + size) % size;
      if (with_all || distance == 1 || distance == 2 || (distance == 0 && from % 4 == 3))
        blocks.push_back({from, to, uneven(count, from + distance)});
    }
  return blocks;
}

/// Returns the maximum number of pieces. A piece is a tensor of a vector, or a segment of a block. Vectors and blocks
/// with fewer elements are cut into single elements. The number of ops grows with the product of pieces and ranks, or
/// of pieces and blocks. Many pieces on many ranks would not test anything new.
constexpr std::uint64_t most_pieces(rank size) { return size <= 17 ? 65 : 5; }

/// Returns the node of each rank. If `is_dealt` is true, the ranks are dealt to three nodes in turn. Else every three
/// consecutive ranks form a node, and the last node may have fewer ranks.
std::vector<rank> nodes_of_three(rank size, bool is_dealt) {
  std::vector<rank> nodes;
  for (rank r = 0; r < size; ++r) nodes.push_back(is_dealt ? r % 3 : r / 3);
  return nodes;
}

std::uint64_t longest_block(const shape& data) {
  std::uint64_t longest = data.count;
  for (const std::uint64_t count : data.counts) longest = std::max(longest, count);
  for (const exchanged_block& one : data.blocks) longest = std::max(longest, one.count);
  return longest;
}

}  // namespace

shape typical_shape(const collective& of, rank size, std::uint64_t count, dtype type, kernel what) {
  if (!of.moves_data) return {};
  shape data{.count = count, .type = type, .what = of.reduces ? what : kernel::none};
  if (of.reduces && of.adapts && what != kernel::sum) data.what = kernel::adasum;
  if (of.is_rooted) data.root = size / 2;
  if (of.has_counts || of.has_blocks) data.count = 0;
  for (rank r = 0; of.has_counts && r < size; ++r) data.counts.push_back(uneven(count, r));
  if (of.has_blocks) data.blocks = typical_blocks(size, count, &of == &k_alltoallv);
  return data;
}

std::vector<tensor> equal_tensors(std::uint64_t count, std::uint64_t number) {
  std::vector<tensor> all;
  for (std::uint64_t i = 0, begin = 0; i < number; begin += all[i++].count)
    all.push_back({begin, count / number + (i < count % number ? 1 : 0)});
  return all;
}

std::vector<shape> variants_of(const algorithm& how, rank size, const shape& data) {
  std::vector<shape> all{data};
  const auto add = [&](auto change) {
    shape& variant = all.emplace_back(data);
    change(variant);
  };
  const bool moves_blocks = how.of->extents_of({.self = 0, .size = size}, data) != extents{data.count, data.count};
  const std::uint64_t shortest = moves_blocks ? std::max<std::uint64_t>(1, longest_block(data) / most_pieces(size)) : 1;
  if (how.looks_at.segment) add([&](shape& s) { s.segment = shortest; });
  if (how.looks_at.segment) add([&](shape& s) { s.segment = 3 * shortest; });
  if (how.of->has_means && data.what == kernel::sum) add([](shape& s) { s.is_mean = true; });
  if (how.looks_at.radix) add([](shape& s) { s.radix = 2; });
  if (how.looks_at.radix) add([](shape& s) { s.radix = 3; });
  if (how.needs.moves_lists && !how.of->has_counts && !data.in_place) add([](shape& s) { s.room = 2 * s.count + 1; });
  if (how.looks_at.nodes) add([&](shape& s) { s.nodes = nodes_of_three(size, false); });
  if (how.looks_at.nodes) add([&](shape& s) { s.nodes = nodes_of_three(size, true); });
  if (how.looks_at.buckets && data.count > 0)
    add([](shape& s) { s.buckets = {s.count / 3, 0, s.count - s.count / 3}; });
  if (how.looks_at.tensors && data.count > 0) {
    add([](shape& s) { s.tensors = {{0, s.count / 3}, {s.count / 3, s.count - s.count / 3}}; });
    if (!how.of->activates)  // partial collectives allow no gaps between tensors
      add([](shape& s) { s.tensors = {{0, 0}, {s.count / 4, s.count / 2}, {s.count - 1, 0}, {s.count - 1, 1}}; });
    add([&](shape& s) { s.tensors = equal_tensors(s.count, std::min(s.count, most_pieces(size))); });
  }
  if (how.looks_at.is_visible) add([](shape& s) { s.is_visible = false; });
  if (how.looks_at.is_visible && how.looks_at.segment)
    add([&](shape& s) { s.is_visible = false, s.segment = shortest; });
  return all;
}

result<schedule_ptr> generate(std::string_view collective, std::string_view wanted, world place, const shape& data,
                              const activation& starts) {
  const auto chosen = choose(collective, wanted, place, data, starts);
  if (!chosen) return chosen.error();
  return (*chosen)->generate(place, data, starts);
}

}  // namespace lsched
