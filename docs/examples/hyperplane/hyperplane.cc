// Eager-SGD on a hyperplane: Algorithm 2 of Li et al., "Taming Unbalanced Training Workloads in Deep Learning with
// Partial Collective Operations" (PPoPP 2020), on the regression of its section 7.2.1 (Fig. 10).
//
//     lsched run -n 8 build/examples/hyperplane --plot hyperplane
//
// Every rank has its part of the points, y = a x + noise, and its own copy of the weights. In each step a rank computes
// the gradient of a batch. Then one rank, which is drawn at random in each step, is late. Each rank offers its
// gradient, collects the available results, and descends.
//
// The arithmetic of a step takes little time. Ranks sleep in each step, so that many ranks can share a core. The ratio
// of the delays to the step is that of the paper: 200, 300 and 400 ms to 320 ms.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "model.h"
#include "options.h"
#include "table.h"

namespace {

using namespace std::chrono_literals;
using clock_type = std::chrono::steady_clock;

constexpr auto k_limit = 60s;

/// The settings of one training.
struct recipe {
  const char* name;
  const char* policy;
  lsched_lag lag;
  std::uint32_t history;
  int sync_every;  ///< epochs between model synchronisations; 0: never
};

constexpr recipe k_throughput[] = {{"synchronous", "full", LSCHED_LATEST, 0, 0},
                                   {"quorum(4)", "quorum(4)", LSCHED_ACCUMULATE, 0, 0},
                                   {"majority", "majority", LSCHED_ACCUMULATE, 0, 0},
                                   {"solo", "solo", LSCHED_ACCUMULATE, 0, 0}};
constexpr recipe k_replicas[] = {{"latest", "solo", LSCHED_LATEST, 0, 0},
                                 {"latest, synchronised", "solo", LSCHED_LATEST, 0, 4},
                                 {"accumulate", "solo", LSCHED_ACCUMULATE, 0, 0},
                                 {"history(16)", "solo", LSCHED_HISTORY, 16, 0}};

/// The training loop of one rank.
class trainer {
 public:
  trainer(lsched::world& world, const shard& data, const options& how, const recipe& what, double delay_ms)
      : world_(world),
        data_(data),
        how_(how),
        what_(what),
        delay_ms_(delay_ms),
        weights_(data.size()),
        gradient_(data.size()),
        sum_(data.size()),
        exchange_(world.partial<float>(data.size(), {.activation = what.policy,
                                                     .lag = what.lag,
                                                     .history = what.history,
                                                     .averages_weights = what.sync_every != 0,
                                                     .seed = how.seed})) {}

  outcome run() {
    outcome seen{.name = what_.name, .delay_ms = delay_ms_};
    auto barrier = world_.barrier();
    barrier.run(k_limit);
    const auto begin = clock_type::now();
    for (int epoch = 1; epoch <= how_.epochs; ++epoch) {
      for (int i = 0; i < steps_per_epoch(); ++i) step(seen);
      if (what_.sync_every != 0 && epoch % what_.sync_every == 0) exchange_.model_sync(weights_, k_limit);
      seen.snapshots.push_back(weights_);
    }
    seen.seconds = std::chrono::duration<double>(clock_type::now() - begin).count();
    seen.steps = step_;
    finish(seen);
    barrier.run(k_limit);
    return seen;
  }

 private:
  int steps_per_epoch() const { return data_.rows() / how_.batch; }

  void step(outcome& seen) {
    data_.gradient(step_ * how_.batch % data_.rows(), how_.batch, weights_, gradient_);
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(how_.step_ms));
    if (late_rank(how_.seed, step_, world_.size()) == world_.rank())
      std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(delay_ms_));
    const auto ticket = exchange_.offer(gradient_);
    lsched::report got;
    do {  // with a history, several results may be available at once
      got = exchange_.collect(ticket, sum_, k_limit);
      descend(got, seen);
    } while (what_.lag == LSCHED_HISTORY && got.to < got.round);
    ++step_;
  }

  /// Computes w -= rate / P * sum of all contributions.
  void descend(const lsched::report& got, outcome& seen) {
    seen.missed += got.to > got.from + 1 && what_.lag == LSCHED_LATEST ? got.to - got.from - 1 : 0;
    seen.staleness = std::max(seen.staleness, got.staleness);
    if (!got.has_result) return;
    const float rate = how_.rate / static_cast<float>(world_.size());
    for (std::size_t i = 0; i < weights_.size(); ++i) weights_[i] -= rate * sum_[i];
  }

  /// Flushes, so that all ranks are at the same round and no offers are pending. Then collects all results.
  void finish(outcome& seen) {
    auto got = exchange_.flush(sum_, k_limit);
    seen.behind = got.to - got.from;
    descend(got, seen);
    for (const auto all = got.round; got.to < all;) {
      got = exchange_.collect(lsched::ticket({exchange_.handle(), all}), sum_, k_limit);
      descend(got, seen);
    }
    seen.last = weights_;
    exchange_.close(k_limit);
  }

  lsched::world& world_;
  const shard& data_;
  const options& how_;
  const recipe& what_;
  const double delay_ms_;
  std::vector<float> weights_, gradient_, sum_;
  lsched::partial_collective<float> exchange_;
  int step_ = 0;
};

int train_all(const options& how) {
  lsched::world world;
  if (world.size() < 4) throw std::runtime_error("quorum(4) needs at least four ranks");
  const problem plane(how.dimensions, how.seed);
  const shard data(plane, world.rank(), how.points / world.size());
  summary all(world, plane, how);
  for (const double delay : how.delays_ms)
    for (const recipe& what : k_throughput) all.add_throughput(trainer(world, data, how, what, delay).run());
  for (const recipe& what : k_replicas) all.add_replicas(trainer(world, data, how, what, how.delays_ms.front()).run());
  all.print();
  world.close();
  return all.is_sound() ? 0 : 1;
}

}  // namespace

int main(int count, char** words) try {
  const auto how = read_options(count, words);
  return how ? train_all(*how) : 2;
} catch (const std::exception& why) {
  std::fprintf(stderr, "hyperplane: %s\n", why.what());
  return 1;
}
