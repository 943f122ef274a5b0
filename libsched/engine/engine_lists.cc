// Runs ops on lists, and handles void ops: ops whose guard (a condition on rounds) is false.
#include <algorithm>
#include <cstring>

#include "libsched/engine/engine.h"

namespace lsched {

// --- the user's lists -----------------------------------------------------------------------------------------------

std::optional<failure> engine::validate_lists(const schedule& program, const binding& memory) {
  const auto number = [&](buffer_role role) {
    return static_cast<std::size_t>(std::ranges::count_if(
        program.buffers(), [role](const buffer& data) { return data.role == role && data.has_lists(); }));
  };
  if (memory.input_lists.size() == number(buffer_role::input) &&
      memory.output_lists.size() == number(buffer_role::output))
    return std::nullopt;
  return failure{status::argument,
                 "the schedule has lists as inputs or outputs, and needs memory for their lengths, too"};
}

std::optional<failure> engine::reserve_lists(instance& inst, const binding& memory) {
  const auto buffers = inst.program->buffers();
  if (std::ranges::none_of(buffers, &buffer::has_lists)) return std::nullopt;
  if (auto why = validate_lists(*inst.program, memory)) return why;
  inst.lists.resize(buffers.size());
  for (std::size_t b = 0; b < buffers.size(); ++b)
    if (buffers[b].has_lists()) inst.lists[b].emplace(buffers[b]);
  return std::nullopt;
}

void engine::bind_lists(instance& inst, const binding& memory) {
  inst.user_lists.clear();
  std::size_t inputs = 0, outputs = 0;
  for (std::uint16_t b = 0; b < inst.lists.size(); ++b) {
    const buffer_role role = inst.program->buffers()[b].role;
    if (!inst.lists[b] || role == buffer_role::scratch) continue;
    const bool is_input = role == buffer_role::input;
    const list_binding& at = is_input ? memory.input_lists.at(inputs++) : memory.output_lists.at(outputs++);
    inst.user_lists.push_back({b, at});
    inst.lists[b]->place(at.begins, is_input ? nullptr : at.counts);
  }
}

/// Reads the lengths of the user's input lists. If a list is longer than its capacity, fails the instance before the
/// round sends anything, and returns false.
bool engine::take_lengths(instance& inst) {
  for (const auto& [b, at] : inst.user_lists) {
    const buffer& under = inst.program->buffers()[b];
    if (under.role != buffer_role::input) continue;
    const bool fits = at.counts != nullptr ? inst.lists[b]->lay_out({at.counts, under.count}) : inst.lists[b]->clear();
    if (!fits) return fail(inst, status::bounds, k_no_rank), false;
  }
  return true;
}

void engine::give_lengths(const instance& inst) {
  for (const auto& [b, at] : inst.user_lists)
    for (std::uint64_t i = 0; at.received != nullptr && i < inst.program->buffers()[b].count; ++i)
      at.received[i] = inst.lists[b]->length(i);
}

// --- guards ---------------------------------------------------------------------------------------------------------

/// Completes a void op, whose guard is false. A list that the op would have received becomes empty. If the guard skips
/// empty lists, marks the op's target as not null. Releases the payloads that the op would have read.
outcome engine::pass_over(instance& inst, op_id id, const op& o) {
  if (inst.program->guard_of(o)->skips_empty) set_segment_state(inst, id, {});
  const bool receives_list = o.kind == op_kind::recv && !inst.lists.empty() && inst.lists[o.c.buffer()];
  if (receives_list && o.count == 1 && !inst.lists[o.c.buffer()]->is_packed())
    inst.lists[o.c.buffer()]->set_length(o.c.offset(), 0);
  release_payload(inst, o.releases_a);
  release_payload(inst, o.releases_b);
  return outcome::done;
}

// --- ops ------------------------------------------------------------------------------------------------------------
//
// All lists are produced by functions and are never null. This is true even in partial schedules: the lists of a rank
// without a contribution come from the rank's residual.

/// Returns where the items of a region are in the buffer.
item_run engine::run_of(const instance& inst, region part, std::uint64_t count) {
  if (inst.lists.empty() || !inst.lists[part.buffer()]) return {part.offset(), count};
  return inst.lists[part.buffer()]->run_of(part.offset(), count);
}

/// Returns where the items of an incoming message are stored, and the maximum number of these items.
item_run engine::target_of(const instance& inst, region part, std::uint64_t count) {
  if (inst.lists.empty() || !inst.lists[part.buffer()]) return {part.offset(), count};
  return inst.lists[part.buffer()]->target_of(part.offset(), count);
}

list_table* engine::lists_of(instance& inst, region at) {
  return inst.lists.empty() || !inst.lists[at.buffer()] ? nullptr : &*inst.lists[at.buffer()];
}

/// Sets the lengths of lists after a payload has arrived. If the lengths were set before (kernel lay_out) and the
/// payload has another length, fails the instance and returns false.
bool engine::note_lengths(instance& inst, const op& o, std::uint64_t bytes) {
  list_table& lists = *inst.lists[o.c.buffer()];
  const std::uint64_t items = bytes / size_of(o.type);
  const bool fits = lists.is_packed() ? lists.run_of(o.c.offset(), o.count).count == items
                    : o.count == 0    ? items == 0
                                      : lists.set_length(o.c.offset(), items);
  if (!fits) fail(inst, status::bounds, o.peer);
  return fits;
}

bool engine::is_about_lists(const instance& inst, const op& o) {
  const kernel_row& row = row_of(o.what);
  return row.a.type == operand_type::lengths || row.c.type == operand_type::lengths ||
         inst.lists[o.c.buffer()].has_value();
}

outcome engine::compute_lists(instance& inst, op_id id, const op& o) {
  const symbolic_rule rule = row_of(o.what).symbol;
  bool fits = true;
  if (rule == symbolic_rule::layout) {
    const auto* lengths = reinterpret_cast<const std::uint64_t*>(inst.cells[o.a.buffer()].data) + o.a.offset();
    fits = inst.lists[o.c.buffer()]->lay_out({lengths, o.count});
  } else if (rule == symbolic_rule::lengths) {
    auto* lengths = reinterpret_cast<std::uint64_t*>(inst.cells[o.c.buffer()].storage) + o.c.offset();
    for (std::uint64_t i = 0; i < o.count; ++i) lengths[i] = inst.lists[o.a.buffer()]->length(o.a.offset() + i);
  } else {
    fits = copy_lists(inst, o);
  }
  if (!fits) return fail(inst, status::bounds, k_no_rank), outcome::failed;
  set_segment_state(inst, id, {});
  return combined(inst, o);
}

/// Copies lists. Returns false if the lists exceed the capacity of the target, or if their lengths differ from lengths
/// that were set before (kernel lay_out).
bool engine::copy_lists(instance& inst, const op& o) {
  const list_table& from = *inst.lists[o.a.buffer()];
  list_table& to = *inst.lists[o.c.buffer()];
  const std::size_t width = size_of(o.type);
  for (std::uint64_t i = 0; i < o.count; ++i) {
    const item_run source = from.run_of(o.a.offset() + i, 1);
    const std::uint64_t list = o.c.offset() + i;
    if (to.is_packed() ? to.length(list) != source.count : !to.set_length(list, source.count)) return false;
    std::byte* const into = inst.cells[o.c.buffer()].storage + to.run_of(list, 1).begin * width;
    const std::byte* const data = inst.cells[o.a.buffer()].data + source.begin * width;
    if (source.count != 0 && into != data) std::memmove(into, data, source.count * width);
  }
  return true;
}

}  // namespace lsched
