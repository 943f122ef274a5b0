// Tests of sends that share a copy of their source. The tests cover the analysis, and the data that receivers get.
#include "libsched/analysis/shared_sources.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "collectives/allreduce/allreduce.h"
#include "collectives/registry.h"
#include "libsched/engine/engine.h"
#include "libsched/schedule/builder.h"
#include "libsched/transport/shm/shm_endpoint.h"
#include "tests/support/generators.h"
#include "tests/support/home_commits.h"

namespace lsched {
namespace {

constexpr std::uint64_t k_count = 20'000;
constexpr std::uint64_t k_all = k_count;

/// Returns the group ids that the analysis has assigned to the sends, in the order of the ops. Sends with the same id
/// share a copy of their source.
std::vector<std::uint32_t> numbers_of(const schedule& program) {
  std::vector<std::uint32_t> numbers;
  const auto all = shared_sources(program);
  for (op_id id = 0; id < all.size(); ++id) {
    if (program.ops()[id].kind == op_kind::send)
      numbers.push_back(all[id]);
    else
      EXPECT_EQ(all[id], 0u) << id;
  }
  return numbers;
}

using numbers = std::vector<std::uint32_t>;

/// A builder for rank 0 of 3, with an input and an output.
struct scene {
  builder to{{.self = 0, .size = 3}};
  buffer_id input = to.input(dtype::i32, k_count);
  buffer_id output = to.output(dtype::i32, k_count);

  op_id send_input(rank peer, builder::deps after = {}) { return to.send(peer, 0, {input, 0}, k_all, after); }
  op_id send_output(rank peer, builder::deps after = {}) { return to.send(peer, 1, {output, 0}, k_all, after); }
  numbers found() {
    const auto made = to.compile();
    EXPECT_TRUE(made) << made.error().text;
    return made ? numbers_of(**made) : numbers{};
  }
};

TEST(shared_sources, an_input_is_shared_unless_an_output_is_written_first) {
  scene before;
  before.to.copy({before.input, 0}, {before.output, 0}, k_all, {before.send_input(1), before.send_input(2)});
  EXPECT_EQ(before.found(), (numbers{1, 1}));
  scene after;
  const op_id first = after.send_input(1);
  after.send_input(2, {after.to.copy({after.input, 0}, {after.output, 0}, k_all, {first})});
  EXPECT_EQ(after.found(), (numbers{0, 0})) << "in place, the copy could be a write to the input";
}

TEST(shared_sources, an_output_is_shared_when_all_its_writes_are_over) {
  scene good;
  const op_id lower = good.to.copy({good.input, 0}, {good.output, 0}, k_count / 2);
  const op_id upper = good.to.copy({good.input, 0}, {good.output, k_count / 2}, k_count / 2, {lower});
  good.send_output(1, {upper});
  good.send_output(2, {upper});
  EXPECT_EQ(good.found(), (numbers{1, 1}));
  scene bad;
  const op_id once = bad.to.copy({bad.input, 0}, {bad.output, 0}, k_all);
  const op_id sent = bad.send_output(1, {once});
  const op_id twice = bad.to.reduce(kernel::sum, {bad.input, 0}, {bad.output, 0}, {bad.output, 0}, k_all, {sent});
  bad.send_output(2, {twice});
  EXPECT_EQ(bad.found(), (numbers{0, 0}));
}

TEST(shared_sources, regions_count_not_buffers) {
  scene it;
  it.to.send(1, 0, {it.input, 0}, 10);
  it.to.send(2, 0, {it.input, 1}, 10);
  it.to.send(1, 1, {it.input, 0}, 11);
  it.to.send(2, 1, {it.input, 1}, 10);
  EXPECT_EQ(it.found(), (numbers{0, 1, 0, 1}));
}

TEST(shared_sources, what_deps_do_not_tell_is_not_shared) {
  scene any;
  const op_id one = any.to.nop(), other = any.to.nop();
  const op_id either = any.to.nop({one, other});
  any.to.any(either);
  any.send_input(1, {either});
  any.send_input(2, {either});
  EXPECT_EQ(any.found(), (numbers{0, 0}));
  scene scratch;
  const buffer_id own = scratch.to.scratch(dtype::i32, k_count);
  const op_id written = scratch.to.copy({scratch.input, 0}, {own, 0}, k_all);
  for (const rank peer : {1, 2}) scratch.to.send(peer, 0, {own, 0}, k_all, {written});
  EXPECT_EQ(scratch.found(), (numbers{0, 0}));
}

TEST(shared_sources, of_the_allreduces) {
  const auto of = [](std::string_view name, rank self, bool in_place) {
    const shape data{.count = 4, .type = dtype::f32, .what = kernel::sum, .in_place = in_place};
    return numbers_of(**find("allreduce", name)->generate({.self = self, .size = 7}, data, {}));
  };
  for (const bool in_place : {false, true}) {
    EXPECT_EQ(of("flat", 3, in_place), numbers(6, 1));
    EXPECT_EQ(of("tree", 0, in_place), numbers(4, 1)) << "the root sends its result to all children";
    EXPECT_EQ(of("recursive_doubling", 6, in_place), numbers(of("recursive_doubling", 6, in_place).size(), 0));
  }
}

// --- over shared memory --------------------------------------------------------------------------------------

/// A world whose ranks all run in one thread and take turns.
class shm_world {
 public:
  explicit shm_world(rank ranks) {
    const std::shared_ptr<shm_segment> segment = *shm_segment::create(ranks, std::size_t{16} << 20);
    for (rank r = 0; r < ranks; ++r) {
      ends_.push_back(std::move(*shm_endpoint::open(segment, r)));
      engines_.push_back(std::make_unique<engine>(*ends_.back()));
      commits_.push_back(std::make_unique<testing::home_commits>(*engines_.back()));
    }
  }

