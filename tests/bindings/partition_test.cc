// Partition-parallel training, beside its emulation, in worlds of threads that play nodes; and what the C interface
// says of nodes, and of adaptive sums by nodes.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <thread>

#include "tests/support/cpp_ranks.h"
#include "tests/support/partition_training.h"

namespace lsched::testing {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::seconds k_limit = 20s;

TEST(owners_of, gives_the_longest_layer_first_to_who_has_least) {
  using owners = std::vector<std::int32_t>;
  EXPECT_EQ(owners_of(k_model_layers, 1), (owners{0, 0, 0, 0, 0}));
  EXPECT_EQ(owners_of(k_model_layers, 2), (owners{1, 1, 1, 0, 1}));  // 31 | 12 + 9 + 3
  EXPECT_EQ(owners_of(k_model_layers, 3), (owners{2, 2, 1, 0, 1}));  // 31 | 12 | 9 + 3
  EXPECT_EQ(owners_of({}, 3), owners{});
}

template <class T>
void expect_emulation(std::int32_t ranks, std::int32_t ranks_per_node, const sgd& how) {
  SCOPED_TRACE(std::to_string(ranks) + " ranks, " + std::to_string(ranks_per_node) + " on a node");
  constexpr int k_steps = 12;
  std::vector<std::vector<T>> found(static_cast<std::size_t>(ranks));
  std::vector<std::size_t> states(found.size());
  as_nodes(ranks, ranks_per_node, [&](lsched::world& world) {
    const auto rank = static_cast<std::size_t>(world.rank());
    found[rank] = train<T>(world, how, k_steps, k_limit, &states[rank]);
  });
  const numbers wanted = emulate(ranks, ranks_per_node, how, k_steps);
  for (std::size_t r = 0; r < found.size(); ++r) {
    ASSERT_EQ(found[r].size(), k_model_size);
    for (std::size_t i = 0; i < k_model_size; ++i)
      ASSERT_NEAR(found[r][i], wanted[i], 200 * std::numeric_limits<T>::epsilon()) << "rank " << r << " weight " << i;
    EXPECT_EQ(std::memcmp(found[r].data(), found[0].data(), k_model_size * sizeof(T)), 0) << "replicas differ";
  }
  // Each node has the state once.
  std::size_t all = 0, elements = 0;
  for (const std::size_t it : states) all += it;
  for (const lsched_tensor& it : k_model_layers) elements += it.count;
  EXPECT_EQ(all, elements * static_cast<std::size_t>((ranks + ranks_per_node - 1) / ranks_per_node));
}

TEST(partition_step, is_that_of_nodes_emulated_in_one_place) {
  struct world {
    std::int32_t ranks, ranks_per_node;
  };
  for (const world it : {world{1, 1}, {3, 3}, {4, 2}, {6, 2}, {6, 3}, {3, 1}, {5, 2}, {7, 3}})
    for (const sgd how : {sgd{}, sgd{.momentum = 0.9}}) {
      expect_emulation<float>(it.ranks, it.ranks_per_node, how);
      expect_emulation<double>(it.ranks, it.ranks_per_node, how);
    }
}

TEST(partition_step, refuses_layers_of_one_rank_that_overlap_on_all_ranks) {
  as_nodes(3, 3, [](lsched::world& world) {
    std::vector<float> weights(8);
    for (const std::vector<lsched_tensor>& wrong : {std::vector<lsched_tensor>{{0, 5}, {4, 2}}, {{0, 9}}})
      if (world.rank() == 1)
        EXPECT_THROW((partition_step<float>(world, weights, wrong)), std::invalid_argument);
      else
        EXPECT_THROW((partition_step<float>(world, weights, {{0, 8}})), lsched::error);
    partition_step<float> good(world, weights, {{0, 8}});
    EXPECT_EQ(good.remark(), partition_step<float>(world, weights, {{0, 8}}).remark());
  });
}

TEST(node_of, says_where_every_rank_is) {
  as_nodes(5, 2, [](lsched::world& world) {
    for (std::int32_t r = 0; r < 5; ++r) {
      const lsched_node it = world.node_of(r);
      EXPECT_EQ(it.number, r / 2);
      EXPECT_EQ(it.place, r % 2);
      EXPECT_EQ(it.ranks, r == 4 ? 1 : 2);
      EXPECT_EQ(it.nodes, 3);
      EXPECT_EQ(it.least_ranks, 1);
    }
    EXPECT_EQ(world.node().number, world.rank() / 2);
    lsched_node it{};
    EXPECT_EQ(lsched_node_of(world.handle(), 0, &it), LSCHED_ERR_ARGUMENT);  // no struct_size
    it.struct_size = sizeof it;
    for (const std::int32_t r : {-1, 5}) EXPECT_EQ(lsched_node_of(world.handle(), r, &it), LSCHED_ERR_ARGUMENT);
    EXPECT_EQ(lsched_node_of(nullptr, 0, &it), LSCHED_ERR_ARGUMENT);
    EXPECT_EQ(lsched_node_of(world.handle(), 0, nullptr), LSCHED_ERR_ARGUMENT);
  });
}

/// A mode that has become a plain average says so.
TEST(adasum_by_nodes, tells_who_asks_for_it_on_one_node) {
  for (const std::int32_t ranks_per_node : {2, 4})
    as_nodes(4, ranks_per_node, [&](lsched::world& world) {
      std::vector<float> data(10, 1.0f);
      lsched_collective_desc desc{};
      desc.struct_size = sizeof desc;
      desc.collective = "adasum";
      desc.algorithm = "two_level";
      desc.input = desc.output = data.data();
      desc.count = data.size();
      desc.dtype = LSCHED_F32;
      lsched_schedule* made = nullptr;
      lsched_diagnostic why{};
      why.struct_size = sizeof why;
      ASSERT_EQ(lsched_collective_create(world.handle(), &desc, &made, &why), LSCHED_OK);
      EXPECT_EQ(
          std::string(why.text),
          ranks_per_node == 2 ? "" : "adasum/two_level on one node is the mean of its ranks, not an adaptive sum");
      EXPECT_EQ(why.status, LSCHED_OK);
      EXPECT_EQ(schedule(made).print().find("of one node: the mean") != std::string::npos, ranks_per_node == 4);
    });
}

TEST(adasum_by_nodes, on_one_node_is_remarked_on_in_cpp) {
  for (const std::int32_t ranks_per_node : {2, 4})
    as_nodes(4, ranks_per_node, [&](lsched::world& world) {
      const std::string mean = "adasum/two_level on one node is the mean of its ranks, not an adaptive sum";
      const std::string own = "node_adasum on one node is what its owner has, at all ranks, not an adaptive sum";
      const auto expect_remark = [&](const std::string& found, const std::string& wanted) {
        EXPECT_EQ(found, ranks_per_node == 4 ? wanted : "");
      };
      std::vector<float> data(10, 1.0f);
      const auto in_place = std::span(data);
      schedule made = world.adasum<float>(data, in_place, {}, "two_level");
      expect_remark(made.remark(), mean);
      schedule moved;
      moved = std::move(made);
      expect_remark(moved.remark(), mean);
      expect_remark(schedule(std::move(moved)).remark(), mean);
      EXPECT_EQ(world.adasum<float>(data, in_place).remark(), "");
      const schedule owners = world.node_adasum<float>(data, in_place, 1);
      expect_remark(owners.remark(), own);
      EXPECT_EQ(owners.print().find("node_adasum/halving, of one node: its owner's") != std::string::npos,
                ranks_per_node == 4);
      expect_remark(partition_step<float>(world, data, {{0, 5}, {5, 5}}, k_limit).remark(), own);
      expect_remark(delta_step<float>(world, data, {.algorithm = "two_level"}, k_limit).remark(), mean);
      EXPECT_EQ(delta_step<float>(world, data, {}, k_limit).remark(), "");
    });
}

TEST(adasum_by_nodes, of_a_world_of_one_has_nothing_to_remark_on) {
  as_nodes(1, 1, [](lsched::world& world) {
    std::vector<float> data(10);
    EXPECT_EQ(world.adasum<float>(data, std::span(data), {}, "two_level").remark(), "");
    EXPECT_EQ(world.node_adasum<float>(data, std::span(data), 0).remark(), "");
  });
}

/// By rank 1 in the second tensor, of two.
void expect_second_non_finite(lsched::world& world, const char* collective, const char* algorithm,
                              bool reaches_its_first) {
  std::vector<float> data(10, 1.0f), other(10, 1.0f);
  const lsched_tensor tensors[] = {{0, 4}, {4, 6}};
  lsched_collective_desc desc{};
  desc.collective = collective;
  desc.algorithm = algorithm;
  desc.input = desc.output = data.data();
  desc.count = data.size();
  desc.dtype = LSCHED_F32;
  desc.tensors = tensors;
  desc.tensor_count = 2;
  if (std::string(collective) == "node_adasum") desc.root = 1;
  schedule made = world.collective(desc);
  if (world.rank() == 1) data[7] = std::numeric_limits<float>::quiet_NaN();
  made.run(k_limit);
  std::uint8_t is_non_finite[2];
  EXPECT_EQ(made.non_finite_tensors(is_non_finite), 1u) << collective;
  EXPECT_EQ(is_non_finite[0], 0);
  EXPECT_EQ(is_non_finite[1], 1);
  EXPECT_EQ(std::isnan(data[4]), reaches_its_first);

  const void* inputs[] = {other.data()};
  void* outputs[] = {other.data()};
  made.rebind(inputs, outputs);
  try {
    made.non_finite_tensors();
    ADD_FAILURE() << "judged memory that no round has written";
  } catch (const error& why) {
    EXPECT_EQ(why.status(), LSCHED_ERR_STATE);
  }
  made.run(k_limit);
  EXPECT_EQ(made.non_finite_tensors(), 0u);
}

TEST(adasum_by_nodes, tells_which_tensors_are_non_finite_also_where_it_is_a_mean_or_a_copy) {
  for (const std::int32_t ranks_per_node : {3, 2})
    as_nodes(ranks_per_node == 2 ? 4 : 3, ranks_per_node, [&](lsched::world& world) {
      expect_second_non_finite(world, "adasum", "two_level", ranks_per_node == 2);
      expect_second_non_finite(world, "node_adasum", nullptr, ranks_per_node == 2);
      expect_second_non_finite(world, "adasum", nullptr, true);
    });
}

TEST(owners, that_not_every_node_has_are_refused_on_all_ranks) {
  as_nodes(5, 2, [](lsched::world& world) {
    std::vector<float> data(10);
    try {
      (void)world.node_mean<float>(data, data, 1);
      ADD_FAILURE() << "accepted";
    } catch (const error& why) {
      EXPECT_NE(std::string(why.what()).find("the smallest has 1 rank"), std::string::npos) << why.what();
    }
  });
}

}  // namespace
}  // namespace lsched::testing
