#include "collectives/requests/planned_collective.h"

#include <optional>

#include "collectives/compose.h"
#include "collectives/requests/agreement.h"

namespace lsched {
namespace {

std::uint64_t bytes_in(const rank_request& request, std::optional<std::uint64_t> count) {
  return count.value_or(0) * size_of(request.data.type);
}

bool is_visible(const rank_request& request, const memory_properties& memory) {
  const auto is_shown = [&](const std::byte* begin, std::uint64_t bytes) {
    return bytes == 0 || memory.is_visible(begin, bytes);
  };
  return is_shown(request.input, bytes_in(request, request.buffers.input)) &&
         is_shown(request.output, bytes_in(request, request.buffers.output));
}

bool is_on_device(const rank_request& request, const memory_properties& memory) {
  return memory.is_on_device(request.input, bytes_in(request, request.buffers.input)) ||
         memory.is_on_device(request.output, bytes_in(request, request.buffers.output));
}

std::vector<tensor> tensors_of(const rank_request& request) {
  if (!request.kind->adapts) return {};
  return request.data.tensors.empty() ? std::vector<tensor>{{0, request.data.count}} : request.data.tensors;
}

}  // namespace

result<cached_schedule> make_schedule(schedule_cache& made, const rank_request& request, std::string_view algorithm,
                                      const memory_properties& memory) {
  const collective& kind = *request.kind;
  const auto plain = made.get(kind.name, algorithm, request.data);
  const bool has_segments = kind.moves_data && !kind.adapts && !kind.has_blocks;
  if (!plain || !has_segments || request.data.segment != 0 || request.data.room != 0) return plain;
  const auto messages = [&](const shape& data) {
    return cost_of_round(*plain->chosen.how, made.place().size, data, {}).messages;
  };
  shape cut = request.data;
  cut.segment = k_device_segment_bytes / size_of(cut.type);
  if (!is_on_device(request, memory) || messages(cut) == messages(plain->chosen.data)) return plain;
  return made.get(kind.name, algorithm, cut);
}

result<planned_collective> plan(schedule_cache& made, const collective_request& request,
                                const memory_properties& memory) {
  auto valid = validate(request, made.place());
  if (!valid) return valid.error();
  planned_collective all{std::move(*valid)};
  if (all.kind->moves_data) all.data.is_visible = is_visible(all, memory);
  const auto chosen = make_schedule(made, all, algorithm_of(request), memory);
  if (!chosen) return chosen.error();
  const algorithm& how = *chosen->chosen.how;
  all.data.segment = chosen->chosen.data.segment;
  all.data.radix = chosen->chosen.data.radix;
  all.program = chosen->program;
  all.agreement = agreement_of(*all.kind, all.data, how.name, request.elements);
  if (all.depth > 1) all.agreement += " depth " + std::to_string(all.depth);
  all.warning = node_warning(how, made.place().size, all.data);
  all.tensors = tensors_of(all);
  all.combines_tensors = made.place().size > 1 && all.warning.empty();
  return all;
}

}  // namespace lsched
