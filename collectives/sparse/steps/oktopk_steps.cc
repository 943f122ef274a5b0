#include "collectives/sparse/steps/oktopk_steps.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "ops/elementwise/elementwise.h"

namespace lsched {
namespace {

constexpr std::uint64_t k_workspace = 4;  // capacity of the workspace divided by k; usually enough for a single pass

std::uint64_t selection_room(const sparse_problem& problem) {
  return std::min(problem.count, k_workspace * most_items(problem));
}

/// Converts a magnitude from the items' type to the residual's type. A NaN stays a NaN.
std::uint64_t widened(dtype type, std::uint64_t magnitude) {
  std::uint64_t bits = 0;
  find_convert(type, residual_of(type))(&magnitude, 1, 1, &bits);
  return bits;
}

}  // namespace

oktopk_steps::oktopk_steps(const sparse_problem& problem, sparse_state& state)
    : round_end(problem, gathered_room(problem)),
      problem_(problem),
      state_(state),
      boundaries_(state.boundaries().begin(), state.boundaries().end()),
      parts_(problem),
      selected_(selection_room(problem) * item_size(problem.type)),
      sent_(most_selected(problem) * item_size(problem.type)),
      sum_(problem.type, problem.count, problem.nans),
      threshold_(problem.type, most_items(problem)),
      kept_(problem.ranks()),
      plan_(problem.place.size),
      best_(reuses() ? gathered_room(problem) * item_size(problem.type) : 0),
      lists_(problem.ranks()),
      pieces_(problem.ranks()),
      shares_(problem.ranks()) {}

item_list oktopk_steps::select(const void* gradient) {
  const accumulation from{.residual = state_.residual(),
                          .gradient = gradient,
                          .scale = problem_.scale,
                          .count = problem_.count,
                          .first_index = 0};
  looks_ = !reuses() || state_.thresholds().left == 0;
  return begin_round(looks_ ? select_largest(from) : select_by_threshold(from));
}

item_list oktopk_steps::begin_round(std::uint64_t selected) {
  selected_count_ = selected;
  const auto settled = state_.boundaries();
  std::copy(settled.begin(), settled.end(), boundaries_.begin());
  return {selected_.data(), selected_count_};
}

std::uint64_t oktopk_steps::select_largest(const accumulation& from) {
  const std::uint64_t k = most_items(problem_), room = selection_room(problem_);
  const top_k_list found =
      sparse_kernels_of(problem_.type).top_k(from, k, problem_.nans, selected_.data(), room, state_.hint);
  next_ = {};
  if (reuses()) next_ = {.local = found.count == k ? found.magnitude : 0, .left = problem_.reuse - 1};
  return found.count;
}

/// Let x be the largest number of the items' type below the threshold. Rounding is monotone, so only elements above x
/// can be rounded to the threshold. The range begins just above x. If the threshold is a NaN, the range contains all
/// NaNs, because all of them are rounded to the same NaN.
magnitude_range oktopk_steps::range_from(std::uint64_t threshold) const {
  const std::uint64_t infinity = magnitude_in(residual_of(problem_.type), std::numeric_limits<double>::infinity());
  magnitude_range range{.least = std::min(widened(problem_.type, threshold - 1), infinity) + 1};
  if (problem_.nans == nan_policy::ignore) range.most = infinity;
  return range;
}

std::uint64_t oktopk_steps::select_by_threshold(const accumulation& from) {
  next_ = state_.thresholds();
  --next_.left;
  const sparse_kernels& kernels = sparse_kernels_of(problem_.type);
  const std::uint64_t room = most_selected(problem_), least = std::max<std::uint64_t>(1, next_.local);
  const select_result found = kernels.accumulate_select(from, range_from(least), selected_.data(), room);
  std::uint64_t count = found.stored;
  if (found.counted > found.stored) {
    const accumulation rest{.residual = from.residual, .count = from.count, .first_index = from.first_index};
    count = kernels.top_k(rest, room, problem_.nans, selected_.data(), room, hint_).count;
  }
  return kernels.filter_items(selected_.data(), count, least - 1, 0, selected_.data());
}

void oktopk_steps::count_positions(std::span<std::uint64_t> bins) const {
  lsched::count_positions(problem_, {selected_.data(), selected_count_}, bins);
}

void oktopk_steps::set_boundaries(std::span<const std::uint64_t> sums) {
  place_boundaries(problem_, sums, boundaries_);
}

void oktopk_steps::count_drift(std::span<std::uint64_t> bins) {
  parts_.divide(boundaries_);
  parts_.count({selected_.data(), selected_count_}, bins);
}

void oktopk_steps::follow_drift(std::span<const std::uint64_t> sums) { parts_.move(sums, boundaries_); }

std::uint64_t oktopk_steps::split(round_no round, std::byte* items, std::span<std::uint64_t> lengths) {
  const item_list selected{selected_.data(), selected_count_};
  sent_count_ = lsched::split(problem_, problem_.rounds_before + round, selected, boundaries_, sent_.data(), lengths);
  if (sent_count_ > 0) std::memcpy(items, sent_.data(), sent_count_ * item_size(problem_.type));
  return sent_count_;
}

std::uint64_t oktopk_steps::fold(std::span<const item_list> lists, std::byte* sums) {
  for (const item_list& list : lists) sum_.add(list);
  const auto region = static_cast<std::size_t>(problem_.place.self);
  return sum_.take(boundaries_[region], boundaries_[region + 1], sums);
}

void oktopk_steps::count_magnitudes(unsigned pass, item_list sums, std::span<const std::uint64_t> before,
                                    std::span<std::uint64_t> bins) {
  threshold_.count(pass, sums, before, bins);
}

void oktopk_steps::tally(item_list sums, std::span<const std::uint64_t> last, std::span<std::uint64_t> numbers) {
  const magnitude_tally mine = reuses() ? magnitude_tally{.above = items_from(problem_.type, sums, least_gathered())}
                                        : threshold_.finish(sums, last);
  numbers[0] = mine.above;
  numbers[1] = mine.equal;
}

void oktopk_steps::plan(std::span<const std::uint64_t> tallies, std::span<std::uint64_t> pieces,
                        std::span<std::uint64_t> sources, std::span<std::uint64_t> shares) {
  std::uint64_t above = 0;
  for (std::size_t r = 0; r < kept_.size(); ++r) above += tallies[2 * r];
  std::uint64_t ties = reuses() ? 0 : most_items(problem_) - above;  // number of kept items with the k-th magnitude
  for (std::size_t r = 0; r < kept_.size(); ++r) {
    const std::uint64_t taken = std::min(ties, tallies[2 * r + 1]);
    if (r == static_cast<std::size_t>(problem_.place.self)) ties_ = taken;
    kept_[r] = tallies[2 * r] + taken;
    ties -= taken;
  }
  plan_.make(kept_, problem_.balance);
  plan_.pieces_of(problem_.place.self, pieces);
  plan_.sources_of(problem_.place.self, sources);
  std::copy(plan_.shares().begin(), plan_.shares().end(), shares.begin());
}

std::uint64_t oktopk_steps::cut(item_list sums, std::byte* kept) const {
  const std::uint64_t below = reuses() ? least_gathered() - 1 : threshold_.magnitude();
  return sparse_kernels_of(problem_.type).filter_items(sums.items, sums.count, below, ties_, kept);
}

std::uint64_t oktopk_steps::least_gathered() const {
  return looks_ ? 1 : std::max<std::uint64_t>(1, state_.thresholds().global);
}

item_list oktopk_steps::result_of(item_list gathered) {
  if (!reuses() || !looks_) return gathered;
  if (gathered.count > 0) std::memcpy(best_.data(), gathered.items, gathered.count * item_size(problem_.type));
  const std::uint64_t k = most_items(problem_);
  const kept_items kept = sparse_kernels_of(problem_.type).keep_largest(best_.data(), gathered.count, k);
  next_.global = kept.count == k ? kept.magnitude : 0;
  return {best_.data(), kept.count};
}

std::uint64_t oktopk_steps::settle(item_list gathered, void* update) {
  const item_list sent{sent_.data(), sent_count_}, result = result_of(gathered);
  const std::uint64_t settled =
      round_end::settle(sent, result, result, state_.residual(), static_cast<std::byte*>(update));
  end_round();
  return settled;
}

void oktopk_steps::end_round() {
  sent_count_ = 0;
  if (non_finite_element()) next_ = {};
  state_.finish_round(boundaries_, next_);
}

item_list oktopk_steps::take_selected() {
  const item_list found = vectors_.selected();
  if (found.count != 0) std::memcpy(selected_.data(), found.items, found.count * item_size(problem_.type));
  return begin_round(found.count);
}

void oktopk_steps::use_device(std::byte* device, std::byte* staging) {
  vectors_.use(device, staging);
  state_.move_residual(device);
}

// The outcome of the round is stored before the device has done its part. This is safe, because all ranks have the same
// outcome, and an accepted job always completes.
result<const sparse_job*> oktopk_steps::prepare(std::uint32_t number, round_no round, const function_input& source,
                                                const function_input&, const function_output& target) {
  if (number == number_of(oktopk_step::select)) return vectors_.select(source.data);
  if (number != number_of(oktopk_step::settle)) return failure{status::internal, "this step does not use a vector"};
  const item_list arrived = whole(source);
  const sparse_job* const job = prepare_to_settle({sent_.data(), sent_count_}, arrived, arrived, target.data);
  end_round();
  note(round, non_finite_element());
  return job;
}

status oktopk_steps::call(std::uint32_t number, round_no round, const function_input& source, const function_input& by,
                          const function_output& target) {
  if (number >= number_of(oktopk_step::count_sums) && number < number_of(oktopk_step::tally)) {
    const unsigned pass = number - number_of(oktopk_step::count_sums);
    count_magnitudes(pass, list_of(source), by.numbers<std::uint64_t>(), target.numbers<std::uint64_t>());
    return status::ok;
  }
  switch (static_cast<oktopk_step>(number)) {
    case oktopk_step::select: return copy(vectors_.is_used() ? take_selected() : select(source.data), target);
    case oktopk_step::count_positions: count_positions(target.numbers<std::uint64_t>()); break;
    case oktopk_step::set_boundaries: set_boundaries(by.numbers<std::uint64_t>()); break;
    case oktopk_step::count_drift: count_drift(target.numbers<std::uint64_t>()); break;
    case oktopk_step::follow_drift: follow_drift(by.numbers<std::uint64_t>()); break;
    case oktopk_step::split: split(round, target.data, pieces_); return lay_out(target, pieces_);
    case oktopk_step::add: gather(source, lists_); return set_length(target, fold(lists_, target.data));
    case oktopk_step::tally:
      tally(list_of(source), by.numbers<std::uint64_t>(), target.numbers<std::uint64_t>());
      break;
    case oktopk_step::plan: plan(by.numbers<std::uint64_t>(), pieces_, target.numbers<std::uint64_t>(), shares_); break;
    case oktopk_step::shares: std::ranges::copy(shares_, target.numbers<std::uint64_t>().begin()); break;
    case oktopk_step::cut: cut(list_of(source), target.data); return lay_out(target, pieces_);
    case oktopk_step::share: return copy(whole(source), target);
    case oktopk_step::settle:
      if (vectors_.is_used()) break;
      settle(whole(source), target.data);
      note(round, non_finite_element());
      break;
    default: return status::internal;
  }
  return status::ok;
}

}  // namespace lsched
