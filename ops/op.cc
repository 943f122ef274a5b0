#include "ops/op.h"

#include <array>

namespace lsched {

std::string_view name_of(op_kind kind) {
  constexpr std::array<std::string_view, 7> names{"nop",         "send",        "recv",   "compute",
                                                  "signal_send", "signal_recv", "capture"};
  return names[static_cast<std::size_t>(kind)];
}

std::string objection_to_kernel(const op& what) {
  if (what.kind != op_kind::compute && what.kind != op_kind::capture) return {};
  const kernel_row& row = row_of(what.what);
  const bool fits = what.kind == op_kind::compute || row.is(trait::merges);
  if (!fits || !row.supports(what.type)) return "no such reduction on " + std::string(name_of(what.type));
  if (what.kind == op_kind::compute && row.parameter.exists() && what.tag < row.parameter.least)
    return "its " + std::string(row.parameter.name) + " is " + std::to_string(what.tag) + ": use " +
           std::to_string(row.parameter.least) + " or more";
  return {};
}

operand_list own_operands_of(const op& what) {
  const kernel_row& row = row_of(what.kind == op_kind::compute ? what.what : kernel::none);
  operand_list all;
  const auto add = [&](region op::*which, const operand_rule& rule) {
    const bool is_sums = rule.type == operand_type::sums;
    if ((what.*which).exists())
      all.add(
          {which, what.*which, rule.type_in(what.type), is_sums ? k_dot_sums : what.count, which == &op::c, is_sums});
  };
  add(&op::a, row.a), add(&op::b, row.b), add(&op::s, row.s), add(&op::c, row.c);
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
