#include "libsched/verify/form.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "libsched/schedule/op_rules.h"
#include "ops/counted.h"

namespace lsched {
namespace {

class form_check {
 public:
  form_check(const schedule& program, world place, const aliasing& in_place, finding_list& out)
      : program_(program), place_(place), in_place_(in_place), out_(out) {}

  void run() {
    if (program_.place() != place_)
      return object(k_no_op, "is rank " + std::to_string(program_.place().self) + " of " +
                                 std::to_string(program_.place().size) + " by its own account");
    if (program_.exit() >= size()) return object(k_no_op, "has no exit op");
    if (const auto why = words_for_misfit(program_, in_place_)) return object(k_no_op, "cannot work in place: " + *why);
    placements_ = placements_of(program_, in_place_);
    if (const auto why =
            validate_lists(program_.buffers(), program_.guards(), program_.is_synchronising(), program_.is_partial());
        !why.empty())
      return object(k_no_op, "is wrong about lists or guards: " + why);
    count_deps();
    for (op_id id = 0; id < size(); ++id) check_op(id);
    check_roots();
    check_tags();
    if (is_sound_) check_stays();
    if (is_sound_ && program_.starts().policy == activation_policy::full) check_captures();
    if (is_sound_ && program_.is_partial()) check_partial();
  }

 private:
  op_id size() const { return static_cast<op_id>(program_.ops().size()); }
  const op& at(op_id id) const { return program_.ops()[id]; }

  void object(op_id id, const std::string& why) {
    is_sound_ = false;
    const std::string who = id == k_no_op ? "rank " + std::to_string(place_.self) : words_for(program_, id);
    out_.add({.what = property::form, .where = place_.self, .op = id, .text = who + " " + why});
  }

  void count_deps();
  void check_op(op_id id);
  void check_overlap(op_id id, operand x, operand y);
  void check_roots();
  void check_tags();
  void check_stays();
  void check_stay(op_id receive, op_id reader, region operand, std::vector<std::uint32_t>& released);
  void check_partial();
  void check_captures();

