#include "bindings/cli/picture/critical_path.h"

#include <algorithm>
#include <optional>

namespace lsched::cli {
namespace {

constexpr picoseconds k_ps = 1000;  ///< picoseconds in a nanosecond

/// Adds a step. Steps are found from the last to the first, so the new step ends when the previously added step begins.
void add_step(std::vector<path_step>& path, std::size_t op, picoseconds begin, bool by_message) {
  const picoseconds end = path.empty() ? begin : path.back().begin;
  path.push_back({op, std::min(begin, end), end, by_message});
}

/// Finds the critical path in the record of a simulated round.
class simulated_walk {
 public:
  simulated_walk(const simulation_record& record, const simulation_report& report, const long_message& is_long)
      : ops_(record.ops),
        sends_(sends_of<simulated_op>(ops_)),
        before_(ops_.size()),
        finish_(report.finish),
        is_long_(is_long) {
    std::map<std::pair<rank, op_id>, std::size_t> index;
    std::map<rank, std::size_t> last;
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      index[{ops_[i].who, ops_[i].op}] = i;
      if (const auto found = last.find(ops_[i].who); found != last.end()) before_[i] = found->second;
      last[ops_[i].who] = i;
    }
    for (const simulated_dep& dep : record.deps) {
      const auto from = index.find({dep.who, dep.before}), to = index.find({dep.who, dep.after});
      if (from != index.end() && to != index.end()) deps_.emplace(to->second, from->second);
    }
  }

  std::vector<path_step> run() {
    const auto latest = std::ranges::max_element(finish_);
    if (ops_.empty() || latest == finish_.end()) return {};
    const rank who = static_cast<rank>(latest - finish_.begin());
    std::optional<std::size_t> op;
    for (std::size_t i = 0; i < ops_.size(); ++i)
      if (ops_[i].who == who && (!op || ops_[i].end >= ops_[*op].end)) op = i;
    std::vector<path_step> path;
    for (bool by_message = false; op; op = cause_of(*op, by_message)) {
      add_step(path, *op, ops_[*op].begin, by_message);
      if (path.size() == 1) path.back().end = *latest;
    }
    std::ranges::reverse(path);
    return path;
  }

 private:
  /// Returns the op that op i waited for last: the previous op on its CPU, the send of its message, or the op of a dep.
  /// Sets `by_message` if the result is the send.
  std::optional<std::size_t> cause_of(std::size_t i, bool& by_message) const {
    by_message = false;
    const std::optional<std::size_t> own = dep_of(i);
    for (const auto& candidate : {own, before_[i]})
      if (candidate && ops_[*candidate].end == ops_[i].begin) return candidate;
    if (!is_receive(ops_[i])) return own;
    const auto send = sends_.find(key_of(ops_[i]));
    if (send == sends_.end()) return own;
    // The message of a rendezvous also waits for the receiver.
    if (own && ops_[*own].end > ops_[send->second].end && is_long_ && is_long_(ops_[send->second])) return own;
    by_message = true;
    return send->second;
  }

  /// Returns the op of the dep that ended last.
  std::optional<std::size_t> dep_of(std::size_t i) const {
    std::optional<std::size_t> last;
    const auto [first, end] = deps_.equal_range(i);
    for (auto dep = first; dep != end; ++dep)
      if (!last || ops_[dep->second].end >= ops_[*last].end) last = dep->second;
    return last;
  }

  std::span<const simulated_op> ops_;
  std::map<message_key, std::size_t> sends_;
  std::vector<std::optional<std::size_t>> before_;  ///< by op: the previous op on the same CPU
  std::multimap<std::size_t, std::size_t> deps_;    ///< deps, by the op that waits
  const std::vector<picoseconds>& finish_;
  const long_message& is_long_;
};

/// Finds the critical path in recorded events. A receive is assumed to wait for its send if the send began later. Any
/// other op is assumed to wait for the op of its rank that ended last before it began.
class recorded_walk {
 public:
  explicit recorded_walk(std::span<const trace_event> events) : events_(events), sends_(sends_of(events)) {
    for (std::size_t i = 0; i < events.size(); ++i)
      if (is_op(events[i])) of_rank_[events[i].who].push_back(i);
    for (auto& [who, ops] : of_rank_)
      std::ranges::stable_sort(ops, {}, [&](std::size_t i) { return events_[i].end_ns; });
  }

  std::vector<path_step> run() {
    std::optional<std::size_t> op;
    for (std::size_t i = 0; i < events_.size(); ++i)
      if (is_op(events_[i]) && (!op || events_[i].end_ns > events_[*op].end_ns)) op = i;
    std::vector<path_step> path;
    std::vector<bool> seen(events_.size());
    for (bool by_message = false; op && !seen[*op];) {
      seen[*op] = true;
      const trace_event& event = events_[*op];
      if (path.empty()) path.push_back({.op = *op, .end = time_of(event.end_ns)});
      const std::optional<std::size_t> send = late_send_of(*op);
      // If a receive was posted before its message was sent, the receive waited for the sender.
      path.back().begin = std::min(path.back().end, time_of(send ? events_[*send].begin_ns : event.begin_ns));
      by_message = send.has_value();
      op = send ? send : before(*op);
      if (op) path.push_back({*op, 0, path.back().begin, by_message});
    }
    if (!path.empty()) path.back().begin = std::min(path.back().end, time_of(events_[path.back().op].begin_ns));
    std::ranges::reverse(path);
    return path;
  }

 private:
  static bool is_op(const trace_event& event) { return event.op != k_no_op; }
  static picoseconds time_of(std::uint64_t ns) { return static_cast<picoseconds>(ns) * k_ps; }

  std::optional<std::size_t> late_send_of(std::size_t i) const {
    if (!is_receive(events_[i])) return std::nullopt;
    const auto send = sends_.find(key_of(events_[i]));
    if (send == sends_.end() || events_[send->second].begin_ns < events_[i].begin_ns) return std::nullopt;
    return send->second;
  }

  /// Returns the op of the same rank that ended last before op i began.
  std::optional<std::size_t> before(std::size_t i) const {
    const auto& ops = of_rank_.at(events_[i].who);
    auto place =
        std::ranges::upper_bound(ops, events_[i].begin_ns, {}, [&](std::size_t j) { return events_[j].end_ns; });
    while (place != ops.begin())
      if (*--place != i) return *place;
    return std::nullopt;
  }

  std::span<const trace_event> events_;
  std::map<message_key, std::size_t> sends_;
  std::map<rank, std::vector<std::size_t>> of_rank_;  ///< by rank: indices of ops, sorted by the end of the op
};

message_key key_of(std::uint32_t schedule, round_no round, rank who, rank peer, std::uint32_t tag, op_kind kind) {
  const bool is_out = is_outgoing(kind);
  return {schedule, round, is_out ? who : peer, is_out ? peer : who, tag, is_signal(kind)};
}

}  // namespace

message_key key_of(const trace_event& e) { return key_of(e.schedule, e.round, e.who, e.peer, e.tag, e.kind); }
message_key key_of(const simulated_op& op) { return key_of(0, 0, op.who, op.peer, op.tag, op.kind); }

std::vector<path_step> critical_path_of(const simulation_record& record, const simulation_report& report,
                                        const long_message& is_long) {
  return simulated_walk(record, report, is_long).run();
}

std::vector<path_step> critical_path_of(std::span<const trace_event> events) { return recorded_walk(events).run(); }

}  // namespace lsched::cli
