// Tests of packed_world, a compact form of the schedules of all ranks. The packed form must agree with the schedule of
// every rank.
#include "libsched/simulate/packed_world.h"
#include "collectives/requests/sample_requests.h"

#include "collectives/registry.h"
#include "collectives/sparse/sparse_allreduce.h"
#include "libsched/schedule/round.h"
#include "tests/support/simulated_world.h"

namespace lsched {
namespace {

void expect_same(const packed_world& world, const schedule& program) {
  const rank self = program.place().self;
  const auto [number, index] = world.member(self);
  const packed_shape& shape = world.shapes()[number];
  ASSERT_EQ(shape.ops().size(), program.ops().size());
  EXPECT_TRUE(std::ranges::equal(shape.roots(), program.roots()));
  EXPECT_EQ(shape.exit(), program.exit());
  for (op_id id = 0; id < program.ops().size(); ++id) {
    const op& what = program.ops()[id];
    const packed_op& it = shape.ops()[id];
    EXPECT_EQ(it.kind, what.kind);
    EXPECT_EQ(it.need, what.need);
    EXPECT_EQ(it.guard, what.guard);
    EXPECT_TRUE(std::ranges::equal(shape.successors(id), program.successors(id)));
    EXPECT_TRUE(what.guard == 0 || *shape.guard_of(what) == *program.guard_of(what));
    EXPECT_EQ(packed_world::tag_of(shape, it, index), what.tag);
    if (!is_signal(what.kind)) {
      EXPECT_EQ(world.bytes_of(packed_world::size_number_of(shape, it, index)), typical_bytes(program, what));
    }
    EXPECT_EQ(std::ranges::count(shape.calls(), id), is_call(what, self) ? 1 : 0);
    if (!is_communication(what.kind)) continue;
    EXPECT_EQ(world.peer_of(shape, it, self, index), what.peer) << program.name() << " " << self << " op " << id;
    if (what.peer != self) {
      EXPECT_EQ(world.find(self, what.kind, what.peer, what.tag), id);
    }
  }
}

void expect_same(const std::vector<schedule_ptr>& ranks) {
  const auto packed = packed_world::of(ranks);
  ASSERT_TRUE(packed);
  for (const schedule_ptr& program : ranks) expect_same(*packed, *program);
}

TEST(packed_world, says_what_the_schedules_of_every_algorithm_say) {
  for (const algorithm& it : algorithms())
    for (const rank size : {1, 2, 3, 5, 6, 7, 4, 8, 16, 33}) {
      const shape data = typical_shape(*it.of, size, 10, dtype::f32, kernel::sum);
      const activation starts{.policy = it.of->activates ? activation_policy::solo : activation_policy::none};
      if (validate(it, {0, size}, data, starts)) continue;
      expect_same(testing::whole_world(size, [&](world place) { return it.generate(place, data, starts); }));
    }
}

TEST(packed_world, says_what_the_schedules_of_sparse_algorithms_say) {
  for (const char* name : {"oktopk", "topka", "topkdsa", "gtopk", "sparseloco"})
    for (const rank size : {3, 7, 8})
      expect_same(testing::whole_world(
          size, [&](world place) { return find_sparse(name)->generate({.count = 200, .k = 5, .place = place}); }));
}

std::size_t shapes_of(rank size, const char* collective, const char* algorithm) {
  return packed_world::of(testing::collective_world(size, collective, algorithm, 1024))->shapes().size();
}

TEST(packed_world, ranks_that_do_the_same_share_a_shape) {
  EXPECT_EQ(shapes_of(64, "allreduce", "recursive_doubling"), 1u);
  EXPECT_EQ(shapes_of(13, "allreduce", "recursive_doubling"), 3u);  // proxies, extras and other ranks have separate
                                                                    // shapes
  EXPECT_EQ(shapes_of(64, "allreduce", "rabenseifner"), 1u);
  EXPECT_EQ(shapes_of(13, "allreduce", "ring"), 1u);
}

/// The peer of rank r is P - 1 - r. packed_world has no expression for such peers. Tags and sizes also differ between
/// ranks.
TEST(packed_world, what_fits_no_expression_is_in_a_table) {
  const auto ranks = testing::whole_world(6, [](world place) {
    builder to(place);
    const rank peer = 5 - place.self;
    const auto tag = static_cast<std::uint32_t>(std::min(peer, place.self));
    const region data{to.input(dtype::u8, 9), 0}, landing{to.scratch(dtype::u8, 9), 0};
    to.set_exit(to.nop({to.send(peer, tag, data, tag), to.recv(peer, tag, landing, tag)}));
    return to.compile();
  });
  const auto packed = packed_world::of(ranks);
  ASSERT_TRUE(packed);
  EXPECT_EQ(packed->shapes().size(), 1u);
  for (const schedule_ptr& program : ranks) expect_same(*packed, *program);
  EXPECT_EQ(packed->find(0, op_kind::recv, 4, 0), k_no_op);
  EXPECT_EQ(packed->find(0, op_kind::recv, 5, 1), k_no_op);
}

/// There is one ring for each distance between neighbours. Ranks 0 and 1 are swapped, so that packed_world has no
/// expression for the peers. The rings share a few tags.
TEST(packed_world, each_of_many_ops_in_tables_is_found) {
  const auto swapped = [](rank r) { return r < 2 ? 1 - r : r; };
  for (const rank size : {5, 6, 7}) {
    const auto ranks = testing::whole_world(size, [&](world place) {
      builder to(place);
      const region data{to.input(dtype::u8, 9), 0}, landing{to.scratch(dtype::u8, 9), 0};
      const op_id last = to.nop();
      for (std::uint32_t tag = 0; tag < 5; ++tag)
        for (rank distance = 1; distance < size; ++distance) {
          const rank self = swapped(place.self);
          to.dep(to.send(swapped((self + distance) % size), tag, data, 9), last);
          to.dep(to.recv(swapped((self + size - distance) % size), tag, landing, 9), last);
        }
      to.set_exit(last);
      return to.compile();
    });
    expect_same(ranks);
    const auto packed = packed_world::of(ranks);
    EXPECT_EQ(packed->shapes().size(), 1u);
    EXPECT_EQ(packed->shapes()[0].ops()[1].peer.form, column_form::table);
    EXPECT_EQ(packed->find(0, op_kind::recv, 1, 5), k_no_op);
    EXPECT_EQ(packed->find(0, op_kind::recv, 0, 0), k_no_op);
  }
}

TEST(packed_world, every_rank_has_its_schedule_once) {
  const auto ranks = testing::doubling_world(3, 8);
  packed_world all(3);
  EXPECT_EQ(all.add(ranks[1])->code, status::argument);
  EXPECT_FALSE(all.add(ranks[0]));
  EXPECT_EQ(all.add(ranks[0])->code, status::argument);
  EXPECT_FALSE(all.add(ranks[1]));
  EXPECT_EQ(all.finish()->code, status::argument);
  EXPECT_FALSE(all.add(ranks[2]));
  EXPECT_FALSE(all.finish());
  EXPECT_EQ(all.add(ranks[2])->code, status::argument);
  EXPECT_EQ(packed_world::of(std::span<const schedule_ptr>()).error().code, status::argument);
}

}  // namespace
}  // namespace lsched
