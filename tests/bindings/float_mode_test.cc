// Tests of the floating-point mode (rounding, subnormals) of the application's threads. The mode must change no bit of
// a result, and the library must leave the mode unchanged.
#include <gtest/gtest.h>

#include <array>
#include <cfenv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "bindings/c/world.h"
#include "build_options.h"
#include "collectives/registry.h"
#include "collectives/requests/sample_requests.h"
#include "tests/support/barrier.h"
#include "tests/support/c_request.h"
#include "tests/support/float_modes.h"
#include "tests/support/one_bucket.h"
#include "tests/support/thread_ranks.h"

namespace lsched::testing {
namespace {

using floats = std::vector<float>;

/// Returns element i of rank r. The sums over ranks have different bits in every floating-point mode, because some
/// elements are subnormal, some sums become subnormal, and other sums are inexact.
float awkward(rank r, std::size_t i) {
  const auto place = static_cast<float>(i + 1);
  const auto who = static_cast<float>(r + 1);
  const float sign = r % 2 == 0 ? 1.0F : -1.0F;
  switch (i % 3) {
    case 0: return who * place * 0x1.1p-135F;
    case 1: return sign * (0x1.8p-126F + who * place * 0x1.3p-140F);
    default: return sign * who * place / 3.0F;
  }
}

floats awkward_floats(rank r, std::size_t count) {
  floats all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = awkward(r, i);
  return all;
}

bool is_same(const floats& x, const floats& y) {
  return x.size() == y.size() && (x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0);
}

/// Calls `round` in each mode. First all ranks have the mode, then only one rank. Each result must be `wanted`, and no
/// round may change the mode. Returns the first difference. Collective.
template <class Round>
std::string first_difference(const floats& wanted, rank self, rank ranks, const Round& round) {
  std::string found;
  for (std::size_t mode = 0; mode < k_float_modes.size(); ++mode)
    for (const bool on_all : {true, false}) {
      const bool is_mine = on_all || self == static_cast<rank>(mode) % ranks;
      const std::uint64_t control = is_mine ? k_float_modes[mode].control : float_control::k_default;
      const float_mode_of_caller here(control);
      const floats result = round();
      const bool is_kept = float_control::read() == control;
      if (found.empty() && !is_same(result, wanted))
        found = std::string("other bits: ") + k_float_modes[mode].name + (on_all ? " on all ranks" : " on one rank");
      if (found.empty() && !is_kept) found = std::string("the mode was changed: ") + k_float_modes[mode].name;
    }
  return found;
}

bool combines(const algorithm& how) { return !how.of->activates && (how.of->reduces || how.of->adapts); }

/// Runs rounds of one algorithm in every mode, and expects the same bits.
void expect_same_bits(lsched_world* runtime, world place, const algorithm& how, std::uint64_t count) {
  shape data = typical_shape(*how.of, place.size, count, dtype::f32, how.of->reduces ? kernel::sum : kernel::none);
  data.nodes = runtime->nodes();
  if (validate(how, place, data)) return;
  c_request request(*how.of, place, data, how.name);
  request.desc.dtype = LSCHED_F32;
  const extents both = how.of->extents_of(place, data);
  const floats input = awkward_floats(place.self, both.input.value_or(0));
  floats output(both.output.value_or(0));
  request.desc.input = input.data();
  request.desc.output = output.data();
  lsched_schedule* schedule = nullptr;
  diagnostic why;
  ASSERT_EQ(lsched_collective_create(runtime, &request.desc, &schedule, &why), LSCHED_OK) << why.text;
  const auto round = [&] {
    std::fill(output.begin(), output.end(), 7.0F);
    EXPECT_EQ(lsched_run(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
    return output;
  };
  const floats wanted = round();
  EXPECT_EQ(first_difference(wanted, place.self, place.size, round), "")
      << how.of->name << "/" << how.name << ", rank " << place.self << " of " << place.size << ", " << count
      << " elements";
  EXPECT_EQ(lsched_schedule_destroy(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
}

class nodes_of_two {
 public:
  nodes_of_two() { setenv("LSCHED_RANKS_PER_NODE", "2", 1); }
  ~nodes_of_two() { unsetenv("LSCHED_RANKS_PER_NODE"); }
};

TEST(float_mode, of_the_application_changes_no_bit_of_any_algorithm) {
  const nodes_of_two around;  // with several nodes, two_level differs from other algorithms
  for (const rank ranks : {3, 5, 2, 4})
    world_of_threads(ranks).each([&](lsched_world* runtime, rank self) {
      for (const std::uint64_t count : {37u, 1u, 0u})
        for (const algorithm& how : algorithms())
          if (combines(how)) expect_same_bits(runtime, {self, ranks}, how, count);
    });
}

// --- every reduction of floating numbers -----------------------------------------------------------------------------

struct reduction_case {
  lsched_reduction how;
  lsched_divisor by;
};

void expect_same_bits_of(lsched_world* runtime, world place, const reduction_case& one) {
  constexpr std::uint64_t k_count = 300;
  const floats input = awkward_floats(place.self, k_count);
  floats output(k_count);
  const lsched_collective_desc desc{.struct_size = sizeof desc,
                                    .collective = "allreduce",
                                    .input = input.data(),
                                    .output = output.data(),
                                    .count = k_count,
                                    .dtype = LSCHED_F32,
                                    .reduction = one.how,
                                    .divisor = one.by};
  lsched_schedule* schedule = nullptr;
  diagnostic why;
  ASSERT_EQ(lsched_collective_create(runtime, &desc, &schedule, &why), LSCHED_OK) << why.text;
  const auto round = [&] {
    EXPECT_EQ(lsched_run(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
    return output;
  };
  const floats wanted = round();
  EXPECT_EQ(first_difference(wanted, place.self, place.size, round), "") << "reduction " << one.how;
  EXPECT_EQ(lsched_schedule_destroy(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
}

TEST(float_mode, of_the_application_changes_no_bit_of_any_reduction) {
  as_ranks(3, [](lsched_world* runtime, rank self) {
    for (const reduction_case one : {reduction_case{LSCHED_SUM, LSCHED_DIVIDE_BY_NONE},
                                     {LSCHED_SUM, LSCHED_DIVIDE_BY_RANKS},
                                     {LSCHED_PROD, LSCHED_DIVIDE_BY_NONE},
                                     {LSCHED_MIN, LSCHED_DIVIDE_BY_NONE},
                                     {LSCHED_MAX, LSCHED_DIVIDE_BY_NONE}})
      expect_same_bits_of(runtime, {self, 3}, one);
  });
}

// --- threads of the library's own ------------------------------------------------------------------------------------

/// Returns each rank's output of an allreduce. The world is opened and used in the floating-point mode `control`. The
/// vectors are so long that the worker threads of a rank (its lane) combine them.
std::vector<floats> sums_in_mode(std::uint64_t control, const char* algorithm, std::int32_t lane,
                                 std::uint64_t* lane_jobs) {
  constexpr std::uint64_t k_count = 300'001;
  constexpr rank k_ranks = 3;
  std::vector<floats> inputs, sums(k_ranks, floats(k_count));
  for (rank r = 0; r < k_ranks; ++r) inputs.push_back(awkward_floats(r, k_count));
  lsched_config config = test_config();
  config.region_bytes = 256 << 20;
  config.lane = lane;
  const float_mode_of_caller here(control);  // inherited by the threads that lsched_world_open starts
  world_of_threads(k_ranks, config).each([&](lsched_world* runtime, rank self) {
    const float_mode_of_caller of_rank(control);
    const lsched_collective_desc desc{.struct_size = sizeof desc,
                                      .collective = "allreduce",
                                      .input = inputs[static_cast<std::size_t>(self)].data(),
                                      .output = sums[static_cast<std::size_t>(self)].data(),
                                      .count = k_count,
                                      .dtype = LSCHED_F32,
                                      .reduction = LSCHED_SUM,
                                      .algorithm = algorithm};
    lsched_schedule* schedule = nullptr;
    diagnostic why;
    ASSERT_EQ(lsched_collective_create(runtime, &desc, &schedule, &why), LSCHED_OK) << why.text;
    EXPECT_EQ(lsched_run(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
    if (self == 0) *lane_jobs = runtime->process.engine().counters().lane_jobs;
    EXPECT_EQ(lsched_schedule_destroy(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
  });
  return sums;
}

void expect_same_sums(std::int32_t lane, bool expects_jobs) {
  for (const char* const algorithm : {"recursive_doubling", "tree"}) {
    std::uint64_t jobs = 0;
    const std::vector<floats> wanted = sums_in_mode(float_control::k_default, algorithm, lane, &jobs);
    const named_mode& mode = k_float_modes.back();
    const std::vector<floats> sums = sums_in_mode(mode.control, algorithm, lane, &jobs);
    for (std::size_t r = 0; r < sums.size(); ++r)
      EXPECT_TRUE(is_same(sums[r], wanted[r])) << algorithm << ", rank " << r << ": " << mode.name;
    EXPECT_TRUE(!expects_jobs || jobs > 0) << algorithm;
  }
}

TEST(float_mode, that_the_progress_thread_inherits_changes_no_bit) { expect_same_sums(LSCHED_LANE_INLINE, false); }

#if LSCHED_HAVE_TBB
TEST(float_mode, that_workers_of_a_lane_inherit_changes_no_bit) { expect_same_sums(2, true); }
#endif

// --- arithmetic on the caller's thread -------------------------------------------------------------------------------

// Rank 0 offers three times in each round. The round takes only the first offer. The thread that makes the second and
// third offers adds them up for the next round. The thread that collects a result divides the result by the divisor of
// the mean.
TEST(float_mode, of_the_application_changes_no_bit_of_offers_that_are_merged) {
  constexpr std::uint64_t k_count = 100;
  std::vector<floats> gradients;
  for (rank r = 0; r < 5; ++r) gradients.push_back(awkward_floats(r, k_count));
  as_ranks(3, [&](lsched_world* runtime, rank self) {
    for (const char* const collective : {"allreduce", "adasum"}) {
      const bool is_sum = std::string_view(collective) == "allreduce";
      const lsched_partial_desc desc{.struct_size = sizeof desc,
                                     .collective = collective,
                                     .count = k_count,
                                     .dtype = LSCHED_F32,
                                     .reduction = is_sum ? LSCHED_SUM : static_cast<lsched_reduction>(0),
                                     .activation = "full",
                                     .divisor = is_sum ? LSCHED_DIVIDE_BY_RANKS : LSCHED_DIVIDE_BY_NONE};
      lsched_schedule *schedule = nullptr, *turn = nullptr;
      diagnostic why;
      ASSERT_EQ(lsched_partial_create(runtime, &desc, &schedule, &why), LSCHED_OK) << why.text;
      ASSERT_EQ(create_barrier(runtime, &turn, &why), LSCHED_OK) << why.text;
      lsched_ticket of_round{schedule, 0};
      const auto offer = [&](rank as) {
        lsched_ticket called_for{};
        EXPECT_EQ(lsched_offer(schedule, one_bucket(gradients[static_cast<std::size_t>(as)].data()), &called_for),
                  LSCHED_OK);
      };
      const auto round = [&] {
        if (self == 0) offer(0), offer(3), offer(4);
        EXPECT_EQ(lsched_run(turn, k_limit_ns, &why), LSCHED_OK) << why.text;
        if (self != 0) offer(self);
        floats result(k_count);
        ++of_round.round;
        EXPECT_EQ(lsched_collect(of_round, one_bucket(result.data()), k_limit_ns, nullptr, &why), LSCHED_OK)
            << why.text;
        EXPECT_EQ(lsched_run(turn, k_limit_ns, &why), LSCHED_OK) << why.text;
        return result;
      };
      round(), round();
      const floats wanted = round();
      EXPECT_EQ(first_difference(wanted, self, 3, round), "") << collective << ", rank " << self;
      EXPECT_EQ(lsched_schedule_destroy(turn, k_limit_ns, &why), LSCHED_OK) << why.text;
      EXPECT_EQ(lsched_schedule_destroy(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
    }
  });
}

TEST(float_mode, of_the_application_changes_no_bit_of_a_conversion) {
  constexpr std::uint64_t k_count = 300;
  const floats input = awkward_floats(1, k_count);
  for (const lsched_dtype to : {LSCHED_F16, LSCHED_BF16, LSCHED_F32, LSCHED_F64}) {
    std::array<std::uint64_t, k_count> wanted{}, found{};
    ASSERT_EQ(lsched_convert(LSCHED_F32, input.data(), k_count, 1.0 / 3, to, wanted.data()), LSCHED_OK);
    for (const named_mode& mode : k_float_modes) {
      const float_mode_of_caller here(mode.control);
      ASSERT_EQ(lsched_convert(LSCHED_F32, input.data(), k_count, 1.0 / 3, to, found.data()), LSCHED_OK);
      EXPECT_EQ(found, wanted) << mode.name;
    }
  }
}

// --- the application's own arithmetic --------------------------------------------------------------------------------

/// A user's reduction that adds and then changes the floating-point mode. The function records in `context` whether the
/// library has called the function outside of the default mode.
void add_carelessly(const void* lower, const void* higher, void* target, std::uint64_t count, void* context) {
  if (float_control::read() != float_control::k_default) *static_cast<bool*>(context) = true;
  for (std::uint64_t i = 0; i < count; ++i)
    static_cast<float*>(target)[i] = static_cast<const float*>(lower)[i] + static_cast<const float*>(higher)[i];
  float_control::write(k_float_modes.back().control);
}

TEST(float_mode, that_a_user_op_finds_is_the_default_and_what_it_leaves_is_undone) {
  constexpr std::uint64_t k_count = 30;
  as_ranks(3, [](lsched_world* runtime, rank self) {
    bool was_other = false;
    const lsched_user_op op{.struct_size = sizeof op,
                            .combine = add_carelessly,
                            .context = &was_other,
                            .dtype = LSCHED_F32,
                            .unit = 1,
                            .is_commutative = 1};
    const floats input = awkward_floats(self, k_count);
    floats output(k_count);
    const lsched_collective_desc desc{.struct_size = sizeof desc,
                                      .collective = "allreduce",
                                      .input = input.data(),
                                      .output = output.data(),
                                      .count = k_count,
                                      .dtype = LSCHED_F32,
                                      .algorithm = "flat",
                                      .user_op = &op};
    lsched_schedule* schedule = nullptr;
    diagnostic why;
    ASSERT_EQ(lsched_collective_create(runtime, &desc, &schedule, &why), LSCHED_OK) << why.text;
    const auto round = [&] {
      EXPECT_EQ(lsched_run(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
      return output;
    };
    const floats wanted = round();
    EXPECT_EQ(float_control::read(), float_control::k_default);
    EXPECT_EQ(first_difference(wanted, self, 3, round), "");
    EXPECT_FALSE(was_other);
    EXPECT_EQ(lsched_schedule_destroy(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
  });
}

TEST(float_mode, keeps_flags_and_traps_of_the_application) {
  as_ranks(2, [](lsched_world* runtime, rank self) {
    const floats input(4, self == 0 ? std::numeric_limits<float>::infinity() : -std::numeric_limits<float>::infinity());
    floats output(4);
    const lsched_collective_desc desc{.struct_size = sizeof desc,
                                      .collective = "allreduce",
                                      .input = input.data(),
                                      .output = output.data(),
                                      .count = 4,
                                      .dtype = LSCHED_F32,
                                      .reduction = LSCHED_SUM,
                                      .algorithm = "recursive_doubling"};
    lsched_schedule* schedule = nullptr;
    diagnostic why;
    ASSERT_EQ(lsched_collective_create(runtime, &desc, &schedule, &why), LSCHED_OK) << why.text;
    std::feclearexcept(FE_ALL_EXCEPT);
    std::feraiseexcept(FE_DIVBYZERO);
#if defined(__x86_64__)
    const float_mode_of_caller trapping(float_control::k_default & ~std::uint64_t{0x80});  // invalid operations trap
#endif
    const std::uint64_t before = float_control::read();
    EXPECT_EQ(lsched_run(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
    EXPECT_EQ(float_control::read(), before);
    EXPECT_NE(std::fetestexcept(FE_DIVBYZERO), 0);
    EXPECT_NE(output[0], output[0]);
    EXPECT_EQ(lsched_schedule_destroy(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
  });
}

}  // namespace
}  // namespace lsched::testing
