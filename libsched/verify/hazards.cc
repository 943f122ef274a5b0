#include "libsched/verify/hazards.h"

#include <algorithm>
#include <string>

#include "libsched/analysis/order.h"

namespace lsched {
namespace {

struct access {
  std::uint64_t begin = 0, end = 0;  ///< range of bytes in the memory
  op_id user = k_no_op;
  std::uint16_t buffer = k_no_buffer;
  bool is_write = false;
};

/// Returns the accesses, indexed by memory. The last entry has the accesses to the state of functions.
std::vector<std::vector<access>> accesses_of(const schedule& program, const std::vector<placement>& placements) {
  std::vector<std::vector<access>> all(placements.size() + 1);
  for (op_id id = 0; id < program.ops().size(); ++id) {
    const auto add = [&](region at, std::uint64_t count, dtype type, bool is_written) {
      if (count == 0) return;
      const std::uint64_t width = size_of(type);
      const placement& place = placements[at.buffer()];
      const std::uint64_t begin = (place.begin + at.offset()) * width;
      all[place.memory].push_back({begin, begin + count * width, id, at.buffer(), is_written});
    };
    const op& o = program.ops()[id];
    for (const operand& part : operands_of(o, program.buffers())) add(part.at, part.count, part.type, part.is_written);
    // If the copy for this send is left out, the send reads the source of the copy.
    if (o.kind == op_kind::send && o.releases_a != k_no_op) add(program.ops()[o.releases_a].a, o.count, o.type, false);
    // All functions of a rank share the state that they keep between rounds.
    if (program.ops()[id].kind == op_kind::compute && is_function(program.ops()[id].what))
      all.back().push_back({0, 1, id, k_no_buffer, true});
  }
  return all;
}

/// Checks whether the deps of a rank put all conflicting accesses to a memory into an order.
///
/// Memory is cut at the bounds of all accesses. For each piece, accesses are visited by ascending op. Because the order
/// is transitive, a read is compared only with the last write, and a write also with the reads since that write.
class order_scan {
 public:
  explicit order_scan(const local_order& order) : order_(order) {}

  bool are_ordered(const std::vector<access>& all) {
    std::vector<std::uint64_t> bounds;
    for (const access& one : all) bounds.insert(bounds.end(), {one.begin, one.end});
    std::ranges::sort(bounds);
    bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
    std::vector<access> here;  // sorted by access::user
    auto next = all.begin();
    for (const std::uint64_t begin : bounds) {
      std::erase_if(here, [&](const access& one) { return one.end <= begin; });
      const auto kept = static_cast<std::ptrdiff_t>(here.size());
      for (; next != all.end() && next->begin == begin; ++next) here.push_back(*next);
      std::ranges::sort(here.begin() + kept, here.end(), {}, &access::user);
      if (kept > 0) std::ranges::inplace_merge(here, here.begin() + kept, {}, &access::user);
      if (!is_piece_ordered(here)) return false;
    }
    return true;
  }

 private:
  bool is_piece_ordered(const std::vector<access>& here) {
    op_id last_write = k_no_op;
    reads_.clear();
    for (auto one = here.begin(); one != here.end();) {
      const op_id user = one->user;
      bool writes = false;
      for (; one != here.end() && one->user == user; ++one) writes |= one->is_write;
      if (last_write != k_no_op && !order_.is_before(last_write, user)) return false;
      if (writes && !std::ranges::all_of(reads_, [&](op_id read) { return order_.is_before(read, user); }))
        return false;
      if (writes) last_write = user, reads_.clear();
      if (!writes) reads_.push_back(user);
    }
    return true;
  }

  const local_order& order_;
  std::vector<op_id> reads_;  ///< reads since the last write
};

/// Returns true if deps and messages of all ranks ensure that y fires only after x has completed. This function visits
/// the ops of all ranks, which is slow, but is rarely needed.
bool is_before_by_others(const assembly& all, const std::vector<world_op>& order, world_op x, world_op y) {
  std::vector<bool> fires_after(all.op_count(), false);
  std::vector<bool> ends_after(all.op_count(), false);
  ends_after[x] = true;
  for (const world_op id : order) {
    if (id == x) continue;
    const auto deps = all.predecessors(id);
    const auto late =
        std::ranges::count_if(deps, [&](op_id dep) { return ends_after[all.number(all.rank_of(id), dep)]; });
    const std::size_t need = all.need(id);
    fires_after[id] = need > 0 && static_cast<std::size_t>(late) > deps.size() - need;
    const op_kind kind = all.kind(id);
    const bool is_void_at_times = all.at(id).guard != 0;
    const bool hears = is_incoming(kind) && !is_void_at_times && !all.is_call(id);
    ends_after[id] = fires_after[id] || (hears && fires_after[all.partner(id)]);
  }
  return fires_after[y];
}

class rank_check {
 public:
  rank_check(const assembly& all, const std::vector<world_op>& world_order, rank r, const aliasing& in_place)
      : all_(all),
        world_order_(world_order),
        rank_(r),
        program_(all.program(r)),
        order_(program_),
        placements_(placements_of(program_, in_place)) {}

