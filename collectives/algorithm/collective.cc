#include "collectives/algorithm/collective.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace lsched {
namespace {

/// Returns the offset of the block of rank r. For r = P, returns the end of all blocks.
std::uint64_t block_begin(const shape& data, rank r) {
  if (data.counts.empty()) return wide(r) * data.count;
  return std::accumulate(data.counts.begin(), data.counts.begin() + r, std::uint64_t{0});
}

// --- buffers -----------------------------------------------------------------------------------------------

bool has(const rank_buffer& buffer, world place, const shape& data) {
  switch (buffer.at) {
    case holder::everybody: return buffer.of != content::nothing;
    case holder::root: return place.self == data.root;
    case holder::all_but_root: return place.self != data.root;
  }
  return false;
}

std::vector<rank> ranks_with(const rank_buffer& buffer, rank size, const shape& data) {
  std::vector<rank> ranks;
  for (rank r = 0; r < size; ++r)
    if (has(buffer, {r, size}, data)) ranks.push_back(r);
  return ranks;
}

/// Returns the number of elements of a rank's buffer, or nothing if the rank has no such buffer. For listed blocks,
/// `end` selects the blocks that this rank sends, or the blocks that this rank receives.
std::optional<std::uint64_t> count_of(const rank_buffer& buffer, world place, const shape& data,
                                      rank exchanged_block::*end) {
  if (!has(buffer, place, data)) return std::nullopt;
  if (buffer.of == content::own_block) return block_count(data, place.self);
  if (buffer.of == content::all_blocks) return block_begin(data, place.size);
  if (buffer.of == content::vector) return data.count;
  std::uint64_t count = 0;
  for (const exchanged_block& block : data.blocks)
    if (block.*end == place.self) count += block.count;
  return count;
}

// --- contents ----------------------------------------------------------------------------------------------

/// Returns the postcondition of a reduction: each rank with an output gets its part of the reduction over all ranks.
postcondition reduced(const collective& of, rank size, const shape& data) {
  const bool is_scattered = of.output.of == content::own_block;
  const auto offsets = is_scattered ? block_offsets(data, size) : std::vector<std::uint64_t>{};
  postcondition promise{.is_same_everywhere = !is_scattered};  // if scattered, ranks get different blocks
  for (const rank holder : ranks_with(of.output, size, data))
    promise.ranges.push_back({.holder = holder,
                              .end = is_scattered ? block_count(data, holder) : data.count,
                              .what = promised_content::reduced,
                              .input_begin = is_scattered ? offsets[wide(holder)] : 0,
                              .how = data.what,
                              .is_in_rank_order = true,
                              .divisor = data.is_mean && size > 1 ? wide(size) : 0});
  return promise;
}

/// Returns the postcondition of a scan: rank r gets the reduction over ranks 0 … r, or 0 … r-1 for exscan.
postcondition reduced_over_prefixes(const collective& of, rank size, const shape& data) {
  postcondition promise = reduced(of, size, data);
  promise.is_same_everywhere = false;
  for (promised_range& range : promise.ranges) {
    range.among.resize(wide(&of == &k_exscan ? range.holder : range.holder + 1));
    std::iota(range.among.begin(), range.among.end(), 0);
  }
  std::erase_if(promise.ranges, [](const promised_range& range) { return range.among.empty(); });
  return promise;
}

promised_range moved(rank holder, std::uint64_t begin, std::uint64_t count, rank source, std::uint64_t input_begin) {
  return {.holder = holder,
          .begin = begin,
          .end = begin + count,
          .what = promised_content::moved,
          .input_begin = input_begin,
          .source = source};
}

/// Returns the postcondition of a data movement. Every rank with an input sends to every rank with an output. The
/// sender sends its whole vector, its own block, or its block for the receiver.
postcondition copied(const collective& of, rank size, const shape& data) {
  const bool is_vector = of.input.of == content::vector, takes_all = of.output.of == content::all_blocks;
  const auto offsets = block_offsets(data, size);
  const std::vector<rank> sources = ranks_with(of.input, size, data);
  postcondition promise;
  for (const rank holder : ranks_with(of.output, size, data))
    for (const rank source : sources) {
      const std::uint64_t count = is_vector ? data.count : block_count(data, takes_all ? source : holder);
      promise.ranges.push_back(moved(holder, takes_all ? offsets[wide(source)] : 0, count, source,
                                     of.input.of == content::all_blocks ? offsets[wide(holder)] : 0));
    }
  return promise;
}

postcondition exchanged(const collective&, rank size, const shape& data) {
  postcondition promise;
  std::vector<std::uint64_t> sent(wide(size), 0), received(wide(size), 0);
  for (const exchanged_block& block : data.blocks) {
    std::uint64_t &taken = sent[wide(block.from)], &filled = received[wide(block.to)];
    promise.ranges.push_back(moved(block.to, filled, block.count, block.from, taken));
    taken += block.count;
    filled += block.count;
  }
  return promise;
}

/// Returns the postcondition of an adaptive sum, without the expressions of tensors. The expressions depend on the
/// algorithm.
postcondition adaptive_sum(const collective&, rank size, const shape& data) {
  postcondition promise;
  for (rank holder = 0; holder < size; ++holder)
    for (const tensor& part : tensors_of(data))
      promise.ranges.push_back({.holder = holder,
                                .begin = part.begin,
                                .end = part.end(),
                                .what = promised_content::reduced,
                                .input_begin = part.begin,
                                .how = kernel::adasum,
                                .merged = data.what,
                                .is_in_rank_order = true});
  return promise;
}

postcondition only_synchronised(const collective&, rank, const shape&) { return {.is_synchronising = true}; }

// --- the table ---------------------------------------------------------------------------------------------

constexpr rank_buffer k_nothing{}, k_vector{content::vector}, k_block{content::own_block},
    k_blocks{content::all_blocks}, k_list{content::listed_blocks};

constexpr rank_buffer at_root(rank_buffer buffer) { return {buffer.of, holder::root}; }
constexpr rank_buffer at_others(rank_buffer buffer) { return {buffer.of, holder::all_but_root}; }

enum trait : unsigned { k_plain = 0, k_reduces = 1, k_rooted = 2, k_synchronising = 4, k_adapts = 8, k_means = 16 };

constexpr collective row(std::string_view name, unsigned traits, rank_buffer input, rank_buffer output,
                         postcondition (*promise)(const collective&, rank, const shape&)) {
  return {.name = name,
          .input = input,
          .output = output,
          .promise = promise,
          .moves_data = input.of != content::nothing,
          .reduces = (traits & k_reduces) != 0,
          .is_rooted = (traits & k_rooted) != 0,
          .has_blocks = input.of == content::listed_blocks,
          .adapts = (traits & k_adapts) != 0,
          .has_means = (traits & k_means) != 0,
          .is_synchronising = (traits & k_synchronising) != 0};
}

/// Returns the variant with one count for each rank.
constexpr collective with_counts(std::string_view name, collective of) {
  of.name = name;
  of.has_counts = true;
  return of;
}

/// Returns the partial variant: an activation starts its rounds, and the shape's kernel merges late contributions.
constexpr collective partial(std::string_view name, collective of, bool has_buckets = false) {
  of.name = name;
  of.has_buckets = has_buckets;
  of.reduces = of.activates = true;
  of.has_means = false;  // results are divided when they are collected
  return of;
}

}  // namespace

