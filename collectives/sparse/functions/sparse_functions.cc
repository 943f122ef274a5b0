#include "collectives/sparse/functions/sparse_functions.h"

#include <algorithm>
#include <vector>

#include "collectives/sparse/functions/list_functions.h"
#include "collectives/sparse/protocol/oktopk_steps.h"
#include "collectives/sparse/steps/oktopk.h"
#include "collectives/sparse/steps/topka.h"

namespace lsched {
namespace {

class oktopk_functions : public judging_functions {
 public:
  oktopk_functions(const sparse_problem& problem, sparse_state& state)
      : steps_(problem, state), lists_(ranks_of(problem)), pieces_(lists_.size()), shares_(lists_.size()) {}

  status call(std::uint32_t number, round_no round, const function_input& source, const function_input& by,
              const function_output& target) override {
    if (number >= number_of(oktopk_step::count_sums) && number < number_of(oktopk_step::tally)) {
      const unsigned pass = number - number_of(oktopk_step::count_sums);
      steps_.count_magnitudes(pass, list_of(source), by.numbers<std::uint64_t>(), target.numbers<std::uint64_t>());
      return status::ok;
    }
    switch (static_cast<oktopk_step>(number)) {
      case oktopk_step::select: return copy(steps_.select(source.data), target);
      case oktopk_step::count_positions: steps_.count_positions(target.numbers<std::uint64_t>()); break;
      case oktopk_step::set_boundaries: steps_.set_boundaries(by.numbers<std::uint64_t>()); break;
      case oktopk_step::count_drift: steps_.count_drift(target.numbers<std::uint64_t>()); break;
      case oktopk_step::follow_drift: steps_.follow_drift(by.numbers<std::uint64_t>()); break;
      case oktopk_step::split: steps_.split(round, target.data, pieces_); return lay_out(target, pieces_);
      case oktopk_step::add: gather(source, lists_); return set_length(target, steps_.fold(lists_, target.data));
      case oktopk_step::tally:
        steps_.tally(list_of(source), by.numbers<std::uint64_t>(), target.numbers<std::uint64_t>());
        break;
      case oktopk_step::plan:
        steps_.plan(by.numbers<std::uint64_t>(), pieces_, target.numbers<std::uint64_t>(), shares_);
        break;
      case oktopk_step::shares: std::ranges::copy(shares_, target.numbers<std::uint64_t>().begin()); break;
      case oktopk_step::cut: steps_.cut(list_of(source), target.data); return lay_out(target, pieces_);
      case oktopk_step::share: return copy(whole(source), target);
      case oktopk_step::settle:
        if (!steps_.are_regions_alike()) return status::mismatch;  // on all ranks
        steps_.settle(whole(source), target.data);
        note(round, steps_.non_finite_element());
        break;
      default: return status::internal;
    }
    return status::ok;
  }

  void rebound() override { steps_.forget_update(); }

 private:
  oktopk_steps steps_;
  std::vector<item_list> lists_;                ///< by rank
  std::vector<std::uint64_t> pieces_, shares_;  ///< lengths, of the round
};

}  // namespace

void judging_functions::note(round_no round, std::optional<std::uint32_t> non_finite_element) {
  if (!non_finite_element) return;
  non_finite_element_.store(*non_finite_element);
  refused_round_.store(round);
}

std::optional<std::uint32_t> judging_functions::non_finite_element_of(round_no round) const {
  return refused_round_.load() == round ? std::optional(non_finite_element_.load()) : std::nullopt;
}

std::shared_ptr<judging_functions> functions_of_oktopk(const sparse_problem& problem, sparse_state& state) {
  return std::make_shared<oktopk_functions>(problem, state);
}

std::shared_ptr<judging_functions> functions_of_topka(const sparse_problem& problem, sparse_state& state) {
  return std::make_shared<gather_functions<topka>>(problem, state);
}

}  // namespace lsched
