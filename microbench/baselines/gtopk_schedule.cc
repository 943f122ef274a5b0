#include "microbench/baselines/gtopk_schedule.h"

#include <algorithm>

#include "collectives/algorithm/shape.h"
#include "libsched/schedule/geometry.h"
#include "microbench/baselines/rival_steps.h"
#include "ops/sparse/sparse.h"

namespace lsched {
namespace {

constexpr std::uint32_t number_of(gtopk_step step, std::uint32_t child = 0) {
  return static_cast<std::uint32_t>(step) + child;
}
enum : std::uint32_t { k_up_tag, k_down_tag, k_bitmap_tag };

class gtopk_rank {
 public:
  gtopk_rank(builder& to, const sparse_problem& problem, const sparse_ends& ends, bool is_exact)
      : to_(to),
        problem_(problem),
        ends_(ends),
        is_exact_(is_exact),
        self_(problem.place.self),
        tree_(problem.place.size, 2),
        k_(std::max<std::uint64_t>(1, most_items(problem))),
        exit_(to.nop()) {}

  fragment write() {
    partial_ = lists(1);
    last_ = to_.apply(kernel::split, number_of(gtopk_step::select), ends_.gradient, k_no_buffer, partial_);
    for (std::uint32_t i = 0; i < tree_.child_count(self_); ++i) merge(tree_.child_of(self_, i));
    const op_id got = result();
    if (is_exact_) tell(got);
    for (std::uint32_t i = tree_.child_count(self_); i-- > 0;)  // the deepest subtree first
      end(to_.send(tree_.child_of(self_, i), k_down_tag, {result_, 0}, 1, {got}));
    end(to_.apply(kernel::join, number_of(gtopk_step::settle), result_, ends_.contributor_count, ends_.update,
                  {got, last_, ends_.counted}));
    return {.exit = exit_};
  }

 private:
  buffer_id lists(std::uint64_t count) {
    return to_.lists(buffer_role::scratch, item_of(problem_.type), count, {.room = k_, .typical = k_});
  }
  void end(op_id what) { to_.dep(what, exit_); }

  /// What a child has, and what this rank has so far, side by side.
  void merge(rank child) {
    const buffer_id both = lists(2), next = lists(1);
    const op_id mine = to_.copy({partial_, 0}, {both, 0}, 1, {last_});
    const op_id theirs = to_.recv(child, k_up_tag, {both, 1}, 1);
    last_ = to_.apply(kernel::fold, number_of(gtopk_step::merge), both, k_no_buffer, next, {mine, theirs});
    partial_ = next;
  }

  /// The root's partial result, which is everybody's.
  op_id result() {
    result_ = lists(1);
    if (self_ == 0) return to_.copy({partial_, 0}, {result_, 0}, 1, {last_});
    end(to_.send(tree_.parent_of(self_), k_up_tag, {partial_, 0}, 1, {last_}));
    return to_.recv(tree_.parent_of(self_), k_down_tag, {result_, 0}, 1);
  }

  /// What has become of lists that came from children, by what has become of the one that went to the parent.
  void tell(op_id got) {
    const std::uint64_t words = bitmap_words(k_);
    buffer_id known = result_;
    last_ = to_.nop({last_, got});
    if (self_ != 0) {
      known = to_.scratch(dtype::u64, words);
      const op_id came = to_.recv(tree_.parent_of(self_), k_bitmap_tag, {known, 0}, words);
      const buffer_id nothing = to_.scratch(dtype::u64, 1);
      last_ = to_.apply(kernel::derive, number_of(gtopk_step::learn), known, k_no_buffer, nothing, {last_, came});
    }
    for (std::uint32_t i = tree_.child_count(self_); i-- > 0;) {
      const buffer_id survivors = to_.scratch(dtype::u64, words);
      last_ = to_.apply(kernel::derive, number_of(gtopk_step::survivors, i), known, k_no_buffer, survivors, {last_});
      end(to_.send(tree_.child_of(self_, i), k_bitmap_tag, {survivors, 0}, words, {last_}));
    }
  }

  builder& to_;
  const sparse_problem& problem_;
  const sparse_ends& ends_;
  const bool is_exact_;
  const rank self_;
  const knomial tree_;
  const std::uint64_t k_;
  const op_id exit_;
  buffer_id partial_ = k_no_buffer, result_ = k_no_buffer;
  op_id last_ = k_no_op;  ///< of what this rank computes
};

}  // namespace

fragment add_gtopk(builder& to, const sparse_problem& problem, const sparse_ends& ends, bool is_exact) {
  return gtopk_rank(to, problem, ends, is_exact).write();
}

std::uint32_t gtopk_children(world place) { return knomial(place.size, 2).child_count(place.self); }

}  // namespace lsched
