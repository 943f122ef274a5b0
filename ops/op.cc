#include "ops/op.h"

#include <array>

namespace lsched {

std::string_view name_of(op_kind kind) {
  constexpr std::array<std::string_view, 7> names{"nop",         "send",        "recv",   "compute",
                                                  "signal_send", "signal_recv", "capture"};
  return names[static_cast<std::size_t>(kind)];
}

std::string_view objection_to_row(const op& what) {
  if (what.kind != op_kind::compute || !takes_row(what.what)) return {};
  const auto [vectors, matrices] = row_of(what);
  if (vectors < 2 || vectors > k_most_vectors) return "a row has 2 to 64 vectors";
  if (what.what == kernel::gram ? matrices != 0 : matrices < 1 || matrices > k_most_vectors)
    return "an adaptive sum goes by 1 to 64 Gram matrices, and a Gram matrix by none";
  if (what.a.buffer() != what.b.buffer() || what.b.offset() < what.a.offset() + what.count)
    return "the vectors of a row lie one behind the other in a buffer";
  return {};
}

operand_list own_operands_of(const op& what) {
  operand_list all;
  const bool computes = what.kind == op_kind::compute;
  const bool has_row = computes && takes_row(what.what) && objection_to_row(what).empty();
  const bool has_sums = computes && makes_sums(what.what);
  const auto [vectors, matrices] = row_of(what);
  const std::uint64_t sums = has_row ? gram_sums(vectors) : k_dot_sums;
  if (has_row) {
    all.add({&op::a, what.a, what.type, vector_of(what, vectors - 1).offset() + what.count - what.a.offset()});
  } else {
    const bool reads_lengths = computes && what.what == kernel::lay_out;
    if (what.a.exists()) all.add({&op::a, what.a, reads_lengths ? dtype::u64 : what.type, what.count});
    if (what.b.exists()) all.add({&op::b, what.b, what.type, what.count});
  }
  if (what.s.exists()) all.add({&op::s, what.s, dtype::f64, has_row ? matrices * sums : sums, false, true});
  if (!what.c.exists()) return all;
  const dtype written = has_sums ? dtype::f64 : computes && what.what == kernel::measure ? dtype::u64 : what.type;
  all.add({&op::c, what.c, written, has_sums ? sums : what.count, true, has_sums});
  return all;
}

bool straddle(const operand& x, const operand& y) {
  if (x.which == y.which || x.at.buffer() != y.at.buffer()) return false;
  if (x.at == y.at && !x.is_sums && !y.is_sums) return false;
  return x.at.offset() < y.at.offset() + y.count && y.at.offset() < x.at.offset() + x.count;
}

char letter_of(region op::*which) {
  return which == &op::a ? 'a' : which == &op::b ? 'b' : which == &op::s ? 's' : 'c';
}

}  // namespace lsched
