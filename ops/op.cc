#include "ops/op.h"

#include <cmath>

namespace lsched {

std::string validate_kernel(const op& one, const parameter_values& with) {
  if (one.kind != op_kind::compute && one.kind != op_kind::capture) return {};
  const kernel_row& row = row_of(one.what);
  const bool fits = one.kind == op_kind::compute || row.is(trait::merges);
  if (!fits || !row.supports(one.type))
    return "the reduction " + std::string(name_of(one.what)) + " is not defined for " + std::string(name_of(one.type));
  for (std::size_t i = 0; one.kind == op_kind::compute && i < with.size(); ++i) {
    const parameter_rule& rule = row.parameters[i];
    if (rule.type == parameter_type::real && !std::isfinite(with[i].real()))
      return "the " + std::string(rule.name) + " is not a finite number";
    if (rule.type == parameter_type::integer && with[i].integer() < rule.least)
      return "the " + std::string(rule.name) + " is " + std::to_string(with[i].integer()) + ": use " +
             std::to_string(rule.least) + " or more";
  }
  return {};
}

operand_list own_operands_of(const op& one) {
  const kernel_row& row = row_of(one.kind == op_kind::compute ? one.what : kernel::none);
  operand_list all;
  const auto add = [&](region op::*which, const operand_rule& rule) {
    const bool is_sums = rule.type == operand_type::sums;
    if ((one.*which).exists())
      all.add({which, one.*which, rule.type_in(one.type), is_sums ? k_dot_sums : one.count, which == &op::c, is_sums});
  };
  add(&op::a, row.a), add(&op::b, row.b), add(&op::s, row.s), add(&op::c, row.c);
  return all;
}

bool straddle(const operand& x, const operand& y) {
  if (x.which == y.which || x.at.buffer() != y.at.buffer()) return false;
  if (x.at == y.at && !x.is_sums && !y.is_sums) return false;
  return x.at.offset() < y.at.offset() + y.count && y.at.offset() < x.at.offset() + x.count;
}

std::string name_of(region op::*which) {
  return which == &op::a ? "region a" : which == &op::b ? "region b" : which == &op::s ? "region s" : "region c";
}

}  // namespace lsched
