// Base classes of the functions (functions.h) that schedules of sparse allreduces call. The functions execute the steps
// of this folder on the memory of an instance.
#pragma once

#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "collectives/sparse/steps/state.h"
#include "libsched/schedule/functions.h"

namespace lsched {

/// Base class of functions that can refuse a round under nan_policy::error. Stores the last refused round.
class sparse_functions : public functions {
 public:
  /// Returns the first non-finite element in the result of a round that was refused. Only the last refused round is
  /// stored. Thread-safe, once the round has ended.
  std::optional<std::uint32_t> non_finite_element_of(round_no round) const {
    return refused_round_.load() == round ? std::optional(non_finite_element_.load()) : std::nullopt;
  }

 protected:
  /// Stores the outcome of a settled round.
  void note(round_no round, std::optional<std::uint32_t> non_finite_element) {
    if (!non_finite_element) return;
    non_finite_element_.store(*non_finite_element);
    refused_round_.store(round);
  }

 private:
  std::atomic<round_no> refused_round_{0};
  std::atomic<std::uint32_t> non_finite_element_{0};
};

/// Functions that call the steps of class `Steps`. `Steps` is derived from round_end, and uses only the residual and
/// the hint of the state.
template <class Steps>
class functions_of_steps : public sparse_functions {
 public:
  void rebound() override { steps_.forget_update(); }

 protected:
  template <class... More>
  functions_of_steps(const sparse_problem& problem, sparse_state& state, More... more)
      : steps_(problem, more...), state_(state) {}

  std::byte* residual() const { return static_cast<std::byte*>(state_.residual()); }
  status finish(round_no round) {
    state_.finish_round(state_.boundaries());
    note(round, steps_.non_finite_element());
    return status::ok;
  }

  Steps steps_;
  sparse_state& state_;
};

// --- buffers of lists ------------------------------------------------------------------------------------------------

inline item_list list_of(const function_input& from, std::uint64_t i = 0) { return {from.items(i), from.length(i)}; }

/// Returns all lists of a packed buffer as one list.
inline item_list whole(const function_input& from) {
  const item_run all = from.lists->run_of(0, from.count);
  return {from.data + all.begin * from.width, all.count};
}

inline void gather(const function_input& from, std::vector<item_list>& lists) {
  for (std::uint64_t i = 0; i < lists.size(); ++i) lists[i] = list_of(from, i);
}

/// Sets the length of the list in a buffer that has one list.
inline status set_length(const function_output& target, std::uint64_t items) {
  return target.lists->set_length(0, items) ? status::ok : status::bounds;
}

inline status lay_out(const function_output& target, std::span<const std::uint64_t> lengths) {
  return target.lists->lay_out(lengths) ? status::ok : status::bounds;
}

inline status copy(item_list from, const function_output& to) {
  if (from.count != 0) std::memcpy(to.data, from.items, from.count * to.width);
  return set_length(to, from.count);
}

}  // namespace lsched
