#include "bindings/c/request.h"

#include <span>

#include "bindings/c/sized.h"
#include "bindings/c/words.h"
#include "collectives/selection.h"
#include "ops/counted.h"

namespace lsched {
namespace {

failure argument(std::string text) { return {status::argument, std::move(text)}; }

std::string text_of(std::string_view name) { return std::string(name); }

// --- what is asked for -------------------------------------------------------------------------------------

/// Which members the collective looks at, against those that were set: one that it would ignore is a mistake.
std::optional<failure> validate_members(const collective& of, const lsched_collective_desc& desc) {
  const std::string name = text_of(of.name);
  const bool has_counts = of.has_counts || of.has_blocks;
  if (has_counts && desc.count != 0) return argument(name + " takes counts by rank: leave count 0");
  const bool has_neighbors = &of == &k_neighbor_exchange;  // perhaps none: then their counts may be null
  const bool may_lack_counts = has_neighbors && desc.destination_count == 0;
  const bool may_lack_recv_counts = has_neighbors && desc.source_count == 0;
  if (has_counts != (desc.counts != nullptr) && !may_lack_counts)
    return argument(name +
                    (has_counts ? " takes counts by rank, but counts is null" : " takes one count: leave counts null"));
  if (of.has_blocks != (desc.recv_counts != nullptr) && !may_lack_recv_counts)
    return argument(name + (of.has_blocks ? " needs recv_counts" : " takes no recv_counts"));
  if (!has_neighbors && (desc.destinations != nullptr || desc.sources != nullptr || desc.destination_count != 0 ||
                         desc.source_count != 0))
    return argument(name + " has no destinations and sources of its own");
  if (desc.destination_count < 0 || desc.source_count < 0)
    return argument("destination_count or source_count is negative");
  if ((desc.destination_count > 0 && desc.destinations == nullptr) ||
      (desc.source_count > 0 && desc.sources == nullptr))
    return argument("destinations or sources is null");
  if (!of.is_rooted && desc.root != 0) return argument(name + " has no root: leave it 0");
  const bool has_tunables = !of.adapts && !of.has_owners;
  if (!has_tunables && desc.segment_bytes != 0) return argument(name + " has no segments: leave segment_bytes 0");
  if (!has_tunables && desc.radix != 0) return argument(name + " has no radix: leave it 0");
  if (!of.adapts && (desc.tensors != nullptr || desc.tensor_count != 0))
    return argument(name + " has no tensors: leave them NULL and 0");
  if ((desc.tensors == nullptr) != (desc.tensor_count == 0))
    return argument("tensors and tensor_count: one of them is missing");
  return std::nullopt;
}

/// A rank's blocks for others, or from others, one after the other.
struct half {
  std::span<const std::uint64_t> counts;
  std::span<const std::int32_t> peers;  ///< empty: all ranks in order
  rank peer_of(std::size_t i) const { return peers.empty() ? static_cast<rank>(i) : peers[i]; }
};

std::size_t next_self(const half& blocks, std::size_t from, rank self) {
  while (from < blocks.counts.size() && blocks.peer_of(from) != self) ++from;
  return from;
}

/// One list in which what this rank sends and what it receives each keep their order. The k-th block that it sends to
/// itself is the k-th it receives from itself.
result<std::vector<exchanged_block>> merged(const half& sent, const half& received, rank self) {
  std::vector<exchanged_block> all;
  for (std::size_t i = 0, k = 0;; ++i, ++k) {
    const std::size_t own_sent = next_self(sent, i, self);
    const std::size_t own_received = next_self(received, k, self);
    for (; i < own_sent; ++i) all.push_back({self, sent.peer_of(i), sent.counts[i]});
    for (; k < own_received; ++k) all.push_back({received.peer_of(k), self, received.counts[k]});
    const bool is_sent = i < sent.counts.size();
    if (is_sent != (k < received.counts.size()))
      return argument("this rank sends itself more or fewer blocks than it receives from itself");
    if (!is_sent) return all;
    if (sent.counts[i] != received.counts[k])
      return argument("this rank sends itself " + counted(sent.counts[i], "element") + " but receives " +
                      std::to_string(received.counts[k]));
    all.push_back({self, self, sent.counts[i]});
  }
}

result<std::vector<exchanged_block>> read_blocks(const collective& of, world place,
                                                 const lsched_collective_desc& desc) {
  if (!of.has_blocks) return std::vector<exchanged_block>{};
  const bool is_listed = &of == &k_neighbor_exchange;
  const auto ranks = static_cast<std::size_t>(place.size);
  const std::size_t to = is_listed ? static_cast<std::size_t>(desc.destination_count) : ranks;
  const std::size_t from = is_listed ? static_cast<std::size_t>(desc.source_count) : ranks;
  const half sent{{desc.counts, to}, {desc.destinations, is_listed ? to : 0}};
  const half received{{desc.recv_counts, from}, {desc.sources, is_listed ? from : 0}};
  return merged(sent, received, place.self);
}

/// Why a member that says how to combine has to stay empty.
std::string has_no_say(const collective& of) {
  const bool has_its_own = of.adapts || of.has_owners;
  return text_of(of.name) + (has_its_own ? " combines by arithmetic of its own" : " combines nothing") + ": leave ";
}

result<shape> read_data(const collective& of, world place, const lsched_collective_desc& desc) {
  if (auto why = validate_members(of, desc)) return *why;
  if (!of.moves_data && desc.user_op != nullptr) return argument(has_no_say(of) + "user_op null");
  if (!of.moves_data) return shape{.count = desc.count, .radix = desc.radix};
  auto data = !of.reduces               ? read_shape(desc.count, desc.dtype)
              : desc.user_op != nullptr ? read_shape(desc.count, desc.dtype, *desc.user_op)
                                        : read_shape(desc.count, desc.dtype, desc.reduction);
  if (!data) return data;
  if (desc.user_op != nullptr && !of.reduces) return argument(has_no_say(of) + "user_op null");
  if (desc.user_op != nullptr && static_cast<int>(desc.reduction) != 0)
    return argument("both reduction and user_op are given");
  if (!of.reduces && static_cast<int>(desc.reduction) != 0) return argument(has_no_say(of) + "reduction 0");
  auto blocks = read_blocks(of, place, desc);
  if (!blocks) return blocks.error();
  data->blocks = std::move(*blocks);
  if (of.has_counts) data->counts.assign(desc.counts, desc.counts + place.size);
  for (std::uint64_t i = 0; i < desc.tensor_count; ++i)
    data->tensors.push_back({desc.tensors[i].begin, desc.tensors[i].count});
  data->root = desc.root;
  data->radix = desc.radix;
  data->segment = desc.segment_bytes == 0 ? 0 : std::max<std::uint64_t>(1, desc.segment_bytes / size_of(data->type));
  return data;
}

// --- memory ------------------------------------------------------------------------------------------------

std::string missing(std::string_view which, std::uint64_t count) {
  return std::string(which) + " is null but has " + counted(count, "element");
}

std::optional<failure> validate_memory(const collective_request& asked, const extents& buffers) {
  if (buffers.input.value_or(0) > 0 && asked.input == nullptr) return argument(missing("input", *buffers.input));
  if (buffers.output.value_or(0) > 0 && asked.output == nullptr) return argument(missing("output", *buffers.output));
  if (asked.data.in_place || buffers.input.value_or(0) == 0 || buffers.output.value_or(0) == 0) return std::nullopt;
  const std::uint64_t element = size_of(asked.data.type);
  const auto input = reinterpret_cast<std::uintptr_t>(asked.input);
  const auto output = reinterpret_cast<std::uintptr_t>(asked.output);
  const std::uint64_t input_end = input + *buffers.input * element;
  const std::uint64_t output_end = output + *buffers.output * element;
  if (input < output_end && output < input_end) return argument("input and output overlap, and not as in place");
  return std::nullopt;
}

/// The root's buffer of a bcast may be given as either.
void place_buffers(collective_request& asked, const extents& buffers, const lsched_collective_desc& desc) {
  const void* input = desc.input == nullptr && asked.of == &k_bcast ? desc.output : desc.input;
  if (buffers.input) asked.input = static_cast<const std::byte*>(input);
  if (buffers.output) asked.output = static_cast<std::byte*>(desc.output);
}

}  // namespace

result<collective_request> read_request(world place, const std::vector<rank>& nodes, lsched_collective_desc desc) {
  const auto user_op = desc.user_op == nullptr ? lsched_user_op{} : read_struct(desc.user_op);
  if (!user_op) return user_op.error();
  if (desc.user_op != nullptr) desc.user_op = &*user_op;
  if (desc.collective == nullptr) return argument("collective is null");
  collective_request asked{.of = find_collective(desc.collective)};
  if (asked.of == nullptr) return choose(desc.collective, "auto", place, {}).error();  // lists those that exist
  if (asked.of->activates) return argument(text_of(asked.of->name) + " has a create function of its own");
  auto data = read_data(*asked.of, place, desc);
  if (!data) return data.error();
  asked.data = std::move(*data);
  if (asked.of->moves_data) asked.data.nodes = nodes;
  if (auto why = validate(algorithm{.of = asked.of}, place, asked.data)) return *why;
  const extents buffers = asked.of->extents_of(place, asked.data);
  place_buffers(asked, buffers, desc);
  if (buffers.input.value_or(0) > 0 && buffers.output.value_or(0) > 0) {
    const std::int64_t aliasing = asked.of->aliasing_of(place, asked.data);
    asked.aliasing_bytes = aliasing * static_cast<std::int64_t>(size_of(asked.data.type));
    asked.data.in_place = asked.input != nullptr && asked.input == asked.output + asked.aliasing_bytes;
  }
  if (auto why = validate_memory(asked, buffers)) return *why;
  if (asked.data.what == kernel::user) asked.user = {user_op->combine, user_op->context, user_op->unit};
  return asked;
}

namespace {

/// A number that tells long lists apart.
std::string digest_of(std::span<const std::uint64_t> numbers) {
  std::uint64_t hash = 0;
  for (const std::uint64_t it : numbers) hash = (hash ^ it) * 0x9e3779b97f4a7c15u;
  return std::to_string(hash);
}

}  // namespace

std::string text_of_tensors(const shape& data) {
  if (data.tensors.empty()) return {};
  std::vector<std::uint64_t> cuts;
  for (const tensor& it : data.tensors) cuts.insert(cuts.end(), {it.begin, it.count});
  return " in " + counted(data.tensors.size(), "tensor") + " (" + digest_of(cuts) + ")";
}

std::string agreement_of(const collective_request& asked, std::string_view algorithm) {
  const shape& data = asked.data;
  std::string text = text_of(asked.of->name) + " " + text_of(algorithm);
  if (data.radix != 0) text += " radix " + std::to_string(data.radix);
  if (!asked.of->moves_data) return text;
  if (asked.of->reduces) text += " " + text_of(name_of(data.what));
  if (data.what == kernel::user)
    text += std::string(data.commutes ? " commutative" : " ordered") + " unit " + std::to_string(data.unit);
  text += " " + text_of(name_of(data.type));
  if (!asked.of->has_blocks && !asked.of->has_counts) text += " count " + std::to_string(data.count);
  if (asked.of->has_counts) {
    std::uint64_t sum = 0;
    for (const std::uint64_t count : data.counts) sum += count;
    text += " counts of " + std::to_string(sum) + " in all (" + digest_of(data.counts) + ")";
  }
  text += text_of_tensors(data);
  if (asked.of->is_rooted) text += " root " + std::to_string(data.root);
  if (data.segment != 0) text += " segment " + std::to_string(data.segment);
  return text;
}

}  // namespace lsched
