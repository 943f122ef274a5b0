#include "bindings/cli/goal/goal_player.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <queue>
#include <string>
#include <utility>
#include <vector>

namespace lsched {
namespace {

constexpr picoseconds k_ns = 1000;
constexpr std::uint64_t k_telling = 1 << 20;  ///< number of messages between two calls of `progress`

/// An event: an op is due, or a message arrives. A message is represented by its send, which is an op of another rank.
struct event {
  picoseconds time = 0;
  std::uint64_t number = 0;  ///< number in order of creation, unchanged when the event tries again
  std::uint32_t at = 0;      ///< rank at which the event happens
  std::uint32_t from = 0;    ///< rank of the op
  std::uint32_t op = 0;
  bool is_message = false;

  friend bool operator>(const event& x, const event& y) {
    return std::pair(x.time, x.number) > std::pair(y.time, y.number);
  }
};

/// A receive that waits for its message, or a message that waits for its receive.
struct waiting {
  std::uint32_t peer = 0, tag = 0;
  std::uint32_t op = 0;  ///< for a message: op of the peer
};

/// Removes and returns the oldest element that matches. Either side may have a wildcard, and sizes do not matter.
std::optional<waiting> take_match(std::vector<waiting>& from, std::uint32_t peer, std::uint32_t tag) {
  const auto is_equal = [](std::uint32_t x, std::uint32_t y) { return x == y || x == k_goal_any || y == k_goal_any; };
  const auto found = std::ranges::find_if(
      from, [&](const waiting& one) { return is_equal(one.peer, peer) && is_equal(one.tag, tag); });
  if (found == from.end()) return std::nullopt;
  const waiting taken = *found;
  from.erase(found);
  return taken;
}

/// Events of one rank that need the same resources, which were busy. Only the event with the lowest number is in the
/// queue. If all events were in the queue, they would become due together and all except one would find the resources
/// busy again, which takes k^2 steps for k events.
struct waiting_room {
  std::uint32_t resources = 0;            ///< the resources, encoded by find_room()
  std::uint64_t first = k_no_event;       ///< number of the event that is in the queue
  std::map<std::uint64_t, event> others;  ///< by number

  static constexpr std::uint64_t k_no_event = ~std::uint64_t{0};
};

struct rank_state {
  std::vector<std::uint32_t> missing;       ///< by op: number of incoming edges that are not yet satisfied
  std::vector<std::uint32_t> first_edge;    ///< by op: index of the first edge from the op; one more element at the end
  std::vector<std::uint32_t> freed;         ///< ops whose edges are all satisfied, but that are not in the queue yet
  std::vector<waiting> receives, messages;  ///< oldest first
  std::vector<waiting_room> rooms;
  std::uint32_t started = 0;  ///< number of ops
};

std::string name_of_op(std::size_t r, std::size_t id) {
  return "rank " + std::to_string(r) + ", op " + std::to_string(id);
}

std::optional<failure> validate(const goal& program) {
  const std::size_t ranks = program.ranks.size();
  for (std::size_t r = 0; r < ranks; ++r) {
    const goal_rank& mine = program.ranks[r];
    const auto wrong = [&](std::size_t id, const char* why) {
      return failure{status::argument, name_of_op(r, id) + why, static_cast<rank>(r), static_cast<op_id>(id)};
    };
    for (std::size_t id = 0; id < mine.ops.size(); ++id) {
      const goal_op& one = mine.ops[id];
      const bool may_be_any = one.kind == goal_kind::recv && one.peer == k_goal_any;
      if (one.kind != goal_kind::calc && one.peer >= ranks && !may_be_any)
        return wrong(id, ": the peer does not exist");
    }
    for (const goal_edge& edge : mine.edges)
      if (std::max(edge.before, edge.after) >= mine.ops.size())
        return wrong(std::max(edge.before, edge.after), " does not exist");
  }
  return std::nullopt;
}

class goal_player {
 public:
  goal_player(const goal& program, const machine& where, const std::function<void(std::uint64_t)>& progress)
      : program_(program), cost_(where.levels.back().cost), most_eager_(where.S), progress_(progress) {
    for (const goal_rank& mine : program.ranks)
      for (const goal_op& one : mine.ops) {
        cpus_ = std::max<std::size_t>(cpus_, one.cpu + std::size_t{1});
        nics_ = std::max<std::size_t>(nics_, one.nic + std::size_t{1});
      }
    const std::size_t ranks = program.ranks.size();
    cpu_free_.resize(ranks * cpus_);
    sending_free_.resize(ranks * nics_);
    receiving_free_.resize(ranks * nics_);
    ranks_.resize(ranks);
  }

