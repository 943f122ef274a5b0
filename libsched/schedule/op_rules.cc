#include "libsched/schedule/op_rules.h"

#include <array>
#include <string>
#include <string_view>

#include "libsched/schedule/list_rules.h"
#include "ops/counted.h"

namespace lsched {
namespace {

/// Whether an op has each of its regions, and a peer.
struct shape {
  operand_need a = operand_need::never;
  operand_need b = operand_need::never;
  operand_need s = operand_need::never;
  operand_need c = operand_need::never;
  bool peer = false;
};

shape shape_of(const op& what) {
  constexpr operand_need wanted = operand_need::always;
  const kernel_row& row = row_of(what.what);
  switch (what.kind) {
    case op_kind::nop: return {};
    case op_kind::send: return {.a = wanted, .peer = true};
    case op_kind::recv: return {.c = wanted, .peer = true};
    case op_kind::compute: return {.a = row.a.need, .b = row.b.need, .s = row.s.need, .c = row.c.need};
    case op_kind::signal_send:
    case op_kind::signal_recv: return {.peer = true};
    case op_kind::capture: return {.c = wanted};
  }
  return {};
}

class op_check {
 public:
  op_check(const op& what, const op_context& in) : what_(what), in_(in), shape_(shape_of(what)) {}

  std::optional<failure> run() {
    const bool is_sound = check_peer() && check_count() && check_kernel() && check_regions() && check_operands() &&
                          check_capture() && check_guard() && check_lists();
    return is_sound ? std::nullopt : std::optional(why_);
  }

 private:
  bool refuse(status code, std::string text, rank peer = k_no_rank) {
    why_ = {code, std::move(text), peer};
    return false;
  }
  bool refuse(std::string text) { return refuse(status::argument, std::move(text)); }

  bool check_peer() {
    if (!shape_.peer) return true;
    const rank peer = what_.peer;
    if (peer < 0 || peer >= in_.place.size)
      return refuse("peer " + std::to_string(peer) + " is not in 0.." + std::to_string(in_.place.size - 1));
    if (peer == in_.place.self && what_.kind != op_kind::signal_recv)
      return refuse(status::argument, "peer " + std::to_string(peer) + " is the rank itself", peer);
    return true;
  }

  bool check_count() { return what_.count <= k_max_count || refuse("its count is above 2^48-1"); }

  bool check_regions() {
    for (const auto& [which, need] :
         {std::pair{&op::a, shape_.a}, {&op::b, shape_.b}, {&op::s, shape_.s}, {&op::c, shape_.c}}) {
      const std::string name = std::string("region ") + letter_of(which);
      const region part = what_.*which;
      if (!part.exists() && need == operand_need::always) return refuse(name + " names no buffer of this schedule");
      if (part.exists() && need == operand_need::never) return refuse("has a " + name + ", which it has no use for");
      if (part.exists() && part.buffer() >= in_.buffers.size())
        return refuse(name + " is of buffer " + std::to_string(part.buffer()) +
                      ", which does not exist: this schedule has " + std::to_string(in_.buffers.size()));
    }
    return true;
  }

  bool check_operands() {
    for (const operand& part : operands_of(what_, in_.buffers))
      if (!check_extent(part) || (part.is_written && !check_write(part.at))) return false;
    return true;
  }

  bool check_extent(const operand& part) {
    const std::string name = std::string("region ") + letter_of(part.which);
    const buffer& under = in_.buffers[part.at.buffer()];
    if (under.type != part.type)
      return refuse(name + " is " + std::string(name_of(under.type)) + " but " +
                    (part.type == what_.type ? "the op is "
                     : part.is_sums          ? "sums are "
                                             : "lengths are ") +
                    std::string(name_of(part.type)));
    if (part.at.offset() > under.count || part.count > under.count - part.at.offset())
      return refuse(status::bounds, name + ", " + counted(part.count, "element") + " at b" +
                                        std::to_string(part.at.buffer()) + "[" + std::to_string(part.at.offset()) +
                                        "], leaves its buffer of " + std::to_string(under.count));
    return true;
  }

  bool check_write(region target) {
    if (in_.buffers[target.buffer()].role != buffer_role::input || what_.kind == op_kind::capture) return true;
    return refuse("writes to input buffer " + std::to_string(target.buffer()));
  }

  bool check_kernel() {
    const bool has_parameters = what_.kind == op_kind::compute && row_of(what_.what).has_parameters();
    if (has_parameters && what_.tag >= in_.parameters.size()) return refuse("has parameters that do not exist");
    const std::string why = objection_to_kernel(what_, has_parameters ? in_.parameters[what_.tag] : parameter_values{});
    return why.empty() || refuse(why);
  }

  /// What a round captures is offered to a partial schedule; nobody offers to others.
  bool check_capture() {
    if (what_.kind != op_kind::capture || in_.is_partial) return true;
    return refuse("only a partial schedule captures: set an activation policy");
  }

  bool check_guard() { return what_.guard <= in_.guards.size() || refuse("has a guard that does not exist"); }

  bool check_lists() {
    const guard* const when = what_.guard == 0 ? nullptr : &in_.guards[what_.guard - std::size_t{1}];
    const std::string why = objection_to_lists(what_, in_.buffers, when);
    return why.empty() || refuse(why);
  }

  const op& what_;
  const op_context& in_;
  const shape shape_;
  failure why_{};
};

}  // namespace

std::optional<failure> objection_to_op(const op& what, const op_context& in) { return op_check(what, in).run(); }

}  // namespace lsched
