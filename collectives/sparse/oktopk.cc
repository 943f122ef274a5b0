// Ok-Topk, for every P: sums the k largest elements (by magnitude) of every rank's vector, and keeps the k largest
// sums. (Li and Hoefler, Near-Optimal Sparse Allreduce for Distributed Deep Learning, 2022.)
//
//   select      selects the k largest elements of the rank's residual (ops/sparse/sparse.h)
//   split       sends the selected elements of region r to rank r, which sums them
//   threshold   finds the k-th largest sum of all regions, by a few allreduces of counters
//   balance     redistributes the sums above the threshold in equal shares, if that reduces the traffic
//   gather      gathers the shares by dissemination, in ceil(log2 P) messages
//
// With reused thresholds (selection_rule), the step `threshold` needs no allreduce. All sums are gathered in rounds
// that search for new thresholds. In other rounds, the same sums are gathered as in the paper. The schedule is the same
// in all rounds, and its buffers have capacity for the largest round.
//
// Ops with a guard (a condition on rounds, schedule.h) recompute the boundaries of the regions every `period` rounds.
// An index or a value is a word. A rank sends and receives at most 6 k (P-1)/P words, plus counters and lengths
// (docs/reference/sparse.md). The computations of a rank between messages are functions (oktopk_steps.h).
#include "collectives/allgather/allgather.h"
#include "collectives/allreduce/allreduce.h"
#include "collectives/patterns/lists.h"
#include "collectives/sparse/sparse_allreduce.h"
#include "collectives/sparse/steps/oktopk_steps.h"
#include "libsched/schedule/geometry.h"

namespace lsched {
namespace {

/// Each part of the algorithm has its own tags.
enum class stretch_of_tags : std::uint32_t { parts, pieces, shares, counts, positions, drift, sums };
constexpr std::uint32_t k_tags_of_one = 64;

class oktopk_rank {
 public:
  oktopk_rank(builder& to, const sparse_problem& problem, const sparse_ends& ends)
      : to_(to),
        problem_(problem),
        ends_(ends),
        ranks_(problem.ranks()),
        items_(item_of(problem.type)),
        k_(std::max<std::uint64_t>(1, most_items(problem))),
        selected_room_(std::max<std::uint64_t>(1, most_selected(problem))),
        gathered_room_(std::max<std::uint64_t>(1, gathered_room(problem))),
        exit_(to.nop()) {}

  fragment write() {
    selected_ = to_.lists(buffer_role::scratch, items_, 1, {.room = selected_room_, .typical = k_});
    const op_id chosen = apply(kernel::split, oktopk_step::select, ends_.gradient, k_no_buffer, selected_);
    split(follow(look(chosen)));
    find_threshold();
    balance();
    gather();
    last_ = apply(kernel::join, oktopk_step::settle, gathered_, ends_.contributor_count, ends_.update,
                  {last_, ends_.counted});
    to_.dep(last_, exit_);
    return {.exit = exit_};
  }

 private:
  op_id apply(kernel how, oktopk_step step, buffer_id source, buffer_id by, buffer_id target, builder::deps after = {},
              unsigned pass = 0) {
    return to_.apply(how, number_of(step, pass), source, by, target, after);
  }
  void begin_tags(stretch_of_tags which, std::uint32_t number = 0) {
    to_.set_first_tag((static_cast<std::uint32_t>(which) + number) * k_tags_of_one);
  }
  /// Returns a buffer for pieces. Ranks exchange pieces to make their shares equal (balance.h). Typically the pieces
  /// for other ranks are empty, because the boundaries already balance the shares.
  buffer_id pieces() {
    return to_.lists(buffer_role::scratch, items_, ranks_, {.room = gathered_room_, .total = gathered_room_});
  }
  /// Appends an allreduce (sum) from buffer `mine` to buffer `all`. Returns the op after which `all` is complete.
  op_id allreduce(buffer_id mine, buffer_id all, op_id entry) {
    return add_allreduce(to_, {.count = to_.at(mine).count, .type = dtype::u64, .what = kernel::sum}, mine, all, entry)
        .exit;
  }

  /// Counts the selected items, sums the counters of all ranks, and sets the boundaries from these sums.
  op_id set_boundaries(std::uint64_t counters, stretch_of_tags tags, oktopk_step count, oktopk_step set, op_id after) {
    const buffer_id mine = to_.scratch(dtype::u64, counters), all = to_.scratch(dtype::u64, counters);
    const buffer_id nothing = to_.scratch(dtype::u64, 1);
    begin_tags(tags);
    const op_id counted = apply(kernel::derive, count, selected_, k_no_buffer, mine, {after});
    return apply(kernel::derive, set, mine, all, nothing, {allreduce(mine, all, counted)});
  }

  /// Recomputes the boundaries, in the rounds for which the guard looks_of() is true.
  op_id look(op_id chosen) {
    const auto first = static_cast<op_id>(to_.op_count());
    const op_id done = set_boundaries(position_bins(problem_), stretch_of_tags::positions, oktopk_step::count_positions,
                                      oktopk_step::set_boundaries, chosen);
    if (problem_.period > 1) to_.set_guard(first, static_cast<op_id>(to_.op_count()), looks_of(problem_));
    return done;
  }

