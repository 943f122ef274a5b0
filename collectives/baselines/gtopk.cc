#include "collectives/baselines/gtopk.h"

#include <algorithm>

#include "collectives/algorithm/shape.h"
#include "libsched/schedule/geometry.h"
#include "collectives/baselines/merge_add.h"

namespace lsched {
namespace {

bool has(const std::uint64_t* bits, std::size_t i) { return (bits[i / 64] >> i % 64 & 1) != 0; }

}  // namespace

gtopk::gtopk(const sparse_problem& problem, arrival_rule rule, std::uint32_t children)
    : round_end(problem, most_items(problem)),
      rule_(rule),
      room_(most_items(problem)),
      own_(problem),
      merged_(2 * room_ * item_size(problem.type)),
      parts_(rule == arrival_rule::exact ? children + 1 : 0) {
  for (part& one : parts_) {
    one.indices.reserve(room_);
    one.survivors.resize(bitmap_words(room_));
  }
}

std::uint64_t gtopk::select(std::byte* residual, const std::byte* gradient, top_k_hint& hint, std::byte* items) {
  sent_ = own_.select(residual, gradient, hint);
  std::copy_n(sent_.items, sent_.count * item_size(type_), items);
  n_parts_ = 0;
  take_up(sent_);
  return sent_.count;
}

std::uint64_t gtopk::merge(item_list partial, item_list child, std::byte* items) {
  const merge_add_fn merge_add = find_merge_add(type_);
  const std::size_t sum = merge_add(partial.items, partial.count, child.items, child.count, merged_.data());
  const std::size_t kept = sparse_kernels_of(type_).keep_largest(merged_.data(), sum, room_).count;
  std::copy_n(merged_.data(), kept * item_size(type_), items);
  take_up(child);
  for (std::size_t i = 0; i < n_parts_; ++i) strike(parts_[i], {items, kept}, nullptr);
  return kept;
}

void gtopk::learn(item_list partial, std::span<const std::uint64_t> survivors) {
  for (std::size_t i = 0; i < n_parts_; ++i) strike(parts_[i], partial, survivors.data());
}

void gtopk::settle(item_list result, std::byte* residual, std::byte* update) {
  round_end::settle(sent_, rule_ == arrival_rule::exact ? arrived() : result, result, residual, update);
}

/// Adds a part for `list`, and marks all of its items as present.
void gtopk::take_up(item_list list) {
  if (rule_ == arrival_rule::published) return;
  part& to = parts_[n_parts_++];
  to.indices.resize(list.count);
  for (std::size_t i = 0; i < list.count; ++i) to.indices[i] = index_at(type_, list.items, i);
  std::fill(to.survivors.begin(), to.survivors.end(), 0);
  for (std::size_t i = 0; i < list.count; ++i) to.survivors[i / 64] |= std::uint64_t{1} << i % 64;
}

/// Clears the bits of items that are not in the partial result, or whose bit in `survivors` is not set. If `survivors`
/// is nullptr, all items of the partial result survive.
void gtopk::strike(part& from, item_list partial, const std::uint64_t* survivors) const {
  std::size_t at = 0;
  for (std::size_t i = 0; i < from.indices.size(); ++i) {
    while (at < partial.count && index_at(type_, partial.items, at) < from.indices[i]) ++at;
    const bool is_there = at < partial.count && index_at(type_, partial.items, at) == from.indices[i];
    const bool survives = is_there && (survivors == nullptr || has(survivors, at));
    if (!survives) from.survivors[i / 64] &= ~(std::uint64_t{1} << i % 64);
  }
}

/// Returns this rank's own items that are part of the result.
item_list gtopk::arrived() {
  const std::size_t size = item_size(type_);
  std::byte* to = merged_.data();
  for (std::size_t i = 0; i < sent_.count; ++i)
    if (has(parts_[0].survivors.data(), i)) to = std::copy_n(sent_.items + i * size, size, to);
  return {merged_.data(), static_cast<std::uint64_t>(to - merged_.data()) / size};
}

// --- schedule and functions ------------------------------------------------------------------------------------------

namespace {

/// The functions that the schedule calls, in the order of a round.
enum class gtopk_step : std::uint32_t {
  select,    ///< adds the gradient to the residual, and selects this rank's list, the first partial result
  merge,     ///< adds a child's partial result to this rank's partial result
  learn,     ///< reads the parent's bitmap; writes no output
  settle,    ///< converts the result to the update; called after all bitmaps are known
  survivors  ///< survivors + i: writes the bitmap for child i, which follows from the parent's bitmap or the result
};

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
        children_(tree_.children_of(self_)),
        k_(std::max<std::uint64_t>(1, most_items(problem))),
        exit_(to.nop()) {}

