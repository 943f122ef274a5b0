// Time per op of the engine alone: 1024 ops that do nothing, one rank, through the public interface. A round
// is started, fired, stamped and published, as in any other schedule. oneTBB's flow graph runs the same two
// graphs beside it. And time per op of rounds that talk: an allreduce of eight ranks in one thread, which serves them
// in turns.
//
//     chain   0 → 1 → 2 → … → 1023              every op waits for one
//     fan     0 → {1 … 1022} → 1023             one op releases many, one op waits for many
#include <algorithm>
#include <thread>

#include <nlohmann/json.hpp>

#include "microbench/engine/engine_parts.h"
#include "microbench/engine/tbb_flow.h"

namespace lsched::bench {
namespace {

constexpr std::size_t k_ops = 1024;
constexpr std::uint64_t k_blocks = 10;    // the sides take turns
constexpr std::uint64_t k_rounds = 2000;  // of each side and graph

schedule_handle make_schedule(lsched_world* runtime, graph_kind kind) {
  lsched_builder* builder = nullptr;
  expect_ok(lsched_builder_create(runtime, kind == graph_kind::chain ? "chain" : "fan", &builder),
            "lsched_builder_create");
  std::vector<lsched_op> ops(k_ops);
  for (lsched_op& op : ops) lsched_add_nop(builder, &op);  // the builder keeps its first error for the commit
  if (kind == graph_kind::chain)
    for (std::size_t i = 0; i + 1 < k_ops; ++i) lsched_add_dep(builder, ops[i], ops[i + 1]);
  else
    for (std::size_t i = 1; i + 1 < k_ops; ++i) {
      lsched_add_dep(builder, ops[0], ops[i]);
      lsched_add_dep(builder, ops[i], ops[k_ops - 1]);
    }
  return created("lsched_builder_commit", lsched_builder_commit, builder, nullptr, nullptr);
}

std::uint64_t ops_fired(lsched_world* runtime) {
  lsched_stats stats{.struct_size = sizeof stats};
  expect_ok(lsched_get_stats(runtime, &stats), "lsched_get_stats");
  return stats.ops;
}

/// Somebody who can run the graph once.
struct contender {
  const char* impl;
  std::string variant;
  std::function<void()> run;
  std::function<std::uint64_t()> fired;  ///< ops so far
  std::vector<double> ns_per_op{};
};

void run_block(contender& who, std::uint64_t rounds, bool is_timed) {
  for (std::uint64_t i = 0; i < rounds; ++i) {
    const auto begin = clock::now();
    who.run();
    const auto end = clock::now();
    if (is_timed) who.ns_per_op.push_back(ns_between(begin, end) / static_cast<double>(k_ops));
  }
}

/// Rounds in turns; each side has to show that it fired every op of every round.
void measure(std::vector<contender>& contenders, std::uint64_t rounds) {
  const std::uint64_t in_block = std::max<std::uint64_t>(rounds / k_blocks, 1);
  for (contender& who : contenders) {
    const std::uint64_t before = who.fired();
    run_block(who, in_block, false);
    if (who.fired() - before != in_block * k_ops)
      throw failed(std::string(who.impl) + " fired " + std::to_string(who.fired() - before) + " ops instead of " +
                   std::to_string(in_block * k_ops));
  }
  for (std::uint64_t block = 0; block < k_blocks; ++block)
    for (contender& who : contenders) run_block(who, in_block, true);
}

void measure_graph(graph_kind kind, lsched_world* runtime, table& lines, reporter& out) {
  const char* what = kind == graph_kind::chain ? "chain" : "fan";
  auto schedule = make_schedule(runtime, kind);
  std::vector<contender> contenders;
  contenders.push_back({"libsched", "lsched_run",
                        [&] { expect_ok(lsched_run(schedule.get(), k_patience_ns, nullptr), "lsched_run"); },
                        [&] { return ops_fired(runtime); }});
  contenders.push_back({"libsched", "lsched_start, lsched_wait",
                        [&] {
                          lsched_ticket ticket{};
                          expect_ok(lsched_start(schedule.get(), &ticket), "lsched_start");
                          expect_ok(lsched_wait(ticket, k_patience_ns, nullptr), "lsched_wait");
                        },
                        [&] { return ops_fired(runtime); }});
#if LSCHED_HAVE_TBB
  std::vector<std::unique_ptr<tbb_flow>> graphs;
  for (const std::string& variant : tbb_flow::variants()) {
    tbb_flow& graph = *graphs.emplace_back(std::make_unique<tbb_flow>(kind, k_ops, variant));
    contenders.push_back({"onetbb", variant, [&graph] { graph.run(); }, [&graph] { return graph.visits(); }});
  }
#endif
  out.progress("%s", what);
  measure(contenders, k_rounds);
  close(std::move(schedule));

  const contender* best_rival = nullptr;
  summary best{};
  for (const contender& who : contenders) {
    const summary s = summarise(who.ns_per_op);
    lines.add({what, who.impl, who.variant, text("%.1f", s.median), text("%.1f", s.p95)});
    if (std::string_view(who.impl) == "onetbb" && (best_rival == nullptr || s.median < best.median)) {
      best_rival = &who;
      best = s;
    }
  }
  const auto write = [&](const contender& who, const summary& s) {
    out.json({{"bench", "engine"},
              {"impl", who.impl},
              {"what", what},
              {"ns_per_op", s.median},
              {"p95_ns_per_op", s.p95},
              {"variant", who.variant},
              {"ops", k_ops},
              {"rounds", s.samples}});
  };
  write(contenders[0], summarise(contenders[0].ns_per_op));
  if (best_rival != nullptr) write(*best_rival, best);
}

// --- rounds that talk --------------------------------------------------------------------------------------

/// Ranks of this process that one thread serves.
class crowd {
 public:
  explicit crowd(int ranks) : runtimes_(static_cast<std::size_t>(ranks)), tickets_(runtimes_.size()) {
    lsched_config config;
    lsched_config_init(&config);
    config.progress = LSCHED_PROGRESS_CALLER;
    auto why = fresh_diagnostic();
    expect_ok(lsched_world_open_threads(ranks, &config, runtimes_.data(), &why), "lsched_world_open_threads", why);
  }
  ~crowd() {
    schedules_.clear();
    for (lsched_world* it : runtimes_) (void)lsched_world_close(it);
  }

