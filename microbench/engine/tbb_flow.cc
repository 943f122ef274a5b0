#include "microbench/engine/tbb_flow.h"

#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/task_arena.h>

#include <atomic>
#include <deque>

namespace lsched::bench {
namespace {

namespace flow = oneapi::tbb::flow;

const std::string k_single = "1 thread";
const std::string k_light = "1 thread, lightweight nodes";

std::string all_threads() { return std::to_string(oneapi::tbb::info::default_concurrency()) + " threads"; }

}  // namespace

// A node costs nothing but the library: its body answers an empty message. Only the last one counts, for the
// check.
struct tbb_flow::state {
  explicit state(int threads) : arena(threads) {}

  oneapi::tbb::task_arena arena;
  std::unique_ptr<flow::graph> graph;
  std::deque<flow::continue_node<flow::continue_msg>> plain;
  std::deque<flow::continue_node<flow::continue_msg, flow::lightweight>> light;
  std::atomic<std::size_t> ends{0};
  std::size_t ops = 0;
};

namespace {

// Nodes are linked as the engine's ops are: 0 → 1 → … or 0 → {1 … n-2} → n-1.
template <class Nodes>
void connect(Nodes& nodes, graph_kind kind) {
  const std::size_t last = nodes.size() - 1;
  if (kind == graph_kind::chain) {
    for (std::size_t i = 0; i < last; ++i) flow::make_edge(nodes[i], nodes[i + 1]);
    return;
  }
  for (std::size_t i = 1; i < last; ++i) {
    flow::make_edge(nodes[0], nodes[i]);
    flow::make_edge(nodes[i], nodes[last]);
  }
}

template <class Nodes>
void add_nodes(Nodes& nodes, flow::graph& graph, std::size_t ops, std::atomic<std::size_t>& ends) {
  for (std::size_t i = 0; i + 1 < ops; ++i)
    nodes.emplace_back(graph, [](const flow::continue_msg& message) { return message; });
  nodes.emplace_back(graph, [&ends](const flow::continue_msg& message) {
    ends.fetch_add(1, std::memory_order_relaxed);  // read after wait_for_all, which orders it
    return message;
  });
}

}  // namespace

std::vector<std::string> tbb_flow::variants() {
  std::vector<std::string> names{k_single, k_light};
  if (all_threads() != "1 threads") names.push_back(all_threads());
  return names;
}

tbb_flow::tbb_flow(graph_kind kind, std::size_t ops, const std::string& variant)
    : state_(std::make_unique<state>(variant == all_threads() ? oneapi::tbb::task_arena::automatic : 1)) {
  state_->ops = ops;
  state_->arena.execute([&] {
    state_->graph = std::make_unique<flow::graph>();
    if (variant == k_light) {
      add_nodes(state_->light, *state_->graph, ops, state_->ends);
      connect(state_->light, kind);
    } else {
      add_nodes(state_->plain, *state_->graph, ops, state_->ends);
      connect(state_->plain, kind);
    }
  });
}

tbb_flow::~tbb_flow() {
  state_->arena.execute([this] {
    state_->graph->wait_for_all();
    state_->plain.clear();
    state_->light.clear();
    state_->graph.reset();
  });
}

void tbb_flow::run() {
  state_->arena.execute([this] {
    if (state_->plain.empty())
      state_->light.front().try_put(flow::continue_msg());
    else
      state_->plain.front().try_put(flow::continue_msg());
    state_->graph->wait_for_all();
  });
}

std::size_t tbb_flow::visits() const { return state_->ends.load() * state_->ops; }

}  // namespace lsched::bench
