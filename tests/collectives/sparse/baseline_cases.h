// Helpers for the tests of the baselines, the algorithms with which Ok-Topk is compared. The helpers are test cases,
// the gradients of a case, and a plain implementation of selection and summation by maps and sorts. Except for the
// gradients, this file shares no code with the baselines.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <ostream>
#include <set>

#include "collectives/sparse/steps/problem.h"
#include "microbench/lockstep/gradient_source.h"
#include "tests/ops/lists.h"
#include "tests/support/sampling.h"

namespace lsched {

inline constexpr std::array<rank, 8> k_baseline_ranks{1, 2, 3, 5, 6, 7, 4, 8};
inline constexpr std::array<std::uint64_t, 6> k_baseline_counts{0, 1, 2, 7, 64, 1000};
inline constexpr round_no k_baseline_rounds = 4;

/// Number of kinds of input: all kinds of gradient_source, followed by five kinds of patterns().
inline constexpr std::size_t k_baseline_inputs = k_all_gradient_kinds.size() + 5;

struct baseline_case {
  sparse_problem problem;
  std::size_t input;
  friend std::ostream& operator<<(std::ostream& out, const baseline_case& it) {
    return out << name_of(it.problem.type) << ", P = " << it.problem.place.size << ", n = " << it.problem.count
               << ", k = " << it.problem.k << ", scale " << it.problem.scale << ", input " << it.input
               << (it.problem.nans == nan_policy::ignore  ? ", NaN ignored"
                   : it.problem.nans == nan_policy::error ? ", NaN refused"
                                                          : "");
  }
};

/// Calls `body` for every combination of type, number of ranks, count and k. The other options alternate between cases.
inline void for_each_baseline_case(const std::function<void(const baseline_case&)>& body) {
  std::size_t number = 0;
  for (const dtype type : k_floats)
    for (const rank ranks : k_baseline_ranks)
      for (const std::uint64_t count : k_baseline_counts)
        for (const std::uint64_t k : std::set<std::uint64_t>{0, 1, 3, count / 10, count, count + 5}) {
          ++number;
          if (testing::sampled() && number % 7 != 0) continue;
          const baseline_case it{.problem = {.count = count,
                                             .k = k,
                                             .place = {.self = 0, .size = ranks},
                                             .type = type,
                                             .scale = number % 3 == 0 ? 0.1 : 1,
                                             .nans = static_cast<nan_policy>(number % 5 % 3)},
                                 .input = number % k_baseline_inputs};
          SCOPED_TRACE(::testing::Message() << it);
          body(it);
          if (::testing::Test::HasFatalFailure()) return;
        }
}

inline elements gradient_of(const baseline_case& what, rank of, round_no round) {
  const dtype type = what.problem.type;
  const std::size_t count = what.problem.count;
  if (what.input < k_all_gradient_kinds.size()) {
    const dense_in_memory drawn(type, elements(count, 0));
    gradient_source({.kind = k_all_gradient_kinds[what.input], .count = count, .ranks = what.problem.place.size})
        .draw(of, round, type, drawn.data());
    return drawn.content();
  }
  constexpr std::array<std::string_view, 5> names{"equal", "denormals", "few magnitudes", "not finite", "hard"};
  for (const pattern& it : patterns(type, count, static_cast<std::uint64_t>(of) * 100 + round))
    if (it.name == names[what.input - k_all_gradient_kinds.size()]) return it.values;
  return {};
}

inline sparse_problem problem_of(const baseline_case& what, rank self) {
  sparse_problem problem = what.problem;
  problem.place.self = self;
  return problem;
}

// ---- the rules, in plain code

inline void accumulate(const baseline_case& what, elements& residual, const elements& gradient) {
  for (std::size_t i = 0; i < residual.size(); ++i)
    residual[i] = what.problem.scale == 1
                      ? rounded_to_residual(what.problem.type, value_of(residual_of(what.problem.type), residual[i]) +
                                                                   value_of(what.problem.type, gradient[i]))
                      : accumulated(what.problem.type, residual[i], what.problem.scale, gradient[i]);
}

/// Returns the items of a residual that may be sent, ordered by index.
inline list sendable(const baseline_case& what, const elements& residual) {
  const dtype type = what.problem.type;
  list all;
  for (std::size_t i = 0; i < residual.size(); ++i) {
    const std::uint64_t value = rounded(type, residual[i]);
    if (magnitude_of(type, value) == 0) continue;
    if (what.problem.nans == nan_policy::ignore && is_nan(type, value)) continue;
    all.push_back({static_cast<std::uint32_t>(i), value});
  }
  return all;
}

/// Returns the sum of the lists. Values are added in list order, in the residual's type, and the sum is rounded to
/// `type` once.
inline list sum_in_order(dtype type, const std::vector<list>& lists) {
  std::map<std::uint32_t, std::uint64_t> sums;
  for (const list& from : lists)
    for (const entry& it : from) {
      std::uint64_t& sum = sums.emplace(it.index, 0).first->second;
      sum = rounded_to_residual(type, value_of(residual_of(type), sum) + value_of(type, it.value));
    }
  list made;
  for (const auto& [index, sum] : sums)
    if (magnitude_of(type, rounded(type, sum)) != 0) made.push_back({index, rounded(type, sum)});
  return made;
}

inline bool is_finite(dtype type, std::uint64_t value) { return magnitude_of(type, value) < infinity_of(type); }

inline bool is_refused(const baseline_case& what, const list& result) {
  return what.problem.nans == nan_policy::error && std::any_of(result.begin(), result.end(), [&](const entry& it) {
           return !is_finite(what.problem.type, it.value);
         });
}

/// Clears the non-finite elements of a residual, as a round does if its result is refused.
inline void drop_not_finite(dtype type, elements& residual) {
  for (std::uint64_t& it : residual)
    if (!is_finite(type, rounded(type, it))) it = 0;
}

/// Updates the residual after a round: subtracts the sent items whose index has arrived in the result. If the result is
/// refused, the function only clears the non-finite elements.
inline void settle(const baseline_case& what, const list& result, elements& residual, const list& sent,
                   const std::function<bool(std::uint32_t)>& arrived) {
  const dtype type = what.problem.type, wide = residual_of(type);
  if (is_refused(what, result)) return drop_not_finite(type, residual);
  for (const entry& it : sent) {
    if (!arrived(it.index)) continue;
    const double rest = value_of(wide, residual[it.index]) - value_of(type, it.value);
    const bool keeps_rest = size_of(type) < size_of(wide) && std::isfinite(static_cast<float>(rest));
    residual[it.index] = keeps_rest ? bits_of(wide, rest) : 0;
  }
}

inline bool has_index(const list& in, std::uint32_t index) {
  const auto at =
      std::lower_bound(in.begin(), in.end(), index, [](const entry& a, std::uint32_t b) { return a.index < b; });
  return at != in.end() && at->index == index;
}

/// Returns the update as a dense vector: the result divided by the number of ranks, or zeros if the result is refused.
inline elements update_of(const baseline_case& what, const list& result) {
  const dtype type = what.problem.type;
  elements made(what.problem.count, 0);
  if (is_refused(what, result)) return made;
  for (const entry& it : result)
    made[it.index] = quotient(type, it.value, static_cast<std::uint64_t>(what.problem.place.size));
  return made;
}

// ---- ranks

/// The buffers of one rank. Each buffer has guard bytes on both sides.
struct rank_memory {
  rank_memory(const baseline_case& what, std::uint64_t list_room, std::uint64_t result_room)
      : residual(residual_of(what.problem.type), elements(what.problem.count, 0)),
        update(what.problem.type, elements(what.problem.count, 1)),
        sent(what.problem.type, static_cast<std::size_t>(list_room)),
        result(what.problem.type, static_cast<std::size_t>(result_room)) {}

