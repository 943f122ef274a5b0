#include "microbench/baselines/lockstep.h"

#include <algorithm>

#include "collectives/sparse/protocol/quantiles.h"
#include "collectives/sparse/protocol/region_parts.h"
#include "collectives/sparse/protocol/split.h"
#include "libsched/schedule/geometry.h"
#include "ops/sparse/sparse.h"

namespace lsched {
namespace {

using numbers = std::vector<std::uint64_t>;

std::size_t wide(rank it) { return static_cast<std::size_t>(it); }

sparse_problem on_rank(sparse_problem of, std::size_t r) {
  of.place.self = static_cast<rank>(r);
  return of;
}

/// What an allreduce does.
void add_to(numbers& sums, const numbers& own) {
  sums.resize(own.size());
  for (std::size_t i = 0; i < own.size(); ++i) sums[i] += own[i];
}

void append(std::vector<std::byte>& to, const std::byte* from, std::uint64_t bytes) {
  to.insert(to.end(), from, from + bytes);
}

}  // namespace

struct lockstep::member {
  explicit member(const sparse_problem& of)
      : state(of),
        steps(of, state),
        split_items(sent_room(of) * item_size(of.type)),
        lengths(wide(of.place.size)),
        pieces(wide(of.place.size)),
        sources(wide(of.place.size)),
        shares(wide(of.place.size)) {}

  item_list sums() const { return {sum_items.data(), sum_count}; }

