#include "microbench/lockstep/lockstep.h"

#include <algorithm>
#include <numeric>

namespace lsched {
namespace {

using numbers = std::vector<std::uint64_t>;

std::size_t wide(rank r) { return static_cast<std::size_t>(r); }

sparse_problem on_rank(sparse_problem problem, std::size_t r) {
  problem.place.self = static_cast<rank>(r);
  return problem;
}

/// Computes the result of an allreduce of `size` numbers per rank. write(r, numbers) writes the numbers of rank r.
template <class Write>
numbers summed(std::uint64_t size, std::size_t ranks, const Write& write) {
  numbers sums(size), own(size);
  for (std::size_t r = 0; r < ranks && size > 0; ++r) {
    write(r, own);
    for (std::size_t i = 0; i < size; ++i) sums[i] += own[i];
  }
  return sums;
}

}  // namespace

struct lockstep::member {
  explicit member(const sparse_problem& problem)
      : state(problem),
        steps(problem, state),
        split_items(sent_room(problem) * item_size(problem.type)),
        lengths(wide(problem.place.size)),
        pieces(wide(problem.place.size)),
        sources(wide(problem.place.size)),
        shares(wide(problem.place.size)) {}

  item_list sums() const { return {sum_items.data(), sum_count}; }

  sparse_state state;
  oktopk_steps steps;
  item_list selected{};
  std::vector<std::byte> split_items;
  numbers lengths;  ///< lengths of the lists for the owners
  std::vector<std::byte> sum_items;
  std::uint64_t sum_count = 0;
  std::vector<std::byte> kept_items;
  numbers pieces, sources, shares;  ///< the plan of the round
};

lockstep::lockstep(const sparse_problem& problem) : problem_(problem), meter_(problem) {
  for (std::size_t r = 0; r < wide(problem.place.size); ++r)
    members_.push_back(std::make_unique<member>(on_rank(problem, r)));
}

lockstep::~lockstep() = default;

item_list lockstep::selected(rank r) const { return members_[wide(r)]->selected; }
std::span<const std::uint64_t> lockstep::boundaries() const { return members_.front()->steps.boundaries(); }
sparse_state& lockstep::state(rank r) { return members_[wide(r)]->state; }

item_list lockstep::sent(rank r) const {
  const member& one = *members_[wide(r)];
  return {one.split_items.data(), std::reduce(one.lengths.begin(), one.lengths.end())};
}

std::optional<failure> lockstep::exchange(std::span<const void* const> gradients) {
  ++round_;
  const bool looks = is_due(looks_of(problem_), round_);
  meter_.begin(looks);
  for (std::size_t r = 0; r < members_.size(); ++r) members_[r]->selected = members_[r]->steps.select(gradients[r]);
  if (looks) place_regions();
  follow();
  split();
  fold();
  find_threshold();
  if (auto wrong = keep()) return wrong;
  meter_.finish(members_.front()->steps.planned());
  gather();
  return std::nullopt;
}

void lockstep::place_regions() {
  const numbers sums = summed(position_bins(problem_), members_.size(),
                              [&](std::size_t r, numbers& own) { members_[r]->steps.count_positions(own); });
  for (const auto& one : members_) one->steps.set_boundaries(sums);
}

void lockstep::follow() {
  const numbers sums = summed(drift_bins(problem_), members_.size(),
                              [&](std::size_t r, numbers& own) { members_[r]->steps.count_drift(own); });
  if (sums.empty()) return;
  for (const auto& one : members_) one->steps.follow_drift(sums);
}

void lockstep::split() {
  for (std::size_t r = 0; r < members_.size(); ++r) {
    member& one = *members_[r];
    one.steps.split(round_, one.split_items.data(), one.lengths);
    meter_.add_split(static_cast<rank>(r), one.lengths);
  }
}

void lockstep::fold() {
  const std::size_t bytes = item_size(problem_.type);
  std::vector<const std::byte*> next;  // the next list of each rank, for this owner
  for (const auto& one : members_) next.push_back(one->split_items.data());
  std::vector<item_list> lists(members_.size());
  for (std::size_t owner = 0; owner < members_.size(); ++owner) {
    member& own = *members_[owner];
    std::uint64_t room = 0;
    for (std::size_t r = 0; r < members_.size(); ++r) {
      lists[r] = {next[r], members_[r]->lengths[owner]};
      next[r] += lists[r].count * bytes;
      room += lists[r].count;
    }
    own.sum_items.resize(std::min(room, own.steps.boundaries()[owner + 1] - own.steps.boundaries()[owner]) * bytes);
    own.sum_count = own.steps.fold(lists, own.sum_items.data());
  }
}

void lockstep::find_threshold() {
  numbers before;
  for (unsigned pass = 0; pass < threshold_passes(problem_); ++pass) {
    before = summed(threshold_bins(problem_.type, pass), members_.size(), [&](std::size_t r, numbers& own) {
      members_[r]->steps.count_magnitudes(pass, members_[r]->sums(), before, own);
    });
  }
  numbers tallies(2 * members_.size());
  for (std::size_t r = 0; r < members_.size(); ++r)
    members_[r]->steps.tally(members_[r]->sums(), before, std::span(tallies).subspan(2 * r, 2));
  for (const auto& one : members_) one->steps.plan(tallies, one->pieces, one->sources, one->shares);
}

std::optional<failure> lockstep::keep() {
  const auto because = [](std::size_t r, const char* text) {
    return failure{.code = status::internal, .text = text, .peer = static_cast<rank>(r)};
  };
  const std::size_t bytes = item_size(problem_.type);
  for (std::size_t r = 0; r < members_.size(); ++r) {
    member& one = *members_[r];
    if (one.shares != members_.front()->shares) return because(r, "the ranks have different shares");
    for (std::size_t q = 0; q < members_.size(); ++q)
      if (one.pieces[q] != members_[q]->sources[r]) return because(r, "the ranks have different lengths of a piece");
    one.kept_items.resize(one.sum_count * bytes);
    const std::uint64_t kept = one.steps.cut(one.sums(), one.kept_items.data());
    if (kept != std::reduce(one.pieces.begin(), one.pieces.end()))
      return because(r, "an owner keeps another number of items than planned");
  }
  return std::nullopt;
}

void lockstep::gather() {
  const std::size_t bytes = item_size(problem_.type);
  gathered_items_.clear();
  std::vector<const std::byte*> next;  // the next piece of each owner
  for (const auto& one : members_) next.push_back(one->kept_items.data());
  for (const auto& one : members_)
    for (std::size_t owner = 0; owner < members_.size(); ++owner) {
      const std::byte* const end = next[owner] + one->sources[owner] * bytes;
      gathered_items_.insert(gathered_items_.end(), next[owner], end);
      next[owner] = end;
    }
  gathered_ = {gathered_items_.data(), gathered_items_.size() / bytes};
  result_ = members_.front()->steps.result_of(gathered_);
}

void lockstep::settle(std::span<void* const> updates) {
  for (std::size_t r = 0; r < members_.size(); ++r)
    members_[r]->steps.settle(gathered_, updates.empty() ? nullptr : updates[r]);
}

std::optional<failure> lockstep::run(std::span<const void* const> gradients, std::span<void* const> updates) {
  if (auto wrong = exchange(gradients)) return wrong;
  settle(updates);
  return std::nullopt;
}

}  // namespace lsched
