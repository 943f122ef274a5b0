// Tests of the dense update: a vector that holds the latest result, and no elements of earlier results.
#include "collectives/sparse/steps/lists.h"

#include <gtest/gtest.h>

#include "tests/ops/lists.h"

namespace lsched {
namespace {

const std::uint64_t k_dirt = 3;

elements vector_with(dtype type, std::size_t count, const list& values) {
  elements made(count, 0);
  for (const entry& it : values) made[it.index] = quotient(type, it.value, 7);
  return made;
}

TEST(DenseUpdate, holds_the_last_result_and_zeros) {
  for (const dtype type : k_floats)
    for (const std::size_t count : k_lengths) {
      SCOPED_TRACE(std::string(name_of(type)) + ", " + std::to_string(count));
      std::mt19937_64 draw(count);
      dense_update update(type, count, count);
      const dense_in_memory one(type, elements(count, k_dirt)), other(type, elements(count, k_dirt));
      for (const dense_in_memory* to : {&one, &one, &other, &other, &one, &one}) {
        const list drawn = drawn_list(type, count / 2 + 1, count, draw);
        const list_in_memory items(type, drawn);
        update.write({items.data(), drawn.size()}, 7, to->data());
        ASSERT_EQ(to->content(), vector_with(type, count, drawn));
        update.write({items.data(), drawn.size()}, 7, nullptr);
      }
      EXPECT_TRUE(one.is_intact() && other.is_intact());
    }
}

}  // namespace
}  // namespace lsched
