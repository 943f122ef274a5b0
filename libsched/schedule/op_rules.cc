#include "libsched/schedule/op_rules.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "ops/counted.h"

namespace lsched {
namespace {

/// Returns whether an op of this kind and kernel has the region always, never, or optionally.
operand_need need_of(const op& o, region op::*which) {
  if (o.kind == op_kind::compute) {
    const kernel_row& row = row_of(o.what);
    return which == &op::a ? row.a.need : which == &op::b ? row.b.need : which == &op::s ? row.s.need : row.c.need;
  }
  const bool has_region = which == &op::a ? row_of(o.kind).reads_a : which == &op::c && row_of(o.kind).writes_c;
  return has_region ? operand_need::always : operand_need::never;
}

class op_check {
 public:
  op_check(const op& o, const op_context& in) : op_(o), in_(in) {}

  std::optional<failure> run() {
    const bool is_sound = check_peer() && check_count() && check_kernel() && check_regions() && check_operands() &&
                          check_capture() && check_guard() && check_lists() && check_spaces() && check_overlap();
    return is_sound ? std::nullopt : std::optional(why_);
  }

 private:
  bool refuse(status code, std::string text, rank peer = k_no_rank) {
    why_ = {code, std::move(text), peer};
    return false;
  }
  bool refuse(std::string text) { return refuse(status::argument, std::move(text)); }

  bool check_peer() {
    if (!is_communication(op_.kind)) return true;
    const rank peer = op_.peer;
    if (peer < 0 || peer >= in_.place.size)
      return refuse("peer " + std::to_string(peer) + " is not a rank of the world: use 0 to " +
                    std::to_string(in_.place.size - 1));
    if (peer == in_.place.self && op_.kind != op_kind::signal_recv)
      return refuse(status::argument,
                    "peer " + std::to_string(peer) + " is the rank itself, which cannot be its own peer: use a copy",
                    peer);
    return true;
  }

  bool check_count() { return op_.count <= k_max_count || refuse("the count is above the largest count, 2^48-1"); }

  bool check_regions() {
    for (region op::*which : {&op::a, &op::b, &op::s, &op::c}) {
      const operand_need need = need_of(op_, which);
      const region part = op_.*which;
      if (!part.exists() && need == operand_need::always)
        return refuse(name_of(which) + " names no buffer of this schedule");
      if (part.exists() && need == operand_need::never)
        return refuse("has a " + name_of(which) + ", which this kind of op does not use");
      if (part.exists() && part.buffer() >= in_.buffers.size())
        return refuse(name_of(which) + " is in buffer " + std::to_string(part.buffer()) +
                      ", which does not exist: this schedule has " + std::to_string(in_.buffers.size()));
    }
    return true;
  }

  bool check_operands() {
    parts_ = operands_of(op_, in_.buffers);
    for (const operand& part : parts_)
      if (!check_extent(part) || (part.is_written && !check_write(part.at))) return false;
    return true;
  }

  bool check_extent(const operand& part) {
    const buffer& under = in_.buffers[part.at.buffer()];
    if (under.type != part.type)
      return refuse(name_of(part.which) + " is " + std::string(name_of(under.type)) + " but " +
                    (part.type == op_.type ? "the op is "
                     : part.is_sums        ? "sums are "
                                           : "lengths are ") +
                    std::string(name_of(part.type)));
    if (part.at.offset() > under.count || part.count > under.count - part.at.offset())
      return refuse(status::bounds, name_of(part.which) + ", " + counted(part.count, "element") + " at b" +
                                        std::to_string(part.at.buffer()) + "[" + std::to_string(part.at.offset()) +
                                        "], exceeds its buffer of " + std::to_string(under.count));
    return true;
  }

  bool check_write(region target) {
    if (in_.buffers[target.buffer()].role != buffer_role::input || op_.kind == op_kind::capture) return true;
    return refuse("writes to input buffer " + std::to_string(target.buffer()) +
                  ": write to an output or scratch buffer");
  }

  bool check_kernel() {
    const bool has_parameters = op_.kind == op_kind::compute && row_of(op_.what).has_parameters();
    if (has_parameters && op_.tag >= in_.parameters.size())
      return refuse("has parameter index " + std::to_string(op_.tag) + ", but the schedule has " +
                    counted(in_.parameters.size(), "parameter set"));
    const std::string why = validate_kernel(op_, has_parameters ? in_.parameters[op_.tag] : parameter_values{});
    return why.empty() || refuse(why);
  }

  /// A capture is valid only in a partial schedule, because the application offers contributions only to partial
  /// schedules.
  bool check_capture() {
    if (op_.kind != op_kind::capture || in_.is_partial) return true;
    return refuse("only a partial schedule can have a capture: set an activation policy");
  }

  bool check_guard() { return op_.guard <= in_.guards.size() || refuse("has a guard that does not exist"); }

  bool check_lists() {
    std::string why = validate_regions();
    if (why.empty() && op_.guard != 0) why = validate_guard(in_.guards[op_.guard - std::size_t{1}]);
    return why.empty() || refuse(why);
  }

  /// The host must not access device memory. A device accesses device memory and staging memory. Dot products that a
  /// device computes must be in staging memory. Dot products that an adaptive sum reads may be in host memory, because
  /// the host reads them. The device processes only those operands of a function that are vectors. All other operands
  /// of a function may be in host memory.
  bool check_spaces() {
    const auto space_of = [&](const operand& part) { return in_.buffers[part.at.buffer()].space; };
    if (!is_on_device(op_, in_.buffers)) return true;
    if (op_.kind != op_kind::compute || !row_of(op_.what).is(trait::on_devices))
      return refuse("accesses device memory, but this kind of op cannot run on a device");
    if (is_function(op_.what)) return true;
    for (const operand& part : parts_) {
      const memory_space space = space_of(part);
      const bool is_read_by_host = part.is_sums && !part.is_written;
      if (part.is_sums && space == memory_space::device)
        return refuse("has sums in device memory: put the sums in staging memory");
      if (space == memory_space::host && !is_read_by_host)
        return refuse("runs on a device, which cannot access its " + name_of(part.which) + " in host memory");
    }
    return true;
  }

