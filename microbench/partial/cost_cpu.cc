// Measures processor time while applications compute.
//
//  - quiet: every rank computes. A partial schedule is open, but has no round. The progress threads are measured.
//  - rounds: rank 0 starts solo rounds without a pause, and the other ranks compute. The time that these ranks lose is
//    compared with the cost of moving the bytes and messages.
//
// The computation is arithmetic in registers, in small chunks. A rank counts the chunks that it finishes. Blocks with
// and without rounds take turns. A rank computes the expected cost ("explained") from its own counts: one memcpy of
// rank 0's vector for each round, plus the messages and signals. The cost of a message is measured in a synchronous
// allreduce of 8 bytes, and includes waiting.
#include <algorithm>
#include <cstring>

#include "microbench/partial/cost.h"
#include "microbench/partial/partial_call.h"

namespace lsched::bench {
namespace {

constexpr int k_blocks = 3;
constexpr double k_chunk_us = 20;

lsched_stats stats_of(lsched_world* runtime) {
  lsched_stats stats{.struct_size = sizeof stats};
  expect_ok(lsched_get_stats(runtime, &stats), "lsched_get_stats");
  return stats;
}

/// Returns the number of messages and signals that this rank's engine has sent.
double messages_of(const lsched_stats& stats) { return static_cast<double>(stats.messages_sent + stats.signals_sent); }

/// The number of chunks that one rank has computed in a period of time, and the work of the rank's engine. Rank 0 does
/// not compute in periods in which it starts rounds.
struct stretch {
  double wall_ns = 0, chunks = 0, engine_ns = 0, turns = 0, rounds = 0, messages = 0;

