// Processor time while applications compute.
//
//     quiet    every rank computes; a partial schedule is open, and no round is under way: what its progress thread
//              uses
//     rounds   rank 0 starts solo rounds without a pause, the others compute: what that takes from them, beside what
//              moving the bytes and messages costs
//
// Computing is arithmetic in registers, in small chunks; a rank counts how many it gets done. Blocks with and without
// rounds take turns. What is explained is counted by the rank itself: a round brings it rank 0's vector, at the price
// of a memcpy, and messages and signals at the price that one has in a synchronous allreduce of 8 bytes, waiting
// included.
#include <algorithm>
#include <cstring>

#include "microbench/partial/cost.h"
#include "microbench/partial/partial_call.h"

namespace lsched::bench {
namespace {

constexpr int k_blocks = 3;
constexpr double k_chunk_us = 20;

/// What a stretch of computing has come to at one rank. (Rank 0 does not compute while it starts rounds.)
struct stretch {
  double wall_ns = 0;
  double chunks = 0;
  double engine_ns = 0;
  double turns = 0;

  stretch& operator+=(const stretch& more) {
    wall_ns += more.wall_ns, chunks += more.chunks, engine_ns += more.engine_ns, turns += more.turns;
    return *this;
  }
};

/// Does `chunk` again and again; counts.
template <class Chunk>
stretch spend(double seconds, const Chunk& chunk) {
  const auto engine_before = read_engine_time().value_or(engine_time{});
  const auto start = clock::now();
  stretch seen;
  while ((seen.wall_ns = ns_between(start, clock::now())) < seconds * 1e9) chunk(), ++seen.chunks;
  const auto engine_after = read_engine_time().value_or(engine_time{});
  seen.engine_ns = engine_after.ns - engine_before.ns;
  seen.turns = static_cast<double>(engine_after.turns - engine_before.turns);
  return seen;
}

/// What this rank's engine has moved.
struct traffic {
  double rounds = 0;
  double messages = 0;  ///< sent, signals included

  static traffic now(lsched_world* runtime) {
    lsched_stats now{.struct_size = sizeof now};
    expect_ok(lsched_get_stats(runtime, &now), "lsched_get_stats");
    return {static_cast<double>(now.rounds), static_cast<double>(now.messages_sent + now.signals_sent)};
  }
  traffic operator-(const traffic& before) const { return {rounds - before.rounds, messages - before.messages}; }
  traffic& operator+=(const traffic& more) { return rounds += more.rounds, messages += more.messages, *this; }
};

/// Prices, in ns.
struct prices {
  double message = 0;  ///< one sent or received
  double byte = 0;     ///< one copied
};

double price_of_message(team& ranks) {
  constexpr int k_rounds = 2000;
  double one = 1, sum = 0;
  schedule_handle schedule = make_allreduce(ranks.runtime(), &one, &sum, 1);
  const traffic before = traffic::now(ranks.runtime());
  std::vector<double> ns;
  for (int i = 0; i < k_rounds; ++i) ns.push_back(1e3 * us_of([&] { run(schedule.get()); }));
  const double sent = ranks.combine((traffic::now(ranks.runtime()) - before).messages, LSCHED_SUM);
  close(std::move(schedule));
  const double each = 2 * sent / k_rounds / ranks.size();  // sent and received, of a rank in a round
  return ranks.combine(summarise(std::move(ns)).median, LSCHED_MAX) / std::max(each, 1.0);
}

double price_of_byte(std::uint64_t bytes) {
  std::vector<char> from(bytes, 1), to(bytes);
  std::vector<double> ns;
  for (int i = 0; i < 50; ++i)
    ns.push_back(1e3 * us_of([&] {
                   std::memcpy(to.data(), from.data(), bytes);
                   keep(to.data());
                 }));
  return summarise(std::move(ns)).median / static_cast<double>(bytes);
}

class computing_ranks {
 public:
  computing_ranks(team& ranks, const cost_options& options, std::uint64_t steps, double message_ns)
      : ranks_(ranks), options_(options), steps_(steps), price_{.message = message_ns} {}

