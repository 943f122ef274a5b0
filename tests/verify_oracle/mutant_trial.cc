#include "tests/verify_oracle/mutant_trial.h"

#include <algorithm>

#include "tests/verify_oracle/interleavings.h"

namespace lsched {

trial try_mutant(std::span<const schedule_ptr> mutant, std::span<const schedule_ptr> original,
                 const postcondition& promise, const verify_options& options) {
  if (const verification proof = verify(mutant, promise, options); !proof.holds())
    return {fate::killed, proof.findings.front().text};
  const auto is_same = [](const schedule_ptr& x, const schedule_ptr& y) { return *x == *y; };
  if (std::ranges::equal(mutant, original, is_same)) return {fate::equivalent};
  const auto calls_functions = [](const schedule_ptr& one) {
    return std::ranges::any_of(one->ops(), [](const op& o) { return is_function(o.what); });
  };
  const interleaving_verdict verdict =
      play(mutant, promise,
           {.in_place = options.in_place, .has_foreign_functions = std::ranges::none_of(original, calls_functions)});
  if (verdict.what == conclusion::holds) return {fate::equivalent};
  return {fate::survived, verdict.why};
}

}  // namespace lsched