  /// Adjusts the boundaries to the selected items, in every round.
  op_id follow(op_id looked) {
    if (drift_bins(problem_) == 0) return looked;
    return set_boundaries(drift_bins(problem_), stretch_of_tags::drift, oktopk_step::count_drift,
                          oktopk_step::follow_drift, looked);
  }

  void split(op_id ready) {
    const std::uint64_t room = std::max<std::uint64_t>(1, list_room(problem_));
    const std::uint64_t typical = std::min(room, typical_share(problem_, k_));
    const std::uint64_t total = std::max<std::uint64_t>(1, sent_room(problem_));
    const buffer_id parts =
        to_.lists(buffer_role::scratch, items_, ranks_, {.room = room, .total = total, .typical = typical});
    const buffer_id received = to_.lists(buffer_role::scratch, items_, ranks_, {.room = room, .typical = typical});
    const std::uint64_t most = std::max<std::uint64_t>(1, sum_room(problem_));
    const std::uint64_t sum = std::min(most, typical_share(problem_, typical_union(problem_)));
    sums_ = to_.lists(buffer_role::scratch, items_, 1, {.room = most, .typical = sum});
    begin_tags(stretch_of_tags::parts);
    const op_id cut = apply(kernel::split, oktopk_step::split, selected_, k_no_buffer, parts, {ready});
    const op_id all =
        add_list_exchange(to_, {.from = parts, .into = received, .sent = cut, .bucket = problem_.bucket}, exit_);
    last_ = apply(kernel::fold, oktopk_step::add, received, k_no_buffer, sums_, {all});
  }

  /// Finds the threshold, and the number of sums that each rank keeps.
  void find_threshold() {
    buffer_id before = k_no_buffer;
    for (unsigned pass = 0; pass < threshold_passes(problem_); ++pass) {
      const std::uint64_t counters = threshold_bins(problem_.type, pass);
      const buffer_id mine = to_.scratch(dtype::u64, counters), all = to_.scratch(dtype::u64, counters);
      begin_tags(stretch_of_tags::sums, pass);
      last_ = apply(kernel::derive, oktopk_step::count_sums, sums_, before, mine, {last_}, pass);
      last_ = to_.nop({allreduce(mine, all, last_), last_});
      before = all;
    }
    tally_ = to_.scratch(dtype::u64, 2);
    tallies_ = to_.scratch(dtype::u64, 2 * ranks_);
    last_ = apply(kernel::derive, oktopk_step::tally, sums_, before, tally_, {last_});
    begin_tags(stretch_of_tags::counts);
    const shape block{.count = 2, .type = dtype::u64};
    last_ = to_.nop({add_allgather_dissemination(to_, block, tally_, tallies_, last_).exit, last_});
  }

  void balance() {
    const buffer_id lengths = to_.scratch(dtype::u64, ranks_);
    shares_ = to_.scratch(dtype::u64, ranks_);
    const buffer_id leaving = pieces(), coming = pieces();
    share_ =
        to_.lists(buffer_role::scratch, items_, 1, {.room = gathered_room_, .typical = typical_share(problem_, k_)});
    begin_tags(stretch_of_tags::pieces);
    const op_id plan = apply(kernel::derive, oktopk_step::plan, tally_, tallies_, lengths, {last_});
    const op_id share = apply(kernel::derive, oktopk_step::shares, tallies_, tallies_, shares_, {plan});
    const op_id cut = apply(kernel::split, oktopk_step::cut, sums_, tallies_, leaving, {share});
    const op_id ready = to_.lay_out({lengths, 0}, coming, {plan});
    const op_id all = add_list_exchange(to_, {leaving, coming, cut, ready, {.skips_empty = true}}, exit_);
    last_ = apply(kernel::join, oktopk_step::share, coming, k_no_buffer, share_, {all});
  }

  void gather() {
    begin_tags(stretch_of_tags::shares);
    const std::uint64_t room = gathered_room_;
    const list_layout layout{.room = room, .total = room, .typical = typical_share(problem_, k_)};
    const gathered_lists all = add_list_gather(to_, share_, {shares_, 0}, layout, 0, last_, exit_);
    gathered_ = all.lists;
    last_ = all.done;
  }

  builder& to_;
  const sparse_problem& problem_;
  const sparse_ends& ends_;
  const std::uint64_t ranks_;
  const dtype items_;
  const std::uint64_t k_, selected_room_, gathered_room_;  ///< numbers of items, at least 1 (list_layout)
  buffer_id selected_ = k_no_buffer, sums_ = k_no_buffer, tally_ = k_no_buffer, tallies_ = k_no_buffer;
  buffer_id shares_ = k_no_buffer, share_ = k_no_buffer, gathered_ = k_no_buffer;
  op_id last_ = k_no_op;  ///< last op so far that calls a function
  const op_id exit_;
};

}  // namespace

fragment add_oktopk(builder& to, const sparse_problem& problem, const sparse_ends& ends) {
  return oktopk_rank(to, problem, ends).write();
}

}  // namespace lsched
