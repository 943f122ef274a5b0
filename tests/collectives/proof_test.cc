// Proofs that the schedules of every registered generator meet the postcondition of their collective. The proofs cover
// all orders of arrival, and every rank that may start a round. `lsched verify --all` makes these proofs for more
// sizes.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "collectives/registry.h"
#include "collectives/requests/sample_requests.h"
#include "libsched/verify/verify.h"
#include "tests/support/sampling.h"
#include "tests/support/symbolic_world.h"

namespace lsched::testing {
namespace {

/// Returns the activations to prove, which together have every combination of op kinds. A sampled run omits an
/// activation if all its ops are also ops of another activation.
std::vector<activation> activations_for(const algorithm& it, rank size) {
  if (!it.of->activates) return {{}};
  const auto ranks = static_cast<std::uint32_t>(size);
  std::vector<activation> all{
      {.policy = activation_policy::full},
      {.policy = activation_policy::first_of, .seed = 1, .number = (ranks + 1) / 2, .full_every = 3},
      {.policy = activation_policy::all_of, .seed = 1, .number = ranks, .full_every = 2}};
  if (sampled()) return all;
  all.push_back({.policy = activation_policy::solo});
  all.push_back({.policy = activation_policy::deadline, .number = 1000});
  all.push_back({.policy = activation_policy::majority, .seed = 1});
  all.push_back({.policy = activation_policy::quorum, .number = std::min(ranks, 2u)});
  all.push_back({.policy = activation_policy::quorum, .number = 1 + (ranks - 1) / 2, .grace_us = 1000});
  return all;
}

/// Returns the world sizes to prove. Sizes above 33 are proved only in soaks and by `lsched verify --all`.
std::vector<rank> sizes_of() {
  std::vector<rank> sizes{1, 2, 3, 5, 6, 7, 8, 13, 16, 33, 64, 100};
  const rank most = sampled() ? 7 : full() ? 100 : 33;
  std::erase_if(sizes, [&](rank size) { return size > most; });
  return sizes;
}

std::vector<shape> shapes_of(const algorithm& it, rank size) {
  if (!it.of->moves_data) return {{}};
  std::vector<shape> shapes;
  const auto ranks = static_cast<std::uint64_t>(size);
  for (const bool in_place : {false, true})
    for (const std::uint64_t count : {std::uint64_t{0}, std::uint64_t{1}, ranks - 1, ranks, ranks + 1})
      if (!in_place || it.needs.in_place) {
        shape data = typical_shape(*it.of, size, count, dtype::f32, kernel::sum);
        data.in_place = in_place;
        constexpr rank k_small = 16;
        if (size > k_small)
          shapes.push_back(std::move(data));
        else
          std::ranges::move(variants_of(it, size, data), std::back_inserter(shapes));
      }
  return shapes;
}

std::string first_words(const verification& answer) {
  return answer.holds() ? "" : std::string(name_of(answer.findings[0].what)) + ": " + answer.findings[0].text;
}

class Proof : public ::testing::TestWithParam<algorithm> {};

TEST_P(Proof, the_generator_keeps_its_promise) {
  const algorithm& it = GetParam();
  for (const rank size : sizes_of())
    for (const activation& starts : activations_for(it, size))
      for (const shape& data : shapes_of(it, size)) {
        const auto programs = whole_world(size, [&](world place) { return it.generate(place, data, starts); });
        const auto answer =
            verify(programs, promise_of(it, size, data, starts), {.in_place = aliasing_of(*it.of, size, data)});
        EXPECT_EQ(first_words(answer), "") << size << " ranks, count " << data.count << ", " << words_for(starts)
                                           << (data.in_place ? ", in place" : "");
        EXPECT_TRUE(answer.is_synchronising || !it.of->is_synchronising);
        EXPECT_TRUE(answer.notes.empty());
      }
}

/// Returns `data` with three times as many elements. Units of three elements must stay together.
shape in_threes(shape data) {
  data.unit = 3;
  data.count *= 3;
  for (std::uint64_t& count : data.counts) count *= 3;
  return data;
}

/// Returns the first compute op whose range begins or ends inside a unit, or k_no_op.
op_id cut_in(const schedule& program, std::uint64_t unit) {
  for (op_id id = 0; id < program.ops().size(); ++id) {
    const op& it = program.ops()[id];
    const bool is_whole =
        it.count % unit == 0 && it.a.offset() % unit == 0 && it.b.offset() % unit == 0 && it.c.offset() % unit == 0;
    if (it.what == kernel::user && !is_whole) return id;
  }
  return k_no_op;
}

TEST_P(Proof, user_defined_arithmetic_keeps_its_order_and_its_units) {
  const algorithm& it = GetParam();
  if (!it.of->reduces || it.of->activates) return;
  for (const rank size : sizes_of())
    for (shape data : shapes_of(it, size)) {
      data.what = kernel::user, data.is_mean = false;
      data.commutes = it.needs.needs_commutative;
      data = in_threes(data);
      const auto programs = whole_world(size, [&](world place) { return it.generate(place, data, {}); });
      const postcondition promise = promise_of(it, size, data, {});
      EXPECT_EQ(first_words(verify(programs, promise, {.in_place = aliasing_of(*it.of, size, data)})), "")
          << size << " ranks, count " << data.count << (data.in_place ? ", in place" : "");
      for (const schedule_ptr& program : programs) EXPECT_EQ(cut_in(*program, data.unit), k_no_op) << size;
    }
}

/// Proves worlds of 256 ranks (a power of two), of the sizes next to it, and of 1000 ranks.
TEST_P(Proof, soak_large_worlds) {
  const algorithm& it = GetParam();
  for (const rank size : {255, 256, 257, 1000}) {
    for (const activation& starts : activations_for(it, size)) {
      const shape data = typical_shape(*it.of, size, 1000, dtype::f32, kernel::sum);
      const auto programs = whole_world(size, [&](world place) { return it.generate(place, data, starts); });
      EXPECT_EQ(first_words(verify(programs, promise_of(it, size, data, starts))), "") << size << words_for(starts);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(registry, Proof, ::testing::ValuesIn(algorithms().begin(), algorithms().end()),
                         [](const auto& of) {
                           return std::string(of.param.of->name) + "_" + std::string(of.param.name);
                         });

}  // namespace
}  // namespace lsched::testing
