// Compiles the content of a builder to a schedule: checks all parts, finds a topological order, and stores the deps as
// compressed sparse rows (CSR).
//
// Failures contain the op ids that the builder returned. Cost: O((V + E) log V) for V ops and E deps.
#include <algorithm>
#include <functional>
#include <queue>

#include "libsched/schedule/builder.h"
#include "libsched/schedule/op_rules.h"
#include "ops/counted.h"

namespace lsched {
class compiler {
 public:
  explicit compiler(const builder& source) : source_(source.parts_), ops_(source_.ops), deps_(source.deps_) {}

  result<schedule_ptr> run() {
    const bool is_sound =
        check_buffers() && check_ops() && check_tags() && sort_deps() && settle_exit() && settle_needs() && order_ops();
    if (!is_sound) return error_;
    write_ops();
    mark_in_place(parts_);
    return std::make_shared<const schedule>(std::move(parts_));
  }

 private:
  // --- checks: each returns true, or sets error_ and returns false -----------------------------------------
  bool refuse(status code, op_id id, const std::string& why, rank peer = k_no_rank) {
    error_ = {code,
              "op " + std::to_string(id) + " (" + std::string(name_of(ops_[id].kind)) +
                  words_for_line(source_.line_of(id)) + "): " + why,
              peer, id};
    return false;
  }
  bool check_buffers() {
    const bool is_partial = source_.starts.policy != activation_policy::none;
    const std::string why = validate_lists(source_.buffers, source_.guards, source_.synchronising, is_partial);
    if (!why.empty()) {
      error_ = {status::argument, why, k_no_rank, k_no_op};
      return false;
    }
    return true;
  }

  bool check_ops() {
    const op_context in{source_.place, source_.buffers, source_.guards, source_.parameters,
                        source_.starts.policy != activation_policy::none};
    for (op_id id = 0; id < ops_.size(); ++id)
      if (const auto why = validate_op(ops_[id], in)) return refuse(why->code, id, why->text, why->peer);
    return true;
  }

  bool check_tags() {
    const auto clash = find_tag_clash(ops_);
    if (!clash) return true;
    const op& o = ops_[clash->second];
    return refuse(status::argument, clash->second,
                  "tag " + std::to_string(o.tag) + " with peer " + std::to_string(o.peer) + " is already used by op " +
                      std::to_string(clash->first) + ": use another tag",
                  o.peer);
  }

  // --- order -----------------------------------------------------------------------------------------------

  /// Sorts the deps, which are pairs (before, after), by `before` and then by `after`. Refuses duplicates.
  bool sort_deps() {
    std::vector<std::pair<op_id, op_id>> sorted(deps_.size());
    first_.assign(ops_.size() + 1, 0);
    for (const auto& [before, after] : deps_) ++first_[before + 1];
    for (op_id id = 0; id < ops_.size(); ++id) first_[id + 1] += first_[id];
    std::vector<std::size_t> end(first_.begin(), first_.end() - 1);
    for (const auto& dep : deps_) sorted[end[dep.first]++] = dep;
    deps_ = std::move(sorted);
    const auto at = [this](std::size_t i) { return deps_.begin() + static_cast<std::ptrdiff_t>(i); };
    for (op_id id = 0; id < ops_.size(); ++id) std::sort(at(first_[id]), at(first_[id + 1]));
    const auto twice = std::adjacent_find(deps_.begin(), deps_.end());
    if (twice == deps_.end()) return true;
    return refuse(status::argument, twice->second,
                  "the dep on op " + std::to_string(twice->first) + " was added twice: add the dep once");
  }

  /// Determines the exit op: the op passed to builder::set_exit(), else the only leaf (op without successors), else a
  /// new nop that depends on all leaves. A graph without a leaf has a cycle, which order_ops detects later.
  bool settle_exit() {
    exit_ = source_.exit;
    if (exit_ != k_no_op) return true;
    std::vector<bool> is_leaf(ops_.size(), true);
    for (const auto& [before, after] : deps_) is_leaf[before] = false;
    std::vector<op_id> leaves;
    for (op_id id = 0; id < ops_.size(); ++id)
      if (is_leaf[id]) leaves.push_back(id);
    if (leaves.size() == 1) {
      exit_ = leaves.front();
      return true;
    }
    exit_ = static_cast<op_id>(ops_.size());
    ops_.emplace_back();
    for (const op_id leaf : leaves) deps_.emplace_back(leaf, exit_);
    return sort_deps();
  }

  bool settle_needs() {
    in_degree_.assign(ops_.size(), 0);
    for (const auto& [before, after] : deps_) ++in_degree_[after];
    for (op_id id = 0; id < ops_.size(); ++id) {
      std::uint32_t& need = ops_[id].need;
      if (need > in_degree_[id])
        return refuse(status::argument, id,
                      "needs " + counted(need, "token") + " but has " + counted(in_degree_[id], "dep") +
                          ": set a need of at most this number");
      if (need == 0) need = in_degree_[id];
    }
    return true;
  }

