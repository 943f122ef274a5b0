// Tests of adaptive sums. The results of every algorithm are compared with sums in double precision along the same
// tree. Other tests check the properties of the operator, and that the proof rejects wrong sums.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <string>

#include "collectives/requests/sample_requests.h"
#include "collectives/selection.h"
#include "libsched/schedule/geometry.h"
#include "libsched/schedule/schedule_file.h"
#include "libsched/verify/verify.h"
#include "tests/support/lockstep_world.h"
#include "tests/support/sampling.h"
#include "tests/support/symbolic_world.h"
#include "tests/verify_oracle/interleavings.h"
#include "tests/verify_oracle/mutant.h"

namespace lsched::testing {
namespace {

std::size_t index(rank r) { return static_cast<std::size_t>(r); }

std::vector<rank> sizes() {
  if (sampled()) return {1, 2, 3, 5, 6, 8};
  return {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16};
}

template <class T>
constexpr dtype k_type_of = sizeof(T) == 4 ? dtype::f32 : dtype::f64;

template <class T>
using vectors = std::vector<std::vector<T>>;  ///< vectors, by rank

/// Runs one round over the in-process transport. Returns every rank's output, or no outputs if the round fails.
template <class T>
vectors<T> run(const algorithm& how, const shape& data, const vectors<T>& inputs, std::uint64_t seed = 1) {
  const auto size = static_cast<rank>(inputs.size());
  vectors<T> sources = inputs;
  vectors<T> outputs = inputs;
  if (!data.in_place)
    for (auto& it : outputs) std::ranges::fill(it, T{-77});
  lockstep_world world(size, seed);
  const auto its = world.commit([&](rank r) {
    const auto* from = data.in_place ? outputs[index(r)].data() : sources[index(r)].data();
    return commit_request{"adasum",
                          how.generate({r, size}, data, {}),
                          {.inputs = {reinterpret_cast<const std::byte*>(from)},
                           .outputs = {reinterpret_cast<std::byte*>(outputs[index(r)].data())}}};
  });
  if (its.empty() || !world.run_round(its)) return {};
  world.remove(its);
  for (std::size_t r = 0; r < inputs.size() && data.count != 0; ++r)  // compares bits, because some values are NaN
    EXPECT_EQ(std::memcmp(sources[r].data(), inputs[r].data(), data.count * sizeof(T)), 0) << "inputs were written";
  return outputs;
}

// --- the oracle ----------------------------------------------------------------------------------------------

using numbers = std::vector<double>;

/// Computes the adaptive sum of two vectors, as docs/reference/adasum.md defines the operator.
numbers adaptive_sum(const numbers& x, const numbers& y) {
  const auto dot = [](const numbers& a, const numbers& b) {
    long double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<long double>(a[i]) * b[i];
    return static_cast<double>(sum);
  };
  const double product = dot(x, y), least = std::sqrt(std::numeric_limits<double>::min());
  const double of_x = dot(x, x) >= least ? 1 - product / dot(x, x) * 0.5 : 1;
  const double of_y = dot(y, y) >= least ? 1 - product / dot(y, y) * 0.5 : 1;
  numbers sum;
  for (std::size_t i = 0; i < x.size(); ++i) sum.push_back(of_x * x[i] + of_y * y[i]);
  return sum;
}

/// Returns the leaves of the tree. The leaves are the contributions of the ranks. If the algorithm combines means, the
/// leaves are the means of the nodes, ordered by the first ranks of the nodes.
std::vector<numbers> leaves_of(const algorithm& how, const shape& data, std::vector<numbers> contributions) {
  if (!how.combines_means) return contributions;
  std::vector<numbers> means;
  std::vector<rank> names;
  for (std::size_t r = 0; r < contributions.size(); ++r) {
    const rank name = data.nodes.empty() ? 0 : data.nodes[r];
    if (std::ranges::find(names, name) != names.end()) continue;
    names.push_back(name);
    numbers sum(contributions[r].size());
    double ranks = 0;
    for (std::size_t other = 0; other < contributions.size(); ++other) {
      if (!data.nodes.empty() && data.nodes[other] != name) continue;
      std::ranges::transform(sum, contributions[other], sum.begin(), std::plus<>());
      ++ranks;
    }
    for (double& it : sum) it /= ranks;
    means.push_back(sum);
  }
  return means;
}

using combiner_of_leaves = std::function<numbers(const numbers&, const numbers&)>;

/// Combines the leaves in the order of the algorithm. `join` combines two vectors.
numbers combined(const algorithm& how, std::vector<numbers> leaves, const combiner_of_leaves& join) {
  if (how.name == "linear") {
    numbers all = leaves.front();
    for (std::size_t r = 1; r < leaves.size(); ++r) all = join(all, leaves[r]);
    return all;
  }
  const fold folded(static_cast<rank>(leaves.size()));
  std::vector<numbers> level;
  for (rank i = 0; i < folded.core(); ++i) {
    const rank self = folded.real_of(i);
    numbers own = leaves[index(self)];
    level.push_back(folded.is_proxy(self) ? join(own, leaves[index(self) + 1]) : own);
  }
  while (level.size() > 1) {
    std::vector<numbers> next;
    for (std::size_t i = 0; i < level.size(); i += 2) next.push_back(join(level[i], level[i + 1]));
    level = next;
  }
  return level.front();
}

template <class T>
numbers part_of(const std::vector<T>& vector, const tensor& part) {
  return {vector.begin() + static_cast<std::ptrdiff_t>(part.begin),
          vector.begin() + static_cast<std::ptrdiff_t>(part.end())};
}

template <class T>
numbers wanted(const algorithm& how, const shape& data, const tensor& part, const vectors<T>& inputs) {
  std::vector<numbers> leaves;
  for (const auto& it : inputs) leaves.push_back(part_of(it, part));
  return combined(how, leaves_of(how, data, leaves), adaptive_sum);
}

double norm(const numbers& x) { return std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0)); }