  item_list sent_list() const { return {sent.data(), n_sent}; }
  item_list result_list() const { return {result.data(), n_result}; }
  bool is_intact() const {
    return residual.is_intact() && update.is_intact() && sent.is_intact() && result.is_intact();
  }

  dense_in_memory residual;
  dense_in_memory update;
  list_in_memory sent;
  list_in_memory result;
  std::uint64_t n_sent = 0;
  std::uint64_t n_result = 0;
  top_k_hint hint{};
};

// ---- conservation

/// Returns, for each index, the sum over all residuals. The sum is exact for integers.
inline std::vector<double> total_of(const std::vector<elements>& residuals, dtype type) {
  std::vector<double> total(residuals.front().size(), 0);
  for (const elements& residual : residuals)
    for (std::size_t i = 0; i < total.size(); ++i) total[i] += value_of(residual_of(type), residual[i]);
  return total;
}

/// Checks that a round loses and repeats nothing (invariant I3 of docs/inside/sparse_audit.md). Compares the residuals
/// before the round with the result and the residuals after the round. Returns the sum of the magnitudes that are lost
/// or repeated.
inline double lost_in_round(const std::vector<double>& before, const std::vector<double>& after, const list& result,
                            dtype type) {
  std::vector<double> missing(before);
  for (std::size_t i = 0; i < missing.size(); ++i) missing[i] -= after[i];
  for (const entry& it : result) missing[it.index] -= value_of(type, it.value);
  double sum = 0;
  for (const double it : missing) sum += std::fabs(it);
  return sum;
}

}  // namespace lsched
