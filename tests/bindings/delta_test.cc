// Training by deltas, beside an emulation of all replicas in one place and in double precision.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <latch>
#include <limits>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "bindings/cpp/lsched_delta.hpp"
#include "docs/examples/noise_scale/telemetry.h"
#include "tests/support/cpp_ranks.h"

namespace {

using namespace std::chrono_literals;
using lsched::combine;
using lsched::testing::as_nodes;
using lsched::testing::as_ranks;

constexpr std::chrono::seconds k_limit = 20s;
constexpr double k_nan = std::numeric_limits<double>::quiet_NaN();

// --- what is trained -----------------------------------------------------------------------------------------

constexpr std::size_t k_size = 23;
const std::vector<lsched_tensor> k_tensors{{0, 9}, {9, 0}, {10, 13}};  // element 9 is in none

/// Of weight i in a rank's n-th batch: of a parabola, so that no weight is in another's gradient.
template <class T>
T gradient(std::size_t rank, int batch, std::size_t i, T weight) {
  std::mt19937 draw(static_cast<unsigned>(1 + i + 100 * rank + 10000 * static_cast<unsigned>(batch)));
  std::normal_distribution<double> normal;
  const T steepness = static_cast<T>(0.5 + std::fabs(normal(draw))), bottom = static_cast<T>(3 + normal(draw));
  return steepness * (weight - bottom);
}

struct recipe {
  double rate = 0.1, momentum = 0, decay = 0;
};

/// SGD, with a state of its own.
template <class T>
class optimizer {
 public:
  explicit optimizer(recipe how) : how_(how), velocity_(k_size) {}
  void step(std::vector<T>& weights, std::size_t rank, int batch) {
    for (std::size_t i = 0; i < k_size; ++i) {
      const T force = gradient(rank, batch, i, weights[i]) + static_cast<T>(how_.decay) * weights[i];
      velocity_[i] = static_cast<T>(how_.momentum) * velocity_[i] + force;
      weights[i] -= static_cast<T>(how_.rate) * velocity_[i];
    }
  }

 private:
  recipe how_;
  std::vector<T> velocity_;
};

template <class T>
std::vector<T> weights_at_first() {
  std::vector<T> weights(k_size);
  std::iota(weights.begin(), weights.end(), T{-5});
  return weights;
}

template <class T>
using history = std::vector<std::vector<std::vector<T>>>;  ///< by rank and step

/// What each rank's weights are after each step.
template <class T>
history<T> train(std::int32_t ranks, const recipe& how, const lsched::delta_options& options, int steps) {
  history<T> seen(static_cast<std::size_t>(ranks));
  as_ranks(ranks, [&](lsched::world& world) {
    const auto rank = static_cast<std::size_t>(world.rank());
    auto weights = weights_at_first<T>();
    optimizer<T> local(how);
    lsched::delta_step<T> deltas(world, weights, options, k_limit);
    for (int step = 0; step < steps; ++step) {
      local.step(weights, rank, step);
      const bool is_last = (step + 1) % static_cast<int>(options.local_steps) == 0;
      EXPECT_EQ(deltas.step(k_limit), is_last);
      seen[rank].push_back(weights);
    }
    deltas.close();
  });
  return seen;
}

// --- the emulation -------------------------------------------------------------------------------------------

using numbers = std::vector<double>;

double dot(const numbers& a, const numbers& b) { return std::inner_product(a.begin(), a.end(), b.begin(), 0.0); }

numbers adaptive_sum(const numbers& a, const numbers& b) {
  const double of_a = dot(a, a) > 0 ? 1 - dot(a, b) / (2 * dot(a, a)) : 1;
  const double of_b = dot(b, b) > 0 ? 1 - dot(a, b) / (2 * dot(b, b)) : 1;
  numbers sum(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) sum[i] = of_a * a[i] + of_b * b[i];
  return sum;
}

/// Pairs from the front until a power of two is left, then neighbours.
numbers adaptive_sum(std::vector<numbers> all) {
  std::size_t core = 1;
  while (2 * core <= all.size()) core *= 2;
  for (std::size_t i = 0; all.size() > core; ++i) {
    all[i] = adaptive_sum(all[i], all[i + 1]);
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(i) + 1);
  }
  for (; all.size() > 1; all.resize(all.size() / 2))
    for (std::size_t i = 0; i < all.size() / 2; ++i) all[i] = adaptive_sum(all[2 * i], all[2 * i + 1]);
  return all.front();
}

numbers combined(combine how, const std::vector<numbers>& all) {
  if (how == combine::adasum) return adaptive_sum(all);
  numbers sum(all.front().size());
  for (const numbers& it : all)
    for (std::size_t i = 0; i < sum.size(); ++i)
      sum[i] += it[i] / (how == combine::mean ? static_cast<double>(all.size()) : 1);
  return sum;
}

history<double> emulate(std::size_t ranks, const recipe& how, const lsched::delta_options& options, int steps) {
  history<double> seen(ranks);
  numbers start = weights_at_first<double>();
  std::vector<numbers> weights(ranks, start);
  std::vector<optimizer<double>> local(ranks, optimizer<double>(how));
  for (int step = 0; step < steps; ++step) {
    for (std::size_t r = 0; r < ranks; ++r) local[r].step(weights[r], r, step);
    if ((step + 1) % static_cast<int>(options.local_steps) == 0) {
      for (const lsched_tensor& it : options.tensors) {
        std::vector<numbers> deltas(ranks);
        for (std::size_t r = 0; r < ranks; ++r)
          for (std::size_t i = it.begin; i < it.begin + it.count; ++i) deltas[r].push_back(weights[r][i] - start[i]);
        const numbers delta = combined(options.how, deltas);
        for (std::size_t i = 0; i < it.count; ++i) start[it.begin + i] += delta[i];
      }
      weights.assign(ranks, start);
    }
    for (std::size_t r = 0; r < ranks; ++r) seen[r].push_back(weights[r]);
  }
  return seen;
}