  sparse_state state;
  oktopk_steps steps;
  item_list selected{};
  std::vector<std::byte> split_items;
  numbers lengths;  ///< of lists for owners
  std::vector<std::byte> sum_items;
  std::uint64_t sum_count = 0;
  std::vector<std::byte> kept_items;
  numbers pieces, sources, shares;  ///< as planned
};

lockstep::lockstep(const sparse_problem& of) : of_(of), meter_(of) {
  for (std::size_t r = 0; r < wide(of.place.size); ++r) members_.push_back(std::make_unique<member>(on_rank(of, r)));
}

lockstep::~lockstep() = default;

item_list lockstep::selected(rank r) const { return members_[wide(r)]->selected; }
std::span<const std::uint64_t> lockstep::boundaries() const { return members_.front()->steps.boundaries(); }
sparse_state& lockstep::state(rank r) { return members_[wide(r)]->state; }

item_list lockstep::sent(rank r) const {
  const member& it = *members_[wide(r)];
  std::uint64_t count = 0;
  for (const std::uint64_t length : it.lengths) count += length;
  return {it.split_items.data(), count};
}

std::optional<failure> lockstep::exchange(std::span<const void* const> gradients) {
  ++round_;
  const bool looks = looks_at_boundaries(of_, round_);
  meter_.begin(round_, looks);
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
  numbers sums(position_bins(of_)), own(position_bins(of_));
  for (const auto& it : members_) {
    it->steps.count_positions(own);
    add_to(sums, own);
  }
  for (const auto& it : members_) it->steps.set_boundaries(sums);
}

void lockstep::follow() {
  numbers sums(drift_bins(of_)), own(drift_bins(of_));
  for (const auto& it : members_) {
    it->steps.count_drift(own);
    add_to(sums, own);
  }
  for (const auto& it : members_) it->steps.follow_drift(sums);
}

void lockstep::split() {
  for (std::size_t r = 0; r < members_.size(); ++r) {
    member& it = *members_[r];
    it.steps.split(round_, it.split_items.data(), it.lengths);
    meter_.add_split(static_cast<rank>(r), it.lengths);
  }
}

void lockstep::fold() {
  const std::size_t bytes = item_size(of_.type);
  std::vector<const std::byte*> next;  // of each rank's lists, the one for this owner
  for (const auto& it : members_) next.push_back(it->split_items.data());
  std::vector<item_list> lists(members_.size());
  for (std::size_t owner = 0; owner < members_.size(); ++owner) {
    member& at = *members_[owner];
    std::uint64_t room = 0;
    for (std::size_t r = 0; r < members_.size(); ++r) {
      lists[r] = {next[r], members_[r]->lengths[owner]};
      next[r] += lists[r].count * bytes;
      room += lists[r].count;
    }
    at.sum_items.resize(std::min(room, at.steps.boundaries()[owner + 1] - at.steps.boundaries()[owner]) * bytes);
    at.sum_count = at.steps.fold(lists, at.sum_items.data());
  }
}

void lockstep::find_threshold() {
  numbers before;
  for (unsigned pass = 0; pass < threshold_passes(of_); ++pass) {
    numbers sums, own(threshold_bins(of_.type, pass));
    for (const auto& it : members_) {
      it->steps.count_magnitudes(pass, it->sums(), before, own);
      add_to(sums, own);
    }
    before = sums;
  }
  numbers tallies(2 * members_.size());
  for (std::size_t r = 0; r < members_.size(); ++r)
    members_[r]->steps.tally(members_[r]->sums(), before, std::span(tallies).subspan(2 * r, 2));
  for (const auto& it : members_) it->steps.plan(tallies, it->pieces, it->sources, it->shares);
}

std::optional<failure> lockstep::keep() {
  const auto because = [](std::size_t r, const char* text) {
    return failure{.code = status::internal, .text = text, .peer = static_cast<rank>(r)};
  };
  const std::size_t bytes = item_size(of_.type);
  for (std::size_t r = 0; r < members_.size(); ++r) {
    member& it = *members_[r];
    if (it.shares != members_.front()->shares) return because(r, "ranks do not agree about shares");
    for (std::size_t q = 0; q < members_.size(); ++q)
      if (it.pieces[q] != members_[q]->sources[r]) return because(r, "ranks do not agree about a piece's length");
    it.kept_items.resize(it.sum_count * bytes);
    const std::uint64_t kept = it.steps.cut(it.sums(), it.kept_items.data());
    std::uint64_t planned = 0;
    for (const std::uint64_t piece : it.pieces) planned += piece;
    if (kept != planned) return because(r, "an owner does not keep what was planned");
  }
  return std::nullopt;
}

void lockstep::gather() {
  const std::size_t bytes = item_size(of_.type);
  gathered_items_.clear();
  std::vector<const std::byte*> next;  // of each owner's pieces
  for (const auto& it : members_) next.push_back(it->kept_items.data());
  for (const auto& of : members_)
    for (std::size_t owner = 0; owner < members_.size(); ++owner) {
      append(gathered_items_, next[owner], of->sources[owner] * bytes);
      next[owner] += of->sources[owner] * bytes;
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

// --- of lists --------------------------------------------------------------------------------------------------------

list_lockstep::list_lockstep(const sparse_problem& of)
    : of_(of),
      boundaries_(wide(of.place.size) + 1),
      parts_(of),
      split_(most_items(of) * item_size(of.type)),
      lengths_(wide(of.place.size)),
      sum_(of.type, of.count, of.nans),
      plan_(of.place.size),
      meter_(of) {
  const cut regions(of.count, lengths_.size());
  for (std::size_t i = 0; i < boundaries_.size(); ++i) boundaries_[i] = regions.begin(i);
}

void list_lockstep::run(const selections& selected) {
  ++round_;
  const bool looks = looks_at_boundaries(of_, round_);
  meter_.begin(round_, looks);
  if (looks) place_regions(selected);
  follow(selected);
  split(selected);
  keep();
  meter_.finish(plan_);
}

void list_lockstep::place_regions(const selections& selected) {
  numbers sums(position_bins(of_)), own(position_bins(of_));
  for (rank r = 0; r < of_.place.size; ++r) {
    count_positions(of_, selected(r, round_), own);
    add_to(sums, own);
  }
  place_boundaries(of_, sums, boundaries_);
}

void list_lockstep::follow(const selections& selected) {
  numbers sums(drift_bins(of_)), own(drift_bins(of_));
  parts_.divide(boundaries_);
  for (rank r = 0; r < of_.place.size && !own.empty(); ++r) {
    parts_.count(selected(r, round_), own);
    add_to(sums, own);
  }
  parts_.move(sums, boundaries_);
}

// Regions are disjoint: the sum of whole lists, in rank order, is all owners' sums at once.
void list_lockstep::split(const selections& selected) {
  std::uint64_t touched = 0;
  for (std::size_t r = 0; r < lengths_.size(); ++r) {
    const item_list own = selected(static_cast<rank>(r), round_);
    const std::uint64_t count = lsched::split(on_rank(of_, r), round_, own, boundaries_, split_.data(), lengths_);
    sum_.add({split_.data(), count});
    touched += count;
    meter_.add_split(static_cast<rank>(r), lengths_);
  }
  result_.resize(std::min(touched, of_.count) * item_size(of_.type));
}

// Owners in their order keep the first k of the order by magnitude, as they do after a search for the threshold.
void list_lockstep::keep() {
  const std::uint64_t sums = sum_.take(0, of_.count, result_.data());
  const item_list kept{result_.data(),
                       sparse_kernels_of(of_.type).keep_largest(result_.data(), sums, most_items(of_)).count};
  std::uint64_t begin = 0;
  for (std::size_t owner = 0; owner < lengths_.size(); ++owner) {
    const std::uint64_t end = items_below(of_.type, kept, begin, boundaries_[owner + 1]);
    lengths_[owner] = end - begin;
    begin = end;
  }
  plan_.make(lengths_, of_.balance);
}

}  // namespace lsched