double distance(const numbers& x, const numbers& y) {
  numbers difference;
  for (std::size_t i = 0; i < x.size(); ++i) difference.push_back(x[i] - y[i]);
  return norm(difference);
}

/// Returns an upper bound of the rounding error of a sum, relative to the longest input. The bound allows for the
/// errors of log2 P levels and of the coefficients. The error of a wrong sum is far larger than the bound.
template <class T>
constexpr double k_tolerance = 40 * static_cast<double>(std::numeric_limits<T>::epsilon());

template <class T>
void expect_oracle(const algorithm& how, const shape& data, const vectors<T>& inputs, const std::string& where) {
  const vectors<T> outputs = run(how, data, inputs, 1 + data.count);
  ASSERT_EQ(outputs.size(), inputs.size()) << where;
  for (const tensor& it : tensors_of(data)) {
    const numbers oracle = wanted(how, data, it, inputs);
    double longest = 0;
    for (const auto& input : inputs) longest = std::max(longest, norm(part_of(input, it)));
    for (std::size_t r = 0; r < outputs.size(); ++r) {
      const numbers found = part_of(outputs[r], it);
      EXPECT_LE(distance(found, oracle), k_tolerance<T> * longest)
          << where << " rank " << r << " tensor at " << it.begin;
      const auto bytes = it.count * sizeof(T);
      EXPECT_EQ(std::memcmp(&outputs[r][it.begin], &outputs[0][it.begin], bytes), 0) << where << " rank " << r;
    }
  }
}

// --- inputs --------------------------------------------------------------------------------------------------

template <class T>
vectors<T> normal_vectors(rank size, std::uint64_t count, std::uint64_t seed) {
  std::mt19937_64 draw(seed);
  std::normal_distribution<double> normal;
  vectors<T> all(index(size), std::vector<T>(count));
  for (auto& vector : all)
    for (T& it : vector) it = static_cast<T>(normal(draw));
  return all;
}

/// Returns random tensors of a vector of `count` elements. Some tensors are empty, and some have a gap before the next
/// tensor.
std::vector<tensor> drawn_tensors(std::uint64_t count, std::uint64_t seed) {
  std::mt19937_64 draw(seed);
  std::vector<tensor> all;
  for (std::uint64_t at = 0;;) {
    at += draw() % 3 == 0 ? draw() % 4 : 0;
    if (at > count) break;
    const std::uint64_t most = std::min<std::uint64_t>(count - at, 1 + draw() % 17);
    const std::uint64_t length = draw() % 5 == 0 ? 0 : most;
    all.push_back({at, length});
    at += length;
    if (at == count) break;
  }
  return all;
}

std::vector<algorithm> adasum_algorithms() {
  std::vector<algorithm> all;
  std::ranges::copy_if(algorithms(), std::back_inserter(all), [](const algorithm& it) { return it.of == &k_adasum; });
  return all;
}

/// Distributions of ranks over nodes.
enum class layout { one_node, of_1, of_2, of_3, of_4, dealt, unequal };

std::vector<rank> nodes_in(layout how, rank size) {
  std::vector<rank> nodes;
  for (rank r = 0; r < size; ++r) {
    if (how == layout::dealt) nodes.push_back(7 - r % 3);
    if (how == layout::unequal) nodes.push_back(r == 1 || r % 7 > 3 ? 1 : r % 2 * 5);
    if (how >= layout::of_1 && how <= layout::of_4) nodes.push_back(r / (static_cast<rank>(how)));
  }
  return nodes;
}

struct flavour {
  algorithm how;
  layout where = layout::one_node;
};