template <class T>
void expect_emulation(std::int32_t ranks, const recipe& how, const lsched::delta_options& options) {
  SCOPED_TRACE(std::to_string(ranks) + " ranks, momentum " + std::to_string(how.momentum) + ", decay " +
               std::to_string(how.decay));
  constexpr int k_steps = 12;
  const history<T> found = train<T>(ranks, how, options, k_steps);
  const history<double> wanted = emulate(found.size(), how, options, k_steps);
  for (std::size_t r = 0; r < found.size(); ++r)
    for (std::size_t step = 0; step < k_steps; ++step) {
      for (std::size_t i = 0; i < k_size; ++i)
        ASSERT_NEAR(found[r][step][i], wanted[r][step][i], 100 * std::numeric_limits<T>::epsilon())
            << "rank " << r << " step " << step << " weight " << i;
      if ((step + 1) % options.local_steps != 0) continue;
      ASSERT_EQ(std::memcmp(found[r][step].data(), found[0][step].data(), k_size * sizeof(T)), 0)
          << "rank " << r << " step " << step << ": replicas differ";
    }
}

class DeltaStep : public ::testing::TestWithParam<std::int32_t> {};
INSTANTIATE_TEST_SUITE_P(Ranks, DeltaStep, ::testing::Values(1, 2, 3, 5));

TEST_P(DeltaStep, is_that_of_replicas_emulated_in_one_place) {
  for (const recipe how : {recipe{}, recipe{.momentum = 0.9}, recipe{.momentum = 0.5, .decay = 0.01}}) {
    expect_emulation<float>(GetParam(), how, {.tensors = k_tensors});
    expect_emulation<double>(GetParam(), how, {.tensors = k_tensors});
  }
}

TEST_P(DeltaStep, can_take_the_sum_or_the_mean) {
  for (const combine how : {combine::sum, combine::mean})
    expect_emulation<float>(GetParam(), {.rate = 0.02, .momentum = 0.5}, {.tensors = k_tensors, .how = how});
}

TEST_P(DeltaStep, of_local_steps_is_what_they_led_to) {
  for (const std::uint32_t k : {2u, 3u, 5u})
    expect_emulation<double>(GetParam(), {.momentum = 0.5}, {.tensors = k_tensors, .local_steps = k});
}

TEST(DeltaStep, one_tensor_is_all_weights_unless_there_is_a_table) {
  const auto one = train<double>(3, {}, {}, 4), table = train<double>(3, {}, {.tensors = {{0, k_size}}}, 4);
  EXPECT_EQ(one, table);
  EXPECT_NE(one, train<double>(3, {}, {.tensors = {{0, 9}, {9, 14}}}, 4));
}

// --- one tensor and another ----------------------------------------------------------------------------------

/// Weights after a step of 3 ranks in which rank 1 moves weight 12 to where it is told.
std::vector<float> after_a_step(float moved_to, combine how = combine::adasum) {
  std::vector<float> last;
  as_ranks(3, [&](lsched::world& world) {
    auto weights = weights_at_first<float>();
    lsched::delta_step<float> deltas(world, weights, {.tensors = k_tensors, .how = how}, k_limit);
    optimizer<float>({}).step(weights, static_cast<std::size_t>(world.rank()), 0);
    if (world.rank() == 1) weights[12] = moved_to;
    deltas.step(k_limit);
    if (world.rank() == 2) last = weights;
  });
  return last;
}

TEST(DeltaStep, what_is_in_a_tensor_changes_no_bit_of_another) {
  const auto some = after_a_step(1), other = after_a_step(1000), none = after_a_step(static_cast<float>(k_nan));
  EXPECT_EQ(std::memcmp(some.data(), other.data(), 10 * sizeof(float)), 0);
  EXPECT_EQ(std::memcmp(some.data(), none.data(), 10 * sizeof(float)), 0);
  for (std::size_t i = 10; i < k_size; ++i) {
    EXPECT_NE(some[i], other[i]) << i;
    EXPECT_TRUE(std::isnan(none[i])) << i;
  }
}

TEST(DeltaStep, an_element_of_no_tensor_goes_back_to_where_it_started) {
  EXPECT_EQ(after_a_step(1)[9], weights_at_first<float>()[9]);
}

TEST(DeltaStep, of_a_sum_only_the_element_that_is_not_finite_becomes_so) {
  const auto weights = after_a_step(std::numeric_limits<float>::infinity(), combine::mean);
  for (std::size_t i = 0; i < k_size; ++i) EXPECT_EQ(std::isfinite(weights[i]), i != 12) << i;
}

// --- weights -------------------------------------------------------------------------------------------------

TEST(DeltaStep, begins_with_the_weights_of_rank_0_unless_told_not_to) {
  as_ranks(3, [](lsched::world& world) {
    std::vector<double> weights(5, world.rank() + 7.0);
    lsched::delta_step<double> kept(world, weights, {.broadcasts_weights = false}, k_limit);
    EXPECT_EQ(weights, std::vector<double>(5, world.rank() + 7.0));
    lsched::delta_step<double> deltas(world, weights, {}, k_limit);
    EXPECT_EQ(weights, std::vector<double>(5, 7));
    deltas.step(k_limit);
    EXPECT_EQ(weights, std::vector<double>(5, 7));
  });
}

TEST(DeltaStep, begins_anew_from_a_checkpoint_and_reduces_when_asked) {
  as_ranks(2, [](lsched::world& world) {
    std::vector<double> weights(2, 1);
    lsched::delta_step<double> deltas(world, weights, {.local_steps = 3}, k_limit);
    EXPECT_FALSE(deltas.step(k_limit));
    weights = {10, 20};
    deltas.restart();
    weights[static_cast<std::size_t>(world.rank())] += 1;  // orthogonal
    EXPECT_FALSE(deltas.step(k_limit));
    EXPECT_FALSE(deltas.step(k_limit));
    deltas.sync(k_limit);
    EXPECT_EQ(weights, (std::vector<double>{11, 21}));
    EXPECT_FALSE(deltas.step(k_limit));
    EXPECT_FALSE(deltas.step(k_limit));
    EXPECT_TRUE(deltas.step(k_limit));
    EXPECT_EQ(weights, (std::vector<double>{11, 21}));
  });
}