constexpr collective k_allreduce = row("allreduce", k_reduces | k_means | k_synchronising, k_vector, k_vector, reduced);
constexpr collective k_reduce = row("reduce", k_reduces | k_means | k_rooted, k_vector, at_root(k_vector), reduced);
constexpr collective k_scan = row("scan", k_reduces, k_vector, k_vector, reduced_over_prefixes);
constexpr collective k_exscan = row("exscan", k_reduces, k_vector, k_vector, reduced_over_prefixes);
constexpr collective k_reduce_scatter_block =
    row("reduce_scatter_block", k_reduces | k_means | k_synchronising, k_blocks, k_block, reduced);
constexpr collective k_reduce_scatter = with_counts("reduce_scatter", k_reduce_scatter_block);
constexpr collective k_bcast = row("bcast", k_rooted, at_root(k_vector), at_others(k_vector), copied);
constexpr collective k_gather = row("gather", k_rooted, k_block, at_root(k_blocks), copied);
constexpr collective k_gatherv = with_counts("gatherv", k_gather);
constexpr collective k_scatter = row("scatter", k_rooted, at_root(k_blocks), k_block, copied);
constexpr collective k_scatterv = with_counts("scatterv", k_scatter);
constexpr collective k_allgather = row("allgather", k_synchronising, k_block, k_blocks, copied);
constexpr collective k_allgatherv = with_counts("allgatherv", k_allgather);
constexpr collective k_alltoall = row("alltoall", k_synchronising, k_blocks, k_blocks, copied);
constexpr collective k_alltoallv = row("alltoallv", k_synchronising, k_list, k_list, exchanged);
constexpr collective k_neighbor_exchange = row("neighbor_exchange", k_plain, k_list, k_list, exchanged);
constexpr collective k_adasum = row("adasum", k_adapts | k_synchronising, k_vector, k_vector, adaptive_sum);
constexpr collective k_barrier = row("barrier", k_synchronising, k_nothing, k_nothing, only_synchronised);
constexpr collective k_partial_adasum = partial("partial_adasum", k_adasum);
constexpr collective k_partial_allgather = partial("partial_allgather", k_allgather);
constexpr collective k_partial_allreduce = partial("partial_allreduce", k_allreduce, true);
constexpr collective k_partial_reduce_scatter_block = partial("partial_reduce_scatter_block", k_reduce_scatter_block);

