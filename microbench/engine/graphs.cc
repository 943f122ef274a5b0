// Measures the time per op of the engine alone, with two graphs of 1024 ops that do nothing. One rank runs these graphs
// through the public interface. As in any other schedule, the engine starts a round, fires its ops, records times, and
// publishes the end. oneTBB's flow graph runs the same two graphs for comparison. Also measures the time per op of
// rounds with communication: an allreduce of eight ranks in one thread, which serves the ranks in turn.
//
//     chain   0 → 1 → 2 → … → 1023       Every op waits for the previous op.
//     fan     0 → {1 … 1022} → 1023      The first op releases many ops. The last op waits for many ops.
#include <algorithm>
#include <deque>
#include <thread>

#include "build_options.h"
#include "microbench/engine/engine_parts.h"
#include "microbench/rounds.h"
#if LSCHED_HAVE_TBB
#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/task_arena.h>
#endif

namespace lsched::bench {
namespace {

constexpr std::size_t k_ops = 1024;
constexpr double k_cell_ms = 300;

enum class graph_kind {
  chain,  ///< each op waits for the previous op
  fan     ///< the first op, then all but two in parallel, then the last op
};

schedule_handle make_schedule(lsched_world* runtime, graph_kind kind) {
  lsched_builder* builder = nullptr;
  expect_ok(lsched_builder_create(lsched_rank(runtime), lsched_size(runtime),
                                  kind == graph_kind::chain ? "chain" : "fan", &builder),
            "lsched_builder_create");
  std::vector<lsched_op> ops(k_ops);
  for (lsched_op& op : ops) lsched_add_nop(builder, &op);  // the commit reports the first error of these calls
  if (kind == graph_kind::chain)
    for (std::size_t i = 0; i + 1 < k_ops; ++i) lsched_add_dep(builder, ops[i], ops[i + 1]);
  else
    for (std::size_t i = 1; i + 1 < k_ops; ++i) {
      lsched_add_dep(builder, ops[0], ops[i]);
      lsched_add_dep(builder, ops[i], ops[k_ops - 1]);
    }
  return created("lsched_builder_commit", lsched_builder_commit, builder, runtime, nullptr, nullptr);
}

std::uint64_t ops_fired(lsched_world* runtime) {
  lsched_stats stats{.struct_size = sizeof stats};
  expect_ok(lsched_get_stats(runtime, &stats), "lsched_get_stats");
  return stats.ops;
}

#if LSCHED_HAVE_TBB

namespace flow = oneapi::tbb::flow;
using plain_node = flow::continue_node<flow::continue_msg>;
using light_node = flow::continue_node<flow::continue_msg, flow::lightweight>;

/// A flow graph of oneTBB with the same ops. The body of a node returns an empty message, so only oneTBB's own time is
/// measured. The last node counts its executions, for the check.
template <class Node>
class flow_graph {
 public:
  flow_graph(graph_kind kind, int threads) : arena_(threads) {
    arena_.execute([&] {
      graph_.emplace();
      for (std::size_t i = 0; i + 1 < k_ops; ++i)
        nodes_.emplace_back(*graph_, [](const flow::continue_msg& message) { return message; });
      nodes_.emplace_back(*graph_, [this](const flow::continue_msg& message) {
        ends_.fetch_add(1, std::memory_order_relaxed);  // wait_for_all orders the increment before reads
        return message;
      });
      for (std::size_t i = 1; i < k_ops; ++i) {
        if (kind == graph_kind::chain) flow::make_edge(nodes_[i - 1], nodes_[i]);
        if (kind == graph_kind::chain || i + 1 == k_ops) continue;
        flow::make_edge(nodes_[0], nodes_[i]);
        flow::make_edge(nodes_[i], nodes_[k_ops - 1]);
      }
    });
  }
  ~flow_graph() {
    arena_.execute([this] {
      graph_->wait_for_all();
      nodes_.clear();
      graph_.reset();
    });
  }

  void run() {
    arena_.execute([this] {
      nodes_.front().try_put(flow::continue_msg());
      graph_->wait_for_all();
    });
  }

  std::uint64_t fired() const { return ends_.load() * k_ops; }