TEST(DeltaStep, can_be_moved_and_tells_which_algorithm_it_is) {
  as_ranks(2, [](lsched::world& world) {
    std::vector<float> weights(2, 1);
    lsched::delta_step<float> first(world, weights, {.algorithm = "halving"}, k_limit);
    lsched::delta_step<float> deltas = std::move(first);
    EXPECT_NE(deltas.print().find("adasum/halving"), std::string::npos) << deltas.print();
    weights[static_cast<std::size_t>(world.rank())] = 3;
    deltas.step(k_limit);
    EXPECT_EQ(weights, (std::vector<float>{3, 3}));
  });
}

TEST(DeltaStep, of_no_weights_is_a_step_all_the_same) {
  as_ranks(2, [](lsched::world& world) {
    lsched::delta_step<float> deltas(world, {}, {}, k_limit);
    EXPECT_TRUE(deltas.step(k_limit));
  });
}

// --- errors --------------------------------------------------------------------------------------------------

TEST(DeltaStep, options_of_one_rank_that_make_no_sense_are_refused_on_all_ranks) {
  as_ranks(3, [](lsched::world& world) {
    std::vector<float> weights(10);
    std::int32_t culprit = 0;
    const auto refuses = [&](lsched::delta_options options) {
      culprit = (culprit + 1) % world.size();
      if (world.rank() == culprit) {
        EXPECT_THROW(lsched::delta_step<float>(world, weights, std::move(options), k_limit), std::invalid_argument);
        return;
      }
      try {
        lsched::delta_step<float>(world, weights, {}, k_limit);
        ADD_FAILURE() << "rank " << world.rank() << " was not refused";
      } catch (const lsched::error& why) {
        EXPECT_EQ(why.status(), LSCHED_ERR_ARGUMENT) << why.what();
        EXPECT_EQ(why.diagnostic().rank, culprit) << why.what();
      }
    };
    refuses({.local_steps = 0});
    refuses({.tensors = {{0, 5}, {4, 2}}});
    refuses({.tensors = {{5, 5}, {0, 5}}});
    refuses({.tensors = {{0, 5}, {5, 6}}});
    refuses({.tensors = {{11, 0}}});
    refuses({.tensors = {{5, UINT64_MAX}}});
    refuses({.wire = LSCHED_I32});
    refuses({.wire = LSCHED_F64});
    EXPECT_TRUE(lsched::delta_step<float>(world, weights, {}, k_limit).step(k_limit));
  });
}

TEST(DeltaStep, algorithms_that_do_not_exist_are_an_error_on_all_ranks) {
  as_ranks(2, [](lsched::world& world) {
    std::vector<float> weights(4);
    EXPECT_THROW(lsched::delta_step<float>(world, weights, {.algorithm = "ring"}, k_limit), lsched::error);
  });
}

TEST(DeltaStep, scales_that_differ_are_an_error_on_all_ranks) {
  const auto expect_refusal = [](const lsched::dynamic_scale& of_last, const std::string& complaint) {
    as_ranks(3, [&](lsched::world& world) {
      std::vector<float> weights(4);
      const bool is_last = world.rank() == 2;
      try {
        lsched::delta_step<float>(
            world, weights, {.wire = LSCHED_BF16, .scaling = is_last ? of_last : lsched::dynamic_scale(8, 5)}, k_limit);
        EXPECT_EQ(complaint, "");
      } catch (const lsched::error& why) {
        EXPECT_EQ(why.status(), LSCHED_ERR_MISMATCH);
        EXPECT_NE(std::string(why.what()).find(complaint), std::string::npos) << why.what();
        EXPECT_NE(complaint, "");
      }
    });
  };
  expect_refusal(lsched::dynamic_scale(0.25, 5), "from 2^-2 to 2^3, after 5 to 5 clean steps");
  expect_refusal(lsched::dynamic_scale(8, 7), "from 2^3 to 2^3, after 5 to 7 clean steps");
  expect_refusal(lsched::dynamic_scale(8, 5), "");
}

TEST(DeltaStep, a_timeout_can_be_waited_out) {
  std::latch has_timed_out(1);
  as_ranks(2, [&](lsched::world& world) {
    std::vector<double> weights(2);
    lsched::delta_step<double> deltas(world, weights, {}, k_limit);
    weights[static_cast<std::size_t>(world.rank())] = 1;
    if (world.rank() == 0) {
      EXPECT_THROW(deltas.step(1ms), lsched::error);
      EXPECT_THROW(deltas.close(), lsched::error);
      EXPECT_THROW(deltas.restart(), std::logic_error);
      has_timed_out.count_down();
    } else {
      has_timed_out.wait();
    }
    EXPECT_TRUE(deltas.step(k_limit));
    EXPECT_EQ(weights, (std::vector<double>{1, 1}));
    deltas.close();
  });
}

// --- buckets -------------------------------------------------------------------------------------------------

/// Tensors of several sizes with gaps, before, between and behind them; some are empty.
const std::vector<lsched_tensor> k_layers{{2, 0},    {3, 40},    {43, 0},   {43, 1},    {50, 2000},
                                          {2050, 7}, {2057, 90}, {2147, 0}, {2200, 300}};
constexpr std::size_t k_much = 2600;

/// By rank the weights after two steps of deltas that are small integers, sums of which are exact in any order.
std::vector<std::vector<float>> after_steps(std::int32_t ranks, const lsched::delta_options& options,
                                            std::size_t* buckets = nullptr) {
  std::vector<std::vector<float>> last(static_cast<std::size_t>(ranks));
  as_ranks(ranks, [&](lsched::world& world) {
    const auto rank = static_cast<unsigned>(world.rank());
    std::vector<float> weights(k_much, 7);
    lsched::delta_step<float> deltas(world, weights, options, k_limit);
    if (buckets != nullptr && rank == 0) *buckets = deltas.buckets();
    std::mt19937 draw(rank + 1);
    for (int step = 0; step < 2; ++step) {
      for (float& it : weights) it += static_cast<float>(static_cast<int>(draw() % 41) - 20);
      EXPECT_TRUE(deltas.step(k_limit));
    }
    last[rank] = weights;
    deltas.close();
  });
  return last;
}