  void check_memory(finding_list& out, finding_list& notes) const {
    for (std::vector<access>& memory : accesses_of(program_, placements_)) {
      if (std::ranges::none_of(memory, &access::is_write)) continue;
      std::ranges::sort(memory, {}, &access::begin);
      if (order_scan(order_).are_ordered(memory)) continue;
      for (auto x = memory.begin(); x != memory.end(); ++x)
        for (auto y = x + 1; y != memory.end() && y->begin < x->end; ++y)
          if (x->user != y->user && (x->is_write || y->is_write) && !out.is_full()) check_pair(*x, *y, out, notes);
    }
  }

  /// The round ends when the exit op and every fired op have completed. Checks that in every execution, each op that
  /// moves or computes data has fired by then. Signals that are not certain to have fired are added to `ends`.
  void check_end(round_ends& ends, finding_list& out) const {
    const std::vector<bool> fired = order_.fired_by_end(program_);
    for (op_id id = 0; id < fired.size(); ++id) {
      const op_kind kind = program_.ops()[id].kind;
      const world_op number = all_.number(rank_, id);
      if (fired[id]) continue;
      if (kind == op_kind::signal_send) ends.unsure_signals.push_back(number);
      if (is_payload(kind) || kind == op_kind::compute)
        out.add(all_.about(property::progress, number,
                           all_.words_for(number) + " may be incomplete when the round ends at op " +
                               std::to_string(program_.exit()) + ": add a dep that leads to this op"));
    }
    ends.fired[static_cast<std::size_t>(rank_)] = fired;
  }

 private:
  void check_pair(const access& x, const access& y, finding_list& out, finding_list& notes) const {
    if (order_.is_before(x.user, y.user) || order_.is_before(y.user, x.user)) return;
    const world_op one = all_.number(rank_, std::min(x.user, y.user));
    const world_op other = all_.number(rank_, std::max(x.user, y.user));
    const bool is_ordered =
        is_before_by_others(all_, world_order_, one, other) || is_before_by_others(all_, world_order_, other, one);
    const std::string ops = all_.words_for(one) + " and " + op_words(program_, all_.id_of(other));
    const std::uint16_t buffer = x.is_write ? x.buffer : y.buffer;
    finding_list& found = is_ordered ? notes : out;
    if (buffer == k_no_buffer)
      return found.add(
          all_.about(property::hazard, one, ops + " call functions in an order that no deps of the rank define"));
    const std::uint64_t width = size_of(program_.buffers()[buffer].type), first = placements_[buffer].begin;
    const element_range both{buffer, std::max(x.begin, y.begin) / width - first,
                             std::min(x.end, y.end) / width - first};
    found.add(all_.about(property::hazard, one, both,
                         ops + (x.is_write && y.is_write ? ": both write " : ": one reads and the other writes ") +
                             both.text() +
                             (is_ordered ? ", and only messages through other ranks define the order"
                                         : ", and nothing defines the order")));
  }

  const assembly& all_;
  const std::vector<world_op>& world_order_;
  const rank rank_;
  const schedule& program_;
  const local_order order_;
  const std::vector<placement> placements_;
};

}  // namespace

round_ends check_hazards(const assembly& all, const std::vector<world_op>& order, const aliasing& in_place,
                         finding_list& out, finding_list& notes) {
  round_ends ends;
  ends.fired.resize(static_cast<std::size_t>(all.size()));
  for (rank r = 0; r < all.size() && !out.is_full(); ++r) {
    const std::uint64_t bytes = local_order::bytes_of(all.program(r));
    if (bytes > k_most_order_bytes) {
      out.add({.what = property::hazard,
               .where = r,
               .text = "rank " + std::to_string(r) + " is too large to prove: the order of its " +
                       std::to_string(all.program(r).ops().size()) + " ops would take " + std::to_string(bytes >> 20) +
                       " MiB, but " + std::to_string(k_most_order_bytes >> 20) + " is the limit"});
      continue;
    }
    const rank_check check(all, order, r, in_place);
    check.check_memory(out, notes);
    check.check_end(ends, out);
  }
  return ends;
}

}  // namespace lsched
