#include "collectives/sparse/functions/sparse_functions.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "collectives/sparse/protocol/oktopk_steps.h"
#include "collectives/sparse/protocol/rival_steps.h"
#include "collectives/sparse/rivals/gaussiank.h"
#include "collectives/sparse/rivals/gtopk.h"
#include "collectives/sparse/rivals/topk_dsa.h"
#include "collectives/sparse/rivals/topka.h"
#include "collectives/sparse/steps/oktopk.h"

namespace lsched {
namespace {

item_list list_of(const function_input& from, std::uint64_t i = 0) { return {from.items(i), from.length(i)}; }

/// All of a buffer of packed lists.
item_list whole(const function_input& from) {
  const item_run all = from.lists->run_of(0, from.count);
  return {from.data + all.begin * from.width, all.count};
}

void gather(const function_input& from, std::vector<item_list>& lists) {
  for (std::uint64_t i = 0; i < lists.size(); ++i) lists[i] = list_of(from, i);
}

/// Of a buffer of one list.
status set_length(const function_output& of, std::uint64_t items) {
  return of.lists->set_length(0, items) ? status::ok : status::bounds;
}

status lay_out(const function_output& of, std::span<const std::uint64_t> lengths) {
  return of.lists->lay_out(lengths) ? status::ok : status::bounds;
}

status copy(item_list from, const function_output& to) {
  if (from.count != 0) std::memcpy(to.data, from.items, from.count * to.width);
  return set_length(to, from.count);
}

std::size_t ranks_of(const sparse_problem& problem) { return static_cast<std::size_t>(problem.place.size); }

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

/// TopkA and Gaussiank.
template <class Steps>
class gather_functions : public judging_functions {
 public:
  gather_functions(const sparse_problem& problem, sparse_state& state)
      : steps_(problem),
        state_(state),
        lists_(ranks_of(problem)),
        result_(steps_.result_room() * item_size(problem.type)) {}

  status call(std::uint32_t number, round_no round, const function_input& source, const function_input&,
              const function_output& target) override {
    auto* const residual = static_cast<std::byte*>(state_.residual());
    if (static_cast<topka_step>(number) == topka_step::select) {
      sent_ = {target.data, select(residual, source.data, target.data)};
      return set_length(target, sent_.count);
    }
    gather(source, lists_);
    const item_list all{result_.data(), steps_.add(lists_, result_.data())};
    steps_.settle(sent_, all, residual, target.data);
    state_.finish_round(state_.boundaries());
    note(round, steps_.non_finite_element());
    return status::ok;
  }

  void rebound() override { steps_.forget_update(); }

 private:
  std::uint64_t select(std::byte* residual, const std::byte* gradient, std::byte* items) {
    if constexpr (std::is_same_v<Steps, topka>)
      return steps_.select(residual, gradient, state_.hint, items);
    else
      return steps_.select(residual, gradient, items).count;
  }

  Steps steps_;
  sparse_state& state_;
  std::vector<item_list> lists_;  ///< by rank
  std::vector<std::byte> result_;
  item_list sent_{};  ///< where the instance has it
};

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

}  // namespace

void judging_functions::note(round_no round, std::optional<std::uint32_t> non_finite_element) {
  if (!non_finite_element) return;
  non_finite_element_.store(*non_finite_element);
  refused_round_.store(round);
}

std::optional<std::uint32_t> judging_functions::non_finite_element_of(round_no round) const {
  return refused_round_.load() == round ? std::optional(non_finite_element_.load()) : std::nullopt;
}

std::shared_ptr<judging_functions> sparse_functions(std::string_view algorithm, const sparse_problem& problem,
                                                    sparse_state& state, std::uint32_t children) {
  if (algorithm == "oktopk") return std::make_shared<oktopk_functions>(problem, state);
  if (algorithm == "topka") return std::make_shared<gather_functions<topka>>(problem, state);
  if (algorithm == "gaussiank") return std::make_shared<gather_functions<gaussiank>>(problem, state);
  if (algorithm == "topkdsa") return std::make_shared<topk_dsa_functions>(problem, state);
  if (algorithm == "gtopk") return std::make_shared<gtopk_functions>(problem, state, arrival_rule::exact, children);
  if (algorithm == "gtopk_published")
    return std::make_shared<gtopk_functions>(problem, state, arrival_rule::published, children);
  return nullptr;
}

}  // namespace lsched
