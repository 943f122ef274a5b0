// GOAL -> schedules: pairs messages, creates buffers and builds the schedules.
#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>

#include "bindings/cli/goal/goal.h"
#include "libsched/schedule/builder.h"
#include "ops/counted.h"

namespace lsched {
namespace {

std::string name_of_op(rank r, std::uint32_t id) { return "rank " + std::to_string(r) + ", op " + std::to_string(id); }

/// A send or a receive. Sorting makes all sends and receives with equal source, target and tag adjacent, sends first.
struct message_end {
  rank source, target;
  std::uint32_t tag;
  bool is_recv;
  std::uint32_t id;
  rank who() const { return is_recv ? target : source; }
  auto key() const { return std::tuple(source, target, tag); }
  friend auto operator<=>(const message_end&, const message_end&) = default;
};

/// A message. The tag is unique among the messages with the same source and target. `bytes` is the number of bytes
/// sent.
struct message {
  std::uint32_t tag = 0;
  std::uint64_t bytes = 0;
};
using message_table = std::vector<std::vector<message>>;  ///< indexed by rank and op

result<std::vector<message_end>> ends_of(const goal& program) {
  std::vector<message_end> ends;
  for (rank r = 0; static_cast<std::size_t>(r) < program.ranks.size(); ++r) {
    const goal_rank& me = program.ranks[static_cast<std::size_t>(r)];
    for (std::uint32_t id = 0; id < me.ops.size(); ++id) {
      const goal_op& one = me.ops[id];
      if (one.kind == goal_kind::calc) continue;
      if (one.peer == k_goal_any || one.tag == k_goal_any)
        return failure{status::unsupported,
                       name_of_op(r, id) + (one.peer == k_goal_any ? " receives from any rank" : " has any tag") +
                           ": the matching op would be known only at run time, so name the peer and the tag",
                       r, id};
      const bool is_recv = one.kind == goal_kind::recv;
      const auto peer = static_cast<rank>(one.peer);
      ends.push_back({is_recv ? peer : r, is_recv ? r : peer, one.tag, is_recv, id});
    }
  }
  std::sort(ends.begin(), ends.end());
  return ends;
}

std::uint64_t bytes_of(const goal& program, const message_end& end) {
  return program.ranks[static_cast<std::size_t>(end.who())].ops[end.id].size;
}

std::string describe(const goal& program, const message_end& end) {
  return name_of_op(end.who(), end.id) + (end.is_recv ? " receives " : " sends ") +
         counted(bytes_of(program, end), "byte");
}

/// Pairs all sends and receives of one (source, target, tag). Both lists are in the order of the file, and the k-th
/// send belongs to the k-th receive. New tags begin at `next`. A receive may be longer than its send, as in MPI.
std::optional<failure> pair_up(const goal& program, std::span<const message_end> sends,
                               std::span<const message_end> recvs, std::uint32_t& next, message_table& messages) {
  const std::size_t pairs = std::min(sends.size(), recvs.size());
  for (std::size_t i = 0; i < pairs; ++i, ++next) {
    if (bytes_of(program, sends[i]) > bytes_of(program, recvs[i]))
      return failure{
          status::unmatched,
          describe(program, sends[i]) + ", but the matching receive is shorter: " + describe(program, recvs[i]),
          sends[i].who(), sends[i].id};
    for (const message_end& end : {sends[i], recvs[i]})
      messages[static_cast<std::size_t>(end.who())][end.id] = {next, bytes_of(program, sends[i])};
  }
  if (sends.size() == recvs.size()) return std::nullopt;
  const message_end& odd = sends.size() > pairs ? sends[pairs] : recvs[pairs];
  const std::string why = odd.is_recv ? ", which no rank sends" : ", which no rank receives";
  return failure{status::unmatched, describe(program, odd) + why, odd.who(), odd.id};
}

result<message_table> match_messages(const goal& program) {
  auto ends = ends_of(program);
  if (!ends) return ends.error();
  message_table messages;
  for (const goal_rank& me : program.ranks) messages.emplace_back(me.ops.size());
  std::uint32_t next = 0;
  const auto end = ends->end();
  for (auto first = ends->begin(); first != end;) {
    const auto recvs =
        std::find_if(first, end, [&](const auto& one) { return one.is_recv || one.key() != first->key(); });
    const auto last = std::find_if(first, end, [&](const auto& one) { return one.key() != first->key(); });
    if (auto why = pair_up(program, {first, recvs}, {recvs, last}, next, messages)) return *why;
    if (last != end && (last->source != first->source || last->target != first->target)) next = 0;
    first = last;
  }
  return messages;
}

/// Returns the number of bytes to copy for a calc, at least one unless the calc takes no time.
std::uint64_t bytes_of(const goal_op& calc, double ns_per_byte) {
  if (calc.size == 0) return 0;
  const double bytes = std::round(static_cast<double>(calc.size) / ns_per_byte);
  return static_cast<std::uint64_t>(std::clamp(bytes, 1.0, static_cast<double>(k_max_count)));
}

class rank_builder {
 public:
  rank_builder(const goal_rank& from, std::span<const message> messages, world place, double ns_per_byte)
      : from_(from), messages_(messages), ns_per_byte_(ns_per_byte), to_(place, "goal") {}