  fragment write() {
    partial_ = lists(1);
    last_ = to_.apply(kernel::split, number_of(gtopk_step::select), ends_.gradient, k_no_buffer, partial_);
    for (const rank child : children_) merge(child);
    const op_id got = result();
    if (is_exact_) tell(got);
    for (std::size_t i = children_.size(); i-- > 0;)  // the deepest subtree first
      end(to_.send(children_[i], k_down_tag, {result_, 0}, 1, {got}));
    end(to_.apply(kernel::join, number_of(gtopk_step::settle), result_, ends_.contributor_count, ends_.update,
                  {got, last_, ends_.counted}));
    return {.exit = exit_};
  }

 private:
  buffer_id lists(std::uint64_t count) {
    return to_.lists(buffer_role::scratch, item_of(problem_.type), count, {.room = k_, .typical = k_});
  }
  void end(op_id last) { to_.dep(last, exit_); }

  /// Places the child's list beside this rank's partial result, and merges both.
  void merge(rank child) {
    const buffer_id both = lists(2), next = lists(1);
    const op_id mine = to_.copy({partial_, 0}, {both, 0}, 1, {last_});
    const op_id theirs = to_.recv(child, k_up_tag, {both, 1}, 1);
    last_ = to_.apply(kernel::fold, number_of(gtopk_step::merge), both, k_no_buffer, next, {mine, theirs});
    partial_ = next;
  }

  /// Sends this rank's partial result to the parent, and receives the root's partial result from the parent.
  op_id result() {
    result_ = lists(1);
    if (self_ == 0) return to_.copy({partial_, 0}, {result_, 0}, 1, {last_});
    end(to_.send(tree_.parent_of(self_), k_up_tag, {partial_, 0}, 1, {last_}));
    return to_.recv(tree_.parent_of(self_), k_down_tag, {result_, 0}, 1);
  }

  /// Sends the bitmaps for the lists of the children. The root computes these bitmaps from the result, and other ranks
  /// compute them from the parent's bitmap.
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
    for (auto i = static_cast<std::uint32_t>(children_.size()); i-- > 0;) {
      const buffer_id survivors = to_.scratch(dtype::u64, words);
      last_ = to_.apply(kernel::derive, number_of(gtopk_step::survivors, i), known, k_no_buffer, survivors, {last_});
      end(to_.send(children_[i], k_bitmap_tag, {survivors, 0}, words, {last_}));
    }
  }

  builder& to_;
  const sparse_problem& problem_;
  const sparse_ends& ends_;
  const bool is_exact_;
  const rank self_;
  const knomial tree_;
  const std::vector<rank> children_;
  const std::uint64_t k_;
  const op_id exit_;
  buffer_id partial_ = k_no_buffer, result_ = k_no_buffer;
  op_id last_ = k_no_op;  ///< last op of the computation
};

class gtopk_functions : public functions_of_steps<gtopk> {
 public:
  gtopk_functions(const sparse_problem& problem, sparse_state& state, arrival_rule rule, std::uint32_t children)
      : functions_of_steps(problem, state, rule, children) {}

  status call(std::uint32_t number, round_no round, const function_input& source, const function_input&,
              const function_output& target) override {
    switch (static_cast<gtopk_step>(number)) {
      case gtopk_step::select:
        partial_ = {target.data, steps_.select(residual(), source.data, state_.hint, target.data)};
        return set_length(target, partial_.count);
      case gtopk_step::merge:
        partial_ = {target.data, steps_.merge(list_of(source, 0), list_of(source, 1), target.data)};
        return set_length(target, partial_.count);
      case gtopk_step::learn: steps_.learn(partial_, source.numbers<std::uint64_t>()); return status::ok;
      case gtopk_step::settle: steps_.settle(list_of(source), residual(), target.data); return finish(round);
      default: break;
    }
    const std::uint32_t child = number - static_cast<std::uint32_t>(gtopk_step::survivors);
    std::ranges::copy(steps_.survivors_of(child), target.numbers<std::uint64_t>().begin());
    return status::ok;
  }

 private:
  item_list partial_{};  ///< this rank's partial result, in the instance's memory
};

}  // namespace

fragment add_gtopk(builder& to, const sparse_problem& problem, const sparse_ends& ends, arrival_rule rule) {
  return gtopk_rank(to, problem, ends, rule == arrival_rule::exact).write();
}

std::shared_ptr<sparse_functions> functions_of_gtopk(const sparse_problem& problem, sparse_state& state,
                                                     arrival_rule rule) {
  const auto children =
      static_cast<std::uint32_t>(knomial(problem.place.size, 2).children_of(problem.place.self).size());
  return std::make_shared<gtopk_functions>(problem, state, rule, children);
}

}  // namespace lsched
