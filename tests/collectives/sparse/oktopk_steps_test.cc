// Tests of the steps that one rank executes in a round of Ok-Topk. The tests check which memory the steps allocate, and
// which parts of the caller's memory the steps write.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <new>
#include <span>
#include <vector>

#include "collectives/sparse/steps/oktopk_steps.h"
#include "collectives/sparse/steps/regions.h"

namespace {

std::uint64_t allocations = 0;

void* counted(std::size_t bytes) {
  ++allocations;
  return std::malloc(bytes > 0 ? bytes : 1);
}

void* counted_or_thrown(std::size_t bytes) {
  void* const memory = counted(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) { return counted_or_thrown(bytes); }
void* operator new[](std::size_t bytes) { return counted_or_thrown(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }

namespace lsched {
namespace {

using numbers = std::vector<std::uint64_t>;

/// Rank 0 of three ranks. The other two ranks have no items. The constructor allocates all memory that a round needs.
class lonely_rank {
 public:
  explicit lonely_rank(const sparse_problem& of)
      : state(of),
        steps(of, state),
        of_(of),
        bins_(std::max({position_bins(of), threshold_bins(of.type, 0), drift_bins(of)})),
        before_(bins_.size()),
        items_(sent_room(of) * item_size(of.type)),
        sums_(items_.size()) {}

  /// Runs a round. This rank receives only its own list, and the sums of other regions are empty.
  void run(round_no round, const void* gradient, void* update) {
    steps.select(gradient);
    if (is_due(looks_of(of_), round)) {
      const std::span bins = std::span(bins_).first(position_bins(of_));
      steps.count_positions(bins);
      steps.set_boundaries(bins);
    }
    const std::span drift = std::span(bins_).first(drift_bins(of_));
    steps.count_drift(drift);
    steps.follow_drift(drift);
    steps.split(round, items_.data(), lengths_);
    const std::array<item_list, 3> lists{item_list{items_.data(), lengths_[0]}};
    const item_list sums{sums_.data(), steps.fold(lists, sums_.data())};
    std::uint64_t known = 0;
    for (unsigned pass = 0; pass < threshold_passes(of_); ++pass) {
      const std::span bins = std::span(bins_).first(threshold_bins(of_.type, pass));
      steps.count_magnitudes(pass, sums, std::span(before_).first(known), bins);
      std::copy(bins.begin(), bins.end(), before_.begin());
      known = bins.size();
    }
    numbers_.fill(0);
    steps.tally(sums, std::span(before_).first(known), std::span(numbers_).first(2));
    steps.plan(numbers_, pieces_, sources_, shares_);
    kept = steps.cut(sums, sums_.data());
    settled = steps.settle({sums_.data(), kept}, update);
  }

  sparse_state state;
  oktopk_steps steps;
  std::uint64_t kept = 0, settled = 0;

 private:
  sparse_problem of_;
  numbers bins_, before_;
  std::vector<std::byte> items_, sums_;
  std::array<std::uint64_t, 3> lengths_{}, pieces_{}, sources_{}, shares_{};
  std::array<std::uint64_t, 6> numbers_{};
};

sparse_problem some_problem() {
  return {.count = 5000, .k = 60, .place = {0, 3}, .capacity = capacity_policy::defer, .period = 2};
}

std::vector<float> some_gradient() {
  std::vector<float> gradient(5000);
  for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = static_cast<float>(i * 7919 % 5003) - 2000;
  return gradient;
}

TEST(oktopk_steps, allocate_nothing_in_a_round) {
  const std::vector<float> gradient = some_gradient();
  std::vector<float> update(5000);
  sparse_problem reuses = some_problem();
  reuses.selection = selection_rule::reused, reuses.capacity = capacity_policy::strict, reuses.reuse = 3;
  for (const sparse_problem& of : {some_problem(), reuses}) {
    lonely_rank it(of);
    const std::uint64_t before = allocations;
    EXPECT_GT(before, 0u);
    for (round_no round = 1; round <= 5; ++round) it.run(round, gradient.data(), update.data());
    EXPECT_EQ(allocations, before);
  }
}

TEST(oktopk_steps, clear_an_update_they_have_not_seen_everywhere_and_others_where_they_wrote) {
  const std::vector<float> gradient = some_gradient();
  std::vector<float> one(5000, 7.0F), other(5000, 7.0F);
  const auto others_than_zero = [](const std::vector<float>& in) {
    return in.size() - static_cast<std::size_t>(std::count(in.begin(), in.end(), 0.0F));
  };
  lonely_rank it(some_problem());
  round_no round = 0;
  for (std::vector<float>* update : {&one, &one, &other, &other, &one}) {
    it.run(++round, gradient.data(), update->data());
    EXPECT_GT(it.kept, 0u);
    EXPECT_EQ(others_than_zero(*update), it.kept) << "in round " << round;
  }
  one[4999] = 3;  // an element that the caller has written into its memory
  it.run(++round, gradient.data(), one.data());
  EXPECT_EQ(others_than_zero(one), it.kept + 1);
  const std::vector<float> before = one;
  it.run(++round, gradient.data(), nullptr);
  EXPECT_EQ(one, before);
}

TEST(oktopk_steps, need_no_gradient) {
  const std::vector<float> gradient = some_gradient();
  lonely_rank it(some_problem());
  it.run(1, gradient.data(), nullptr);
  const auto* const residual = static_cast<const float*>(it.state.residual());
  const auto left = [&] { return 5000 - std::count(residual, residual + 5000, 0.0F); };
  const auto before = left();
  it.run(2, nullptr, nullptr);
  EXPECT_EQ(it.settled, it.kept);
  EXPECT_EQ(before - left(), static_cast<std::int64_t>(it.settled));
}

TEST(oktopk_steps, do_rounds_of_nothing) {
  for (const std::uint64_t count : {0u, 1u, 5000u}) {
    const std::vector<float> gradient = some_gradient();
    lonely_rank it({.count = count, .k = 0, .place = {0, 3}});
    it.run(1, gradient.data(), nullptr);
    EXPECT_EQ(it.kept, 0u);
    EXPECT_EQ(it.state.rounds(), 1u);
  }
}

}  // namespace
}  // namespace lsched
