#include "bindings/cli/picture/critical_path.h"

#include <algorithm>
#include <optional>

namespace lsched::cli {
namespace {

constexpr picoseconds k_ps = 1000;  ///< picoseconds in a nanosecond

/// Finds the critical path in recorded events. A receive is assumed to wait for its send if the send began after the
/// receive. Any other op is assumed to wait for an earlier op of its rank: the op that ended last before this op began.
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
  std::map<rank, std::vector<std::size_t>> of_rank_;  ///< indices of a rank's ops, sorted by their ends
};

message_key key_of(std::uint32_t schedule, round_no round, rank who, rank peer, std::uint32_t tag, op_kind kind) {
  const bool is_out = is_outgoing(kind);
  return {schedule, round, is_out ? who : peer, is_out ? peer : who, tag, is_signal(kind)};
}

}  // namespace

message_key key_of(const trace_event& e) { return key_of(e.schedule, e.round, e.who, e.peer, e.tag, e.kind); }
message_key key_of(const simulated_op& op) { return key_of(0, 0, op.who, op.peer, op.tag, op.kind); }

std::vector<path_step> critical_path_of(const simulation_record& record, const simulation_report& report) {
  std::vector<path_step> path;
  picoseconds end = report.last();
  for (std::size_t op = record.last_op; op != k_no_recorded_op; op = record.ops[op].cause) {
    const simulated_op& here = record.ops[op];
    const simulated_op* const next = path.empty() ? nullptr : &record.ops[path.back().op];
    const bool by_message =
        next != nullptr && is_outgoing(here.kind) && is_receive(*next) && key_of(here) == key_of(*next);
    path.push_back({op, here.begin, end, by_message});
    end = here.begin;
  }
  std::ranges::reverse(path);
  return path;
}

std::vector<path_step> critical_path_of(std::span<const trace_event> events) { return recorded_walk(events).run(); }

}  // namespace lsched::cli
