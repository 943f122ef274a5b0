// Tests of tunables: the radix, the segment size, and the division into uneven blocks. For all values, the schedules of
// every generator must meet the postcondition of their collective and have the predicted cost. Generators ignore
// tunables that they do not use.
#include <gtest/gtest.h>

#include <algorithm>

#include "collectives/registry.h"
#include "collectives/requests/sample_requests.h"
#include "libsched/verify/verify.h"
#include "tests/support/sampling.h"
#include "tests/support/symbolic_world.h"

namespace lsched::testing {
namespace {

std::string fault_of(const algorithm& it, rank size, const shape& data) {
  const auto policy = it.of->activates ? activation_policy::full : activation_policy::none;
  const auto programs =
      whole_world(size, [&](world place) { return it.generate(place, data, {.policy = policy, .seed = 1}); });
  const verify_options options{.in_place = data.in_place ? aliasing_of(*it.of, size, data) : aliasing{}};
  const auto answer = verify(programs, promise_of(it, size, data, {.policy = policy}), options);
  if (!answer.notes.empty()) return answer.notes[0].text;
  return answer.holds() ? "" : std::string(name_of(answer.findings[0].what)) + ": " + answer.findings[0].text;
}

std::string words_for(const algorithm& it, rank size, const shape& data) {
  return std::string(it.of->name) + "/" + std::string(it.name) + ", " + std::to_string(size) + " ranks, root " +
         std::to_string(data.root) + ", radix " + std::to_string(data.radix) + ", segment " +
         std::to_string(data.segment) + (data.in_place ? ", in place" : "");
}

/// Proves the schedules of a request, in place and out of place.
void expect_proof(const algorithm& it, rank size, shape data) {
  for (const bool in_place : {false, true}) {
    data.in_place = in_place;
    if (in_place && (!it.needs.in_place || !it.of->moves_data)) continue;
    EXPECT_EQ(fault_of(it, size, data), "") << words_for(it, size, data);
  }
}

class Knobs : public ::testing::TestWithParam<algorithm> {};

TEST_P(Knobs, any_radix_will_do) {
  const algorithm& it = GetParam();
  for (const rank size : {1, 2, 3, 5, 6, 7, 8, 17, 28}) {
    if (sampled() && size > 7) continue;
    for (const rank radix : {2, 3, 4, 5, 100}) {
      shape data = typical_shape(*it.of, size, 7, dtype::f32, kernel::sum);
      data.radix = radix;
      for (data.root = 0; data.root < (it.of->is_rooted ? size : 1); ++data.root) expect_proof(it, size, data);
    }
  }
}

TEST_P(Knobs, any_segment_will_do) {
  const algorithm& it = GetParam();
  if (!it.of->moves_data) return;
  for (const rank size : {1, 2, 3, 5, 7, 8})
    for (const std::uint64_t count : {0u, 1u, 3u, 40u, 500u})
      for (const std::uint64_t segment : {1u, 3u, 64u, 1000u}) {
        shape data = typical_shape(*it.of, size, count, dtype::f32, kernel::sum);
        data.segment = segment;
        expect_proof(it, size, data);
      }
}

TEST_P(Knobs, some_ranks_may_have_nothing) {
  const algorithm& it = GetParam();
  if (!it.of->has_counts) return;
  for (const rank size : {1, 2, 3, 5, 6, 7, 8, 13}) {
    shape data = typical_shape(*it.of, size, 0, dtype::f32, kernel::sum);
    const auto ranks = static_cast<std::size_t>(size);
    for (std::size_t who = 0; who < ranks; ++who) {
      data.root = it.of->is_rooted ? size - 1 : 0;
      data.counts.assign(ranks, 0);
      data.counts[who] = 9;
      expect_proof(it, size, data);
      data.counts.assign(ranks, 2);
      data.counts[who] = 0;
      expect_proof(it, size, data);
    }
  }
}

/// The blocks of an exchange are random. A pair of ranks may have no block, an empty block or several blocks. Some
/// ranks send a block to themselves.
TEST_P(Knobs, pairs_may_have_any_number_of_blocks) {
  const algorithm& it = GetParam();
  if (!it.of->has_blocks) return;
  for (const rank size : {1, 2, 3, 5, 6, 7, 8})
    for (const std::uint64_t seed : {1u, 2u, 3u}) {
      shape data = typical_shape(*it.of, size, 0, dtype::f32, kernel::none);
      data.blocks.clear();
      for (std::uint64_t i = 0; i < 3 * static_cast<std::uint64_t>(size); ++i)
        data.blocks.push_back({static_cast<rank>(i * (seed + 2) * i % static_cast<std::uint64_t>(size)),
                               static_cast<rank>((i * seed + i / 3) % static_cast<std::uint64_t>(size)), i * seed % 4});
      data.segment = seed - 1;
      expect_proof(it, size, data);
    }
}

/// The schedule of a rank does not depend on blocks that the rank neither sends nor receives.
TEST_P(Knobs, blocks_of_others_do_not_matter) {
  const algorithm& it = GetParam();
  if (!it.of->has_blocks) return;
  const shape all = typical_shape(*it.of, 5, 3, dtype::f32, kernel::none);
  for (rank self = 0; self < 5; ++self) {
    shape mine = all;
    std::erase_if(mine.blocks, [&](const exchanged_block& block) { return block.from != self && block.to != self; });
    const auto with_all = it.generate({self, 5}, all, {});
    const auto with_mine = it.generate({self, 5}, mine, {});
    ASSERT_TRUE(with_all && with_mine);
    EXPECT_TRUE(std::ranges::equal((*with_all)->ops(), (*with_mine)->ops()));
  }
}

TEST_P(Knobs, a_radix_below_two_is_refused) {
  const algorithm& it = GetParam();
  shape data = typical_shape(*it.of, 3, 1, dtype::f32, kernel::sum);
  data.radix = 1;
  EXPECT_TRUE(
      validate(it, {0, 3}, data, {.policy = it.of->activates ? activation_policy::full : activation_policy::none}));
}

INSTANTIATE_TEST_SUITE_P(registry, Knobs, ::testing::ValuesIn(algorithms().begin(), algorithms().end()),
                         [](const auto& of) {
                           return std::string(of.param.of->name) + "_" + std::string(of.param.name);
                         });

}  // namespace
}  // namespace lsched::testing
