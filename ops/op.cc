#include "ops/op.h"

#include <array>

namespace lsched {

std::string_view name_of(op_kind kind) {
  constexpr std::array<std::string_view, 7> names{"nop",         "send",        "recv",   "compute",
                                                  "signal_send", "signal_recv", "capture"};
  return names[static_cast<std::size_t>(kind)];
}

operand_list own_operands_of(const op& what) {
  operand_list all;
  const bool computes = what.kind == op_kind::compute;
  const bool makes_sums = computes && what.what == kernel::dot_norms;
  const bool reads_lengths = computes && what.what == kernel::lay_out;
  if (what.a.exists()) all.add({&op::a, what.a, reads_lengths ? dtype::u64 : what.type, what.count});
  if (what.b.exists()) all.add({&op::b, what.b, what.type, what.count});
  if (what.s.exists()) all.add({&op::s, what.s, dtype::f64, k_dot_sums, false, true});
  if (!what.c.exists()) return all;
  const dtype written = makes_sums ? dtype::f64 : computes && what.what == kernel::measure ? dtype::u64 : what.type;
  all.add({&op::c, what.c, written, makes_sums ? k_dot_sums : what.count, true, makes_sums});
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