/// However they are cut into buckets. Where vectors are cut in the middle a dot's last bit may be another, and an
/// element's.
void expect_same_however_cut(std::int32_t ranks, lsched::delta_options options, double tolerance) {
  options.tensors = k_layers;
  const auto fused = after_steps(ranks, options);
  for (const auto& it : fused) EXPECT_TRUE(it == fused[0]);
  for (const std::size_t i : {0u, 49u, 2147u, 2199u, 2500u, 2599u}) EXPECT_EQ(fused[0][i], 7) << "in no tensor";
  const std::pair<std::uint64_t, std::size_t> cuts[] = {
      {1, 6}, {4 * 40, 6}, {4 * 41, 5}, {4 * 400, 3}, {UINT64_MAX, 1}};
  for (const auto& [bytes, wanted] : cuts) {
    std::size_t buckets = 0;
    options.bucket_bytes = bytes;
    const auto cut = after_steps(ranks, options, &buckets);
    EXPECT_EQ(buckets, wanted) << bytes;
    for (const auto& it : cut) EXPECT_TRUE(it == cut[0]);
    for (std::size_t i = 0; i < k_much; ++i)
      ASSERT_NEAR(cut[0][i], fused[0][i], tolerance)
          << ranks << " ranks, " << options.algorithm << ", buckets of " << bytes << ", weight " << i;
  }
}

TEST(Buckets, change_no_bit_of_any_tensor) {
  for (const std::int32_t ranks : {1, 3, 5, 2}) {
    expect_same_however_cut(ranks, {.algorithm = "recursive_doubling"}, 0);
    expect_same_however_cut(ranks, {.how = combine::sum, .algorithm = "ring"}, 0);
    expect_same_however_cut(ranks, {.algorithm = "halving"}, 1e-5);
  }
}

TEST_P(DeltaStep, in_buckets_is_that_of_replicas_emulated_in_one_place) {
  for (const std::uint64_t bytes : {1u, 60u, 1000u})
    expect_emulation<double>(GetParam(), {.momentum = 0.5}, {.tensors = k_tensors, .bucket_bytes = bytes});
}

/// Rank 1 has only the schedules of three buckets, and starts them when the test has come so far. Its deltas are
/// orthogonal to rank 0's.
TEST(Buckets, a_timeout_in_the_middle_can_be_waited_out) {
  std::latch has_one_arrived(1);
  as_ranks(2, [&](lsched::world& world) {
    if (world.rank() == 1) {
      const lsched_tensor table[] = {{0, 2}};
      numbers vectors[3];
      lsched::schedule sums[3];
      for (std::size_t i = 0; i < 3; ++i) {
        vectors[i] = {0, static_cast<double>(i + 1)};
        sums[i] = world.adasum<double>(vectors[i], std::span(vectors[i]), table);
      }
      sums[0].run(k_limit);
      has_one_arrived.wait();
      for (const std::size_t i : {2u, 1u}) sums[i].run(k_limit);
      return;
    }
    numbers weights(6);
    lsched::delta_step<double> deltas(
        world, weights, {.tensors = {{0, 2}, {2, 2}, {4, 2}}, .broadcasts_weights = false, .bucket_bytes = 16},
        k_limit);
    EXPECT_EQ(deltas.buckets(), 3u);
    weights = {7, 0, 8, 0, 9, 0};
    const auto deadline = std::chrono::steady_clock::now() + k_limit;
    while (weights[1] == 0 && std::chrono::steady_clock::now() < deadline)
      EXPECT_THROW(deltas.step(1ms), lsched::error);
    EXPECT_EQ(weights, (numbers{7, 1, 8, 0, 9, 0}));
    try {
      deltas.close();
      ADD_FAILURE() << "closed while buckets are under way";
    } catch (const lsched::error& why) {
      EXPECT_EQ(why.status(), LSCHED_ERR_BUSY);
    }
    EXPECT_THROW(deltas.step(1ms), lsched::error);
    has_one_arrived.count_down();
    EXPECT_TRUE(deltas.step(k_limit));
    EXPECT_EQ(weights, (numbers{7, 1, 8, 2, 9, 3}));
    deltas.close();
  });
}

// --- a wire in fewer bits ------------------------------------------------------------------------------------

TEST(DynamicScale, doubles_after_2000_clean_steps_and_halves_where_something_does_not_fit) {
  lsched::dynamic_scale it;
  EXPECT_EQ(it.scale(), 65536);
  for (int step = 0; step < 1999; ++step) it.end_step(true);
  EXPECT_EQ(it.scale(), 65536);
  EXPECT_EQ(it.clean_steps(), 1999u);
  it.end_step(true);
  EXPECT_EQ(it.scale(), 131072);
  EXPECT_EQ(it.clean_steps(), 0u);
  for (int step = 0; step < 1999; ++step) it.end_step(true);
  it.end_step(false);
  EXPECT_EQ(it.clean_steps(), 0u) << "that was no clean step";
  it.end_step(false);
  EXPECT_EQ(it.scale(), 32768);
  for (int step = 0; step < 2000; ++step) it.end_step(true);
  EXPECT_EQ(it.scale(), 65536);
}

TEST(DynamicScale, stays_within_bounds) {
  lsched::dynamic_scale least(lsched::dynamic_scale::k_least), most(lsched::dynamic_scale::k_most, 1999);
  least.end_step(false);
  EXPECT_EQ(least.scale(), 0x1p-120);
  most.end_step(true);
  EXPECT_EQ(most.scale(), 0x1p120);
  EXPECT_EQ(most.clean_steps(), 0u);
}

