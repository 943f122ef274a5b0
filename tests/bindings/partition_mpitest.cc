// Nodes that are emulated under real MPI ranks: partition-parallel training, and Adasum by nodes, beside what one
// process works out. Run as `mpiexec -n {2,3,4,5} bindings_partition`. A hang is a failure.
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <limits>

#include "bindings/c/lsched_mpi.h"
#include "tests/support/partition_training.h"
#include "tests/support/process_limit.h"

namespace lsched::testing {
namespace {

int g_self = 0, g_size = 0;
int g_cases = 0;

[[noreturn]] void give_up(const std::string& what) {
  std::fprintf(stderr, "FAILED rank %d of %d: %s\n", g_self, g_size, what.c_str());
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

void expect_near(const std::string& what, std::span<const double> found, const numbers& wanted) {
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (!(std::fabs(found[i] - wanted[i]) <= 200 * std::numeric_limits<double>::epsilon() * (1 + std::fabs(wanted[i]))))
      give_up(what + ": element " + std::to_string(i) + " is " + std::to_string(found[i]) + ", not " +
              std::to_string(wanted[i]));
  ++g_cases;
}

/// All ranks have the bits of rank 0.
void expect_equal(const std::string& what, std::vector<double> found) {
  std::vector<double> first = found;
  MPI_Bcast(first.data(), static_cast<int>(first.size()), MPI_DOUBLE, 0, MPI_COMM_WORLD);
  if (first != found) give_up(what + ": ranks differ");
}

numbers vector_of(int rank) {
  numbers vector(k_model_size);
  for (std::size_t i = 0; i < vector.size(); ++i) vector[i] = std::sin(static_cast<double>(i * 7 + 1) * (rank + 1));
  return vector;
}

numbers two_level(int ranks_per_node) {
  numbers all(k_model_size);
  for (const lsched_tensor& part : k_model_layers) {
    if (part.count == 0) continue;
    std::vector<numbers> means;
    for (int first = 0; first < g_size; first += ranks_per_node) {
      const int end = std::min(g_size, first + ranks_per_node);
      numbers mean(part.count);
      for (int r = first; r < end; ++r)
        for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += vector_of(r)[part.begin + i] / (end - first);
      means.push_back(mean);
    }
    const numbers sum = adaptive_sum(means);
    for (std::size_t i = 0; i < sum.size(); ++i) all[part.begin + i] = sum[i];
  }
  return all;
}

void run_nodes_of(int ranks_per_node) {
  setenv("LSCHED_RANKS_PER_NODE", std::to_string(ranks_per_node).c_str(), 1);
  lsched_config config;
  lsched_config_init(&config);
  config.region_bytes = 64 << 20;
  config.commit_timeout_ns = 30'000'000'000;
  lsched_world* handle = nullptr;
  lsched_diagnostic why{};
  why.struct_size = sizeof why;
  if (lsched_world_open_mpi(MPI_COMM_WORLD, LSCHED_MPI_AUTO, &config, &handle, &why) != LSCHED_OK) give_up(why.text);
  lsched::world world(handle);
  const std::chrono::seconds limit(30);
  const lsched_node here = world.node();
  if (here.number != g_self / ranks_per_node || here.place != g_self % ranks_per_node) give_up("another node");

  numbers sum = vector_of(g_self);
  {
    schedule by_nodes = world.adasum<double>(std::span<const double>(sum), sum, k_model_layers, "two_level");
    by_nodes.start().wait(limit);
  }
  sum[9] = sum[56] = 0;  // in no tensor
  expect_near("two_level", sum, two_level(ranks_per_node));
  expect_equal("two_level", sum);

  for (const sgd how : {sgd{}, sgd{.momentum = 0.9}}) {
    const auto weights = train<double>(world, how, 12, limit);
    expect_near("training", weights, emulate(g_size, ranks_per_node, how, 12));
    expect_equal("training", weights);
  }
  world.close();
}

}  // namespace
}  // namespace lsched::testing

int main(int argc, char** argv) {
  using namespace lsched::testing;
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &g_self);
  MPI_Comm_size(MPI_COMM_WORLD, &g_size);
  lsched::testing::limit_this_process();
  for (const int ranks_per_node : {2, 3, 1})
    if (ranks_per_node <= g_size) run_nodes_of(ranks_per_node);
  MPI_Finalize();
  if (g_self == 0) std::printf("%d cases passed\n", g_cases);
  return g_cases > 0 ? 0 : 1;
}
