// Tests of the nodes of a world, and of the collectives that give one rank of each node (the owner) a result: means
// within a node, and adaptive sums between the owners.
#include "bindings/requests/requests.h"
#include "collectives/algorithm/nodes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "collectives/selection.h"
#include "libsched/verify/verify.h"
#include "tests/support/lockstep_world.h"
#include "tests/support/symbolic_world.h"
#include "tests/verify_oracle/interleavings.h"
#include "tests/verify_oracle/mutant.h"

namespace lsched::testing {
namespace {

std::size_t index(rank r) { return static_cast<std::size_t>(r); }

using vectors = std::vector<std::vector<double>>;  ///< vectors, by rank

/// A distribution of the ranks of a world over nodes: the node of each rank.
struct layout {
  const char* name;
  std::vector<rank> nodes;
  rank size() const { return static_cast<rank>(nodes.size()); }
};

const std::vector<layout> k_layouts{{"alone", {5}},
                                    {"one node", {0, 0, 0}},
                                    {"two of two", {0, 0, 1, 1}},
                                    {"three of two", {0, 0, 1, 1, 2, 2}},
                                    {"two of three", {0, 0, 0, 1, 1, 1}},
                                    {"dealt out", {0, 1, 2, 0, 1, 2, 0}},
                                    {"unequal", {3, 1, 1, 3, 1, 2, 2, 3, 1}},
                                    {"no node of two", {0, 1, 2, 3, 4}}};

std::vector<rank> roots_of(const layout& of) {
  std::vector<rank> roots;
  const auto least = ranks_of_smallest(nodes_of({.nodes = of.nodes}, of.size()));
  for (std::size_t i = 0; i < least; ++i) roots.push_back(static_cast<rank>(i));
  return roots;
}

shape request(const layout& where, rank root, std::uint64_t count) {
  return {.count = count, .type = dtype::f64, .root = root, .nodes = where.nodes};
}

vectors drawn(rank size, std::uint64_t count) {
  std::mt19937_64 draw(7 * count + index(size));
  std::normal_distribution<double> normal;
  vectors all(index(size), std::vector<double>(count));
  for (auto& vector : all)
    for (double& it : vector) it = normal(draw);
  return all;
}

/// Runs a round. Returns every rank's output, with -77 in elements that were not written or do not exist. In place, the
/// input and the output are the same vector.
vectors run(const collective& of, const shape& data, const vectors& inputs) {
  const auto size = static_cast<rank>(inputs.size());
  vectors sources = inputs, outputs(inputs.size(), std::vector<double>(data.count, -77));
  if (data.in_place) outputs = inputs;
  lockstep_world world(size, 3);
  const auto its = world.commit([&](rank r) {
    const extents buffers = of.extents_of({r, size}, data);
    binding memory;
    auto& from = data.in_place ? outputs : sources;
    if (buffers.input) memory.inputs = {reinterpret_cast<const std::byte*>(from[index(r)].data())};
    if (buffers.output) memory.outputs = {reinterpret_cast<std::byte*>(outputs[index(r)].data())};
    return commit_request{std::string(of.name), generate(of.name, "auto", {r, size}, data, {}), memory};
  });
  if (its.empty() || !world.run_round(its)) return {};
  world.remove(its);
  return outputs;
}

std::vector<double> mean_of(const node& of, const vectors& inputs) {
  std::vector<double> mean(inputs[0].size());
  for (std::size_t i = 0; i < mean.size(); ++i) {
    for (const rank r : of) mean[i] += inputs[index(r)][i];
    mean[i] /= static_cast<double>(of.size());
  }
  return mean;
}

double distance(const std::vector<double>& x, const std::vector<double>& y) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += (x[i] - y[i]) * (x[i] - y[i]);
  return std::sqrt(sum);
}

TEST(nodes, are_in_the_order_of_their_first_ranks) {
  const auto nodes = nodes_of({.nodes = {3, 1, 1, 3, 1, 2, 2, 3, 1}}, 9);
  EXPECT_EQ(nodes, (std::vector<node>{{0, 3, 7}, {1, 2, 4, 8}, {5, 6}}));
  EXPECT_EQ(ranks_of_smallest(nodes), 2u);
  EXPECT_EQ(place_of(nodes, 4).number, 1u);
  EXPECT_EQ(place_of(nodes, 4).place, 2u);
  for (rank r = 0; r < 9; ++r)
    EXPECT_EQ(place_on_node({.nodes = {3, 1, 1, 3, 1, 2, 2, 3, 1}}, r), place_of(nodes, r).place);
  EXPECT_EQ(nodes_of({}, 3), (std::vector<node>{{0, 1, 2}}));
  EXPECT_EQ(place_on_node({}, 2), 2u);
}

TEST(node_mean, is_every_nodes_mean_at_its_owner_and_nowhere_else) {
  for (const layout& where : k_layouts)
    for (const rank root : roots_of(where))
      for (const std::uint64_t count : {0u, 1u, 40u, 1001u}) {
        const vectors inputs = drawn(where.size(), count);
        const vectors found = run(k_node_mean, request(where, root, count), inputs);
        ASSERT_EQ(found.size(), inputs.size()) << where.name;
        for (const node& it : nodes_of({.nodes = where.nodes}, where.size()))
          for (const rank r : it)
            EXPECT_EQ(found[index(r)], r == it[index(root)] ? mean_of(it, inputs) : std::vector<double>(count, -77))
                << where.name << " " << r;
      }
}

TEST(node_adasum, of_owners_is_the_adasum_of_a_world_of_owners_at_all_ranks) {
  for (const layout& where : k_layouts)
    for (const rank root : roots_of(where))
      for (const std::uint64_t count : {0u, 1u, 40u, 1001u})
        for (const bool in_place : {false, true}) {
          shape data = request(where, root, count);
          data.in_place = in_place;
          if (count > 1) data.tensors = {{0, count / 3}, {count / 3, count - count / 3}};
          const vectors inputs = drawn(where.size(), count);
          vectors owners;
          for (const node& it : nodes_of(data, where.size())) owners.push_back(inputs[index(it[index(root)])]);
          const vectors alone = run(k_adasum, {.count = count, .type = dtype::f64, .tensors = data.tensors}, owners);
          const vectors found = run(k_node_adasum, data, inputs);
          ASSERT_EQ(found.size(), inputs.size()) << where.name;
          for (const auto& it : found) {
            EXPECT_LE(distance(it, alone[0]), 1e-14 * (1 + distance(alone[0], std::vector<double>(count))));
            EXPECT_EQ(it, found[0]) << where.name << " root " << root;
          }
        }
}

/// node_mean followed by node_adasum has the result of adasum/two_level. Of these algorithms, only adasum/two_level
/// cuts the vector into blocks.
TEST(node_adasum, of_means_is_the_two_level_adasum) {
  for (const layout& where : k_layouts)
    for (const rank root : roots_of(where)) {
      const vectors inputs = drawn(where.size(), 333);
      const shape data = request(where, root, 333);
      const vectors both = run(k_node_adasum, data, run(k_node_mean, data, inputs));
      shape whole = data;
      whole.root = 0;
      const auto* how = find("adasum", "two_level");
      vectors outputs(inputs.size(), std::vector<double>(333));
      lockstep_world world(where.size(), 3);
      const auto its = world.commit([&](rank r) {
        return commit_request{"adasum",
                              how->generate({r, where.size()}, whole, {}),
                              {.inputs = {reinterpret_cast<const std::byte*>(inputs[index(r)].data())},
                               .outputs = {reinterpret_cast<std::byte*>(outputs[index(r)].data())}}};
      });
      ASSERT_TRUE(!its.empty() && world.run_round(its));
      world.remove(its);
      for (const auto& it : outputs)
        EXPECT_LE(distance(it, both[0]), 1e-14 * distance(it, std::vector<double>(333))) << where.name;
    }
}

// --- proofs --------------------------------------------------------------------------------------------------

std::string verdict(const algorithm& how, const std::vector<schedule_ptr>& world, const shape& data) {
  const auto answer = verify(world, promise_of(how, static_cast<rank>(world.size()), data, {}),
                             {.in_place = aliasing_of(*how.of, static_cast<rank>(world.size()), data)});
  return answer.holds() ? "" : answer.findings.front().text;
}

class Owners : public ::testing::TestWithParam<const char*> {
 protected:
  static const algorithm& how() { return *algorithm_of(GetParam()); }
  static const algorithm* algorithm_of(std::string_view collective) {
    for (const algorithm& it : algorithms())
      if (it.of->name == collective) return &it;
    return nullptr;
  }
};

TEST_P(Owners, schedules_are_proved_for_any_nodes_and_any_place) {
  for (const layout& where : k_layouts)
    for (const rank root : roots_of(where))
      for (const std::uint64_t count : {0u, 1u, 40u})
        for (const bool in_place : {false, true}) {
          shape data = request(where, root, count);
          data.in_place = in_place;
          const auto programs = whole_world(where.size(), [&](world place) { return how().generate(place, data, {}); });
          EXPECT_EQ(verdict(how(), programs, data), "") << where.name << " root " << root << " count " << count;
        }
}

TEST_P(Owners, all_orders_agree_with_the_proof) {
  for (const layout& where : {k_layouts[0], k_layouts[1], k_layouts[2]}) {
    const shape data = request(where, 0, 2);
    const auto programs = whole_world(where.size(), [&](world place) { return how().generate(place, data, {}); });
    const auto answer = play(programs, promise_of(how(), where.size(), data, {}), {});
    EXPECT_EQ(answer.what, conclusion::holds) << where.name << ": " << answer.why;
  }
}

/// The proof rejects every schedule in which a division or a sum was changed.
TEST_P(Owners, another_kernel_or_divisor_is_found) {
  const shape data = request(k_layouts[2], 1, 40);
  const mutant_list mutants(whole_world(4, [&](world place) { return how().generate(place, data, {}); }));
  std::size_t tried = 0;
  for (std::size_t k = 0; k < mutants.size(); ++k) {
    if (mutants.how(k) != mutation::change_kernel) continue;
    ++tried;
    EXPECT_NE(verdict(how(), mutants.world(k), data), "") << mutants.name(k);
  }
  EXPECT_GE(tried, how().of == &k_node_mean ? 4u : 2u);
}

TEST_P(Owners, a_place_that_not_every_node_has_is_refused) {
  shape data = request(k_layouts[6], 2, 4);
  const auto made = how().generate({0, 9}, data, {});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, status::argument);
  EXPECT_EQ(made.error().text,
            "root 2 is the place of an owner on every node, but the smallest node has 2 ranks: use 0 to 1");
  for (const rank root : {-1, 9}) {
    data.root = root;
    const auto none = how().generate({0, 9}, data, {});
    ASSERT_FALSE(none);
    EXPECT_NE(none.error().text.find("the smallest node has 2 ranks: use 0 to 1"), std::string::npos)
        << none.error().text;
  }
  data.root = 0, data.type = dtype::i32;
  EXPECT_NE(how().generate({0, 9}, data, {}).error().text.find("floating types only"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(collectives, Owners, ::testing::Values("node_mean", "node_adasum"),
                         [](const auto& of) { return std::string(of.param); });

}  // namespace
}  // namespace lsched::testing
