#include "libsched/schedule/op_rules.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

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

/// What an op, whose regions are inside buffers of its type, may do with lists, and which guard it may have.
class list_rules {
 public:
  list_rules(const op& what, std::span<const buffer> buffers) : what_(what), buffers_(buffers) {}

  std::string validate_regions() const {
    if (what_.kind == op_kind::compute) return validate_compute();
    if (is_payload(what_.kind)) return validate_message();
    return has_lists(what_.c) ? "it captures lists" : "";
  }

  std::string validate_guard(const guard& when) const {
    if (!is_payload(what_.kind) && what_.kind != op_kind::compute) return "only payload and computes have guards";
    if (!when.skips_empty) return {};
    if (what_.kind == op_kind::recv)
      return is_packed(what_.c) ? "" : "it skips empty lists of which it cannot know before that they are";
    const bool moves_lists = has_lists(what_.a) && (what_.kind == op_kind::send || what_.what == kernel::copy);
    return moves_lists ? "" : "it skips empty lists, but moves none";
  }

 private:
  bool has_lists(region at) const { return at.exists() && buffers_[at.buffer()].has_lists(); }
  bool is_packed(region at) const { return has_lists(at) && buffers_[at.buffer()].is_packed(); }

  bool is_whole() const {
    const bool begins = what_.a.offset() == 0 && what_.c.offset() == 0 && (!what_.b.exists() || what_.b.offset() == 0);
    return begins && what_.count == buffers_[what_.c.buffer()].count;
  }

  std::string validate_message() const {
    const region at = what_.kind == op_kind::send ? what_.a : what_.c;
    if (!has_lists(at) || is_packed(at) || what_.count <= 1) return {};
    return "lists that are not packed go one in a message";
  }

  std::string validate_compute() const {
    const bool from = has_lists(what_.a), to = has_lists(what_.c);
    if (is_function(what_.what)) return is_whole() ? "" : "a function reads and writes whole buffers";
    switch (what_.what) {
      case kernel::copy: return from == to ? "" : "it copies between lists and what are none";
      case kernel::measure: return from && !to ? "" : "it measures no lists, or into lists";
      case kernel::lay_out:
        if (from || !is_packed(what_.c)) return "it lays out no packed lists, or by lists";
        return what_.c.offset() == 0 && what_.count == buffers_[what_.c.buffer()].count
                   ? ""
                   : "packed lists are laid out all at once";
      default: break;
    }
    const auto regions = {what_.a, what_.b, what_.c, what_.s};
    return std::ranges::any_of(regions, [this](region at) { return has_lists(at); }) ? "it cannot compute with lists"
                                                                                     : "";
  }

  const op& what_;
  std::span<const buffer> buffers_;
};

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
    const std::string why = validate_kernel(what_, has_parameters ? in_.parameters[what_.tag] : parameter_values{});
    return why.empty() || refuse(why);
  }

  /// What a round captures is offered to a partial schedule; nobody offers to others.
  bool check_capture() {
    if (what_.kind != op_kind::capture || in_.is_partial) return true;
    return refuse("only a partial schedule captures: set an activation policy");
  }

  bool check_guard() { return what_.guard <= in_.guards.size() || refuse("has a guard that does not exist"); }

  bool check_lists() {
    const list_rules rules(what_, in_.buffers);
    std::string why = rules.validate_regions();
    if (why.empty() && what_.guard != 0) why = rules.validate_guard(in_.guards[what_.guard - std::size_t{1}]);
    return why.empty() || refuse(why);
  }

  const op& what_;
  const op_context& in_;
  const shape shape_;
  failure why_{};
};

}  // namespace

std::optional<failure> validate_op(const op& what, const op_context& in) { return op_check(what, in).run(); }

std::string validate_lists(std::span<const buffer> buffers, std::span<const guard> guards, bool is_synchronising,
                           bool is_partial) {
  const auto crosses = [](const buffer& it) { return it.has_lists() && it.role != buffer_role::scratch; };
  if (is_partial && std::ranges::any_of(buffers, crosses)) return "a partial schedule takes and gives no lists";
  if (!guards.empty() && !is_synchronising) return "guards are for synchronising schedules";
  return {};
}

}  // namespace lsched