TEST(DynamicScale, is_saved_as_two_numbers) {
  lsched::dynamic_scale it(0x1p-3, 1000);
  for (int step = 0; step < 999; ++step) it.end_step(true);
  lsched::dynamic_scale same(it.scale(), it.clean_steps());
  EXPECT_EQ(same, it);
  same.end_step(true);
  EXPECT_EQ(same.scale(), 0.25);
}

TEST(DynamicScale, is_a_power_of_two) {
  for (const double none : {3.0, 0.0, -2.0, 0x1p-121, 0x1p121, k_nan, std::numeric_limits<double>::infinity()})
    EXPECT_THROW(lsched::dynamic_scale{none}, std::invalid_argument) << none;
  EXPECT_THROW(lsched::dynamic_scale(1, 2000), std::invalid_argument);
}

/// After a step from zero weights.
struct outcome {
  numbers weights;
  lsched::dynamic_scale scaling;
};

/// What all ranks have after a step in which each moves by what `deltas` has for it, the same bits.
outcome moved_by(const std::vector<numbers>& deltas, const lsched::delta_options& options) {
  std::vector<outcome> all(deltas.size());
  as_ranks(static_cast<std::int32_t>(deltas.size()), [&](lsched::world& world) {
    const auto rank = static_cast<std::size_t>(world.rank());
    numbers weights(deltas[rank].size());
    lsched::delta_step<double> step(world, weights, options, k_limit);
    weights = deltas[rank];
    EXPECT_TRUE(step.step(k_limit));
    all[rank] = {weights, step.scaling()};
  });
  for (const outcome& it : all) {
    EXPECT_EQ(std::memcmp(it.weights.data(), all[0].weights.data(), it.weights.size() * sizeof(double)), 0);
    EXPECT_EQ(it.scaling, all[0].scaling);
  }
  return all[0];
}

/// Of magnitudes around `size`, which a float holds.
std::vector<numbers> random_deltas(std::size_t ranks, std::size_t count, double size) {
  std::mt19937 draw(static_cast<unsigned>(ranks));
  std::uniform_real_distribution<double> magnitude(0.5, 1.5);
  std::vector<numbers> deltas(ranks, numbers(count));
  for (numbers& it : deltas)
    for (double& one : it) one = static_cast<float>((draw() % 2 == 0 ? size : -size) * magnitude(draw));
  return deltas;
}

double relative_error(const numbers& found, const numbers& wanted) {
  numbers difference(found.size());
  for (std::size_t i = 0; i < found.size(); ++i) difference[i] = found[i] - wanted[i];
  return std::sqrt(dot(difference, difference) / dot(wanted, wanted));
}

/// What is kept after as many steps like this one as it takes.
double scale_that_fits(const std::vector<numbers>& deltas, const lsched::delta_options& options) {
  double scale = 0;
  as_ranks(static_cast<std::int32_t>(deltas.size()), [&](lsched::world& world) {
    const auto rank = static_cast<std::size_t>(world.rank());
    numbers weights(deltas[rank].size());
    lsched::delta_step<double> step(world, weights, options, k_limit);
    for (int steps = 0; steps < 200 && step.scaling().clean_steps() == 0; ++steps) {
      std::fill(weights.begin(), weights.end(), 0);
      step.restart();
      weights = deltas[rank];
      step.step(k_limit);
    }
    EXPECT_EQ(step.scaling().clean_steps(), 1u);
    if (rank == 0) scale = step.scaling().scale();
  });
  return scale;
}

TEST(Wire, of_f16_and_bf16_is_as_exact_as_they_are_when_deltas_are_scaled) {
  for (const std::size_t ranks : {3u, 5u, 2u})
    for (const combine how : {combine::adasum, combine::mean}) {
      const auto deltas = random_deltas(ranks, 6000, 1e-6);  // more than a part
      const numbers wanted = combined(how, deltas);
      const auto error = [&](lsched_dtype wire, double scale) {
        const auto found = moved_by(deltas, {.how = how, .wire = wire, .scaling = lsched::dynamic_scale(scale)});
        EXPECT_EQ(found.scaling, lsched::dynamic_scale(scale, 1));
        return relative_error(found.weights, wanted);
      };
      const double unscaled = error(LSCHED_F16, 1), scaled = error(LSCHED_F16, 0x1p16);
      EXPECT_GT(unscaled, 0.008) << ranks;
      EXPECT_LT(unscaled, 0.04) << ranks;
      EXPECT_GT(scaled, 1e-4) << ranks;
      EXPECT_LT(scaled, 5e-4) << ranks;
      for (const double scale : {1.0, 0x1p16}) {
        EXPECT_GT(error(LSCHED_BF16, scale), 8e-4) << ranks;
        EXPECT_LT(error(LSCHED_BF16, scale), 4e-3) << ranks;
      }
    }
}

TEST(Wire, that_is_as_wide_as_the_weights_is_none) {
  const auto deltas = random_deltas(3, 50, 1);
  const outcome own = moved_by(deltas, {.wire = LSCHED_F64});
  EXPECT_EQ(own.weights, moved_by(deltas, {}).weights);
  EXPECT_EQ(own.scaling, lsched::dynamic_scale());
}

