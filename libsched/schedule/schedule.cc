#include "libsched/schedule/schedule.h"

#include <algorithm>
#include <array>
#include <concepts>

#include "libsched/schedule/schedule_file.h"

namespace lsched {

std::string_view name_of(buffer_role role) {
  constexpr std::array<std::string_view, 3> names{"input", "output", "scratch"};
  return names[static_cast<std::size_t>(role)];
}

namespace {

/// Returns the buffer of region a if the op has that region, else the buffer of region c, else nullptr.
const buffer* source_of(const schedule& program, const op& o) {
  const region first = o.a.exists() ? o.a : o.c;
  return first.exists() ? &program.buffers()[first.buffer()] : nullptr;
}

std::uint64_t elements_of(const op& o, const buffer& source) { return is_function(o.what) ? source.count : o.count; }

}  // namespace

operand_list operands_of(const op& o, std::span<const buffer> buffers) {
  if (o.kind != op_kind::compute || !is_function(o.what)) return own_operands_of(o);
  operand_list all;
  const auto add = [&](region op::*which) {
    const region place = o.*which;
    if (place.exists() && place.buffer() >= buffers.size()) all.add({which, place, o.type, o.count});
    if (!place.exists() || place.buffer() >= buffers.size()) return;
    const buffer& whole = buffers[place.buffer()];
    all.add({which, place, whole.type, whole.count, which == &op::c});
  };
  add(&op::a), add(&op::b), add(&op::c);
  return all;
}

bool is_on_device(const op& o, std::span<const buffer> buffers) {
  const auto is_device = [&](region part) {
    return part.exists() && part.buffer() < buffers.size() && buffers[part.buffer()].space == memory_space::device;
  };
  return is_device(o.a) || is_device(o.b) || is_device(o.c) || is_device(o.s);
}

std::uint64_t most_bytes(const schedule& program, const op& o) {
  const buffer* const under = source_of(program, o);
  return under == nullptr ? 0 : under->most_items(elements_of(o, *under)) * size_of(under->type);
}

std::uint64_t typical_bytes(const schedule& program, const op& o) {
  const buffer* const under = source_of(program, o);
  if (under == nullptr || !under->has_lists()) return most_bytes(program, o);
  return std::min(elements_of(o, *under) * under->lists.typical * size_of(under->type), most_bytes(program, o));
}

std::size_t count_of(const schedule& program, buffer_role role) {
  const auto all = program.buffers();
  return static_cast<std::size_t>(
      std::count_if(all.begin(), all.end(), [role](const buffer& b) { return b.role == role; }));
}

// --- picture -----------------------------------------------------------------------------------------------

namespace {

void append(std::string& out, std::string_view text) { out += text; }
void append(std::string& out, std::integral auto number) { out += std::to_string(number); }

template <class... Parts>
void append_all(std::string& out, const Parts&... parts) {
  (append(out, parts), ...);
}

/// Colors of the kinds of ops, in the order of op_kind. Signals have paler shades of the colors of messages.
constexpr std::array<std::string_view, 7> k_colours{"white",   "#6fa8dc", "#93c47d", "#f6b26b",
                                                    "#cfe2f3", "#d9ead3", "#ffe599"};

std::vector<std::uint32_t> in_degrees(const schedule& program) {
  std::vector<std::uint32_t> degree(program.ops().size(), 0);
  for (op_id id = 0; id < program.ops().size(); ++id)
    for (const op_id next : program.successors(id)) ++degree[next];
  return degree;
}

/// Appends the label of an op: kind, kernel, peer, regions and guard.
void append_label(std::string& out, const schedule& program, const op& o) {
  append(out, name_of(o.kind));
  if (o.what != kernel::none) append_all(out, " ", name_of(o.what));
  const bool is_out = is_outgoing(o.kind);
  if (is_communication(o.kind)) append_all(out, is_out ? " to " : " from ", o.peer);
  for (const operand& part : operands_of(o, program.buffers())) {
    const std::uint64_t count = part.is_sums || is_function(o.what) ? part.count : o.count;
    append_all(out, "\\nb", part.at.buffer(), "[", part.at.offset(), " +", count, "]");
  }
  if (o.guard != 0) append_all(out, "\\nguard ", o.guard);
}

void append_node(std::string& out, const schedule& program, op_id id, std::uint32_t in_degree) {
  const op& o = program.ops()[id];
  append_all(out, "  o", id, " [label=\"", id, ": ");
  append_label(out, program, o);
  if (o.need < in_degree) append_all(out, "\\nneeds ", o.need, " of ", in_degree);
  append_all(out, "\", fillcolor=\"", k_colours[static_cast<std::size_t>(o.kind)], "\"");
  if (o.need < in_degree) append(out, ", style=\"filled,dashed\"");
  if (id == program.exit()) append(out, ", peripheries=2");
  append(out, "];\n");
}

}  // namespace

/// The color of an op shows its kind. An op that waits for only some of its deps has a dashed border. The exit op has a
/// double border.
std::string to_dot(const schedule& program) {
  std::string out;
  append_all(out, "digraph schedule {\n  label=\"", escaped(program.name()), " rank ", program.place().self, " of ",
             program.place().size, "\";\n  node [shape=box, style=\"filled\", fontname=\"sans-serif\"];\n");
  const std::vector<std::uint32_t> degree = in_degrees(program);
  for (op_id id = 0; id < program.ops().size(); ++id) append_node(out, program, id, degree[id]);
  for (op_id id = 0; id < program.ops().size(); ++id)
    for (const op_id next : program.successors(id)) append_all(out, "  o", id, " -> o", next, ";\n");
  append(out, "}\n");
  return out;
}

}  // namespace lsched
