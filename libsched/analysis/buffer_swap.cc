#include "libsched/analysis/buffer_swap.h"

#include <algorithm>
#include <optional>

#include "libsched/analysis/order.h"

namespace lsched {
namespace {

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
    std::vector<op_id> rewritten;  // ops that may swap buffers and whose target is written again later
    for (op_id id = 0; id < all_.size(); ++id)
      if ((all_[id].of_a || all_[id].of_b) && writers_of(id).back() != id) rewritten.push_back(id);
    if (rewritten.empty()) return all_;
    std::vector<buffer_swap> sound = all_;
    std::optional<local_order> order;
    if (all_.size() <= k_most_ordered_ops) order.emplace(program_);
    for (const op_id id : rewritten)
      if (!order || !is_dead_before_rewritten(*order, id)) sound[id] = {};
    return sound;
  }

 private:
  const op& at(op_id id) const { return program_.ops()[id]; }
  const std::vector<op_id>& writers_of(op_id id) const { return writers_[at(id).c.buffer()]; }

  /// Returns true if the result of the op can be an unchanged copy of one operand. Lists are excluded, because they are
  /// written in place.
  bool may_swap(const op& o) const {
    return row_of(o.what).null == null_rule::either && !program_.buffers()[o.c.buffer()].has_lists();
  }
  bool is_whole(const op& o, region part) const {
    return o.count == program_.buffers()[part.buffer()].count && segments_.of_buffer(part.buffer()).size() == 1;
  }
  bool is_candidate(const op& o, region from) const {
    return from.exists() && from.buffer() != o.c.buffer() && is_whole(o, o.c) && is_whole(o, from) &&
           program_.buffers()[from.buffer()].role != buffer_role::output;
  }
  void find_candidates() {
    all_.resize(program_.ops().size());
    for (op_id id = 0; id < all_.size(); ++id)
      if (const op& o = at(id); o.kind == op_kind::compute && may_swap(o))
        all_[id] = {is_candidate(o, o.a), is_candidate(o, o.b)};
  }

  /// Returns the last op that writes `buffer` before `reader` runs. Returns k_no_op if the deps leave open whether a
  /// writer runs before or after `reader`.
  op_id source_of(const local_order& order, std::uint16_t buffer, op_id reader) const {
    op_id last = k_no_op;
    for (const op_id writer : writers_[buffer]) {
      if (writer == reader || order.is_before(reader, writer)) continue;
      if (!order.is_before(writer, reader)) return k_no_op;
      last = writer;
    }
    return last;
  }

  /// Returns true if all values that `taker` may have swapped into its target are read before another op writes this
  /// target.
  bool is_dead_before_rewritten(const local_order& order, op_id taker) const {
    for (const op_id writer : writers_of(taker))
      if (writer > taker && !is_dead_before(order, taker, writer)) return false;
    return true;
  }
  bool is_dead_before(const local_order& order, op_id taker, op_id writer) const {
    if (!order.is_before(taker, writer)) return false;
    const auto is_read = [&](region from) {
      if (program_.buffers()[from.buffer()].role == buffer_role::input) return true;  // an input keeps its memory
      const op_id source = source_of(order, from.buffer(), taker);
      if (source == k_no_op) return false;
      for (const op_id reader : readers_[from.buffer()]) {
        if (reader == taker || reader == writer || order.is_before(reader, writer)) continue;
        const op_id read = source_of(order, from.buffer(), reader);
        if (read == source || read == k_no_op) return false;
      }
      return !(all_[source].of_a || all_[source].of_b) || is_dead_before(order, source, writer);
    };
    return (!all_[taker].of_a || is_read(at(taker).a)) && (!all_[taker].of_b || is_read(at(taker).b));
  }

  const schedule& program_;
  const segment_map& segments_;
  std::vector<std::vector<op_id>> writers_, readers_;  ///< by buffer: ops that write it, ops that read it; ascending
  std::vector<buffer_swap> all_;
};

}  // namespace

std::vector<buffer_swap> buffer_swaps_of(const schedule& program, const segment_map& segments) {
  return analysis(program, segments).run();
}

}  // namespace lsched
