#include "collectives/baselines/sparse_baselines.h"

#include <algorithm>
#include <array>

#include "libsched/schedule/geometry.h"
#include "collectives/baselines/gtopk.h"
#include "collectives/baselines/topk_dsa.h"

namespace lsched {
namespace {

double words_of(const sparse_problem& problem, double items) {
  return items * static_cast<double>(item_size(problem.type)) / 4;
}
double k_of(const sparse_problem& problem) { return static_cast<double>(most_items(problem)); }

sparse_cost cost_of_topk_dsa(const sparse_problem& problem) {
  const double share = (problem.place.size - 1.0) / problem.place.size;
  const double all = std::min(words_of(problem, static_cast<double>(typical_union(problem))),
                              static_cast<double>(problem.count * size_of(problem.type)) / 4);
  return {(problem.place.size - 1.0) + 2 * ceil_log2(problem.place.size),
          words_of(problem, k_of(problem) * share) + all * share + 2 * (problem.place.size - 1.0)};
}

sparse_cost cost_of_gtopk(const sparse_problem& problem) {
  return {2.0 * ceil_log2(problem.place.size), words_of(problem, 2 * k_of(problem) * ceil_log2(problem.place.size)) +
                                                   k_of(problem) / 32 * ceil_log2(problem.place.size)};
}

template <arrival_rule Rule>
constexpr sparse_algorithm gtopk_by(std::string_view name, std::string_view summary) {
  return {name,
          [](builder& to, const sparse_problem& problem, const sparse_ends& ends) {
            return add_gtopk(to, problem, ends, Rule);
          },
          cost_of_gtopk,
          [](const sparse_problem& problem, sparse_state& state) { return functions_of_gtopk(problem, state, Rule); },
          summary};
}

constexpr std::array k_baselines{
    sparse_algorithm{
        "topkdsa", add_topk_dsa, cost_of_topk_dsa, functions_of_topk_dsa,
        "regions, each added up by its owner; the whole sum, as items or as a vector; a baseline of `lsched`"},
    gtopk_by<arrival_rule::exact>("gtopk",
                                  "up a tree, and down: 4 k log2 P words; nothing is lost; a baseline of `lsched`"),
    gtopk_by<arrival_rule::published>(
        "gtopk_published", "as published: items that are dropped on the way may be lost; a baseline of `lsched`")};

}  // namespace

void add_sparse_baselines() { add_sparse_algorithms(k_baselines); }

}  // namespace lsched
