// What the functions of sparse allreduces have in common: the lists of a buffer, and the functions of algorithms in
// which every rank gets every list.
#pragma once

#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "collectives/sparse/functions/sparse_functions.h"
#include "collectives/sparse/protocol/topka_steps.h"
#include "collectives/sparse/steps/topka.h"

namespace lsched {

inline item_list list_of(const function_input& from, std::uint64_t i = 0) { return {from.items(i), from.length(i)}; }

/// All of a buffer of packed lists.
inline item_list whole(const function_input& from) {
  const item_run all = from.lists->run_of(0, from.count);
  return {from.data + all.begin * from.width, all.count};
}

inline void gather(const function_input& from, std::vector<item_list>& lists) {
  for (std::uint64_t i = 0; i < lists.size(); ++i) lists[i] = list_of(from, i);
}

/// Of a buffer of one list.
inline status set_length(const function_output& of, std::uint64_t items) {
  return of.lists->set_length(0, items) ? status::ok : status::bounds;
}

inline status lay_out(const function_output& of, std::span<const std::uint64_t> lengths) {
  return of.lists->lay_out(lengths) ? status::ok : status::bounds;
}

inline status copy(item_list from, const function_output& to) {
  if (from.count != 0) std::memcpy(to.data, from.items, from.count * to.width);
  return set_length(to, from.count);
}

inline std::size_t ranks_of(const sparse_problem& problem) { return static_cast<std::size_t>(problem.place.size); }

/// Of topka, and of a type like it.
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

}  // namespace lsched