/// One rank's delta is too large at first: its bucket comes again at half the scale, and again, as if that had been the
/// scale; others do not, and what is kept is half of what it was.
TEST(Wire, on_overflow_backs_off_on_all_ranks_and_loses_nothing) {
  for (const std::size_t ranks : {1u, 3u, 5u, 2u})
    for (const std::uint64_t bucket_bytes : {std::uint64_t{0}, std::uint64_t{60}})
      for (const combine how : {combine::adasum, combine::sum}) {
        auto deltas = random_deltas(ranks, 90, 1e-3);
        for (std::size_t i = 30; i < 60; ++i) deltas[ranks / 2][i] *= 1024;  // in the middle bucket
        const lsched::delta_options options{.tensors = {{0, 30}, {30, 30}, {60, 0}, {60, 30}},
                                            .how = how,
                                            .bucket_bytes = bucket_bytes,
                                            .wire = LSCHED_F16};
        const outcome found = moved_by(deltas, options);
        EXPECT_EQ(found.scaling, lsched::dynamic_scale(0x1p15, 0));
        lsched::delta_options at_once = options;
        at_once.scaling = lsched::dynamic_scale(scale_that_fits(deltas, options));
        EXPECT_LT(at_once.scaling.scale(), 0x1p14);
        EXPECT_GT(at_once.scaling.scale(), 0x1p9);
        const outcome same = moved_by(deltas, at_once);
        EXPECT_LT(relative_error(found.weights, same.weights), 1e-6) << "tiny ones may be subnormal at one scale";
        for (std::size_t i = 30; i < 60; ++i) EXPECT_EQ(found.weights[i], same.weights[i]) << i;
        for (const double it : found.weights) EXPECT_TRUE(std::isfinite(it));
      }
}

/// However far above the format it is: the step after it is as exact as the step before.
TEST(Wire, keeps_all_but_half_of_its_scale_after_one_outlier_in_however_many_buckets) {
  for (const std::uint64_t bucket_bytes : {std::uint64_t{0}, std::uint64_t{60}}) {
    const auto deltas = random_deltas(3, 90, 1e-4);
    const std::vector<lsched_tensor> tensors{{0, 30}, {30, 30}, {60, 30}};
    const numbers wanted = moved_by(deltas, {.tensors = tensors}).weights;
    as_ranks(3, [&](lsched::world& world) {
      numbers weights(90);
      lsched::delta_step<double> step(world, weights,
                                      {.tensors = tensors, .bucket_bytes = bucket_bytes, .wire = LSCHED_F16}, k_limit);
      weights[40] = weights[80] = world.rank() == 1 ? 1e30 : 0;
      step.step(k_limit);
      EXPECT_NEAR(weights[40], 1e30, 1e27);
      EXPECT_EQ(step.scaling(), lsched::dynamic_scale(0x1p15, 0));
      std::fill(weights.begin(), weights.end(), 0);
      step.restart();
      weights = deltas[static_cast<std::size_t>(world.rank())];
      step.step(k_limit);
      EXPECT_LT(relative_error(weights, wanted), 1e-3);
      EXPECT_EQ(step.scaling(), lsched::dynamic_scale(0x1p15, 1));
    });
  }
}

/// Deltas that stay large: each step halves what is kept, until they fit at once.
TEST(Wire, is_scaled_for_the_longest_tensor_in_however_many_buckets) {
  const auto deltas = random_deltas(3, 90, 10);
  for (const std::uint64_t bucket_bytes : {std::uint64_t{0}, std::uint64_t{60}}) {
    const double scale = scale_that_fits(
        deltas, {.tensors = {{0, 30}, {30, 30}, {60, 30}}, .bucket_bytes = bucket_bytes, .wire = LSCHED_F16});
    EXPECT_LE(scale * 10, 18909 / std::sqrt(30 * 13.0 / 12)) << "what norms of 30 such elements leave room for";
    EXPECT_GE(scale * 10, 18909 / std::sqrt(30 * 13.0 / 12) / 2.5);
  }
}

TEST(Wire, has_room_for_what_deltas_add_up_to) {
  const outcome sum =
      moved_by({{40000, 40000}, {40000, -40000}}, {.wire = LSCHED_F16, .scaling = lsched::dynamic_scale(1)});
  EXPECT_EQ(sum.weights, (numbers{80000, 0}));
  EXPECT_EQ(sum.scaling.scale(), 0.5);
  const outcome many = moved_by({{60000}, {60000}, {60000}, {60000}, {60000}},
                                {.how = combine::sum, .wire = LSCHED_F16, .scaling = lsched::dynamic_scale(1)});
  EXPECT_NEAR(many.weights[0], 300000, 300);
}

/// Each moves by the same in one element: the longest that a node's sum can become.
TEST(Wire, has_room_for_the_sum_of_a_node) {
  struct nodes {
    std::int32_t ranks, ranks_per_node;
  };
  for (const nodes it : {nodes{3, 3}, nodes{7, 5}, nodes{10, 8}, nodes{8, 8}, nodes{6, 1}, nodes{5, 2}})
    for (const lsched_dtype wire : {LSCHED_F16, LSCHED_BF16})
      as_nodes(it.ranks, it.ranks_per_node, [&](lsched::world& world) {
        numbers weights(3);
        const double size = wire == LSCHED_F16 ? 0.14 : 0x1p110;  // 8 of them at 2^16 pass 65504
        lsched::delta_step<double> deltas(world, weights, {.algorithm = "two_level", .wire = wire}, k_limit);
        weights[0] += size;
        EXPECT_TRUE(deltas.step(k_limit));
        EXPECT_NEAR(weights[0], size, size / 100) << it.ranks << " ranks, " << it.ranks_per_node << " on a node";
      });
}

/// The environment may choose, too.
TEST(Wire, has_room_for_the_sum_of_a_node_whoever_has_asked_for_it) {
  setenv("LSCHED_ALGORITHM", "adasum=two_level", 1);
  std::vector<lsched::world> world = lsched::world::open_threads(8);
  unsetenv("LSCHED_ALGORITHM");
  as_ranks(std::move(world), [](lsched::world& mine) {
    std::vector<float> weights(3);
    lsched::delta_step<float> deltas(mine, weights, {.wire = LSCHED_F16}, k_limit);
    weights[0] += 0.14f;
    EXPECT_TRUE(deltas.step(k_limit));
    EXPECT_NEAR(weights[0], 0.14, 0.001);
  });
}

