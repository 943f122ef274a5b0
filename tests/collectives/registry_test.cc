#include "collectives/requests/sample_requests.h"
#include "collectives/selection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "libsched/schedule/geometry.h"
#include "tests/support/sampling.h"
#include "tests/support/symbolic_world.h"

namespace lsched::testing {
namespace {

/// Returns a request that the algorithm accepts.
shape data_for(const algorithm& it, rank size, std::uint64_t count) {
  return typical_shape(*it.of, size, count, dtype::f64, kernel::sum);
}

std::vector<activation> starts_for(const algorithm& it) {
  if (!it.of->activates) return {{}};
  return {{.policy = activation_policy::full},
          {.policy = activation_policy::solo},
          {.policy = activation_policy::majority, .seed = 5}};
}

/// Returns the activations of the algorithm. In a large enough world, these include activations that wait for several
/// ranks.
std::vector<activation> starts_for(const algorithm& it, rank size) {
  auto all = starts_for(it);
  if (!it.of->activates) return all;
  for (const rank number : {2, 5})
    if (number <= size) {
      const auto ranks = static_cast<std::uint32_t>(number);
      all.push_back({.policy = activation_policy::quorum, .number = ranks});
      all.push_back({.policy = activation_policy::all_of, .seed = 5, .number = ranks, .full_every = 4});
    }
  return all;
}

std::vector<schedule_ptr> worlds_of(const algorithm& it, rank size, const shape& data, const activation& starts) {
  return whole_world(size, [&](world place) { return it.generate(place, data, starts); });
}

std::string refusal(std::string_view collective, std::string_view name, world place, const shape& data,
                    const activation& starts = {}) {
  const auto made = generate(collective, name, place, data, starts);
  return made ? "accepted" : std::string(name_of(made.error().code)) + ": " + made.error().text;
}

TEST(registry, names_are_unique_and_found) {
  std::set<std::pair<std::string_view, std::string_view>> seen;
  for (const algorithm& it : algorithms()) {
    EXPECT_TRUE(seen.emplace(it.of->name, it.name).second);
    EXPECT_EQ(find(it.of->name, it.name), &it);
    EXPECT_NE(it.name, "auto");
    EXPECT_FALSE(it.needs.summary.empty());
  }
  EXPECT_NE(find("allreduce", "recursive_doubling"), nullptr);
  EXPECT_NE(find("barrier", "dissemination"), nullptr);
  EXPECT_NE(find("partial_allreduce", "recursive_doubling"), nullptr);
  EXPECT_EQ(find("allreduce", "dissemination"), nullptr);
  EXPECT_EQ(find("allreduce", "auto"), nullptr);
}

TEST(registry, a_collectives_algorithms_stand_together) {
  std::set<std::string_view> closed;
  std::string_view last;
  for (const algorithm& it : algorithms()) {
    if (it.of->name == last) continue;
    EXPECT_TRUE(closed.insert(it.of->name).second) << it.of->name;
    last = it.of->name;
  }
}

TEST(registry, schedules_are_named_after_their_algorithm_on_every_rank) {
  for (const algorithm& it : algorithms()) {
    shape data = data_for(it, 3, 1);
    if (it.of->adapts && it.looks_at.nodes) data.nodes = {0, 0, 1}, data.root = 0;  // with one node, the name is longer
    for (const schedule_ptr& program : worlds_of(it, 3, data, starts_for(it).front()))
      EXPECT_EQ(program->name(), std::string(it.of->name) + "/" + std::string(it.name));
  }
}

/// Returns whether the change to the request changes the schedule of a rank in any of several worlds.
template <class Change>
bool changes_schedules(const algorithm& it, const Change& change) {
  for (const rank size : {2, 3, 5, 7, 8})
    for (const std::uint64_t count : {1u, 40u}) {
      shape usual = data_for(it, size, count);
      for (rank r = 0; it.looks_at.nodes && r < size; ++r) usual.nodes.push_back(r / 3);
      shape other = usual;
      change(other);
      for (const rank r : {0, size / 2, size - 1}) {
        const auto one = it.generate({r, size}, usual, starts_for(it).front());
        const auto two = it.generate({r, size}, other, starts_for(it).front());
        if (one && two && to_text(**one) != to_text(**two)) return true;
      }
    }
  return false;
}

// variants_of() selects the requests that are proved by these declarations.
TEST(registry, algorithms_declare_the_members_of_requests_that_they_use) {
  for (const algorithm& it : algorithms()) {
    const std::string name = std::string(it.of->name) + "/" + std::string(it.name);
    const bool uses_segment = changes_schedules(it, [](shape& data) { data.segment = 3; });
    const bool uses_radix = changes_schedules(it, [](shape& data) { data.radix = 2; }) ||
                            changes_schedules(it, [](shape& data) { data.radix = 3; });
    EXPECT_EQ(it.looks_at.segment, uses_segment) << name;
    EXPECT_EQ(it.looks_at.radix, uses_radix) << name;
  }
}

// --- costs -------------------------------------------------------------------------------------------------

/// Returns whether every op uses whole buffers. A symbolic_world cannot run other schedules.
bool uses_whole_buffers(const std::vector<schedule_ptr>& programs) {
  for (const schedule_ptr& program : programs)
    for (const op& it : program->ops())
      for (const region part : {it.a, it.b, it.c})
        if (part.exists() && (part.offset() != 0 || it.count != program->buffers()[part.buffer()].count)) return false;
  return true;
}

/// Returns the ranks to try as first caller. In a small world these are all ranks. In a large world they are the ranks
/// near the ends and the middle.
std::set<std::size_t> first_callers(std::size_t size) {
  if (size > 33) return {0, 1, 2, size / 2 - 1, size / 2, size / 2 + 1, size - 2, size - 1};
  std::set<std::size_t> all;
  for (std::size_t who = 0; who < size; ++who) all.insert(who);
  return all;
}

/// Returns the maximum number of signals and the maximum number of hops (messages one after the other). All rounds have
/// the minimum number of callers.
tally worst_of_few_callers(const std::vector<schedule_ptr>& programs) {
  tally worst;
  const auto size = static_cast<rank>(programs.size());
  const auto arrivals = static_cast<std::size_t>(quota_of(programs[0]->starts(), size).arrivals);
  for (const std::size_t who : first_callers(programs.size())) {
    std::vector<bool> callers(programs.size(), false);
    for (std::size_t i = 0; i < arrivals; ++i) callers[(who + i) % callers.size()] = true;
    symbolic_world all(programs, {.how = order::by_hops});
    EXPECT_EQ(all.run({{.calls = callers, .pending = std::vector<bool>(programs.size(), true)}}), "");
    worst.signals = std::max(worst.signals, all.took(0).signals);
    worst.hops = std::max(worst.hops, all.took(0).hops);
  }
  return worst;
}

TEST(registry, declared_costs_are_the_counted_ones) {
  for (const algorithm& it : algorithms()) {
    // proof_test.cc covers these algorithms
    if (!uses_whole_buffers(worlds_of(it, 3, data_for(it, 3, 11), starts_for(it).front()))) continue;
    for (const rank size : world_sizes())
      for (const activation& starts : starts_for(it, size)) {
        const shape data = data_for(it, size, 11);
        const auto programs = worlds_of(it, size, data, starts);
        if (!uses_whole_buffers(programs)) continue;
        symbolic_world all(programs, {.how = order::by_hops});
        ASSERT_EQ(all.run(), "");
        tally single = all.took(0);
        const bool spreads = it.of->activates && starts.policy != activation_policy::full;
        if (spreads) single = worst_of_few_callers(programs);
        cost counted{.messages = all.took(0).messages,
                     .bytes = all.took(0).bytes,
                     .signals = all.took(0).signals,
                     .signals_of_one = single.signals,
                     .hops = single.hops};
        const cost declared = cost_of_round(it, size, data, starts);
        if (declared.hops_are_bound) {
          EXPECT_LE(counted.hops, declared.hops) << it.of->name << " " << it.name << " P=" << size;
          counted.hops = declared.hops, counted.hops_are_bound = true;
        }
        EXPECT_EQ(declared, counted) << it.of->name << " " << it.name << " P=" << size << " " << words_for(starts)
                                     << ": " << declared.messages << "/" << counted.messages << " messages, "
                                     << declared.signals << "/" << counted.signals << " signals, "
                                     << declared.signals_of_one << "/" << counted.signals_of_one << " of one, "
                                     << declared.hops << "/" << counted.hops << " hops";
      }
  }
}

TEST(registry, costs_scale_with_count_and_type_and_do_not_wrap) {
  const algorithm& it = *find("allreduce", "recursive_doubling");
  const auto bytes = [&](rank size, std::uint64_t count, dtype type) {
    return cost_of_round(it, size, {.count = count, .type = type, .what = kernel::sum}, {}).bytes;
  };
  EXPECT_EQ(bytes(6, 0, dtype::f64), 0u);
  EXPECT_EQ(bytes(6, 1000, dtype::bf16), (4u * 2 + 2 * 2) * 1000u * 2);
  EXPECT_EQ(bytes(std::numeric_limits<rank>::max(), k_max_count, dtype::f64),
            std::numeric_limits<std::uint64_t>::max());
}

// --- constraints -------------------------------------------------------------------------------------------

TEST(registry, declared_order_of_operands_is_kept) {
  for (const algorithm& it : algorithms()) {
    if (it.needs.needs_commutative || (it.of != &k_allreduce && it.of != &k_partial_allreduce)) continue;
    for (const rank size : {3, 6, 7, 8}) {
      const std::vector<bool> everybody(static_cast<std::size_t>(size), true);
      const auto programs = worlds_of(it, size, data_for(it, size, 1), starts_for(it).front());
      if (!uses_whole_buffers(programs)) continue;  // proof_test.cc covers these algorithms
      symbolic_world all(programs, {.seed = 2});
      ASSERT_EQ(all.run(), "");
      EXPECT_EQ(all.allreduce_fault(0, everybody), "") << it.of->name;
    }
  }
}

TEST(registry, a_declared_constraint_is_a_refusal_and_nothing_else_is) {
  const world place{.self = 1, .size = 6};
  for (const algorithm& it : algorithms()) {
    const activation starts = starts_for(it).front();
    EXPECT_EQ(refusal(it.of->name, it.name, place, data_for(it, 6, 0), starts), "accepted");
    if (!it.of->moves_data) continue;
    shape in_place = data_for(it, 6, 8);
    in_place.in_place = true;
    EXPECT_EQ(refusal(it.of->name, it.name, place, in_place, starts) == "accepted", it.needs.in_place);
  }
}

/// Returns the names in the form in which an error text lists them, in the order of `names`.
std::string offered(const std::vector<std::string_view>& names) {
  std::string list;
  for (const std::string_view name : names) list += (list.empty() ? "\"" : ", \"") + std::string(name) + "\"";
  return list;
}

TEST(registry, bad_requests_say_what_to_change) {
  const world place{.self = 0, .size = 3};
  const shape sum{.count = 1, .what = kernel::sum};
  const activation solo{.policy = activation_policy::solo};
  std::vector<std::string_view> collectives, allreduces;
  for (const algorithm& it : algorithms()) {
    if (collectives.empty() || collectives.back() != it.of->name) collectives.push_back(it.of->name);
    if (it.of == &k_allreduce) allreduces.push_back(it.name);
  }
  allreduces.push_back("auto");
  EXPECT_EQ(refusal("alreduce", "auto", place, sum),
            "LSCHED_ERR_ARGUMENT: there is no collective \"alreduce\"; did you mean allreduce? Choose one of " +
                offered(collectives));
  EXPECT_EQ(refusal("allreduce", "telepathy", place, sum),
            "LSCHED_ERR_ARGUMENT: \"allreduce\" has no algorithm \"telepathy\": choose one of " + offered(allreduces));
  EXPECT_NE(refusal("barrier", "auto", place, sum).find("set count to 0"), std::string::npos);
  EXPECT_NE(refusal("allreduce", "auto", place, sum, solo).find("set the policy to none"), std::string::npos);
  EXPECT_NE(refusal("partial_allreduce", "auto", place, sum).find("full, solo, majority, first_of, all_of or quorum"),
            std::string::npos);
  EXPECT_NE(refusal("allreduce", "auto", {.self = -1, .size = 3}, sum).find("use 0 to 2"), std::string::npos);
}

TEST(registry, a_vector_that_is_too_large_is_said_to_be_as_large_as_it_is) {
  shape data{.count = k_max_count};
  EXPECT_EQ(
      refusal("gather", "auto", {0, 3}, data),
      "LSCHED_ERR_ARGUMENT: a vector of 3 x 281474976710655 elements exceeds the largest vector, of 281474976710655");
  EXPECT_EQ(refusal("gather", "auto", {0, 1}, data), "accepted");
  ++data.count;
  EXPECT_EQ(refusal("bcast", "auto", {0, 1}, data),
            "LSCHED_ERR_ARGUMENT: a vector of 281474976710656 elements exceeds the largest vector, of 281474976710655");
  data.counts = {k_max_count, 1, 0}, data.count = 0;
  EXPECT_EQ(refusal("allgatherv", "auto", {0, 3}, data),
            "LSCHED_ERR_ARGUMENT: a vector of 281474976710656 elements exceeds the largest vector, of 281474976710655");
}

}  // namespace
}  // namespace lsched::testing
