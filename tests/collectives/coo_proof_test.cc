// Proofs of the schedules that sum users' sparse vectors. Every output must hold the sum of the items of all ranks,
// added in rank order.
#include <gtest/gtest.h>

#include "collectives/requests/sparse_promises.h"
#include "collectives/sparse/coo_allreduce.h"
#include "libsched/schedule/schedule_file.h"
#include "libsched/verify/verify.h"
#include "tests/verify_oracle/mutant.h"

namespace lsched::testing {
namespace {

std::vector<schedule_ptr> world_of(coo_problem problem, rank size) {
  std::vector<schedule_ptr> world;
  for (rank self = 0; self < size; ++self) {
    problem.place = {self, size};
    const auto made = coo_schedule(problem);
    if (!made) ADD_FAILURE() << made.error().text;
    if (!made) return {};
    world.push_back(*made);
  }
  return world;
}

verification proof_of(coo_problem problem, rank size) {
  const std::vector<schedule_ptr> world = world_of(problem, size);
  problem.place = {0, size};
  return verify(world, promise_of_coo(problem));
}

std::string first_words(const verification& answer) {
  return answer.holds() ? "" : std::string(name_of(answer.findings[0].what)) + ": " + answer.findings[0].text;
}

TEST(CooProof, everybodys_items_are_in_the_result_once) {
  for (const rank size : {1, 2, 3, 5, 6, 7, 4, 8, 13})
    for (const std::uint64_t count : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1000}, std::uint64_t{1} << 32})
      for (const std::uint64_t room : {0u, 1u, 50u, 2000u})
        for (const std::uint64_t result_room : {0u, 1u, 900u})
          for (const bool is_balanced : {false, true}) {
            const verification answer = proof_of({.count = count,
                                                  .room = room,
                                                  .result_room = result_room,
                                                  .is_balanced = is_balanced,
                                                  .has_dense = room % 4 == 0},
                                                 size);
            ASSERT_TRUE(answer.holds()) << size << " ranks, " << count << ", room " << room << ", " << result_room
                                        << "\n"
                                        << first_words(answer);
            ASSERT_TRUE(answer.notes.empty()) << answer.notes[0].text;
          }
}

TEST(CooProof, all_types) {
  for (const dtype type : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64})
    for (const bool is_balanced : {false, true}) {
      const verification answer =
          proof_of({.count = 100, .room = 9, .result_room = 30, .type = type, .is_balanced = is_balanced}, 5);
      ASSERT_TRUE(answer.holds()) << name_of(type) << "\n" << first_words(answer);
    }
}

/// A mutant is a schedule with one planted change. The proof must reject every mutant, unless its change may be
/// harmless.
TEST(CooProof, no_message_goes_astray_unseen) {
  const auto is_grave = [](const mutant_list& all, std::size_t k) {
    const std::string name = all.name(k);
    const bool moves = name.find("(send") != std::string::npos || name.find("(recv") != std::string::npos;
    // The results of some kernels only control other ops. Replacing such a kernel is harmless if all ranks get the same
    // result.
    const bool is_by_function = name.find(" is a ") != std::string::npos;
    return all.how(k) == mutation::swap_peers || (all.how(k) == mutation::shift_offset && moves) ||
           (all.how(k) == mutation::change_kernel && !is_by_function);
  };
  for (const rank size : {3, 5})
    for (const bool is_balanced : {false, true}) {
      const coo_problem problem{.count = 100,
                                .room = 9,
                                .result_room = 30,
                                .place = {0, size},
                                .is_balanced = is_balanced,
                                .has_dense = true};
      const mutant_list mutants(world_of(problem, size));
      std::size_t number = 0;
      for (std::size_t k = 0; k < mutants.size(); ++k) {
        if (!is_grave(mutants, k)) continue;
        ++number;
        EXPECT_FALSE(verify(mutants.world(k), promise_of_coo(problem)).holds())
            << size << " ranks, " << is_balanced << ", " << mutants.name(k);
      }
      EXPECT_GT(number, 50u);
    }
}

TEST(CooProof, its_text_is_read_back) {
  for (const schedule_ptr& it : world_of({.count = 100, .room = 9, .result_room = 30, .is_balanced = true}, 3)) {
    const auto read = parse_schedule(to_text(*it));
    ASSERT_TRUE(read) << read.error().text;
    EXPECT_EQ(**read, *it);
  }
}

TEST(CooProof, what_cannot_be_is_refused) {
  const auto refusal = [](const coo_problem& problem) {
    const auto made = coo_schedule(problem);
    return made ? status::ok : made.error().code;
  };
  const std::uint64_t most = std::uint64_t{3} << 32;
  EXPECT_EQ(refusal({.count = most, .room = 2, .result_room = 2, .place = {1, 3}}), status::ok);
  EXPECT_EQ(refusal({.count = most + 1, .room = 2, .result_room = 2, .place = {1, 3}}), status::unsupported);
  EXPECT_EQ(refusal({.count = ~std::uint64_t{0}, .room = 2, .result_room = 2, .place = {1, 3}}), status::unsupported);
  EXPECT_EQ(refusal({.count = most / 3, .room = 2, .place = {1, 3}, .is_balanced = true}), status::ok);
  EXPECT_EQ(refusal({.count = most / 3 + 1, .room = 2, .place = {1, 3}, .is_balanced = true}), status::unsupported);
  EXPECT_EQ(refusal({.count = 10, .room = 1, .type = dtype::i32}), status::constraint);
  EXPECT_EQ(refusal({.count = 10, .room = 1, .place = {3, 3}}), status::argument);
  EXPECT_EQ(refusal({.count = 10, .room = std::uint64_t{1} << 48}), status::argument) << "no buffer has so many";
}

}  // namespace
}  // namespace lsched::testing
