#include "microbench/adasum/adasum_answer.h"

#include <algorithm>

namespace lsched::bench {
namespace {

/// Returns the number of times that each element of the cycle occurs in the tensor.
cycle times_in(const lsched_tensor& tensor) {
  cycle times{};
  times.fill(static_cast<double>(tensor.count / k_cycle));
  for (std::uint64_t i = tensor.count - tensor.count % k_cycle; i < tensor.count; ++i)
    times[(tensor.begin + i) % k_cycle] += 1;
  return times;
}

double dot(const cycle& a, const cycle& b, const cycle& times) {
  double sum = 0;
  for (std::size_t k = 0; k < k_cycle; ++k) sum += times[k] * a[k] * b[k];
  return sum;
}

cycle weighed(double x, const cycle& a, double y, const cycle& b) {
  cycle sum{};
  for (std::size_t k = 0; k < k_cycle; ++k) sum[k] = x * a[k] + y * b[k];
  return sum;
}

cycle combined(const cycle& a, const cycle& b, const cycle& times) {
  const double both = dot(a, b, times), of_a = dot(a, a, times), of_b = dot(b, b, times);
  return weighed(of_a > 0 ? 1 - both / (2 * of_a) : 1, a, of_b > 0 ? 1 - both / (2 * of_b) : 1, b);
}

cycle combined_in_order(const std::vector<cycle>& all, const cycle& times) {
  cycle result = all.front();
  for (std::size_t i = 1; i < all.size(); ++i) result = combined(result, all[i], times);
  return result;
}

/// Combines neighbouring pairs, beginning at the front, until the number of vectors is a power of two. Then repeatedly
/// combines all neighbouring pairs.
cycle combined_by_pairs(std::vector<cycle> all, const cycle& times) {
  std::size_t core = 1;
  while (2 * core <= all.size()) core *= 2;
  for (std::size_t i = 0; all.size() > core; ++i) {
    all[i] = combined(all[i], all[i + 1], times);
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(i) + 1);
  }
  for (; all.size() > 1; all.resize(all.size() / 2))
    for (std::size_t i = 0; i < all.size() / 2; ++i) all[i] = combined(all[2 * i], all[2 * i + 1], times);
  return all.front();
}

cycle mean_of(const std::vector<int>& ranks) {
  cycle mean{};
  for (const int r : ranks) mean = weighed(1, mean, 1, contribution_of(r));
  for (double& element : mean) element /= static_cast<double>(ranks.size());
  return mean;
}

}  // namespace

cycle contribution_of(int rank) {
  cycle own{};
  for (std::size_t k = 0; k < k_cycle; ++k) {
    const bool is_parallel = k % 3 == 0, is_own = (k + static_cast<std::size_t>(rank)) % 5 == 0;
    own[k] = static_cast<double>((1 + rank % 3) * (1 + static_cast<int>(k % 4)));
    if (!is_parallel && is_own) own[k] -= 9 + rank % 4;
  }
  return own;
}

cycle sum_of(int ranks) {
  cycle sum{};
  for (int r = 0; r < ranks; ++r) sum = weighed(1, sum, 1, contribution_of(r));
  return sum;
}

cycle adaptive_sum_of(std::string_view mode, const node_ranks& nodes, const lsched_tensor& tensor) {
  std::vector<cycle> vectors;
  if (mode.starts_with("two_level")) {
    for (const std::vector<int>& ranks : nodes) vectors.push_back(mean_of(ranks));
  } else {
    int size = 0;
    for (const std::vector<int>& ranks : nodes) size += static_cast<int>(ranks.size());
    for (int r = 0; r < size; ++r) vectors.push_back(contribution_of(r));
  }
  const cycle times = times_in(tensor);
  return mode.starts_with("linear") ? combined_in_order(vectors, times) : combined_by_pairs(std::move(vectors), times);
}

double tolerance_of(int ranks) {
  constexpr double k_longest = 12, k_epsilon = 0x1p-23;  // largest element; epsilon of f32
  return 4 * ranks * k_longest * k_epsilon;
}

}  // namespace lsched::bench
