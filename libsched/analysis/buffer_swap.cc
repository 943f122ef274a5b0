#include "libsched/analysis/buffer_swap.h"

#include <algorithm>

namespace lsched {
namespace {

constexpr std::size_t k_most_ops = 4096;

/// Which ops come before which, in every execution, by deps of their own rank. Op ids are in topological order.
class local_order {
 public:
  explicit local_order(const schedule& program) : before_(program.ops().size()) {
    std::vector<std::vector<op_id>> causes(before_.size());
    for (op_id id = 0; id < before_.size(); ++id)
      for (const op_id next : program.successors(id)) causes[next].push_back(id);
    for (op_id id = 0; id < before_.size(); ++id) {
      before_[id].resize(id);
      if (program.ops()[id].need < causes[id].size()) continue;  // which of them it waits for is not known
      for (const op_id cause : causes[id]) add(before_[id], cause);
    }
  }
  bool holds(op_id first, op_id second) const { return first < second && before_[second][first]; }

 private:
  void add(std::vector<bool>& all, op_id cause) const {
    all[cause] = true;
    for (op_id id = 0; id < cause; ++id)
      if (before_[cause][id]) all[id] = true;
  }

  std::vector<std::vector<bool>> before_;
};

class analysis {
 public:
  analysis(const schedule& program, const segment_map& segments)
      : program_(program), segments_(segments), writers_(program.buffers().size()), readers_(program.buffers().size()) {
    for (op_id id = 0; id < program.ops().size(); ++id) {
      for (const operand& part : operands_of(program.ops()[id], program.buffers())) {
        std::vector<op_id>& users = (part.is_written ? writers_ : readers_)[part.at.buffer()];
        if (users.empty() || users.back() != id) users.push_back(id);
      }
    }
  }

  std::vector<buffer_swap> run() {
    find_candidates();
    if (std::ranges::none_of(all_, [](const buffer_swap& it) { return it.of_a || it.of_b; })) return all_;
    std::vector<op_id> rewritten;
    for (op_id id = 0; id < all_.size(); ++id)
      if ((all_[id].of_a || all_[id].of_b) && writers_of(id).back() != id) rewritten.push_back(id);
    if (rewritten.empty()) return all_;
    std::vector<buffer_swap> sound = all_;
    if (all_.size() > k_most_ops) {
      for (const op_id id : rewritten) sound[id] = {};
    } else {
      const local_order order(program_);
      for (const op_id id : rewritten)
        if (!is_dead_before_rewritten(order, id)) sound[id] = {};
    }
    return sound;
  }

 private:
  const op& at(op_id id) const { return program_.ops()[id]; }
  const std::vector<op_id>& writers_of(op_id id) const { return writers_[at(id).c.buffer()]; }

  /// What an operand may become as it is. Lists are written where they are.
  bool may_swap(const op& it) const {
    return row_of(it.what).null == null_rule::either && !program_.buffers()[it.c.buffer()].has_lists();
  }
  bool is_whole(const op& it, region part) const {
    return it.count == program_.buffers()[part.buffer()].count && segments_.of_buffer(part.buffer()).size() == 1;
  }
  bool is_candidate(const op& it, region from) const {
    return from.exists() && from.buffer() != it.c.buffer() && is_whole(it, it.c) && is_whole(it, from) &&
           program_.buffers()[from.buffer()].role != buffer_role::output;
  }
  void find_candidates() {
    all_.resize(program_.ops().size());
    for (op_id id = 0; id < all_.size(); ++id)
      if (const op& it = at(id); it.kind == op_kind::compute && may_swap(it))
        all_[id] = {is_candidate(it, it.a), it.what != kernel::copy && is_candidate(it, it.b)};
  }

  /// The op that wrote what `reader` reads; k_no_op where deps do not say.
  op_id source_of(const local_order& order, std::uint16_t buffer, op_id reader) const {
    op_id last = k_no_op;
    for (const op_id writer : writers_[buffer]) {
      if (writer == reader || order.holds(reader, writer)) continue;
      if (!order.holds(writer, reader)) return k_no_op;
      last = writer;
    }
    return last;
  }

  /// Whether all that `taker` may have taken over has been read when its target is written again.
  bool is_dead_before_rewritten(const local_order& order, op_id taker) const {
    for (const op_id writer : writers_of(taker))
      if (writer > taker && !is_dead_before(order, taker, writer)) return false;
    return true;
  }
  bool is_dead_before(const local_order& order, op_id taker, op_id writer) const {
    if (!order.holds(taker, writer)) return false;
    const auto is_read = [&](region from) {
      if (program_.buffers()[from.buffer()].role == buffer_role::input) return true;  // has no storage to give
      const op_id source = source_of(order, from.buffer(), taker);
      if (source == k_no_op) return false;
      for (const op_id reader : readers_[from.buffer()]) {
        if (reader == taker || reader == writer || order.holds(reader, writer)) continue;
        const op_id read = source_of(order, from.buffer(), reader);
        if (read == source || read == k_no_op) return false;
      }
      return !(all_[source].of_a || all_[source].of_b) || is_dead_before(order, source, writer);
    };
    return (!all_[taker].of_a || is_read(at(taker).a)) && (!all_[taker].of_b || is_read(at(taker).b));
  }

  const schedule& program_;
  const segment_map& segments_;
  std::vector<std::vector<op_id>> writers_, readers_;  ///< by buffer, ascending
  std::vector<buffer_swap> all_;
};

}  // namespace

std::vector<buffer_swap> buffer_swaps_of(const schedule& program, const segment_map& segments) {
  return analysis(program, segments).run();
}

}  // namespace lsched
