#include "tests/support/loggopsim_oracle.h"

#include <algorithm>
#include <list>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <utility>

namespace lsched {
namespace {

/// An op that is due, or a message in flight.
struct event {
  std::uint64_t time = 0;
  std::uint64_t number = 0;  ///< number of the event, in the order of creation
  std::uint32_t host = 0;    ///< rank on which the event happens
  std::uint32_t op = 0;      ///< op of the event; for a message: the send, an op of rank `what.peer`
  bool is_message = false;
  goal_op what;  ///< copy of the op; for a message: of the send, with the sender as peer
};

/// Rule: the event with the earliest time comes first. Among events with the same time, the event with the lowest
/// number comes first.
struct is_later {
  bool operator()(const event& x, const event& y) const {
    return x.time != y.time ? x.time > y.time : x.number > y.number;
  }
};

/// A receive that waits for its message, or a message that waits for its receive.
struct waiting {
  std::uint32_t peer = 0;
  std::uint32_t tag = 0;
  std::uint32_t op = 0;  ///< for a message: the send
};

struct host_state {
  std::vector<std::uint64_t> cpu_free;        ///< time at which each CPU becomes free
  std::vector<std::uint64_t> sending_free;    ///< time at which each NIC can send again
  std::vector<std::uint64_t> receiving_free;  ///< time at which each NIC can receive again
  std::list<waiting> receives;                ///< receives that have started and wait for a message, oldest first
  std::list<waiting> messages;                ///< messages that have arrived and wait for a receive, oldest first
  std::vector<std::uint32_t> missing;         ///< number of unsatisfied edges to each op
  std::vector<std::vector<std::uint32_t>> after_start;  ///< successors of each op by "irequires", in the order of the
                                                        ///< file
  std::vector<std::vector<std::uint32_t>> after_end;  ///< successors of each op by "requires", in the order of the file
  std::vector<std::uint32_t> freed;                   ///< freed ops that are not yet queued, in the order of events
  std::vector<bool> is_started;
};

/// Rule: only the bytes after the first byte cost time. Defect, kept: for a message of 0 bytes, the formula counts -1
/// bytes, so this message costs less than a message of 1 byte. (All sums are modulo 2^64.)
std::uint64_t cost_of_bytes(std::uint64_t bytes, std::uint64_t per_byte) { return (bytes - 1) * per_byte; }

/// Rule: a message matches a receive if peer and tag match; sizes are ignored. Both the message and the receive may
/// have wildcards, so a message with tag -1 matches receives of any tag.
bool do_match(std::uint32_t peer, std::uint32_t tag, const waiting& other) {
  const bool is_peer = peer == k_goal_any || other.peer == k_goal_any || peer == other.peer;
  const bool is_tag = tag == k_goal_any || other.tag == k_goal_any || tag == other.tag;
  return is_peer && is_tag;
}

/// Rule: among several matches, the oldest is removed and returned.
std::optional<waiting> take_match(std::list<waiting>& from, std::uint32_t peer, std::uint32_t tag) {
  const auto found =
      std::find_if(from.begin(), from.end(), [&](const waiting& one) { return do_match(peer, tag, one); });
  if (found == from.end()) return std::nullopt;
  const waiting taken = *found;
  from.erase(found);
  return taken;
}

void raise_to(std::uint64_t& time, std::uint64_t earliest) { time = std::max(time, earliest); }

std::string name_of_op(std::size_t of, std::size_t op) {
  return "op " + std::to_string(op) + " of rank " + std::to_string(of);
}

failure failed_at(status code, std::size_t of, std::size_t op, const std::string& why) {
  return {code, name_of_op(of, op) + why, k_no_rank, static_cast<op_id>(op)};
}

/// Returns the first error that makes the program invalid, if there is one.
std::optional<failure> find_fault(const goal& program) {
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    const goal_rank& mine = program.ranks[r];
    for (std::size_t op = 0; op < mine.ops.size(); ++op) {
      const goal_op& one = mine.ops[op];
      const bool may_be_any = one.kind == goal_kind::recv && one.peer == k_goal_any;
      if (one.kind != goal_kind::calc && one.peer >= program.ranks.size() && !may_be_any)
        return failed_at(status::argument, r, op, " has a peer that does not exist");
    }
    for (const goal_edge& edge : mine.edges)
      if (std::max(edge.before, edge.after) >= mine.ops.size())
        return failed_at(status::argument, r, std::max(edge.before, edge.after), " does not exist");
  }
  return std::nullopt;
}

class loggopsim_run {
 public:
  loggopsim_run(const goal& program, const loggopsim_parameters& parameters)
      : program_(program), with_(parameters), hosts_(program.ranks.size()) {
    prepare_resources();
    for (std::uint32_t host = 0; host < hosts_.size(); ++host) prepare_ops(host);
  }