  /// An allreduce of one float of every rank. Creating waits for the other ranks: a thread for each.
  void commit(const char* algorithm) {
    std::vector<lsched_schedule*> made(runtimes_.size());
    std::vector<std::thread> creators;
    for (std::size_t r = 0; r < made.size(); ++r)
      creators.emplace_back([this, r, algorithm, &made] {
        const lsched_allreduce_desc desc{.struct_size = sizeof desc,
                                         .input = &input_,
                                         .output = &outputs_[r],
                                         .count = 1,
                                         .dtype = LSCHED_F32,
                                         .reduction = LSCHED_SUM,
                                         .algorithm = algorithm};
        (void)lsched_allreduce_create(runtimes_[r], &desc, &made[r], nullptr);  // null if it fails
      });
    for (std::thread& it : creators) it.join();
    for (lsched_schedule* it : made) schedules_.emplace_back(it);
    if (std::ranges::count(made, nullptr) != 0) throw failed("lsched_allreduce_create failed");
  }

  void run_round() {
    for (std::size_t r = 0; r < runtimes_.size(); ++r)
      expect_ok(lsched_start(schedules_[r].get(), &tickets_[r]), "lsched_start");
    const auto limit = clock::now() + std::chrono::nanoseconds(k_patience_ns);
    while (!std::ranges::all_of(tickets_, [](lsched_ticket it) { return lsched_test(it) == LSCHED_OK; })) {
      for (lsched_world* it : runtimes_) expect_ok(lsched_progress(it, nullptr), "lsched_progress");
      if (clock::now() > limit) throw failed("a round did not end");
    }
    if (std::ranges::any_of(outputs_, [this](float it) { return it != static_cast<float>(runtimes_.size()); }))
      throw failed("a sum was wrong");
    std::ranges::fill(outputs_, 0.0f);
  }

  std::uint64_t fired() const {
    std::uint64_t ops = 0;
    for (lsched_world* it : runtimes_) ops += ops_fired(it);
    return ops;
  }

 private:
  std::vector<lsched_world*> runtimes_;
  std::vector<lsched_ticket> tickets_;
  float input_ = 1;
  std::vector<float> outputs_ = std::vector<float>(runtimes_.size());
  std::vector<schedule_handle> schedules_{};
};

void measure_rounds(const char* algorithm, table& lines, reporter& out) {
  constexpr int k_ranks = 8;
  crowd ranks(k_ranks);
  ranks.commit(algorithm);
  const std::uint64_t before = ranks.fired();
  ranks.run_round();
  const std::uint64_t ops = ranks.fired() - before;
  std::vector<double> ns_per_op;
  for (std::uint64_t i = 0; i < k_rounds; ++i) {
    const auto begin = clock::now();
    ranks.run_round();
    ns_per_op.push_back(ns_between(begin, clock::now()) / static_cast<double>(ops));
  }
  const summary s = summarise(ns_per_op);
  lines.add({text("allreduce, %d ranks", k_ranks), "libsched", algorithm, text("%.1f", s.median), text("%.1f", s.p95)});
  out.json({{"bench", "engine"},
            {"impl", "libsched"},
            {"what", "allreduce"},
            {"ns_per_op", s.median},
            {"p95_ns_per_op", s.p95},
            {"variant", algorithm},
            {"ops", ops},
            {"rounds", s.samples}});
}

}  // namespace

void measure_graphs(reporter& out) {
  const runtime_handle runtime = open_world_of_one();
  {
    team ranks(runtime.get());
    out.introduce(ranks);
    table lines({"graph", "", "how", "ns per op", "p95"});
    measure_graph(graph_kind::chain, runtime.get(), lines, out);
    measure_graph(graph_kind::fan, runtime.get(), lines, out);
    for (const char* algorithm : {"recursive_doubling", "flat"}) measure_rounds(algorithm, lines, out);
    out.print(lines);
    out.say(
        "chain, fan: %zu ops that do nothing. allreduce: 4 B, all ranks served by this thread; messages, arithmetic, "
        "starts and "
        "polls are inside. %llu rounds; medians. JSON holds the fastest way of oneTBB's.",
        k_ops, static_cast<unsigned long long>(k_rounds));
#if !LSCHED_HAVE_TBB
    out.say("oneTBB rows: none, oneTBB is not in this build");
#endif
  }
}

}  // namespace lsched::bench
