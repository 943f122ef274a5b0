#include "libsched/schedule/op_rules.h"

#include <algorithm>
#include <compare>

namespace lsched {
namespace {

/// The uses of a buffer: the last op that writes the buffer, the number of writes, and one entry in `readers` for each
/// read.
struct usage {
  op_id writer = k_no_op;
  std::uint32_t writes = 0;
  std::vector<op_id> readers{};
};

std::vector<usage> usages_of(const schedule::parts& content) {
  std::vector<usage> uses(content.buffers.size());
  for (op_id id = 0; id < content.ops.size(); ++id) {
    for (const operand& part : operands_of(content.ops[id], content.buffers)) {
      usage& use = uses[part.at.buffer()];
      if (part.is_written)
        use.writer = id, ++use.writes;
      else
        use.readers.push_back(id);
    }
  }
  return uses;
}

/// Returns true if the `count` elements at `part` are within the payload of the receive `in`. Requires that both
/// regions are in the same buffer, and that the payload begins at offset 0.
bool is_within(region part, std::uint64_t count, const op& in) { return part.offset() + count <= in.count; }

/// Returns true if the payload of `receive` may stay in the transport's memory until `reader` has read it. `receive`
/// must be the only op that writes its buffer. The payload must begin at offset 0, because the transport's memory
/// replaces the whole buffer. `receive` must have no guard: in a round in which the guard is false, the reader could
/// still fire.
bool may_stay(const schedule::parts& content, op_id receive, op_id reader, std::uint32_t in_degree) {
  const op& in = content.ops[receive];
  const op& out = content.ops[reader];
  if (in.kind != op_kind::recv || out.kind != op_kind::compute || in.c.offset() != 0 || in.guard != 0) return false;
  if (is_function(out.what)) return false;
  const auto reads = [&](region part) { return part.exists() && part.buffer() == in.c.buffer(); };
  if (reads(out.a) == reads(out.b) || !is_within(reads(out.a) ? out.a : out.b, out.count, in)) return false;
  const auto begin = content.next.begin();
  return out.need == in_degree &&
         std::binary_search(begin + content.first[receive], begin + content.first[receive + 1], reader);
}

// --- copies that can be left out -------------------------------------------------------------------------------------

/// A range of elements in staging memory, and the op that accesses the range.
struct staged_part {
  std::uint16_t buffer;
  std::uint64_t begin, end;
  op_id who;
  friend auto operator<=>(const staged_part&, const staged_part&) = default;
};

std::vector<staged_part> staged_parts_of(const schedule::parts& content) {
  std::vector<staged_part> all;
  for (op_id id = 0; id < content.ops.size(); ++id)
    for (const operand& part : operands_of(content.ops[id], content.buffers))
      if (content.buffers[part.at.buffer()].space == memory_space::staging)
        all.push_back({part.at.buffer(), part.at.offset(), part.at.offset() + part.count, id});
  std::ranges::sort(all);
  return all;
}

/// Returns true if `before` is a copy from device memory to the source of `send`, and `send` is its only successor.
bool is_copy_for(const schedule::parts& content, op_id before, op_id send) {
  const op &made = content.ops[before], &out = content.ops[send];
  if (made.kind != op_kind::compute || made.what != kernel::copy || out.kind != op_kind::send) return false;
  const bool is_its_source = made.c == out.a && made.count == out.count && made.guard == out.guard;
  const bool leads_there_only = content.first[before + 1] - content.first[before] == 1 &&
                                content.next[content.first[before]] == send && out.need == 1;
  return is_its_source && leads_there_only && content.buffers[made.a.buffer()].space == memory_space::device;
}

/// Sets releases_a of each send whose source is a copy that is made only for this send. The copy and the send must be
/// the only ops that access this range of staging memory.
void mark_copies_for_sends(schedule::parts& content) {
  const std::vector<staged_part> all = staged_parts_of(content);
  std::uint64_t end = 0;  // end of all earlier parts of the same buffer
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i == 0 || all[i - 1].buffer != all[i].buffer) end = 0;
    const bool is_pair = i + 1 < all.size() && all[i + 1].buffer == all[i].buffer && all[i + 1].begin == all[i].begin &&
                         all[i + 1].end == all[i].end;
    const bool is_apart = all[i].begin >= end &&
                          (i + 2 >= all.size() || all[i + 2].buffer != all[i].buffer || all[i + 2].begin >= all[i].end);
    if (is_pair && is_apart && is_copy_for(content, all[i].who, all[i + 1].who))
      content.ops[all[i + 1].who].releases_a = all[i].who;
    end = std::max(end, all[i].end);
  }
}

}  // namespace

void mark_in_place(schedule::parts& content) {
  for (op& o : content.ops) {
    o.in_place = false;
    o.releases_a = o.releases_b = k_no_op;
  }
  std::vector<std::uint32_t> in_degree(content.ops.size(), 0);
  for (const op_id after : content.next) ++in_degree[after];
  const std::vector<usage> uses = usages_of(content);
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const usage& use = uses[i];
    const bool is_candidate =
        content.buffers[i].role == buffer_role::scratch && use.writes == 1 && !use.readers.empty() &&
        std::ranges::all_of(use.readers, [&](op_id id) { return may_stay(content, use.writer, id, in_degree[id]); });
    if (!is_candidate) continue;
    for (const op_id id : use.readers) {
      op& reader = content.ops[id];
      (reader.a.buffer() == i ? reader.releases_a : reader.releases_b) = use.writer;
    }
    content.ops[use.writer].in_place = true;
  }
  mark_copies_for_sends(content);
}

}  // namespace lsched
