#include "libsched/in_place.h"

#include <algorithm>

namespace lsched {
namespace {

/// Who uses a buffer; one writer and one reader are remembered.
struct usage {
  op_id writer = k_no_op, reader = k_no_op;
  std::uint32_t writes = 0, reads = 0;
};

std::vector<usage> usages_of(const schedule::parts& content) {
  std::vector<usage> uses(content.buffers.size());
  for (op_id id = 0; id < content.ops.size(); ++id) {
    const op& it = content.ops[id];
    for (const region read : {it.a, it.b})
      if (read.exists()) uses[read.buffer()].reader = id, ++uses[read.buffer()].reads;
    if (it.c.exists()) uses[it.c.buffer()].writer = id, ++uses[it.c.buffer()].writes;
  }
  return uses;
}

/// `reader` reads what `receive`, the only writer of that buffer, has put there. (So the reader writes to
/// another buffer.) Offset 0, since a payload that stays takes the place of the whole buffer.
bool may_stay(const schedule::parts& content, op_id receive, op_id reader, std::uint32_t in_degree) {
  const op& in = content.ops[receive];
  const op& out = content.ops[reader];
  if (in.kind != op_kind::recv || out.kind != op_kind::compute || in.count != out.count) return false;
  if ((out.a != in.c && out.b != in.c) || in.c.offset() != 0) return false;
  const auto begin = content.next.begin();
  return out.need == in_degree &&
         std::binary_search(begin + content.first[receive], begin + content.first[receive + 1], reader);
}

}  // namespace

void mark_in_place(schedule::parts& content) {
  for (op& it : content.ops) {
    it.in_place = false;
    it.releases_a = it.releases_b = k_no_op;
  }
  std::vector<std::uint32_t> in_degree(content.ops.size(), 0);
  for (const op_id after : content.next) ++in_degree[after];
  const std::vector<usage> uses = usages_of(content);
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const usage& use = uses[i];
    const bool is_candidate = content.buffers[i].role == buffer_role::scratch && use.writes == 1 && use.reads == 1;
    if (!is_candidate || !may_stay(content, use.writer, use.reader, in_degree[use.reader])) continue;
    op& reader = content.ops[use.reader];
    (reader.a.buffer() == i ? reader.releases_a : reader.releases_b) = use.writer;
    content.ops[use.writer].in_place = true;
  }
}

}  // namespace lsched
