// An exercise is one collective in a benchmark, with a check of its results. The check must accept the results that the
// definition of the collective requires, and reject all other results.
#include "microbench/exercise.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace lsched::bench {
namespace {

using vectors = std::vector<std::vector<float>>;

/// Returns the sum of element i over the ranks from `from` to `to` - 1.
float sum_of(const vectors& inputs, int from, int to, std::uint64_t i) {
  float sum = 0;
  for (int r = from; r < to; ++r) sum += inputs[static_cast<std::size_t>(r)][i];
  return sum;
}

/// Returns element i of the output of rank `me`, as the MPI standard defines the collective. Rank 0 is the root. A
/// collective whose name ends in v has the same definition as the collective without the v, because all blocks have
/// `count` elements.
float defined(std::string_view what, const vectors& inputs, int me, std::uint64_t count, std::uint64_t i) {
  const auto size = static_cast<int>(inputs.size());
  const auto mine = static_cast<std::uint64_t>(me) * count;
  if (what == "bcast") return inputs[0][i];
  if (what == "allreduce" || what == "reduce") return sum_of(inputs, 0, size, i);
  if (what == "reduce_scatter" || what == "reduce_scatter_block") return sum_of(inputs, 0, size, mine + i);
  if (what == "scan") return sum_of(inputs, 0, me + 1, i);
  if (what == "exscan") return sum_of(inputs, 0, me, i);
  if (what.ends_with('v')) what.remove_suffix(1);
  if (what == "allgather" || what == "gather") return inputs[i / count][i % count];
  if (what == "alltoall") return inputs[i / count][mine + i % count];
  if (what == "scatter") return inputs[0][mine + i];
  ADD_FAILURE() << what << " has no definition here";
  return 0;
}

bool is_undefined(const collective& kind, std::size_t rank) { return &kind == &k_exscan && rank == 0; }

struct world {
  world(const collective& kind, int size, std::uint64_t bytes, std::uint64_t salt) {
    for (int r = 0; r < size; ++r) {
      ranks.emplace_back(kind, r, size, bytes);
      auto& input = inputs.emplace_back(ranks.back().inputs());
      ranks.back().fill(input.data(), salt);
    }
    for (int r = 0; r < size; ++r) {
      auto& output = outputs.emplace_back(ranks[static_cast<std::size_t>(r)].outputs());
      for (std::uint64_t i = 0; i < output.size(); ++i) output[i] = defined(kind.name, inputs, r, ranks[0].count(), i);
    }
  }
  std::vector<exercise> ranks;
  vectors inputs, outputs;
};

template <class Check>
void for_all_worlds(const Check& check) {
  for (const collective* const kind : exercises())
    for (const int size : {3, 5, 6, 7, 1, 2, 4, 8})
      for (const std::uint64_t bytes : {0u, 4u, 8u, 400u}) {
        SCOPED_TRACE(std::string(kind->name) + ", " + std::to_string(size) + " ranks, " + std::to_string(bytes) +
                     " bytes");
        check(*kind, size, bytes);
      }
}

TEST(Exercise, the_defined_result_is_right_on_every_rank) {
  for_all_worlds([](const collective& kind, int size, std::uint64_t bytes) {
    const world it(kind, size, bytes, 3);
    for (std::size_t r = 0; r < it.ranks.size(); ++r)
      EXPECT_EQ(it.ranks[r].count_wrong(it.outputs[r].data(), 3), 0u) << r;
  });
}

TEST(Exercise, one_wrong_element_is_one_wrong_element) {
  for_all_worlds([](const collective& kind, int size, std::uint64_t bytes) {
    world it(kind, size, bytes, 3);
    for (std::size_t r = 0; r < it.ranks.size(); ++r)
      for (std::size_t i = 0; i < it.outputs[r].size(); i += 7) {
        it.outputs[r][i] += 1;
        EXPECT_EQ(it.ranks[r].count_wrong(it.outputs[r].data(), 3), is_undefined(kind, r) ? 0u : 1u)
            << r << " at " << i;
        it.outputs[r][i] -= 1;
      }
  });
}

TEST(Exercise, a_result_of_other_inputs_is_wrong) {
  for_all_worlds([](const collective& kind, int size, std::uint64_t bytes) {
    if (bytes < 400) return;  // short results may be equal by chance
    const world it(kind, size, bytes, 3);
    for (std::size_t r = 0; r < it.ranks.size(); ++r) {
      if (it.outputs[r].empty() || is_undefined(kind, r)) continue;
      EXPECT_GT(it.ranks[r].count_wrong(it.outputs[r].data(), 4), it.outputs[r].size() / 2) << r;
    }
  });
}

TEST(Exercise, blocks_that_change_places_are_wrong) {
  for (const char* name : {"allgather", "alltoall", "gather"}) {
    world it(*find_collective(name), 5, 400, 1);
    std::vector<float>& output = it.outputs[0];
    const auto count = static_cast<std::ptrdiff_t>(it.ranks[0].count());
    std::swap_ranges(output.begin() + count, output.begin() + 2 * count, output.begin() + 3 * count);
    EXPECT_EQ(it.ranks[0].count_wrong(output.data(), 1), 2 * it.ranks[0].count()) << name;
  }
}

TEST(Exercise, in_place_buffers_hold_input_and_output) {
  for_all_worlds([](const collective& kind, int size, std::uint64_t bytes) {
    for (int r = 0; r < size; ++r) {
      const exercise it(kind, r, size, bytes);
      EXPECT_LE(it.input_offset() + it.inputs(), std::max(it.inputs(), it.outputs()));
      EXPECT_LE(it.output_offset() + it.outputs(), std::max(it.inputs(), it.outputs()));
    }
  });
}

TEST(Exercise, a_size_is_what_the_osu_benchmarks_mean) {
  const auto count = [](const char* name) { return exercise(*find_collective(name), 0, 4, 64).count(); };
  EXPECT_EQ(count("allreduce"), 16u);                                // 64 bytes are the whole vector
  EXPECT_EQ(count("reduce_scatter_block"), 4u);                      // 64 bytes are the vector, of which a rank gets a
                                                                     // quarter
  EXPECT_EQ(count("allgather"), 16u);                                // 64 bytes are the contribution of one rank
  EXPECT_EQ(count("alltoall"), 16u);                                 // 64 bytes are the block for one rank
  EXPECT_EQ(exercise(k_reduce_scatter_block, 0, 3, 8).count(), 1u);  // a block has at least one element
}

}  // namespace
}  // namespace lsched::bench