 private:
  oneapi::tbb::task_arena arena_;
  std::optional<flow::graph> graph_;
  std::deque<Node> nodes_;
  std::atomic<std::uint64_t> ends_{0};
};

#endif

/// Adds a cell that runs a graph. At the end of each block, checks that every op of every round has been fired.
void add(std::vector<cell>& cells, const char* impl, const std::string& variant, std::uint64_t ops,
         const std::function<void()>& run, const std::function<std::uint64_t()>& fired) {
  const auto left = std::make_shared<std::uint64_t>();  // fired ops minus expected ops, modulo 2^64
  cell& made = cells.emplace_back(cell{.keys = {{"impl", impl}, {"variant", variant}, {"ops", ops}}, .run = run});
  made.open = [=] { *left = 0 - fired(); };
  made.after_round = [=] { *left -= ops; };
  made.close = [=, name = std::string(impl)] {
    if (*left + fired() != 0) throw failed(name + " fired a wrong number of ops");
  };
}

void measure(std::vector<cell>& cells, team& alone, const std::string& name, reporter& out) {
  turn_limits limits{.cell_ms = k_cell_ms};
  take_turns(cells, alone, limits, name, out);
  for (const cell& c : cells) {
    const summary us = summarise(c.us);
    const double ns_of_us = 1e3 / c.keys.at("ops").get<double>();
    result line = c.keys;
    line.update({{"what", name},
                 {"ns_per_op", us.median * ns_of_us},
                 {"p95_ns_per_op", us.p95 * ns_of_us},
                 {"rounds", us.samples}});
    out.add(std::move(line));
  }
}

void measure_graph(graph_kind kind, team& alone, reporter& out) {
  const char* name = kind == graph_kind::chain ? "chain" : "fan";
  const runtime_handle runtime = open_world_of_one();  // a separate world, because barriers of a team would add ops
  auto schedule = make_schedule(runtime.get(), kind);
  const auto fired = [&] { return ops_fired(runtime.get()); };
  std::vector<cell> cells;
  add(
      cells, "libsched", "lsched_run", k_ops, [&] { run(schedule.get()); }, fired);
#if LSCHED_HAVE_TBB
  const int all = oneapi::tbb::info::default_concurrency();
  flow_graph<plain_node> single(kind, 1), parallel(kind, oneapi::tbb::task_arena::automatic);
  flow_graph<light_node> light(kind, 1);
  const auto add_flow = [&](auto& graph, const std::string& variant) {
    add(
        cells, "onetbb", variant, k_ops, [&] { graph.run(); }, [&] { return graph.fired(); });
  };
  add_flow(single, "1 thread");
  add_flow(light, "1 thread, lightweight nodes");
  add_flow(parallel, std::to_string(all) + " threads");
#endif
  measure(cells, alone, name, out);
  close(std::move(schedule));
}

// --- rounds with communication -----------------------------------------------------------------------------

/// A world whose ranks are all in this process. One thread serves all ranks.
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
    for (lsched_world* runtime : runtimes_) (void)lsched_world_close(runtime);
  }

  /// Creates an allreduce of one float per rank. Each rank has a thread, because each call of lsched_collective_create
  /// waits for the other ranks.
  void commit(const char* algorithm) {
    std::vector<lsched_schedule*> made(runtimes_.size());
    std::vector<std::thread> creators;
    for (std::size_t r = 0; r < made.size(); ++r)
      creators.emplace_back([this, r, algorithm, &made] {
        const lsched_collective_desc desc{.struct_size = sizeof desc,
                                          .collective = "allreduce",
                                          .input = &input_,
                                          .output = &outputs_[r],
                                          .count = 1,
                                          .dtype = LSCHED_F32,
                                          .reduction = LSCHED_SUM,
                                          .algorithm = algorithm};
        (void)lsched_collective_create(runtimes_[r], &desc, &made[r], nullptr);  // null if it fails
      });
    for (std::thread& creator : creators) creator.join();
    for (lsched_schedule* schedule : made) schedules_.emplace_back(schedule);
    if (std::ranges::count(made, nullptr) != 0) throw failed("lsched_collective_create failed");
  }

  void run_round() {
    for (std::size_t r = 0; r < runtimes_.size(); ++r)
      expect_ok(lsched_start(schedules_[r].get(), &tickets_[r]), "lsched_start");
    const auto limit = clock::now() + std::chrono::nanoseconds(k_patience_ns);
    while (!std::ranges::all_of(tickets_, [](lsched_ticket ticket) { return lsched_test(ticket) == LSCHED_OK; })) {
      for (lsched_world* runtime : runtimes_) expect_ok(lsched_progress(runtime, nullptr), "lsched_progress");
      if (clock::now() > limit) throw failed("a round did not end");
    }
    if (std::ranges::any_of(outputs_, [this](float sum) { return sum != static_cast<float>(runtimes_.size()); }))
      throw failed("a sum was wrong");
    std::ranges::fill(outputs_, 0.0f);
  }

  std::uint64_t fired() const {
    std::uint64_t ops = 0;
    for (lsched_world* runtime : runtimes_) ops += ops_fired(runtime);
    return ops;
  }

 private:
  std::vector<lsched_world*> runtimes_;
  std::vector<lsched_ticket> tickets_;
  float input_ = 1;
  std::vector<float> outputs_ = std::vector<float>(runtimes_.size());
  std::vector<schedule_handle> schedules_{};
};

void measure_rounds(const char* algorithm, team& alone, reporter& out) {
  constexpr int k_ranks = 8;
  crowd ranks(k_ranks);
  ranks.commit(algorithm);
  const std::uint64_t before = ranks.fired();
  ranks.run_round();
  std::vector<cell> cells;
  add(
      cells, "libsched", algorithm, ranks.fired() - before, [&] { ranks.run_round(); }, [&] { return ranks.fired(); });
  measure(cells, alone, "allreduce", out);
}

}  // namespace

void measure_graphs(reporter& out) {
  const runtime_handle runtime = open_world_of_one();
  team alone(runtime.get());
  out.introduce(alone);
  for (const graph_kind kind : {graph_kind::chain, graph_kind::fan}) measure_graph(kind, alone, out);
  for (const char* algorithm : {"recursive_doubling", "flat"}) measure_rounds(algorithm, alone, out);
  out.print({column("graph", "what"), column("", "impl"), column("how", "variant"), column("ns per op", "ns_per_op", 1),
             column("p95", "p95_ns_per_op", 1)});
  out.say(
      "chain, fan: %zu ops that do nothing. allreduce: 4 B, 8 ranks, all driven by this thread, including messages, "
      "arithmetic, starts and polls. Medians.",
      k_ops);
#if !LSCHED_HAVE_TBB
  out.say("oneTBB rows: none, oneTBB is not in this build");
#endif
}

}  // namespace lsched::bench