  result measure(std::uint64_t bytes) {
    price_.byte = price_of_byte(bytes);
    partial_call call(ranks_.runtime(), "solo", bytes);
    stretch quiet, busy;
    traffic moved;
    double wrong = 0;
    for (int block = 0; block < k_blocks; ++block) {
      ranks_.barrier();
      quiet += compute_for(options_.seconds / k_blocks);
      ranks_.barrier();
      const traffic before = traffic::now(ranks_.runtime());
      busy += ranks_.is_root() ? start_rounds(call, wrong) : compute_for(options_.seconds / k_blocks);
      moved += traffic::now(ranks_.runtime()) - before;
    }
    ranks_.barrier();
    call.end();
    return result_of(bytes, quiet, busy, moved, wrong);
  }

 private:
  stretch compute_for(double seconds) {
    return spend(seconds, [this] { compute(steps_); });
  }

  stretch start_rounds(partial_call& call, double& wrong) {
    const stretch seen = spend(options_.seconds / k_blocks, [&] { call.offer_and_collect(); });
    wrong += call.is_right() && call.report().last.contributors == 1 ? 0 : 1;
    return seen;
  }

  /// Shares of a core and of computing, of the rank that suffers most; `engine` is what the progress thread took, as
  /// the system accounts for it, `explained` what its bytes and messages would take.
  result result_of(std::uint64_t bytes, const stretch& quiet, const stretch& busy, const traffic& moved, double wrong) {
    const bool computes = !ranks_.is_root();
    const auto worst = [&](double value) { return ranks_.combine(computes ? value : 0, LSCHED_MAX); };
    const double received = ranks_.combine(moved.messages, LSCHED_SUM) / ranks_.size();
    const double by_bytes = worst(moved.rounds * static_cast<double>(bytes) * price_.byte / busy.wall_ns);
    const double by_messages = worst((moved.messages + received) * price_.message / busy.wall_ns);
    return {{"part", "cpu"},
            {"bytes", bytes},
            {"engine_quiet", ranks_.combine(quiet.engine_ns / quiet.wall_ns, LSCHED_MAX)},
            {"target", 0.01},
            {"slowdown", worst(1 - busy.chunks / busy.wall_ns / (quiet.chunks / quiet.wall_ns))},
            {"engine", worst(busy.engine_ns / busy.wall_ns)},
            {"explained", by_bytes + by_messages},
            {"explained_by_bytes", by_bytes},
            {"explained_by_messages", by_messages},
            {"rounds_per_s", worst(moved.rounds / busy.wall_ns * 1e9)},
            {"turns_per_round", worst(busy.turns / std::max(moved.rounds, 1.0))},
            {"wrong", ranks_.combine(wrong, LSCHED_SUM)}};
  }

  team& ranks_;
  const cost_options& options_;
  const std::uint64_t steps_;
  prices price_;
};

}  // namespace

void measure_cpu(team& ranks, const cost_options& options, reporter& out) {
  if (ranks.combine(read_engine_time() ? 0.0 : 1.0, LSCHED_MAX) > 0)
    out.say("engine %%: not known; a rank has no progress thread, or the system keeps no account of threads");
  const std::uint64_t steps = steps_for(ranks, k_chunk_us);
  computing_ranks all(ranks, options, steps, price_of_message(ranks));
  for (const std::uint64_t bytes : options.sizes) {
    out.progress("computing beside rounds of %s", size_text(bytes).c_str());
    out.add(all.measure(bytes));
  }
  out.print({column("size", "bytes"), column("quiet: engine %", "engine_quiet", 4, 100),
             column("rounds/s", "rounds_per_s", 0), column("slow-down %", "slowdown", 2, 100),
             column("engine %", "engine", 2, 100), column("explained %", "explained", 2, 100),
             column("by bytes", "explained_by_bytes", 2, 100), column("by messages", "explained_by_messages", 2, 100),
             column("turns/round", "turns_per_round", 2), k_wrong});
  out.say(
      "quiet: all ranks compute, no round is under way; the progress thread's share of a core, of the worst rank "
      "(target: below 1 %%). The rest: rank 0 starts solo rounds without a pause, the others compute; shares of their "
      "time, of the worst rank. turns: times its progress thread was put on a core.");
}

}  // namespace lsched::bench
