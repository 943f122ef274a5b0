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

/// An op that is due, or a message on its way.
struct event {
  std::uint64_t time = 0;
  std::uint64_t number = 0;  ///< events are numbered as they come into being
  std::uint32_t host = 0;    ///< the rank where it happens
  std::uint32_t op = 0;      ///< of a message: the send, an op of rank what.peer
  bool is_message = false;
  goal_op what;  ///< of a message: the send, with the sender as its peer
};

/// Rule: the earliest event comes first, of those of the same time the one with the lowest number.
struct is_later {
  bool operator()(const event& x, const event& y) const {
    return x.time != y.time ? x.time > y.time : x.number > y.number;
  }
};

/// A receive that waits for its message, or a message that waits for its receive.
struct waiting {
  std::uint32_t peer = 0;
  std::uint32_t tag = 0;
  std::uint32_t op = 0;  ///< of a message: the send
};

struct host_state {
  std::vector<std::uint64_t> cpu_free;                  ///< by CPU, when it is free
  std::vector<std::uint64_t> sending_free;              ///< by NIC, when it can send
  std::vector<std::uint64_t> receiving_free;            ///< by NIC, when it can receive
  std::list<waiting> receives;                          ///< started, without a message; oldest first
  std::list<waiting> messages;                          ///< arrived, without a receive; oldest first
  std::vector<std::uint32_t> missing;                   ///< by op: edges to it that are not satisfied
  std::vector<std::vector<std::uint32_t>> after_start;  ///< by op: "irequires", as written
  std::vector<std::vector<std::uint32_t>> after_end;    ///< by op: "requires", as written
  std::vector<std::uint32_t> freed;                     ///< ops that are not in the queue yet, in the order of events
  std::vector<bool> is_started;
};

/// Bytes after the first cost time.
/// Defect, kept: a message of 0 bytes has -1 of them, and costs less than one of 1 byte. (All sums are modulo 2^64.)
std::uint64_t cost_of_bytes(std::uint64_t bytes, std::uint64_t per_byte) { return (bytes - 1) * per_byte; }

/// Rule: sizes do not matter. A wildcard may be on either side: a message with tag -1 goes to receives of any tag.
bool do_match(std::uint32_t peer, std::uint32_t tag, const waiting& other) {
  const bool is_peer = peer == k_goal_any || other.peer == k_goal_any || peer == other.peer;
  const bool is_tag = tag == k_goal_any || other.tag == k_goal_any || tag == other.tag;
  return is_peer && is_tag;
}

/// Rule: the oldest that matches is taken.
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

/// What keeps a program from being run at all.
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

  /// Rule: every rank has as many CPUs and NICs as the highest index in the whole program asks for, at least one.
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

  /// Rule: ops that wait for nothing are free at the start, in the order of the file. An edge that is there twice
  /// counts twice.
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

  /// Defect, kept: this may happen twice to one send (see start_receive). Then its edges count twice, and an op that
  /// waits for this one and for others starts before one of the others has ended.
  void mark_ended(std::uint32_t host, std::uint32_t op) { satisfy(host, hosts_[host].after_end[op]); }

  // --- the queue ---

  /// Rule: after each event, what it freed is put into the queue: the ranks in ascending order; of a rank the sends
  /// first, then the receives, then the calcs. In this order they are numbered.
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

  /// Rule: a freed op is due when its own CPU is free; a send when its NIC is free to send as well.
  /// Defect, kept: not when what it waited for has ended. Of ops on two CPUs the second may be due before the first one
  /// has ended, even before the event that freed it: time goes back. And a receive's own NIC is never looked at.
  std::uint64_t time_of_freed(std::uint32_t at, const goal_op& op) const {
    const host_state& host = hosts_[at];
    const std::uint64_t cpu = host.cpu_free[op.cpu];
    return op.kind == goal_kind::send ? std::max(cpu, host.sending_free[op.nic]) : cpu;
  }

  /// Rule: what finds its CPU or its NIC busy goes back into the queue for the time when both are free, and holds
  /// neither till then. It keeps its number, so at that time it comes before younger events.
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

  /// Rule: a calc occupies its CPU for its length. What waits for its start or its end is freed at once, and is due
  /// when the CPU is free.
  void start_calc(const event& now) {
    std::uint64_t& cpu_free = hosts_[now.host].cpu_free[now.what.cpu];
    if (cpu_free > now.time) return put_back(now, cpu_free);
    cpu_free = now.time + now.what.size * with_.calc_unit;
    mark_started(now);
    mark_ended(now.host, now.op);
  }

  /// Rule: a send needs its CPU and its NIC. It occupies the CPU for o + (m-1) O, the NIC, for sends only, for
  /// g + (m-1) G. Its first byte is at the receiver o + L later, whatever its size. The message is numbered before the
  /// ops that the send frees. An eager send has ended; a larger one ends when it meets its receive.
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

  /// Rule: a receive costs nothing when it starts, and asks for no CPU. If its message has arrived it has ended, and
  /// what waits for it is due when its CPU is free; otherwise it waits.
  /// Defect, kept: whether this was a rendezvous is judged by the size, and the sender is held up on the CPU and the
  /// NIC, that the receive names. If only the send is above the limit, it never ends; if only the receive is, the send
  /// ends a second time.
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

  /// Rule: a message needs a CPU and a NIC at the receiver. It occupies the CPU for o + (m-1) max(O, G), the NIC, for
  /// receives only, for g + (m-1) G: when it arrives, whether a receive waits for it or not, and by the size that was
  /// sent. A receive that waits for it has ended then; without one, the message waits, and costs no more later.
  /// Defect, kept: CPU and NIC are those that the send names, not the receive's.
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

  /// Rule: a rendezvous ends, at the sender, at the moment when message and receive meet. What it frees is due then and
  /// not earlier, so its CPU and its NIC count as busy up to this moment; but other ops could use them meanwhile.
  /// Defect, kept: the answer takes no time to travel.
  void end_rendezvous(std::uint32_t sender, std::uint32_t send, const goal_op& resources, std::uint64_t time) {
    raise_to(hosts_[sender].cpu_free[resources.cpu], time);
    raise_to(hosts_[sender].sending_free[resources.nic], time);
    mark_ended(sender, send);
  }

  // --- after the last event ---

  /// Not the original's: it does not look for ops that never started. One thing that it takes for the end is taken for
  /// it here, too: a rendezvous that never ended (see start_receive) if no op waits for it.
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

  /// Rule: a rank has finished when the last of its CPUs is free. NICs do not count.
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
  std::set<std::uint32_t> touched_;  ///< ranks where the present event may have freed ops
};

}  // namespace

result<std::vector<std::uint64_t>> run_loggopsim(const goal& program, const loggopsim_parameters& parameters) {
  if (auto fault = find_fault(program)) return *fault;
  return loggopsim_run(program, parameters).run();
}

}  // namespace lsched
