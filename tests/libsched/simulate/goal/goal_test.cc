// Tests of the text form of GOAL: exact output, a lossless round trip, and the errors of malformed files.
#include "bindings/cli/goal/goal.h"

#include <gtest/gtest.h>

#include <array>
#include <random>

#include "tests/support/sampling.h"

namespace lsched {
namespace {

constexpr goal_op send(std::uint32_t peer, std::uint64_t size, std::uint32_t tag = 0) {
  return {.size = size, .peer = peer, .tag = tag, .kind = goal_kind::send};
}
constexpr goal_op recv(std::uint32_t peer, std::uint64_t size, std::uint32_t tag = 0) {
  return {.size = size, .peer = peer, .tag = tag, .kind = goal_kind::recv};
}
constexpr goal_op calc(std::uint64_t time, std::uint8_t cpu = 0) { return {.size = time, .cpu = cpu}; }

/// Returns a program of two ranks with every kind of op and edge.
goal small_program() {
  goal program;
  program.ranks.resize(2);
  program.ranks[0].ops = {calc(5, 1), send(1, 8, 3)};
  program.ranks[0].edges = {{0, 1, false}};
  program.ranks[1].ops = {recv(0, 8, 3), calc(7), recv(k_goal_any, 1, k_goal_any)};
  program.ranks[1].ops[2].nic = 2;
  program.ranks[1].edges = {{0, 1, false}, {0, 2, true}};
  return program;
}

/// Returns the error text of the parser, or an empty string if the parser accepts the file.
std::string complaint(std::string_view text) {
  const auto parsed = parse_goal_text(text);
  return parsed ? std::string() : parsed.error().text;
}

// --- text ----------------------------------------------------------------------------------------------------

TEST(goal_text, is_written_one_line_an_op_with_the_description_in_the_first_block) {
  EXPECT_EQ(to_goal_text(small_program(), "two\nlines"),
            "num_ranks 2\n"
            "\n"
            "rank 0 {\n"
            "// two\n"
            "// lines\n"
            "l1: calc 5 cpu 1\n"
            "l2: send 8b to 1 tag 3\n"
            "l2 requires l1\n"
            "}\n"
            "\n"
            "rank 1 {\n"
            "l1: recv 8b from 0 tag 3\n"
            "l2: calc 7\n"
            "l3: recv 1b from -1 tag -1 nic 2\n"
            "l2 requires l1\n"
            "l3 irequires l1\n"
            "}\n");
}

TEST(goal_text, keeps_a_description_a_comment_whatever_it_holds) {
  const std::string text = to_goal_text(small_program(), "a\r}\x01\nsend 1b to 7");
  EXPECT_NE(text.find("// a?}?\n// send 1b to 7\n"), std::string::npos) << text;
  EXPECT_EQ(*parse_goal_text(text), small_program());
}

TEST(goal_text, reads_what_it_has_written) {
  const std::string text = to_goal_text(small_program());
  const auto parsed = parse_goal_text(text);
  ASSERT_TRUE(parsed) << parsed.error().text;
  EXPECT_EQ(*parsed, small_program());
  EXPECT_EQ(to_goal_text(*parsed), text);
}

TEST(goal_text, takes_comments_blanks_and_line_ends_wherever_the_format_has_them) {
  const auto parsed = parse_goal_text(
      "// first of all\r\n num_ranks\t1 // so few\n/* a\n * b */ rank 0\t{ /**/calc 1\r\n"
      "\tx :send 10 b to 0 tag 5\ty_1: calc 2\n");
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().text, "line 5, column 26: expected the end of the line");
  const auto good = parse_goal_text(
      "// first of all\r\n num_ranks\t1 // so few\n/* a\n * b */ rank 0\t{ /**/calc 1\r\n"
      "\tx :send 10 b to 0 tag 5 nic 1\r\n y_1:recv 10bfrom 0tag-1\nx requires\ty_1 \n}// end");
  ASSERT_TRUE(good) << good.error().text;
  goal_rank wanted{.ops = {calc(1), send(0, 10, 5), recv(0, 10, k_goal_any)}, .edges = {{2, 1, false}}};
  wanted.ops[1].nic = 1;
  EXPECT_EQ(good->ranks, std::vector{wanted});
}

TEST(goal_text, groups_edges_by_their_source_and_keeps_their_order_within) {
  const auto parsed = parse_goal_text(
      "num_ranks 1\nrank 0 {\na: calc 1\nb: calc 2\nc: calc 3\n"
      "c irequires a\nc requires b\nc requires a\nb requires a\n}\n");
  ASSERT_TRUE(parsed) << parsed.error().text;
  const std::vector<goal_edge> wanted{{0, 2, false}, {0, 1, false}, {0, 2, true}, {1, 2, false}};
  EXPECT_EQ(parsed->ranks[0].edges, wanted);
}

TEST(goal_text, names_line_column_and_reason_of_what_it_refuses) {
  const auto in_block = [](std::string_view lines) {
    return "num_ranks 2\nrank 0 {\n" + std::string(lines) + "}\nrank 1 {\n}\n";
  };
  const std::array<std::pair<std::string, std::string_view>, 29> cases{{
      {"", "line 1, column 1: expected \"num_ranks\""},
      {"rank 0 {\n}\n", "line 1, column 1: expected \"num_ranks\""},
      {"num_ranks 0\n", "line 1, column 1: num_ranks is 0, but a program has at least one rank"},
      {"num_ranks 4294967296\n", "line 1, column 11: the number of ranks is above 2147483647"},
      {"num_ranks 2\nrank 1 {\n}\nrank 0 {\n}\n", "line 2, column 1: expected the block of rank 0"},
      {"num_ranks 2\nrank 0 {\n}\nrank 2 {\n}\n", "line 4, column 6: a rank is above 1"},
      {"num_ranks 2\nrank 0 {\n}\n", "line 4, column 1: the block of rank 1 is missing"},
      {"num_ranks 1\nrank 0 {\n}\nrank 1 {\n}\n",
       "line 4, column 1: unexpected text: nothing may follow the block of the last rank"},
      {"num_ranks 1\nrank 0 {\ncalc 1\n", "line 4, column 1: the file ends too early: expected a word"},
      {"num_ranks 1\nrank 0 {\n/* calc 1\n}\n", "line 3, column 1: the comment is not closed"},
      {in_block("calc 1 // why\n"), "line 3, column 8: expected the end of the line"},
      {in_block("calc 1 nic 0\n"), "line 3, column 8: expected the end of the line"},
      {in_block("calc\n"), "line 3, column 5: expected a number (a time)"},
      {in_block("calc -1\n"), "line 3, column 6: expected a number (a time)"},
      {in_block("send 8 to 1\n"), "line 3, column 8: expected \"b\""},
      {in_block("send 8b from 1\n"), "line 3, column 9: expected \"to\""},
      {in_block("send 8b to -1\n"), "line 3, column 12: expected a number (a rank)"},
      {in_block("send 8b to 2\n"), "line 3, column 12: rank 2 does not exist: the program has only 2 ranks"},
      {in_block("send 8b to 1 cpu 1 tag 1\n"), "line 3, column 20: expected the end of the line"},
      {in_block("send 8b to 1 tag 4294967296\n"), "line 3, column 18: a tag is above 4294967295"},
      {in_block("send 8b to 1 cpu 256\n"), "line 3, column 18: a cpu is above 255"},
      {in_block("send 18446744073709551616b to 1\n"), "line 3, column 6: a size is above 18446744073709551615"},
      {in_block("a: calc 1\na: calc 2\n"), "line 4, column 1: the label a is used twice"},
      {in_block("a: calc 1\na requires b\nb: calc 1\n"), "line 4, column 12: no op above has the label b"},
      {in_block("a: a: calc 1\n"), "line 3, column 4: expected send, recv or calc"},
      {in_block("a: calc 1\na needs a\n"), "line 4, column 3: expected \":\", \"requires\" or \"irequires\""},
      {in_block("_a: calc 1\n"), "line 3, column 1: expected a word that begins with a letter"},
      {in_block("a: calc 1\na requires a } \n"), "line 4, column 14: expected the end of the line"},
      {"num_ranks 2\nrank 0 {\na: calc 1\n}\nrank 1 {\na requires a\n}\n",
       "line 6, column 1: no op above has the label a"},
  }};
  for (const auto& [text, why] : cases) EXPECT_EQ(complaint(text), why) << text;
}

TEST(goal_text, does_not_believe_a_number_of_ranks) {
  EXPECT_EQ(complaint("num_ranks 2000000000\nrank 0 {\n}\n"), "line 4, column 1: the block of rank 1 is missing");
}

// --- random programs -----------------------------------------------------------------------------------------

TEST(goal_text, reads_ranks_without_ops) {
  goal program;
  program.ranks.resize(3);
  EXPECT_EQ(*parse_goal_text(to_goal_text(program)), program);
}

goal random_program(std::mt19937_64& random) {
  const auto below = [&](std::uint64_t n) { return random() % n; };
  goal program;
  program.ranks.resize(1 + below(5));
  for (goal_rank& me : program.ranks) {
    for (std::uint64_t ops = below(12); ops > 0; --ops) {
      const auto peer = static_cast<std::uint32_t>(below(program.ranks.size()));
      goal_op it = below(2) == 0 ? send(peer, random() >> below(64), static_cast<std::uint32_t>(random()))
                                 : recv(below(4) == 0 ? k_goal_any : peer, below(2), k_goal_any);
      if (below(3) == 0) it = calc(random() >> below(64));
      it.cpu = static_cast<std::uint8_t>(below(256));
      if (it.kind != goal_kind::calc) it.nic = static_cast<std::uint8_t>(below(256));
      me.ops.push_back(it);
    }
    const std::uint64_t ops = me.ops.size();
    for (std::uint64_t edges = ops == 0 ? 0 : below(20); edges > 0; --edges)
      me.edges.push_back({.before = static_cast<std::uint32_t>(below(ops)),
                          .after = static_cast<std::uint32_t>(below(ops)),
                          .on_start = below(2) == 0});
    sort_edges(me);
  }
  return program;
}

TEST(goal, survives_its_text_unchanged_whatever_it_is) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 500; ++i) {
    const goal program = random_program(random);
    const std::string text = to_goal_text(program);
    const auto from_text = parse_goal_text(text);
    ASSERT_TRUE(from_text) << from_text.error().text << "\n" << text;
    EXPECT_EQ(*from_text, program);
    EXPECT_EQ(to_goal_text(*from_text), text);
  }
}