std::string name_of(const flavour& it) {
  constexpr std::array<const char*, 7> k_suffixes{"", "_of_1", "_of_2", "_of_3", "_of_4", "_dealt", "_unequal"};
  return std::string(it.how.name) + k_suffixes[static_cast<std::size_t>(it.where)];
}

std::vector<flavour> flavours() {
  std::vector<flavour> all;
  for (const algorithm& it : adasum_algorithms()) {
    all.push_back({it});
    for (const layout where : {layout::of_1, layout::of_2, layout::of_3, layout::of_4, layout::dealt, layout::unequal})
      if (it.looks_at.nodes) all.push_back({it, where});
  }
  return all;
}

class Adasum : public ::testing::TestWithParam<flavour> {
 protected:
  static const algorithm& how() { return GetParam().how; }
  static shape request(rank size, std::uint64_t count, dtype type) {
    return {.count = count, .type = type, .nodes = nodes_in(GetParam().where, size)};
  }
  static std::string words(rank size, const shape& data) {
    return name_of(GetParam()) + " P=" + std::to_string(size) + " n=" + std::to_string(data.count) +
           (data.in_place ? " in place" : "") + " " + std::to_string(data.tensors.size()) + " tensors";
  }
};

TEST_P(Adasum, is_the_tree_of_double_precision_for_any_world_and_any_tensors) {
  for (const rank size : sizes())
    for (std::uint64_t count = 0; count <= 40; count += sampled() ? 7u : 1u)
      for (const bool in_place : {false, true}) {
        shape data = request(size, count, dtype::f64);
        data.in_place = in_place;
        expect_oracle(how(), data, normal_vectors<double>(size, count, count), words(size, data));
        data.tensors = drawn_tensors(count, 100 * count + index(size));
        expect_oracle(how(), data, normal_vectors<double>(size, count, count), words(size, data));
      }
}

TEST_P(Adasum, is_the_tree_for_vectors_of_many_lines) {
  for (const rank size : sizes())
    for (const std::uint64_t count : {1000u, 4099u}) {
      shape data = request(size, count, dtype::f32);
      data.tensors = {{3, 500}, {503, 1}, {504, 0}, {600, count - 600}};
      expect_oracle(how(), data, normal_vectors<float>(size, count, 7), words(size, data));
    }
}

TEST_P(Adasum, of_orthogonal_vectors_is_their_sum_or_that_of_means) {
  for (const rank size : sizes()) {
    constexpr std::uint64_t k_each = 5;
    shape data = request(size, wide(size) * k_each, dtype::f64);
    vectors<double> inputs(index(size), std::vector<double>(data.count));
    for (std::size_t r = 0; r < inputs.size(); ++r)
      for (std::uint64_t i = 0; i < k_each; ++i) inputs[r][r * k_each + i] = 1.0 + double(r + i);
    std::vector<double> sum(data.count);
    for (const numbers& leaf : leaves_of(how(), data, inputs))
      std::ranges::transform(sum, leaf, sum.begin(), std::plus<>());
    for (const auto& it : run(how(), data, inputs)) EXPECT_EQ(it, sum) << words(size, data);
  }
}

/// The sum of parallel vectors has a closed form: each leaf has the weight 2^-depth, independent of the leaf's sign and
/// length. Rounding errors are not parallel to the vectors. In the linear algorithm the errors grow from rank to rank
/// with the length of the other operand.
TEST_P(Adasum, of_parallel_vectors_is_the_closed_form_of_the_tree) {
  const combiner_of_leaves mean = [](const numbers& x, const numbers& y) {
    numbers all;
    for (std::size_t i = 0; i < x.size(); ++i) all.push_back((x[i] + y[i]) / 2);
    return all;
  };
  for (const rank size : sizes()) {
    shape data = request(size, 301, dtype::f64);
    vectors<double> inputs(index(size), normal_vectors<double>(1, data.count, 3).front());
    std::vector<numbers> leaves;
    for (std::size_t r = 0; r < inputs.size(); ++r) {
      for (double& it : inputs[r]) it *= (r % 2 == 0 ? 1.0 : -0.3) * double(r + 1);
      leaves.push_back(inputs[r]);
    }
    const numbers closed = combined(how(), leaves_of(how(), data, leaves), mean);
    for (const auto& it : run(how(), data, inputs))
      EXPECT_LE(distance(it, closed), (how().name == "linear" ? 1e-8 : 1e-13) * norm(leaves.back()))
          << words(size, data);
  }
}

