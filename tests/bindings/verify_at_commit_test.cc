// Tests of proofs at commit: a faulty schedule must be refused on all ranks, and a correct schedule must be committed.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "collectives/requests/sample_requests.h"
#include "tests/support/c_request.h"
#include "tests/support/exact_algorithms.h"
#include "tests/support/thread_ranks.h"

namespace lsched::testing {
namespace {

constexpr std::uint64_t k_count = 4;

/// A builder of one rank with an input, an output and a scratch buffer of k_count elements.
struct rank_builder {
  rank_builder(lsched_world* of, const char* name) : world(of), self(lsched_rank(of)), ranks(lsched_size(of)) {
    EXPECT_EQ(lsched_builder_create(self, ranks, name, &b), LSCHED_OK);
    EXPECT_EQ(lsched_add_slot(b, LSCHED_INPUT, LSCHED_I64, k_count, &in.slot), LSCHED_OK);
    EXPECT_EQ(lsched_add_slot(b, LSCHED_OUTPUT, LSCHED_I64, k_count, &out.slot), LSCHED_OK);
    EXPECT_EQ(lsched_add_slot(b, LSCHED_SCRATCH, LSCHED_I64, k_count, &scratch.slot), LSCHED_OK);
  }
  lsched_op send(std::int32_t to, std::uint32_t tag, lsched_region from) {
    lsched_op made{};
    EXPECT_EQ(lsched_add_send(b, to, tag, from, &made), LSCHED_OK);
    return made;
  }
  lsched_op recv(std::int32_t from, std::uint32_t tag, lsched_region into) {
    lsched_op made{};
    EXPECT_EQ(lsched_add_recv(b, from, tag, into, &made), LSCHED_OK);
    return made;
  }
  void dep(lsched_op before, lsched_op after) { EXPECT_EQ(lsched_add_dep(b, before, after), LSCHED_OK); }
  std::int32_t right() const { return (self + 1) % ranks; }
  std::int32_t left() const { return (self + ranks - 1) % ranks; }

  lsched_status commit(std::int64_t* input, std::int64_t* output, lsched_schedule** made, diagnostic& why) {
    const void* inputs[] = {input};
    void* outputs[] = {output};
    return lsched_builder_commit(b, world, inputs, outputs, made, &why);
  }

