#include "collectives/algorithm/collective.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "collectives/algorithm/nodes.h"

namespace lsched {
namespace {

std::uint64_t all_blocks(const shape& data, rank size) {
  if (data.counts.empty()) return wide(size) * data.count;
  return std::accumulate(data.counts.begin(), data.counts.end(), std::uint64_t{0});
}

std::uint64_t block_begin(const shape& data, rank r) {
  if (data.counts.empty()) return wide(r) * data.count;
  std::uint64_t begin = 0;
  for (rank before = 0; before < r; ++before) begin += block_count(data, before);
  return begin;
}

// --- buffers -----------------------------------------------------------------------------------------------

extents whole_vector(world, const shape& data) { return {data.count, data.count}; }

extents whole_to_root(world place, const shape& data) {
  return {data.count, place.self == data.root ? std::optional(data.count) : std::nullopt};
}

extents whole_from_root(world place, const shape& data) {
  return place.self == data.root ? extents{data.count, std::nullopt} : extents{std::nullopt, data.count};
}

extents blocks_to_one(world place, const shape& data) {
  return {all_blocks(data, place.size), block_count(data, place.self)};
}

extents one_to_blocks(world place, const shape& data) {
  return {block_count(data, place.self), all_blocks(data, place.size)};
}

extents one_to_root(world place, const shape& data) {
  extents both{block_count(data, place.self), std::nullopt};
  if (place.self == data.root) both.output = all_blocks(data, place.size);
  return both;
}

extents one_from_root(world place, const shape& data) {
  extents both{std::nullopt, block_count(data, place.self)};
  if (place.self == data.root) both.input = all_blocks(data, place.size);
  return both;
}

extents blocks_to_blocks(world place, const shape& data) {
  return {all_blocks(data, place.size), all_blocks(data, place.size)};
}

extents listed_blocks(world place, const shape& data) {
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  for (const exchanged_block& it : data.blocks) {
    if (it.from == place.self) sent += it.count;
    if (it.to == place.self) received += it.count;
  }
  return {sent, received};
}

bool is_owner(world place, const shape& data) {
  return place_on_node(data, place.self) == static_cast<std::size_t>(data.root);
}

extents whole_to_owners(world place, const shape& data) {
  return {data.count, is_owner(place, data) ? std::optional(data.count) : std::nullopt};
}

extents whole_from_owners(world place, const shape& data) {
  return {is_owner(place, data) ? std::optional(data.count) : std::nullopt, data.count};
}

extents nothing(world, const shape&) { return {}; }

// --- in place ----------------------------------------------------------------------------------------------

std::int64_t own_block_of_output(world place, const shape& data) {
  return static_cast<std::int64_t>(block_begin(data, place.self));
}

std::int64_t own_block_of_input(world place, const shape& data) {
  return -static_cast<std::int64_t>(block_begin(data, place.self));
}

// --- contents ----------------------------------------------------------------------------------------------

promised_range reduced(rank holder, const shape& data, std::uint64_t count) {
  return {
      .holder = holder, .end = count, .what = promised_content::reduced, .how = data.what, .is_in_rank_order = true};
}

promised_range moved(rank holder, std::uint64_t begin, std::uint64_t count, rank source, std::uint64_t input_begin) {
  return {.holder = holder,
          .begin = begin,
          .end = begin + count,
          .what = promised_content::moved,
          .input_begin = input_begin,
          .source = source};
}

postcondition contents_of_allreduce(rank size, const shape& data) {
  return reduced_everywhere(size, data.count, data.what, true);
}

postcondition contents_of_reduce(rank, const shape& data) { return {.ranges = {reduced(data.root, data, data.count)}}; }

/// Ranks 0 … r - before.
postcondition contents_of_prefix(rank size, const shape& data, rank before) {
  postcondition promise;
  std::vector<rank> among;
  for (rank r = 0; r < size; ++r) {
    if (r >= before) among.push_back(r - before);
    if (among.empty()) continue;
    promise.ranges.push_back(reduced(r, data, data.count));
    promise.ranges.back().among = among;
  }
  promise.is_same_everywhere = false;
  return promise;
}

postcondition contents_of_scan(rank size, const shape& data) { return contents_of_prefix(size, data, 0); }
postcondition contents_of_exscan(rank size, const shape& data) { return contents_of_prefix(size, data, 1); }

postcondition contents_of_reduce_scatter(rank size, const shape& data) {
  postcondition promise{.is_same_everywhere = false};  // equal ranges hold different blocks
  const auto offsets = block_offsets(data, size);
  for (rank r = 0; r < size; ++r) {
    promise.ranges.push_back(reduced(r, data, block_count(data, r)));
    promise.ranges.back().input_begin = offsets[static_cast<std::size_t>(r)];
  }
  return promise;
}

postcondition contents_of_bcast(rank size, const shape& data) {
  postcondition promise;
  for (rank r = 0; r < size; ++r)
    if (r != data.root) promise.ranges.push_back(moved(r, 0, data.count, data.root, 0));
  return promise;
}

postcondition contents_of_gather(rank size, const shape& data) {
  postcondition promise;
  const auto offsets = block_offsets(data, size);
  for (rank r = 0; r < size; ++r)
    promise.ranges.push_back(moved(data.root, offsets[static_cast<std::size_t>(r)], block_count(data, r), r, 0));
  return promise;
}

postcondition contents_of_scatter(rank size, const shape& data) {
  postcondition promise;
  const auto offsets = block_offsets(data, size);
  for (rank r = 0; r < size; ++r)
    promise.ranges.push_back(moved(r, 0, block_count(data, r), data.root, offsets[static_cast<std::size_t>(r)]));
  return promise;
}

postcondition contents_of_allgather(rank size, const shape& data) {
  postcondition promise;
  const auto offsets = block_offsets(data, size);
  for (rank holder = 0; holder < size; ++holder)
    for (rank r = 0; r < size; ++r)
      promise.ranges.push_back(moved(holder, offsets[static_cast<std::size_t>(r)], block_count(data, r), r, 0));
  return promise;
}

postcondition contents_of_alltoall(rank size, const shape& data) {
  postcondition promise;
  for (rank holder = 0; holder < size; ++holder)
    for (rank r = 0; r < size; ++r)
      promise.ranges.push_back(moved(holder, wide(r) * data.count, data.count, r, wide(holder) * data.count));
  return promise;
}

postcondition contents_of_exchange(rank size, const shape& data) {
  postcondition promise;
  std::vector<std::uint64_t> sent(static_cast<std::size_t>(size), 0);
  std::vector<std::uint64_t> received(static_cast<std::size_t>(size), 0);
  for (const exchanged_block& it : data.blocks) {
    std::uint64_t& taken = sent[static_cast<std::size_t>(it.from)];
    std::uint64_t& filled = received[static_cast<std::size_t>(it.to)];
    promise.ranges.push_back(moved(it.to, filled, it.count, it.from, taken));
    taken += it.count;
    filled += it.count;
  }
  return promise;
}

/// Of which expressions, the algorithm says.
postcondition contents_of_adasum(rank size, const shape& data) {
  postcondition promise;
  for (rank holder = 0; holder < size; ++holder)
    for (const tensor& it : tensors_of(data))
      promise.ranges.push_back({.holder = holder,
                                .begin = it.begin,
                                .end = it.end(),
                                .what = promised_content::reduced,
                                .input_begin = it.begin,
                                .how = kernel::adasum,
                                .merged = data.what,
                                .is_in_rank_order = true});
  return promise;
}

/// In the order of ranks, on every node.
postcondition contents_of_node_mean(rank size, const shape& data) {
  postcondition promise{.is_same_everywhere = false};
  for (const node& it : nodes_of(data, size))
    promise.ranges.push_back({.holder = it[static_cast<std::size_t>(data.root)],
                              .end = data.count,
                              .what = promised_content::reduced,
                              .among = it,
                              .how = kernel::sum,
                              .is_in_rank_order = true,
                              .tree = mean_tree(it),
                              .has_means = true});
  return promise;
}

postcondition contents_of_node_adasum(rank size, const shape& data) {
  postcondition promise = contents_of_adasum(size, data);
  std::vector<rank> owners;
  for (const node& it : nodes_of(data, size)) owners.push_back(it[static_cast<std::size_t>(data.root)]);
  std::ranges::sort(owners);
  for (promised_range& it : promise.ranges) it.among = owners;
  return promise;
}

postcondition contents_of_barrier(rank, const shape&) { return {.is_synchronising = true}; }

// --- the table ---------------------------------------------------------------------------------------------

constexpr collective reduction(std::string_view name, bool is_synchronising,
                               postcondition (*contents)(rank, const shape&)) {
  return {.name = name,
          .reduces = true,
          .is_synchronising = is_synchronising,
          .extents_of = whole_vector,
          .contents_of = contents};
}

}  // namespace

constinit const collective k_allreduce = reduction("allreduce", true, contents_of_allreduce);
constinit const collective k_scan = reduction("scan", false, contents_of_scan);
constinit const collective k_exscan = reduction("exscan", false, contents_of_exscan);

constinit const collective k_adasum{.name = "adasum",
                                    .adapts = true,
                                    .is_synchronising = true,
                                    .extents_of = whole_vector,
                                    .contents_of = contents_of_adasum};

constinit const collective k_node_mean{.name = "node_mean",
                                       .is_rooted = true,
                                       .has_owners = true,
                                       .extents_of = whole_to_owners,
                                       .contents_of = contents_of_node_mean};

constinit const collective k_node_adasum{.name = "node_adasum",
                                         .is_rooted = true,
                                         .adapts = true,
                                         .has_owners = true,
                                         .extents_of = whole_from_owners,
                                         .contents_of = contents_of_node_adasum};

constinit const collective k_partial_adasum{.name = "partial_adasum",
                                            .reduces = true,
                                            .adapts = true,
                                            .activates = true,
                                            .is_synchronising = true,
                                            .extents_of = whole_vector,
                                            .contents_of = contents_of_adasum};

constinit const collective k_partial_allreduce{.name = "partial_allreduce",
                                               .reduces = true,
                                               .has_buckets = true,
                                               .activates = true,
                                               .is_synchronising = true,
                                               .extents_of = whole_vector,
                                               .contents_of = contents_of_allreduce};

constinit const collective k_partial_allgather{.name = "partial_allgather",
                                               .reduces = true,
                                               .activates = true,
                                               .is_synchronising = true,
                                               .extents_of = one_to_blocks,
                                               .contents_of = contents_of_allgather};

constinit const collective k_partial_reduce_scatter_block{.name = "partial_reduce_scatter_block",
                                                          .reduces = true,
                                                          .activates = true,
                                                          .is_synchronising = true,
                                                          .extents_of = blocks_to_one,
                                                          .contents_of = contents_of_reduce_scatter};

constinit const collective k_reduce{.name = "reduce",
                                    .reduces = true,
                                    .is_rooted = true,
                                    .extents_of = whole_to_root,
                                    .contents_of = contents_of_reduce};

constinit const collective k_reduce_scatter_block{.name = "reduce_scatter_block",
                                                  .reduces = true,
                                                  .is_synchronising = true,
                                                  .extents_of = blocks_to_one,
                                                  .contents_of = contents_of_reduce_scatter};

constinit const collective k_reduce_scatter{.name = "reduce_scatter",
                                            .reduces = true,
                                            .has_counts = true,
                                            .is_synchronising = true,
                                            .extents_of = blocks_to_one,
                                            .contents_of = contents_of_reduce_scatter};

constinit const collective k_bcast{
    .name = "bcast", .is_rooted = true, .extents_of = whole_from_root, .contents_of = contents_of_bcast};

constinit const collective k_gather{.name = "gather",
                                    .is_rooted = true,
                                    .extents_of = one_to_root,
                                    .contents_of = contents_of_gather,
                                    .aliasing_of = own_block_of_output};

constinit const collective k_gatherv{.name = "gatherv",
                                     .is_rooted = true,
                                     .has_counts = true,
                                     .extents_of = one_to_root,
                                     .contents_of = contents_of_gather,
                                     .aliasing_of = own_block_of_output};

constinit const collective k_scatter{.name = "scatter",
                                     .is_rooted = true,
                                     .extents_of = one_from_root,
                                     .contents_of = contents_of_scatter,
                                     .aliasing_of = own_block_of_input};

constinit const collective k_scatterv{.name = "scatterv",
                                      .is_rooted = true,
                                      .has_counts = true,
                                      .extents_of = one_from_root,
                                      .contents_of = contents_of_scatter,
                                      .aliasing_of = own_block_of_input};

constinit const collective k_allgather{.name = "allgather",
                                       .is_synchronising = true,
                                       .extents_of = one_to_blocks,
                                       .contents_of = contents_of_allgather,
                                       .aliasing_of = own_block_of_output};

constinit const collective k_allgatherv{.name = "allgatherv",
                                        .has_counts = true,
                                        .is_synchronising = true,
                                        .extents_of = one_to_blocks,
                                        .contents_of = contents_of_allgather,
                                        .aliasing_of = own_block_of_output};

constinit const collective k_alltoall{
    .name = "alltoall", .is_synchronising = true, .extents_of = blocks_to_blocks, .contents_of = contents_of_alltoall};

constinit const collective k_alltoallv{.name = "alltoallv",
                                       .has_blocks = true,
                                       .is_synchronising = true,
                                       .extents_of = listed_blocks,
                                       .contents_of = contents_of_exchange};

constinit const collective k_neighbor_exchange{
    .name = "neighbor_exchange", .has_blocks = true, .extents_of = listed_blocks, .contents_of = contents_of_exchange};

constinit const collective k_barrier{.name = "barrier",
                                     .moves_data = false,
                                     .is_synchronising = true,
                                     .extents_of = nothing,
                                     .contents_of = contents_of_barrier};

namespace {

constexpr std::array<const collective*, 24> k_collectives{&k_adasum,
                                                          &k_allreduce,
                                                          &k_allgather,
                                                          &k_allgatherv,
                                                          &k_alltoall,
                                                          &k_alltoallv,
                                                          &k_barrier,
                                                          &k_bcast,
                                                          &k_exscan,
                                                          &k_gather,
                                                          &k_gatherv,
                                                          &k_neighbor_exchange,
                                                          &k_node_adasum,
                                                          &k_node_mean,
                                                          &k_partial_adasum,
                                                          &k_partial_allgather,
                                                          &k_partial_allreduce,
                                                          &k_partial_reduce_scatter_block,
                                                          &k_reduce,
                                                          &k_reduce_scatter,
                                                          &k_reduce_scatter_block,
                                                          &k_scan,
                                                          &k_scatter,
                                                          &k_scatterv};

}  // namespace

std::span<const collective* const> collectives() { return k_collectives; }

const collective* find_collective(std::string_view name) {
  const auto found = std::ranges::find(k_collectives, name, &collective::name);
  return found == k_collectives.end() ? nullptr : *found;
}

// --- requests ----------------------------------------------------------------------------------------------

shape in_units(const shape& data) {
  shape units = data;
  units.unit = 1;
  units.count /= data.unit;
  for (std::uint64_t& count : units.counts) count /= data.unit;
  for (std::uint64_t& count : units.buckets) count /= data.unit;
  for (exchanged_block& it : units.blocks) it.count /= data.unit;
  if (data.segment != 0) units.segment = std::max<std::uint64_t>(1, data.segment / data.unit);
  return units;
}

std::vector<tensor> tensors_of(const shape& data) {
  std::vector<tensor> all = data.tensors;
  if (all.empty()) all.push_back({0, data.count});
  std::erase_if(all, [](const tensor& it) { return it.count == 0; });
  return all;
}

std::vector<std::uint64_t> block_offsets(const shape& data, rank size) {
  std::vector<std::uint64_t> offsets{0};
  offsets.reserve(static_cast<std::size_t>(size) + 1);
  for (rank r = 0; r < size; ++r) offsets.push_back(offsets.back() + block_count(data, r));
  return offsets;
}

namespace {

/// count - 1, count, count + 1, count - 1, … and never below 0.
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

}  // namespace lsched
