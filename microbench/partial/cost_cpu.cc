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
#include <nlohmann/json.hpp>

#include "microbench/computing.h"
#include "microbench/engine/engine_time.h"
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

  static traffic of(lsched_world* runtime) {
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
  const lsched_allreduce_desc desc{.struct_size = sizeof desc,
                                   .input = &one,
                                   .output = &sum,
                                   .count = 1,
                                   .dtype = LSCHED_F64,
                                   .reduction = LSCHED_SUM,
                                   .algorithm = nullptr};
  schedule_handle schedule = created("lsched_allreduce_create", lsched_allreduce_create, ranks.runtime(), &desc);
  auto why = fresh_diagnostic();
  const traffic before = traffic::of(ranks.runtime());
  std::vector<double> ns;
  for (int i = 0; i < k_rounds; ++i) {
    const auto start = clock::now();
    expect_ok(lsched_run(schedule.get(), k_patience_ns, &why), "lsched_run", why);
    ns.push_back(ns_between(start, clock::now()));
  }
  const double sent = ranks.combine((traffic::of(ranks.runtime()) - before).messages, LSCHED_SUM);
  close(std::move(schedule));
  const double each = 2 * sent / k_rounds / ranks.size();  // sent and received, of a rank in a round
  return ranks.combine(summarise(std::move(ns)).median, LSCHED_MAX) / std::max(each, 1.0);
}

double price_of_byte(std::uint64_t bytes) {
  std::vector<char> from(bytes, 1), to(bytes);
  std::vector<double> ns;
  for (int i = 0; i < 50; ++i) {
    const auto start = clock::now();
    std::memcpy(to.data(), from.data(), bytes);
    keep(to.data());
    ns.push_back(ns_between(start, clock::now()));
  }
  return summarise(std::move(ns)).median / static_cast<double>(bytes);
}

struct cpu_row {
  std::uint64_t bytes = 0;
  double engine_quiet = 0;  ///< share of a core, of the worst rank
  double slowdown = 0;      ///< share of the computing that was not done because of rounds; so all below
  double engine = 0;        ///< what the progress thread took, as the system accounts for it
  double of_bytes = 0;      ///< what copying would take
  double of_messages = 0;   ///< what messages would take
  double rounds = 0;        ///< per second
  double turns = 0;         ///< of the progress thread, per round
  double wrong = 0;
};

class computing_ranks {
 public:
  computing_ranks(team& ranks, const cost_options& options, std::uint64_t steps, double message_ns)
      : ranks_(ranks), options_(options), steps_(steps), price_{.message = message_ns} {}

  cpu_row measure(std::uint64_t bytes) {
    price_.byte = price_of_byte(bytes);
    partial_call call(ranks_.runtime(), "solo", bytes);
    stretch quiet, busy;
    traffic moved;
    double wrong = 0;
    for (int block = 0; block < k_blocks; ++block) {
      ranks_.barrier();
      quiet += compute_for(options_.seconds / k_blocks);
      ranks_.barrier();
      const traffic before = traffic::of(ranks_.runtime());
      busy += ranks_.is_root() ? start_rounds(call, wrong) : compute_for(options_.seconds / k_blocks);
      moved += traffic::of(ranks_.runtime()) - before;
    }
    ranks_.barrier();
    call.end();
    return row_of(bytes, quiet, busy, moved, wrong);
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

  /// Of the ranks that compute, the one that suffers most.
  cpu_row row_of(std::uint64_t bytes, const stretch& quiet, const stretch& busy, const traffic& moved, double wrong) {
    const bool computes = !ranks_.is_root();
    const auto worst = [&](double value) { return ranks_.combine(computes ? value : 0, LSCHED_MAX); };
    const double received = ranks_.combine(moved.messages, LSCHED_SUM) / ranks_.size();
    return {.bytes = bytes,
            .engine_quiet = ranks_.combine(quiet.engine_ns / quiet.wall_ns, LSCHED_MAX),
            .slowdown = worst(1 - busy.chunks / busy.wall_ns / (quiet.chunks / quiet.wall_ns)),
            .engine = worst(busy.engine_ns / busy.wall_ns),
            .of_bytes = worst(moved.rounds * static_cast<double>(bytes) * price_.byte / busy.wall_ns),
            .of_messages = worst((moved.messages + received) * price_.message / busy.wall_ns),
            .rounds = worst(moved.rounds / busy.wall_ns * 1e9),
            .turns = worst(busy.turns / std::max(moved.rounds, 1.0)),
            .wrong = ranks_.combine(wrong, LSCHED_SUM)};
  }

  team& ranks_;
  const cost_options& options_;
  const std::uint64_t steps_;
  prices price_;
};

nlohmann::json json_of(const cpu_row& row, const team& ranks, const cost_options& options) {
  return {{"bench", "cost"},
          {"part", "cpu"},
          {"ranks", ranks.size()},
          {"bytes", row.bytes},
          {"engine_quiet", row.engine_quiet},
          {"target", 0.01},
          {"slowdown", row.slowdown},
          {"engine", row.engine},
          {"explained", row.of_bytes + row.of_messages},
          {"explained_by_bytes", row.of_bytes},
          {"explained_by_messages", row.of_messages},
          {"rounds_per_s", row.rounds},
          {"turns_per_round", row.turns},
          {"wrong", static_cast<std::uint64_t>(row.wrong)},
          {"transport", options.transport},
          {"pinned", options.pin},
          {"oversubscribed", ranks.is_oversubscribed()}};
}

void add_line(table& lines, const cpu_row& row) {
  const auto percent = [](double share) { return text("%.2f", share * 100); };
  lines.add({size_text(row.bytes), text("%.4f", row.engine_quiet * 100), text("%.0f", row.rounds),
             percent(row.slowdown), percent(row.engine), percent(row.of_bytes + row.of_messages), percent(row.of_bytes),
             percent(row.of_messages), text("%.2f", row.turns), row.wrong > 0 ? text("%.0f WRONG", row.wrong) : "0"});
}

}  // namespace

double measure_cpu(team& ranks, const cost_options& options, reporter& out) {
  if (ranks.combine(read_engine_time() ? 0.0 : 1.0, LSCHED_MAX) > 0)
    out.say("engine %%: not known; a rank has no progress thread, or the system keeps no account of threads");
  table lines({"size", "quiet: engine %", "rounds/s", "slow-down %", "engine %", "explained %", "by bytes",
               "by messages", "turns/round", "wrong"});
  const std::uint64_t steps = steps_for(ranks, k_chunk_us);
  computing_ranks all(ranks, options, steps, price_of_message(ranks));
  double wrong = 0;
  for (const std::uint64_t bytes : options.sizes) {
    out.progress("computing beside rounds of %s", size_text(bytes).c_str());
    const cpu_row row = all.measure(bytes);
    wrong += row.wrong;
    add_line(lines, row);
    out.json(json_of(row, ranks, options));
  }
  out.print(lines);
  out.say(
      "quiet: all ranks compute, no round is under way; the progress thread's share of a core, of the worst rank "
      "(target: below 1 %%). The rest: rank 0 starts solo rounds without a pause, the others compute; shares of their "
      "time, of the worst rank. turns: times its progress thread was put on a core.");
  return wrong;
}

}  // namespace lsched::bench