  result<std::vector<std::uint64_t>> run() {
    queue_freed();
    while (!queue_.empty()) {
      const event now = queue_.top();
      queue_.pop();
      play(now);
      queue_freed();
    }
    for (std::uint32_t host = 0; host < hosts_.size(); ++host)
      if (auto fault = find_leftover(host)) return *fault;
    return finish_times();
  }

 private:
  // --- before the first event ---

  /// Rule: all ranks have the same number of CPUs and the same number of NICs. The highest index in the whole program
  /// determines these numbers; the minimum is one.
  void prepare_resources() {
    std::size_t cpus = 1;
    std::size_t nics = 1;
    for (const goal_rank& mine : program_.ranks)
      for (const goal_op& op : mine.ops) {
        cpus = std::max<std::size_t>(cpus, op.cpu + std::size_t{1});
        nics = std::max<std::size_t>(nics, op.nic + std::size_t{1});
      }
    for (host_state& host : hosts_) {
      host.cpu_free.assign(cpus, 0);
      host.sending_free.assign(nics, 0);
      host.receiving_free.assign(nics, 0);
    }
  }

  /// Rule: ops without predecessors are free at the start, in the order of the file. A duplicate edge counts twice.
  void prepare_ops(std::uint32_t at) {
    host_state& host = hosts_[at];
    const goal_rank& mine = program_.ranks[at];
    host.missing.assign(mine.ops.size(), 0);
    host.after_start.resize(mine.ops.size());
    host.after_end.resize(mine.ops.size());
    host.is_started.assign(mine.ops.size(), false);
    for (const goal_edge& edge : mine.edges) {
      (edge.on_start ? host.after_start : host.after_end)[edge.before].push_back(edge.after);
      ++host.missing[edge.after];
    }
    for (std::uint32_t op = 0; op < mine.ops.size(); ++op)
      if (host.missing[op] == 0) host.freed.push_back(op);
    touched_.insert(at);
  }

  // --- edges ---

  void satisfy(std::uint32_t at, const std::vector<std::uint32_t>& successors) {
    host_state& host = hosts_[at];
    for (const std::uint32_t op : successors)
      if (--host.missing[op] == 0) host.freed.push_back(op);
    touched_.insert(at);
  }

  void mark_started(const event& now) {
    hosts_[now.host].is_started[now.op] = true;
    satisfy(now.host, hosts_[now.host].after_start[now.op]);
  }

  /// Defect, kept: a send may end twice (see start_receive). Then the edges from this send count twice. So an op that
  /// waits for the send and for other ops starts although one of the other ops has not ended.
  void mark_ended(std::uint32_t host, std::uint32_t op) { satisfy(host, hosts_[host].after_end[op]); }

  // --- the queue ---

  /// Rule: after each event, the ops that have become free are numbered and queued, by ascending rank. Within a rank,
  /// sends come first, then receives, then calcs.
  void queue_freed() {
    for (const std::uint32_t at : touched_) {
      std::vector<std::uint32_t> freed = std::exchange(hosts_[at].freed, {});
      const std::vector<goal_op>& ops = program_.ranks[at].ops;
      const auto is_first = [&ops](std::uint32_t x, std::uint32_t y) { return ops[x].kind < ops[y].kind; };
      if (with_.order == freed_order::stable)
        std::stable_sort(freed.begin(), freed.end(), is_first);
      else
        std::sort(freed.begin(), freed.end(), is_first);
      for (const std::uint32_t op : freed)
        queue_.push({time_of_freed(at, ops[op]), next_number_++, at, op, false, ops[op]});
    }
    touched_.clear();
  }