/// The adaptive sum of parallel vectors of 2^n ranks is the mean of the vectors. In this test, vectors are denormal, or
/// the norms of vectors differ by a factor of up to 1e40.
TEST_P(Adasum, survives_denormals_and_norm_ratios_of_1e40) {
  const layout where = GetParam().where;
  if (how().name == "linear" || where == layout::of_3 || where >= layout::dealt) return;
  for (const rank size : {2, 4, 8})
    for (const bool is_denormal : {false, true}) {
      shape data = request(size, 1024, dtype::f32);
      const auto base = normal_vectors<double>(1, data.count, 11).front();
      vectors<float> inputs(index(size), std::vector<float>(data.count));
      std::vector<numbers> leaves;
      for (std::size_t r = 0; r < inputs.size(); ++r) {
        const double place = double(r + 1) / double(size);
        const double scale =
            is_denormal ? double(std::numeric_limits<float>::min()) * (double(r) + 0.7)
                        : std::pow(1e19, place) * std::pow(double(std::numeric_limits<float>::min()), 1 - place);
        for (std::size_t i = 0; i < base.size(); ++i) inputs[r][i] = static_cast<float>(base[i] * scale);
        leaves.push_back(part_of(inputs[r], {0, data.count}));
      }
      numbers mean(data.count);
      for (const numbers& leaf : leaves)
        for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += leaf[i] / double(size);
      const double spacing = double(std::numeric_limits<float>::denorm_min());
      for (const auto& it : run(how(), data, inputs))
        EXPECT_LE(distance(part_of(it, {0, data.count}), mean), 1e-5 * norm(mean) + 4 * 32 * spacing)
            << words(size, data) << (is_denormal ? " denormal" : "");
    }
}

/// Every algorithm combines ranks 0 and 1 first. The vectors of these ranks cancel each other except for a small
/// remainder. In the next sum, the remainder has the same weight as any other vector. If the number of ranks is odd,
/// all tensors but one extend over the blocks of several ranks.
TEST_P(Adasum, keeps_the_digits_of_what_cancels) {
  for (const rank size : sizes())
    for (const double left : {1e-6, 1e-9, 0.0}) {
      if (size < 2) continue;
      shape data = request(size, 700, dtype::f64);
      data.tensors = {{0, 3}, {3, 600}, {603, 97}};
      vectors<double> inputs = normal_vectors<double>(size, data.count, 17);
      for (std::uint64_t i = 0; i < data.count; ++i) inputs[1][i] = left * inputs[1][i] - inputs[0][i];
      const auto found = run(how(), data, inputs);
      ASSERT_EQ(found.size(), inputs.size());
      for (const tensor& it : data.tensors) {
        const numbers oracle = wanted(how(), data, it, inputs);
        // The absolute rounding error of the remainder depends only on the operands. Therefore a remainder with a
        // smaller norm has a larger relative error.
        const double least = size > 2 || left == 0 ? 1 : left * norm(part_of(inputs[0], it));
        const double bound = left == 0 ? 1e-14 : 1e-15 / left;
        EXPECT_LE(distance(part_of(found[0], it), oracle), bound * std::max(norm(oracle), least))
            << words(size, data) << " left " << left << " tensor at " << it.begin;
      }
    }
}

/// If a tensor has a non-finite element, all elements of the tensor become NaN, and no bit of another tensor changes.
/// In the mean of a node only the element itself becomes non-finite, because a mean does not depend on tensors.
TEST_P(Adasum, isolates_what_is_not_finite) {
  for (const rank size : {2, 3, 5, 8})
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      shape data = request(size, 333, dtype::f32);
      data.tensors = {{0, 100}, {100, 111}, {211, 122}};
      vectors<float> inputs = normal_vectors<float>(size, data.count, 5);
      const auto clean = run(how(), data, inputs);
      inputs[index(size / 2)][150] = bad;
      const bool is_mean = how().combines_means && leaves_of(how(), data, {index(size), numbers{}}).size() == 1;
      const auto dirty = run(how(), data, inputs);
      for (std::size_t r = 0; r < clean.size(); ++r)
        for (std::uint64_t i = 0; i < data.count; ++i) {
          const bool is_struck = is_mean ? i == 150 : i >= 100 && i < 211;
          const bool is_as_wanted = !is_struck ? dirty[r][i] == clean[r][i]
                                    : is_mean  ? !std::isfinite(dirty[r][i])
                                               : std::isnan(dirty[r][i]);
          EXPECT_TRUE(is_as_wanted) << words(size, data) << i;
        }
    }
}

TEST_P(Adasum, a_power_of_two_changes_no_bit_but_the_exponent) {
  for (const rank size : sizes()) {
    shape data = request(size, 257, dtype::f32);
    data.tensors = {{0, 100}, {100, 157}};
    vectors<float> inputs = normal_vectors<float>(size, data.count, 9);
    const auto plain = run(how(), data, inputs);
    for (auto& vector : inputs)
      for (float& it : vector) it = std::ldexp(it, 13);
    const auto scaled = run(how(), data, inputs);
    for (std::size_t r = 0; r < plain.size(); ++r)
      for (std::uint64_t i = 0; i < data.count; ++i) EXPECT_EQ(scaled[r][i], std::ldexp(plain[r][i], 13));
  }
}

