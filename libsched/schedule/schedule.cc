#include "libsched/schedule/schedule.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <concepts>
#include <type_traits>

#include "libsched/schedule/schedule_file.h"

namespace lsched {

std::string_view name_of(buffer_role role) {
  constexpr std::array<std::string_view, 3> names{"input", "output", "scratch"};
  return names[static_cast<std::size_t>(role)];
}

namespace {

/// Of what the op moves or reads: its first region.
const buffer* source_of(const schedule& program, const op& what) {
  const region first = what.a.exists() ? what.a : what.c;
  return first.exists() ? &program.buffers()[first.buffer()] : nullptr;
}

std::uint64_t elements_of(const op& what, const buffer& source) {
  return is_function(what.what) ? source.count : what.count;
}

}  // namespace

operand_list operands_of(const op& what, std::span<const buffer> buffers) {
  if (what.kind != op_kind::compute || !is_function(what.what)) return own_operands_of(what);
  operand_list all;
  const auto add = [&](region op::*which) {
    const region at = what.*which;
    if (at.exists() && at.buffer() >= buffers.size()) all.add({which, at, what.type, what.count});
    if (!at.exists() || at.buffer() >= buffers.size()) return;
    const buffer& whole = buffers[at.buffer()];
    all.add({which, at, whole.type, whole.count, which == &op::c});
  };
  add(&op::a), add(&op::b), add(&op::c);
  return all;
}

std::uint64_t most_bytes(const schedule& program, const op& what) {
  const buffer* const under = source_of(program, what);
  return under == nullptr ? 0 : under->most_items(elements_of(what, *under)) * size_of(under->type);
}

std::uint64_t typical_bytes(const schedule& program, const op& what) {
  const buffer* const under = source_of(program, what);
  if (under == nullptr || !under->has_lists()) return most_bytes(program, what);
  return std::min(elements_of(what, *under) * under->lists.typical * size_of(under->type), most_bytes(program, what));
}

std::size_t count_of(const schedule& program, buffer_role role) {
  const auto all = program.buffers();
  return static_cast<std::size_t>(
      std::count_if(all.begin(), all.end(), [role](const buffer& it) { return it.role == role; }));
}

// --- text --------------------------------------------------------------------------------------------------

namespace {

void append(std::string& out, std::string_view text) { out += text; }
void append(std::string& out, std::integral auto number) { out += std::to_string(number); }

template <class... Parts>
void append_all(std::string& out, const Parts&... parts) {
  (append(out, parts), ...);
}

void append_quoted(std::string& out, std::string_view text) { append_all(out, "\"", escaped(text), "\""); }

void append_region(std::string& out, region place, std::uint64_t count) {
  append_all(out, "b", place.buffer(), "[", place.offset(), " +", count, "]");
}

void append_place(std::string& out, const op& it, region place) {
  append_all(out, " ", name_of(it.type), " ");
  append_region(out, place, it.count);
}

void append(std::string& out, const parameter_rule& rule, parameter value) {
  if (rule.type == parameter_type::integer) return append(out, value.integer());
  std::array<char, 32> digits;  // the fewest that give the same number back
  append(out, {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value.real()).ptr});
}

/// Target, kernel, operands and parameters, as the kernel's row has them: `compute f32 c = sum a b`, `compute f32 c =
/// adasum a b by sums`, `compute f32 c = divide a divisor 4`; a target that is not of the op's type says so, `compute
/// f64 sums = dot_norms f32 a b`. Version 2 had no names for parameters: a function's number was in front of the
/// operands, any other parameter behind "by".
void append_compute(std::string& out, const schedule& program, const op& it, unsigned version) {
  const kernel_row& row = row_of(it.what);
  const parameter_values& with = program.parameters_of(it);
  const operand_list operands = operands_of(it, program.buffers());
  const auto append_operand = [&](region op::*which) {
    const auto place = std::ranges::find(operands, which, &operand::which);
    if (place != operands.end()) append_region(out, place->at, place->count);
  };
  append_all(out, " ", name_of(row.c.type_in(it.type)), " ");
  append_operand(&op::c);
  append_all(out, " = ", row.name);
  if (row.c.type != operand_type::elements) append_all(out, " ", name_of(it.type));
  const bool has_number_first = version == 2 && row.is(trait::function);
  if (has_number_first) append_all(out, " ", with.front().integer());
  for (const auto& [which, rule] : {std::pair{&op::a, row.a}, {&op::b, row.b}, {&op::s, row.s}}) {
    if (!(it.*which).exists()) continue;
    append(out, rule.steers ? " by " : " ");
    append_operand(which);
  }
  for (std::size_t i = 0; i < with.size() && row.parameters[i].exists() && !has_number_first; ++i) {
    append_all(out, " ", version == 2 ? "by" : row.parameters[i].name, " ");
    append(out, row.parameters[i], with[i]);
  }
  if (it.releases_a != k_no_op) append_all(out, " releases_a ", it.releases_a);
  if (it.releases_b != k_no_op) append_all(out, " releases_b ", it.releases_b);
}

/// What the op does, without its number and deps.
void append_work(std::string& out, const schedule& program, const op& it, unsigned version) {
  append(out, name_of(it.kind));
  if (it.kind == op_kind::compute) append_compute(out, program, it, version);
  if (it.kind == op_kind::send) append_place(out, it, it.a);
  if (it.kind == op_kind::recv || it.kind == op_kind::capture) append_place(out, it, it.c);
  if (it.kind == op_kind::capture) append_all(out, " merge ", name_of(it.what));
  if (!is_communication(it.kind)) return;
  const bool is_out = it.kind == op_kind::send || it.kind == op_kind::signal_send;
  append_all(out, is_out ? " to " : " from ", it.peer, " tag ", it.tag);
  if (it.in_place) append(out, " in_place");
}

void append_head(std::string& out, const schedule& program, unsigned version) {
  append_all(out, "libsched schedule ", version, "\nname ");
  append_quoted(out, program.name());
  append_all(out, "\nrank ", program.place().self, " of ", program.place().size);
  append_all(out, "\nflags", program.is_synchronising() ? " synchronising" : "",
             program.is_holding() ? " holding" : "");
  const activation& starts = program.starts();
  append_all(out, "\nactivation ", name_of(starts.policy));
  if (has_number(starts.policy)) append_all(out, " ", starts.number);
  if (starts.full_every != 0) append_all(out, " every ", starts.full_every);
  append_all(out, " seed ", starts.seed);
  append_all(out, "\nsizes buffers ", program.buffers().size(), " guards ", program.guards().size(), " ops ",
             program.ops().size(), " deps ", program.dep_count(), "\n");
}

std::string words_for(const list_layout& lists) {
  if (lists.room == 0) return {};
  const std::string packed = lists.total == 0 ? "" : " packed " + std::to_string(lists.total);
  return " lists " + std::to_string(lists.room) + packed + " typical " + std::to_string(lists.typical);
}

void append_op(std::string& out, const schedule& program, op_id id, unsigned version) {
  append_all(out, "op ", id, " ");
  append_work(out, program, program.ops()[id], version);
  if (program.ops()[id].guard != 0) append_all(out, " guard ", program.ops()[id].guard);
  append_all(out, " need ", program.ops()[id].need);
  if (!program.successors(id).empty()) append(out, " then");
  for (const op_id next : program.successors(id)) append_all(out, " ", next);
  out += '\n';
}

}  // namespace

