// SGD whose steps are sparse allreduces (lsched_sparse.hpp), beside SGD with all of the gradient.
//
//     lsched run -n 3 build/examples/sparse_sgd --density 0.02
//
// Every rank draws batches of its own. Half way, what the sparse steps would need from a checkpoint is saved; a second
// trainer goes on from there, and has to end with the same bits.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <lsched_sparse.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "line.h"
#include "options.h"

namespace {

constexpr std::chrono::seconds k_limit{60};
constexpr std::size_t k_weights = 512;
constexpr int k_batch = 16, k_lines = 6;
constexpr double k_rate = 0.02;

/// One replica, and how it is stepped. A copy of its points goes on where they are.
class trainer {
 public:
  trainer(lsched::world& world, points data, std::vector<float> weights, std::uint64_t k,
          const lsched::sparse_sgd_options& how)
      : data_(std::move(data)),
        weights_(std::move(weights)),
        gradient_(weights_.size()),
        training_(world, weights_, k, how, k_limit) {}

  void step() {
    data_.gradient(k_batch, weights_, gradient_);
    training_.step(gradient_, k_rate, k_limit);
  }

  const points& data() const { return data_; }
  const std::vector<float>& weights() const { return weights_; }
  lsched::sparse_sgd<float>& training() { return training_; }

 private:
  points data_;
  std::vector<float> weights_, gradient_;
  lsched::sparse_sgd<float> training_;
};

struct line_of_table {
  int step;
  double dense, sparse;
};

/// That this rank has sent, in the mean of all steps.
struct bytes_per_step {
  double items = 0, others = 0;
};

struct outcome {
  std::vector<line_of_table> lines{};
  bytes_per_step dense{}, sparse{};
  bool does_resume = false;

  /// Dense steps have come nine tenths of the way to no loss at all,
  bool does_fit() const { return lines.back().dense <= 0.1 * lines.front().dense; }
  /// and sparse ones of the way to theirs.
  bool is_near() const {
    const double begin = lines.front().dense, dense = lines.back().dense, sparse = lines.back().sparse;
    return begin - sparse >= 0.9 * (begin - dense);
  }
  bool is_sound() const { return does_fit() && is_near() && does_resume; }
};

bytes_per_step sent_by(trainer& it) {
  const lsched_sparse_stats all = it.training().stats();
  const auto rounds = static_cast<double>(all.rounds);
  return {static_cast<double>(all.item_bytes_sent) / rounds, static_cast<double>(all.other_bytes_sent) / rounds};
}

outcome train(lsched::world& world, const options& how) {
  const std::vector<float> line = draw_line(k_weights), start(k_weights);
  const points data(line, static_cast<std::uint32_t>(3 + world.rank()));
  const std::uint64_t k = lsched::items_of(how.density, k_weights);
  const lsched::sparse_sgd_options recipe{.allreduce = {.algorithm = how.algorithm}, .rate = how.rate};

  outcome seen;
  trainer dense(world, data, start, k_weights, {}), sparse(world, data, start, k, recipe);
  std::optional<trainer> resumed;
  for (int step = 0; step <= how.steps; ++step) {
    if (step % std::max(1, how.steps / k_lines) == 0 || step == how.steps)
      seen.lines.push_back({step, loss_of(line, dense.weights()), loss_of(line, sparse.weights())});
    if (step == how.steps) break;
    if (step == how.steps / 2) {
      const std::vector<std::byte> checkpoint = sparse.training().save();
      lsched::sparse_sgd_options from_there = recipe;
      from_there.allreduce.image = checkpoint;
      resumed.emplace(world, sparse.data(), sparse.weights(), k, from_there);
    }
    dense.step();
    sparse.step();
    if (resumed) resumed->step();
  }
  seen.dense = sent_by(dense);
  seen.sparse = sent_by(sparse);
  const std::span<const float> kept = sparse.training().residual(), loaded = resumed->training().residual();
  seen.does_resume = sparse.weights() == resumed->weights() && std::ranges::equal(kept, loaded);
  return seen;
}

void print_table(const outcome& seen, const options& how, std::int32_t ranks) {
  std::printf("%d ranks, %zu weights, %s of density %g, rate %s the residual\n\n%6s  %10s  %10s\n", ranks, k_weights,
              how.algorithm, how.density, how.rate == lsched::rate_place::inside ? "inside" : "outside", "step",
              "dense loss", "sparse loss");
  for (const line_of_table& it : seen.lines) std::printf("%6d  %10.5f  %10.5f\n", it.step, it.dense, it.sparse);
  std::printf("%6s  %10.0f  %10.0f  bytes that rank 0 sends in a step: indices and values,\n", "", seen.dense.items,
              seen.sparse.items);
  std::printf("%6s  %10.0f  %10.0f  all else\n", "", seen.dense.others, seen.sparse.others);
}

void print_json(const outcome& seen, const options& how, std::int32_t ranks) {
  std::printf("{\"ranks\":%d,\"weights\":%zu,\"algorithm\":\"%s\",\"density\":%g,\"rate\":\"%s\",", ranks, k_weights,
              how.algorithm, how.density, how.rate == lsched::rate_place::inside ? "inside" : "outside");
  std::printf("\"dense_bytes\":%.0f,\"sparse_bytes\":%.0f,\"resumes\":%s,\"near\":%s,\"losses\":[",
              seen.dense.items + seen.dense.others, seen.sparse.items + seen.sparse.others,
              seen.does_resume ? "true" : "false", seen.is_near() ? "true" : "false");
  for (const line_of_table& it : seen.lines)
    std::printf("%s{\"step\":%d,\"dense\":%g,\"sparse\":%g}", it.step == 0 ? "" : ",", it.step, it.dense, it.sparse);
  std::printf("]}\n");
}

int run(const options& how) {
  lsched::world world;
  const outcome seen = train(world, how);
  if (world.rank() == 0) {
    (how.as_json ? print_json : print_table)(seen, how, world.size());
    if (!seen.does_fit()) std::fprintf(stderr, "sparse_sgd: not even the dense loss has become a tenth: more steps?\n");
    if (!seen.is_near()) std::fprintf(stderr, "sparse_sgd: the sparse loss is far from the dense one\n");
  }
  if (!seen.does_resume)
    std::fprintf(stderr, "sparse_sgd: rank %d does not go on as if it had never stopped\n", world.rank());
  world.close();
  return seen.is_sound() ? 0 : 1;
}

}  // namespace

int main(int count, char** words) try {
  const auto how = read_options(count, words);
  if (!how) return 2;
  if (!how->wants_help) return run(*how);
  print_usage(stdout);
  return 0;
} catch (const std::exception& why) {
  std::fprintf(stderr, "sparse_sgd: %s\n", why.what());
  return 1;
}
