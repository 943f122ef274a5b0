#include "libsched/verify/form.h"

#include <algorithm>
#include <array>

#include "libsched/schedule/op_rules.h"
#include "libsched/schedule/round.h"
#include "ops/counted.h"

namespace lsched {
namespace {

class form_check {
 public:
  form_check(const schedule& program, world place, const aliasing& in_place, finding_list& out)
      : program_(program), place_(place), in_place_(in_place), out_(out) {}

  void run() {
    if (program_.place() != place_)
      return object(k_no_op, "has the schedule of rank " + std::to_string(program_.place().self) + " of " +
                                 std::to_string(program_.place().size));
    if (!has_sound_rows(program_.content())) return object(k_no_op, "has rows of deps that do not match its ops");
    if (program_.exit() >= size()) return object(k_no_op, "has no exit op");
    if (const auto why = words_for_misfit(program_, in_place_)) return object(k_no_op, "cannot work in place: " + *why);
    if (const auto why =
            validate_lists(program_.buffers(), program_.guards(), program_.is_synchronising(), program_.is_partial());
        !why.empty())
      return object(k_no_op, "has invalid lists or guards: " + why);
    check_deps();
    check_ops();
    if (is_sound_) check_in_place();
    if (is_sound_ && program_.starts().policy == activation_policy::full) check_captures();
    if (is_sound_ && program_.is_partial()) check_partial();
  }

 private:
  op_id size() const { return static_cast<op_id>(program_.ops().size()); }
  const op& at(op_id id) const { return program_.ops()[id]; }

  void object(op_id id, const std::string& why) {
    is_sound_ = false;
    const std::string subject = id == k_no_op ? "rank " + std::to_string(place_.self) : words_for(program_, id);
    out_.add({.what = property::form, .where = place_.self, .op = id, .text = subject + " " + why});
  }

  void check_deps() {
    std::vector<std::uint32_t> in_degree(size(), 0);
    for (op_id id = 0; id < size(); ++id) {
      op_id last = id;
      for (const op_id next : program_.successors(id)) {
        if (next <= last || next >= size())
          object(id, "has a dep to op " + std::to_string(next) + ", which is not a later op, or has this dep twice");
        else
          ++in_degree[next];
        last = std::max(last, next);
      }
    }
    std::vector<op_id> roots;
    for (op_id id = 0; id < size(); ++id) {
      if (in_degree[id] == 0) roots.push_back(id);
      if (at(id).need > in_degree[id] || (at(id).need == 0 && in_degree[id] != 0))
        object(id, "needs " + counted(at(id).need, "token") + " but has " + counted(in_degree[id], "dep"));
    }
    if (!std::ranges::equal(roots, program_.roots()))
      object(k_no_op, "has roots that are not exactly its ops without deps");
  }

  void check_ops() {
    const std::vector<placement> placements = placements_of(program_, in_place_);
    const op_context context{
        place_, program_.buffers(), program_.guards(), program_.parameters(), program_.is_partial(), placements};
    for (op_id id = 0; id < size(); ++id)
      if (const auto why = validate_op(at(id), context)) object(id, "is not valid: " + why->text);
    if (const auto clash = find_tag_clash(program_.ops()))
      object(clash->second,
             "has tag " + std::to_string(at(clash->second).tag) + ", as does op " + std::to_string(clash->first));
  }

  /// Checks that `in_place`, `releases_a` and `releases_b` of all ops are as compile() sets them.
  void check_in_place() {
    schedule::parts marked = program_.content();
    mark_in_place(marked);
    for (op_id id = 0; id < size(); ++id)
      if (marked.ops[id] != at(id)) object(id, "is marked to stay in place or to release a payload, but must not be");
  }

  /// Checks that the schedule has one contribution and one result. If calls of other ranks can start a rank's part, the
  /// schedule must be synchronising, so that no rank is more than one round ahead.
  void check_partial() {
    // The numbers of calls, of calls for full rounds, of graces, of calls for ranks that have left, and of captures
    std::array<std::size_t, 5> entries{};
    for (const op& o : program_.ops()) {
      if (is_call(o, place_.self)) ++entries[std::min<std::size_t>(o.tag, k_left_tag)];
      if (o.kind == op_kind::capture) ++entries[4];
    }
    const bool has_full_call = program_.starts().has_full_call();
    const bool counts_to_grace = place_.self == k_coordinator && has_grace(program_.starts(), place_.size);
    const std::size_t departures = counts_to_grace ? static_cast<std::size_t>(place_.size) : 0;
    const std::array<std::size_t, 5> all{1, has_full_call ? 1u : 0u, counts_to_grace ? 1u : 0u, departures, 1};
    const bool has_one_of_each =
        entries == all && count_of(program_, buffer_role::input) == 1 && count_of(program_, buffer_role::output) == 1;
    if (!has_one_of_each)
      object(k_no_op,
             "is partial, but does not have exactly the calls of its activation, and one capture, input and output");
    if (const auto why = validate(program_.starts(), place_.size))
      object(k_no_op, "has an invalid policy: " + why->text);
    if (program_.starts().is_woken() && !program_.is_synchronising())
      object(k_no_op, "may be woken by other ranks, but is not declared synchronising");
  }

  /// Checks that with the activation policy `full`, a rank captures only after its own call. The deps of this rank
  /// alone must ensure this order.
  void check_captures() {
    std::vector<std::uint32_t> tokens(size(), 0);
    for (op_id id = 0; id < size(); ++id) {
      if (is_call(at(id), place_.self) || !is_enabled(tokens[id], at(id).need)) continue;
      if (at(id).kind == op_kind::capture) object(id, "may capture before the application has called");
      for (const op_id next : program_.successors(id)) ++tokens[next];
    }
  }

  const schedule& program_;
  const world place_;
  const aliasing& in_place_;
  finding_list& out_;
  bool is_sound_ = true;
};

}  // namespace

void check_form(const schedule& program, world place, const aliasing& in_place, finding_list& out) {
  form_check(program, place, in_place, out).run();
}

std::string op_words(const schedule& program, op_id id) {
  const op& o = program.ops()[id];
  std::string words = "op " + std::to_string(id) + " (" + std::string(name_of(o.kind));
  if (o.kind == op_kind::compute) words += " " + std::string(name_of(o.what));
  const bool is_out = is_outgoing(o.kind);
  if (is_communication(o.kind)) words += (is_out ? " to " : " from ") + std::to_string(o.peer);
  return words + words_for_line(program.line_of(id)) + ")";
}

std::string words_for(const schedule& program, op_id id) {
  return "rank " + std::to_string(program.place().self) + " " + op_words(program, id);
}

}  // namespace lsched
