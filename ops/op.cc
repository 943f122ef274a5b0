#include "ops/op.h"

#include <array>

namespace lsched {

std::string_view name_of(op_kind kind) {
  constexpr std::array<std::string_view, 7> names{"nop",         "send",        "recv",   "compute",
                                                  "signal_send", "signal_recv", "capture"};
  return names[static_cast<std::size_t>(kind)];
}

operand_list operands_of(const op& what, std::uint64_t count) {
  operand_list all;
  const bool has_sums = what.kind == op_kind::compute && what.what == kernel::dot_norms;
  if (what.a.exists()) all.add({&op::a, what.a, what.type, count});
  if (what.b.exists()) all.add({&op::b, what.b, what.type, count});
  if (what.s.exists()) all.add({&op::s, what.s, dtype::f64, k_dot_sums, false, true});
  if (what.c.exists())
    all.add({&op::c, what.c, has_sums ? dtype::f64 : what.type, has_sums ? k_dot_sums : count, true, has_sums});
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