TEST_P(Adasum, fused_tensors_are_what_they_are_alone) {
  for (const rank size : sizes()) {
    shape data = request(size, 500, dtype::f64);
    data.tensors = {{0, 7}, {7, 193}, {200, 300}};
    const auto inputs = normal_vectors<double>(size, data.count, 21);
    const auto fused = run(how(), data, inputs);
    for (const tensor& it : data.tensors) {
      vectors<double> alone;
      for (const auto& vector : inputs) alone.push_back(part_of(vector, it));
      const auto found = run(how(), request(size, it.count, dtype::f64), alone);
      EXPECT_LE(distance(part_of(fused[0], it), found[0]), 1e-15 * norm(found[0])) << words(size, data);
    }
  }
}

/// If an element is in no tensor, its output on all ranks is the input value of one rank, the same rank everywhere. In
/// the linear algorithm, each rank keeps its own input value instead.
TEST_P(Adasum, elements_of_no_tensor_are_some_ranks_and_the_same_everywhere) {
  for (const rank size : sizes()) {
    shape data = request(size, 60, dtype::f32);
    data.tensors = {{3, 20}, {23, 0}, {40, 15}};
    const auto inputs = normal_vectors<float>(size, data.count, 41);
    const auto found = run(how(), data, inputs);
    for (std::uint64_t i = 0; i < data.count; ++i) {
      const bool is_in_gap = i < 3 || (i >= 23 && i < 40) || i >= 55;
      if (!is_in_gap) continue;
      for (std::size_t r = 0; r < found.size(); ++r) {
        EXPECT_EQ(found[r][i], how().name == "linear" ? inputs[r][i] : found[0][i]) << words(size, data);
        EXPECT_TRUE(std::ranges::any_of(inputs, [&](const auto& it) { return it[i] == found[r][i]; }));
      }
    }
  }
}

TEST_P(Adasum, order_of_messages_changes_no_bit) {
  for (const rank size : {3, 6, 8}) {
    shape data = request(size, 99, dtype::f32);
    data.tensors = {{0, 33}, {33, 33}, {66, 33}};
    const auto inputs = normal_vectors<float>(size, data.count, 31);
    const auto first = run(how(), data, inputs);
    for (std::uint64_t seed = 2; seed < (sampled() ? 6 : 40); ++seed)
      EXPECT_EQ(run(how(), data, inputs, seed), first) << "seed " << seed;
  }
}

TEST_P(Adasum, schedules_survive_their_text_form) {
  for (const rank size : {1, 3, 8}) {
    shape data = request(size, 40, dtype::bf16);
    data.tensors = {{0, 3}, {5, 30}};
    for (rank r = 0; r < size; ++r) {
      const auto made = how().generate({r, size}, data, {});
      ASSERT_TRUE(made);
      const auto again = parse_schedule(to_text(**made));
      ASSERT_TRUE(again) << again.error().text;
      EXPECT_EQ(**again, **made);
    }
  }
}

// --- absent and late ranks ------------------------------------------------------------------------------------

/// The ranks of a partial adaptive sum of two f64 tensors. The first call of any rank starts a round.
class partial_world {
 public:
  static constexpr std::uint64_t k_count = 40;

  partial_world(rank size, std::string_view name, kernel merge, std::uint64_t seed)
      : data_{.count = k_count, .type = dtype::f64, .what = merge, .tensors = {{0, 25}, {25, 15}}}, world_(size, seed) {
    its_ = world_.commit([&](rank r) {
      return commit_request{"partial adasum",
                            generate("partial_adasum", name, {r, size}, data_, {.policy = activation_policy::solo}),
                            {},
                            {.tensors = data_.tensors}};
    });
  }

  void offer(rank r, const std::vector<double>& gradient) {
    its_[index(r)]->partial->fragments.front().offers->offer(reinterpret_cast<const std::byte*>(gradient.data()));
  }

  /// Runs a round that the call of rank `caller` starts. Returns the result that each rank collects.
  vectors<double> round(rank caller) {
    ++round_;
    its_[index(caller)]->called.store(round_);
    world_.at(caller).post(*its_[index(caller)]);
    world_.run_until([&] { return std::ranges::all_of(its_, [&](auto* it) { return it->finished >= round_; }); });
    vectors<double> results;
    for (instance* it : its_) {
      results.emplace_back(k_count, -77.0);
      EXPECT_TRUE(it->partial->fragments.front().results->collect(reinterpret_cast<std::byte*>(results.back().data())));
    }
    return results;
  }

