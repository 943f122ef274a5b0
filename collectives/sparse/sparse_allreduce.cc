#include "collectives/sparse/sparse_allreduce.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <vector>

#include "collectives/activation/activation.h"
#include "collectives/allreduce/allreduce.h"
#include "collectives/sparse/steps/oktopk_steps.h"
#include "collectives/sparse/steps/sparseloco_steps.h"
#include "collectives/sparse/steps/topka_steps.h"
#include "libsched/schedule/geometry.h"

namespace lsched {
namespace {

constexpr double k_message_us = 2;
constexpr double k_word_us = 4e-4;
constexpr double k_counter_words = 2;  ///< number of words of a u64

double steps_of(const sparse_problem& problem) { return ceil_log2(problem.place.size); }
double others_of(const sparse_problem& problem) { return problem.place.size - 1.0; }
double words_of(const sparse_problem& problem, double items) {
  return items * static_cast<double>(item_size(problem.type)) / 4;
}
double k_of(const sparse_problem& problem) { return static_cast<double>(most_items(problem)); }

sparse_cost cost_of_oktopk(const sparse_problem& problem) {
  const double share = others_of(problem) / problem.place.size;
  double counters = 0;
  for (unsigned pass = 0; pass < threshold_passes(problem); ++pass)
    counters += static_cast<double>(threshold_bins(problem.type, pass));
  counters += static_cast<double>(drift_bins(problem)) + static_cast<double>(position_bins(problem)) / problem.period;
  const double passes = threshold_passes(problem) + 1 + 1.0 / problem.period;
  return {others_of(problem) + (passes + 2) * steps_of(problem),
          words_of(problem, 2 * k_of(problem) * share) +
              k_counter_words * (counters * steps_of(problem) + 2 * others_of(problem))};
}

sparse_cost cost_of_topka(const sparse_problem& problem) {
  return {2 * steps_of(problem),
          words_of(problem, k_of(problem) * others_of(problem)) + k_counter_words * others_of(problem)};
}

std::uint64_t bytes_of_sparseloco(const sparse_problem& problem) { return chunk_plan(problem).message_bytes(); }
sparse_cost cost_of_sparseloco(const sparse_problem& problem) {
  return {steps_of(problem), static_cast<double>(bytes_of_sparseloco(problem)) / 4 * others_of(problem)};
}

constexpr std::array k_own{
    sparse_algorithm{"oktopk", add_oktopk, cost_of_oktopk, functions_of<oktopk_steps>,
                     "regions, each added up by its owner; the k largest of all, in equal shares: about 4 k words"},
    sparse_algorithm{"topka", add_topka, cost_of_topka, functions_of<topka_functions>,
                     "every rank gets every list: 2 k (P-1) words"},
    sparse_algorithm{"sparseloco", add_sparseloco, cost_of_sparseloco, functions_of<sparseloco_functions>,
                     "the largest elements of each chunk of 4096, 14 bits each; messages have one fixed size",
                     bytes_of_sparseloco}};

/// A tag that no sparse algorithm uses.
constexpr std::uint32_t k_contributor_count_tag = 1u << 30;

/// Appends an allreduce that counts the contributors. The value of its result is not used.
void add_contributor_count(builder& to, sparse_ends& ends, op_id gate) {
  const buffer whole = to.at(ends.gradient);
  const shape first{.count = std::min<std::uint64_t>(1, whole.count), .type = whole.type, .what = kernel::sum};
  ends.contributor_count = to.scratch(first.type, first.count);
  to.set_first_tag(k_contributor_count_tag);
  ends.counted = add_allreduce(to, first, ends.gradient, ends.contributor_count, gate).exit;
  to.set_first_tag(0);
}

result<schedule_ptr> compose(const sparse_algorithm& how, const sparse_problem& problem, const activation& starts) {
  if (auto why = validate(problem)) return std::move(*why);
  const bool is_partial = starts.policy != activation_policy::none;
  builder to(problem.place, (is_partial ? "partial_sparse_allreduce/" : "sparse_allreduce/") + std::string(how.name));
  if (to.error() != nullptr) return *to.error();
  sparse_ends ends{.gradient = to.input(problem.type, problem.count), .update = to.output(problem.type, problem.count)};
  op_id gate = k_no_op;
  if (is_partial) {
    gate = add_activation(to, starts, kernel::sum, ends.gradient, problem.count).exit;
    add_contributor_count(to, ends, gate);
  }
  const auto first = static_cast<op_id>(to.op_count());
  to.set_exit(how.add(to, problem, ends).exit);
  to.set_entry(first, gate);
  to.declare_synchronising();
  return to.compile();
}

std::vector<sparse_algorithm>& all_algorithms() {
  static std::vector<sparse_algorithm> all(k_own.begin(), k_own.end());
  return all;
}

}  // namespace

std::span<const sparse_algorithm> sparse_algorithms() { return all_algorithms(); }

void add_sparse_algorithms(std::span<const sparse_algorithm> more) {
  all_algorithms().insert(all_algorithms().end(), more.begin(), more.end());
}

const sparse_algorithm* find_sparse(std::string_view name) {
  const auto& all = all_algorithms();
  const auto found = std::ranges::find(all, name, &sparse_algorithm::name);
  return found == all.end() ? nullptr : &*found;
}

const sparse_algorithm& choose_sparse(const sparse_problem& problem) {
  const auto us = [&](const sparse_algorithm& algorithm) {
    if (algorithm.encoded_bytes != nullptr) return std::numeric_limits<double>::infinity();
    const sparse_cost cost = algorithm.cost_of(problem);
    return cost.messages * k_message_us + cost.words * k_word_us;
  };
  return *std::ranges::min_element(k_own, {}, us);
}

result<schedule_ptr> sparse_algorithm::generate(const sparse_problem& problem) const {
  return compose(*this, problem, {});
}

double sparse_algorithm::bits_per_element(const sparse_problem& problem) const {
  if (problem.count == 0) return 0;
  const std::uint64_t bytes =
      encoded_bytes != nullptr ? encoded_bytes(problem) : most_items(problem) * item_size(problem.type);
  return 8 * static_cast<double>(bytes) / static_cast<double>(problem.count);
}

result<schedule_ptr> partial_sparse_allreduce(const sparse_algorithm& how, const sparse_problem& problem,
                                              const activation& starts) {
  if (starts.policy == activation_policy::none)
    return failure{.code = status::argument,
                   .text =
                       "a partial sparse allreduce needs an activation policy: set full, solo, majority, first_of, "
                       "all_of or quorum"};
  if (auto why = validate(starts, problem.place.size)) return std::move(*why);
  return compose(how, problem, starts);
}

}  // namespace lsched
