// Proofs of the schedules of sparse allreduces. The sum of every region must hold the contributions of all ranks, added
// in rank order. Every result must hold the sums of all regions.
#include <gtest/gtest.h>

#include <algorithm>

#include "collectives/requests/sparse_promises.h"
#include "collectives/sparse/sparse_allreduce.h"
#include "libsched/place/place.h"
#include "libsched/schedule/schedule_file.h"
#include "libsched/verify/verify.h"
#include "tests/support/sampling.h"
#include "tests/verify_oracle/mutant.h"

namespace lsched::testing {
namespace {

std::vector<schedule_ptr> world_of(const sparse_algorithm& how, sparse_problem problem, rank size) {
  std::vector<schedule_ptr> world;
  for (rank self = 0; self < size; ++self) {
    problem.place = {self, size};
    const auto made = how.generate(problem);
    if (!made) ADD_FAILURE() << made.error().text;
    if (!made) return {};
    world.push_back(*made);
  }
  return world;
}

const sparse_algorithm& oktopk() { return *find_sparse("oktopk"); }

verification proof_of(const sparse_algorithm& how, sparse_problem problem, rank size) {
  const std::vector<schedule_ptr> world = world_of(how, problem, size);
  problem.place = {0, size};
  return verify(world, promise_of_sparse(problem));
}

std::string first_words(const verification& answer) {
  return answer.holds() ? "" : std::string(name_of(answer.findings[0].what)) + ": " + answer.findings[0].text;
}

TEST(SparseProof, every_region_is_in_the_result_once) {
  for (const rank size : {1, 2, 3, 5, 6, 7, 4, 8, 13, 16, 33}) {
    if (sampled() && size > 7) continue;
    for (const capacity_policy capacity : {capacity_policy::strict, capacity_policy::defer})
      for (const std::uint64_t count : {0u, 1u, 1000u})
        for (const std::uint64_t k : {0u, 1u, 10u, 1000u})
          for (const boundary_rule boundaries : {boundary_rule::pooled, boundary_rule::averaged}) {
            const sparse_problem problem{
                .count = count, .k = k, .capacity = capacity, .boundaries = boundaries, .period = 3};
            const verification answer = proof_of(oktopk(), problem, size);
            ASSERT_TRUE(answer.holds()) << size << " ranks, " << count << ", k " << k << "\n" << first_words(answer);
            ASSERT_TRUE(answer.notes.empty()) << answer.notes[0].text;
          }
  }
}

TEST(SparseProof, reused_thresholds_and_buckets_too) {
  for (const rank size : {1, 2, 3, 5, 6, 7, 4, 8, 13, 33}) {
    if (sampled() && size > 7) continue;
    for (const std::uint32_t bucket : {0u, 1u, 2u, 3u, 7u, 1000u})
      for (const selection_rule selection : {selection_rule::exact, selection_rule::reused})
        for (const capacity_policy capacity : {capacity_policy::strict, capacity_policy::defer})
          for (const std::uint64_t k : {0u, 1u, 10u, 1000u}) {
            const sparse_problem problem{.count = 1000,
                                         .k = k,
                                         .capacity = capacity,
                                         .period = 3,
                                         .selection = selection,
                                         .reuse = 2,
                                         .bucket = bucket};
            const verification answer = proof_of(oktopk(), problem, size);
            ASSERT_TRUE(answer.holds()) << size << " ranks, k " << k << ", bucket " << bucket << "\n"
                                        << first_words(answer);
            ASSERT_TRUE(answer.notes.empty()) << answer.notes[0].text;
          }
  }
}

bool is_part(const op& it, op_kind kind) { return it.kind == kind && it.tag == 0; }

bool leads_to(const schedule& it, op_id from, op_id to) {
  std::vector<bool> seen(it.ops().size());
  std::vector<op_id> open{from};
  while (!open.empty()) {
    const op_id now = open.back();
    open.pop_back();
    if (now == to) return true;
    if (seen[now]) continue;
    seen[now] = true;
    open.insert(open.end(), it.successors(now).begin(), it.successors(now).end());
  }
  return false;
}

/// Lists are sent in groups (buckets). A list is sent as soon as the lists of all earlier buckets have arrived, and
/// does not wait for other lists.
TEST(SparseProof, buckets_are_sent_one_after_the_other) {
  for (const std::uint32_t bucket : {0u, 1u, 2u, 3u, 5u, 6u}) {
    const auto world = world_of(oktopk(), {.count = 100, .k = 7, .bucket = bucket}, 7);
    const schedule& it = *world[2];
    std::size_t lists = 0;
    for (op_id sends = 0; sends < it.ops().size(); ++sends) {
      if (!is_part(it.ops()[sends], op_kind::send)) continue;
      const auto distance = static_cast<std::uint32_t>((it.ops()[sends].peer - 2 + 7) % 7);
      std::uint32_t waits_for = 0;
      for (op_id comes = 0; comes < it.ops().size(); ++comes)
        waits_for += is_part(it.ops()[comes], op_kind::recv) && leads_to(it, comes, sends) ? 1u : 0u;
      EXPECT_EQ(waits_for, bucket == 0 ? 0 : (distance - 1) / bucket * bucket) << bucket << ", " << distance;
      ++lists;
    }
    EXPECT_EQ(lists, 6u);
  }
}

/// The vectors of all ranks or of some ranks are in device memory. The lists and the postconditions are the same as in
/// host memory.
TEST(SparseProof, over_device_memory) {
  for (const rank size : {1, 2, 3, 5, 8, 13, 33}) {
    if (sampled() && size > 6) continue;
    for (const char* const name : {"oktopk", "topka"})
      for (const rank every : {1, 2})
        for (const std::uint64_t k : {0u, 1u, 10u, 1000u}) {
          const sparse_problem problem{.count = 1000, .k = k, .place = {0, size}};
          std::vector<schedule_ptr> world = world_of(*find_sparse(name), problem, size);
          for (std::size_t r = 0; r < world.size(); r += static_cast<std::size_t>(every)) {
            const auto made = placed(world[r], {{memory_space::device}, {memory_space::device}, false, true});
            ASSERT_TRUE(made) << made.error().text;
            EXPECT_TRUE(std::ranges::all_of((*made)->buffers(), [](const buffer& each) {
              return each.has_lists() ? each.space == memory_space::host : true;
            }));
            world[r] = *made;
          }
          const verification answer = verify(world, promise_of_sparse(problem));
          ASSERT_TRUE(answer.holds()) << name << ", " << size << " ranks, k " << k << "\n" << first_words(answer);
        }
  }
}

TEST(SparseProof, all_types_and_every_period) {
  for (const dtype type : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64})
    for (const std::uint32_t period : {1u, 2u, 64u}) {
      const verification answer = proof_of(oktopk(), {.count = 100, .k = 7, .type = type, .period = period}, 5);
      ASSERT_TRUE(answer.holds()) << name_of(type) << ", " << period << "\n" << first_words(answer);
    }
}

TEST(SparseProof, baselines_too) {
  for (const sparse_algorithm& how : sparse_algorithms())
    for (const rank size : {1, 2, 3, 5, 6, 7, 4, 8, 13})
      for (const std::uint64_t count : {0u, 1u, 5u, 1000u})
        for (const std::uint64_t k : {0u, 1u, 10u, 1000u}) {
          const verification answer = proof_of(how, {.count = count, .k = k}, size);
          ASSERT_TRUE(answer.holds()) << how.name << ", " << size << " ranks, " << count << ", k " << k << "\n"
                                      << first_words(answer);
          ASSERT_TRUE(answer.notes.empty()) << answer.notes[0].text;
        }
}

std::vector<schedule_ptr> partial_world_of(const sparse_algorithm& how, sparse_problem problem, rank size,
                                           const activation& starts) {
  std::vector<schedule_ptr> world;
  for (rank self = 0; self < size; ++self) {
    problem.place = {self, size};
    const auto made = partial_sparse_allreduce(how, problem, starts);
    if (!made) ADD_FAILURE() << how.name << ": " << made.error().text;
    if (!made) return {};
    world.push_back(*made);
  }
  return world;
}

verification partial_proof_of(const sparse_algorithm& how, sparse_problem problem, rank size,
                              const activation& starts) {
  const std::vector<schedule_ptr> world = partial_world_of(how, problem, size, starts);
  problem.place = {0, size};
  return verify(world, promise_of_partial_sparse(problem, starts));
}

TEST(SparseProof, whoever_starts_a_round_all_are_in_it_and_are_counted_once) {
  for (const sparse_algorithm& how : sparse_algorithms())
    for (const rank size : {1, 2, 3, 5, 6, 7, 4, 8, 9}) {
      if (sampled() && size > 7) continue;
      for (const std::string_view words : {"full", "solo", "majority+every(8)", "quorum", "all_of"}) {
        const bool takes_number = words == "quorum" || words == "all_of";
        const std::string number = "(" + std::to_string(words == "quorum" ? (size + 1) / 2 : size) + ")+every(4)";
        const auto starts = read_activation(std::string(words) + (takes_number ? number : ""));
        ASSERT_TRUE(starts) << starts.error().text;
        for (const std::uint64_t count : {0u, 1u, 300u})
          for (const std::uint64_t k : {0u, 1u, 10u}) {
            const verification answer = partial_proof_of(how, {.count = count, .k = k, .period = 3}, size, *starts);
            ASSERT_TRUE(answer.holds()) << how.name << " " << words << ", " << size << " ranks, " << count << ", k "
                                        << k << "\n"
                                        << first_words(answer);
            ASSERT_TRUE(answer.notes.empty()) << answer.notes[0].text;
          }
      }
    }
}

/// Removes the operand by which the result counts its contributors. The proof must reject such schedules.
TEST(SparseProof, counts_of_others_are_seen) {
  const sparse_problem problem{.count = 100, .k = 9, .place = {0, 3}, .period = 3};
  const activation starts{.policy = activation_policy::solo};
  for (const sparse_algorithm& how : sparse_algorithms()) {
    std::vector<schedule_ptr> world;
    for (const schedule_ptr& it : partial_world_of(how, problem, 3, starts)) {
      std::string text = to_text(*it);
      const std::size_t result = text.find("f32 b1[0 +100] = ");
      ASSERT_NE(result, std::string::npos);
      const std::size_t by = text.find(" by b", result);
      ASSERT_LT(by, text.find('\n', result)) << text.substr(result, 80);
      const auto read = parse_schedule(text.erase(by, text.find(']', by) + 1 - by));
      ASSERT_TRUE(read) << read.error().text;
      world.push_back(*read);
    }
    const verification answer = verify(world, promise_of_partial_sparse(problem, starts));
    ASSERT_FALSE(answer.holds());
    EXPECT_NE(first_words(answer).find("the recorded contributors are not the ranks"), std::string::npos)
        << first_words(answer);
  }
}

/// A mutant is a schedule with one planted change. The proof must reject every mutant, unless its change may be
/// harmless.
TEST(SparseProof, no_message_goes_astray_unseen) {
  const auto is_grave = [](const mutant_list& all, std::size_t k) {
    const std::string name = all.name(k);
    const bool moves = name.find("(send") != std::string::npos || name.find("(recv") != std::string::npos;
    const bool shifts = all.how(k) == mutation::shift_offset && moves;
    // The results of some kernels only control other ops. Replacing such a kernel is harmless if all ranks get the same
    // result.
    const bool is_by_function = name.find(" is a ") != std::string::npos;
    return all.how(k) == mutation::swap_peers || shifts || (all.how(k) == mutation::change_kernel && !is_by_function);
  };
  const auto expect_seen = [&](const sparse_algorithm& how, sparse_problem problem) {
    for (const rank size : {3, 5}) {
      problem.place = {0, size};
      const mutant_list mutants(world_of(how, problem, size));
      std::size_t number = 0;
      for (std::size_t k = 0; k < mutants.size(); ++k) {
        if (!is_grave(mutants, k)) continue;
        ++number;
        EXPECT_FALSE(verify(mutants.world(k), promise_of_sparse(problem)).holds())
            << how.name << ", " << size << " ranks, " << mutants.name(k);
      }
      EXPECT_GT(number, how.name == "sparseloco" ? 29u : 50u) << how.name;  // sparseloco has the fewest messages
    }
  };
  for (const sparse_algorithm& how : sparse_algorithms()) {
    if (how.name.starts_with("gtopk")) continue;  // a swap of children, or a shift of a bitmap, is harmless
    expect_seen(how, {.count = 100, .k = 9, .period = 3});
  }
  expect_seen(oktopk(), {.count = 100, .k = 9, .period = 3, .selection = selection_rule::reused, .bucket = 1});
}

TEST(SparseProof, its_text_is_read_back) {
  for (const schedule_ptr& it : world_of(oktopk(), {.count = 100, .k = 7, .period = 3}, 3)) {
    const auto read = parse_schedule(to_text(*it));
    ASSERT_TRUE(read) << read.error().text;
    EXPECT_EQ(**read, *it);
  }
}

/// A partial schedule has all ops of the ordinary schedule, with the same conditions under which an op is skipped
/// (guards). In addition, the partial schedule has the ops that start the round and count the contributors.
TEST(SparseProof, a_partial_one_has_its_body_in_it) {
  for (const sparse_algorithm& how : sparse_algorithms()) {
    const sparse_problem problem{.count = 100, .k = 7, .period = 3};
    const std::vector<schedule_ptr> bodies = world_of(how, problem, 5);
    const std::vector<schedule_ptr> whole = partial_world_of(how, problem, 5, {.policy = activation_policy::full});
    for (std::size_t r = 0; r < whole.size(); ++r) {
      const auto guarded = [](const schedule_ptr& it) {
        std::vector<std::pair<std::string_view, guard>> all;
        for (const op& one : it->ops())
          if (const guard* const when = it->guard_of(one)) all.emplace_back(name_of(one.kind), *when);
        return all;
      };
      EXPECT_EQ(guarded(whole[r]), guarded(bodies[r])) << how.name << ", rank " << r;
      EXPECT_EQ(guarded(whole[r]).empty(), how.name != "oktopk");
      EXPECT_EQ(whole[r]->name(), "partial_" + bodies[r]->name());
    }
  }
}

TEST(SparseProof, the_text_of_a_partial_one_is_read_back) {
  for (const sparse_algorithm& how : sparse_algorithms())
    for (const schedule_ptr& it : partial_world_of(how, {.count = 100, .k = 7, .period = 3}, 3,
                                                   {.policy = activation_policy::quorum, .number = 2})) {
      const auto read = parse_schedule(to_text(*it));
      ASSERT_TRUE(read) << read.error().text;
      EXPECT_EQ(**read, *it);
    }
}

TEST(SparseProof, a_partial_one_without_a_policy_is_refused) {
  const sparse_problem problem{.count = 10, .k = 1, .place = {0, 2}};
  EXPECT_TRUE(partial_sparse_allreduce(oktopk(), problem, {.policy = activation_policy::solo}));
  EXPECT_FALSE(partial_sparse_allreduce(oktopk(), problem, {}));
  EXPECT_FALSE(partial_sparse_allreduce(oktopk(), problem, {.policy = activation_policy::quorum, .number = 3}));
}

TEST(SparseProof, what_cannot_be_is_refused) {
  const auto refusal = [](const sparse_problem& problem) {
    const auto made = oktopk().generate(problem);
    return made ? "" : made.error().text;
  };
  EXPECT_NE(refusal({.count = 10, .k = 1, .type = dtype::i32}), "");
  EXPECT_NE(refusal({.count = (std::uint64_t{1} << 32) + 1, .k = 1}), "");
  EXPECT_NE(refusal({.count = 10, .k = 1, .period = 0}), "");
  EXPECT_NE(refusal({.count = 10, .k = 1, .selection = selection_rule::reused, .reuse = 0}), "");
  EXPECT_NE(refusal({.count = 10, .k = 1, .place = {3, 3}}), "");
  EXPECT_EQ(refusal({.count = std::uint64_t{1} << 32, .k = 1}), "");
}

}  // namespace
}  // namespace lsched::testing
