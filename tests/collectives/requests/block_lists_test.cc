// Tests of read_lists with the blocks of one rank at random places in memory. A search through all pairs of elements
// finds the expected results.
#include "collectives/requests/block_lists.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>

#include "collectives/requests/sample_requests.h"

namespace lsched::testing {
namespace {

using numbers = std::vector<std::uint64_t>;

constexpr std::uint64_t k_capacity = 3;

/// One side of a round: its blocks, and its memory in an array that both sides share.
struct side {
  std::size_t begin = 0;  ///< index in the array at which the side's memory begins
  numbers counts{}, displacements{};

  std::size_t place_of(std::size_t block, std::uint64_t element) const {
    return begin + displacements[block] + element;
  }
};

/// A round of a schedule with a capacity. The two sides of the round may overlap in memory.
struct round_of_lists {
  schedule_ptr program;
  side sent{}, received{};
  std::size_t self = 0;

  std::string error() const {
    static std::array<std::int32_t, 200> memory{};
    binding bound;
    numbers input_begins, output_begins;
    const auto why = read_lists(
        *program, {"send", memory.data() + sent.begin, sent.counts.data(), sent.displacements.data()},
        {"recv", memory.data() + received.begin, received.counts.data(), received.displacements.data(), nullptr},
        {bound, input_begins, output_begins});
    return why ? why->text : "";
  }
};

/// A fault that the test plants in the search. differences() must detect each fault.
enum class planted { nothing, forgets_own_block, forgets_ranges, compares_begins };

/// Returns whether the rank exchanges this block with itself.
bool is_own(const side& one, std::size_t block, std::size_t self) { return one.counts.size() == 1 || block == self; }

/// Returns whether a received element may overwrite an element before the element is sent.
bool collide(const round_of_lists& of, planted fault) {
  const side &from = of.sent, &to = of.received;
  std::size_t first_sent = SIZE_MAX, last_sent = 0, first_received = SIZE_MAX, last_received = 0;
  bool share_an_element = false;
  for (std::size_t i = 0; i < from.counts.size(); ++i)
    for (std::uint64_t a = 0; a < from.counts[i]; ++a) {
      first_sent = std::min(first_sent, from.place_of(i, a)), last_sent = std::max(last_sent, from.place_of(i, a));
      for (std::size_t o = 0; o < to.counts.size(); ++o) {
        const bool is_same = is_own(from, i, of.self) && is_own(to, o, of.self) &&
                             (fault == planted::compares_begins || from.place_of(i, 0) == to.place_of(o, 0));
        if (is_same && fault != planted::forgets_own_block) continue;
        for (std::uint64_t b = 0; b < to.counts[o]; ++b) share_an_element |= from.place_of(i, a) == to.place_of(o, b);
      }
    }
  for (std::size_t o = 0; o < to.counts.size(); ++o)
    for (std::uint64_t b = 0; b < to.counts[o]; ++b)
      first_received = std::min(first_received, to.place_of(o, b)),
      last_received = std::max(last_received, to.place_of(o, b));
  const bool are_ranges = from.counts.size() > 1 && to.counts.size() > 1 && fault != planted::forgets_ranges;
  const bool ranges_meet = std::max(first_sent, first_received) <= std::min(last_sent, last_received);
  return are_ranges ? ranges_meet : share_an_element;
}

std::string expected_error(const round_of_lists& of, planted fault) {
  const auto own = [&](const side& one) { return one.counts[one.counts.size() == 1 ? 0 : of.self]; };
  if (own(of.sent) > own(of.received)) return "to itself, but recv_counts has room for";
  return collide(of, fault) ? "overlap" : "";
}

/// Draws the counts and the places of a side. Places are often close to each other, or equal.
side draw_side(std::mt19937_64& random, std::size_t blocks) {
  side drawn{.begin = random() % 8};
  for (std::size_t i = 0; i < blocks; ++i) {
    drawn.counts.push_back(random() % (k_capacity + 1));
    drawn.displacements.push_back(random() % 3 == 0 ? random() % 40 : i * k_capacity);
  }
  return drawn;
}

/// Returns the number of random rounds in which read_lists and the search differ.
int differences(planted fault) {
  std::mt19937_64 random(7);
  int number = 0;
  for (const rank size : {3, 5, 6, 7, 1, 4, 8})
    for (const char* name : {"gather", "scatter", "allgather", "alltoall"}) {
      const rank self = size / 2;
      const rank root = find_collective(name)->is_rooted ? self : 0;
      const auto program =
          generate(name, "auto", {self, size}, {.count = 1, .type = dtype::i32, .root = root, .room = k_capacity});
      EXPECT_TRUE(program) << program.error().text;
      const auto blocks_of = [&](buffer_role role) {
        std::size_t blocks = 0;
        for (const buffer& one : (*program)->buffers()) blocks += one.role == role ? one.count : 0;
        return blocks;
      };
      for (int trial = 0; trial < 150; ++trial) {
        round_of_lists drawn{*program, draw_side(random, blocks_of(buffer_role::input)),
                             draw_side(random, blocks_of(buffer_role::output)), static_cast<std::size_t>(self)};
        if (trial % 4 == 0) drawn.received.begin = drawn.sent.begin;
        const std::string found = drawn.error(), wanted = expected_error(drawn, fault);
        const bool is_equal = wanted.empty() ? found.empty() : found.find(wanted) != std::string::npos;
        number += is_equal ? 0 : 1;
      }
    }
  return number;
}

TEST(block_lists, overlap_if_a_block_may_be_overwritten_before_it_was_sent) {
  EXPECT_EQ(differences(planted::nothing), 0);
}

TEST(block_lists, search_sees_wrong_rules_of_overlap) {
  for (const planted fault : {planted::forgets_own_block, planted::forgets_ranges, planted::compares_begins})
    EXPECT_GT(differences(fault), 0) << static_cast<int>(fault);
}

/// The sides of a round of an allgather on rank 1 of 3.
class OneRound : public ::testing::Test {
 protected:
  std::string error() {
    const auto why = read_lists(*program_, sent_, received_, {memory_, input_begins_, output_begins_});
    return why ? why->text : "";
  }