  bool check_overlap() {
    const auto in_memory = [this](operand part) {
      if (in_.placements.empty()) return part;
      const placement& place = in_.placements[part.at.buffer()];
      part.at = {static_cast<std::uint16_t>(place.memory), place.begin + part.at.offset()};
      return part;
    };
    for (const operand* x = parts_.begin(); x != parts_.end(); ++x)
      for (const operand* y = x + 1; y != parts_.end(); ++y)
        if (straddle(in_memory(*x), in_memory(*y)))
          return refuse("has two regions that overlap but are not equal: use equal or separate regions");
    return true;
  }

  // --- rules for lists and guards; checked only if the op's regions fit their buffers ------------------------

  bool has_lists(region place) const { return place.exists() && in_.buffers[place.buffer()].has_lists(); }
  bool is_packed(region place) const { return has_lists(place) && in_.buffers[place.buffer()].is_packed(); }

  bool is_whole() const {
    const bool begins = op_.a.offset() == 0 && op_.c.offset() == 0 && (!op_.b.exists() || op_.b.offset() == 0);
    return begins && op_.count == in_.buffers[op_.c.buffer()].count;
  }

  std::string validate_message() const {
    const region at = row_of(op_.kind).reads_a ? op_.a : op_.c;
    if (!has_lists(at) || is_packed(at) || op_.count <= 1) return {};
    return "a message can have only one list that is not packed";
  }

  std::string validate_compute() const {
    const bool from = has_lists(op_.a), to = has_lists(op_.c);
    if (is_function(op_.what)) return is_whole() ? "" : "a function must read and write whole buffers";
    switch (row_of(op_.what).symbol) {
      case symbolic_rule::copy: return from == to ? "" : "a copy cannot mix lists and other data";
      case symbolic_rule::lengths: return from && !to ? "" : "the kernel measure must read lists and write numbers";
      case symbolic_rule::layout:
        if (from || !is_packed(op_.c)) return "the kernel lay_out must read numbers and write packed lists";
        return op_.c.offset() == 0 && op_.count == in_.buffers[op_.c.buffer()].count
                   ? ""
                   : "the kernel lay_out must write all packed lists of a buffer";
      default: break;
    }
    const auto regions = {op_.a, op_.b, op_.c, op_.s};
    return std::ranges::any_of(regions, [this](region at) { return has_lists(at); })
               ? "this kernel cannot compute with lists"
               : "";
  }

  std::string validate_regions() const {
    if (op_.kind == op_kind::compute) return validate_compute();
    if (is_payload(op_.kind)) return validate_message();
    return has_lists(op_.c) ? "a capture cannot write lists" : "";
  }

  std::string validate_guard(const guard& when) const {
    if (!is_payload(op_.kind) && op_.kind != op_kind::compute)
      return "only sends, receives and computes can have guards";
    if (!when.skips_empty) return {};
    if (op_.kind == op_kind::recv)
      return is_packed(op_.c) ? "" : "a receive can skip empty lists only if they are packed";
    const bool moves_lists =
        has_lists(op_.a) && (op_.kind == op_kind::send || row_of(op_.what).symbol == symbolic_rule::copy);
    return moves_lists ? "" : "the guard skips empty lists, but the op moves no lists";
  }

  const op& op_;
  const op_context& in_;
  operand_list parts_{};
  failure why_{};
};

}  // namespace

bool has_sound_rows(const schedule::parts& content) {
  return content.first.size() == content.ops.size() + 1 && content.first.front() == 0 &&
         content.first.back() == content.next.size() && std::ranges::is_sorted(content.first);
}

std::optional<failure> validate_op(const op& o, const op_context& in) { return op_check(o, in).run(); }

/// Tags need to be unique only among ops of the same kind and peer, because the kind determines the direction, and
/// whether the op is a signal.
std::optional<std::pair<op_id, op_id>> find_tag_clash(std::span<const op> ops) {
  std::vector<std::tuple<rank, op_kind, std::uint32_t, op_id>> uses;
  for (op_id id = 0; id < ops.size(); ++id)
    if (is_communication(ops[id].kind)) uses.emplace_back(ops[id].peer, ops[id].kind, ops[id].tag, id);
  std::ranges::sort(uses);
  for (std::size_t i = 1; i < uses.size(); ++i) {
    const auto& [peer, kind, tag, id] = uses[i];
    const auto& [other_peer, other_kind, other_tag, other] = uses[i - 1];
    if (peer == other_peer && kind == other_kind && tag == other_tag) return std::pair(other, id);
  }
  return std::nullopt;
}

std::string validate_lists(std::span<const buffer> buffers, std::span<const guard> guards, bool is_synchronising,
                           bool is_partial) {
  const auto crosses = [](const buffer& b) { return b.has_lists() && b.role != buffer_role::scratch; };
  const auto is_elsewhere = [](const buffer& b) { return b.has_lists() && b.space != memory_space::host; };
  if (is_partial && std::ranges::any_of(buffers, crosses))
    return "a partial schedule cannot have lists as inputs or outputs";
  if (std::ranges::any_of(buffers, is_elsewhere)) return "lists must be in host memory";
  if (!guards.empty() && !is_synchronising) return "guards need a synchronising schedule";
  return {};
}

}  // namespace lsched