  void expect(const vectors<double>& found, const vectors<double>& leaves, const std::string& where) const {
    for (const tensor& it : data_.tensors) {
      const numbers oracle = wanted(*find("adasum", "halving"), {}, it, leaves);
      for (const auto& result : found) {
        EXPECT_LE(distance(part_of(result, it), oracle), 1e-14 * norm(oracle)) << where << " at " << it.begin;
        EXPECT_EQ(result, found[0]) << where;
      }
    }
  }

 private:
  const shape data_;
  lockstep_world world_;
  std::vector<instance*> its_;
  round_no round_ = 0;
};

/// Ranks that offer nothing count as zeros, which do not change the sum.
TEST(adasum_partial, ranks_that_offer_nothing_are_left_out) {
  for (const std::string_view name : {"recursive_doubling", "halving"})
    for (const rank size : {1, 2, 3, 5, 6, 8})
      for (std::uint64_t present = 1; present<(std::uint64_t{1} << size); present += size> 5 ? 7 : 1) {
        partial_world world(size, name, kernel::adasum, present);
        vectors<double> leaves = normal_vectors<double>(size, partial_world::k_count, present);
        for (rank r = 0; r < size; ++r)
          if ((present >> r) % 2 != 0)
            world.offer(r, leaves[index(r)]);
          else
            std::ranges::fill(leaves[index(r)], 0.0);
        const auto caller = static_cast<rank>(present % wide(size));
        world.expect(world.round(caller), leaves, std::string(name) + " " + std::to_string(present));
      }
}

TEST(adasum_partial, late_contributions_are_merged_by_adasum_or_added_as_was_asked) {
  for (const kernel merge : {kernel::adasum, kernel::sum})
    for (const rank size : {1, 3, 4}) {
      partial_world world(size, "halving", merge, 5);
      const auto gradients = normal_vectors<double>(3, partial_world::k_count, 17);
      for (const auto& it : gradients) world.offer(0, it);
      std::vector<double> merged;
      for (const tensor& part : {tensor{0, 25}, tensor{25, 15}}) {
        numbers all = part_of(gradients[0], part);
        for (std::size_t i = 1; i < gradients.size(); ++i) {
          const numbers next = part_of(gradients[i], part);
          if (merge == kernel::adasum)
            all = adaptive_sum(all, next);
          else
            std::ranges::transform(all, next, all.begin(), std::plus<>());
        }
        merged.insert(merged.end(), all.begin(), all.end());
      }
      vectors<double> leaves(index(size), std::vector<double>(partial_world::k_count));
      leaves[0] = merged;
      world.expect(world.round(size - 1), leaves, std::string(name_of(merge)));
    }
}

TEST(adasum_partial, what_it_cannot_do_is_refused) {
  const activation solo{.policy = activation_policy::solo};
  const auto refusal = [&](shape data) {
    const auto made = generate("partial_adasum", "auto", {0, 3}, data, solo);
    return made ? std::string() : made.error().text;
  };
  shape data{.count = 10, .type = dtype::f32, .what = kernel::adasum, .tensors = {{0, 4}, {4, 6}}};
  EXPECT_EQ(refusal(data), "");
  data.tensors = {{0, 4}, {5, 5}};
  EXPECT_EQ(refusal(data),
            "elements 4 to 5 of the vector of partial_adasum are in no tensor: list a tensor for every element");
  data.tensors = {{0, 4}};
  EXPECT_EQ(refusal(data),
            "elements 4 to 10 of the vector of partial_adasum are in no tensor: list a tensor for every element");
  data.tensors = {};
  data.what = kernel::max;
  EXPECT_NE(refusal(data).find("merged by adasum or by sum, not by \"max\""), std::string::npos);
  data.what = kernel::adasum, data.type = dtype::i32;
  EXPECT_NE(refusal(data).find("only floating types"), std::string::npos);
}

// --- detection of wrong sums ---------------------------------------------------------------------------------

/// Returns a world in which `change` has changed an op of rank 1. Calls `change` for each op of rank 1 until `change`
/// returns true.
std::vector<schedule_ptr> world_with(const algorithm& how, rank size, const shape& data,
                                     const std::function<bool(draft&, op_id)>& change) {
  auto programs = whole_world(size, [&](world place) { return how.generate(place, data, {}); });
  draft content = draft_of(*programs[1]);
  for (op_id id = 0; id < content.head.ops.size(); ++id)
    if (change(content, id)) {
      programs[1] = schedule_of(std::move(content));
      return programs;
    }
  ADD_FAILURE() << "no op to change";
  return programs;
}

std::string verdict(const algorithm& how, const std::vector<schedule_ptr>& world, const shape& data) {
  const auto answer = verify(world, promise_of(how, static_cast<rank>(world.size()), data, {}));
  return answer.holds() ? "" : answer.findings.front().text;
}

const shape k_two_tensors{.count = 40, .type = dtype::f32, .tensors = {{0, 25}, {25, 15}}};

