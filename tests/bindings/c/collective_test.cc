// Tests of lsched_collective_create with every registered algorithm. Ranks are threads. Results are compared with the
// postcondition of the collective. A wrong desc must be refused, and the error must give the reason.
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <thread>
#include <vector>

#include "bindings/c/lsched.h"
#include "collectives/registry.h"
#include "collectives/requests/sample_requests.h"
#include "tests/support/c_request.h"
#include "tests/support/one_bucket.h"
#include "tests/support/promised_outputs.h"
#include "tests/support/sampling.h"
#include "tests/support/thread_ranks.h"

namespace lsched::testing {
namespace {

using threads = world_of_threads;

/// The inputs and outputs of all ranks.
struct buffers_of_world {
  buffers_of_world(const collective& of, rank size, const shape& data) {
    for (rank r = 0; r < size; ++r) {
      const extents both = of.extents_of({r, size}, data);
      inputs.emplace_back(both.input.value_or(0));
      outputs.emplace_back(both.output.value_or(0));
      offsets.push_back(!both.input || !both.output ? 0 : of.aliasing_of({r, size}, data));
    }
  }
  void fill(std::int64_t salt) {
    for (std::size_t r = 0; r < inputs.size(); ++r)
      for (std::size_t i = 0; i < inputs[r].size(); ++i)
        inputs[r][i] = salt + static_cast<std::int64_t>(r * 1000 + i * 7);
    for (numbers& one : outputs) std::ranges::fill(one, -1);
  }
  std::vector<numbers> inputs, outputs;
  std::vector<std::int64_t> offsets;  ///< for each rank, if in place: start of the input minus start of the output
};

/// Runs three rounds of a schedule on one rank. The last round uses other memory than the first two.
void run_rank(lsched_world* runtime, c_request request, buffers_of_world& all, std::size_t r, bool in_place,
              const std::function<void()>& in_step) {
  numbers& input = all.inputs[r];
  numbers& output = all.outputs[r];
  const std::int64_t offset = all.offsets[r];
  const bool is_shared = in_place && !input.empty() && !output.empty();
  const std::size_t ahead = offset < 0 ? static_cast<std::size_t>(-offset) : 0;
  const std::size_t behind = offset > 0 ? static_cast<std::size_t>(offset) : 0;
  std::vector<numbers> memory(2, numbers(std::max(input.size() + behind, output.size() + ahead) + 1, -1));
  const auto place = [&](std::size_t which, bool is_input) -> std::int64_t* {
    if (is_shared) return memory[which].data() + (is_input ? behind : ahead);
    return is_input ? (which == 0 ? input.data() : memory[0].data()) : (which == 0 ? output.data() : memory[1].data());
  };
  request.desc.input = place(0, true);
  request.desc.output = place(0, false);
  lsched_schedule* schedule = nullptr;
  diagnostic why;
  ASSERT_EQ(lsched_collective_create(runtime, &request.desc, &schedule, &why), LSCHED_OK) << why.text;
  for (int round = 0; round < 3; ++round) {
    const std::size_t which = round == 2 ? 1 : 0;
    if (which == 1) {
      const void* in = place(1, true);
      void* out = place(1, false);
      EXPECT_EQ(lsched_rebind(schedule, &in, &out), LSCHED_OK);
    }
    in_step();  // draws new inputs and overwrites outputs
    if (is_shared || which == 1) std::ranges::copy(input, place(which, true));
    EXPECT_EQ(lsched_run(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
    if (is_shared || which == 1) std::copy_n(place(which, false), output.size(), output.begin());
    in_step();  // compares the outputs with the postcondition
  }
  EXPECT_EQ(lsched_schedule_destroy(schedule, k_limit_ns, nullptr), LSCHED_OK);
}

/// A barrier of the rank threads. The last thread that arrives calls `at_last` before all threads continue.
class rendezvous {
 public:
  rendezvous(rank size, std::function<void(int)> at_last)
      : barrier_(size, [this] { at_last_(++stops_); }), at_last_(std::move(at_last)) {}
  void arrive() { barrier_.arrive_and_wait(); }

 private:
  struct step {
    std::function<void()> what;
    void operator()() noexcept { what(); }
  };
  struct holder : std::barrier<step> {
    holder(rank size, std::function<void()> what) : std::barrier<step>(size, step{std::move(what)}) {}
  } barrier_;
  int stops_ = 0;
  std::function<void(int)> at_last_;
};

void expect_kept(const threads& ranks, const algorithm& it, std::uint64_t count, bool in_place) {
  const shape data = typical_shape(*it.of, ranks.size(), count, dtype::i64, kernel::sum);
  if (validate(it, {0, ranks.size()}, data)) return;
  const std::string what = std::string(it.of->name) + "/" + std::string(it.name) +
                           " P=" + std::to_string(ranks.size()) + " count " + std::to_string(count) +
                           (in_place ? " in place" : "");
  SCOPED_TRACE(what);
  buffers_of_world all(*it.of, ranks.size(), data);
  const postcondition promise = it.of->contents_of(ranks.size(), data);
  rendezvous meeting(ranks.size(), [&](int stop) {
    if (stop % 2 == 1)
      all.fill(stop * 100'000);
    else
      EXPECT_EQ(broken_promise(promise, all.inputs, all.outputs), "") << what << ", round " << stop / 2;
  });
  ranks.each([&](lsched_world* runtime, rank r) {
    run_rank(runtime, c_request(*it.of, {r, ranks.size()}, data, it.name), all, static_cast<std::size_t>(r), in_place,
             [&] { meeting.arrive(); });
  });
}

std::vector<rank> sizes_of_worlds() {
  if (emulated_hosts() == 0) return {1, 3, 5, 6, 7, 4};
  if (full()) return {2, 3, 5, 6, 7, 9};
  return emulated_hosts() == 2 ? std::vector<rank>{2, 5, 7} : std::vector<rank>{3, 6, 9};
}

TEST(c_collective, every_algorithm_keeps_its_promise) {
  for (const rank size : sizes_of_worlds()) {
    const threads ranks(size);
    for (const algorithm& it : algorithms())
      for (const std::uint64_t count : {0u, 1u, 700u})
        for (const bool in_place : {false, true})
          if (!it.of->activates && (!in_place || it.needs.in_place)) expect_kept(ranks, it, count, in_place);
  }
}

// --- refusals ----------------------------------------------------------------------------------------------

/// Checks that a wrong request is refused on all ranks with `code` and an error text that contains `words`.
void expect_refused(const threads& ranks, lsched_collective_desc desc, lsched_status code, const std::string& words) {
  ranks.each([&](lsched_world* runtime, rank) {
    lsched_schedule* schedule = nullptr;
    diagnostic why;
    EXPECT_EQ(lsched_collective_create(runtime, &desc, &schedule, &why), code) << why.text;
    EXPECT_NE(std::string(why.text).find(words), std::string::npos) << why.text;
    EXPECT_EQ(schedule, nullptr);
  });
}

lsched_collective_desc allreduce_of(numbers& input, numbers& output) {
  return {.struct_size = sizeof(lsched_collective_desc),
          .collective = "allreduce",
          .input = input.data(),
          .output = output.data(),
          .count = input.size(),
          .dtype = LSCHED_I64,
          .reduction = LSCHED_SUM};
}

TEST(c_collective, a_wrong_desc_is_told_what_is_wrong) {
  const threads ranks(3);
  numbers input(8), output(8);
  const std::uint64_t counts[] = {1, 2, 3};
  const lsched_collective_desc good = allreduce_of(input, output);
  const auto refused = [&](auto change, const std::string& words) {
    lsched_collective_desc bad = good;
    change(bad);
    expect_refused(ranks, bad, LSCHED_ERR_ARGUMENT, words);
  };
  refused([](auto& d) { d.struct_size = 8; }, "struct_size");
  refused([](auto& d) { d.collective = nullptr; }, "collective is null");
  refused([](auto& d) { d.collective = "telepathy"; }, "there is no collective \"telepathy\"");
  refused([](auto& d) { d.collective = "partial_allreduce"; }, "a create function of its own");
  refused([](auto& d) { d.algorithm = "telepathy"; }, "no algorithm \"telepathy\"");
  refused([](auto& d) { d.root = 1; }, "has no root");
  refused([](auto& d) { d.radix = 1; }, "radix");
  refused([&](auto& d) { d.counts = counts; }, "leave counts null");
  refused([&](auto& d) { d.recv_counts = counts; }, "takes no recv_counts");
  refused([](auto& d) { d.source_count = 1; }, "no destinations and sources");
  refused([](auto& d) { d.input = nullptr; }, "input is null but has 8 elements");
  refused([](auto& d) { d.output = nullptr; }, "output is null but has 8 elements");
  refused([&](auto& d) { d.output = input.data() + 1; }, "overlap");
  refused([](auto& d) { d.collective = "bcast"; }, "has no reduction");
  refused([](auto& d) { d.collective = "bcast", d.reduction = lsched_reduction{}, d.root = 3; }, "use 0 to 2");
  refused([](auto& d) { d.collective = "allgatherv", d.reduction = lsched_reduction{}; }, "leave count 0");
  refused([](auto& d) { d.collective = "allgatherv", d.reduction = lsched_reduction{}, d.count = 0; },
          "counts is null");
  refused([](auto& d) { d.collective = "barrier"; }, "moves no data");
  const lsched_tensor tensors[] = {{0, 5}, {4, 4}, {8, 1}};
  refused([&](auto& d) { d.tensors = tensors, d.tensor_count = 1; }, "allreduce has no tensors");
  const auto adapts = [](auto& d) { d.collective = "adasum", d.dtype = LSCHED_F64, d.reduction = lsched_reduction{}; };
  refused([&](auto& d) { adapts(d), d.dtype = LSCHED_I64; }, "only floating types, not i64");
  refused([&](auto& d) { adapts(d), d.reduction = LSCHED_SUM; }, "adasum has its own arithmetic: leave reduction 0");
  refused([&](auto& d) { adapts(d), d.segment_bytes = 64; },
          "adasum does not split vectors into segments: leave segment_bytes 0");
  refused([&](auto& d) { adapts(d), d.radix = 2; }, "adasum has no radix: leave radix 0");
  refused([&](auto& d) { adapts(d), d.tensors = tensors; }, "set both, or none");
  refused([&](auto& d) { adapts(d), d.tensors = tensors, d.tensor_count = 2; }, "tensor 1 begins before");
  refused([&](auto& d) { adapts(d), d.tensors = tensors + 2, d.tensor_count = 1; },
          "not within the vector, which has 8 elements");
  expect_refused(ranks, {.struct_size = sizeof good, .collective = "neighbor_exchange", .destination_count = -1},
                 LSCHED_ERR_ARGUMENT, "");
}

// --- ranks without data --------------------------------------------------------------------------------------

lsched_schedule* created(lsched_world* runtime, const lsched_collective_desc& desc) {
  lsched_schedule* schedule = nullptr;
  diagnostic why;
  EXPECT_EQ(lsched_collective_create(runtime, &desc, &schedule, &why), LSCHED_OK) << why.text;
  return schedule;
}

TEST(c_collective, a_rank_without_a_block_works_in_place_and_is_bound_to_other_memory) {
  const threads ranks(3);
  ranks.each([](lsched_world* runtime, rank r) {
    const std::uint64_t counts[] = {2, 0, 3};
    const std::size_t begin[] = {0, 2, 2};
    const auto me = static_cast<std::size_t>(r);
    numbers all(5), other(5);
    for (numbers* it : {&all, &other})
      std::fill_n(it->begin() + static_cast<std::ptrdiff_t>(begin[me]), counts[me], r + 1);
    lsched_schedule* schedule = created(runtime, {.struct_size = sizeof(lsched_collective_desc),
                                                  .collective = "allgatherv",
                                                  .input = all.data() + begin[me],
                                                  .output = all.data(),
                                                  .counts = counts,
                                                  .dtype = LSCHED_I64});
    ASSERT_NE(schedule, nullptr);
    const void* inputs[] = {other.data() + begin[me]};
    void* outputs[] = {other.data()};
    EXPECT_EQ(lsched_run(schedule, k_limit_ns, nullptr), LSCHED_OK);
    EXPECT_EQ(lsched_rebind(schedule, inputs, outputs), LSCHED_OK);
    EXPECT_EQ(lsched_run(schedule, k_limit_ns, nullptr), LSCHED_OK);
    EXPECT_EQ(all, (numbers{1, 1, 3, 3, 3}));
    EXPECT_EQ(other, all);
    EXPECT_EQ(lsched_schedule_destroy(schedule, k_limit_ns, nullptr), LSCHED_OK);
  });
}

TEST(c_collective, a_rank_without_neighbors_needs_no_counts) {
  const threads ranks(3);
  ranks.each([](lsched_world* runtime, rank r) {
    const std::int32_t peer = 1 - r;  // ranks 0 and 1 exchange a value, and rank 2 has no peer
    const std::uint64_t one = 1;
    numbers input{r + 5}, output{0};
    lsched_collective_desc desc{.struct_size = sizeof desc, .collective = "neighbor_exchange", .dtype = LSCHED_I64};
    if (r < 2) {
      desc.input = input.data(), desc.output = output.data();
      desc.counts = desc.recv_counts = &one;
      desc.destinations = desc.sources = &peer;
      desc.destination_count = desc.source_count = 1;
    }
    lsched_schedule* schedule = created(runtime, desc);
    ASSERT_NE(schedule, nullptr);
    EXPECT_EQ(lsched_run(schedule, k_limit_ns, nullptr), LSCHED_OK);
    EXPECT_EQ(output, r < 2 ? numbers{peer + 5} : numbers{0});
    EXPECT_EQ(lsched_schedule_destroy(schedule, k_limit_ns, nullptr), LSCHED_OK);
  });
}

TEST(c_collective, a_barrier_has_the_radix_it_is_given_and_ranks_agree_about_it) {
  const threads ranks(5);
  const auto create_with = [](lsched_world* runtime, rank radix, lsched_status expected) {
    const lsched_collective_desc desc{
        .struct_size = sizeof desc, .collective = "barrier", .algorithm = "k_dissemination", .radix = radix};
    lsched_schedule* schedule = nullptr;
    EXPECT_EQ(lsched_collective_create(runtime, &desc, &schedule, nullptr), expected);
    if (schedule == nullptr) return std::string();
    std::string text(1 << 14, '\0');
    EXPECT_EQ(lsched_schedule_print(schedule, LSCHED_PRINT_TEXT, text.data(), text.size(), nullptr), LSCHED_OK);
    EXPECT_EQ(lsched_schedule_destroy(schedule, k_limit_ns, nullptr), LSCHED_OK);
    return text;
  };
  ranks.each([&](lsched_world* runtime, rank r) {
    EXPECT_NE(create_with(runtime, 2, LSCHED_OK), create_with(runtime, 5, LSCHED_OK));
    create_with(runtime, r == 1 ? 5 : 2, LSCHED_ERR_MISMATCH);
  });
}

// --- adaptive sums -------------------------------------------------------------------------------------------

/// Three tensors, with a gap before the last. The first tensor is equal on all ranks. In the second tensor, the vectors
/// of any two ranks are orthogonal. The third tensor is non-finite on rank 1.
constexpr lsched_tensor k_tensors[] = {{0, 50}, {50, 60}, {120, 30}};

std::vector<float> contribution_of(rank r) {
  std::vector<float> vector(150, 1.0f);
  for (std::size_t i = 0; i < 50; ++i) vector[i] = static_cast<float>(i);
  for (std::size_t i = 50; i < 110; ++i) vector[i] = i % 6 == static_cast<std::size_t>(r) ? 2.0f : 0.0f;
  if (r == 1) vector[130] = std::numeric_limits<float>::infinity();
  return vector;
}

void expect_adasum(lsched_world* runtime, rank r, rank size, const char* algorithm, bool in_place) {
  std::vector<float> input = contribution_of(r), output(150, -1.0f);
  if (in_place) output = input;
  lsched_schedule* schedule = created(runtime, {.struct_size = sizeof(lsched_collective_desc),
                                                .collective = "adasum",
                                                .input = in_place ? output.data() : input.data(),
                                                .output = output.data(),
                                                .count = 150,
                                                .dtype = LSCHED_F32,
                                                .algorithm = algorithm,
                                                .tensors = k_tensors,
                                                .tensor_count = std::size(k_tensors)});
  ASSERT_NE(schedule, nullptr);
  for (int round = 0; round < (in_place ? 1 : 3); ++round) {
    EXPECT_EQ(lsched_run(schedule, k_limit_ns, nullptr), LSCHED_OK);
    for (std::size_t i = 0; i < 50; ++i) EXPECT_EQ(output[i], static_cast<float>(i));
    for (std::size_t i = 50; i < 110; ++i)
      EXPECT_EQ(output[i], i % 6 < static_cast<std::size_t>(size) ? 2.0f : 0.0f) << algorithm << " " << i;
    for (std::size_t i = 120; i < 150; ++i) EXPECT_EQ(std::isnan(output[i]), size > 1) << algorithm << " " << i;
  }
  EXPECT_EQ(lsched_schedule_destroy(schedule, k_limit_ns, nullptr), LSCHED_OK);
}

TEST(c_collective, adasum_is_a_sum_or_a_mean_of_each_tensor_by_itself) {
  for (const rank size : {1, 3, 5, 6, 4}) {
    const threads ranks(size);
    ranks.each([&](lsched_world* runtime, rank r) {
      for (const char* algorithm : {"auto", "recursive_doubling", "halving", "linear"})
        for (const bool in_place : {false, true}) expect_adasum(runtime, r, size, algorithm, in_place);
    });
  }
}

// --- non-finite tensors --------------------------------------------------------------------------------------

using flags = std::vector<std::uint8_t>;
using reals = std::vector<double>;

flags non_finite_by(const lsched_schedule* schedule, std::size_t tensors) {
  flags found(tensors, 7);
  std::uint64_t number = 7, same = 7;
  EXPECT_EQ(lsched_non_finite_tensors(schedule, tensors, found.data(), &number), LSCHED_OK);
  EXPECT_EQ(number, static_cast<std::uint64_t>(std::count(found.begin(), found.end(), 1)));
  EXPECT_EQ(lsched_non_finite_tensors(schedule, 0, nullptr, &same), LSCHED_OK);
  EXPECT_EQ(same, number);
  return found;
}

/// Checks the flags of non-finite tensors after a sum of five tensors. The first four tensors have 40 elements. The
/// first tensor is finite. Rank `size` / 2 makes the next three tensors non-finite. The last tensor is empty.
void expect_non_finite(lsched_world* runtime, rank r, rank size, lsched_dtype type, const char* algorithm) {
  constexpr double k_infinity = std::numeric_limits<double>::infinity();
  const lsched_tensor tensors[] = {{0, 40}, {40, 40}, {80, 40}, {120, 40}, {160, 0}};
  reals given(160, 1);
  if (r == size / 2) given[40] = k_infinity, given[100] = std::nan(""), given[159] = -k_infinity;
  std::vector<double> memory(160);
  const auto give = [&] {
    EXPECT_EQ(lsched_convert(LSCHED_F64, given.data(), 160, 1, type, memory.data()), LSCHED_OK);
  };
  lsched_schedule* schedule = created(runtime, {.struct_size = sizeof(lsched_collective_desc),
                                                .collective = "adasum",
                                                .input = memory.data(),
                                                .output = memory.data(),
                                                .count = 160,
                                                .dtype = type,
                                                .algorithm = algorithm,
                                                .tensors = tensors,
                                                .tensor_count = std::size(tensors)});
  ASSERT_NE(schedule, nullptr);
  EXPECT_EQ(lsched_non_finite_tensors(schedule, 0, nullptr, nullptr), LSCHED_ERR_STATE) << "before the first round";
  give();
  EXPECT_EQ(lsched_run(schedule, k_limit_ns, nullptr), LSCHED_OK);
  EXPECT_EQ(non_finite_by(schedule, 5), (flags{0, 1, 1, 1, 0})) << algorithm << " of dtype " << type;
  given.assign(160, 2);
  give();
  EXPECT_EQ(lsched_run(schedule, k_limit_ns, nullptr), LSCHED_OK);
  EXPECT_EQ(non_finite_by(schedule, 5), flags(5, 0)) << "the next round has its own flags";
  EXPECT_EQ(lsched_schedule_destroy(schedule, k_limit_ns, nullptr), LSCHED_OK);
}

TEST(c_collective, non_finite_tensors_are_told_on_all_ranks_alike) {
  for (const rank size : {1, 3, 5, 2}) {
    const threads ranks(size);
    ranks.each([&](lsched_world* runtime, rank r) {
      for (const lsched_dtype type : {LSCHED_F16, LSCHED_BF16, LSCHED_F32, LSCHED_F64})
        for (const char* algorithm : {"recursive_doubling", "halving", "linear"})
          expect_non_finite(runtime, r, size, type, algorithm);
    });
  }
}

/// Returns the adaptive sum of the ranks' f16 vectors. `spoilt` receives the non-finite flag of the tensor.
reals half_sum(lsched_world* runtime, reals vector, flags& spoilt) {
  std::uint16_t memory[2];
  lsched_schedule* schedule = created(runtime, {.struct_size = sizeof(lsched_collective_desc),
                                                .collective = "adasum",
                                                .input = memory,
                                                .output = memory,
                                                .count = 2,
                                                .dtype = LSCHED_F16});
  EXPECT_EQ(lsched_convert(LSCHED_F64, vector.data(), 2, 1, LSCHED_F16, memory), LSCHED_OK);
  EXPECT_EQ(lsched_run(schedule, k_limit_ns, nullptr), LSCHED_OK);
  spoilt = non_finite_by(schedule, 1);
  EXPECT_EQ(lsched_convert(LSCHED_F16, memory, 2, 1, LSCHED_F64, vector.data()), LSCHED_OK);
  EXPECT_EQ(lsched_schedule_destroy(schedule, k_limit_ns, nullptr), LSCHED_OK);
  return vector;
}

/// The contributions of the first two ranks are orthogonal, so their adaptive sum is their sum. The sum has an element
/// of 80000, which f16 cannot represent. All other ranks contribute zeros.
TEST(c_collective, an_adasum_of_f16_overflows_in_the_last_combination_or_spoils_its_tensor) {
  for (const rank size : {2, 3, 5}) {
    const threads ranks(size);
    ranks.each([&](lsched_world* runtime, rank r) {
      flags spoilt;
      const double x = r < 2 ? 40000 : 0, y = r == 1 ? -x : x;
      const reals sum = half_sum(runtime, {x, y}, spoilt);
      EXPECT_EQ(spoilt[0], size == 2 ? 0 : 1);
      if (size == 2)
        EXPECT_EQ(sum, (reals{std::numeric_limits<double>::infinity(), 0}));
      else
        EXPECT_TRUE(std::isnan(sum[0]) && std::isnan(sum[1]));
      EXPECT_EQ(half_sum(runtime, {x / 2, y / 2}, spoilt), (reals{40000, 0}));  // all values are below 65504
      EXPECT_EQ(spoilt[0], 0);
    });
  }
}

TEST(c_collective, non_finite_tensors_are_those_of_an_adasum_that_has_run) {
  const threads ranks(2);
  ranks.each([](lsched_world* runtime, rank r) {
    std::vector<float> vector(8, 1);
    std::uint8_t one[2];
    std::uint64_t number;
    const auto asked = [&](lsched_schedule* of, std::uint64_t tensors, std::uint8_t* into) {
      return lsched_non_finite_tensors(of, tensors, into, &number);
    };
    lsched_collective_desc desc{.struct_size = sizeof desc,
                                .collective = "adasum",
                                .input = vector.data(),
                                .output = vector.data(),
                                .count = 8,
                                .dtype = LSCHED_F32};
    lsched_schedule* sum = created(runtime, desc);
    desc.collective = "allreduce", desc.reduction = LSCHED_SUM;
    lsched_schedule* other = created(runtime, desc);
    EXPECT_EQ(asked(nullptr, 1, one), LSCHED_ERR_ARGUMENT);
    EXPECT_EQ(asked(other, 1, one), LSCHED_ERR_ARGUMENT);
    EXPECT_EQ(asked(sum, 1, one), LSCHED_ERR_STATE);
    lsched_ticket ticket;
    if (r == 0) {  // rank 0 starts before the other rank
      EXPECT_EQ(lsched_start(sum, &ticket), LSCHED_OK);
      EXPECT_EQ(asked(sum, 1, one), LSCHED_ERR_STATE);
      EXPECT_EQ(lsched_run(other, k_limit_ns, nullptr), LSCHED_OK);
    } else {
      EXPECT_EQ(lsched_run(other, k_limit_ns, nullptr), LSCHED_OK);
      EXPECT_EQ(lsched_start(sum, &ticket), LSCHED_OK);
    }
    EXPECT_EQ(lsched_wait(ticket, k_limit_ns, nullptr), LSCHED_OK);
    EXPECT_EQ(asked(sum, 1, one), LSCHED_OK);
    EXPECT_EQ(asked(sum, 2, one), LSCHED_ERR_ARGUMENT);
    EXPECT_EQ(asked(sum, 1, nullptr), LSCHED_ERR_ARGUMENT);
    EXPECT_EQ(asked(sum, 0, one), LSCHED_ERR_ARGUMENT);
    for (lsched_schedule* it : {sum, other}) EXPECT_EQ(lsched_schedule_destroy(it, k_limit_ns, nullptr), LSCHED_OK);
  });
}

TEST(c_collective, only_floating_types_are_converted) {
  const float one = 1;
  double same = 0;
  EXPECT_EQ(lsched_convert(LSCHED_F32, &one, 1, 4, LSCHED_F64, &same), LSCHED_OK);
  EXPECT_EQ(same, 4);
  EXPECT_EQ(lsched_convert(LSCHED_F32, nullptr, 0, 4, LSCHED_F64, nullptr), LSCHED_OK);
  EXPECT_EQ(lsched_convert(LSCHED_F32, nullptr, 1, 4, LSCHED_F64, &same), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_convert(LSCHED_F32, &one, 1, 4, LSCHED_F64, nullptr), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_convert(LSCHED_I32, &one, 1, 4, LSCHED_F64, &same), LSCHED_ERR_ARGUMENT);
  for (const lsched_dtype none : {LSCHED_DTYPE_NONE, static_cast<lsched_dtype>(LSCHED_F64 + 1)}) {
    EXPECT_EQ(lsched_convert(LSCHED_F32, &one, 1, 4, none, &same), LSCHED_ERR_ARGUMENT);
    EXPECT_EQ(lsched_convert(none, &one, 1, 4, LSCHED_F32, &same), LSCHED_ERR_ARGUMENT);
  }
}

TEST(c_collective, a_partial_adasum_combines_who_is_there) {
  const threads ranks(3);
  ranks.each([](lsched_world* runtime, rank r) {
    const lsched_tensor tensors[] = {{0, 3}, {3, 3}};
    lsched_partial_desc desc{.struct_size = sizeof desc,
                             .collective = "adasum",
                             .count = 6,
                             .dtype = LSCHED_F32,
                             .activation = "full",
                             .tensors = tensors,
                             .tensor_count = 2};
    lsched_schedule* schedule = nullptr;
    diagnostic why;
    ASSERT_EQ(lsched_partial_create(runtime, &desc, &schedule, &why), LSCHED_OK) << why.text;
    std::vector<float> vector(6, 5.0f), result(6);
    for (rank i = 0; i < 3; ++i) vector[static_cast<std::size_t>(i)] = i == r ? static_cast<float>(i + 1) : 0.0f;
    lsched_ticket ticket;
    lsched_report report{.struct_size = sizeof report};
    if (r == 1) std::ranges::fill(vector, 0.0f);  // zeros do not change the sum
    EXPECT_EQ(lsched_offer(schedule, one_bucket(vector.data()), &ticket), LSCHED_OK);
    EXPECT_EQ(lsched_collect(ticket, one_bucket(result.data()), k_limit_ns, &report, &why), LSCHED_OK) << why.text;
    EXPECT_EQ(report.last.contributors, 3u);
    EXPECT_EQ(result, (std::vector<float>{1, 0, 3, 5, 5, 5}));
    EXPECT_EQ(lsched_leave(schedule), LSCHED_OK);
    EXPECT_EQ(lsched_schedule_destroy(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
    desc.divisor = LSCHED_DIVIDE_BY_RANKS;
    EXPECT_EQ(lsched_partial_create(runtime, &desc, &schedule, &why), LSCHED_ERR_ARGUMENT);
    EXPECT_NE(std::string(why.text).find("divisor"), std::string::npos) << why.text;
  });
}

TEST(c_collective, ranks_with_different_tensors_learn_that) {
  const threads ranks(3);
  ranks.each([](lsched_world* runtime, rank r) {
    std::vector<float> vector(150);
    lsched_collective_desc desc{.struct_size = sizeof desc,
                                .collective = "adasum",
                                .input = vector.data(),
                                .output = vector.data(),
                                .count = 150,
                                .dtype = LSCHED_F32,
                                .tensors = k_tensors,
                                .tensor_count = r == 2 ? 2u : 3u};
    lsched_schedule* schedule = nullptr;
    diagnostic why;
    EXPECT_EQ(lsched_collective_create(runtime, &desc, &schedule, &why), LSCHED_ERR_MISMATCH);
    EXPECT_NE(std::string(why.text).find("in 2 tensors"), std::string::npos) << why.text;
  });
}

TEST(c_collective, an_allreduce_has_the_segments_that_its_desc_asks_for) {
  const threads ranks(3);
  ranks.each([](lsched_world* runtime, rank) {
    numbers input(3000), output(3000);
    const auto text_of = [](lsched_schedule* schedule) {
      std::string text(1 << 16, '\0');
      EXPECT_EQ(lsched_schedule_print(schedule, LSCHED_PRINT_TEXT, text.data(), text.size(), nullptr), LSCHED_OK);
      EXPECT_EQ(lsched_schedule_destroy(schedule, k_limit_ns, nullptr), LSCHED_OK);
      return text;
    };
    const auto create = [&](std::uint64_t segment_bytes) {
      lsched_collective_desc desc = allreduce_of(input, output);
      desc.algorithm = "ring";
      desc.segment_bytes = segment_bytes;
      lsched_schedule* made = nullptr;
      EXPECT_EQ(lsched_collective_create(runtime, &desc, &made, nullptr), LSCHED_OK);
      return text_of(made);
    };
    EXPECT_EQ(create(800), create(800));
    EXPECT_NE(create(800), create(0));
  });
}

TEST(c_collective, a_rank_that_refuses_a_create_fails_that_create_and_no_other) {
  const threads ranks(3);
  ranks.each([](lsched_world* runtime, rank r) {
    for (const bool is_refused_well : {true, false}) {
      numbers input(8, r), output(8);
      const lsched_collective_desc desc = allreduce_of(input, output);
      lsched_schedule* schedule = nullptr;
      diagnostic why;
      const lsched_status code = is_refused_well ? LSCHED_ERR_BOUNDS : LSCHED_ERR_ARGUMENT;
      if (r == 1)
        EXPECT_EQ(lsched_refuse(runtime, LSCHED_ERR_BOUNDS, is_refused_well ? "too long" : nullptr, &why), code);
      else
        EXPECT_EQ(lsched_collective_create(runtime, &desc, &schedule, &why), code);
      EXPECT_EQ(why.rank, r == 1 ? -1 : 1);
      EXPECT_TRUE(why.says(is_refused_well ? "too long" : "text is null")) << why.text;
      ASSERT_EQ(lsched_collective_create(runtime, &desc, &schedule, &why), LSCHED_OK) << why.text;
      EXPECT_EQ(lsched_run(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
      EXPECT_EQ(output, numbers(8, 3));
      EXPECT_EQ(lsched_schedule_destroy(schedule, k_limit_ns, &why), LSCHED_OK);
    }
  });
  EXPECT_EQ(lsched_refuse(nullptr, LSCHED_ERR_ARGUMENT, "alone", nullptr), LSCHED_ERR_ARGUMENT);
}

TEST(c_collective, ranks_that_ask_for_different_things_learn_both) {
  const threads ranks(3);
  ranks.each([](lsched_world* runtime, rank r) {
    numbers input(8), output(8);
    lsched_collective_desc desc = allreduce_of(input, output);
    if (r == 1) desc.segment_bytes = 16;
    lsched_schedule* schedule = nullptr;
    diagnostic why;
    EXPECT_EQ(lsched_collective_create(runtime, &desc, &schedule, &why), LSCHED_ERR_MISMATCH);
    EXPECT_NE(std::string(why.text).find("segment 2"), std::string::npos) << why.text;
    EXPECT_NE(std::string(why.text).find("set segment_bytes on all ranks"), std::string::npos) << why.text;
  });
}

TEST(c_collective, ranks_whose_elements_mean_different_things_learn_that) {
  const threads ranks(3);
  ranks.each([](lsched_world* runtime, rank r) {
    numbers input(8, 1), output(8);
    diagnostic why;
    for (const char* differs : {"complex", ""}) {
      lsched_collective_desc desc = allreduce_of(input, output);
      desc.elements = r == 1 ? differs : "bool";
      lsched_schedule* schedule = nullptr;
      EXPECT_EQ(lsched_collective_create(runtime, &desc, &schedule, &why), LSCHED_ERR_MISMATCH);
      EXPECT_TRUE(why.says("bool")) << why.text;
    }
    lsched_collective_desc desc = allreduce_of(input, output);
    desc.elements = r == 1 ? nullptr : "";
    lsched_schedule* schedule = nullptr;
    ASSERT_EQ(lsched_collective_create(runtime, &desc, &schedule, &why), LSCHED_OK) << why.text;
    EXPECT_EQ(lsched_run(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
    EXPECT_EQ(output, numbers(8, 3));
    EXPECT_EQ(lsched_schedule_destroy(schedule, k_limit_ns, &why), LSCHED_OK);
  });
}

}  // namespace
}  // namespace lsched::testing
