// Tests of requests for partial schedules, without a world.
#include "collectives/requests/partial_request.h"

#include <gtest/gtest.h>

#include <string>

namespace lsched::testing {
namespace {

partial_request request_for(std::string_view collective) {
  return {.what = {.collective = collective,
                   .algorithm = "recursive_doubling",
                   .count = 6,
                   .reduction = kernel::sum,
                   .starts = activation{.policy = activation_policy::quorum, .seed = 7, .number = 5}}};
}

/// Applies `change` to the request for a partial allreduce. Returns the error of the request, or an empty text.
template <class Change>
std::string error_of(const Change& change) {
  partial_request request = request_for("allreduce");
  change(request);
  const auto made = validate(request);
  return made ? "" : made.error().text;
}

TEST(partial_requests, that_are_wrong_are_refused) {
  EXPECT_EQ(error_of([](partial_request&) {}), "");
  EXPECT_EQ(error_of([](auto& r) { r.history = 2; }), "only LSCHED_HISTORY has a history: leave history 0");
  EXPECT_EQ(error_of([](auto& r) { r.lag = lag_policy::history, r.history = 61; }), "history is not from 1 to 60");
  EXPECT_EQ(error_of([](auto& r) { r.what.reduction = kernel::max, r.divided_by = divisor::ranks; }),
            "only sums are divided: set reduction to LSCHED_SUM, or leave divisor 0");
  EXPECT_EQ(error_of([](auto& r) { r.averages_weights = 2; }),
            "averages_weights must be 0, or 1 if the reduction is a sum of f32 or f64");
  EXPECT_EQ(error_of([](auto& r) { r.what.collective = "allgather", r.averages_weights = 1; }),
            "averages_weights: only an allreduce can average weights");
  const std::string no_age = "only sums of floating elements are scaled by their age: leave age 0";
  EXPECT_EQ(error_of([](auto& r) { r.age->is_inverse = true; }), "");
  EXPECT_EQ(error_of([](auto& r) { r.age->is_inverse = true, r.what.reduction = kernel::max; }), no_age);
  EXPECT_EQ(error_of([](auto& r) { r.age->factors = {1, 0.5}, r.what.type = dtype::i64; }), no_age);
  EXPECT_EQ(error_of([](auto& r) { r.age->is_inverse = true, r.what.collective = "adasum"; }), no_age);
  EXPECT_EQ(error_of([](auto& r) { r.what.collective = "bcast"; }).find("\"bcast\" has no partial form"), 0u);
}

TEST(partial_requests, have_companions_and_name_them_in_the_agreement) {
  partial_request request = request_for("allreduce");
  request.what.buckets = std::vector<std::uint64_t>{2, 4};
  request.averages_weights = 1;
  request.age->factors = {1, 0.5};
  for (const rank size : {5, 6, 7, 8}) {
    schedule_cache schedules({1, size}, {});
    const auto made = validate(request)->make(schedules);
    ASSERT_TRUE(made) << made.error().text;
    EXPECT_EQ(
        made->agreement.find("partial_allreduce recursive_doubling sum f32 count 6 quorum(5) seed 7 averages aged by "
                             "1p+0,1p-1 in 2 buckets 2+4 with agreement by "),
        0u)
        << made->agreement;
    ASSERT_EQ(made->companions.size(), 2u);
    EXPECT_EQ(made->companions[0].purpose, "agreement");
    EXPECT_EQ(made->companions[1].purpose, "mean");
  }
}

TEST(partial_requests, of_a_smaller_world_wait_for_no_rank_that_is_gone) {
  const auto plan = validate(request_for("allreduce"));
  ASSERT_TRUE(plan);
  for (const rank size : {3, 4, 1}) {
    schedule_cache survivors({0, size}, {});
    EXPECT_FALSE(plan->make(survivors)) << "a quorum of 5 of " << size << " ranks";
    const auto made = plan->make_for_survivors(survivors);
    ASSERT_TRUE(made) << made.error().text;
    EXPECT_EQ((*made->program)->starts().number, static_cast<std::uint32_t>(size));
  }
  EXPECT_TRUE(plan->survives_ranks());
  EXPECT_FALSE(validate(request_for("allgather"))->survives_ranks());
}

TEST(partial_requests, of_sparse_sums_agree_with_the_sparse_request) {
  partial_request request = request_for("sparse_allreduce");
  request.what.algorithm = {};
  sparse_request sparse{.problem = {.count = 6, .k = 2, .place = {1, 5}, .period = 0, .scale = 0, .reuse = 0}};
  schedule_cache schedules({1, 5}, {});
  planned_sparse choice;
  const auto error = [&] {
    const auto made = plan(request, sparse, schedules, &choice);
    return made ? "" : made.error().text;
  };
  EXPECT_EQ(error(), "");
  EXPECT_EQ(choice.problem.period, sparse_problem{}.period);
  request.what.count = 7;
  EXPECT_EQ(error(), "a sparse allreduce needs the count and dtype of the partial desc: set the same values in both");
  request.what.count = 6, request.age->is_inverse = true;
  EXPECT_EQ(error(), "a sparse allreduce is not scaled by age: leave age 0");
  request.age = age_rule{};
  request.what.algorithm = "auto";
  EXPECT_EQ(error(), "a sparse allreduce takes its algorithm from its own desc: leave algorithm NULL");
}

TEST(sparse_requests, name_the_algorithm_that_uses_a_member) {
  const sparse_request plain{.problem = {.count = 6, .k = 2, .place = {1, 5}, .period = 0, .scale = 0, .reuse = 0}};
  sparse_request tuned = plain;
  tuned.problem.period = 8;
  EXPECT_TRUE(choose(plain));
  EXPECT_FALSE(choose(tuned));
  tuned.algorithm = "oktopk";
  const auto chosen = choose(tuned);
  ASSERT_TRUE(chosen) << chosen.error().text;
  EXPECT_EQ(chosen->problem.period, 8u);
  EXPECT_EQ(chosen->problem.scale, 1);
}

}  // namespace
}  // namespace lsched::testing
