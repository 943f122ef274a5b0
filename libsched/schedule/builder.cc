#include "libsched/schedule/builder.h"

#include <algorithm>
#include <limits>

// Appending only. What can be judged at once (an id that does not exist, a number that does not fit) is
// refused here; everything that needs the whole schedule is judged in compile.cc.

namespace lsched {
namespace {

/// Edge offsets are 32 bit, and k_no_op is no op.
constexpr std::size_t k_most_ops = k_no_op;
constexpr std::size_t k_most_deps = std::numeric_limits<std::uint32_t>::max();

std::string op_text(op_id id) { return "op " + std::to_string(id); }

}  // namespace

builder::builder(world place, std::string name) : place_(place), name_(std::move(name)) {
  if (place.self >= 0 && place.self < place.size) return;
  fail(status::argument,
       "rank " + std::to_string(place.self) + " of " + std::to_string(place.size) + " is no place in a world");
}

void builder::fail(status code, std::string text, op_id where, rank peer) {
  if (error() == nullptr) error_ = {code, std::move(text), peer, where};
}

// --- data --------------------------------------------------------------------------------------------------

buffer_id builder::declare(buffer_role role, dtype type, std::uint64_t count, memory_space space) {
  if (buffers_.size() >= k_no_buffer) {
    fail(status::argument, "more than " + std::to_string(k_no_buffer) + " buffers");
    return k_no_buffer;
  }
  if (count > k_max_count)
    fail(status::argument, "buffer " + std::to_string(buffers_.size()) + ": more than 2^48-1 elements");
  buffers_.push_back({.role = role, .space = space, .type = type, .count = count});
  return static_cast<buffer_id>(buffers_.size() - 1);
}

const buffer& builder::at(buffer_id id) const {
  static constexpr buffer k_nothing{};
  return id < buffers_.size() ? buffers_[id] : k_nothing;
}

buffer_id builder::lists(buffer_role role, dtype type, std::uint64_t count, const list_layout& layout) {
  const buffer_id made = declare(role, type, count);
  if (error() != nullptr) return made;
  const std::string who = "buffer " + std::to_string(made) + ": ";
  if (unit_ != 1) fail(status::argument, who + "lists have no units");
  if (layout.room == 0) fail(status::argument, who + "its lists have no room");
  const bool fits = layout.room <= k_max_count && layout.total <= k_max_count &&
                    (layout.total != 0 || count == 0 || layout.room <= k_max_count / count);
  if (!fits) fail(status::argument, who + "more than 2^48-1 items");
  if (layout.typical > layout.room) fail(status::argument, who + "a typical list is longer than any may be");
  buffers_[made].lists = layout;
  return made;
}

// --- ops ---------------------------------------------------------------------------------------------------

op_id builder::append(const op& what, deps after) {
  if (error() != nullptr) return k_no_op;
  if (ops_.size() >= k_most_ops) {
    fail(status::argument, "too many ops");
    return k_no_op;
  }
  const auto id = static_cast<op_id>(ops_.size());
  op& made = ops_.emplace_back(what);
  for (region op::*which : {&op::a, &op::b, &op::c, &op::s}) made.*which = in_bucket(made.*which);
  for (const op_id before : after) dep(before, id);
  return error() == nullptr ? id : k_no_op;
}

region builder::in_bucket(region part) const {
  if (!part.exists()) return part;
  const buffer_role role = at(part.buffer()).role;
  if (role == buffer_role::input) return {part.buffer(), part.offset() + bucket_.input_begin};
  if (role == buffer_role::output) return {part.buffer(), part.offset() + bucket_.output_begin};
  return part;
}

op_id builder::nop(deps after) { return append({}, after); }

op_id builder::send(rank to, std::uint32_t tag, region source, std::uint64_t count, deps after) {
  return append({.kind = op_kind::send,
                 .type = at(source.buffer()).type,
                 .peer = to,
                 .tag = tag_in_bucket(tag),
                 .count = count,
                 .a = source},
                after);
}

op_id builder::recv(rank from, std::uint32_t tag, region target, std::uint64_t count, deps after) {
  return append({.kind = op_kind::recv,
                 .type = at(target.buffer()).type,
                 .peer = from,
                 .tag = tag_in_bucket(tag),
                 .count = count,
                 .c = target},
                after);
}

/// Its type is that of the elements it makes, or of those that it makes something else of.
op_id builder::compute(kernel what, const operands& of, std::uint64_t count, const parameter_values& with, deps after) {
  const kernel_row& row = row_of(what);
  const region typed = row.c.type == operand_type::elements ? of.c : of.a;
  std::uint32_t index = 0;
  if (row.has_parameters()) {
    index = static_cast<std::uint32_t>(parameters_.size());
    parameters_.push_back(with);
  }
  return append({.kind = op_kind::compute,
                 .what = what,
                 .type = at(typed.buffer()).type,
                 .tag = index,
                 .count = count,
                 .a = of.a,
                 .b = of.b,
                 .c = of.c,
                 .s = of.s},
                after);
}

op_id builder::reduce(kernel what, region lower, region higher, region target, std::uint64_t count, deps after) {
  if (!is_reduction(what) && error() == nullptr) {
    const auto id = static_cast<op_id>(ops_.size());
    fail(status::argument, op_text(id) + " (compute): its kernel is not a reduction", id);
  }
  return compute(what, {.a = lower, .b = higher, .c = target}, count, {}, after);
}

op_id builder::apply(kernel what, std::uint32_t function, buffer_id source, buffer_id by, buffer_id target,
                     deps after) {
  if (!is_function(what) && error() == nullptr) {
    const auto id = static_cast<op_id>(ops_.size());
    fail(status::argument, op_text(id) + " (compute): its kernel is no function", id);
  }
  return compute(what, {.a = {source, 0}, .b = {by, 0}, .c = {target, 0}}, at(target).count, {function}, after);
}

op_id builder::signal_send(rank to, std::uint32_t tag, deps after) {
  return append({.kind = op_kind::signal_send, .peer = to, .tag = bucket_.first_signal_tag + tag}, after);
}

op_id builder::signal_recv(rank from, std::uint32_t tag, deps after) {
  return append({.kind = op_kind::signal_recv, .peer = from, .tag = bucket_.first_signal_tag + tag}, after);
}

op_id builder::call(deps after) { return signal_recv(place_.self, k_call_tag, after); }

op_id builder::full_call(deps after) { return signal_recv(place_.self, k_full_call_tag, after); }

op_id builder::capture(kernel merge, region target, std::uint64_t count, deps after) {
  return append(
      {.kind = op_kind::capture, .what = merge, .type = at(target.buffer()).type, .count = count, .c = target}, after);
}

// --- units -------------------------------------------------------------------------------------------------

std::uint64_t builder::widened(std::uint64_t units) {
  if (unit_ != 0 && units <= k_max_count / unit_) return units * unit_;
  fail(status::argument, std::to_string(units) + " units of " + std::to_string(unit_) + " elements are no count");
  return 0;
}

/// From units to elements.
void builder::widen() {
  for (buffer& it : buffers_) it.count = widened(it.count);
  for (op& it : ops_) {
    it.count = widened(it.count);
    for (region op::*which : {&op::a, &op::b, &op::c, &op::s})
      if (region& part = it.*which; part.exists()) part = {part.buffer(), widened(part.offset())};
  }
  unit_ = 1;
}

// --- order -------------------------------------------------------------------------------------------------

void builder::dep(op_id before, op_id after) {
  if (before == k_no_op || after == k_no_op || error() != nullptr) return;
  if (before >= ops_.size() || after >= ops_.size())
    return fail(
        status::argument,
        op_text(after) + ": dep on " + op_text(before) + ", but only " + std::to_string(ops_.size()) + " ops exist",
        after);
  if (deps_.size() >= k_most_deps) return fail(status::argument, op_text(after) + ": too many deps", after);
  deps_.emplace_back(before, after);
}

void builder::set_entry(op_id first, op_id entry) {
  if (error() != nullptr) return;
  std::vector<bool> waits(ops_.size(), false);
  for (const auto& [before, after] : deps_) waits[after] = true;
  for (op_id id = first; id < ops_.size(); ++id)
    if (!waits[id]) dep(entry, id);
}

void builder::set_need(op_id what, std::uint32_t need) {
  if (error() != nullptr) return;
  if (what >= ops_.size())
    return fail(status::argument, "set_need of " + op_text(what) + ", which does not exist", what);
  ops_[what].need = need;
}

void builder::set_guard(op_id what, const guard& when) {
  if (error() != nullptr) return;
  if (what >= ops_.size())
    return fail(status::argument, "set_guard of " + op_text(what) + ", which does not exist", what);
  if (when.every == 0 || when.every > k_longest_period)
    return fail(status::argument,
                op_text(what) + ": a guard that holds every " + std::to_string(when.every) + " rounds; use 1 to " +
                    std::to_string(k_longest_period),
                what);
  auto found = std::ranges::find(guards_, when);
  if (found == guards_.end() && guards_.size() == k_most_guards)
    return fail(status::argument, op_text(what) + ": more than " + std::to_string(k_most_guards) + " guards", what);
  if (found == guards_.end()) found = guards_.insert(found, when);
  ops_[what].guard = static_cast<std::size_t>(found - guards_.begin() + 1) & k_most_guards;
}

void builder::set_guard(op_id first, op_id end, const guard& when) {
  for (op_id id = first; id < end && id < ops_.size(); ++id)
    if (is_payload(ops_[id].kind) || ops_[id].kind == op_kind::compute) set_guard(id, when);
}

void builder::set_exit(op_id what) {
  if (error() != nullptr) return;
  if (what >= ops_.size())
    return fail(status::argument, "set_exit to " + op_text(what) + ", which does not exist", what);
  exit_ = what;
}

}  // namespace lsched