  schedule_ptr program_ = *generate("allgather", "auto", {1, 3}, {.count = 1, .type = dtype::i32, .room = 5});
  std::array<std::int32_t, 32> array_{};
  numbers sends_{2}, receives_{5, 2, 4};
  caller_lists sent_{"send", array_.data(), sends_.data()};
  caller_lists received_{"recv", array_.data() + 8, receives_.data()};
  binding memory_{};
  numbers input_begins_{}, output_begins_{};
};

TEST_F(OneRound, without_displacements_has_contiguous_blocks) {
  EXPECT_EQ(error(), "");
  EXPECT_EQ(output_begins_, (numbers{0, 5, 7}));
  EXPECT_EQ(memory_.output_lists.front().begins, output_begins_.data());
  const numbers places{0, 10, 20};
  received_.displacements = places.data();
  EXPECT_EQ(error(), "");
  EXPECT_EQ(memory_.output_lists.front().begins, places.data());
}

TEST_F(OneRound, with_wrong_counts_is_refused) {
  sent_.counts = nullptr;
  EXPECT_EQ(error(), "send_counts is null, but this rank has a send buffer: set send_counts");
  sent_.counts = sends_.data();
  receives_[2] = 6;
  EXPECT_EQ(error(), "recv_counts[2] is 6, above the capacity of 5");
  receives_ = {5, 1, 4};
  EXPECT_EQ(error(),
            "this rank sends 2 elements to itself, but recv_counts has room for 1: set a larger recv_counts for this "
            "block");
  receives_ = {0, 2, 0};
  received_.memory = nullptr;
  EXPECT_EQ(error(), "the recv buffer is null, but recv_counts[1] is 2");
}

TEST_F(OneRound, of_a_buffer_that_the_rank_does_not_have_is_refused) {
  program_ = *generate("gather", "auto", {1, 3}, {.count = 1, .type = dtype::i32, .room = 5});
  EXPECT_EQ(error(), "counts of the recv buffer are set, but this rank has no such buffer: leave recv_counts null");
  received_ = {.side = "recv"};
  EXPECT_EQ(error(), "");
  EXPECT_TRUE(memory_.outputs.empty());
}

}  // namespace
}  // namespace lsched::testing
