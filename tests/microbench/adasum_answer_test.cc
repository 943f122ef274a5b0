// Tests of the expected results by which the benchmark checks adaptive sums. The expected results must equal sums along
// the tree of each algorithm, and must differ from ordinary sums and means.
#include "microbench/adasum/adasum_answer.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <numeric>

#include "ops/adasum/adasum.h"

namespace lsched::bench {
namespace {

std::vector<int> ranks_from(int first, int end) {
  std::vector<int> ranks(static_cast<std::size_t>(end - first));
  std::iota(ranks.begin(), ranks.end(), first);
  return ranks;
}

/// The tree along which vectors are combined. Nodes 0 to `leaves` - 1 are the vectors, and node `leaves` + m is the
/// result of merges[m].
struct adasum_tree {
  std::size_t leaves;
  std::vector<std::pair<std::size_t, std::size_t>> merges{};

  std::size_t merge(std::size_t lower, std::size_t upper) {
    merges.emplace_back(lower, upper);
    return leaves + merges.size() - 1;
  }
};

/// Returns the tree ((0 1) 2) 3 ...
adasum_tree linear_adasum_tree(std::size_t leaves) {
  adasum_tree tree{leaves};
  std::size_t all = 0;
  for (std::size_t i = 1; i < leaves; ++i) all = tree.merge(all, i);
  return tree;
}

/// Returns the tree of all other algorithms. Let r be the number of leaves beyond a power of two. First, the leaves 2i
/// and 2i + 1 are merged for each i < r. Then adjacent nodes are merged until one node remains.
adasum_tree folded_adasum_tree(std::size_t leaves) {
  adasum_tree tree{leaves};
  const std::size_t rem = leaves - std::bit_floor(leaves);
  std::vector<std::size_t> level;
  for (std::size_t i = 0; i < std::bit_floor(leaves); ++i)
    level.push_back(i < rem ? tree.merge(2 * i, 2 * i + 1) : i + rem);
  for (; level.size() > 1; level.resize(level.size() / 2))
    for (std::size_t i = 0; i < level.size() / 2; ++i) level[i] = tree.merge(level[2 * i], level[2 * i + 1]);
  return tree;
}

/// Returns the adaptive sum of the leaves (the first elements of `nodes`) along the tree.
std::vector<double> along(const adasum_tree& tree, std::vector<std::vector<double>> nodes) {
  for (const auto& [lower, upper] : tree.merges) {
    const auto &a = nodes[lower], &b = nodes[upper];
    const auto dot = [](const auto& x, const auto& y) {
      return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
    };
    const double sums[3] = {dot(a, b), dot(a, a), dot(b, b)};
    const adasum_coefficients by = adasum_coefficients_of(sums);
    std::vector<double> both(a.size());
    for (std::size_t i = 0; i < both.size(); ++i) both[i] = by.a * a[i] + by.b * b[i];
    nodes.push_back(both);
  }
  return nodes.back();
}

std::vector<double> part_of(const cycle& of, const lsched_tensor& at) {
  std::vector<double> part;
  for (std::uint64_t i = at.begin; i < at.begin + at.count; ++i) part.push_back(of[i % k_cycle]);
  return part;
}

void expect_near(const std::vector<double>& found, const std::vector<double>& wanted, const std::string& where) {
  for (std::size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(found[i], wanted[i], 1e-12) << where << ", element " << i;
}

constexpr lsched_tensor k_tensors[] = {{0, 1}, {7, 40}, {100, 997}};

TEST(adasum_answer, is_that_of_the_declared_trees) {
  for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8, 12})
    for (const lsched_tensor& at : k_tensors) {
      std::vector<std::vector<double>> leaves;
      for (int r = 0; r < ranks; ++r) leaves.push_back(part_of(contribution_of(r), at));
      const node_ranks one{ranks_from(0, ranks)};
      const auto size = static_cast<std::size_t>(ranks);
      const auto found = [&](const char* mode) { return part_of(adaptive_sum_of(mode, one, at), at); };
      expect_near(found("halving"), along(folded_adasum_tree(size), leaves), "halving");
      expect_near(found("linear"), along(linear_adasum_tree(size), leaves), "linear");
    }
}

TEST(adasum_answer, by_nodes_is_that_of_their_means) {
  for (const lsched_tensor& at : k_tensors) {
    std::vector<std::vector<double>> means;
    const node_ranks nodes{ranks_from(0, 2), ranks_from(2, 5), ranks_from(5, 6)};
    for (const auto& ranks : nodes) {
      auto& mean = means.emplace_back(at.count);
      for (const int r : ranks)
        for (std::size_t i = 0; i < mean.size(); ++i)
          mean[i] += contribution_of(r)[(at.begin + i) % k_cycle] / static_cast<double>(ranks.size());
    }
    expect_near(part_of(adaptive_sum_of("two_level", nodes, at), at), along(folded_adasum_tree(3), means), "nodes");
    const cycle mean = adaptive_sum_of("two_level, of one node: the mean", {ranks_from(0, 4)}, at), sum = sum_of(4);
    for (std::size_t k = 0; k < k_cycle; ++k) EXPECT_NEAR(mean[k], sum[k] / 4, 1e-12);
  }
}

/// The check must reject the results of a kernel that computes ordinary sums or means, or that combines ranks in
/// another order.
TEST(adasum_answer, is_no_sum_and_no_mean_and_that_of_one_order) {
  const lsched_tensor all{0, 300};
  for (const int ranks : {2, 3, 4, 7}) {
    const node_ranks one{ranks_from(0, ranks)};
    const cycle by_pairs = adaptive_sum_of("gram", one, all), in_order = adaptive_sum_of("linear", one, all);
    double from_sum = 0, from_mean = 0, from_order = 0;
    for (std::size_t k = 0; k < k_cycle; ++k) {
      from_sum = std::max(from_sum, std::fabs(by_pairs[k] - sum_of(ranks)[k]));
      from_mean = std::max(from_mean, std::fabs(by_pairs[k] - sum_of(ranks)[k] / ranks));
      from_order = std::max(from_order, std::fabs(by_pairs[k] - in_order[k]));
    }
    EXPECT_GT(from_sum, 1000 * tolerance_of(ranks)) << ranks;
    EXPECT_GT(from_mean, 1000 * tolerance_of(ranks)) << ranks;
    EXPECT_EQ(from_order > 1000 * tolerance_of(ranks), ranks > 3) << ranks << ": up to 3 ranks there is one order";
  }
}

}  // namespace
}  // namespace lsched::bench
