#include "collectives/sparse/coo_allreduce.h"

#include <algorithm>

#include "collectives/allgather/allgather.h"
#include "collectives/patterns/lists.h"
#include "collectives/sparse/steps/coo.h"

namespace lsched {
namespace {

enum : std::uint32_t { k_part_tags = 0, k_tally_tags = 64, k_sum_tags = 128, k_sample_tags = 192, k_length_tags = 256 };

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
  /// Appends a call of a function, which runs after all previous functions.
  void apply(kernel what, coo_step step, buffer_id source, buffer_id by, buffer_id target) {
    const op_id before = last_;
    last_ = to_.apply(what, static_cast<std::uint32_t>(step), source, by, target);
    to_.dep(before, last_);
  }

  /// Divides the items of this rank into lists, one for each region.
  void take() {
    const std::uint64_t all = taken_room(problem_), room = part_room(problem_);
    typical_ = std::min(room, std::max<std::uint64_t>(1, all / ranks_));
    const buffer_id indices = to_.input(dtype::u64, problem_.room), values = to_.input(problem_.type, problem_.room);
    const buffer_id number = to_.input(dtype::u64, 1), seen = to_.scratch(dtype::u64, 1);
    parts_ = to_.lists(buffer_role::scratch, item_of(accumulator()), ranks_,
                       {.room = room, .total = all, .typical = typical_});
    apply(kernel::derive, coo_step::see_indices, indices, k_no_buffer, seen);
    apply(kernel::derive, coo_step::see_values, values, k_no_buffer, seen);
    const buffer_id samples = problem_.is_balanced ? sample(number) : k_no_buffer;
    apply(kernel::split, coo_step::take, number, samples, parts_);
  }

  buffer_id sample(buffer_id number) {
    const std::uint64_t most = sample_room(problem_);
    const buffer_id mine = to_.scratch(dtype::u64, most), all = to_.scratch(dtype::u64, most * ranks_);
    apply(kernel::derive, coo_step::sample, number, k_no_buffer, mine);
    allgather(k_sample_tags, mine, all);
    return all;
  }

  void allgather(std::uint32_t tag, buffer_id mine, buffer_id all) {
    to_.set_first_tag(tag);
    const shape block{.count = to_.at(mine).count, .type = dtype::u64};
    last_ = to_.nop({last_, add_allgather_dissemination(to_, block, mine, all, last_).exit});
  }

  /// Exchanges the lists, and sums the lists of this rank's region.
  void split() {
    const std::uint64_t room = sum_room(problem_);
    received_ = to_.lists(buffer_role::scratch, item_of(accumulator()), ranks_,
                          {.room = part_room(problem_),
                           .total = problem_.is_balanced ? received_room(problem_) : 0,
                           .typical = typical_});
    sum_ = to_.lists(buffer_role::scratch, item_of(problem_.type), 1,
                     {.room = room, .typical = std::min(room, typical_ * ranks_)});
    const op_id ready = problem_.is_balanced ? lay_out() : k_no_op;
    to_.set_first_tag(k_part_tags);
    const guard when{.skips_empty = problem_.is_balanced};
    last_ = add_list_exchange(to_, {parts_, received_, last_, ready, when}, exit_);
    apply(kernel::fold, coo_step::sum, received_, k_no_buffer, sum_);
  }

  /// Sends to each rank the length of the list for that rank, so that the receiver can pack the lists.
  op_id lay_out() {
    const buffer_id mine = to_.scratch(dtype::u64, ranks_), all = to_.scratch(dtype::u64, ranks_);
    const op_id measured = to_.measure({parts_, 0}, {mine, 0}, ranks_, {last_});
    to_.set_first_tag(k_length_tags);
    const op_id told = add_list_exchange(to_, {.from = mine, .into = all, .sent = measured}, exit_);
    return to_.lay_out({all, 0}, received_, {told});
  }

  /// Exchanges the lengths of all sums, and the coo_flaw of each rank's items.
  void agree() {
    const buffer_id tally = to_.scratch(dtype::u64, k_coo_tally),
                    tallies = to_.scratch(dtype::u64, k_coo_tally * ranks_);
    lengths_ = to_.scratch(dtype::u64, ranks_);
    apply(kernel::derive, coo_step::tally, sum_, k_no_buffer, tally);
    allgather(k_tally_tags, tally, tallies);
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
  std::uint64_t typical_ = 0;  ///< typical number of items of a list
  buffer_id parts_ = k_no_buffer, received_ = k_no_buffer, sum_ = k_no_buffer, lengths_ = k_no_buffer;
  op_id last_ = k_no_op;  ///< last op so far that calls a function
  const op_id exit_;
};

}  // namespace

result<schedule_ptr> coo_schedule(const coo_problem& problem) {
  if (auto why = validate(problem)) return std::move(*why);
  builder to(problem.place, "coo_allreduce");
  coo_rank(to, problem).write();
  return to.compile();
}

}  // namespace lsched
