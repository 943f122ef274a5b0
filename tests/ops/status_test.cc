// Tests status codes and result<T>. A status code has a name, a text and a fixed number. A result<T> holds a value or a
// failure.
#include "ops/status.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <set>
#include <string>
#include <type_traits>
#include <utility>

namespace lsched {
namespace {

struct promise {
  int number;
  std::string_view name;
};

// A copy of the status codes and names of the C API. The copy is intended. If a code changes, compiled programs break,
// so the test must fail.
constexpr std::array<promise, 20> k_promises{{
    {0, "LSCHED_OK"},
    {1, "LSCHED_PENDING"},
    {-1, "LSCHED_ERR_ARGUMENT"},
    {-2, "LSCHED_ERR_BOUNDS"},
    {-3, "LSCHED_ERR_STATE"},
    {-4, "LSCHED_ERR_CYCLE"},
    {-5, "LSCHED_ERR_UNMATCHED"},
    {-6, "LSCHED_ERR_MISMATCH"},
    {-7, "LSCHED_ERR_CONSTRAINT"},
    {-8, "LSCHED_ERR_UNSUPPORTED"},
    {-9, "LSCHED_ERR_NOMEM"},
    {-10, "LSCHED_ERR_TRANSPORT"},
    {-11, "LSCHED_ERR_PEER"},
    {-12, "LSCHED_ERR_TIMEOUT"},
    {-13, "LSCHED_ERR_BUSY"},
    {-14, "LSCHED_ERR_VERSION"},
    {-15, "LSCHED_ERR_INTERNAL"},
    {-16, "LSCHED_ERR_NOT_FINITE"},
    {-17, "LSCHED_ERR_CANCELLED"},
    {-18, "LSCHED_ERR_DEVICE"},
}};

TEST(status, numbers_and_names_never_change) {
  for (const promise& row : k_promises) EXPECT_EQ(name_of(status{row.number}), row.name) << row.number;
}

TEST(status, names_and_texts_are_distinct_and_not_empty) {
  std::set<std::string_view> names;
  std::set<std::string_view> texts;
  for (const promise& row : k_promises) {
    EXPECT_FALSE(text_of(status{row.number}).empty()) << row.name;
    names.insert(name_of(status{row.number}));
    texts.insert(text_of(status{row.number}));
  }
  EXPECT_EQ(names.size(), k_promises.size());
  EXPECT_EQ(texts.size(), k_promises.size());
}

TEST(status, an_unknown_code_is_answered_and_shares_no_name_with_a_known_one) {
  std::size_t known = 0;
  for (int number = -100; number <= 100; ++number) {
    const bool is_known = name_of(status{number}) != "LSCHED_ERR_UNKNOWN";
    EXPECT_EQ(text_of(status{number}) != "unknown status code", is_known) << number;
    known += is_known ? 1 : 0;
  }
  EXPECT_EQ(known, k_promises.size());
}

TEST(result, holds_a_value) {
  const result<int> answer = 42;
  ASSERT_TRUE(answer.has_value());
  EXPECT_TRUE(static_cast<bool>(answer));
  EXPECT_EQ(*answer, 42);
}

TEST(result, holds_a_failure_with_its_detail) {
  const result<int> answer = failure{.code = status::peer, .text = "rank 3 is gone", .peer = 3, .op = 7};
  ASSERT_FALSE(answer.has_value());
  EXPECT_FALSE(static_cast<bool>(answer));
  EXPECT_EQ(answer.error().code, status::peer);
  EXPECT_EQ(answer.error().text, "rank 3 is gone");
  EXPECT_EQ(answer.error().peer, 3);
  EXPECT_EQ(answer.error().op, 7U);
}

TEST(result, a_failure_names_neither_peer_nor_op_unless_told) {
  const failure plain{.code = status::cycle};
  EXPECT_EQ(plain.peer, k_no_rank);
  EXPECT_EQ(plain.op, k_no_op);
  EXPECT_EQ(failure{}.code, status::internal);
}

TEST(result, lets_its_value_be_changed_and_reached_through) {
  result<std::string> word = std::string("schedul");
  *word += 'e';
  word->push_back('r');
  EXPECT_EQ(*word, "scheduler");
}

TEST(result, moves_values_that_cannot_be_copied) {
  result<std::unique_ptr<int>> owner = std::make_unique<int>(5);
  const std::unique_ptr<int> taken = std::move(*owner);
  EXPECT_EQ(*taken, 5);
  static_assert(!std::is_copy_constructible_v<result<std::unique_ptr<int>>>);
}

TEST(result, passes_a_failure_on_unchanged_to_another_type) {
  const result<int> first = failure{.code = status::bounds, .text = "slot 2", .op = 9};
  const result<std::string> second = first.error();
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().text, "slot 2");
  EXPECT_EQ(second.error().op, 9U);
}

}  // namespace
}  // namespace lsched