namespace {

constexpr auto addresses_of(const auto&... one) { return std::array{&one...}; }

constexpr auto k_collectives = addresses_of(
    k_adasum, k_allreduce, k_allgather, k_allgatherv, k_alltoall, k_alltoallv, k_barrier, k_bcast, k_exscan, k_gather,
    k_gatherv, k_neighbor_exchange, k_partial_adasum, k_partial_allgather, k_partial_allreduce,
    k_partial_reduce_scatter_block, k_reduce, k_reduce_scatter, k_reduce_scatter_block, k_scan, k_scatter, k_scatterv);

}  // namespace

std::span<const collective* const> collectives() { return k_collectives; }

const collective* find_collective(std::string_view name) {
  const auto found = std::ranges::find(k_collectives, name, &collective::name);
  return found == k_collectives.end() ? nullptr : *found;
}

extents collective::extents_of(world place, const shape& data) const {
  return {count_of(input, place, data, &exchanged_block::from), count_of(output, place, data, &exchanged_block::to)};
}

std::int64_t collective::aliasing_of(world place, const shape& data) const {
  if (reduces || input.of == output.of) return 0;
  const auto begin = static_cast<std::int64_t>(block_begin(data, place.self));
  return output.of == content::all_blocks ? begin : -begin;
}

aliasing aliasing_of(const collective& of, rank size, const shape& data) {
  if (!data.in_place || of.input.of == of.output.of || of.reduces) return aliasing(data.in_place);
  std::vector<std::int64_t> offsets;
  for (rank r = 0; r < size; ++r) offsets.push_back(of.aliasing_of({.self = r, .size = size}, data));
  return aliasing(std::move(offsets));
}

// --- requests ----------------------------------------------------------------------------------------------

shape in_units(const shape& data) {
  shape units = data;
  units.unit = 1;
  units.count = data.room == 0 ? data.count / data.unit : 1;
  for (std::uint64_t& count : units.counts) count /= data.unit;
  for (std::uint64_t& count : units.buckets) count /= data.unit;
  for (exchanged_block& block : units.blocks) block.count /= data.unit;
  if (data.segment != 0) units.segment = std::max<std::uint64_t>(1, data.segment / data.unit);
  return units;
}

std::vector<tensor> tensors_of(const shape& data) {
  std::vector<tensor> all = data.tensors;
  if (all.empty()) all.push_back({0, data.count});
  std::erase_if(all, [](const tensor& part) { return part.count == 0; });
  return all;
}

std::vector<std::uint64_t> block_offsets(const shape& data, rank size) {
  std::vector<std::uint64_t> offsets{0};
  offsets.reserve(static_cast<std::size_t>(size) + 1);
  for (rank r = 0; r < size; ++r) offsets.push_back(offsets.back() + block_count(data, r));
  return offsets;
}

}  // namespace lsched