  /// Assigns new ids in a topological order. Among the ops whose deps all have new ids, the op that was appended first
  /// gets the next id. So if the ops were appended in a topological order, their ids do not change.
  bool order_ops() {
    std::vector<std::uint32_t> missing = in_degree_;
    std::priority_queue<op_id, std::vector<op_id>, std::greater<>> ready;
    for (op_id id = 0; id < ops_.size(); ++id)
      if (missing[id] == 0) ready.push(id);
    order_.reserve(ops_.size());
    while (!ready.empty()) {
      const op_id next = ready.top();
      ready.pop();
      order_.push_back(next);
      for (const auto& [before, after] : deps_from(next))
        if (--missing[after] == 0) ready.push(after);
    }
    return order_.size() == ops_.size() || name_cycle(missing);
  }

  /// Refuses the schedule with a text that names a cycle. Every op without a new id has a predecessor without a new id.
  /// So a walk along such predecessors enters a cycle after at most as many steps as there are ops.
  bool name_cycle(const std::vector<std::uint32_t>& missing) {
    std::vector<op_id> stuck_before(ops_.size(), k_no_op);
    op_id at = k_no_op;
    for (const auto& [before, after] : deps_) {
      if (missing[before] == 0) continue;
      stuck_before[after] = before;
      at = after;
    }
    for (std::size_t step = 0; step < ops_.size(); ++step) at = stuck_before[at];
    return refuse(
        status::cycle, at,
        "waits for itself, through its dep on op " + std::to_string(stuck_before[at]) + ": remove a dep of this cycle");
  }

  std::span<const std::pair<op_id, op_id>> deps_from(op_id before) const {
    return std::span(deps_).subspan(first_[before], first_[before + 1] - first_[before]);
  }

  // --- output ----------------------------------------------------------------------------------------------

  /// Assigns indices to guards in the order in which ops use the guards. A parser of the schedule's text form assigns
  /// the same indices.
  void number_guard(op& o) {
    const guard& when = source_.guards[o.guard - std::size_t{1}];
    auto found = std::ranges::find(parts_.guards, when);
    if (found == parts_.guards.end()) found = parts_.guards.insert(found, when);
    o.guard = static_cast<std::size_t>(found - parts_.guards.begin() + 1) & k_most_guards;
  }

  /// Assigns the next index to the op's parameters. A parser of the schedule's text form assigns the same index.
  void number_parameters(op& o) {
    parts_.parameters.push_back(source_.parameters[o.tag]);
    o.tag = static_cast<std::uint32_t>(parts_.parameters.size() - 1);
  }

  void write_ops() {
    std::vector<op_id> number(ops_.size());
    for (op_id id = 0; id < order_.size(); ++id) number[order_[id]] = id;
    parts_.name = source_.name;
    parts_.place = source_.place;
    parts_.buffers = source_.buffers;
    parts_.synchronising = source_.synchronising;
    parts_.holding = source_.holding;
    parts_.starts = source_.starts;
    parts_.exit = number[exit_];
    parts_.ops.reserve(ops_.size());
    parts_.first.reserve(ops_.size() + 1);
    parts_.next.reserve(deps_.size());
    parts_.first.push_back(0);
    for (const op_id old : order_) {
      if (!source_.lines.empty()) parts_.lines.push_back(source_.line_of(old));
      if (in_degree_[old] == 0) parts_.roots.push_back(number[old]);
      parts_.ops.push_back(ops_[old]);
      if (ops_[old].guard != 0) number_guard(parts_.ops.back());
      if (ops_[old].kind == op_kind::compute && row_of(ops_[old].what).has_parameters())
        number_parameters(parts_.ops.back());
      for (const auto& [before, after] : deps_from(old)) parts_.next.push_back(number[after]);
      std::sort(parts_.next.begin() + parts_.first.back(), parts_.next.end());
      parts_.first.push_back(static_cast<std::uint32_t>(parts_.next.size()));
    }
  }

  const schedule::parts& source_;
  std::vector<op> ops_;                        ///< ops as appended, then the exit op if compile() has added it
  std::vector<std::pair<op_id, op_id>> deps_;  ///< deps (before, after), sorted by sort_deps()
  std::vector<std::size_t> first_;             ///< by op: position of its first dep in deps_; last: length of deps_
  std::vector<std::uint32_t> in_degree_;
  std::vector<op_id> order_;  ///< ids that the builder returned, in topological order
  op_id exit_ = k_no_op;      ///< id that the builder returned
  schedule::parts parts_;
  failure error_;
};

result<schedule_ptr> builder::compile() const {
  if (error() != nullptr) return *error();
  if (unit_ == 1) return compiler(*this).run();
  builder wide = *this;
  wide.widen();
  return wide.compile();
}

}  // namespace lsched
