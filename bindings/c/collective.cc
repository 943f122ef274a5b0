// Collectives of the C interface: checks a desc, translates it for the generators, and creates the schedule.
#include <span>

#include "bindings/c/sized.h"
#include "bindings/c/words.h"
#include "bindings/c/world.h"
#include "collectives/algorithm/algorithm.h"
#include "collectives/compose.h"
#include "ops/counted.h"

namespace lsched {
namespace {

/// The collective that a call requests, and its memory. A pointer is null if this rank has no such buffer.
struct collective_request {
  const collective* kind = nullptr;
  shape data;
  extents buffers{};
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::int64_t aliasing_bytes = 0;  ///< in place: offset of the input from the beginning of the output
  user_kernel user{};               ///< for kernel::user
};

/// Returns the collective that implements `kind` if the request has a capacity. Its blocks are lists, whose lengths may
/// change in every round. Returns null if `kind` cannot have a capacity.
const collective* collective_of_lists(const collective& kind) {
  if (&kind == &k_gatherv) return &k_gather;
  if (&kind == &k_scatterv) return &k_scatter;
  if (&kind == &k_allgatherv) return &k_allgather;
  return &kind == &k_alltoallv ? &k_alltoall : nullptr;
}

/// Returns ARGUMENT if a member is set that a collective with a capacity does not use.
std::optional<failure> validate_capacity(const collective& kind, const lsched_collective_desc& desc) {
  const bool has_memory = desc.input != nullptr || desc.output != nullptr;
  const bool has_counts = desc.counts != nullptr || desc.recv_counts != nullptr || desc.count != 0;
  const bool has_tunables = desc.segment_bytes != 0 || desc.radix != 0;
  return first_broken({{collective_of_lists(kind) == nullptr,
                        " does not support a capacity: use gatherv, scatterv, allgatherv or alltoallv"},
                       {desc.capacity > k_any_room && desc.capacity != LSCHED_ANY_COUNT,
                        ": the capacity is above 2^32, and not LSCHED_ANY_COUNT"},
                       {has_counts, " has a capacity: give the counts to each start"},
                       {has_memory, " has a capacity: give the memory to each start"},
                       {has_tunables, " has a capacity: leave segment_bytes and radix 0"},
                       {!kind.is_rooted && desc.root != 0, " has no root: leave it 0"}},
                      kind.name);
}

/// Returns ARGUMENT if a member is missing, or is set although the collective does not use it.
std::optional<failure> validate_members(const collective& kind, const lsched_collective_desc& desc) {
  const bool has_counts = kind.has_counts || kind.has_blocks;
  const bool has_neighbors = &kind == &k_neighbor_exchange;  // without neighbors, counts may be null
  const bool lacks_counts = desc.counts == nullptr && !(has_neighbors && desc.destination_count == 0);
  const bool lacks_recv_counts = desc.recv_counts == nullptr && !(has_neighbors && desc.source_count == 0);
  const bool names_neighbors =
      desc.destinations != nullptr || desc.sources != nullptr || desc.destination_count != 0 || desc.source_count != 0;
  const bool lacks_neighbors = (desc.destination_count > 0 && desc.destinations == nullptr) ||
                               (desc.source_count > 0 && desc.sources == nullptr);
  const bool names_tensors = desc.tensors != nullptr || desc.tensor_count != 0;
  const std::string combines =
      std::string(kind.name) + (kind.adapts ? " combines by arithmetic of its own" : " combines nothing");
  if (!kind.reduces && desc.user_op != nullptr) return argument(combines + ": leave user_op null");
  if (kind.moves_data && !kind.reduces && static_cast<int>(desc.reduction) != 0)
    return argument(combines + ": leave reduction 0");
  const auto divisor = static_cast<int>(desc.divisor);
  if (divisor != LSCHED_DIVIDE_BY_NONE && divisor != LSCHED_DIVIDE_BY_RANKS)
    return argument(std::string(kind.name) + " does not support this divisor: use LSCHED_DIVIDE_BY_RANKS, or 0");
  if (desc.capacity != 0) return validate_capacity(kind, desc);
  return first_broken(
      {{has_counts && desc.count != 0, " takes counts by rank: leave count 0"},
       {has_counts && lacks_counts, " takes counts by rank, but counts is null"},
       {!has_counts && desc.counts != nullptr, " takes one count: leave counts null"},
       {kind.has_blocks && lacks_recv_counts, " needs recv_counts"},
       {!kind.has_blocks && desc.recv_counts != nullptr, " takes no recv_counts"},
       {!has_neighbors && names_neighbors, " takes no destinations and sources"},
       {desc.destination_count < 0 || desc.source_count < 0, ": destination_count or source_count is negative"},
       {lacks_neighbors, ": destinations or sources is null"},
       {!kind.is_rooted && desc.root != 0, " has no root: leave it 0"},
       {kind.adapts && desc.segment_bytes != 0, " has no segments: leave segment_bytes 0"},
       {kind.adapts && desc.radix != 0, " has no radix: leave it 0"},
       {!kind.adapts && names_tensors, " has no tensors: leave them NULL and 0"},
       {(desc.tensors == nullptr) != (desc.tensor_count == 0), ": tensors and tensor_count: set both, or none"},
       {desc.user_op != nullptr && static_cast<int>(desc.reduction) != 0, ": both reduction and user_op are given"}},
      kind.name);
}

/// The blocks that a rank sends, or the blocks that it receives, in order.
struct half {
  std::span<const std::uint64_t> counts;
  std::span<const std::int32_t> peers;  ///< empty: all ranks in order
  rank peer_of(std::size_t i) const { return peers.empty() ? static_cast<rank>(i) : peers[i]; }
};

/// Merges sent and received blocks into one list that keeps the order of both. The k-th block that this rank sends to
/// itself is the k-th block that it receives from itself.
result<std::vector<exchanged_block>> merged(const half& sent, const half& received, rank self) {
  std::vector<exchanged_block> all;
  std::size_t taken = 0;
  const auto take_from_others = [&] {
    for (; taken < received.counts.size() && received.peer_of(taken) != self; ++taken)
      all.push_back({received.peer_of(taken), self, received.counts[taken]});
    return taken < received.counts.size();
  };
  const failure odd_number = argument("this rank sends itself more or fewer blocks than it receives from itself");
  for (std::size_t i = 0; i < sent.counts.size(); ++i) {
    if (sent.peer_of(i) == self) {
      if (!take_from_others()) return odd_number;
      if (const std::uint64_t count = received.counts[taken++]; count != sent.counts[i])
        return argument("this rank sends itself " + counted(sent.counts[i], "element") + " but receives " +
                        std::to_string(count));
    }
    all.push_back({self, sent.peer_of(i), sent.counts[i]});
  }
  if (take_from_others()) return odd_number;
  return all;
}

result<std::vector<exchanged_block>> read_blocks(const collective& kind, world place,
                                                 const lsched_collective_desc& desc) {
  if (!kind.has_blocks) return std::vector<exchanged_block>{};
  const bool is_listed = &kind == &k_neighbor_exchange;
  const auto ranks = static_cast<std::size_t>(place.size);
  const std::size_t to = is_listed ? static_cast<std::size_t>(desc.destination_count) : ranks;
  const std::size_t from = is_listed ? static_cast<std::size_t>(desc.source_count) : ranks;
  const half sent{{desc.counts, to}, {desc.destinations, is_listed ? to : 0}};
  const half received{{desc.recv_counts, from}, {desc.sources, is_listed ? from : 0}};
  return merged(sent, received, place.self);
}

result<shape> read_data(const collective& kind, world place, const lsched_collective_desc& desc) {
  if (auto why = validate_members(kind, desc)) return *why;
  if (auto why = first_on_device({{"counts", desc.counts},
                                  {"recv_counts", desc.recv_counts},
                                  {"destinations", desc.destinations},
                                  {"sources", desc.sources},
                                  {"tensors", desc.tensors}}))
    return *why;
  const bool is_mean = static_cast<int>(desc.divisor) != 0;
  if (!kind.moves_data) return shape{.count = desc.count, .is_mean = is_mean, .radix = desc.radix};
  auto data = desc.user_op != nullptr ? read_shape(desc.count, desc.dtype, *desc.user_op)
                                      : read_shape(kind, desc.count, desc.dtype, desc.reduction);
  if (!data) return data;
  if (desc.capacity == 0) {
    auto blocks = read_blocks(kind, place, desc);
    if (!blocks) return blocks.error();
    data->blocks = std::move(*blocks);
  }
  if (kind.has_counts && desc.capacity == 0) data->counts.assign(desc.counts, desc.counts + place.size);
  for (const lsched_tensor& one : std::span(desc.tensors, desc.tensor_count))
    data->tensors.push_back({one.begin, one.count});
  data->is_mean = is_mean;
  data->root = desc.root;
  data->radix = desc.radix;
  if (desc.capacity != 0) data->room = std::min(desc.capacity, k_any_room);
  data->segment = desc.segment_bytes == 0 ? 0 : std::max<std::uint64_t>(1, desc.segment_bytes / size_of(data->type));
  return data;
}

// --- memory ------------------------------------------------------------------------------------------------

std::optional<failure> validate_memory(const collective_request& request, std::uint64_t inputs, std::uint64_t outputs) {
  const auto missing = [](const char* which, std::uint64_t count) {
    return argument(std::string(which) + " is null but has " + counted(count, "element"));
  };
  if (inputs > 0 && request.input == nullptr) return missing("input", inputs);
  if (outputs > 0 && request.output == nullptr) return missing("output", outputs);
  const std::uint64_t element = size_of(request.data.type);
  const memory_layout apart{};
  if (request.data.in_place || apart.fits({request.input, inputs * element}, {request.output, outputs * element}))
    return std::nullopt;
  return argument("input and output overlap, but are not in place");
}

/// Reads the caller's memory. The root of a bcast may pass its buffer as input or as output.
std::optional<failure> read_memory(collective_request& request, world place, const lsched_collective_desc& desc) {
  request.buffers = request.kind->extents_of(place, request.data);
  if (request.data.room != 0) return std::nullopt;  // the caller passes memory with each round
  const void* const input = desc.input == nullptr && request.kind == &k_bcast ? desc.output : desc.input;
  if (request.buffers.input) request.input = static_cast<const std::byte*>(input);
  if (request.buffers.output) request.output = static_cast<std::byte*>(desc.output);
  const std::uint64_t inputs = request.buffers.input.value_or(0);
  const std::uint64_t outputs = request.buffers.output.value_or(0);
  if (inputs > 0 && outputs > 0) {
    const std::int64_t aliasing = request.kind->aliasing_of(place, request.data);
    request.aliasing_bytes = aliasing * static_cast<std::int64_t>(size_of(request.data.type));
    request.data.in_place = request.input != nullptr && request.input == request.output + request.aliasing_bytes;
  }
  return validate_memory(request, inputs, outputs);
}

/// Reads the desc of a rank. Returns ARGUMENT for a member that is missing, out of range or not used by the collective,
/// and for buffers that overlap.
result<collective_request> read_request(const lsched_world& world, lsched_collective_desc desc) {
  if (desc.depth < 0 || static_cast<std::size_t>(desc.depth) > k_most_flights)
    return argument("depth is not from 0 to " + std::to_string(k_most_flights));
  const auto user_op = desc.user_op == nullptr ? lsched_user_op{} : read_struct(desc.user_op);
  if (!user_op) return user_op.error();
  if (desc.user_op != nullptr) desc.user_op = &*user_op;
  if (desc.collective == nullptr) return argument("collective is null");
  collective_request request{.kind = find_collective(desc.collective)};
  if (request.kind == nullptr) return choose(desc.collective, "auto", world.place(), {}).error();  // lists all names
  if (request.kind->activates) return argument(std::string(request.kind->name) + " has a create function of its own");
  auto data = read_data(*request.kind, world.place(), desc);
  if (!data) return data.error();
  request.data = std::move(*data);
  if (desc.capacity != 0) request.kind = collective_of_lists(*request.kind);
  if (request.kind->moves_data) request.data.nodes = world.nodes();
  if (auto why = validate(algorithm{.of = request.kind, .needs = {.moves_lists = true}}, world.place(), request.data))
    return *why;
  if (auto why = read_memory(request, world.place(), desc)) return *why;
  if (request.data.what == kernel::user) request.user = {user_op->combine, user_op->context, user_op->unit};
  return request;
}

/// Returns whether peers can read this rank's memory.
bool is_visible(lsched_world& world, const collective_request& request) {
  const auto is_shown = [&](const std::byte* place, std::optional<std::uint64_t> count) {
    const std::uint64_t bytes = count.value_or(0) * size_of(request.data.type);
    return bytes == 0 || world.process.net().memory().sends_from(place, bytes);
  };
  return is_shown(request.input, request.buffers.input) && is_shown(request.output, request.buffers.output);
}

/// Segment size in device memory. With shorter segments, the start of each copy would dominate the time. With longer
/// segments, copies would not overlap with computation. (docs/inside/cuda.md, 11)
constexpr std::uint64_t k_device_segment_bytes = std::uint64_t{4} << 20;

bool is_on_device(const lsched_world& world, const collective_request& request) {
  const device* const gpu = world.process.gpu();
  const auto is_there = [&](const std::byte* place, std::optional<std::uint64_t> count) {
    const auto space = gpu->space_of(place, count.value_or(0) * size_of(request.data.type));
    return space && *space == memory_space::device;
  };
  return gpu != nullptr &&
         (is_there(request.input, request.buffers.input) || is_there(request.output, request.buffers.output));
}

/// Chooses the algorithm and makes its schedule. If the caller has not set a segment size and the buffers are in device
/// memory, uses k_device_segment_bytes, but only if that changes the number of messages. Otherwise this rank must make
/// the same schedule as ranks with buffers in host memory.
result<cached_schedule> make_schedule(lsched_world& world, const collective_request& request, const char* algorithm) {
  const collective& kind = *request.kind;
  const std::string_view wanted = algorithm == nullptr ? "auto" : algorithm;
  const auto made = world.schedules_made.get(kind.name, wanted, request.data);
  const bool has_segments = kind.moves_data && !kind.adapts && !kind.has_blocks;
  if (!made || !has_segments || request.data.segment != 0 || request.data.room != 0) return made;
  const auto messages = [&](const shape& data) {
    return cost_of_round(*made->chosen.how, world.place().size, data, {}).messages;
  };
  shape cut = request.data;
  cut.segment = k_device_segment_bytes / size_of(cut.type);
  if (!is_on_device(world, request) || messages(cut) == messages(made->chosen.data)) return made;
  return world.schedules_made.get(kind.name, wanted, cut);
}

std::vector<tensor> tensors_of(const collective_request& request) {
  if (!request.kind->adapts) return {};
  return request.data.tensors.empty() ? std::vector<tensor>{{0, request.data.count}} : request.data.tensors;
}

/// Prefixes a failure with the name of the requested collective, unless the text begins with that name.
failure about(const lsched_collective_desc& desc, failure why) {
  if (desc.collective == nullptr || find_collective(desc.collective) == nullptr) return why;
  const std::string name(desc.collective);
  const bool is_named = why.text.starts_with(name + " ") || why.text.starts_with("\"" + name + "\"");
  if (!is_named) why.text.insert(0, name + ": ");
  return why;
}

result<creation> describe(lsched_world& world, const result<lsched_collective_desc>& desc) {
  if (!desc) return desc.error();
  auto request = read_request(world, *desc);
  if (!request) return about(*desc, request.error());
  if (request->kind->moves_data) request->data.is_visible = is_visible(world, *request);
  const auto made = make_schedule(world, *request, desc->algorithm);
  if (!made) return made.error();
  request->data.segment = made->chosen.data.segment;
  request->data.radix = made->chosen.data.radix;
  const std::string_view remark = node_warning(*made->chosen.how, world.place().size, request->data);
  const bool has_lists = request->data.room != 0;
  if (has_lists) look_for_gpu();
  binding memory;
  if (request->buffers.input) memory.inputs.push_back(request->input);
  if (request->buffers.output) memory.outputs.push_back(request->output);
  if (has_lists) memory.input_lists.resize(memory.inputs.size()), memory.output_lists.resize(memory.outputs.size());
  const std::size_t depth = std::max<std::size_t>(1, static_cast<std::size_t>(desc->depth));
  std::string agreement = agreement_of(*request->kind, request->data, made->chosen.how->name,
                                       desc->elements == nullptr ? "" : desc->elements);
  if (depth > 1) agreement += " depth " + std::to_string(depth);
  return creation{.request = {.agreement = std::move(agreement),
                              .program = made->program,
                              .memory = std::move(memory),
                              .options = {.user = request->user},
                              .flights = depth},
                  .extras = {.layout = {request->data.in_place, request->aliasing_bytes},
                             .tensors = tensors_of(*request),
                             .looks_at_tensors = world.place().size > 1 && remark.empty(),
                             .has_lists = has_lists},
                  .remark = std::string(remark)};
}

}  // namespace
}  // namespace lsched

using namespace lsched;

extern "C" {

lsched_status lsched_refuse(lsched_world* world, lsched_status code, const char* text, lsched_diagnostic* diagnostic) {
  lsched_schedule* none = nullptr;
  return create(world, &none, diagnostic, [&](lsched_world&) -> result<creation> {
    if (code >= LSCHED_OK || text == nullptr) return argument("code is not an error, or text is null");
    return failure{static_cast<status>(code), text};
  });
}

lsched_status lsched_collective_create(lsched_world* world, const lsched_collective_desc* desc,
                                       lsched_schedule** schedule, lsched_diagnostic* diagnostic) {
  return create(world, schedule, diagnostic, [&](lsched_world& w) { return describe(w, read_struct(desc)); });
}

}  // extern "C"
