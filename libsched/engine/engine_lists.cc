// What the engine does with lists, and with ops that are void.
#include <algorithm>
#include <cstring>

#include "libsched/engine/engine.h"

namespace lsched {

// --- lengths that are the user's ------------------------------------------------------------------------------------

/// Every list that the user binds needs lengths.
std::optional<failure> engine::validate_lengths(const schedule& program, const binding& memory) {
  const auto number = [&](buffer_role role) {
    return static_cast<std::size_t>(std::ranges::count_if(
        program.buffers(), [role](const buffer& it) { return it.role == role && it.has_lists(); }));
  };
  if (memory.input_lengths.size() == number(buffer_role::input) &&
      memory.output_lengths.size() == number(buffer_role::output))
    return std::nullopt;
  return failure{status::argument, "the schedule has lists as inputs or outputs, of which it takes the lengths, too"};
}

std::optional<failure> engine::reserve_lists(instance& it, const binding& memory) {
  const auto buffers = it.program->buffers();
  if (std::ranges::none_of(buffers, &buffer::has_lists)) return std::nullopt;
  if (auto why = validate_lengths(*it.program, memory)) return why;
  it.lists.resize(buffers.size());
  for (std::size_t b = 0; b < buffers.size(); ++b)
    if (buffers[b].has_lists()) it.lists[b].emplace(buffers[b]);
  return std::nullopt;
}

void engine::bind_lengths(instance& it, const binding& memory) {
  it.lengths.clear();
  std::size_t inputs = 0, outputs = 0;
  for (std::uint16_t b = 0; b < it.lists.size(); ++b) {
    if (!it.lists[b]) continue;
    const buffer_role role = it.program->buffers()[b].role;
    if (role == buffer_role::input) it.lengths.push_back({.buffer = b, .given = memory.input_lengths.at(inputs++)});
    if (role == buffer_role::output) it.lengths.push_back({.buffer = b, .wanted = memory.output_lengths.at(outputs++)});
  }
}

/// False, and the schedule has failed before anything of the round was sent: lists are longer than their room.
bool engine::take_lengths(instance& it) {
  for (const bound_lengths& one : it.lengths) {
    const std::uint64_t count = it.program->buffers()[one.buffer].count;
    if (one.given != nullptr && !it.lists[one.buffer]->lay_out({one.given, count}))
      return fail(it, status::bounds, k_no_rank), false;
  }
  return true;
}

void engine::give_lengths(const instance& it) {
  for (const bound_lengths& one : it.lengths)
    for (std::uint64_t i = 0; one.wanted != nullptr && i < it.program->buffers()[one.buffer].count; ++i)
      one.wanted[i] = it.lists[one.buffer]->length(i);
}

// --- guards ---------------------------------------------------------------------------------------------------------

/// A list that would have been received holds nothing, and lists that are empty are there; and who would have read a
/// payload has read it.
outcome engine::pass_over(instance& it, op_id id, const op& what) {
  if (it.program->guard_of(what)->skips_empty) set_segment_state(it, id, {});
  const bool receives_list = what.kind == op_kind::recv && !it.lists.empty() && it.lists[what.c.buffer()];
  if (receives_list && what.count == 1 && !it.lists[what.c.buffer()]->is_packed())
    it.lists[what.c.buffer()]->set_length(what.c.offset(), 0);
  release_payload(it, what.releases_a);
  release_payload(it, what.releases_b);
  return outcome::done;
}

// --- ops ------------------------------------------------------------------------------------------------------------
//
// Lists are of functions' making, and these are always there: in partial schedules, too, where a rank that contributes
// nothing has lists of what it had kept.

/// Where a region's items lie in its buffer.
item_run engine::run_of(const instance& it, region part, std::uint64_t count) {
  if (it.lists.empty() || !it.lists[part.buffer()]) return {part.offset(), count};
  return it.lists[part.buffer()]->run_of(part.offset(), count);
}

/// Those of its buffer; nullptr: it has none.
list_table* engine::lists_of(instance& it, region at) {
  return it.lists.empty() || !it.lists[at.buffer()] ? nullptr : &*it.lists[at.buffer()];
}

/// A payload has arrived. False, and the schedule has failed: it is not as long as was laid out.
bool engine::note_lengths(instance& it, const op& what, std::uint64_t bytes) {
  list_table& lists = *it.lists[what.c.buffer()];
  const std::uint64_t items = bytes / size_of(what.type);
  const bool fits = lists.is_packed() ? lists.run_of(what.c.offset(), what.count).count == items
                    : what.count == 0 ? items == 0
                                      : lists.set_length(what.c.offset(), items);
  if (!fits) fail(it, status::bounds, what.peer);
  return fits;
}

bool engine::is_about_lists(const instance& it, const op& what) {
  const kernel_row& row = row_of(what.what);
  return row.a.type == operand_type::lengths || row.c.type == operand_type::lengths ||
         it.lists[what.c.buffer()].has_value();
}

outcome engine::compute_lists(instance& it, op_id id, const op& what) {
  bool fits = true;
  cell& target = it.cells[what.c.buffer()];
  if (what.what == kernel::copy) {
    fits = copy_lists(it, what);
  } else if (what.what == kernel::lay_out) {
    const auto* lengths = reinterpret_cast<const std::uint64_t*>(it.cells[what.a.buffer()].data) + what.a.offset();
    fits = it.lists[what.c.buffer()]->lay_out({lengths, what.count});
  } else {
    auto* lengths = reinterpret_cast<std::uint64_t*>(target.home) + what.c.offset();
    for (std::uint64_t i = 0; i < what.count; ++i) lengths[i] = it.lists[what.a.buffer()]->length(what.a.offset() + i);
  }
  if (!fits) return fail(it, status::bounds, k_no_rank), outcome::failed;
  set_segment_state(it, id, {});
  return combined(it, what);
}

/// False: there is no room for them, or they are not as long as was laid out.
bool engine::copy_lists(instance& it, const op& what) {
  const list_table& from = *it.lists[what.a.buffer()];
  list_table& to = *it.lists[what.c.buffer()];
  const std::size_t width = size_of(what.type);
  for (std::uint64_t i = 0; i < what.count; ++i) {
    const item_run source = from.run_of(what.a.offset() + i, 1);
    const std::uint64_t list = what.c.offset() + i;
    if (to.is_packed() ? to.length(list) != source.count : !to.set_length(list, source.count)) return false;
    std::byte* const into = it.cells[what.c.buffer()].home + to.run_of(list, 1).begin * width;
    const std::byte* const data = it.cells[what.a.buffer()].data + source.begin * width;
    if (source.count != 0 && into != data) std::memmove(into, data, source.count * width);
  }
  return true;
}

}  // namespace lsched