  result<simulation_report> run() {
    for (std::uint32_t r = 0; r < ranks_.size(); ++r) open(r);
    while (!queue_.empty()) {
      most_queued_ = std::max(most_queued_, queue_.size());
      const event now = queue_.top();
      queue_.pop();
      play(now);
      if (now.time >= k_forever) return failure{status::unsupported, "the program takes longer than can be simulated"};
    }
    for (std::uint32_t r = 0; r < ranks_.size(); ++r)
      if (auto why = find_rest(r)) return *why;
    return report();
  }

 private:
  // --- edges ---

  void open(std::uint32_t r) {
    const goal_rank& mine = program_.ranks[r];
    rank_state& state = ranks_[r];
    state.missing.resize(mine.ops.size());
    state.first_edge.resize(mine.ops.size() + 1);
    for (const goal_edge& edge : mine.edges) ++state.missing[edge.after], ++state.first_edge[edge.before + 1];
    for (std::size_t id = 0; id < mine.ops.size(); ++id) state.first_edge[id + 1] += state.first_edge[id];
    for (std::uint32_t id = 0; id < mine.ops.size(); ++id)
      if (state.missing[id] == 0) state.freed.push_back(id);
    queue_freed(r);
  }

  /// Satisfies the edges from an op. Defect of the original, kept: this may happen twice for a send (see receive()).
  /// The edges from the send are then satisfied twice.
  void satisfy(std::uint32_t r, std::uint32_t id, bool by_start) {
    rank_state& state = ranks_[r];
    for (std::uint32_t i = state.first_edge[id]; i < state.first_edge[id + 1]; ++i) {
      const goal_edge& edge = program_.ranks[r].edges[i];
      if (edge.on_start == by_start && --state.missing[edge.after] == 0) state.freed.push_back(edge.after);
    }
  }
  void start(const event& now) {
    ++ranks_[now.at].started;
    satisfy(now.at, now.op, true);
  }
  void end(std::uint32_t r, std::uint32_t id) { satisfy(r, id, false); }

  /// Queues the freed ops: first sends, then receives, then calcs. An op is due when its CPU is free. A send also needs
  /// its NIC. Defect of the original, kept: if an op waits for an op of another CPU, it may become due before the other
  /// op has ended.
  void queue_freed(std::uint32_t r) {
    const std::vector<goal_op>& ops = program_.ranks[r].ops;
    std::vector<std::uint32_t>& freed = ranks_[r].freed;
    std::ranges::stable_sort(freed, {}, [&](std::uint32_t id) { return ops[id].kind; });
    for (const std::uint32_t id : freed) {
      const goal_op& one = ops[id];
      const picoseconds cpu = cpu_free(r, one);
      const picoseconds due = one.kind == goal_kind::send ? std::max(cpu, sending_free(r, one)) : cpu;
      queue_.push({due, next_number_++, r, r, id, false});
    }
    freed.clear();
  }

  // --- resources ---

  picoseconds& cpu_free(std::uint32_t r, const goal_op& one) { return cpu_free_[r * cpus_ + one.cpu]; }
  picoseconds& sending_free(std::uint32_t r, const goal_op& one) { return sending_free_[r * nics_ + one.nic]; }
  picoseconds& receiving_free(std::uint32_t r, const goal_op& one) { return receiving_free_[r * nics_ + one.nic]; }

  /// Returns the cost of all bytes except one.
  /// Defect of the original, kept: the cost of 0 bytes is negative.
  static picoseconds bytes_cost(std::uint64_t bytes, femtoseconds each) {
    return bytes == 0 ? -time_of(1, each) : time_of(bytes - 1, each);
  }

  /// Returns the longer of two times. Defect of the original, kept: times are compared as unsigned numbers.
  static picoseconds longer(picoseconds x, picoseconds y) {
    return static_cast<std::uint64_t>(x) > static_cast<std::uint64_t>(y) ? x : y;
  }

