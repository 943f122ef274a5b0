#include "microbench/baselines/sparse_baselines.h"

#include <algorithm>
#include <array>
#include <vector>

#include "collectives/sparse/functions/list_functions.h"
#include "collectives/sparse/sparse_allreduce.h"
#include "collectives/sparse/topka.h"
#include "libsched/schedule/geometry.h"
#include "microbench/baselines/gaussiank.h"
#include "microbench/baselines/gtopk.h"
#include "microbench/baselines/gtopk_schedule.h"
#include "microbench/baselines/rival_steps.h"
#include "microbench/baselines/topk_dsa.h"
#include "microbench/baselines/topk_dsa_schedule.h"

namespace lsched {
namespace {

class topk_dsa_functions : public judging_functions {
 public:
  topk_dsa_functions(const sparse_problem& problem, sparse_state& state)
      : steps_(problem),
        state_(state),
        lists_(ranks_of(problem)),
        lengths_(lists_.size()),
        result_(steps_.result_room() * item_size(problem.type)) {}

  status call(std::uint32_t number, round_no round, const function_input& source, const function_input&,
              const function_output& target) override {
    auto* const residual = static_cast<std::byte*>(state_.residual());
    switch (static_cast<topk_dsa_step>(number)) {
      case topk_dsa_step::select:
        steps_.select(residual, source.data, state_.hint, target.data, lengths_);
        return lay_out(target, lengths_);
      case topk_dsa_step::reduce: gather(source, lists_); return set_length(target, steps_.reduce(lists_, target.data));
      case topk_dsa_step::settle: break;
    }
    gather(source, lists_);
    steps_.settle(lists_, result_.data(), residual, target.data);
    state_.finish_round(state_.boundaries());
    note(round, steps_.non_finite_element());
    return status::ok;
  }

  void rebound() override { steps_.forget_update(); }

 private:
  topk_dsa steps_;
  sparse_state& state_;
  std::vector<item_list> lists_;  ///< by rank, or region
  std::vector<std::uint64_t> lengths_;
  std::vector<std::byte> result_;
};

class gtopk_functions : public judging_functions {
 public:
  gtopk_functions(const sparse_problem& problem, sparse_state& state, arrival_rule rule, std::uint32_t children)
      : steps_(problem, rule, children), state_(state) {}

  status call(std::uint32_t number, round_no round, const function_input& source, const function_input&,
              const function_output& target) override {
    auto* const residual = static_cast<std::byte*>(state_.residual());
    switch (static_cast<gtopk_step>(number)) {
      case gtopk_step::select:
        partial_ = {target.data, steps_.select(residual, source.data, state_.hint, target.data)};
        return set_length(target, partial_.count);
      case gtopk_step::merge:
        partial_ = {target.data, steps_.merge(list_of(source, 0), list_of(source, 1), target.data)};
        return set_length(target, partial_.count);
      case gtopk_step::learn: steps_.learn(partial_, source.numbers<std::uint64_t>()); return status::ok;
      case gtopk_step::settle:
        steps_.settle(list_of(source), residual, target.data);
        state_.finish_round(state_.boundaries());
        note(round, steps_.non_finite_element());
        return status::ok;
      default: break;
    }
    const std::uint32_t child = number - static_cast<std::uint32_t>(gtopk_step::survivors);
    std::ranges::copy(steps_.survivors_of(child), target.numbers<std::uint64_t>().begin());
    return status::ok;
  }

  void rebound() override { steps_.forget_update(); }

 private:
  gtopk steps_;
  sparse_state& state_;
  item_list partial_{};  ///< where the instance has it
};

using functions_ptr = std::shared_ptr<judging_functions>;

functions_ptr functions_of_topk_dsa(const sparse_problem& problem, sparse_state& state) {
  return std::make_shared<topk_dsa_functions>(problem, state);
}

functions_ptr functions_of_gaussiank(const sparse_problem& problem, sparse_state& state) {
  return std::make_shared<gather_functions<gaussiank>>(problem, state);
}

template <arrival_rule Rule>
functions_ptr functions_of_gtopk(const sparse_problem& problem, sparse_state& state) {
  return std::make_shared<gtopk_functions>(problem, state, Rule, gtopk_children(problem.place));
}

template <arrival_rule Rule>
fragment add_gtopk_by(builder& to, const sparse_problem& problem, const sparse_ends& ends) {
  return add_gtopk(to, problem, ends, Rule == arrival_rule::exact);
}

fragment add_gaussiank(builder& to, const sparse_problem& problem, const sparse_ends& ends) {
  return add_lists_to_all(to, problem, ends, std::min(2 * most_items(problem), problem.count));
}

double words_of(const sparse_problem& of, double items) { return items * static_cast<double>(item_size(of.type)) / 4; }
double k_of(const sparse_problem& of) { return static_cast<double>(most_items(of)); }

sparse_cost cost_of_topk_dsa(const sparse_problem& of) {
  const double share = (of.place.size - 1.0) / of.place.size;
  const double all = std::min(words_of(of, static_cast<double>(typical_union(of))),
                              static_cast<double>(of.count * size_of(of.type)) / 4);
  return {(of.place.size - 1.0) + 2 * ceil_log2(of.place.size),
          words_of(of, k_of(of) * share) + all * share + 2 * (of.place.size - 1.0)};
}

sparse_cost cost_of_gtopk(const sparse_problem& of) {
  return {2.0 * ceil_log2(of.place.size),
          words_of(of, 2 * k_of(of) * ceil_log2(of.place.size)) + k_of(of) / 32 * ceil_log2(of.place.size)};
}

/// As topka's.
sparse_cost cost_of_gaussiank(const sparse_problem& of) { return find_sparse("topka")->cost_of(of); }

constexpr std::array k_baselines{
    sparse_algorithm{"topkdsa", add_topk_dsa, cost_of_topk_dsa, functions_of_topk_dsa,
                     "regions, each added up by its owner; all of it, as items or as a vector"},
    sparse_algorithm{"gtopk", add_gtopk_by<arrival_rule::exact>, cost_of_gtopk, functions_of_gtopk<arrival_rule::exact>,
                     "up a tree, and down: 4 k log2 P words; nothing is lost"},
    sparse_algorithm{"gtopk_published", add_gtopk_by<arrival_rule::published>, cost_of_gtopk,
                     functions_of_gtopk<arrival_rule::published>,
                     "as published: what is dropped on the way may be lost"},
    sparse_algorithm{"gaussiank", add_gaussiank, cost_of_gaussiank, functions_of_gaussiank,
                     "topka by a guessed threshold: up to 2 k items"}};

}  // namespace

void add_sparse_baselines() { add_sparse_algorithms(k_baselines); }

}  // namespace lsched
