// Tests the worlds of group_worlds.cc: the log of replica groups. All shards of a group are in a data round or none,
// all ranks take the same decisions, no result is exposed before the round has ended on all ranks, and no offer stays
// behind.
#include <gtest/gtest.h>

#include "tests/models/expect.h"

namespace models {
namespace {

TEST(group_model, all_shards_of_a_group_are_in_a_round_or_none) {
  for (const char* scenario : {"1 group of 2 shards", "2 groups of 1 shard", "2 groups of 2 shards, one offer"})
    models::expect_right(scenario);
}

TEST(group_model, random_walks_through_larger_worlds) {
  for (const char* scenario :
       {"2 groups of 2 shards", "2 drawn groups of 2 shards", "3 groups of 2 shards", "2 groups of 3 shards"})
    models::expect_right(scenario);
}

TEST(group_model_bug, every_changed_line_is_caught) {
  struct {
    const char *bug, *scenario, *fault;
  } const all[] = {
      {"group_of_any_shard", "2 groups of 2 shards", "a round takes an offer that a shard has not made"},
      {"group_round_before_the_last_is_final", "2 groups of 2 shards", "a data round begins during another round"},
      {"group_drawn_by_each_shard", "2 drawn groups of 2 shards", "two ranks decide differently about a round"},
      {"group_cut_of_staged_offers", "2 groups of 2 shards", "two ranks decide differently about a round"},
      {"group_calls_for_a_captured_entry", "2 groups of 2 shards", "a data round does not become final"},
      {"group_entries_combined", "2 groups of 2 shards", "two ranks decide differently about a round"},
      {"group_entries_out_of_order", "2 groups of 2 shards", "two ranks decide differently about a round"},
      {"group_ends_before_the_round", "2 groups of 2 shards",
       "a result is exposed before the round has ended on all ranks"},
      {"group_exposes_before_final", "2 groups of 2 shards",
       "a result is exposed before the round has ended on all ranks"},
      {"group_buffer_reused_before_final", "1 group of 2 shards", "the buffer of an offer is in use"}};
  for (const auto& [bug, scenario, fault] : all) EXPECT_EQ(run(scenario, {.bug = bug}).fault, fault) << bug;
}

}  // namespace
}  // namespace models
