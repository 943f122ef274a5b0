#include "libsched/engine/list_state.h"

#include <algorithm>
#include <cstring>

namespace lsched {

std::optional<failure> list_state::validate(const schedule& program, const binding& memory) {
  const auto number = [&](buffer_role role) {
    return static_cast<std::size_t>(std::ranges::count_if(
        program.buffers(), [role](const buffer& data) { return data.role == role && data.has_lists(); }));
  };
  if (memory.input_lists.size() == number(buffer_role::input) &&
      memory.output_lists.size() == number(buffer_role::output))
    return std::nullopt;
  return failure{
      status::argument,
      "the inputs or outputs of the schedule are lists, whose lengths change in each round, and this call cannot "
      "pass these lengths: create the schedule with a capacity, and call lsched_start_with"};
}

list_state::list_state(const schedule& program) : program_(&program), tables_(program.buffers().size()) {
  for (std::size_t b = 0; b < tables_.size(); ++b)
    if (program.buffers()[b].has_lists()) tables_[b].emplace(program.buffers()[b]);
}

void list_state::bind(const binding& memory) {
  bound_.clear();
  std::size_t inputs = 0, outputs = 0;
  for (std::uint16_t b = 0; b < tables_.size(); ++b) {
    const buffer_role role = program_->buffers()[b].role;
    if (!tables_[b] || role == buffer_role::scratch) continue;
    const bool is_input = role == buffer_role::input;
    const list_binding& lists = is_input ? memory.input_lists.at(inputs++) : memory.output_lists.at(outputs++);
    bound_.push_back({b, lists});
    tables_[b]->place(lists.begins, is_input ? nullptr : lists.counts);
  }
}

bool list_state::read_lengths() {
  for (const auto& [b, lists] : bound_) {
    const buffer& under = program_->buffers()[b];
    if (under.role != buffer_role::input) continue;
    const bool fits = lists.counts != nullptr ? tables_[b]->lay_out({lists.counts, under.count}) : tables_[b]->clear();
    if (!fits) return false;
  }
  return true;
}

void list_state::write_lengths() const {
  for (const auto& [b, lists] : bound_)
    for (std::uint64_t i = 0; lists.received != nullptr && i < program_->buffers()[b].count; ++i)
      lists.received[i] = tables_[b]->length(i);
}

bool list_state::set_lengths(const op& receive, std::uint64_t bytes) {
  list_table& lists = at(receive.c);
  const std::uint64_t items = bytes / size_of(receive.type);
  if (lists.is_packed()) return lists.run_of(receive.c.offset(), receive.count).count == items;
  return receive.count == 0 ? items == 0 : lists.set_length(receive.c.offset(), items);
}

void list_state::clear_unreceived(const op& receive) {
  if (has_lists(receive.c) && receive.count == 1 && !at(receive.c).is_packed())
    at(receive.c).set_length(receive.c.offset(), 0);
}

bool list_state::concerns(const op& compute) const {
  const kernel_row& row = row_of(compute.what);
  return row.a.type == operand_type::lengths || row.c.type == operand_type::lengths || has_lists(compute.c);
}

bool list_state::compute(const op& o, std::span<const cell> cells) {
  const symbolic_rule rule = row_of(o.what).symbol;
  if (rule == symbolic_rule::layout) {
    const auto* lengths = reinterpret_cast<const std::uint64_t*>(cells[o.a.buffer()].data) + o.a.offset();
    return at(o.c).lay_out({lengths, o.count});
  }
  if (rule != symbolic_rule::lengths) return copy(o, cells);
  auto* lengths = reinterpret_cast<std::uint64_t*>(cells[o.c.buffer()].storage) + o.c.offset();
  for (std::uint64_t i = 0; i < o.count; ++i) lengths[i] = at(o.a).length(o.a.offset() + i);
  return true;
}

bool list_state::copy(const op& o, std::span<const cell> cells) {
  const list_table& from = at(o.a);
  list_table& to = at(o.c);
  const std::size_t width = size_of(o.type);
  for (std::uint64_t i = 0; i < o.count; ++i) {
    const item_run source = from.run_of(o.a.offset() + i, 1);
    const std::uint64_t list = o.c.offset() + i;
    if (to.is_packed() ? to.length(list) != source.count : !to.set_length(list, source.count)) return false;
    std::byte* const into = cells[o.c.buffer()].storage + to.run_of(list, 1).begin * width;
    const std::byte* const data = cells[o.a.buffer()].data + source.begin * width;
    if (source.count != 0 && into != data) std::memmove(into, data, source.count * width);
  }
  return true;
}

}  // namespace lsched