TEST(adasum_proof, finds_sums_that_are_not_complete) {
  const algorithm& how = *find("adasum", "halving");
  EXPECT_EQ(verdict(how, world_with(how, 4, k_two_tensors, [](draft&, op_id) { return true; }), k_two_tensors), "");
  const auto partial = world_with(how, 4, k_two_tensors, [](draft& in, op_id id) {
    op& it = in.head.ops[id];
    if (it.kind != op_kind::compute || it.what != kernel::dot_norms || it.count < 2) return false;
    it.count = it.count - 1;
    return true;
  });
  EXPECT_NE(verdict(how, partial, k_two_tensors).find("another tree than the algorithm defines"), std::string::npos);
}

TEST(adasum_proof, finds_sums_that_are_added_twice_or_not_at_all) {
  const algorithm& how = *find("adasum", "halving");
  const auto twice = world_with(how, 4, k_two_tensors, [](draft& in, op_id id) {
    op& it = in.head.ops[id];
    if (it.kind != op_kind::compute || it.what != kernel::sum) return false;
    it.b = it.a;
    return true;
  });
  EXPECT_NE(verdict(how, twice, k_two_tensors), "");
  const auto copied = world_with(how, 4, k_two_tensors, [](draft& in, op_id id) {
    op& it = in.head.ops[id];
    if (it.kind != op_kind::compute || it.what != kernel::sum) return false;
    it.what = kernel::max;
    return true;
  });
  EXPECT_NE(verdict(how, copied, k_two_tensors).find("not the three sums"), std::string::npos);
}

TEST(adasum_proof, finds_sums_of_another_tensor_and_operands_in_the_wrong_order) {
  const algorithm& how = *find("adasum", "recursive_doubling");
  const auto other = world_with(how, 2, k_two_tensors, [](draft& in, op_id id) {
    op& it = in.head.ops[id];
    if (it.kind != op_kind::compute || it.what != kernel::adasum || it.s.offset() == 0) return false;
    it.s = {it.s.buffer(), 0};
    return true;
  });
  EXPECT_NE(verdict(how, other, k_two_tensors), "");
  for (const kernel which : {kernel::dot_norms, kernel::adasum}) {
    const auto swapped = world_with(how, 2, k_two_tensors, [which](draft& in, op_id id) {
      op& it = in.head.ops[id];
      if (it.kind != op_kind::compute || it.what != which) return false;
      std::swap(it.a, it.b);
      return true;
    });
    EXPECT_NE(verdict(how, swapped, k_two_tensors), "") << name_of(which);
  }
}

TEST(adasum_proof, holds_wherever_tensors_are_cut_by_nodes_and_blocks) {
  const algorithm& how = *find("adasum", "two_level");
  for (const rank size : sizes())
    for (const layout where :
         {layout::one_node, layout::of_1, layout::of_2, layout::of_3, layout::of_4, layout::dealt, layout::unequal})
      for (const std::uint64_t count : {0u, 1u, 5u, 40u, 333u})
        for (const bool in_place : {false, true}) {
          shape data{.count = count, .type = dtype::f32, .in_place = in_place, .nodes = nodes_in(where, size)};
          data.tensors = drawn_tensors(count, 3 * count + index(size));
          const auto programs = whole_world(size, [&](world place) { return how.generate(place, data, {}); });
          const auto answer = verify(programs, promise_of(how, size, data, {}), {.in_place = aliasing(in_place)});
          EXPECT_TRUE(answer.holds()) << size << " ranks, " << static_cast<int>(where) << ", " << count << ": "
                                      << (answer.findings.empty() ? "" : answer.findings.front().text);
        }
}

const shape k_nodes_of_two{.count = 40, .type = dtype::f32, .tensors = {{0, 25}, {25, 15}}, .nodes = {0, 0, 1, 1}};

TEST(adasum_proof, finds_means_by_a_wrong_number_of_ranks_or_of_a_part_of_the_node) {
  const algorithm& how = *find("adasum", "two_level");
  EXPECT_EQ(verdict(how, world_with(how, 4, k_nodes_of_two, [](draft&, op_id) { return true; }), k_nodes_of_two), "");
  const auto divisor = world_with(how, 4, k_nodes_of_two, [](draft& in, op_id id) {
    op& it = in.head.ops[id];
    if (it.kind != op_kind::compute || it.what != kernel::divide) return false;
    in.head.parameters[it.tag].front() = in.head.parameters[it.tag].front().integer() + 1;
    return true;
  });
  EXPECT_NE(verdict(how, divisor, k_nodes_of_two), "");
  const auto undivided = world_with(how, 4, k_nodes_of_two, [](draft& in, op_id id) {
    op& it = in.head.ops[id];
    if (it.kind != op_kind::compute || it.what != kernel::divide) return false;
    it.what = kernel::copy, it.tag = 0;
    return true;
  });
  EXPECT_NE(verdict(how, undivided, k_nodes_of_two), "");
}