  lsched_world* const world;
  const std::int32_t self, ranks;
  lsched_builder* b = nullptr;
  lsched_region in{{}, 0, k_count}, out{{}, 0, k_count}, scratch{{}, 0, k_count};
};

using writer = std::function<void(rank_builder&)>;

/// Builds a correct schedule: each rank sends its input to the next rank of a ring.
void shift(rank_builder& to) {
  to.send(to.right(), 0, to.in);
  to.recv(to.left(), 0, to.out);
}

/// Builds a schedule with a deadlock: each rank sends the elements that it has received, so all ranks wait.
void wait_in_a_cycle(rank_builder& to) {
  const lsched_op receive = to.recv(to.left(), 0, to.out);
  to.dep(receive, to.send(to.right(), 0, to.out));
}

/// Builds a schedule in which only rank 0 has a fault: two messages are received into the same elements.
void race_at_rank_0(rank_builder& to) {
  to.send(to.right(), 0, to.in);
  to.send(to.right(), 1, to.in);
  to.recv(to.left(), 0, to.out);
  to.recv(to.left(), 1, to.self == 0 ? to.out : to.scratch);
}

void leave_a_send_unmatched(rank_builder& to) {
  shift(to);
  if (to.self == 0) to.send(to.right(), 9, to.in);
}

/// Builds a schedule that is not an allreduce: every rank copies its input to its output. The test gives this schedule
/// the name of an allreduce.
void copy_as_an_allreduce(rank_builder& to) { EXPECT_EQ(lsched_add_copy(to.b, to.in, to.out, nullptr), LSCHED_OK); }

struct outcome {
  lsched_status code = LSCHED_OK;
  diagnostic why{};
};

/// Builds a schedule by `write` on this rank, and commits the schedule. If the commit succeeds, destroys the schedule.
outcome commit(lsched_world* world, const writer& write, const char* name = "planted") {
  outcome answer;
  std::vector<std::int64_t> input(k_count), output(k_count);
  rank_builder to(world, name);
  write(to);
  lsched_schedule* made = nullptr;
  answer.code = to.commit(input.data(), output.data(), &made, answer.why);
  EXPECT_EQ(made != nullptr, answer.code == LSCHED_OK);
  if (made != nullptr) {
    EXPECT_EQ(lsched_schedule_destroy(made, k_limit_ns, &answer.why), LSCHED_OK);
  }
  return answer;
}

/// Checks that the world is still usable: a create on all ranks succeeds, and rounds have the right results.
void expect_usable(lsched_world* world) {
  std::vector<std::int64_t> input(k_count, lsched_rank(world) + 1), output(k_count, -1);
  diagnostic why;
  rank_builder to(world, "shift");
  shift(to);
  lsched_schedule* made = nullptr;
  ASSERT_EQ(to.commit(input.data(), output.data(), &made, why), LSCHED_OK) << why.text;
  EXPECT_EQ(lsched_run(made, k_limit_ns, &why), LSCHED_OK) << why.text;
  EXPECT_EQ(output, std::vector<std::int64_t>(k_count, to.left() + 1));
  EXPECT_EQ(lsched_schedule_destroy(made, k_limit_ns, &why), LSCHED_OK) << why.text;
}

void ask_for_proofs(lsched_world* world) { ASSERT_EQ(lsched_world_set(world, LSCHED_PROVED, 1), LSCHED_OK); }

struct planted {
  const char* title;
  writer write;
  lsched_status without, with;
  const char* words;
  const char* name = "planted";
};

const std::vector<planted>& planted_faults() {
  static const std::vector<planted> all{
      {"a cyclic wait", wait_in_a_cycle, LSCHED_OK, LSCHED_ERR_CYCLE, "progress: "},
      {"a race", race_at_rank_0, LSCHED_OK, LSCHED_ERR_ARGUMENT, "hazard: rank 0 "},
      {"a lost message", leave_a_send_unmatched, LSCHED_ERR_UNMATCHED, LSCHED_ERR_UNMATCHED, "tag 9"},
      {"wrong contents", copy_as_an_allreduce, LSCHED_OK, LSCHED_ERR_ARGUMENT, "contents: ", "allreduce/planted"}};
  return all;
}

TEST(verify_at_commit, refuses_each_planted_fault_on_all_ranks) {
  for (const planted& fault : planted_faults())
    for (const std::int32_t ranks : {2, 3, 5}) {
      const world_of_threads all(ranks);
      all.each([&](lsched_world* mine, std::int32_t r) {
        SCOPED_TRACE(std::string(fault.title) + ", rank " + std::to_string(r) + " of " + std::to_string(ranks));
        EXPECT_EQ(commit(mine, fault.write, fault.name).code, fault.without);
        ask_for_proofs(mine);
        const outcome refused = commit(mine, fault.write, fault.name);
        EXPECT_EQ(refused.code, fault.with) << refused.why.text;
        EXPECT_TRUE(refused.why.says(fault.words)) << refused.why.text;
        expect_usable(mine);
      });
    }
}

TEST(verify_at_commit, names_rank_op_and_schedule_of_a_fault) {
  world_of_threads(3).each([](lsched_world* mine, std::int32_t) {
    ask_for_proofs(mine);
    const outcome refused = commit(mine, race_at_rank_0);
    EXPECT_EQ(refused.why.rank, 0);
    EXPECT_NE(refused.why.op, UINT32_MAX);
    EXPECT_TRUE(refused.why.says("the verification of \"planted\" failed: hazard: rank 0 op ")) << refused.why.text;
  });
}

TEST(verify_at_commit, is_done_by_all_ranks_if_one_rank_asks) {
  for (const std::int32_t asking : {0, 2})
    world_of_threads(3).each([&](lsched_world* mine, std::int32_t r) {
      if (r == asking) ask_for_proofs(mine);
      EXPECT_EQ(commit(mine, wait_in_a_cycle).code, LSCHED_ERR_CYCLE);
      expect_usable(mine);
      ASSERT_EQ(lsched_world_set(mine, LSCHED_PROVED, 0), LSCHED_OK);
      EXPECT_EQ(commit(mine, wait_in_a_cycle).code, LSCHED_OK);
    });
}

TEST(verify_at_commit, is_asked_for_by_the_environment_when_a_world_is_opened) {
  for (const auto& [word, code] : std::vector<std::pair<const char*, lsched_status>>{
           {"1", LSCHED_ERR_CYCLE}, {"yes", LSCHED_ERR_CYCLE}, {"0", LSCHED_OK}, {"no", LSCHED_OK}, {"", LSCHED_OK}}) {
    ASSERT_EQ(setenv("LSCHED_VERIFY", word, 1), 0);
    const world_of_threads all(2);
    ASSERT_EQ(unsetenv("LSCHED_VERIFY"), 0);
    all.each([&, wanted = code](lsched_world* mine, std::int32_t r) {
      EXPECT_EQ(commit(mine, wait_in_a_cycle).code, wanted);
      lsched_world* half = nullptr;
      diagnostic why;
      ASSERT_EQ(lsched_split(mine, 0, -r, &half, &why), LSCHED_OK) << why.text;
      EXPECT_EQ(commit(half, wait_in_a_cycle).code, wanted);  // a split world has the setting of its parent world
      EXPECT_EQ(lsched_world_close(half), LSCHED_OK);
    });
  }
  ASSERT_EQ(setenv("LSCHED_VERIFY", "maybe", 1), 0);
  lsched_world* none = nullptr;
  diagnostic why;
  EXPECT_EQ(lsched_world_open_threads(1, nullptr, &none, &why), LSCHED_ERR_ARGUMENT);
  EXPECT_TRUE(why.says("LSCHED_VERIFY is \"maybe\"")) << why.text;
  ASSERT_EQ(unsetenv("LSCHED_VERIFY"), 0);
}

TEST(verify_at_commit, is_asked_for_by_0_or_1) {
  const world_of_threads one(1);
  EXPECT_EQ(lsched_world_set(nullptr, LSCHED_PROVED, 1), LSCHED_ERR_ARGUMENT);
  EXPECT_EQ(lsched_world_set(one.at(0), LSCHED_PROVED, 2), LSCHED_ERR_ARGUMENT);
}

TEST(verify_at_commit, accepts_schedules_of_one_rank_and_without_ops) {
  for (const std::int32_t ranks : {1, 3})
    world_of_threads(ranks).each([](lsched_world* mine, std::int32_t) {
      ask_for_proofs(mine);
      const outcome empty = commit(mine, [](rank_builder&) {});
      EXPECT_EQ(empty.code, LSCHED_OK) << empty.why.text;
      const outcome own = commit(mine, copy_as_an_allreduce);
      EXPECT_EQ(own.code, LSCHED_OK) << own.why.text;
    });
}

TEST(verify_at_commit, fails_for_all_if_a_rank_has_a_bad_argument) {
  world_of_threads(3).each([](lsched_world* mine, std::int32_t r) {
    ask_for_proofs(mine);
    const outcome refused = commit(mine, [r](rank_builder& to) {
      shift(to);
      if (r == 1) (void)lsched_add_send(to.b, 77, 0, to.in, nullptr);
    });
    EXPECT_EQ(refused.code, LSCHED_ERR_ARGUMENT) << refused.why.text;
    expect_usable(mine);
  });
}

TEST(verify_at_commit, needs_no_wait_of_a_create_that_does_not_wait) {
  world_of_threads(2).each([](lsched_world* mine, std::int32_t r) {
    ask_for_proofs(mine);
    ASSERT_EQ(lsched_world_set(mine, LSCHED_NONBLOCKING, 1), LSCHED_OK);
    lsched_world* worlds[2];
    diagnostic why;
    for (lsched_world*& one : worlds) ASSERT_EQ(lsched_split(mine, 0, 0, &one, &why), LSCHED_OK) << why.text;
    std::vector<std::int64_t> input(k_count, r), output(k_count, -1);
    lsched_schedule* made[2]{};
    for (const std::int32_t turn : {r, 1 - r}) {  // the two ranks commit in opposite order
      rank_builder to(worlds[turn], "planted");
      turn == 0 ? shift(to) : wait_in_a_cycle(to);
      ASSERT_EQ(to.commit(input.data(), output.data(), &made[turn], why), LSCHED_OK) << why.text;
    }
    EXPECT_EQ(lsched_run(made[0], k_limit_ns, &why), LSCHED_OK) << why.text;
    EXPECT_EQ(output, std::vector<std::int64_t>(k_count, 1 - r));
    EXPECT_EQ(lsched_create_wait(made[1], k_limit_ns, &why), LSCHED_ERR_CYCLE);
    EXPECT_TRUE(why.says("progress: ")) << why.text;
    for (lsched_schedule* one : made) EXPECT_EQ(lsched_schedule_destroy(one, k_limit_ns, &why), LSCHED_OK);
    for (lsched_world* one : worlds) EXPECT_EQ(lsched_world_close(one), LSCHED_OK);
  });
}

TEST(verify_at_commit, refuses_texts_above_its_limit_on_all_ranks) {
  world_of_threads(2).each([](lsched_world* mine, std::int32_t r) {
    ask_for_proofs(mine);
    const outcome refused = commit(mine, [r](rank_builder& to) {
      shift(to);
      for (int i = 0; i < 400'000 && r == 1; ++i) (void)lsched_add_copy(to.b, to.in, to.out, nullptr);
    });
    EXPECT_EQ(refused.code, LSCHED_ERR_UNSUPPORTED) << refused.why.text;
    EXPECT_TRUE(refused.why.says("at most 16777216")) << refused.why.text;
    expect_usable(mine);
  });
}

TEST(verify_at_commit, proves_a_schedule_that_is_in_place_on_some_ranks) {
  for (const bool is_faulty : {false, true})
    world_of_threads(3).each([&](lsched_world* mine, std::int32_t r) {
      ask_for_proofs(mine);
      std::vector<std::int64_t> memory(2 * k_count, r);
      diagnostic why;
      rank_builder to(mine, "planted");
      const lsched_op sent = to.send(to.right(), 0, to.in);
      const lsched_op received = to.recv(to.left(), 0, to.out);
      if (r == 1 && !is_faulty) to.dep(sent, received);  // rank 1 works in place, so its receive must follow its send
      lsched_schedule* made = nullptr;
      const lsched_status code = to.commit(memory.data(), memory.data() + (r == 1 ? 0 : k_count), &made, why);
      EXPECT_EQ(code, is_faulty ? LSCHED_ERR_ARGUMENT : LSCHED_OK) << why.text;
      if (is_faulty) {
        EXPECT_TRUE(why.says("hazard: rank 1 ")) << why.text;
      }
      if (made != nullptr) {
        EXPECT_EQ(lsched_schedule_destroy(made, k_limit_ns, &why), LSCHED_OK);
      }
    });
}

// --- schedules of the library --------------------------------------------------------------------------------

/// Creates a schedule, expects that the create makes a proof, and destroys the schedule.
void expect_proved(const std::function<lsched_status(lsched_schedule**, lsched_diagnostic*)>& create) {
  diagnostic why;
  lsched_schedule* made = nullptr;
  ASSERT_EQ(create(&made, &why), LSCHED_OK) << why.text;
  EXPECT_EQ(lsched_schedule_destroy(made, k_limit_ns, &why), LSCHED_OK) << why.text;
}

TEST(verify_at_commit, proves_every_algorithm_of_the_library) {
  for (const std::int32_t ranks : {1, 3, 4, 5})
    world_of_threads(ranks).each([&](lsched_world* mine, std::int32_t r) {
      ask_for_proofs(mine);
      for (const algorithm* how : exact_algorithms())
        for (const std::uint64_t count : {0u, 7u, 40'000u}) {
          const world place{r, ranks};
          shape data = typical_shape(*how->of, ranks, count, dtype::i64, kernel::sum);
          if (how->of->is_rooted) data.root = ranks - 1;
          if (validate(*how, place, data)) continue;
          SCOPED_TRACE(std::string(how->of->name) + "/" + std::string(how->name) + ", " + std::to_string(count));
          const extents both = how->of->extents_of(place, data);
          std::vector<std::int64_t> input(both.input.value_or(0) + 1), output(both.output.value_or(0) + 1);
          c_request request(*how->of, place, data, how->name);
          request.desc.input = input.data(), request.desc.output = output.data();
          expect_proved([&](lsched_schedule** made, lsched_diagnostic* why) {
            return lsched_collective_create(mine, &request.desc, made, why);
          });
        }
    });
}

void add_up(const void* lower, const void* higher, void* target, std::uint64_t count, void*) {
  for (std::uint64_t i = 0; i < count; ++i)
    static_cast<double*>(target)[i] = static_cast<const double*>(lower)[i] + static_cast<const double*>(higher)[i];
}

TEST(verify_at_commit, proves_collectives_with_arithmetic_counts_and_memory_of_their_own) {
  for (const std::int32_t ranks : {1, 3, 4})
    world_of_threads(ranks).each([&](lsched_world* mine, std::int32_t) {
      ask_for_proofs(mine);
      std::vector<double> input(24), output(24 * static_cast<std::size_t>(ranks));
      const auto prove = [&](lsched_collective_desc desc) {
        desc.struct_size = sizeof desc;
        SCOPED_TRACE(desc.collective);
        expect_proved([&](lsched_schedule** made, lsched_diagnostic* why) {
          return lsched_collective_create(mine, &desc, made, why);
        });
      };
      for (const int commutes : {0, 1}) {
        const lsched_user_op sum{.struct_size = sizeof sum,
                                 .combine = add_up,
                                 .context = nullptr,
                                 .dtype = LSCHED_F64,
                                 .unit = 2,
                                 .is_commutative = commutes};
        for (const char* name : {"allreduce", "reduce", "scan", "exscan"})
          prove({.collective = name,
                 .input = input.data(),
                 .output = output.data(),
                 .count = 24,
                 .dtype = LSCHED_F64,
                 .user_op = &sum});
      }
      prove({.collective = "allreduce",  // in place, with a mean, and with two rounds in flight
             .input = output.data(),
             .output = output.data(),
             .count = 24,
             .dtype = LSCHED_F64,
             .reduction = LSCHED_SUM,
             .depth = 2,
             .divisor = LSCHED_DIVIDE_BY_RANKS});
      for (const char* name : {"gatherv", "scatterv", "allgatherv", "alltoallv"})
        prove({.collective = name, .dtype = LSCHED_F64, .capacity = 100, .depth = 2});
      const lsched_tensor tensors[] = {{0, 10}, {10, 14}};
      prove({.collective = "adasum",
             .input = input.data(),
             .output = output.data(),
             .count = 24,
             .dtype = LSCHED_F64,
             .tensors = tensors,
             .tensor_count = 2});
      prove({.collective = "barrier"});
    });
}

TEST(verify_at_commit, proves_partial_and_sparse_schedules) {
  for (const std::int32_t ranks : {1, 3, 5})
    world_of_threads(ranks).each([&](lsched_world* mine, std::int32_t) {
      ask_for_proofs(mine);
      for (const char* name : {"allreduce", "reduce_scatter_block", "allgather", "adasum"})
        for (const char* activation : {"full", "solo", "majority", "quorum(2)"}) {
          SCOPED_TRACE(std::string(name) + " " + activation);
          if (ranks == 1 && std::string(activation) == "quorum(2)") continue;
          const lsched_partial_desc desc{.struct_size = sizeof desc,
                                         .collective = name,
                                         .count = 24,
                                         .dtype = LSCHED_F32,
                                         .reduction = LSCHED_SUM,
                                         .activation = activation,
                                         .seed = 3};
          expect_proved([&](lsched_schedule** made, lsched_diagnostic* why) {
            return lsched_partial_create(mine, &desc, made, why);
          });
        }
      std::vector<float> gradient(500), update(500);
      for (const char* how : {"oktopk", "topka", "sparseloco"}) {
        const lsched_sparse_desc desc{.struct_size = sizeof desc,
                                      .gradient = gradient.data(),
                                      .update = update.data(),
                                      .count = 500,
                                      .k = 20,
                                      .dtype = LSCHED_F32,
                                      .algorithm = how};
        SCOPED_TRACE(how);
        expect_proved([&](lsched_schedule** made, lsched_diagnostic* why) {
          return lsched_sparse_create(mine, &desc, made, why);
        });
      }
    });
}

}  // namespace
}  // namespace lsched::testing
