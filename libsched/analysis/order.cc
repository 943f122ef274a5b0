#include "libsched/analysis/order.h"

#include <algorithm>

#include "libsched/schedule/round.h"

namespace lsched {
namespace {

/// For each op, returns the number of columns of ops with lower ids. This number is the op's own column, if the op has
/// a column. The last entry is the number of all columns. Every op has a row of bits, from which the rows of its
/// successors are computed. The bit in the column of op x is set if x comes before the op of the row. Nops that wait
/// for all their deps have no column, because callers do not ask for their position.
std::vector<std::uint32_t> columns_of(const schedule& program, const dep_table& deps) {
  std::vector<std::uint32_t> column(deps.size() + 1, 0);
  for (op_id id = 0; id < deps.size(); ++id) {
    const op& o = program.ops()[id];
    column[id + 1] = column[id] + (o.kind == op_kind::nop && o.need == deps[id].size() ? 0 : 1);
  }
  return column;
}

std::size_t words_for(const std::vector<std::uint32_t>& column) { return (std::size_t{column.back()} + 63) / 64; }

}  // namespace

dep_table::dep_table(const schedule& program) : first_(program.ops().size() + 1, 0), all_(program.dep_count()) {
  for (op_id id = 0; id < size(); ++id)
    for (const op_id next : program.successors(id)) ++first_[next + 1];
  for (op_id id = 0; id < size(); ++id) first_[id + 1] += first_[id];
  std::vector<std::uint32_t> end(first_.begin(), first_.end() - 1);
  for (op_id id = 0; id < size(); ++id)
    for (const op_id next : program.successors(id)) all_[end[next]++] = id;
}

std::uint64_t local_order::bytes_of(const schedule& program) {
  return program.ops().size() * words_for(columns_of(program, dep_table(program))) * sizeof(std::uint64_t);
}

local_order::local_order(const schedule& program)
    : deps_(program),
      column_(columns_of(program, deps_)),
      words_(words_for(column_)),
      before_(deps_.size() * words_, 0) {
  for (op_id id = 0; id < deps_.size(); ++id) {
    const std::size_t need = program.ops()[id].need;
    waits_for_all_ = waits_for_all_ && need == deps_[id].size();
    need == deps_[id].size() ? add_all(id) : add_some(id, deps_[id].size() - need + 1);
  }
}

void local_order::add_all(op_id to) {
  for (const op_id dep : deps_[to]) {
    for (std::size_t i = 0; i * 64 < column_[dep]; ++i) before_[to * words_ + i] |= before_[dep * words_ + i];
    if (has_column(dep)) set_bit(to, column_[dep]);
  }
}

/// Adds the ops that come before `to` in every execution. Op x is such an op if at least `least` deps of `to` are x or
/// come after x. Every set of deps that lets `to` fire then contains one of these deps.
void local_order::add_some(op_id to, std::size_t least) {
  std::vector<std::uint32_t> times(column_[to], 0);
  for (const op_id dep : deps_[to]) {
    if (has_column(dep)) ++times[column_[dep]];
    for (std::uint32_t earlier = 0; earlier < column_[dep]; ++earlier)
      if (has_bit(dep, earlier)) ++times[earlier];
  }
  for (std::uint32_t column = 0; column < times.size(); ++column)
    if (times[column] >= least) set_bit(to, column);
}

std::vector<bool> local_order::fired_by_end(const schedule& program) const {
  std::vector<bool> has_fired(deps_.size(), false);
  for (op_id id = 0; id < deps_.size(); ++id) {
    const op& o = program.ops()[id];
    const auto tokens = std::ranges::count_if(deps_[id], [&](op_id dep) { return has_fired[dep]; });
    has_fired[id] = id == program.exit() || is_before(id, program.exit()) ||
                    (o.kind != op_kind::signal_recv && is_enabled(static_cast<std::uint32_t>(tokens), o.need));
  }
  return has_fired;
}

}  // namespace lsched