/// The ranks of a node own one block each, and the tensors extend over both blocks. Therefore the owner of a block also
/// needs the sums of the other block.
TEST(adasum_proof, finds_sums_that_lack_another_block) {
  const algorithm& how = *find("adasum", "two_level");
  const auto alone = world_with(how, 4, k_nodes_of_two, [](draft& in, op_id id) {
    op& it = in.head.ops[id];
    if (it.kind != op_kind::compute || it.what != kernel::sum || it.type != dtype::f64) return false;
    for (op_id from = 0; from < id; ++from) {  // finds the receive from the owner of the other block in this node
      const op& other = in.head.ops[from];
      const bool is_near = other.kind == op_kind::recv && other.peer == 0 && other.type == dtype::f64;
      if (is_near && other.c.buffer() == it.a.buffer()) return it.a = it.b, true;
      if (is_near && other.c.buffer() == it.b.buffer()) return it.b = it.a, true;
    }
    return false;
  });
  EXPECT_NE(verdict(how, alone, k_nodes_of_two), "");
}

/// Returns a shape with `tensors` tensors of one element, all in one rank's block, and `empty` tensors without
/// elements.
shape with_tensors(std::size_t tensors, std::size_t empty = 0) {
  shape data{.count = 8 * tensors, .type = dtype::f32};
  for (std::size_t i = 0; i < tensors; ++i) data.tensors.push_back({i, 1});
  data.tensors.resize(tensors + empty, {tensors, 0});
  return data;
}

/// The linear algorithm needs buffers for each tensor, but the number of buffers of a schedule is limited.
TEST(adasum, is_refused_by_algorithms_that_have_no_buffers_for_so_many_tensors) {
  const algorithm& how = *find("adasum", "linear");
  for (rank r = 0; r < 3; ++r) EXPECT_TRUE(how.generate({r, 3}, with_tensors(32'766, 1000), {}));
  EXPECT_TRUE(how.generate({0, 1}, with_tensors(100'000), {}));
  for (const std::size_t tensors : {32'767u, 100'000u}) {
    const auto none = how.generate({1, 3}, with_tensors(tensors), {});
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, status::constraint);
    EXPECT_EQ(none.error().text, "adasum/linear takes 32766 tensors at most, not " + std::to_string(tensors) +
                                     ": choose another algorithm, or \"auto\"");
  }
}

TEST(adasum, of_any_number_of_tensors_is_done_by_what_auto_chooses) {
  shape data = with_tensors(70'000);
  for (const rank size : {2, 3, 5, 8}) EXPECT_TRUE(generate("adasum", "auto", {0, size}, data, {})) << size << " ranks";
}

TEST(adasum, says_loudly_that_on_one_node_it_is_the_mean) {
  const auto name = [](std::vector<rank> nodes, rank size) {
    const shape data{.count = 40, .type = dtype::f32, .nodes = std::move(nodes)};
    return (*generate("adasum", "two_level", {0, size}, data, {}))->name();
  };
  EXPECT_EQ(name({}, 3), "adasum/two_level, of one node: the mean");
  EXPECT_EQ(name({4, 4, 4}, 3), "adasum/two_level, of one node: the mean");
  EXPECT_EQ(name({4, 4, 5}, 3), "adasum/two_level");
  EXPECT_EQ(name({}, 1), "adasum/two_level");  // the sum of a single rank's contribution is that contribution
}

/// Compares the proof with play(), which tries all interleavings of events and checks every element of the sums.
TEST(adasum_proof, all_orders_agree_with_the_proof) {
  for (const auto& [how, where] : flavours())
    for (const rank size : {1, 2, 3}) {
      shape data{.count = 5, .type = dtype::f64, .tensors = {{0, 2}, {3, 2}}, .nodes = nodes_in(where, size)};
      const auto programs = whole_world(size, [&](world place) { return how.generate(place, data, {}); });
      const auto verdict = play(programs, promise_of(how, size, data, {}), {});
      EXPECT_EQ(verdict.what, conclusion::holds) << how.name << " " << size << ": " << verdict.why;
    }
  const algorithm& how = *find("adasum", "halving");
  const auto wrong = world_with(how, 2, k_two_tensors, [](draft& in, op_id id) {
    op& it = in.head.ops[id];
    if (it.kind != op_kind::compute || it.what != kernel::dot_norms) return false;
    it.count = it.count - 1;
    return true;
  });
  EXPECT_EQ(play(wrong, promise_of(how, 2, k_two_tensors, {}), {}).what, conclusion::fails);
}

INSTANTIATE_TEST_SUITE_P(algorithms, Adasum, ::testing::ValuesIn(flavours()),
                         [](const auto& of) { return name_of(of.param); });

}  // namespace
}  // namespace lsched::testing
