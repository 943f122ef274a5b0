// The create function for collectives of the C interface, which creates the schedule that a desc requests.
#include "bindings/c/sized.h"
#include "bindings/c/words.h"
#include "bindings/c/world.h"
#include "collectives/requests/planned_collective.h"

namespace lsched {
namespace {

result<bool> read_divisor(lsched_divisor divisor) {
  if (divisor == LSCHED_DIVIDE_BY_NONE || divisor == LSCHED_DIVIDE_BY_RANKS) return divisor == LSCHED_DIVIDE_BY_RANKS;
  return argument("does not support this divisor: use LSCHED_DIVIDE_BY_RANKS, or 0");
}

std::optional<result<user_operation>> read_optional_user_op(const lsched_user_op* user_op) {
  if (user_op == nullptr) return std::nullopt;
  const auto known = read_struct(user_op);
  return known ? read_user_op(*known) : known.error();
}

/// Reads the desc of a rank. Returns ARGUMENT if an array of the desc is in device memory.
result<collective_request> read_request(const lsched_world& world, const lsched_collective_desc& desc) {
  if (auto why = first_on_device({{"counts", desc.counts},
                                  {"recv_counts", desc.recv_counts},
                                  {"destinations", desc.destinations},
                                  {"sources", desc.sources},
                                  {"tensors", desc.tensors}}))
    return about(view_of(desc.collective), std::move(*why));
  return collective_request{.collective = view_of(desc.collective),
                            .algorithm = view_of(desc.algorithm),
                            .count = desc.count,
                            .type = read_dtype(desc.dtype),
                            .reduction = read_optional_reduction(desc.reduction),
                            .user_op = read_optional_user_op(desc.user_op),
                            .is_mean = read_divisor(desc.divisor),
                            .root = desc.root,
                            .segment_bytes = desc.segment_bytes,
                            .radix = desc.radix,
                            .tensors = read_tensors(desc.tensors, desc.tensor_count),
                            .nodes = world.nodes(),
                            .elements = view_of(desc.elements),
                            .counts = desc.counts,
                            .recv_counts = desc.recv_counts,
                            .destinations = desc.destinations,
                            .sources = desc.sources,
                            .destination_count = desc.destination_count,
                            .source_count = desc.source_count,
                            .input = desc.input,
                            .output = desc.output,
                            .capacity = desc.capacity,
                            .depth = desc.depth};
}

memory_properties properties_of(const lsched_world& world) {
  const auto is_on_device = [&process = world.process](const std::byte* begin, std::uint64_t bytes) {
    if (process.gpu() == nullptr) return false;
    const auto space = process.gpu()->memory().space_of(begin, bytes);
    return space && *space == memory_space::device;
  };
  const auto is_visible = [&process = world.process](const std::byte* begin, std::uint64_t bytes) {
    return process.net().memory().sends_from(begin, bytes);
  };
  return {.is_visible = is_visible, .is_on_device = is_on_device};
}

result<creation> describe(lsched_world& world, const result<lsched_collective_desc>& desc) {
  if (!desc) return desc.error();
  const auto request = read_request(world, *desc);
  if (!request) return request.error();
  auto made = plan(world.schedules_made, *request, properties_of(world));
  if (!made) return made.error();
  const bool has_lists = made->data.room != 0;
  if (has_lists) look_for_gpu();
  binding memory;
  if (made->buffers.input) memory.inputs.push_back(made->input);
  if (made->buffers.output) memory.outputs.push_back(made->output);
  if (has_lists) memory.input_lists.resize(memory.inputs.size()), memory.output_lists.resize(memory.outputs.size());
  creation all{.request = {.agreement = std::move(made->agreement),
                           .program = std::move(made->program),
                           .memory = std::move(memory),
                           .flights = made->depth},
               .extras = {.layout = {made->data.in_place, made->aliasing_bytes},
                          .tensors = std::move(made->tensors),
                          .looks_at_tensors = made->combines_tensors,
                          .has_lists = has_lists},
               .warning = std::string(made->warning)};
  if (request->user_op) all.request.options.user = (*request->user_op)->with;
  return all;
}

}  // namespace
}  // namespace lsched

using namespace lsched;

extern "C" {

lsched_status lsched_refuse(lsched_world* world, lsched_status code, const char* text, lsched_diagnostic* diagnostic) {
  lsched_schedule* none = nullptr;
  return create(world, &none, diagnostic, [&](lsched_world&) -> result<creation> {
    if (code >= LSCHED_OK || text == nullptr) return argument("code is not an LSCHED_ERR_ status, or text is null");
    return failure{static_cast<status>(code), text};
  });
}

lsched_status lsched_collective_create(lsched_world* world, const lsched_collective_desc* desc,
                                       lsched_schedule** schedule, lsched_diagnostic* diagnostic) {
  return create(world, schedule, diagnostic, [&](lsched_world& w) { return describe(w, read_struct(desc)); });
}

}  // extern "C"
