#include "collectives/selection.h"
#include "collectives/requests/sample_requests.h"
#include "collectives/requests/tuning_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "collectives/schedule_cache.h"

namespace lsched::testing {
namespace {

shape sum_of(std::uint64_t count) { return {.count = count, .type = dtype::f32, .what = kernel::sum}; }

TEST(selection, auto_takes_what_the_model_predicts_to_be_the_fastest) {
  for (const collective* of : collectives())
    for (const rank size : {1, 2, 3, 5, 8, 33})
      for (const rank per_core : {1, 4}) {
        const topology around{.ranks_per_core = per_core};
        const activation starts{of->activates ? activation_policy::solo : activation_policy::none, 1};
        const shape data = typical_shape(*of, size, 4, dtype::f32, kernel::sum);
        const auto all = candidates(*of, {0, size}, data, starts, around);
        if (all.empty()) continue;
        EXPECT_TRUE(std::ranges::any_of(all, [](const candidate& it) { return !it.error; })) << of->name;
        const auto made = select(of->name, "auto", {0, size}, data, starts, {.around = around});
        ASSERT_TRUE(made) << of->name << ": " << made.error().text;
        const auto its_own = [&](const candidate& it) { return it.how == made->how; };
        const double chosen = std::ranges::find_if(all, its_own)->predicted_ns;
        const double precision = around.is_crowded() ? k_model_precision : 1;
        for (const candidate& it : all) EXPECT_TRUE(it.error || chosen <= precision * it.predicted_ns) << it.how->name;
      }
}

TEST(selection, of_predictions_that_are_alike_auto_takes_the_one_with_the_fewest_hops) {
  const shape data = typical_shape(*find_collective("allgather"), 8, 1 << 22, dtype::f32, kernel::sum);
  const auto all = candidates(*find_collective("allgather"), {0, 8}, data, {}, {.ranks_per_core = 4});
  const auto least = std::ranges::min_element(all, {}, &candidate::predicted_ns);
  const auto made = choose("allgather", "auto", {0, 8}, data, {}, {.ranks_per_core = 4});
  EXPECT_EQ((*made)->name, "direct");
  EXPECT_NE(least->how, *made);
  const auto chosen = std::ranges::find_if(all, [&](const candidate& it) { return it.how == *made; });
  EXPECT_LT(chosen->hops, least->hops);
  const auto reason = select("allgather", "auto", {0, 8}, data, {}, {.around = {.ranks_per_core = 4}})->reason;
  EXPECT_NE(reason.find("as good as"), std::string::npos) << reason;
}

TEST(selection, with_a_core_for_each_rank_auto_takes_the_fastest_however_near_the_next_is) {
  std::size_t near = 0;
  for (const rank size : {2, 3, 4, 8, 32})
    for (std::uint64_t count = 1; count <= 1 << 22; count *= 4) {
      const auto all = candidates(*find_collective("allreduce"), {0, size}, sum_of(count), {}, {});
      const auto least = std::ranges::min_element(all, {}, [](const candidate& it) {
        return it.error ? std::numeric_limits<double>::infinity() : it.predicted_ns;
      });
      near += std::ranges::any_of(all, [&](const candidate& it) {
        return !it.error && it.hops < least->hops && it.predicted_ns <= k_model_precision * least->predicted_ns;
      });
      const auto made = choose("allreduce", "auto", {0, size}, sum_of(count), {});
      EXPECT_EQ(*made, least->how) << size << " ranks, " << count << ": " << (*made)->name;
    }
  EXPECT_GT(near, 0u) << "no case distinguishes the two rules";
}

TEST(selection, an_algorithm_that_the_environment_names_and_cannot_serve_is_said_to_be_its) {
  selection by;
  by.named = *parse_named_algorithms("allreduce=circulant");
  shape data = sum_of(5);
  data.what = kernel::user;
  data.commutes = false;
  const auto made = select("allreduce", "auto", {0, 3}, data, {}, by);
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().text.find("LSCHED_ALGORITHM requests allreduce=circulant, which cannot be used: "),
            std::string::npos);
}

TEST(selection, all_ranks_choose_the_same) {
  for (const collective* of : collectives())
    for (const rank size : {2, 3, 5, 6, 7, 8})
      for (const std::uint64_t count : {0u, 1u, 100'000u}) {
        const activation starts{of->activates ? activation_policy::solo : activation_policy::none, 1};
        const shape data = typical_shape(*of, size, count, dtype::f32, kernel::sum);
        if (std::ranges::none_of(algorithms(), [of](const algorithm& it) { return it.of == of; })) continue;
        const auto first = choose(of->name, "auto", {0, size}, data, starts);
        ASSERT_TRUE(first) << of->name << " " << first.error().text;
        for (rank r = 1; r < size; ++r) {
          shape mine = data;
          mine.in_place = r % 2 == 1 && !of->activates && (*first)->needs.in_place;
          mine.is_visible = r % 2 == 0 || !of->moves_data;
          std::erase_if(mine.blocks, [r](const exchanged_block& it) { return it.from != r && it.to != r; });
          EXPECT_EQ(*choose(of->name, "auto", {r, size}, mine, starts), *first) << of->name << " rank " << r;
        }
      }
}

TEST(selection, each_byte_between_nodes_takes_its_time_on_a_slow_network) {
  const double ns_per_byte = 80;  // 100 Mbit/s
  for (const rank size : {3, 4, 5, 6, 7}) {
    topology around{.far = {.hop = 20'000, .message = 5'000, .byte = ns_per_byte}};
    for (rank r = 0; r < size; ++r) around.nodes.push_back(r);
    const shape data = sum_of(1 << 18);
    const auto predicted = [&](std::string_view name) {
      return predicted_ns(*find("allreduce", name), size, data, {}, around);
    };
    // In a ring, each rank sends and receives 2 (P - 1) / P vectors. In "flat", one rank receives P - 1 vectors.
    const double vector_ns = 4.0 * (1 << 18) * ns_per_byte;
    EXPECT_NEAR(predicted("ring") / vector_ns, 2.0 * (size - 1) / size, 0.1) << size;
    EXPECT_NEAR(predicted("flat") / vector_ns, size - 1, 0.1) << size;
  }
}

TEST(selection, the_network_carries_a_part_while_a_rank_adds_another) {
  const wire_costs only_bytes{.hop = 0, .message = 0, .byte = 1};
  const topology around{.nodes = {0, 1}, .near = only_bytes, .far = only_bytes};
  const auto predicted = [&](std::string_view name) {
    return predicted_ns(*find("allreduce", name), 2, sum_of(1 << 20), {}, around) / (4 << 20);
  };
  // Each rank exchanges two halves of the vector, and adds one half (1.5 copies). Rabenseifner's algorithm sends each
  // half as one message. The ring sends each half in parts.
  EXPECT_NEAR(predicted("rabenseifner"), 1.75, 0.01);
  EXPECT_LT(predicted("ring"), 1.4);
  EXPECT_GT(predicted("ring"), 1.0);
}

TEST(selection, a_hop_over_tcp_costs_more_than_over_a_fabric) {
  for (const rank size : {2, 3, 5, 6, 7}) {
    topology fabric;
    for (rank r = 0; r < size; ++r) fabric.nodes.push_back(r);
    topology tcp = fabric;
    tcp.far = k_tcp_costs;
    rank fewer = 0;
    for (std::uint64_t count = 1; count <= 1 << 22; count *= 4) {
      const auto hops_of = [&](const topology& around) {
        const algorithm* const chosen = *choose("allreduce", "auto", {0, size}, sum_of(count), {}, around);
        return cost_of_round(*chosen, size, sum_of(count), {}).hops;
      };
      EXPECT_LE(hops_of(tcp), hops_of(fabric)) << size << " ranks, " << count;
      fewer += hops_of(tcp) < hops_of(fabric) ? 1 : 0;
    }
    EXPECT_GT(fewer, 0) << size << " ranks";
  }
}

TEST(selection, a_name_is_taken_whatever_it_costs) {
  for (const rank per_core : {1, 16})
    for (const std::string_view name : {"recursive_doubling", "tree", "direct", "ring"})
      EXPECT_EQ((*choose("allreduce", name, {0, 32}, sum_of(1), {}, {.ranks_per_core = per_core}))->name, name);
}

TEST(selection, the_caller_comes_before_the_environment_before_the_table_before_the_model) {
  const auto table = parse_tuning("libsched tuning 1\nallreduce ranks 32 near roomy bytes 0 64 tree\n");
  ASSERT_TRUE(table);
  selection by{.table = *table};
  const auto name = [&](std::string_view wanted, std::uint64_t count) {
    return select("allreduce", wanted, {0, 32}, sum_of(count), {}, by)->how->name;
  };
  const auto reason = [&](std::uint64_t count) {
    return select("allreduce", "auto", {0, 32}, sum_of(count), {}, by)->reason;
  };
  EXPECT_EQ(name("auto", 16), "tree");
  EXPECT_EQ(reason(16), "line 2 of the tuning table");
  EXPECT_NE(reason(17).find("the model predicts"), std::string::npos);
  by.named = *parse_named_algorithms("barrier=dissemination,allreduce=recursive_doubling");
  EXPECT_EQ(name("auto", 16), "recursive_doubling");
  EXPECT_EQ(reason(16), "named by the environment");
  EXPECT_EQ(name("tree", 1), "tree");
}

TEST(selection, names_in_the_environment_must_exist) {
  EXPECT_TRUE(parse_named_algorithms("")->empty());
  for (const char* text : {"allreduce", "allreduce=", "=tree", "allreduce=telepathy", "telepathy=tree",
                           "allreduce=tree,,", "allreduce=tree,bcast=flat,allreduce=tree"})
    EXPECT_FALSE(parse_named_algorithms(text)) << text;
}

// --- the table ---------------------------------------------------------------------------------------------

constexpr const char* k_table =
    "libsched tuning 1\n"
    "wire near 310 85.5 0.11\n"
    "turn 1400\n"
    "allreduce ranks 2 near roomy bytes 0 4096 recursive_doubling\n"
    "allreduce ranks 2 near roomy bytes 4097 max direct segment 65536 radix 4\n"
    "bcast ranks 7 far crowded bytes 0 max binomial\n";

TEST(tuning_table, is_the_same_text_when_it_is_written_again) {
  const auto table = parse_tuning(k_table);
  ASSERT_TRUE(table) << table.error().text;
  EXPECT_EQ(to_text(*table), k_table);
  EXPECT_EQ(table->near->message, 85.5);
  EXPECT_FALSE(table->far);
  EXPECT_EQ(table->turn, 1400);
}

TEST(tuning_table, rules_are_for_their_ranks_places_and_sizes) {
  const auto table = *parse_tuning(k_table);
  const topology here;
  ASSERT_EQ(table.find("allreduce", 2, here, 4096).size(), 1u);
  EXPECT_EQ(table.find("allreduce", 2, here, 4096)[0]->algorithm, "recursive_doubling");
  EXPECT_EQ(table.find("allreduce", 2, here, 4097).at(0)->segment_bytes, 65536u);
  EXPECT_EQ(table.find("allreduce", 2, here, UINT64_MAX).at(0)->radix, 4);
  EXPECT_TRUE(table.find("allreduce", 3, here, 1).empty());
  EXPECT_TRUE(table.find("allreduce", 2, {.ranks_per_core = 2}, 1).empty());
  EXPECT_TRUE(table.find("bcast", 7, here, 1).empty());
  EXPECT_EQ(table.find("bcast", 7, {.ranks_per_core = 2, .nodes = {0, 0, 0, 3, 3, 3, 3}}, 1).size(), 1u);
}

TEST(tuning_table, comments_and_empty_lines_say_nothing) {
  const auto table = parse_tuning("libsched tuning 1\r\n\n# all\n  \t\nturn 2 # of a rank\r\n");
  ASSERT_TRUE(table) << table.error().text;
  EXPECT_EQ(table->turn, 2);
}

TEST(tuning_table, other_text_is_refused_with_its_line) {
  const auto refused = [](const std::string& lines, const std::string& words) {
    const auto table = parse_tuning(lines);
    ASSERT_FALSE(table) << lines;
    EXPECT_NE(table.error().text.find(words), std::string::npos) << table.error().text;
  };
  const std::string title = "libsched tuning 1\n";
  refused("", "empty");
  refused("tuning\n", "line 1");
  refused("libsched tuning 2\n", "another version");
  refused(title + "wire near 1 2\n", "line 2: \"\" is not a number of nanoseconds");
  refused(title + "wire sideways 1 2 3\n", "near or far");
  refused(title + "turn -1\n", "nanoseconds");
  refused(title + "turn 1 2\n", "\"2\" is not expected here");
  refused(title + "allreduce 2\n", "\"ranks\" is missing");
  refused(title + "allreduce ranks 0 near roomy bytes 0 1 tree\n", "\"0\" is not a valid whole number from 1 on");
  refused(title + "allreduce ranks 2 near roomy bytes 5 4 tree\n", "\"4\" is not a valid whole number from 5 on");
  refused(title + "allreduce ranks 2 near roomy bytes 0 1\n", "the name of an algorithm is missing");
  refused(title + "allreduce ranks 2 near roomy bytes 0 1 tree size 3\n", "neither segment nor radix");
  refused(title + "allreduce ranks 2 near roomy bytes 0 1 tree radix 1\n", "\"1\" is not");
}

TEST(selection, a_rule_that_cannot_do_the_request_is_passed_over) {
  const std::string telepathy = "libsched tuning 1\nallreduce ranks 3 near roomy bytes 0 max telepathy\n";
  selection by{.table = *parse_tuning(telepathy)};
  EXPECT_NE(select("allreduce", "auto", {0, 3}, sum_of(1), {}, by)->reason.find("the model"), std::string::npos);
  by.table = *parse_tuning(telepathy + "allreduce ranks 3 near roomy bytes 0 max ring\n");
  EXPECT_EQ(select("allreduce", "auto", {0, 3}, sum_of(1), {}, by)->reason, "line 3 of the tuning table");
}

// --- the cache ---------------------------------------------------------------------------------------------

TEST(schedule_cache, answers_the_same_request_from_memory_and_no_other) {
  schedule_cache cache({1, 3}, {});
  const auto first = cache.get("allreduce", "tree", sum_of(5));
  ASSERT_TRUE(first);
  EXPECT_EQ(cache.get("allreduce", "tree", sum_of(5))->program, first->program);
  EXPECT_NE(cache.get("allreduce", "tree", sum_of(6))->program, first->program);
  EXPECT_NE(cache.get("allreduce", "recursive_doubling", sum_of(5))->program, first->program);
  EXPECT_FALSE(cache.get("allreduce", "telepathy", sum_of(5)));
  EXPECT_FALSE(cache.get("allreduce", "telepathy", sum_of(5)));
}

TEST(schedule_cache, forgets_what_was_asked_for_longest_ago) {
  schedule_cache cache({1, 3}, {});
  const auto first = cache.get("allreduce", "tree", sum_of(0))->program;
  const auto second = cache.get("allreduce", "tree", sum_of(1))->program;
  for (std::uint64_t count = 2; count < schedule_cache::k_most_entries; ++count)
    (void)cache.get("allreduce", "tree", sum_of(count));
  EXPECT_EQ(cache.get("allreduce", "tree", sum_of(0))->program, first);
  (void)cache.get("allreduce", "tree", sum_of(1000));  // now the cache exceeds its capacity
  EXPECT_EQ(cache.get("allreduce", "tree", sum_of(0))->program, first);
  EXPECT_NE(cache.get("allreduce", "tree", sum_of(1))->program, second);
}

}  // namespace
}  // namespace lsched::testing
