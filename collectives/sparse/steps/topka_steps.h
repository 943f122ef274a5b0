// TopkA: every rank receives the k largest elements (by magnitude) of every rank and sums them. (Renggli and others,
// SparCML, SC 2019: sparse allgather.)
//
//   select      add the gradient to the residual, and select the k largest elements
//   allgather   gather all lists, in rank order          (up to k (P - 1) items per rank)
//   add         sum all lists, in rank order: up to k P items
//   settle      remove sent items from the residual; the update is the sum / P
//
// Between select() and settle(), the residual includes the gradient, so a round that fails loses nothing.
#pragma once

#include <cstring>

#include "collectives/sparse/steps/lists.h"
#include "collectives/sparse/steps/sparse_functions.h"

namespace lsched {

/// The computations of one rank in TopkA. All sent items contribute to the result. The constructor allocates a vector
/// of sums. Used by one thread at a time.
class topka : public round_end {
 public:
  explicit topka(const sparse_problem& problem);

  std::uint64_t list_room() const { return list_room_; }      ///< maximum number of items that a rank sends
  std::uint64_t result_room() const { return result_room_; }  ///< maximum number of items of a result

  /// Writes the items that this rank sends, and returns their number. `residual` has `count` elements of
  /// residual_of(type). `gradient` has `count` elements, or is nullptr.
  std::uint64_t select(std::byte* residual, const std::byte* gradient, top_k_hint& hint, std::byte* items);

  /// Writes the sum of `lists`, and returns the length of the sum. `lists` has the list of each rank, in rank order.
  /// The indices of the lists are positions in the vector.
  std::uint64_t add(std::span<const item_list> lists, std::byte* result);

  /// Ends a round. `sent` is the output of select(), and `result` the output of add(). `update` must have `count`
  /// elements, or be nullptr (round_end).
  void settle(item_list sent, item_list result, std::byte* residual, std::byte* update) {
    // `arrived` is `sent`, not `result`, because contributions that cancel out have no item in the result.
    round_end::settle(sent, sent, result, residual, update);
  }
  /// Returns a job for the device that does the work of settle(). The vectors must be in device memory.
  const sparse_job* prepare_to_settle(item_list sent, item_list result, std::byte* update) {
    return round_end::prepare_to_settle(sent, sent, result, update);
  }
  device_vectors& vectors() { return vectors_; }
  const device_vectors& vectors() const { return vectors_; }

 private:
  std::uint64_t count_, list_room_, result_room_;
  own_top_k own_;
  region_sum sum_;
};

/// The functions that TopkA's schedule calls, in the order of a round.
enum class topka_step : std::uint32_t {
  select,  ///< selects elements of gradient and residual for the list that this rank sends
  settle   ///< converts the lists of all ranks to the update
};

class topka_functions final : public functions_of_steps<topka> {
 public:
  topka_functions(const sparse_problem& problem, sparse_state& state)
      : functions_of_steps<topka>(problem, state),
        lists_(problem.ranks()),
        width_(item_size(problem.type)),
        result_(steps_.result_room() * width_) {}

  status call(std::uint32_t number, round_no round, const function_input& source, const function_input&,
              const function_output& target) override {
    if (is_select(number)) {
      sent_ = {target.data, is_used() ? take_selected(target.data)
                                      : steps_.select(residual(), source.data, state_.hint, target.data)};
      return set_length(target, sent_.count);
    }
    if (is_used()) return status::ok;
    steps_.settle(sent_, sum_of(source), residual(), target.data);
    return finish(round);
  }

  bool use_devices() const override { return true; }
  function_memory memory_on_device() const override { return steps_.vectors().memory(state_.loaded_residual()); }
  void use_device(std::byte* device, std::byte* staging) override {
    steps_.vectors().use(device, staging);
    state_.move_residual(device);
  }
  result<const sparse_job*> prepare(std::uint32_t number, round_no round, const function_input& source,
                                    const function_input&, const function_output& target) override {
    if (is_select(number)) return steps_.vectors().select(source.data);
    const sparse_job* const job = steps_.prepare_to_settle(sent_, sum_of(source), target.data);
    (void)finish(round);
    return job;
  }

 private:
  static bool is_select(std::uint32_t number) { return static_cast<topka_step>(number) == topka_step::select; }
  bool is_used() const { return steps_.vectors().is_used(); }
  item_list sum_of(const function_input& source) {
    gather(source, lists_);
    return {result_.data(), steps_.add(lists_, result_.data())};
  }
  std::uint64_t take_selected(std::byte* items) const {
    const item_list found = steps_.vectors().selected();
    if (found.count != 0) std::memcpy(items, found.items, found.count * width_);
    return found.count;
  }

  std::vector<item_list> lists_;  ///< lists of all ranks, by rank
  std::size_t width_;             ///< size of an item in bytes
  std::vector<std::byte> result_;
  item_list sent_{};  ///< list that this rank has sent, in the instance's memory
};

}  // namespace lsched
