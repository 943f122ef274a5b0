#include "collectives/requests/collective_request.h"

#include <algorithm>
#include <span>
#include <string>

#include "collectives/requests/exchange_blocks.h"
#include "collectives/selection.h"
#include "libsched/commit/commit.h"
#include "libsched/session/memory_layout.h"
#include "ops/counted.h"
#include "ops/rules.h"

namespace lsched {
namespace {

bool has_reduction(const collective_request& request) {
  return !request.reduction || *request.reduction != kernel::none;
}

/// Returns ARGUMENT if the request sets a member that a collective with a capacity does not use.
std::optional<failure> validate_capacity(const collective& kind, const collective_request& request) {
  const bool has_memory = request.input != nullptr || request.output != nullptr;
  const bool has_counts = request.counts != nullptr || request.recv_counts != nullptr || request.count != 0;
  const bool has_tunables = request.segment_bytes != 0 || request.radix != 0;
  return first_broken(
      {{collective_of_lists(kind) == nullptr,
        " does not support a capacity: use gatherv, scatterv, allgatherv or alltoallv"},
       {request.capacity > k_any_room && request.capacity != k_any_count,
        ": the capacity is above 2^32: use at most 2^32, or LSCHED_ANY_COUNT"},
       {has_counts, " has a capacity: leave counts null and count 0, and pass counts to each lsched_start_with"},
       {has_memory, " has a capacity: leave input and output null, and pass memory to each lsched_start_with"},
       {has_tunables, " has a capacity: leave segment_bytes and radix 0"},
       {!kind.is_rooted && request.root.value_or(0) != 0, " has no root: leave root 0"}},
      kind.name);
}

/// Returns ARGUMENT if a member is missing, or is set although the collective does not use it.
std::optional<failure> validate_members(const collective& kind, const collective_request& request) {
  const bool has_counts = kind.has_counts || kind.has_blocks;
  const bool has_neighbors = &kind == &k_neighbor_exchange;  // without neighbors, counts may be null
  const bool lacks_counts = request.counts == nullptr && !(has_neighbors && request.destination_count == 0);
  const bool lacks_recv_counts = request.recv_counts == nullptr && !(has_neighbors && request.source_count == 0);
  const bool names_neighbors = request.destinations != nullptr || request.sources != nullptr ||
                               request.destination_count != 0 || request.source_count != 0;
  const bool lacks_neighbors = (request.destination_count > 0 && request.destinations == nullptr) ||
                               (request.source_count > 0 && request.sources == nullptr);
  const bool names_tensors = !request.tensors || !request.tensors->empty();
  const std::string name(kind.name);
  const std::string combines = name + (kind.adapts ? " has its own arithmetic" : " has no reduction");
  if (!kind.reduces && request.user_op) return argument(combines + ": leave user_op null");
  if (kind.moves_data && !kind.reduces && has_reduction(request)) return argument(combines + ": leave reduction 0");
  if (!request.is_mean) return argument(name + " " + request.is_mean.error().text);
  if (request.capacity != 0) return validate_capacity(kind, request);
  return first_broken(
      {{has_counts && request.count != 0, " takes one count for each rank: set counts, and leave count 0"},
       {has_counts && lacks_counts, " takes one count for each rank, but counts is null: set counts"},
       {!has_counts && request.counts != nullptr, " takes a single count: set count, and leave counts null"},
       {kind.has_blocks && lacks_recv_counts, " needs recv_counts, but recv_counts is null"},
       {!kind.has_blocks && request.recv_counts != nullptr, " takes no recv_counts: leave recv_counts null"},
       {!has_neighbors && names_neighbors, " takes no destinations and sources: leave both null"},
       {request.destination_count < 0 || request.source_count < 0, ": destination_count or source_count is negative"},
       {lacks_neighbors, ": destinations or sources is null, but the count of this array is not 0"},
       {!kind.is_rooted && request.root.value_or(0) != 0, " has no root: leave root 0"},
       {kind.adapts && request.segment_bytes != 0, " does not split vectors into segments: leave segment_bytes 0"},
       {kind.adapts && request.radix != 0, " has no radix: leave radix 0"},
       {!kind.adapts && names_tensors, " has no tensors: leave tensors null and tensor_count 0"},
       {request.user_op && has_reduction(request), ": both reduction and user_op are given: leave one of the two 0"}},
      kind.name);
}

// --- the data ------------------------------------------------------------------------------------------------

result<shape> read_type_and_count(const collective_request& request) {
  if (!request.type) return request.type.error();
  if (auto why = validate_count(request.count)) return *why;
  return shape{request.count, *request.type};
}

result<shape> read_shape_of_user(const collective_request& request) {
  const result<user_operation>& user = *request.user_op;
  if (!user) return user.error();
  auto data = read_type_and_count(request);
  if (!data) return data;
  if (data->type != user->type) return argument("dtype is not that of user_op: set the same dtype in both");
  data->what = kernel::user;
  data->unit = user->with.unit;
  data->commutes = user->commutes;
  return data;
}

result<std::vector<exchanged_block>> read_blocks(const collective& kind, world place,
                                                 const collective_request& request) {
  if (!kind.has_blocks) return std::vector<exchanged_block>{};
  const bool is_listed = &kind == &k_neighbor_exchange;
  const auto ranks = static_cast<std::size_t>(place.size);
  const std::size_t to = is_listed ? static_cast<std::size_t>(request.destination_count) : ranks;
  const std::size_t from = is_listed ? static_cast<std::size_t>(request.source_count) : ranks;
  const exchange_half sent{{request.counts, to}, {request.destinations, is_listed ? to : 0}};
  const exchange_half received{{request.recv_counts, from}, {request.sources, is_listed ? from : 0}};
  return merged_blocks(sent, received, place.self);
}

result<shape> read_data(const collective& kind, world place, const collective_request& request) {
  if (auto why = validate_members(kind, request)) return *why;
  if (!kind.moves_data) return shape{.count = request.count, .is_mean = *request.is_mean, .radix = request.radix};
  if (!request.tensors) return request.tensors.error();
  auto data = request.user_op ? read_shape_of_user(request) : read_shape(kind, request);
  if (!data) return data;
  if (request.capacity != 0) {
    data->room = std::min(request.capacity, k_any_room);
  } else {
    auto blocks = read_blocks(kind, place, request);
    if (!blocks) return blocks.error();
    data->blocks = std::move(*blocks);
    if (kind.has_counts) data->counts.assign(request.counts, request.counts + place.size);
  }
  data->tensors = *request.tensors;
  data->is_mean = *request.is_mean;
  data->root = request.root.value_or(0);
  data->radix = request.radix;
  data->nodes = request.nodes;
  if (request.segment_bytes != 0)
    data->segment = std::max<std::uint64_t>(1, request.segment_bytes / size_of(data->type));
  return data;
}

// --- memory --------------------------------------------------------------------------------------------------

std::optional<failure> validate_memory(const rank_request& made, std::uint64_t inputs, std::uint64_t outputs) {
  const auto missing = [](const char* which, std::uint64_t count) {
    return argument(std::string(which) + " is null but has " + counted(count, "element") + ": pass its memory");
  };
  if (inputs > 0 && made.input == nullptr) return missing("input", inputs);
  if (outputs > 0 && made.output == nullptr) return missing("output", outputs);
  const std::uint64_t element = size_of(made.data.type);
  const memory_layout apart{};
  if (made.data.in_place || apart.fits({made.input, inputs * element}, {made.output, outputs * element}))
    return std::nullopt;
  return argument("input and output overlap, but are not in place: pass separate memory or the in-place addresses");
}

/// Reads the caller's memory. The root of a bcast may pass its buffer as input or as output.
std::optional<failure> read_memory(rank_request& made, world place, const collective_request& request) {
  made.buffers = made.kind->extents_of(place, made.data);
  if (made.data.room != 0) return std::nullopt;  // the caller passes memory with each round
  const void* const input = request.input == nullptr && made.kind == &k_bcast ? request.output : request.input;
  if (made.buffers.input) made.input = static_cast<const std::byte*>(input);
  if (made.buffers.output) made.output = static_cast<std::byte*>(request.output);
  const std::uint64_t inputs = made.buffers.input.value_or(0);
  const std::uint64_t outputs = made.buffers.output.value_or(0);
  if (inputs > 0 && outputs > 0) {
    const std::int64_t aliasing = made.kind->aliasing_of(place, made.data);
    made.aliasing_bytes = aliasing * static_cast<std::int64_t>(size_of(made.data.type));
    made.data.in_place = made.input != nullptr && made.input == made.output + made.aliasing_bytes;
  }
  return validate_memory(made, inputs, outputs);
}

result<rank_request> read_for_rank(const collective_request& request, world place) {
  if (request.depth < 0 || static_cast<std::size_t>(request.depth) > k_most_flights)
    return argument("depth is not from 0 to " + std::to_string(k_most_flights));
  if (request.collective.data() == nullptr) return argument("collective is null");
  const collective* const kind = find_collective(request.collective);
  if (kind == nullptr) return unknown_name(request.collective);
  if (kind->activates)
    return argument(std::string(kind->name) + " has a create function of its own: call lsched_partial_create");
  auto data = read_data(*kind, place, request);
  if (!data) return data.error();
  rank_request made{.kind = request.capacity == 0 ? kind : collective_of_lists(*kind),
                    .data = std::move(*data),
                    .depth = std::max<std::size_t>(1, static_cast<std::size_t>(request.depth))};
  const algorithm any{.of = made.kind, .needs = {.moves_lists = true}};
  if (auto why = validate(any, place, made.data)) return *why;
  if (auto why = read_memory(made, place, request)) return *why;
  return made;
}

}  // namespace

std::optional<failure> validate_count(std::uint64_t count) {
  if (count > k_max_count) return argument("count is " + std::to_string(count) + ", above the largest count, 2^48-1");
  return std::nullopt;
}

result<shape> read_shape(const collective& kind, const collective_request& request) {
  if (!kind.reduces && has_reduction(request))
    return argument(std::string(kind.name) + " does not use a reduction: leave reduction 0");
  auto data = read_type_and_count(request);
  if (!data || !kind.reduces) return data;
  data->what = kernel::adasum;
  if (kind.adapts && !has_reduction(request)) return data;
  if (!request.reduction) return request.reduction.error();
  if (*request.reduction == kernel::none) return argument("reduction is not an lsched_reduction");
  if (!supports(*request.reduction, data->type))
    return argument(std::string(name_of(*request.reduction)) + " is not defined for " +
                    std::string(name_of(data->type)));
  data->what = *request.reduction;
  return data;
}

std::string_view algorithm_of(const collective_request& request) {
  return request.algorithm.data() == nullptr ? "auto" : request.algorithm;
}

const collective* collective_of_lists(const collective& kind) {
  if (&kind == &k_gatherv) return &k_gather;
  if (&kind == &k_scatterv) return &k_scatter;
  if (&kind == &k_allgatherv) return &k_allgather;
  return &kind == &k_alltoallv ? &k_alltoall : nullptr;
}

result<rank_request> validate(const collective_request& request, world place) {
  auto made = read_for_rank(request, place);
  if (!made) return about(request.collective, made.error());
  return made;
}

failure about(std::string_view collective, failure why) {
  if (find_collective(collective) == nullptr) return why;
  const std::string name(collective);
  const bool is_named = why.text.starts_with(name + " ") || why.text.starts_with("\"" + name + "\"");
  if (!is_named) why.text.insert(0, name + ": ");
  return why;
}

}  // namespace lsched