  /// Rule: an op that has become free is due when its CPU is free. For a send, the NIC must also be free to send.
  /// Defect, kept: the end of the predecessor is ignored. If the ops have different CPUs, the successor may be due
  /// before the predecessor has ended, and even before the event that freed the successor. Then simulated time goes
  /// back. The NIC of a receive is never considered.
  std::uint64_t time_of_freed(std::uint32_t at, const goal_op& op) const {
    const host_state& host = hosts_[at];
    const std::uint64_t cpu = host.cpu_free[op.cpu];
    return op.kind == goal_kind::send ? std::max(cpu, host.sending_free[op.nic]) : cpu;
  }

  /// Rule: an event whose CPU or NIC is busy goes back into the queue for the time at which both are free. Until that
  /// time, the event occupies neither the CPU nor the NIC. The event keeps its number, so at that time it comes before
  /// events that were created later.
  void put_back(event later, std::uint64_t time) {
    later.time = time;
    queue_.push(later);
  }

  // --- events ---

  void play(const event& now) {
    if (now.is_message) return take_message(now);
    switch (now.what.kind) {
      case goal_kind::send: return start_send(now);
      case goal_kind::recv: return start_receive(now);
      case goal_kind::calc: return start_calc(now);
    }
  }

  /// Rule: a calc occupies its CPU for the length of the calc. Ops that wait for the start or the end of the calc
  /// become free at once, and are due when their CPU is free.
  void start_calc(const event& now) {
    std::uint64_t& cpu_free = hosts_[now.host].cpu_free[now.what.cpu];
    if (cpu_free > now.time) return put_back(now, cpu_free);
    cpu_free = now.time + now.what.size * with_.calc_unit;
    mark_started(now);
    mark_ended(now.host, now.op);
  }

  /// Rule: a send needs its CPU and its NIC. The send occupies the CPU for o + (m-1) O. It blocks other sends on the
  /// NIC for g + (m-1) G. The first byte arrives at the receiver o + L later, for any size. The message gets a lower
  /// number than the ops that become free by the send. An eager send ends at once. A larger send ends when its message
  /// meets the receive.
  void start_send(const event& now) {
    host_state& host = hosts_[now.host];
    const goal_op& send = now.what;
    const std::uint64_t both_free = std::max(host.cpu_free[send.cpu], host.sending_free[send.nic]);
    if (both_free > now.time) return put_back(now, both_free);
    mark_started(now);
    host.cpu_free[send.cpu] = now.time + with_.overhead + cost_of_bytes(send.size, with_.overhead_per_byte);
    host.sending_free[send.nic] = now.time + with_.gap + cost_of_bytes(send.size, with_.gap_per_byte);
    send_message(now);
    if (send.size <= with_.most_eager) mark_ended(now.host, now.op);
  }

  void send_message(const event& sent) {
    event message = sent;
    message.is_message = true;
    message.host = sent.what.peer;
    message.what.peer = sent.host;
    message.time = sent.time + with_.overhead + with_.latency;
    message.number = next_number_++;
    queue_.push(message);
  }

  /// Rule: the start of a receive costs nothing and needs no CPU. If the message has arrived, the receive ends at once,
  /// and the successors of the receive are due when their CPU is free. Otherwise the receive waits. Defect, kept: the
  /// size of the receive decides whether the transfer is a rendezvous, and the sender is delayed on the CPU and NIC
  /// that the receive names. If only the send is above the limit, the send never ends. If only the receive is above the
  /// limit, the send ends a second time.
  void start_receive(const event& now) {
    mark_started(now);
    const goal_op& receive = now.what;
    const auto message = take_match(hosts_[now.host].messages, receive.peer, receive.tag);
    if (!message) {
      hosts_[now.host].receives.push_back({receive.peer, receive.tag, now.op});
      return;
    }
    if (receive.size > with_.most_eager) end_rendezvous(message->peer, message->op, receive, now.time);
    mark_ended(now.host, now.op);
  }