/// Makes a few random changes to a file. A change replaces, erases or doubles bytes, or inserts a word of the format.
std::string mutated(std::string file, std::mt19937_64& random) {
  static constexpr std::string_view k_bites[] = {
      "-1", "{", "}", "\n", "rank ", " requires ", "l1", "99999999999999999999", "/*", "*/", "//", "\r", "b", ":", " "};
  for (std::uint64_t changes = 1 + random() % 4; changes > 0 && !file.empty(); --changes) {
    const std::size_t where = random() % file.size();
    const std::size_t length = random() % 9;
    switch (random() % 5) {
      case 0: file[where] = static_cast<char>(random()); break;
      case 1: file.erase(where, length); break;
      case 2: file.insert(where, file.substr(where, length)); break;
      case 3: file.insert(where, k_bites[random() % std::size(k_bites)]); break;
      default: file[where] = static_cast<char>(file[where] ^ (1 << random() % 8));
    }
  }
  return file;
}

/// If the parser accepts a damaged file, the program must be unchanged after it is written and read again. If the
/// parser refuses the file, the error must name a line.
void fuzz(int files, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  int accepted = 0;
  for (int i = 0; i < files; ++i) {
    const goal program = random_program(random);
    const auto parsed = parse_goal_text(mutated(to_goal_text(program), random));
    if (!parsed) {
      EXPECT_EQ(parsed.error().code, status::argument);
      EXPECT_EQ(parsed.error().text.rfind("line ", 0), 0u) << parsed.error().text;
      continue;
    }
    ++accepted;
    ASSERT_EQ(*parse_goal_text(to_goal_text(*parsed)), *parsed) << "seed " << seed << ", file " << i;
  }
  EXPECT_GT(accepted, files / 50);
  EXPECT_LT(accepted, files);
}

TEST(goal, takes_no_harm_from_broken_files) { fuzz(testing::sampled() ? 2000 : 20'000, 7); }

TEST(goal, takes_no_harm_from_many_broken_files_soak) {
  for (std::uint64_t seed = 100; seed < 200; ++seed) fuzz(20'000, seed);
}

}  // namespace
}  // namespace lsched