  stretch& operator+=(const stretch& more) {
    wall_ns += more.wall_ns, chunks += more.chunks, engine_ns += more.engine_ns;
    turns += more.turns, rounds += more.rounds, messages += more.messages;
    return *this;
  }
};

/// Repeats `chunk` for `seconds`, and counts the calls.
template <class Chunk>
stretch spend(double seconds, lsched_world* runtime, const Chunk& chunk) {
  const auto engine_before = read_engine_time().value_or(engine_time{});
  const lsched_stats before = stats_of(runtime);
  const auto start = clock::now();
  stretch seen;
  while ((seen.wall_ns = ns_between(start, clock::now())) < seconds * 1e9) chunk(), ++seen.chunks;
  const auto engine_after = read_engine_time().value_or(engine_time{});
  const lsched_stats after = stats_of(runtime);
  seen.engine_ns = engine_after.ns - engine_before.ns;
  seen.turns = static_cast<double>(engine_after.turns - engine_before.turns);
  seen.rounds = static_cast<double>(after.rounds - before.rounds);
  seen.messages = messages_of(after) - messages_of(before);
  return seen;
}

/// Returns the cost in ns of a message that is sent or received.
double cost_of_message(team& ranks) {
  constexpr int k_rounds = 2000;
  double one = 1, sum = 0;
  schedule_handle schedule = make_allreduce(ranks.runtime(), &one, &sum, 1);
  const double before = messages_of(stats_of(ranks.runtime()));
  std::vector<double> ns;
  for (int i = 0; i < k_rounds; ++i) ns.push_back(1e3 * us_of([&] { run(schedule.get()); }));
  const double sent = ranks.combine(messages_of(stats_of(ranks.runtime())) - before, LSCHED_SUM);
  close(std::move(schedule));
  const double each = 2 * sent / k_rounds / ranks.size();  // messages that a rank sends and receives in a round
  return ranks.combine(summarise(std::move(ns)).median, LSCHED_MAX) / std::max(each, 1.0);
}

/// Returns the cost in ns of a copied byte.
double cost_of_byte(std::uint64_t bytes) {
  std::vector<char> from(bytes, 1), to(bytes);
  std::vector<double> ns;
  for (int i = 0; i < 50; ++i)
    ns.push_back(1e3 * us_of([&] {
                   std::memcpy(to.data(), from.data(), bytes);
                   keep(to.data());
                 }));
  return summarise(std::move(ns)).median / static_cast<double>(bytes);
}

/// Measures by how much rounds slow down a rank. Each number is the maximum over the ranks. `engine` is the share of a
/// core that a rank's progress thread used, according to the operating system. `explained` is the share that copies and
/// messages would need.
result measure(team& ranks, double seconds, std::uint64_t steps, double message_ns, std::uint64_t bytes) {
  partial_call call(ranks.runtime(), "solo", bytes);
  const auto computing = [&] { return spend(seconds, ranks.runtime(), [&] { compute(steps); }); };
  const auto starting_rounds = [&] { return spend(seconds, ranks.runtime(), [&] { call.offer_and_collect(); }); };
  stretch quiet, busy;
  double wrong = 0;
  for (int block = 0; block < k_blocks; ++block) {
    ranks.barrier();
    quiet += computing();
    ranks.barrier();
    busy += ranks.is_root() ? starting_rounds() : computing();
    if (ranks.is_root()) wrong += call.is_right() && call.report().last.contributors == 1 ? 0 : 1;
  }
  ranks.barrier();
  call.end();
  const auto worst = [&](double value) { return ranks.combine(ranks.is_root() ? 0 : value, LSCHED_MAX); };
  const double received = ranks.combine(busy.messages, LSCHED_SUM) / ranks.size();
  const double by_bytes = worst(busy.rounds * static_cast<double>(bytes) * cost_of_byte(bytes) / busy.wall_ns);
  const double by_messages = worst((busy.messages + received) * message_ns / busy.wall_ns);
  return {{"part", "cpu"},
          {"bytes", bytes},
          {"engine_quiet", ranks.combine(quiet.engine_ns / quiet.wall_ns, LSCHED_MAX)},
          {"target", 0.01},
          {"slowdown", worst(1 - busy.chunks / busy.wall_ns / (quiet.chunks / quiet.wall_ns))},
          {"engine", worst(busy.engine_ns / busy.wall_ns)},
          {"explained", by_bytes + by_messages},
          {"explained_by_bytes", by_bytes},
          {"explained_by_messages", by_messages},
          {"rounds_per_s", worst(busy.rounds / busy.wall_ns * 1e9)},
          {"turns_per_round", worst(busy.turns / std::max(busy.rounds, 1.0))},
          {"wrong", ranks.combine(wrong, LSCHED_SUM)}};
}

}  // namespace

void measure_cpu(team& ranks, const cost_options& options, reporter& out) {
  if (ranks.combine(read_engine_time() ? 0.0 : 1.0, LSCHED_MAX) > 0)
    out.say("engine %%: unknown, because a rank has no progress thread, or the system does not measure threads");
  const std::uint64_t steps = steps_for(ranks, k_chunk_us);
  const double message_ns = cost_of_message(ranks);
  for (const std::uint64_t bytes : options.sizes) {
    out.progress("computing beside rounds of %s", size_text(bytes).c_str());
    out.add(measure(ranks, options.seconds / k_blocks, steps, message_ns, bytes));
  }
  out.print({column("size", "bytes"), column("quiet: engine %", "engine_quiet", 4, 100),
             column("rounds/s", "rounds_per_s", 0), column("slow-down %", "slowdown", 2, 100),
             column("engine %", "engine", 2, 100), column("explained %", "explained", 2, 100),
             column("turns/round", "turns_per_round", 2), k_wrong});
  out.say(
      "quiet: all ranks compute, no round is in flight; share of a core that the progress thread takes, at the worst "
      "rank (target: below 1 %%). Other columns: rank 0 starts solo rounds without a pause, the others compute; shares "
      "of their time, at the worst rank. turns: how often its progress thread was scheduled on a core.");
}

}  // namespace lsched::bench