  result<schedule_ptr> run() {
    declare_buffers();
    bodies_.reserve(from_.ops.size());
    for (std::size_t id = 0; id < from_.ops.size(); ++id) bodies_.push_back(add(id));
    fronts_ = bodies_;
    std::vector<goal_edge> edges = from_.edges;
    for (const goal_edge& edge : edges)
      if (edge.on_start && fronts_[edge.before] == bodies_[edge.before]) {
        fronts_[edge.before] = to_.nop();
        to_.dep(fronts_[edge.before], bodies_[edge.before]);
      }
    const auto key = [](const goal_edge& edge) { return std::tuple(edge.before, edge.on_start, edge.after); };
    std::ranges::sort(edges, {}, key);
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
    for (const goal_edge& edge : edges)
      to_.dep(edge.on_start ? fronts_[edge.before] : bodies_[edge.before], fronts_[edge.after]);
    return to_.compile();
  }

 private:
  std::uint64_t written_by(std::size_t id) const {
    const goal_op& one = from_.ops[id];
    if (one.kind == goal_kind::calc) return bytes_of(one, ns_per_byte_);
    return one.kind == goal_kind::recv ? messages_[id].bytes : 0;
  }

  // Declares one buffer to read and one buffer to write. Every op that writes has its own part of the second buffer.
  void declare_buffers() {
    std::uint64_t most_read = 0;
    std::uint64_t written = 0;
    for (std::size_t id = 0; id < from_.ops.size(); ++id) {
      const goal_op& one = from_.ops[id];
      const std::uint64_t bytes = std::min(written_by(id), k_max_count + 1);  // capped without overflow; compile()
                                                                              // refuses this size
      written = std::min(written + bytes, k_max_count + 1);
      if (one.kind != goal_kind::recv) most_read = std::max(most_read, one.kind == goal_kind::send ? one.size : bytes);
    }
    source_ = to_.input(dtype::u8, most_read);
    target_ = to_.scratch(dtype::u8, written);
  }

  op_id add(std::size_t id) {
    const goal_op& one = from_.ops[id];
    const region place(target_, next_);
    const std::uint64_t bytes = written_by(id);
    next_ += bytes;
    const region source(source_, 0);
    const auto peer = static_cast<rank>(one.peer);
    if (one.kind == goal_kind::send) return to_.send(peer, messages_[id].tag, source, one.size);
    if (one.kind == goal_kind::recv) return to_.recv(peer, messages_[id].tag, place, bytes);
    return bytes == 0 ? to_.nop() : to_.copy(source, place, bytes);
  }

  const goal_rank& from_;
  std::span<const message> messages_;
  double ns_per_byte_;
  builder to_;
  buffer_id source_ = 0;
  buffer_id target_ = 0;
  std::uint64_t next_ = 0;
  std::vector<op_id> bodies_;  ///< the op that does the work, indexed by GOAL op
  std::vector<op_id> fronts_;  ///< the op that starts first (the body, or a nop in front of it), indexed by GOAL op
};

}  // namespace

result<std::vector<schedule_ptr>> import_goal(const goal& program, const goal_scenario& scenario) {
  if (!(scenario.ns_per_byte > 0)) return failure{status::argument, "ns_per_byte must be above 0"};
  const auto messages = match_messages(program);
  if (!messages) return messages.error();
  std::vector<schedule_ptr> all;
  const auto size = static_cast<rank>(program.ranks.size());
  for (rank r = 0; r < size; ++r) {
    const auto i = static_cast<std::size_t>(r);
    auto built = rank_builder(program.ranks[i], (*messages)[i], {r, size}, scenario.ns_per_byte).run();
    if (!built) {
      const failure& why = built.error();
      return failure{why.code, "rank " + std::to_string(r) + ": " + why.text, r, why.op};
    }
    all.push_back(std::move(*built));
  }
  return all;
}

}  // namespace lsched
