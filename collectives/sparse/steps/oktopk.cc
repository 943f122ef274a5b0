#include "collectives/sparse/steps/oktopk.h"

#include <algorithm>
#include <cstring>

#include "collectives/sparse/protocol/quantiles.h"
#include "collectives/sparse/protocol/split.h"
#include "ops/sparse/sparse.h"

namespace lsched {
namespace {

constexpr std::uint64_t k_workspace = 4;               // times k: a pass over the residual will mostly do
constexpr std::uint64_t k_strays = ~std::uint64_t{0};  // a tally of nothing: items of another region have come

std::uint64_t selection_room(const sparse_problem& of) { return std::min(of.count, k_workspace * most_items(of)); }
std::size_t size_of_world(const sparse_problem& of) { return static_cast<std::size_t>(of.place.size); }

}  // namespace

oktopk_steps::oktopk_steps(const sparse_problem& of, sparse_state& state)
    : of_(of),
      state_(state),
      boundaries_(state.boundaries().begin(), state.boundaries().end()),
      parts_(of),
      selected_(selection_room(of) * item_size(of.type)),
      sent_(most_selected(of) * item_size(of.type)),
      sum_(of.type, of.count, of.nans),
      threshold_(of.type, most_items(of)),
      kept_(size_of_world(of)),
      plan_(of.place.size),
      judge_(of),
      by_threshold_(of),
      best_(reuses() ? gathered_room(of) * item_size(of.type) : 0) {
  updated_.reserve(gathered_room(of));
}

item_list oktopk_steps::select(const void* gradient) {
  const accumulation from{
      .residual = state_.residual(), .gradient = gradient, .scale = of_.scale, .count = of_.count, .first_index = 0};
  looks_ = !reuses() || state_.thresholds().left == 0;
  selected_count_ = looks_ ? select_largest(from) : select_by_threshold(from);
  const auto settled = state_.boundaries();
  std::copy(settled.begin(), settled.end(), boundaries_.begin());
  return {selected_.data(), selected_count_};
}

std::uint64_t oktopk_steps::select_largest(const accumulation& from) {
  const std::uint64_t k = most_items(of_), room = selection_room(of_);
  const top_k_list found = sparse_kernels_of(of_.type).top_k(from, k, of_.nans, selected_.data(), room, state_.hint);
  next_ = {};
  if (reuses()) next_ = {.local = found.count == k ? found.magnitude : 0, .left = of_.reuse - 1};
  return found.count;
}

std::uint64_t oktopk_steps::select_by_threshold(const accumulation& from) {
  next_ = state_.thresholds();
  --next_.left;
  return by_threshold_.select(from, next_.local, selected_.data());
}

void oktopk_steps::count_positions(std::span<std::uint64_t> bins) const {
  lsched::count_positions(of_, {selected_.data(), selected_count_}, bins);
}

void oktopk_steps::set_boundaries(std::span<const std::uint64_t> sums) { place_boundaries(of_, sums, boundaries_); }

void oktopk_steps::count_drift(std::span<std::uint64_t> bins) {
  parts_.divide(boundaries_);
  parts_.count({selected_.data(), selected_count_}, bins);
}

void oktopk_steps::follow_drift(std::span<const std::uint64_t> sums) { parts_.move(sums, boundaries_); }

std::uint64_t oktopk_steps::split(round_no round, std::byte* items, std::span<std::uint64_t> lengths) {
  sent_count_ = lsched::split(of_, round, {selected_.data(), selected_count_}, boundaries_, sent_.data(), lengths);
  if (sent_count_ > 0) std::memcpy(items, sent_.data(), sent_count_ * item_size(of_.type));
  return sent_count_;
}

bool oktopk_steps::is_of_own_region(std::span<const item_list> lists) const {
  const auto region = static_cast<std::size_t>(of_.place.self);
  return std::ranges::all_of(lists, [&](const item_list& list) {
    return items_below(of_.type, list, 0, boundaries_[region]) == 0 &&
           items_below(of_.type, list, 0, boundaries_[region + 1]) == list.count;
  });
}

std::uint64_t oktopk_steps::fold(std::span<const item_list> lists, std::byte* sums) {
  has_strays_ = !is_of_own_region(lists);
  if (has_strays_) return 0;
  for (const item_list& list : lists) sum_.add(list);
  const auto region = static_cast<std::size_t>(of_.place.self);
  return sum_.take(boundaries_[region], boundaries_[region + 1], sums);
}

void oktopk_steps::count_magnitudes(unsigned pass, item_list sums, std::span<const std::uint64_t> before,
                                    std::span<std::uint64_t> bins) {
  threshold_.count(pass, sums, before, bins);
}

void oktopk_steps::tally(item_list sums, std::span<const std::uint64_t> last, std::span<std::uint64_t> numbers) {
  const magnitude_tally mine =
      reuses() ? magnitude_tally{.above = items_from(of_.type, sums, least_gathered())} : threshold_.finish(sums, last);
  numbers[0] = has_strays_ ? k_strays : mine.above;
  numbers[1] = mine.equal;
}

void oktopk_steps::plan(std::span<const std::uint64_t> tallies, std::span<std::uint64_t> pieces,
                        std::span<std::uint64_t> sources, std::span<std::uint64_t> shares) {
  are_regions_alike_ = true;
  std::uint64_t above = 0;
  for (std::size_t r = 0; r < kept_.size(); ++r) {
    above += tallies[2 * r];
    if (tallies[2 * r] == k_strays) are_regions_alike_ = false;
  }
  std::uint64_t ties = reuses() ? 0 : most_items(of_) - above;  // that there is room for
  for (std::size_t r = 0; r < kept_.size(); ++r) {
    const std::uint64_t taken = std::min(ties, tallies[2 * r + 1]);
    if (r == static_cast<std::size_t>(of_.place.self)) ties_ = taken;
    kept_[r] = tallies[2 * r] + taken;
    ties -= taken;
  }
  if (!are_regions_alike_) {
    std::ranges::fill(kept_, 0);
    ties_ = 0;
  }
  plan_.make(kept_, of_.balance);
  plan_.pieces_of(of_.place.self, pieces);
  plan_.sources_of(of_.place.self, sources);
  std::copy(plan_.shares().begin(), plan_.shares().end(), shares.begin());
}

std::uint64_t oktopk_steps::cut(item_list sums, std::byte* kept) const {
  const std::uint64_t below = reuses() ? least_gathered() - 1 : threshold_.magnitude();
  return sparse_kernels_of(of_.type).filter_items(sums.items, sums.count, below, ties_, kept);
}

std::uint64_t oktopk_steps::least_gathered() const {
  return looks_ ? 1 : std::max<std::uint64_t>(1, state_.thresholds().global);
}

item_list oktopk_steps::result_of(item_list gathered) {
  if (!reuses() || !looks_) return gathered;
  if (gathered.count > 0) std::memcpy(best_.data(), gathered.items, gathered.count * item_size(of_.type));
  const std::uint64_t k = most_items(of_);
  const kept_items kept = sparse_kernels_of(of_.type).keep_largest(best_.data(), gathered.count, k);
  next_.global = kept.count == k ? kept.magnitude : 0;
  return {best_.data(), kept.count};
}

std::uint64_t oktopk_steps::settle(item_list gathered, void* update) {
  item_list result = result_of(gathered);
  if (!judge_.accepts(result, state_.residual())) result = {}, next_ = {};
  const std::uint64_t settled =
      sparse_kernels_of(of_.type).settle(state_.residual(), sent_.data(), sent_count_, result.items, result.count);
  sent_count_ = 0;
  if (update != nullptr) write_update(result, update);
  state_.finish_round(boundaries_, next_);
  return settled;
}

void oktopk_steps::write_update(item_list result, void* update) {
  clear_update(update);
  sparse_kernels_of(of_.type).scatter(result.items, result.count, static_cast<std::uint64_t>(of_.place.size), update);
  for (std::uint64_t i = 0; i < result.count; ++i) {
    std::uint32_t index;
    std::memcpy(&index, result.items + i * item_size(of_.type), sizeof index);
    updated_.push_back(index);
  }
}

void oktopk_steps::clear_update(void* update) {
  if (update == update_)
    for (const std::uint32_t index : updated_) std::memset(element_of(update, index), 0, size_of(of_.type));
  else
    std::memset(update, 0, of_.count * size_of(of_.type));
  update_ = update;
  updated_.clear();
}

}  // namespace lsched