  const schedule& program_;
  const world place_;
  const aliasing& in_place_;
  finding_list& out_;
  bool is_sound_ = true;
  std::vector<std::uint32_t> in_degree_;
  std::vector<placement> placements_;  ///< by buffer
};

void form_check::count_deps() {
  in_degree_.assign(size(), 0);
  for (op_id id = 0; id < size(); ++id) {
    op_id last = id;
    for (const op_id next : program_.successors(id)) {
      if (next <= last || next >= size())
        object(id, "has a dep to op " + std::to_string(next) + ", which is not a later one, or has it twice");
      else
        ++in_degree_[next];
      last = std::max(last, next);
    }
  }
}

void form_check::check_op(op_id id) {
  const op& it = at(id);
  if (it.need > in_degree_[id] || (it.need == 0 && in_degree_[id] != 0))
    object(id, "needs " + counted(it.need, "token") + " but has " + counted(in_degree_[id], "dep"));
  if (const auto why = validate_op(
          it, {place_, program_.buffers(), program_.guards(), program_.parameters(), program_.is_partial()}))
    return object(id, "is not valid: " + why->text);
  const operand_list parts = operands_of(it, program_.buffers());
  for (const operand* x = parts.begin(); x != parts.end(); ++x)
    for (const operand* y = x + 1; y != parts.end(); ++y) check_overlap(id, *x, *y);
}

/// Where buffers are the same memory, too.
void form_check::check_overlap(op_id id, operand x, operand y) {
  const placement one = placements_[x.at.buffer()], other = placements_[y.at.buffer()];
  if (one.memory != other.memory) return;
  x.at = {0, one.begin + x.at.offset()};
  y.at = {0, other.begin + y.at.offset()};
  if (straddle(x, y)) object(id, "has two regions that overlap without being the same");
}

void form_check::check_roots() {
  std::vector<op_id> roots;
  for (op_id id = 0; id < size(); ++id)
    if (in_degree_[id] == 0) roots.push_back(id);
  if (!std::equal(roots.begin(), roots.end(), program_.roots().begin(), program_.roots().end()))
    object(k_no_op, "lists other roots than the ops without deps");
}

void form_check::check_tags() {
  std::vector<std::tuple<rank, op_kind, std::uint32_t, op_id>> uses;
  for (op_id id = 0; id < size(); ++id)
    if (is_communication(at(id).kind)) uses.emplace_back(at(id).peer, at(id).kind, at(id).tag, id);
  std::sort(uses.begin(), uses.end());
  for (std::size_t i = 1; i < uses.size(); ++i) {
    const auto& [peer, kind, tag, id] = uses[i];
    const auto& [other_peer, other_kind, other_tag, other] = uses[i - 1];
    if (std::tie(peer, kind, tag) == std::tie(other_peer, other_kind, other_tag))
      object(id, "has the tag " + std::to_string(tag) + " of op " + std::to_string(other));
  }
}

/// compile() marks a receive in place only where nothing but computes that wait for it touch the buffer.
void form_check::check_stays() {
  std::vector<std::uint32_t> released(size(), 0);
  std::vector<std::uint32_t> touched(program_.buffers().size(), 0);
  for (op_id id = 0; id < size(); ++id) {
    for (const operand& part : operands_of(at(id), program_.buffers())) ++touched[part.at.buffer()];
    check_stay(at(id).releases_a, id, at(id).a, released);
    check_stay(at(id).releases_b, id, at(id).b, released);
  }
  for (op_id id = 0; id < size(); ++id)
    if (at(id).in_place && (released[id] == 0 || touched[at(id).c.buffer()] != released[id] + 1))
      object(id, "stays in place, but not for its readers alone");
}

void form_check::check_stay(op_id receive, op_id reader, region operand, std::vector<std::uint32_t>& released) {
  if (receive == k_no_op) return;
  if (receive >= size() || !at(receive).in_place || at(receive).kind != op_kind::recv)
    return object(reader, "releases op " + std::to_string(receive) + ", which holds nothing");
  const op& in = at(receive);
  const auto next = program_.successors(receive);
  const bool waits = std::binary_search(next.begin(), next.end(), reader) && at(reader).need == in_degree_[reader];
  const bool is_within = operand.offset() + at(reader).count <= in.count;
  if (!waits || operand.buffer() != in.c.buffer() || !is_within || in.c.offset() != 0 ||
      program_.buffers()[in.c.buffer()].role != buffer_role::scratch)
    object(reader, "releases op " + std::to_string(receive) + ", but is not the reader of its payload");
  ++released[receive];
}

/// An instance has one contribution and one result, and what wakes others runs no further ahead than a round.
void form_check::check_partial() {
  std::array<std::size_t, 3> entries{};  // calls, calls of full rounds, captures
  for (op_id id = 0; id < size(); ++id) {
    const op& it = at(id);
    if (it.kind == op_kind::signal_recv && it.peer == place_.self) ++entries[it.tag == k_full_call_tag ? 1 : 0];
    if (it.kind == op_kind::capture) ++entries[2];
  }
  const bool waits_for_all = program_.starts().is_woken() && program_.starts().full_every != 0;
  const bool has_one_of_each = entries == std::array<std::size_t, 3>{1, waits_for_all ? 1u : 0u, 1} &&
                               count_of(program_, buffer_role::input) == 1 &&
                               count_of(program_, buffer_role::output) == 1;
  if (!has_one_of_each) object(k_no_op, "is partial, but has not just one call, capture, input and output");
  if (const auto why = validate(program_.starts(), place_.size)) object(k_no_op, "has a policy of which " + why->text);
  if (program_.starts().is_woken() && !program_.is_synchronising())
    object(k_no_op, "may be woken by others, but is not declared synchronising");
}

/// With policy full a rank captures after its own call, whatever other ranks do: by deps of its own.
void form_check::check_captures() {
  std::vector<std::uint32_t> tokens(size(), 0);
  for (op_id id = 0; id < size(); ++id) {
    const bool is_call = at(id).kind == op_kind::signal_recv && at(id).peer == place_.self;
    if (is_call || tokens[id] < at(id).need) continue;
    if (at(id).kind == op_kind::capture) object(id, "may capture before the application has called");
    for (const op_id next : program_.successors(id)) ++tokens[next];
  }
}

}  // namespace

void check_form(const schedule& program, world place, const aliasing& in_place, finding_list& out) {
  form_check(program, place, in_place, out).run();
}

std::string op_words(const schedule& program, op_id id) {
  const op& it = program.ops()[id];
  std::string words = "op " + std::to_string(id) + " (" + std::string(name_of(it.kind));
  if (it.kind == op_kind::compute) words += " " + std::string(name_of(it.what));
  const bool is_out = it.kind == op_kind::send || it.kind == op_kind::signal_send;
  if (is_communication(it.kind)) words += (is_out ? " to " : " from ") + std::to_string(it.peer);
  return words + ")";
}

std::string words_for(const schedule& program, op_id id) {
  return "rank " + std::to_string(program.place().self) + " " + op_words(program, id);
}

}  // namespace lsched
