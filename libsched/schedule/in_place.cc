#include "libsched/schedule/op_rules.h"

#include <algorithm>

namespace lsched {
namespace {

/// Who uses a buffer: one writer is remembered, and each use by a reader.
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

/// Whether `part`, of an op of that count, is within what a receive has put at the beginning of the same buffer.
bool is_within(region part, std::uint64_t count, const op& in) { return part.offset() + count <= in.count; }

/// `reader` reads what `receive`, the only writer of that buffer, has put there. (So the reader writes to another
/// buffer.) Offset 0, since a payload that stays takes the place of the whole buffer. No guard: the reader might not be
/// void where the receive is.
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
}

}  // namespace lsched