/// Lossless for whatever compile() made: parse_schedule gives it back. Words are separated by one space, lines end in
/// one newline, numbers are decimal without sign or leading zeros, lists are numbered from 0 without gaps. The grammar
/// is in docs/schedule_file.md; whoever changes it changes its version, there, here and in parser.cc.
/// Older versions are for the parser, which walks along them.
std::string to_text(const schedule& program, unsigned version) {
  std::string out;
  append_head(out, program, version);
  std::size_t number = 0;
  for (const buffer& it : program.buffers())
    append_all(out, "buffer ", number++, " ", name_of(it.role), it.space == memory_space::host ? " host " : " device ",
               name_of(it.type), " ", it.count, words_for(it.lists), "\n");
  number = 1;
  for (const guard& it : program.guards())
    append_all(out, "guard ", number++, " every ", it.every, it.skips_empty ? " skips_empty" : "", "\n");
  for (op_id id = 0; id < program.ops().size(); ++id) append_op(out, program, id, version);
  append_all(out, "exit ", program.exit(), "\n");
  return out;
}

// --- picture -----------------------------------------------------------------------------------------------

namespace {

/// In the order of op_kind; signals are the paler relatives of payload.
constexpr std::array<std::string_view, 7> k_colours{"white",   "#6fa8dc", "#93c47d", "#f6b26b",
                                                    "#cfe2f3", "#d9ead3", "#ffe599"};

std::vector<std::uint32_t> in_degrees(const schedule& program) {
  std::vector<std::uint32_t> degree(program.ops().size(), 0);
  for (op_id id = 0; id < program.ops().size(); ++id)
    for (const op_id next : program.successors(id)) ++degree[next];
  return degree;
}

/// With whom, what, where.
void append_label(std::string& out, const schedule& program, const op& it) {
  append(out, name_of(it.kind));
  if (it.what != kernel::none) append_all(out, " ", name_of(it.what));
  const bool is_out = it.kind == op_kind::send || it.kind == op_kind::signal_send;
  if (is_communication(it.kind)) append_all(out, is_out ? " to " : " from ", it.peer);
  for (const operand& part : operands_of(it, program.buffers())) {
    append(out, "\\n");
    append_region(out, part.at, part.is_sums || is_function(it.what) ? part.count : it.count);
  }
  if (it.guard != 0) append_all(out, "\\nguard ", it.guard);
}

void append_node(std::string& out, const schedule& program, op_id id, std::uint32_t in_degree) {
  const op& it = program.ops()[id];
  append_all(out, "  o", id, " [label=\"", id, ": ");
  append_label(out, program, it);
  if (it.need < in_degree) append_all(out, "\\nneeds ", it.need, " of ", in_degree);
  append_all(out, "\", fillcolor=\"", k_colours[static_cast<std::size_t>(it.kind)], "\"");
  if (it.need < in_degree) append(out, ", style=\"filled,dashed\"");
  if (id == program.exit()) append(out, ", peripheries=2");
  append(out, "];\n");
}

}  // namespace

/// Colours by kind, a dashed border where fewer tokens than deps are needed, a double border at the exit.
std::string to_dot(const schedule& program) {
  std::string out = "digraph schedule {\n  label=";
  append_quoted(out, program.name() + " rank " + std::to_string(program.place().self) + " of " +
                         std::to_string(program.place().size));
  append(out, ";\n  node [shape=box, style=\"filled\", fontname=\"sans-serif\"];\n");
  const std::vector<std::uint32_t> degree = in_degrees(program);
  for (op_id id = 0; id < program.ops().size(); ++id) append_node(out, program, id, degree[id]);
  for (op_id id = 0; id < program.ops().size(); ++id)
    for (const op_id next : program.successors(id)) append_all(out, "  o", id, " -> o", next, ";\n");
  append(out, "}\n");
  return out;
}

}  // namespace lsched