  /// Rule: an arriving message needs a CPU and a NIC at the receiver, even if no receive waits for it. The message
  /// occupies the CPU for o + (m-1) max(O, G). It blocks other arrivals on the NIC for g + (m-1) G. Here m is the size
  /// of the send. If a receive waits for the message, the receive ends. Otherwise the message waits, and has no further
  /// cost. Defect, kept: the message occupies the CPU and the NIC that the send names, not those that the receive
  /// names.
  void take_message(const event& now) {
    host_state& host = hosts_[now.host];
    const goal_op& sent = now.what;
    const std::uint64_t both_free = std::max(host.cpu_free[sent.cpu], host.receiving_free[sent.nic]);
    if (both_free > now.time) return put_back(now, both_free);
    const std::uint64_t bytes_on_nic = cost_of_bytes(sent.size, with_.gap_per_byte);
    host.cpu_free[sent.cpu] =
        now.time + with_.overhead + std::max(cost_of_bytes(sent.size, with_.overhead_per_byte), bytes_on_nic);
    host.receiving_free[sent.nic] = now.time + with_.gap + bytes_on_nic;
    const auto receive = take_match(host.receives, sent.peer, sent.tag);
    if (!receive) {
      host.messages.push_back({sent.peer, sent.tag, now.op});
      return;
    }
    if (sent.size > with_.most_eager) end_rendezvous(sent.peer, now.op, sent, now.time);
    mark_ended(now.host, receive->op);
  }

  /// Rule: at the sender, a rendezvous ends when the message and the receive meet. Ops that become free by this end
  /// must not be due earlier, so the sender's CPU and NIC count as busy until then. Before this moment, other ops can
  /// use both. Defect, kept: the reply to the sender takes no time.
  void end_rendezvous(std::uint32_t sender, std::uint32_t send, const goal_op& resources, std::uint64_t time) {
    raise_to(hosts_[sender].cpu_free[resources.cpu], time);
    raise_to(hosts_[sender].sending_free[resources.nic], time);
    mark_ended(sender, send);
  }

  // --- after the last event ---

  /// Returns an error if the program did not complete. LogGOPSim does not detect ops that never started, but this
  /// function does. As in LogGOPSim, a rendezvous that never ended (see start_receive) is not an error if no op waits
  /// for its end.
  std::optional<failure> find_leftover(std::uint32_t at) const {
    const host_state& host = hosts_[at];
    if (!host.receives.empty())
      return failed_at(status::state, at, host.receives.front().op, " receives a message that never comes");
    if (!host.messages.empty()) {
      const waiting& message = host.messages.front();
      return failure{
          status::state,
          "rank " + std::to_string(at) + " does not receive the message of " + name_of_op(message.peer, message.op),
          static_cast<rank>(message.peer), k_no_op};
    }
    const auto idle = std::find(host.is_started.begin(), host.is_started.end(), false);
    if (idle != host.is_started.end())
      return failed_at(status::state, at, static_cast<std::size_t>(idle - host.is_started.begin()), " never starts");
    return std::nullopt;
  }

  /// Rule: a rank finishes when the last of its CPUs becomes free. NICs are ignored.
  std::vector<std::uint64_t> finish_times() const {
    std::vector<std::uint64_t> times;
    for (const host_state& host : hosts_)
      times.push_back(*std::max_element(host.cpu_free.begin(), host.cpu_free.end()));
    return times;
  }

  const goal& program_;
  const loggopsim_parameters& with_;
  std::vector<host_state> hosts_;
  std::priority_queue<event, std::vector<event>, is_later> queue_;
  std::uint64_t next_number_ = 0;
  std::set<std::uint32_t> touched_;  ///< ranks on which ops may have become free by the current event
};

}  // namespace

result<std::vector<std::uint64_t>> run_loggopsim(const goal& program, const loggopsim_parameters& parameters) {
  if (auto fault = find_fault(program)) return *fault;
  return loggopsim_run(program, parameters).run();
}

}  // namespace lsched
