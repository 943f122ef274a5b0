#include "microbench/baselines/topk_dsa.h"

#include <algorithm>
#include <cstring>

namespace lsched {
namespace {

/// Items of a list as they are, but for their indices.
void copy_shifted(const std::byte* items, std::uint64_t count, std::uint32_t by, dtype type, std::byte* to) {
  std::copy_n(items, count * item_size(type), to);
  for (std::uint64_t i = 0; i < count; ++i, to += item_size(type)) {
    std::uint32_t index = 0;
    std::memcpy(&index, to, sizeof index);
    index += by;  // modulo 2^32: up or down
    std::memcpy(to, &index, sizeof index);
  }
}

/// values[index] = value, wherever these lie: a block has the alignment of items, which is none.
void put_values(const std::byte* items, std::uint64_t count, dtype type, std::byte* values) {
  for (std::uint64_t i = 0; i < count; ++i, items += item_size(type)) {
    std::uint32_t index = 0;
    std::memcpy(&index, items, sizeof index);
    std::copy_n(items + sizeof index, size_of(type), values + index * size_of(type));
  }
}

/// Answers how many of `count` values are not zero, and writes these as items, with indices from `first`.
template <class Bits>
std::uint64_t gather_values(const std::byte* values, std::uint64_t count, std::uint32_t first, std::byte* to) {
  constexpr std::size_t size = sizeof(std::uint32_t) + sizeof(Bits);
  std::uint64_t gathered = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    Bits bits = 0;
    std::memcpy(&bits, values + i * sizeof bits, sizeof bits);
    if (static_cast<Bits>(bits << 1) == 0) continue;
    const std::uint32_t index = first + static_cast<std::uint32_t>(i);
    std::memcpy(to + gathered * size, &index, sizeof index);
    std::memcpy(to + gathered * size + sizeof index, &bits, sizeof bits);
    ++gathered;
  }
  return gathered;
}

std::uint64_t gather_values(const std::byte* values, std::uint64_t count, std::uint32_t first, dtype type,
                            std::byte* to) {
  switch (size_of(type)) {
    case 2: return gather_values<std::uint16_t>(values, count, first, to);
    case 4: return gather_values<std::uint32_t>(values, count, first, to);
    default: return gather_values<std::uint64_t>(values, count, first, to);
  }
}

}  // namespace

topk_dsa::topk_dsa(const sparse_problem& problem)
    : problem_(problem),
      regions_(problem.count, index(problem.place.size)),
      room_(most_sent(problem)),
      result_room_(most_in_union(problem, room_)),
      settle_(sparse_kernels_of(problem.type).settle),
      own_(problem),
      sum_(problem.type, regions_.size(index(problem.place.self))),
      sums_(std::min(regions_.size(index(problem.place.self)), result_room_) * item_size(problem.type)),
      update_(problem.type, problem.count, result_room_),
      judge_(problem) {}

std::uint64_t topk_dsa::list_room(rank region) const { return std::min(room_, regions_.size(index(region))); }

std::uint64_t topk_dsa::block_room(rank region) const {
  return units_of_block(problem_.type, regions_.size(index(region)), result_room_);
}

void topk_dsa::select(std::byte* residual, const std::byte* gradient, top_k_hint& hint, std::byte* items,
                      std::span<std::uint64_t> lengths) {
  sent_ = own_.select(residual, gradient, hint);
  const std::size_t size = item_size(problem_.type);
  std::uint64_t done = 0;
  for (std::size_t region = 0; region < lengths.size(); ++region) {
    const std::uint64_t end = regions_.begin(region + 1), begin_of_list = done;
    for (std::uint32_t at = 0; done < sent_.count; ++done) {
      std::memcpy(&at, sent_.items + done * size, sizeof at);
      if (at >= end) break;
    }
    lengths[region] = done - begin_of_list;
    const auto first = static_cast<std::uint32_t>(regions_.begin(region));
    copy_shifted(sent_.items + begin_of_list * size, lengths[region], 0 - first, problem_.type,
                 items + begin_of_list * size);
  }
}

std::uint64_t topk_dsa::reduce(std::span<const item_list> lists, std::byte* block) {
  const std::uint64_t region = regions_.size(index(problem_.place.self));
  const std::uint64_t items = sum_.add(lists, sums_.data());
  const std::uint64_t units = units_of_block(problem_.type, region, items);
  const std::uint64_t bytes = units * item_size(problem_.type);
  if (is_values(problem_.place.self, units)) {
    std::fill_n(block, bytes, std::byte{0});
    put_values(sums_.data(), items, problem_.type, block);
  } else {
    std::copy_n(sums_.data(), bytes, block);
  }
  return units;
}

std::uint64_t topk_dsa::settle(std::span<const item_list> blocks, std::byte* result, std::byte* residual,
                               std::byte* update) {
  std::uint64_t items = 0;
  for (std::size_t region = 0; region < blocks.size(); ++region) {
    const item_list& block = blocks[region];
    const auto first = static_cast<std::uint32_t>(regions_.begin(region));
    std::byte* const to = result + items * item_size(problem_.type);
    if (is_values(static_cast<rank>(region), block.count)) {
      items += gather_values(block.items, regions_.size(region), first, problem_.type, to);
    } else {
      copy_shifted(block.items, block.count, first, problem_.type, to);
      items += block.count;
    }
  }
  const bool is_good = judge_.accepts({result, items}, residual);
  if (!is_good) sent_ = {};
  // Where contributions cancel out, the result has no item; they were in it all the same.
  settle_(residual, sent_.items, sent_.count, sent_.items, sent_.count);
  update_.write({result, is_good ? items : 0}, static_cast<std::uint64_t>(problem_.place.size), update);
  return items;
}

}  // namespace lsched