TEST(Wire, spoils_a_tensor_without_backing_off_for_what_no_scale_can_mend) {
  for (const std::size_t ranks : {3u, 5u, 2u}) {
    auto deltas = random_deltas(ranks, 90, 1e-3);
    const lsched::delta_options options{.tensors = {{0, 30}, {30, 30}, {60, 30}}, .wire = LSCHED_F16};
    const outcome sound = moved_by(deltas, options);
    deltas[1][40] = std::numeric_limits<double>::infinity();
    const outcome spoilt = moved_by(deltas, options);
    EXPECT_EQ(spoilt.scaling, lsched::dynamic_scale(0x1p16, 1));
    for (std::size_t i = 0; i < 90; ++i) {
      EXPECT_EQ(std::isnan(spoilt.weights[i]), i / 30 == 1) << i;
      EXPECT_TRUE(i / 30 == 1 || spoilt.weights[i] == sound.weights[i]) << i;
    }
    deltas[0][70] = 1000;  // too long, and not in that tensor
    const outcome both = moved_by(deltas, options);
    EXPECT_EQ(both.scaling.scale(), 0x1p15);
    EXPECT_TRUE(std::isnan(both.weights[30]));
    EXPECT_TRUE(std::isfinite(both.weights[60]));
    EXPECT_GT(both.weights[70], 400);
  }
}

TEST(Wire, timeouts_while_deltas_go_again_can_be_waited_out) {
  as_ranks(3, [](lsched::world& world) {
    numbers weights(3);
    lsched::delta_step<double> deltas(world, weights, {.bucket_bytes = 2, .wire = LSCHED_F16}, k_limit);
    weights[static_cast<std::size_t>(world.rank())] = 0x1p20;  // orthogonal, and a power of two
    const auto deadline = std::chrono::steady_clock::now() + k_limit;
    for (bool is_over = false; !is_over && std::chrono::steady_clock::now() < deadline;) {
      try {
        is_over = deltas.step(1us);
      } catch (const lsched::error& why) {
        ASSERT_EQ(why.status(), LSCHED_ERR_TIMEOUT);
      }
    }
    EXPECT_EQ(weights, numbers(3, 0x1p20));
    EXPECT_EQ(deltas.scaling(), lsched::dynamic_scale(0x1p15, 0));
  });
}

TEST(Wire, gives_up_where_there_is_no_smaller_scale) {
  const outcome found = moved_by({{1e50, 0}, {0, 1}}, {.tensors = {{0, 1}, {1, 1}}, .wire = LSCHED_F16});
  EXPECT_EQ(found.scaling, lsched::dynamic_scale(0x1p15));
  EXPECT_TRUE(std::isnan(found.weights[0]));
}

TEST(Wire, keeps_replicas_the_same_bits_while_scale_and_weights_move) {
  std::vector<std::vector<float>> last(3);
  as_ranks(3, [&](lsched::world& world) {
    const auto rank = static_cast<std::size_t>(world.rank());
    auto weights = weights_at_first<float>();
    lsched::delta_step<float> deltas(
        world, weights,
        {.tensors = k_tensors, .bucket_bytes = 20, .wire = LSCHED_F16, .scaling = lsched::dynamic_scale(0x1p11, 1996)},
        k_limit);
    EXPECT_EQ(deltas.buckets(), 2u);
    optimizer<float> local({.momentum = 0.5});
    for (int step = 0; step < 60; ++step) {
      local.step(weights, rank, step);
      deltas.step(k_limit);
      EXPECT_EQ(deltas.scaling().scale(), step < 3 ? 0x1p11 : 0x1p12) << "after 2000 clean steps";
    }
    EXPECT_EQ(deltas.scaling().clean_steps(), 56u);
    last[rank] = weights;
    deltas.close();
  });
  for (const auto& it : last) EXPECT_EQ(std::memcmp(it.data(), last[0].data(), k_size * sizeof(float)), 0);
  for (std::size_t i = 0; i < k_size; ++i) EXPECT_TRUE(i == 9 || std::fabs(last[0][i] - 3) < 3) << last[0][i];
}

// --- telemetry -----------------------------------------------------------------------------------------------

/// After a step of two tensors, the second of equal deltas, from zero weights.
tensor_telemetry telemetry_of(std::size_t tensor, combine how, const std::vector<numbers>& deltas) {
  tensor_telemetry last;
  as_ranks(static_cast<std::int32_t>(deltas.size()), [&](lsched::world& world) {
    const std::uint64_t count = deltas.front().size();
    std::vector<double> weights(count + 2);
    const std::vector<lsched_tensor> tensors{{0, count}, {count, 2}};
    lsched::delta_step<double> step(world, weights, {.tensors = tensors, .how = how}, k_limit);
    telemetry<double> looks(world, weights, tensors, how);
    weights = deltas[static_cast<std::size_t>(world.rank())];
    weights.resize(count + 2, 4.0);
    looks.before_step();
    step.step(k_limit);
    const auto told = looks.after_step(k_limit);
    if (world.rank() + 1 == world.size()) last = told[tensor];
  });
  return last;
}

TEST(Telemetry, is_what_the_deltas_say) {
  std::mt19937 draw(7);
  std::normal_distribution<double> normal(0.3, 1);
  for (const std::size_t ranks : {2u, 3u, 4u, 5u}) {
    std::vector<numbers> deltas(ranks, numbers(37));
    double sum = 0;
    for (numbers& it : deltas) {
      for (double& one : it) one = normal(draw);
      sum += dot(it, it);
    }
    for (const combine how : {combine::adasum, combine::sum, combine::mean}) {
      const numbers reduced = combined(how, deltas);
      const auto told = telemetry_of(0, how, deltas);
      EXPECT_NEAR(told.delta_norm2, sum, 1e-12 * sum);
      EXPECT_NEAR(told.reduced_norm2, dot(reduced, reduced), 1e-12 * sum);
      EXPECT_NEAR(told.orthogonality, dot(reduced, reduced) / sum, 1e-12);
      EXPECT_GT(told.noise, 1) << "it is about 11";
    }
  }
}