  std::vector<instance*> commit(const std::vector<commit_request>& what) {
    std::vector<std::shared_ptr<schedule_commit>> all;
    for (std::size_t r = 0; r < what.size(); ++r) all.push_back(commits_[r]->add(what[r]));
    for (int turn = 0; turn < 1000; ++turn)
      for (const auto& each : engines_) (void)each->step();
    std::vector<instance*> its;
    for (std::size_t r = 0; r < what.size(); ++r) {
      EXPECT_EQ(all[r]->progress().finished.load(), 1u) << all[r]->why().text;
      its.push_back(all[r]->committed());
    }
    return its;
  }

  void run_round(const std::vector<instance*>& its) {
    for (std::size_t r = 0; r < its.size(); ++r) {
      its[r]->called.store(its[r]->called.load() + 1);
      engines_[r]->post(*its[r]);
    }
    const auto is_over = [](const instance* it) { return it->finished.load() == it->called.load(); };
    for (int turn = 0; turn < 100'000 && !std::ranges::all_of(its, is_over); ++turn)
      for (const auto& it : engines_) it->step();
    EXPECT_TRUE(std::ranges::all_of(its, is_over));
  }

 private:
  std::vector<std::unique_ptr<shm_endpoint>> ends_;
  std::vector<std::unique_ptr<engine>> engines_;
  std::vector<std::unique_ptr<testing::home_commits>> commits_;
};

TEST(shared_sources, large_vectors_of_a_flat_allreduce_are_exact_round_after_round) {
  for (const rank ranks : {3, 5, 6})
    for (const bool in_place : {false, true}) {
      const auto size = static_cast<std::size_t>(ranks);
      std::vector<std::vector<std::int32_t>> inputs(size, std::vector<std::int32_t>(k_count)), outputs = inputs;
      std::vector<commit_request> what;
      for (rank r = 0; r < ranks; ++r) {
        auto& in = inputs[static_cast<std::size_t>(r)];
        auto& out = in_place ? in : outputs[static_cast<std::size_t>(r)];
        const shape data{.count = k_count, .type = dtype::i32, .what = kernel::sum, .in_place = in_place};
        what.push_back(
            {.program = *allreduce_flat({.self = r, .size = ranks}, data),
             .memory = {{reinterpret_cast<const std::byte*>(in.data())}, {reinterpret_cast<std::byte*>(out.data())}}});
      }
      shm_world world(ranks);
      const auto its = world.commit(what);
      for (std::int32_t round = 1; round <= 5; ++round) {
        std::vector<std::int32_t> sum(k_count, 0);
        for (std::vector<std::int32_t>& input : inputs) {
          std::iota(input.begin(), input.end(), 1000 * round + static_cast<std::int32_t>(&input - inputs.data()));
          for (std::size_t i = 0; i < k_count; ++i) sum[i] += input[i];
        }
        world.run_round(its);
        for (std::size_t r = 0; r < size; ++r)
          EXPECT_EQ((in_place ? inputs : outputs)[r], sum) << "rank " << r << " of " << ranks << ", round " << round;
      }
    }
}

}  // namespace
}  // namespace lsched