  waiting_room* find_room(const event& now, const goal_op& one, bool is_new) {
    const std::uint32_t resources = std::uint32_t{one.cpu} | std::uint32_t{one.nic} << 8 |
                                    static_cast<std::uint32_t>(one.kind) << 16 | (now.is_message ? 1u << 18 : 0u);
    auto& rooms = ranks_[now.at].rooms;
    const auto found = std::ranges::find(rooms, resources, &waiting_room::resources);
    if (found != rooms.end()) return &*found;
    if (!is_new) return nullptr;
    rooms.emplace_back().resources = resources;
    return &rooms.back();
  }

  void queue_again(waiting_room& room, event who, picoseconds free) {
    who.time = free;
    room.first = who.number;
    queue_.push(who);
  }

  /// Returns true if the event has to wait, because its resources become free only later, at time `free`. Otherwise
  /// calls then(), which occupies the resources and returns the time until which they are occupied.
  template <class Then>
  bool has_to_wait(const event& now, const goal_op& one, picoseconds free, const Then& then) {
    if (free > now.time) {
      waiting_room& room = *find_room(now, one, true);
      if (room.first < now.number)
        room.others.emplace(now.number, now);
      else
        queue_again(room, now, free);
      return true;
    }
    const picoseconds next = then();
    if (waiting_room* const room = find_room(now, one, false); room != nullptr && room->first == now.number) {
      room->first = waiting_room::k_no_event;
      if (room->others.empty()) return false;
      queue_again(*room, room->others.extract(room->others.begin()).mapped(), next);
    }
    return false;
  }

  // --- events ---

  /// Executes an event, then queues the ops that this event has freed, first those of the lower rank.
  void play(const event& now) {
    const goal_op& one = program_.ranks[now.from].ops[now.op];
    other_ = now.at;
    if (now.is_message)
      arrive(now, one);
    else if (one.kind == goal_kind::send)
      send(now, one);
    else if (one.kind == goal_kind::recv)
      receive(now, one);
    else
      calculate(now, one);
    queue_freed(std::min(now.at, other_));
    if (other_ != now.at) queue_freed(std::max(now.at, other_));
  }

  void calculate(const event& now, const goal_op& one) {
    picoseconds& cpu = cpu_free(now.at, one);
    const auto length = static_cast<std::int64_t>(std::min<std::uint64_t>(one.size, k_forever));
    if (has_to_wait(now, one, cpu, [&] { return cpu = sum(now.time, product(length, k_ns)); })) return;
    start(now);
    end(now.at, now.op);
  }

  void send(const event& now, const goal_op& one) {
    picoseconds& cpu = cpu_free(now.at, one);
    picoseconds& nic = sending_free(now.at, one);
    const auto take = [&] {
      cpu = sum(now.time, cost_.o + bytes_cost(one.size, cost_.O));
      nic = sum(now.time, cost_.g + bytes_cost(one.size, cost_.G));
      return std::max(cpu, nic);
    };
    if (has_to_wait(now, one, std::max(cpu, nic), take)) return;
    start(now);
    queue_.push({sum(now.time, cost_.o + cost_.L), next_number_++, one.peer, now.at, now.op, true});
    ++report_.messages;
    report_.bytes += one.size;
    if (progress_ && report_.messages % k_telling == 0) progress_(report_.messages);
    if (one.size <= most_eager_) end(now.at, now.op);
  }

  /// Defect of the original, kept: if the message arrived before the receive, the size, CPU and NIC of the receive
  /// determine whether the message uses a rendezvous. So a send may end twice, or never.
  void receive(const event& now, const goal_op& one) {
    start(now);
    const auto message = take_match(ranks_[now.at].messages, one.peer, one.tag);
    if (!message) return ranks_[now.at].receives.push_back({one.peer, one.tag, now.op});
    if (one.size > most_eager_) end_rendezvous(message->peer, message->op, one, now.time);
    end(now.at, now.op);
  }