TEST(Telemetry, of_equal_and_of_orthogonal_deltas_is_the_ends_of_the_scale) {
  const std::vector<numbers> unit{{1, 0, 0, 0}, {0, 2, 0, 0}, {0, 0, 3, 0}, {0, 0, 0, 4}};
  const auto orthogonal = telemetry_of(0, combine::adasum, unit), equal = telemetry_of(1, combine::adasum, unit);
  EXPECT_EQ(orthogonal.orthogonality, 1);
  EXPECT_EQ(orthogonal.noise, std::numeric_limits<double>::infinity());
  EXPECT_EQ(orthogonal.gain, 4);
  EXPECT_EQ(equal.orthogonality, 0.25);
  EXPECT_NEAR(equal.noise, 0, 1e-12);
  EXPECT_NEAR(equal.gain, 1, 1e-12);
  EXPECT_EQ(telemetry_of(1, combine::sum, unit).noise, 0);
  EXPECT_EQ(telemetry_of(1, combine::sum, unit).gain, 4);
  EXPECT_EQ(telemetry_of(1, combine::mean, unit).noise, 0);
  EXPECT_EQ(telemetry_of(1, combine::mean, unit).gain, 1);
}

TEST(Telemetry, of_a_tensor_that_no_rank_moves_or_of_one_rank_is_not_a_number) {
  const auto still = telemetry_of(0, combine::adasum, {{0, 0}, {0, 0}});
  EXPECT_TRUE(std::isnan(still.orthogonality) && std::isnan(still.noise) && std::isnan(still.gain));
  const auto alone = telemetry_of(0, combine::adasum, {{3, 4}});
  EXPECT_EQ(alone.orthogonality, 1);
  EXPECT_TRUE(std::isnan(alone.noise));
  EXPECT_EQ(alone.gain, 1);
}

TEST(Telemetry, says_which_tensors_are_non_finite) {
  for (const std::int32_t ranks : {1, 3, 2})
    for (const combine how : {combine::adasum, combine::sum})
      as_ranks(ranks, [&](lsched::world& world) {
        auto weights = weights_at_first<float>();
        lsched::delta_step<float> deltas(world, weights, {.tensors = k_tensors, .how = how}, k_limit);
        telemetry<float> looks(world, weights, k_tensors, how);
        if (world.rank() == world.size() - 1) weights[12] = std::numeric_limits<float>::infinity();
        looks.before_step();
        deltas.step(k_limit);
        const auto told = looks.after_step(k_limit);
        for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(told[i].is_non_finite, i == 2) << i;
      });
}

/// Of as many nodes as ranks, of several and of one, which is the mean.
TEST(Telemetry, by_nodes_knows_how_orthogonal_deltas_were_but_neither_noise_nor_gain) {
  constexpr std::int32_t k_ranks = 4;
  for (const std::int32_t per_node : {1, 2, 4})
    as_nodes(k_ranks, per_node, [&](lsched::world& world) {
      std::vector<double> weights(k_ranks + 1);
      const std::vector<lsched_tensor> tensors{{0, k_ranks}, {k_ranks, 1}};
      lsched::delta_step<double> step(world, weights, {.tensors = tensors, .algorithm = "two_level"}, k_limit);
      telemetry<double> looks(world, weights, tensors, combine::adasum, true);
      weights[static_cast<std::size_t>(world.rank())] = weights[k_ranks] = 1;
      looks.before_step();
      step.step(k_limit);
      const auto told = looks.after_step(k_limit);
      const auto& [orthogonal, equal] = std::pair(told[0], told[1]);
      const double nodes = k_ranks / per_node;
      EXPECT_NEAR(orthogonal.orthogonality, nodes / (per_node * k_ranks), 1e-12);
      EXPECT_NEAR(equal.orthogonality, 1.0 / k_ranks, 1e-12);
      for (const auto& it : {orthogonal, equal}) EXPECT_TRUE(std::isnan(it.noise) && std::isnan(it.gain)) << per_node;
    });
}

TEST(NoiseModel, is_the_product_over_levels_and_can_be_inverted) {
  for (const std::int32_t ranks : {2, 4, 8, 64})
    for (const double noise : {0.0, 0.01, 0.75, 4.0, 1e4}) {
      double gain = 1;
      for (double leaves = 1; leaves < ranks; leaves *= 2) gain *= 2 - 1 / (1 + noise / leaves);
      EXPECT_NEAR(adasum_gain(noise, ranks), gain, 1e-12 * gain);
      const double told = adasum_orthogonality(noise, ranks);
      EXPECT_NEAR(told, gain * gain * (1 + noise / ranks) / (ranks * (1 + noise)), 1e-12);
      EXPECT_NEAR(adasum_noise(told, ranks), noise, 1e-9 * (1 + noise * noise));
    }
  EXPECT_EQ(adasum_noise(0.1, 8), 0) << "below 1/8";
  EXPECT_EQ(adasum_noise(1, 8), std::numeric_limits<double>::infinity());
  EXPECT_EQ(adasum_gain(std::numeric_limits<double>::infinity(), 8), 8);
  EXPECT_TRUE(std::isnan(adasum_noise(k_nan, 8)));
  EXPECT_TRUE(std::isnan(adasum_noise(0.5, 1)));
}

TEST(NoiseModel, is_what_becomes_of_independent_noise) {
  constexpr std::size_t k_many = 20000;
  constexpr double k_noise = 3;
  std::mt19937 draw(1);
  std::normal_distribution<double> normal(0, std::sqrt(k_noise));
  std::vector<numbers> deltas(8, numbers(k_many, 1.0));
  double sum = 0;
  for (numbers& it : deltas) {
    for (double& one : it) one += normal(draw);
    sum += dot(it, it);
  }
  const numbers reduced = adaptive_sum(deltas), mean = combined(combine::mean, deltas);
  EXPECT_NEAR(std::sqrt(dot(reduced, reduced) / dot(mean, mean)), adasum_gain(k_noise, 8), 0.1);
  EXPECT_NEAR(adasum_noise(dot(reduced, reduced) / sum, 8), k_noise, 0.15);
}

}  // namespace
