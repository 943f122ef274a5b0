#include "libsched/verify/hazards.h"

#include <algorithm>
#include <string>

#include "libsched/verify/form.h"

namespace lsched {

hazards::hazards(const assembly& all, const std::vector<world_op>& order, const aliasing& in_place)
    : all_(all), order_(order), in_place_(in_place) {}

void hazards::check(rank r, finding_list& out, finding_list& notes) {
  if (!number_columns(r, out)) return;
  find_order(r);
  find_accesses(r);
  for (std::vector<access>& memory : accesses_) {
    if (std::none_of(memory.begin(), memory.end(), [](const access& it) { return it.is_write; })) continue;
    std::sort(memory.begin(), memory.end(), [](const access& x, const access& y) { return x.begin < y.begin; });
    for (std::size_t i = 0; i < memory.size(); ++i)
      for (std::size_t j = i + 1; j < memory.size() && memory[j].begin < memory[i].end; ++j)
        check_pair(r, memory[i], memory[j], out, notes);
  }
  check_exit(r, out);
}

// --- order -------------------------------------------------------------------------------------------------

/// All ops have a row, which hands on what is before them. Only those that somebody asks about have a column: not a nop
/// that waits for all its deps, since it touches nothing and is bound to fire if they are.
bool hazards::number_columns(rank r, finding_list& out) {
  const auto ops = all_.program(r).ops();
  column_.assign(ops.size() + 1, 0);
  for (op_id id = 0; id < ops.size(); ++id) {
    const bool is_bare = ops[id].kind == op_kind::nop && ops[id].need == all_.predecessors(all_.number(r, id)).size();
    column_[id + 1] = column_[id] + (is_bare ? 0 : 1);
  }
  words_ = (std::size_t{column_.back()} + 63) / 64;
  const std::uint64_t bytes = ops.size() * words_ * sizeof(std::uint64_t);
  if (bytes <= k_most_bytes) return true;
  out.add({.what = property::hazard,
           .where = r,
           .text = "rank " + std::to_string(r) + " is too large to prove: the order of its " +
                   std::to_string(ops.size()) + " ops would take " + std::to_string(bytes >> 20) + " MiB, and " +
                   std::to_string(k_most_bytes >> 20) + " is the limit"});
  return false;
}

void hazards::find_order(rank r) {
  const std::size_t ops = all_.program(r).ops().size();
  before_.assign(ops * words_, 0);
  for (op_id id = 0; id < ops; ++id) {
    const auto from = all_.predecessors(all_.number(r, id));
    const std::size_t need = all_.program(r).ops()[id].need;
    if (need == from.size())
      add_all(id, from);
    else
      add_some(id, from, from.size() - need + 1);
  }
}

void hazards::add_all(op_id to, std::span<const op_id> from) {
  for (const op_id it : from) {
    for (std::size_t i = 0; i * 64 < column_[it]; ++i) before_[to * words_ + i] |= before_[it * words_ + i];
    if (has_column(it)) set_bit(to, column_[it]);
  }
}

/// What is one of the deps, or before it, for at least so many of them.
void hazards::add_some(op_id to, std::span<const op_id> from, std::size_t least) {
  std::vector<std::uint32_t> times(column_[to], 0);
  for (const op_id it : from) {
    if (has_column(it)) ++times[column_[it]];
    for (std::uint32_t earlier = 0; earlier < column_[it]; ++earlier)
      if (has_bit(it, earlier)) ++times[earlier];
  }
  for (std::uint32_t column = 0; column < times.size(); ++column)
    if (times[column] >= least) set_bit(to, column);
}

// --- memory ------------------------------------------------------------------------------------------------

void hazards::find_accesses(rank r) {
  const schedule& mine = all_.program(r);
  placements_ = placements_of(mine, in_place_);
  accesses_.assign(placements_.size() + 1, {});
  for (op_id id = 0; id < mine.ops().size(); ++id) {
    for (const operand& part : operands_of(mine.ops()[id], mine.buffers())) {
      if (part.count == 0) continue;
      const std::uint64_t width = size_of(part.type);
      const placement& at = placements_[part.at.buffer()];
      const std::uint64_t begin = (at.begin + part.at.offset()) * width;
      accesses_[at.memory].push_back({begin, begin + part.count * width, id, part.at.buffer(), part.is_written});
    }
    // What functions keep from round to round is theirs, and all of them use it.
    if (mine.ops()[id].kind == op_kind::compute && is_function(mine.ops()[id].what))
      accesses_.back().push_back({0, 1, id, k_no_buffer, true});
  }
}

void hazards::check_pair(rank r, const access& x, const access& y, finding_list& out, finding_list& notes) {
  if (x.by == y.by || (!x.is_write && !y.is_write) || is_before(x.by, y.by) || is_before(y.by, x.by)) return;
  if (out.is_full()) return;
  const world_op one = all_.number(r, std::min(x.by, y.by));
  const world_op other = all_.number(r, std::max(x.by, y.by));
  const bool is_ordered = is_before_by_way_of_others(one, other) || is_before_by_way_of_others(other, one);
  const access& written = x.is_write ? x : y;
  if (written.buffer == k_no_buffer) return check_functions(r, one, other, is_ordered ? notes : out);
  const std::uint64_t width = size_of(all_.program(r).buffers()[written.buffer].type);
  const std::uint64_t before = placements_[written.buffer].begin;
  const std::uint64_t begin = std::max(x.begin, y.begin) / width - before;
  const std::uint64_t end = std::min(x.end, y.end) / width - before;
  const std::string clash = x.is_write && y.is_write ? "both write" : "one reads and the other writes";
  (is_ordered ? notes : out)
      .add({.what = property::hazard,
            .where = r,
            .op = all_.id_of(one),
            .buffer = written.buffer,
            .begin = begin,
            .end = end,
            .text = all_.words_for(one) + " and op " + std::to_string(all_.id_of(other)) + ": " + clash +
                    " elements [" + std::to_string(begin) + ", " + std::to_string(end) + ") of buffer " +
                    std::to_string(written.buffer) +
                    (is_ordered ? ", ordered only by messages of other ranks" : ", in no order")});
}

void hazards::check_functions(rank r, world_op one, world_op other, finding_list& out) {
  out.add({.what = property::hazard,
           .where = r,
           .op = all_.id_of(one),
           .text = all_.words_for(one) + " and op " + std::to_string(all_.id_of(other)) +
                   " call functions, and no deps of their rank put these in an order"});
}

/// Whether y fires only after x has completed, on every way through the world. One pass: rare enough.
bool hazards::is_before_by_way_of_others(world_op x, world_op y) const {
  std::vector<bool> fires_after(all_.op_count(), false);
  std::vector<bool> ends_after(all_.op_count(), false);
  ends_after[x] = true;
  for (const world_op it : order_) {
    if (it == x) continue;
    const auto from = all_.predecessors(it);
    const auto late = std::count_if(from.begin(), from.end(),
                                    [&](op_id before) { return ends_after[all_.number(all_.rank_of(it), before)]; });
    const std::size_t need = all_.at(it).need;
    fires_after[it] = need > 0 && static_cast<std::size_t>(late) > from.size() - need;
    const op_kind kind = all_.at(it).kind;
    const bool is_void_at_times = all_.at(it).guard != 0;
    const bool hears =
        (kind == op_kind::recv || kind == op_kind::signal_recv) && !is_void_at_times && !all_.is_call(it);
    ends_after[it] = fires_after[it] || (hears && fires_after[all_.partner(it)]);
  }
  return fires_after[y];
}

/// The round ends when the exit and every fired op have completed. An op that moves or computes is safe if it comes
/// before the exit, or if it is bound to fire before that without a signal that nobody waits for.
void hazards::check_exit(rank r, finding_list& out) {
  const schedule& mine = all_.program(r);
  std::vector<bool> is_bound(mine.ops().size(), false);
  for (op_id id = 0; id < mine.ops().size(); ++id) {
    const op& it = mine.ops()[id];
    const auto from = all_.predecessors(all_.number(r, id));
    const auto sure = std::count_if(from.begin(), from.end(), [&](op_id before) { return is_bound[before]; });
    is_bound[id] = id == mine.exit() || is_before(id, mine.exit()) ||
                   (it.kind != op_kind::signal_recv && static_cast<std::size_t>(sure) >= it.need);
    if (!is_bound[id] && it.kind == op_kind::signal_send) unsure_signals_.push_back(all_.number(r, id));
    if (is_bound[id] || !(is_payload(it.kind) || it.kind == op_kind::compute)) continue;
    out.add({.what = property::progress,
             .where = r,
             .op = id,
             .peer = it.peer,
             .text = words_for(mine, id) + " may be left out: the round can end at op " + std::to_string(mine.exit()) +
                     " without it"});
  }
}

}  // namespace lsched