  /// Defect of the original, kept: on the receiver, the message uses the CPU and NIC numbers of the send.
  void arrive(const event& now, const goal_op& sent) {
    picoseconds& cpu = cpu_free(now.at, sent);
    picoseconds& nic = receiving_free(now.at, sent);
    const auto take = [&] {
      cpu = sum(now.time, cost_.o + longer(bytes_cost(sent.size, cost_.O), bytes_cost(sent.size, cost_.G)));
      nic = sum(now.time, cost_.g + bytes_cost(sent.size, cost_.G));
      return std::max(cpu, nic);
    };
    if (has_to_wait(now, sent, std::max(cpu, nic), take)) return;
    const auto wanted = take_match(ranks_[now.at].receives, now.from, sent.tag);
    if (!wanted) return ranks_[now.at].messages.push_back({now.from, sent.tag, now.op});
    if (sent.size > most_eager_) end_rendezvous(now.from, now.op, sent, now.time);
    end(now.at, wanted->op);
  }

  /// Ends a send. Ops that wait for the send can start at once. The CPU of the sender was not occupied while the send
  /// waited.
  void end_rendezvous(std::uint32_t sender, std::uint32_t id, const goal_op& by, picoseconds time) {
    cpu_free(sender, by) = std::max(cpu_free(sender, by), time);
    sending_free(sender, by) = std::max(sending_free(sender, by), time);
    other_ = sender;
    end(sender, id);
  }

  // --- the end ---

  std::optional<failure> find_rest(std::uint32_t r) const {
    const rank_state& state = ranks_[r];
    const auto who = static_cast<rank>(r);
    const auto text_of = [](std::uint32_t peer) {
      return peer == k_goal_any ? std::string("any rank") : "rank " + std::to_string(peer);
    };
    if (!state.receives.empty())
      return failure{
          status::state,
          name_of_op(r, state.receives[0].op) + " waits forever for a message from " + text_of(state.receives[0].peer),
          who, state.receives[0].op};
    if (!state.messages.empty())
      return failure{status::unmatched,
                     name_of_op(state.messages[0].peer, state.messages[0].op) + " sends to rank " + std::to_string(r) +
                         ", which does not receive it",
                     who, state.messages[0].op};
    if (state.started < program_.ranks[r].ops.size())
      return failure{status::state, "rank " + std::to_string(r) + " has ops that never become ready", who};
    return std::nullopt;
  }

  static std::size_t memory_of(const goal_rank& one) {
    return sizeof one + one.ops.capacity() * sizeof(goal_op) + one.edges.capacity() * sizeof(goal_edge);
  }
  static std::size_t memory_of(const rank_state& one) {
    return sizeof one + (one.missing.capacity() + one.first_edge.capacity() + one.freed.capacity()) * 4 +
           (one.receives.capacity() + one.messages.capacity()) * sizeof(waiting) +
           one.rooms.capacity() * sizeof(waiting_room);
  }

  simulation_report report() {
    report_.engine = "loggopsim";
    report_.active = static_cast<rank>(ranks_.size());
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const auto first = cpu_free_.begin() + static_cast<std::ptrdiff_t>(r * cpus_);
      report_.finish.push_back(*std::max_element(first, first + static_cast<std::ptrdiff_t>(cpus_)));
      report_.memory += memory_of(program_.ranks[r]) + memory_of(ranks_[r]);
    }
    for (const auto* times : {&cpu_free_, &sending_free_, &receiving_free_, &report_.finish})
      report_.memory += times->capacity() * sizeof(picoseconds);
    report_.memory += most_queued_ * sizeof(event);
    return std::move(report_);
  }

  const goal& program_;
  const loggops cost_;
  const std::uint64_t most_eager_;
  const std::function<void(std::uint64_t)>& progress_;
  std::size_t cpus_ = 1, nics_ = 1;  ///< numbers of CPUs and NICs of every rank: the maximum in the whole program
  std::vector<picoseconds> cpu_free_, sending_free_, receiving_free_;  ///< times at which resources become free, by
                                                                       ///< rank, then by CPU or NIC
  std::vector<rank_state> ranks_;
  std::priority_queue<event, std::vector<event>, std::greater<>> queue_;
  std::size_t most_queued_ = 0;
  std::uint64_t next_number_ = 0;
  std::uint32_t other_ = 0;  ///< the other rank that the current event concerns
  simulation_report report_;
};

}  // namespace

result<simulation_report> play_goal(const goal& program, const machine& where,
                                    const std::function<void(std::uint64_t)>& progress) {
  if (auto why = validate(program)) return *why;
  const auto begin = std::chrono::steady_clock::now();
  auto report = goal_player(program, where, progress).run();
  if (report) report->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return report;
}

}  // namespace lsched
