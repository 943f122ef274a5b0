#include "libsched/schedule/builder.h"

#include <algorithm>
#include <limits>

// Checks an op, buffer or dep when it is added: ids must exist, and numbers must be in range. compile.cc contains the
// checks that need the whole schedule.

namespace lsched {
namespace {

/// Maximum numbers of ops and of deps. k_no_op must not become an id, and the offsets of deps have 32 bits.
constexpr std::size_t k_most_ops = k_no_op;
constexpr std::size_t k_most_deps = std::numeric_limits<std::uint32_t>::max();

std::string op_text(op_id id) { return "op " + std::to_string(id); }

}  // namespace

builder::builder(world place, std::string name) {
  parts_.place = place;
  parts_.name = std::move(name);
  if (place.self >= 0 && place.self < place.size) return;
  fail(status::argument, "rank " + std::to_string(place.self) + " is outside a world of " + std::to_string(place.size) +
                             " ranks: use at least 0 and less than the number of ranks");
}

void builder::fail(status code, std::string text, op_id where, rank peer) {
  if (error() == nullptr) error_ = {code, std::move(text) + words_for_line(line_), peer, where};
}

// --- data --------------------------------------------------------------------------------------------------

buffer_id builder::declare(buffer_role role, dtype type, std::uint64_t count, memory_space space) {
  if (parts_.buffers.size() >= k_no_buffer) {
    fail(status::argument, "the schedule has more than " + std::to_string(k_no_buffer) + " buffers");
    return k_no_buffer;
  }
  if (count > k_max_count)
    fail(status::argument,
         "buffer " + std::to_string(parts_.buffers.size()) + " has more than 2^48-1 elements: use a smaller count");
  parts_.buffers.push_back({.role = role, .space = space, .type = type, .count = count});
  return static_cast<buffer_id>(parts_.buffers.size() - 1);
}

const buffer& builder::at(buffer_id id) const {
  static constexpr buffer k_nothing{};
  return id < parts_.buffers.size() ? parts_.buffers[id] : k_nothing;
}

buffer_id builder::lists(buffer_role role, dtype type, std::uint64_t count, const list_layout& layout) {
  const buffer_id made = declare(role, type, count);
  if (error() != nullptr) return made;
  const std::string who = "buffer " + std::to_string(made) + ": ";
  if (unit_ != 1) fail(status::argument, who + "lists cannot have units");
  if (layout.room == 0) fail(status::argument, who + "each list has room for 0 items: use a room of 1 or more");
  const bool fits = layout.room <= k_max_count && layout.total <= k_max_count &&
                    (layout.total != 0 || count == 0 || layout.room <= k_max_count / count);
  if (!fits) fail(status::argument, who + "the lists have room for more than 2^48-1 items: use a smaller room");
  if (layout.typical > layout.room) fail(status::argument, who + "the typical list is longer than the room of a list");
  parts_.buffers[made].lists = layout;
  return made;
}

// --- ops ---------------------------------------------------------------------------------------------------

op_id builder::append(const op& added, deps after) {
  if (error() != nullptr) return k_no_op;
  if (parts_.ops.size() >= k_most_ops) {
    fail(status::argument, "the schedule has more than " + std::to_string(k_most_ops) + " ops");
    return k_no_op;
  }
  const auto id = static_cast<op_id>(parts_.ops.size());
  op& appended = parts_.ops.emplace_back(added);
  if (line_ != 0) parts_.lines.resize(id), parts_.lines.push_back(line_);
  for (region op::*which : {&op::a, &op::b, &op::c, &op::s}) appended.*which = in_bucket(appended.*which);
  for (const op_id before : after) dep(before, id);
  return error() == nullptr ? id : k_no_op;
}

region builder::in_bucket(region part) const {
  if (!part.exists()) return part;
  const buffer_role role = at(part.buffer()).role;
  if (role == buffer_role::input) return {part.buffer(), part.offset() + bucket_.input_begin};
  if (role == buffer_role::output) return {part.buffer(), part.offset() + bucket_.output_begin};
  return part;
}

op_id builder::nop(deps after) { return append({}, after); }

op_id builder::send(rank to, std::uint32_t tag, region source, std::uint64_t count, deps after) {
  return append({.kind = op_kind::send,
                 .type = at(source.buffer()).type,
                 .peer = to,
                 .tag = tag_in_bucket(tag),
                 .count = count,
                 .a = source},
                after);
}

op_id builder::recv(rank from, std::uint32_t tag, region target, std::uint64_t count, deps after) {
  return append({.kind = op_kind::recv,
                 .type = at(target.buffer()).type,
                 .peer = from,
                 .tag = tag_in_bucket(tag),
                 .count = count,
                 .c = target},
                after);
}

/// The op has the dtype of its target if the kernel computes elements, else the dtype of operand a.
op_id builder::compute(kernel what, const operands& of, std::uint64_t count, const parameter_values& with, deps after) {
  const kernel_row& row = row_of(what);
  const region typed = row.c.type == operand_type::elements ? of.c : of.a;
  std::uint32_t index = 0;
  if (row.has_parameters()) {
    index = static_cast<std::uint32_t>(parts_.parameters.size());
    parts_.parameters.push_back(with);
  }
  return append({.kind = op_kind::compute,
                 .what = what,
                 .type = at(typed.buffer()).type,
                 .tag = index,
                 .count = count,
                 .a = of.a,
                 .b = of.b,
                 .c = of.c,
                 .s = of.s},
                after);
}

/// Sets the builder's error. The text names the compute op that would have been appended next.
void builder::refuse_kernel(const std::string& why) {
  const auto id = static_cast<op_id>(parts_.ops.size());
  fail(status::argument, op_text(id) + " (compute): the kernel " + why, id);
}

op_id builder::reduce(kernel what, region lower, region higher, region target, std::uint64_t count, deps after) {
  if (!is_reduction(what)) refuse_kernel("is not a reduction");
  return compute(what, {.a = lower, .b = higher, .c = target}, count, {}, after);
}

op_id builder::apply(kernel what, std::uint32_t function, buffer_id source, buffer_id by, buffer_id target,
                     deps after) {
  if (!is_function(what)) refuse_kernel("is not a function");
  return compute(what, {.a = {source, 0}, .b = {by, 0}, .c = {target, 0}}, at(target).count, {function}, after);
}

op_id builder::signal_send(rank to, std::uint32_t tag, deps after) {
  return append({.kind = op_kind::signal_send, .peer = to, .tag = bucket_.first_signal_tag + tag}, after);
}

op_id builder::signal_recv(rank from, std::uint32_t tag, deps after) {
  return append({.kind = op_kind::signal_recv, .peer = from, .tag = bucket_.first_signal_tag + tag}, after);
}

op_id builder::call(deps after) { return signal_recv(parts_.place.self, k_call_tag, after); }

op_id builder::full_call(deps after) { return signal_recv(parts_.place.self, k_full_call_tag, after); }

op_id builder::grace_call(deps after) { return signal_recv(parts_.place.self, k_grace_tag, after); }

op_id builder::left_call(rank r, deps after) {
  return signal_recv(parts_.place.self, k_left_tag + static_cast<std::uint32_t>(r), after);
}

op_id builder::capture(kernel merge, region target, std::uint64_t count, deps after) {
  return append(
      {.kind = op_kind::capture, .what = merge, .type = at(target.buffer()).type, .count = count, .c = target}, after);
}

// --- units -------------------------------------------------------------------------------------------------

std::uint64_t builder::widened(std::uint64_t units) {
  if (unit_ != 0 && units <= k_max_count / unit_) return units * unit_;
  fail(status::argument, std::to_string(units) + " units of " + std::to_string(unit_) +
                             " elements exceed the largest count, 2^48-1, or the unit is 0");
  return 0;
}

/// Converts all counts and offsets from units to elements.
void builder::widen() {
  for (buffer& b : parts_.buffers) b.count = widened(b.count);
  for (op& o : parts_.ops) {
    o.count = widened(o.count);
    for (region op::*which : {&op::a, &op::b, &op::c, &op::s})
      if (region& part = o.*which; part.exists()) part = {part.buffer(), widened(part.offset())};
  }
  unit_ = 1;
}

// --- order -------------------------------------------------------------------------------------------------

void builder::dep(op_id before, op_id after) {
  if (before == k_no_op || after == k_no_op || error() != nullptr) return;
  if (before >= parts_.ops.size() || after >= parts_.ops.size())
    return fail(status::argument,
                op_text(after) + " has a dep on " + op_text(before) + ", but only " +
                    std::to_string(parts_.ops.size()) + " ops exist: add the op before the dep",
                after);
  if (deps_.size() >= k_most_deps)
    return fail(status::argument,
                op_text(after) + ": the schedule has more than " + std::to_string(k_most_deps) + " deps", after);
  deps_.emplace_back(before, after);
}

void builder::set_entry(op_id first, op_id entry) {
  if (error() != nullptr) return;
  std::vector<bool> waits(parts_.ops.size(), false);
  for (const auto& [before, after] : deps_) waits[after] = true;
  for (op_id id = first; id < parts_.ops.size(); ++id)
    if (!waits[id]) dep(entry, id);
}

/// Returns true if the op exists and the builder has no error. `call` is the beginning of the error text.
bool builder::exists(op_id id, std::string_view call) {
  if (id >= parts_.ops.size())
    fail(status::argument, std::string(call) + " " + op_text(id) + ", which does not exist", id);
  return error() == nullptr;
}

void builder::set_need(op_id id, std::uint32_t need) {
  if (exists(id, "set_need names")) parts_.ops[id].need = need;
}

void builder::set_guard(op_id id, const guard& when) {
  if (!exists(id, "set_guard names")) return;
  if (when.every == 0 || when.every > k_longest_period)
    return fail(status::argument,
                op_text(id) + ": the period of the guard is " + std::to_string(when.every) + " rounds; use 1 to " +
                    std::to_string(k_longest_period),
                id);
  if (when.phase >= when.every)
    return fail(status::argument,
                op_text(id) + ": the phase of the guard is " + std::to_string(when.phase) + "; use 0 to " +
                    std::to_string(when.every - 1) + ", because the period is " + std::to_string(when.every) +
                    " rounds",
                id);
  auto found = std::ranges::find(parts_.guards, when);
  if (found == parts_.guards.end() && parts_.guards.size() == k_most_guards)
    return fail(status::argument,
                op_text(id) + ": the schedule has more than " + std::to_string(k_most_guards) + " guards", id);
  if (found == parts_.guards.end()) found = parts_.guards.insert(found, when);
  parts_.ops[id].guard = static_cast<std::size_t>(found - parts_.guards.begin() + 1) & k_most_guards;
}

void builder::set_guard(op_id first, op_id end, const guard& when) {
  for (op_id id = first; id < end && id < parts_.ops.size(); ++id)
    if (is_payload(parts_.ops[id].kind) || parts_.ops[id].kind == op_kind::compute) set_guard(id, when);
}

void builder::set_exit(op_id id) {
  if (exists(id, "set_exit names")) parts_.exit = id;
}

}  // namespace lsched
