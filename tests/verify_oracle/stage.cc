#include "tests/verify_oracle/stage.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <tuple>

namespace lsched {
namespace {

/// Upper limit of the common period of guards. The limit exceeds every period that play() executes. The product of the
/// limit and the period of a guard does not overflow.
constexpr round_no k_longest_played = round_no{1} << 40;

bool must_happen(op_kind kind) { return is_payload(kind) || kind == op_kind::compute || kind == op_kind::capture; }

bool is_inside(const schedule& program, const operand& part) {
  if (part.at.buffer() >= program.buffers().size()) return false;
  const std::uint64_t count = program.buffers()[part.at.buffer()].count;
  return part.at.offset() <= count && part.count <= count - part.at.offset();
}

/// Returns, for each op, whether the op completes although op `withheld` never completes. Assumes that all signals and
/// messages arrive.
std::vector<bool> completed_without(const schedule& program, op_id withheld) {
  std::vector<bool> done(program.ops().size(), false);
  std::vector<std::uint32_t> tokens(program.ops().size(), 0);
  for (const op_id root : program.roots()) done[root] = true;
  for (op_id id = 0; id < done.size(); ++id) {
    const std::uint32_t need = program.ops()[id].need;
    done[id] = id != withheld && (done[id] || (need > 0 && tokens[id] >= need));
    if (!done[id]) continue;
    for (const op_id after : program.successors(id)) ++tokens[after];
  }
  return done;
}

}  // namespace

stage::stage(std::span<const schedule_ptr> world, const aliasing& in_place) {
  for (const schedule_ptr& program : world) add_rank(*program, in_place);
  if (!flaw_.empty()) return;
  for (const stage_part& part : parts_)
    if (!is_sound(part)) return;
  match();
  if (!flaw_.empty()) return;
  for (stage_rank& me : ranks_) find_order(me);
}

/// Assigns cells to the buffers of a rank. Buffers that share memory share cells. Memories are placed one after the
/// other, and each memory is as long as its buffers require.
void stage::place_buffers(stage_rank& me, const aliasing& in_place) {
  const auto buffers = me.program->buffers();
  const auto placements = placements_of(*me.program, in_place);
  std::vector<std::uint64_t> lengths(buffers.size(), 0);
  for (std::size_t b = 0; b < buffers.size(); ++b) {
    std::uint64_t& length = lengths[placements[b].memory];
    length = std::max(length, placements[b].begin + buffers[b].count);
  }
  std::vector<std::size_t> firsts;
  for (const std::uint64_t length : lengths) firsts.push_back(cells_), cells_ += length;
  for (const placement& it : placements) me.cells.push_back(firsts[it.memory] + it.begin);
}

void stage::add_rank(const schedule& program, const aliasing& in_place) {
  stage_rank me{.program = &program, .first = static_cast<stage_op>(parts_.size())};
  for (const guard& it : program.guards()) period_ = std::min(std::lcm(period_, round_no{it.every}), k_longest_played);
  for (const buffer& it : program.buffers()) {
    me.lengths.push_back(cells_);
    if (it.is_packed()) cells_ += it.count;
  }
  is_synchronising_ = is_synchronising_ || program.is_synchronising();
  if (const auto why = words_for_misfit(program, in_place)) flaw_ = *why;
  place_buffers(me, in_place);
  for (op_id id = 0; id < program.ops().size(); ++id) {
    const op& what = program.ops()[id];
    has_functions_ = has_functions_ || (is_function(what.what) && row_of(what.what).symbol != symbolic_rule::opaque);
    stage_part part{.owner = size(), .id = id, .what = &what, .is_data = must_happen(what.kind)};
    part.is_call = what.kind == op_kind::signal_recv && what.peer == part.owner;
    const auto number = static_cast<stage_op>(parts_.size());
    stage_op& call = what.tag == k_full_call_tag ? me.full_call : me.call;
    if (part.is_call && call == k_no_stage_op) call = number;
    if (what.kind == op_kind::capture && !me.captures) me.captures = true, me.entry = number;
    if (what.kind == op_kind::send) part.transit = cells_, cells_ += what.count;
    parts_.push_back(std::move(part));
  }
  if (!me.captures) me.entry = me.call;
  ranks_.push_back(std::move(me));
}

bool stage::is_sound(const stage_part& part) {
  const op& it = *part.what;
  const stage_rank& me = of(part.owner);
  const bool has_peer =
      !is_communication(it.kind) || (it.peer >= 0 && it.peer < size() && (it.peer != part.owner || part.is_call));
  const operand_list parts = operands_of(it, me.program->buffers());
  const bool stays_inside = std::ranges::all_of(parts, [&](const operand& one) { return is_inside(*me.program, one); });
  const bool may_write = !it.c.exists() || it.kind == op_kind::capture || !stays_inside ||
                         me.program->buffers()[it.c.buffer()].role != buffer_role::input;
  const bool is_clear =
      !stays_inside || std::ranges::none_of(parts, [&](const operand& one) { return slips(part, one); });
  if (has_peer && stays_inside && may_write && is_clear) return true;
  flaw_ = words_for(me.first + part.id) + (!has_peer       ? " has no such peer"
                                           : !stays_inside ? " leaves a buffer"
                                           : !may_write    ? " writes to an input"
                                                           : " writes to a part of its operands");
  return false;
}

/// Returns whether the target of the op overlaps operand `from`, but is not the same region.
bool stage::slips(const stage_part& part, const operand& from) const {
  const auto placed = [&](operand it) {
    it.at = {0, cell(part, it.at, 0)};
    return it;
  };
  for (const operand& it : operands_of(*part.what, of(part.owner).program->buffers()))
    if (it.is_written && straddle(placed(it), placed(from))) return true;
  return false;
}

void stage::match() {
  std::map<std::tuple<bool, rank, rank, std::uint32_t>, std::array<stage_op, 2>> edges;
  for (stage_op it = 0; it < parts_.size(); ++it) {
    const stage_part& part = parts_[it];
    if (!is_communication(part.what->kind) || part.is_call) continue;
    const bool is_in = part.what->kind == op_kind::recv || part.what->kind == op_kind::signal_recv;
    const auto from = is_in ? part.what->peer : part.owner, to = is_in ? part.owner : part.what->peer;
    auto& ends = edges
                     .try_emplace({is_payload(part.what->kind), from, to, part.what->tag},
                                  std::array{k_no_stage_op, k_no_stage_op})
                     .first->second;
    if (ends[is_in ? 1 : 0] != k_no_stage_op) flaw_ = words_for(it) + " has another op's tag";
    ends[is_in ? 1 : 0] = it;
  }
  for (const auto& [name, ends] : edges) {
    const auto& [out, in] = ends;
    if (out == k_no_stage_op || in == k_no_stage_op) {
      flaw_ = words_for(out == k_no_stage_op ? in : out) + " has no matching op";
      return;
    }
    parts_[out].partner = in;
    parts_[in].partner = out;
    if (parts_[out].what->count != parts_[in].what->count || parts_[out].what->type != parts_[in].what->type)
      flaw_ = words_for(in) + " does not match the send";
  }
}

void stage::find_order(stage_rank& me) {
  const schedule& program = *me.program;
  const auto count = static_cast<op_id>(program.ops().size());
  std::vector<std::vector<bool>> without;
  for (op_id id = 0; id < count; ++id) without.push_back(completed_without(program, id));
  const auto waits = [&](op_id after, op_id before) { return after == before || !without[before][after]; };

  // A round cannot end while an op is in flight. A signal receive that waits for its signal does not count as in
  // flight.
  std::vector<bool> is_launched(count, false);
  std::vector<std::uint32_t> tokens(count, 0);
  for (op_id id = 0; id < count; ++id) {
    const op& what = program.ops()[id];
    const bool fires = tokens[id] >= what.need && what.kind != op_kind::signal_recv;
    is_launched[id] = fires || waits(program.exit(), id);
    if (parts_[me.first + id].is_data && !is_launched[id]) me.loose.push_back(me.first + id);
    for (const op_id released : {what.releases_a, what.releases_b})
      if (released < count) parts_[me.first + released].readers.push_back(me.first + id);
    if (!is_launched[id]) continue;
    for (const op_id after : program.successors(id)) ++tokens[after];
  }
  if (me.captures) me.calls_before_capture = me.call != k_no_stage_op && waits(me.entry - me.first, me.call - me.first);
  find_conflicts(me, without);
}

void stage::find_conflicts(const stage_rank& me, const std::vector<std::vector<bool>>& without) {
  const auto count = static_cast<op_id>(me.program->ops().size());
  for (op_id x = 0; x < count; ++x) {
    for (op_id y = 0; y < count; ++y) {
      if (x == y || !clash(parts_[me.first + x], parts_[me.first + y])) continue;
      parts_[me.first + x].conflicts.push_back(me.first + y);
      if (without[x][y]) parts_[me.first + x].rivals.push_back(me.first + y);
    }
  }
}

/// Returns whether one of two ops of the same rank writes an element that the other op reads or writes.
bool stage::clash(const stage_part& x, const stage_part& y) const {
  for (const operand& mine : operands_of(*x.what, of(x.owner).program->buffers())) {
    for (const operand& others : operands_of(*y.what, of(y.owner).program->buffers())) {
      const std::size_t a = cell(x, mine.at, 0), b = cell(y, others.at, 0);
      const bool meet = mine.count != 0 && others.count != 0 && a < b + others.count && b < a + mine.count;
      if (meet && (mine.is_written || others.is_written)) return true;
    }
  }
  return false;
}

std::string stage::words_for(stage_op it) const {
  const stage_part& part = parts_[it];
  std::string text = "rank " + std::to_string(part.owner) + ", op " + std::to_string(part.id) + " (" +
                     std::string(name_of(part.what->kind));
  if (is_communication(part.what->kind))
    text += ", peer " + std::to_string(part.what->peer) + ", tag " + std::to_string(part.what->tag);
  return text + ")";
}

}  // namespace lsched
