#include "collectives/coo_allreduce.h"

#include <algorithm>
#include <array>

#include "collectives/allgather_dissemination.h"
#include "collectives/list_gather.h"
#include "ops/item.h"
#include "sparse/coo_steps.h"

namespace lsched {
namespace {

constexpr std::uint64_t k_tally = 2;
enum : std::uint32_t { k_part_tags = 0, k_tally_tags = 64, k_sum_tags = 128 };

class coo_rank {
 public:
  coo_rank(builder& to, const coo_problem& problem)
      : to_(to), problem_(problem), ranks_(wide(problem.place.size)), exit_(to.nop()) {}

  void write() {
    take();
    split();
    agree();
    give();
    to_.set_exit(exit_);
    to_.declare_synchronising();
  }

 private:
  static region at(buffer_id buffer, rank element) { return {buffer, wide(element)}; }

  /// After all functions so far.
  void apply(kernel what, coo_step step, buffer_id source, buffer_id by, buffer_id target) {
    const op_id before = last_;
    last_ = to_.apply(what, static_cast<std::uint32_t>(step), source, by, target);
    to_.dep(before, last_);
  }

  void take() {
    const std::uint64_t all = taken_room(problem_), room = part_room(problem_);
    typical_ = std::min(room, std::max<std::uint64_t>(1, all / ranks_));
    const buffer_id indices = to_.input(dtype::u64, problem_.room), values = to_.input(problem_.type, problem_.room);
    const buffer_id number = to_.input(dtype::u64, 1), seen = to_.scratch(dtype::u64, 1);
    parts_ = to_.lists(buffer_role::scratch, item_of(accumulator()), ranks_,
                       {.room = room, .total = all, .typical = typical_});
    apply(kernel::derive, coo_step::see_indices, indices, k_no_buffer, seen);
    apply(kernel::derive, coo_step::see_values, values, k_no_buffer, seen);
    apply(kernel::split, coo_step::take, number, k_no_buffer, parts_);
  }

  void split() {
    const auto [self, size] = problem_.place;
    const std::uint64_t room = sum_room(problem_);
    const buffer_id received = to_.lists(buffer_role::scratch, item_of(accumulator()), ranks_,
                                         {.room = part_room(problem_), .typical = typical_});
    sum_ = to_.lists(buffer_role::scratch, item_of(problem_.type), 1,
                     {.room = room, .typical = std::min(room, typical_ * ranks_)});
    to_.set_first_tag(k_part_tags);
    const op_id all = to_.nop({to_.copy(at(parts_, self), at(received, self), 1, {last_}), last_});
    for (rank distance = 1; distance < size; ++distance) {
      const rank peer = ring_after(self, distance, size);
      to_.dep(to_.send(peer, 0, at(parts_, peer), 1, {last_}), exit_);
    }
    for (rank distance = 1; distance < size; ++distance) {
      const rank peer = ring_before(self, distance, size);
      to_.dep(to_.recv(peer, 0, at(received, peer), 1), all);
    }
    last_ = all;
    apply(kernel::fold, coo_step::sum, received, k_no_buffer, sum_);
  }

  void agree() {
    const buffer_id tally = to_.scratch(dtype::u64, k_tally), tallies = to_.scratch(dtype::u64, k_tally * ranks_);
    lengths_ = to_.scratch(dtype::u64, ranks_);
    apply(kernel::derive, coo_step::tally, sum_, k_no_buffer, tally);
    to_.set_first_tag(k_tally_tags);
    last_ = to_.nop(
        {last_, add_allgather_dissemination(to_, {.count = k_tally, .type = dtype::u64}, tally, tallies, last_).exit});
    apply(kernel::derive, coo_step::plan, tally, tallies, lengths_);
    apply(kernel::fold, coo_step::keep, sum_, tallies, sum_);
  }

  void give() {
    const std::uint64_t room = sum_room(problem_);
    const list_layout layout{
        .room = room, .total = gathered_room(problem_), .typical = std::min(room, typical_ * ranks_)};
    to_.set_first_tag(k_sum_tags);
    const gathered_lists sums = add_list_gather(to_, sum_, {lengths_, 0}, layout, 0, last_, exit_);
    const buffer_id indices = to_.output(dtype::u64, problem_.result_room);
    const buffer_id values = to_.output(problem_.type, problem_.result_room), number = to_.output(dtype::u64, 1);
    last_ = sums.done;
    apply(kernel::join, coo_step::give_indices, sums.lists, k_no_buffer, indices);
    apply(kernel::join, coo_step::give_values, sums.lists, k_no_buffer, values);
    apply(kernel::join, coo_step::give_count, sums.lists, k_no_buffer, number);
    if (problem_.has_dense)
      apply(kernel::join, coo_step::give_dense, sums.lists, k_no_buffer, to_.output(problem_.type, problem_.count));
    to_.dep(last_, exit_);
  }

  dtype accumulator() const { return residual_of(problem_.type); }

  builder& to_;
  const coo_problem& problem_;
  const std::uint64_t ranks_;
  std::uint64_t typical_ = 0;  ///< items of a list
  buffer_id parts_ = k_no_buffer, sum_ = k_no_buffer, lengths_ = k_no_buffer;
  op_id last_ = k_no_op;  ///< of what this rank computes
  const op_id exit_;
};

}  // namespace

result<schedule_ptr> coo_schedule(const coo_problem& problem) {
  if (auto why = objection(problem)) return std::move(*why);
  builder to(problem.place, "coo_allreduce");
  coo_rank(to, problem).write();
  return to.compile();
}

postcondition promise_of_coo(const coo_problem& problem) {
  const std::array<std::uint64_t, 4> outputs{problem.result_room, problem.result_room, 1, problem.count};
  postcondition promise{.is_synchronising = true};
  for (rank holder = 0; holder < problem.place.size; ++holder)
    for (std::uint32_t output = 0; output < (problem.has_dense ? 4 : 3); ++output)
      promise.ranges.push_back({.holder = holder,
                                .output = output,
                                .end = outputs[output],
                                .what = promised_content::reduced,
                                .input = 2,
                                .how = kernel::fold,
                                .is_in_rank_order = true});
  return promise;
}

}  // namespace lsched
