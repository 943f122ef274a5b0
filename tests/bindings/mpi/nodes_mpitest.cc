// Tests of emulated nodes (LSCHED_RANKS_PER_NODE) with real MPI ranks. Every collective runs through the C interface,
// with shared memory inside a node and MPI between nodes. The results are compared with the postcondition of the
// collective. Run as `mpiexec -n {3,5,6,7,8} bindings_nodes`.
//
// The tests request the algorithm "auto" of every collective, and all algorithms that depend on nodes.
// LSCHED_TEST_FULL=1 adds all other algorithms, and large counts. Every wait has a time limit, and a watchdog ends a
// process that nevertheless hangs. The first error ends the run.
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bindings/c/lsched_mpi.h"
#include "collectives/registry.h"
#include "collectives/requests/sample_requests.h"
#include "tests/support/c_request.h"
#include "tests/support/process_limit.h"
#include "tests/support/promised_outputs.h"

namespace lsched::testing {
namespace {

constexpr std::uint64_t k_limit_ns = 20'000'000'000;
constexpr int k_rounds = 3;
constexpr std::uint64_t k_most_sampled = 1000;  ///< maximum number of elements, unless LSCHED_TEST_FULL=1

struct context {
  rank self = 0;
  rank size = 1;
  rank ranks_per_node = 0;
  bool is_full = false;
  int cases = 0;
};
context g_run;

[[noreturn]] void give_up(const std::string& where, const std::string& why) {
  std::fprintf(stderr, "FAILED rank %d of %d, nodes of %d, %s: %s\n", g_run.self, g_run.size, g_run.ranks_per_node,
               where.c_str(), why.c_str());
  std::fflush(stderr);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // lets other ranks print their errors
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

/// Checks the status of a call of the C interface that must succeed.
struct expected {
  explicit expected(std::string what) : where(std::move(what)) {}
  void operator()(lsched_status answer) const {
    if (answer != LSCHED_OK) give_up(where, std::string(lsched_status_name(answer)) + " " + why.text);
  }
  std::string where;
  lsched_diagnostic why{.struct_size = sizeof(lsched_diagnostic)};
};

// --- one collective ----------------------------------------------------------------------------------------

struct exercise {
  const collective& of;
  std::string algorithm;
  shape data;

  world place() const { return {g_run.self, g_run.size}; }
  extents buffers() const { return of.extents_of(place(), data); }
  std::string name() const {
    return std::string(of.name) + "/" + algorithm + ", count " + std::to_string(data.count) +
           (data.in_place ? ", in place" : "");
  }
};

/// The buffers of this rank. In place, the input contains the output or the output contains the input. Otherwise the
/// buffers are separate.
class arena {
 public:
  explicit arena(const exercise& what) {
    const extents both = what.buffers();
    const bool is_shared = what.data.in_place && both.input.value_or(0) > 0 && both.output.value_or(0) > 0;
    const std::int64_t offset = is_shared ? what.of.aliasing_of(what.place(), what.data) : 0;
    inputs_ = both.input.value_or(0);
    outputs_ = both.output.value_or(0);
    input_begin_ = static_cast<std::size_t>(std::max<std::int64_t>(0, offset));
    output_begin_ = is_shared ? static_cast<std::size_t>(std::max<std::int64_t>(0, -offset)) : inputs_;
    memory_.resize(std::max(input_begin_ + inputs_, output_begin_ + outputs_) + 1);
  }
  std::int64_t* input() { return memory_.data() + input_begin_; }
  std::int64_t* output() { return memory_.data() + output_begin_; }

  void put(const numbers& given) {
    std::ranges::fill(memory_, -1);
    std::ranges::copy(given, input());
  }
  numbers result() { return {output(), output() + outputs_}; }

 private:
  std::size_t inputs_ = 0, outputs_ = 0;
  std::size_t input_begin_ = 0, output_begin_ = 0;
  numbers memory_;
};

/// Returns the inputs of all ranks in a round.
std::vector<numbers> inputs_of(const exercise& what, int round) {
  std::vector<numbers> all;
  for (rank r = 0; r < g_run.size; ++r) {
    numbers& one = all.emplace_back(what.of.extents_of({r, g_run.size}, what.data).input.value_or(0));
    for (std::size_t i = 0; i < one.size(); ++i) one[i] = 100'000 * round + 1000 * r + static_cast<std::int64_t>(7 * i);
  }
  return all;
}

/// Returns the part of the postcondition that concerns this rank.
postcondition promise_to_me(const exercise& what) {
  postcondition promise = what.of.contents_of(g_run.size, what.data);
  std::erase_if(promise.ranges, [](const promised_range& it) { return it.holder != g_run.self; });
  return promise;
}

void run(lsched_world* runtime, const exercise& what) {
  expected ok(what.name());
  arena mine(what);
  c_request request(what.of, what.place(), what.data, what.algorithm);
  request.desc.input = mine.input();
  request.desc.output = mine.output();
  lsched_schedule* schedule = nullptr;
  ok(lsched_collective_create(runtime, &request.desc, &schedule, &ok.why));
  const postcondition promise = promise_to_me(what);
  std::vector<numbers> outputs(static_cast<std::size_t>(g_run.size));
  for (int round = 1; round <= k_rounds; ++round) {
    const std::vector<numbers> inputs = inputs_of(what, round);
    mine.put(inputs[static_cast<std::size_t>(g_run.self)]);
    ok(lsched_run(schedule, k_limit_ns, &ok.why));
    outputs[static_cast<std::size_t>(g_run.self)] = mine.result();
    const std::string wrong = broken_promise(promise, inputs, outputs);
    if (!wrong.empty()) give_up(what.name(), "round " + std::to_string(round) + ": " + wrong);
  }
  ok(lsched_schedule_destroy(schedule, k_limit_ns, nullptr));
  ++g_run.cases;
}

// --- all of them -------------------------------------------------------------------------------------------

struct candidate_name {
  std::string algorithm;
  bool can_be_in_place = false;
};

/// Returns "auto" and the names of the algorithms to request.
std::vector<candidate_name> names_for(const collective& of) {
  std::vector<candidate_name> names{{"auto"}};
  for (const algorithm& it : algorithms()) {
    if (it.of != &of) continue;
    names[0].can_be_in_place |= it.needs.in_place && of.moves_data;
    if (g_run.is_full || it.looks_at.nodes) names.push_back({std::string(it.name), it.needs.in_place && of.moves_data});
  }
  return names;
}

void run_all(lsched_world* runtime) {
  for (const collective* of : collectives()) {
    // lsched_collective_create refuses partial collectives, and refuses integers for adaptive sums.
    if (of->activates || of->adapts) continue;
    for (const candidate_name& name : names_for(*of))
      for (const std::uint64_t count : {0u, 1u, 1000u, 100'000u})
        for (const bool in_place : {false, true}) {
          if (count > k_most_sampled && !g_run.is_full) continue;
          if ((in_place && !name.can_be_in_place) || (!of->moves_data && count > 0)) continue;
          shape data = typical_shape(*of, g_run.size, count, dtype::i64, kernel::sum);
          data.in_place = in_place;
          run(runtime, {*of, name.algorithm, std::move(data)});
        }
  }
}

/// Checks that the ranks of a node share memory and communicate with other ranks through MPI.
void expect_nodes(lsched_world* runtime) {
  char text[512];
  expected("describe")(lsched_world_describe(runtime, text, sizeof text));
  const rank first = g_run.self / g_run.ranks_per_node * g_run.ranks_per_node;
  const rank here = std::min(g_run.ranks_per_node, g_run.size - first);
  const auto in_words = [](rank count) { return std::to_string(count) + (count == 1 ? " rank" : " ranks"); };
  std::string wanted = "MPI with all ranks";
  if (here > 1) wanted = "shared memory with " + in_words(here - 1) + ", MPI with " + in_words(g_run.size - here);
  if (std::string(text).find(wanted) == std::string::npos) give_up("describe", std::string(text) + ", not " + wanted);
}

void run_nodes_of(rank ranks_per_node) {
  g_run.ranks_per_node = ranks_per_node;
  setenv("LSCHED_RANKS_PER_NODE", std::to_string(ranks_per_node).c_str(), 1);
  lsched_config config;
  lsched_config_init(&config);
  config.region_bytes = 64 << 20;
  config.commit_timeout_ns = k_limit_ns;
  lsched_world* runtime = nullptr;
  expected ok("open");
  ok(lsched_world_open_mpi(MPI_COMM_WORLD, LSCHED_MPI_AUTO, &config, &runtime, &ok.why));
  expect_nodes(runtime);
  run_all(runtime);
  expected("close")(lsched_world_close(runtime));
}

/// Opens a world with a wrong environment variable on the last rank. The error of this rank must name the variable, the
/// errors of the other ranks must name this rank, and no rank may wait.
void refuse_one_bad_environment(const char* variable, const char* value) {
  const rank bad = g_run.size - 1;
  if (g_run.self == bad) setenv(variable, value, 1);
  lsched_world* runtime = nullptr;
  auto why = lsched_diagnostic{.struct_size = sizeof(lsched_diagnostic)};
  const lsched_status answer = lsched_world_open_mpi(MPI_COMM_WORLD, LSCHED_MPI_AUTO, nullptr, &runtime, &why);
  unsetenv(variable);
  const std::string wanted = g_run.self == bad ? variable : "rank " + std::to_string(bad);
  if (answer != LSCHED_ERR_ARGUMENT || std::string(why.text).find(wanted) == std::string::npos)
    give_up("open with a bad environment", why.text);
  ++g_run.cases;
}

}  // namespace
}  // namespace lsched::testing

int main(int argc, char** argv) {
  using namespace lsched::testing;
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &g_run.self);
  MPI_Comm_size(MPI_COMM_WORLD, &g_run.size);
  g_run.is_full = std::getenv("LSCHED_TEST_FULL") != nullptr;
  lsched::testing::limit_this_process();
  for (const lsched::rank ranks_per_node : {2, 3, 4, 1})
    if (ranks_per_node < g_run.size) run_nodes_of(ranks_per_node);
  refuse_one_bad_environment("LSCHED_READ_PEERS", "perhaps");
  refuse_one_bad_environment("LSCHED_RANKS_PER_NODE", "some");
  refuse_one_bad_environment("LSCHED_TUNING", "/nonexistent");
  MPI_Finalize();
  if (g_run.self == 0) std::printf("%d cases passed\n", g_run.cases);
  return g_run.cases > 0 ? 0 : 1;
}
