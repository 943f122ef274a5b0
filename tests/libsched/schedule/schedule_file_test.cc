// Tests of schedule files: round trips, files written by hand, errors and their positions, and the use of memory.
// schedule_file_fuzz_test.cc tests thousands of damaged files.
#include "libsched/schedule/schedule_file.h"
#include "collectives/requests/sample_requests.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "collectives/registry.h"
#include "libsched/schedule/builder.h"
#include "tests/libsched/allocation_count.h"
#include "tests/support/sampler.h"

namespace lsched {
namespace {

using testing::k_sampler;

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  const std::size_t place = text.find(from);
  EXPECT_NE(place, text.npos) << from;
  return std::string(text.substr(0, place)).append(to).append(text.substr(place + from.size()));
}

/// Returns the code and the reason of a refusal, or "accepted".
template <class Content>
std::string answer(const result<Content>& parsed) {
  return parsed ? "accepted" : std::string(name_of(parsed.error().code)) + " " + parsed.error().text;
}

schedule_ptr parsed(std::string_view text) {
  const auto made = parse_schedule(text);
  if (made) return *made;
  ADD_FAILURE() << answer(made) << "\n" << text;
  return *builder({0, 1}).compile();
}

// --- round trips -------------------------------------------------------------------------------------------

std::vector<activation> starts_for(const algorithm& it) {
  if (!it.of->activates) return {{}};
  return {{activation_policy::full, 0}, {activation_policy::solo, 0}, {activation_policy::majority, ~std::uint64_t{0}}};
}

std::vector<schedule_ptr> generated(const algorithm& it, rank size, std::uint64_t count, const activation& starts) {
  std::vector<schedule_ptr> programs;
  const shape data = typical_shape(*it.of, size, count, dtype::bf16, kernel::min);
  for (rank self = 0; self < size; ++self) programs.push_back(*it.generate({self, size}, data, starts));
  return programs;
}

std::string text_of(const std::vector<schedule_ptr>& programs) {
  std::string text;
  for (const schedule_ptr& it : programs) text += to_text(*it);
  return text;
}

TEST(schedule_file, gives_back_what_every_generator_makes) {
  for (const algorithm& it : algorithms())
    for (const rank size : {1, 2, 3, 5, 6, 7, 8, 13, 17})
      for (const std::uint64_t count : {0u, 1u, 1000u})
        for (const activation& starts : starts_for(it)) {
          const auto programs = generated(it, size, count, starts);
          const std::string text = text_of(programs);
          const auto again = parse_world(text);
          ASSERT_TRUE(again) << it.of->name << " " << it.name << " " << size << ": " << answer(again);
          for (std::size_t i = 0; i < programs.size(); ++i) {
            EXPECT_EQ(*programs[i], *(*again)[i]);
            EXPECT_EQ(*programs[i], *parsed(to_text(*programs[i])));
          }
          EXPECT_EQ(text_of(*again), text);
        }
}

TEST(schedule_file, gives_back_one_op_of_each_kind) { EXPECT_EQ(to_text(*parsed(k_sampler)), k_sampler); }

TEST(schedule_file, gives_back_the_largest_numbers) {
  builder b({std::numeric_limits<rank>::max() - 1, std::numeric_limits<rank>::max()}, std::string("\0\x7f\xff#", 4));
  const buffer_id x = b.input(dtype::u8, k_max_count), y = b.output(dtype::u8, k_max_count);
  b.copy({x, 0}, {y, 0}, k_max_count);
  b.copy({x, k_max_count}, {y, k_max_count}, 0);
  b.send(0, std::numeric_limits<std::uint32_t>::max(), {x, 0}, k_max_count);
  b.set_activation({activation_policy::majority, std::numeric_limits<std::uint64_t>::max()});
  b.declare_holding();
  const schedule_ptr made = *b.compile();
  EXPECT_EQ(*parsed(to_text(*made)), *made);
}

TEST(schedule_file, gives_back_lists_and_guards) {
  builder b({1, 3}, "lists");
  const buffer_id apart = b.lists(buffer_role::input, dtype::f32, 2, {.room = 5, .typical = 1});
  const buffer_id packed = b.lists(buffer_role::output, dtype::f32, 2, {.room = 5, .total = 9});
  const buffer_id lengths = b.scratch(dtype::u64, 2);
  const op_id sent = b.send(0, 0, {apart, 1}, 1);
  const op_id ready = b.lay_out({lengths, 0}, packed, {b.measure({apart, 0}, {lengths, 0}, 2)});
  const op_id got = b.recv(0, 0, {packed, 0}, 2, {ready});
  b.set_guard(got, {.every = 4, .skips_empty = true});
  b.set_guard(sent, {.every = 2, .phase = 1});
  b.declare_synchronising();
  const auto made = b.compile();
  ASSERT_TRUE(made) << made.error().text;
  EXPECT_EQ(*parsed(to_text(**made)), **made);
}

// --- versions ----------------------------------------------------------------------------------------------

/// Returns a schedule file whose compute ops have the given parameters. Versions 2 and 3 of the format differ only in
/// these parameters.
std::string with_parameters(std::string_view version, std::string_view divide, std::string_view split,
                            std::string_view derive) {
  const auto all = [](auto... parts) { return (std::string() + ... + std::string(parts)); };
  return all("libsched schedule ", version, R"(
name "golden"
rank 0 of 1
flags
activation none seed 0
sizes buffers 4 guards 0 ops 5 deps 4
buffer 0 input host f32 6
buffer 1 output host f32 3
buffer 2 scratch host f32 2
buffer 3 scratch host f32 4
op 0 compute f32 b1[0 +3] = )",
             divide, R"( need 0 then 1
op 1 compute f32 b2[0 +2] = )",
             split, R"( need 1 then 2
op 2 compute f32 b3[0 +4] = )",
             derive, R"( need 1 then 3
op 3 compute f32 b1[0 +3] = sum b1[0 +3] b0[0 +3] need 1 then 4
op 4 nop need 1
exit 4
)");
}

const std::string k_of_version_2 =
    with_parameters("2", "divide b0[3 +3] by 4294967295", "split 7 b0[0 +6]", "derive 0 b1[0 +3] by b2[0 +2]");
const std::string k_of_version_3 = with_parameters(
    "3", "divide b0[3 +3] divisor 4294967295", "split b0[0 +6] function 7", "derive b1[0 +3] by b2[0 +2] function 0");

TEST(schedule_file, of_version_2_is_still_read_and_written_as_version_3) {
  EXPECT_EQ(*parsed(k_of_version_2), *parsed(k_of_version_3));
  EXPECT_EQ(to_text(*parsed(k_of_version_2)), k_of_version_3);
  EXPECT_EQ(to_text(*parsed(k_of_version_3), 2), k_of_version_2);
}

TEST(schedule_file, has_the_parameters_of_its_own_version) {
  for (const auto& [from, to] : {std::pair{&k_of_version_2, "schedule 3"}, {&k_of_version_3, "schedule 2"}}) {
    std::string text = *from;
    text.replace(text.find("schedule "), 10, to);
    EXPECT_FALSE(parse_schedule(text)) << text;
  }
}

// --- written by hand ---------------------------------------------------------------------------------------

constexpr std::string_view k_by_hand = R"(
# Rank 1 waits for rank 0's element
# and adds its own.

libsched schedule 3
name "by # hand"   # a comment may follow anything
rank 1 of 2
flags
activation none seed 0

buffer 0 input  host i64 1
buffer 1 output host i64 1   # the sum
	buffer 2 scratch host i64 1

op 0 recv i64 b2 [ 0+1 ] from 0 tag 0 then 1
op 1 compute i64 b1[0+1]=sum b2[0+1]b0[0+1]
exit 1)";

TEST(schedule_file, may_be_spaced_and_commented_and_leave_out_what_is_derived) {
  EXPECT_EQ(to_text(*parsed(k_by_hand)), R"(libsched schedule 3
name "by # hand"
rank 1 of 2
flags
activation none seed 0
sizes buffers 3 guards 0 ops 2 deps 1
buffer 0 input host i64 1
buffer 1 output host i64 1
buffer 2 scratch host i64 1
op 0 recv i64 b2[0 +1] from 0 tag 0 in_place need 0 then 1
op 1 compute i64 b1[0 +1] = sum b2[0 +1] b0[0 +1] releases_a 0 need 1
exit 1
)");
}

TEST(schedule_file, may_come_from_a_machine_with_other_line_ends) {
  std::string text;
  for (const char letter : k_sampler) text += letter == '\n' ? "\r\n" : std::string(1, letter);
  EXPECT_EQ(to_text(*parsed(text)), k_sampler);
}

TEST(schedule_file, each_derived_thing_may_be_left_out_alone) {
  for (const std::string_view word :
       {"sizes buffers 4 guards 0 ops 9 deps 8\n", " need 2", " in_place", " releases_a 5"})
    EXPECT_EQ(to_text(*parsed(replaced(k_sampler, word, ""))), k_sampler) << word;
}

TEST(schedule_file, a_need_below_all_is_no_derived_thing) {
  const schedule_ptr all = parsed(replaced(k_sampler, "nop need 1", "nop"));
  EXPECT_EQ(all->ops()[2].need, 2u);
}

// --- errors and their places -------------------------------------------------------------------------------

/// A fault in the text of testing::k_sampler: `to` replaces `from`. The error must name `line` and `column`. The text
/// of the error must begin with `reason`.
struct fault {
  std::string_view from, to;
  int line, column;
  std::string reason;
  status code = status::argument;
};

const fault k_faults[] = {
    {"libsched", "libshed", 1, 1, "expected 'libsched' but found 'libshed'"},
    {"schedule 3", "schedule 4", 1, 19, "the file has version 4, but only versions 2 to 3 can be read",
     status::unsupported},
    {"schedule 3", "schedule 1", 1, 19, "the file has version 1,", status::unsupported},
    {"schedule 3", "schedule 99999999999999999999", 1, 19,
     "expected a number up to 18446744073709551615 but found '99999999999999999999'"},
    {"schedule 3", "schedule 03", 1, 19, "'03' contradicts"},
    {"schedule 3", "schedule 3 1", 1, 21, "expected the end of the line but found '1'"},
    {"name", "nam", 2, 1, "expected 'name' but found 'nam'"},
    {"one\\x0a\"", "one\\x0a", 2, 6, "expected a name in quotes but found '\"'"},
    {"\\x22tiny", "\\x2", 2, 9, "expected \\x and two lower-case hexadecimal digits, for one byte"},
    {"\\x0a", "\\x0A", 2, 29, "expected \\x and two lower-case hexadecimal digits, for one byte"},
    {"\\x0a", "\\n", 2, 29, "expected \\x and two lower-case hexadecimal digits, for one byte"},
    {"tiny", "t\\x69ny", 2, 6, "'\"a \\x22t\\x69ny\\x22 \\x5cone\\x0a\"' contradicts"},
    {"tiny", "\xe2\x84\xa2", 2, 6, "'\"a \\x22???\\x22 \\x5cone\\x0a\"' contradicts"},
    {"\"a", "a\"", 2, 6, "expected a name in quotes but found 'a'"},
    {"rank 1", "rank -1", 3, 6, "expected a number but found '-'"},
    {"rank 1 of 3", "rank 3 of 3", 3, 6, "rank 3 is outside a world of 3"},
    {"rank 1 of 3", "rank 0 of 0", 3, 6, "rank 0 is outside a world of 0"},
    {"of 3", "of 2147483648", 3, 11, "expected a number up to 2147483647 but found '2147483648'"},
    {"flags synchronising", "flags holding synchronising", 4, 15,
     "expected the end of the line but found 'synchronising'"},
    {"flags synchronising", "flags synchronizing", 4, 7, "expected the end of the line but found 'synchronizing'"},
    {"solo", "lonely", 5, 12, "expected an activation policy but found 'lonely'"},
    {"seed 5", "seed 18446744073709551616", 5, 22,
     "expected a number up to 18446744073709551615 but found '18446744073709551616'"},
    {"buffers 4", "buffers 5", 6, 15, "'5' contradicts"},
    {"guards 0", "guards 2", 6, 24, "'2' contradicts"},
    {"deps 8", "deps 18446744073709551615", 6, 37, "'18446744073709551615' contradicts"},
    {"ops 9 deps 8", "deps 8", 6, 26, "expected 'ops' but found 'deps'"},
    {"buffer 1", "buffer 2", 8, 8, "expected '1' but found '2'"},
    {"input", "inout", 7, 10, "expected a role but found 'inout'"},
    {"host", "disk", 7, 16, "expected a memory space but found 'disk'"},
    {"host f32", "host f31", 7, 21, "expected a dtype but found 'f31'"},
    {"f32 4\nbuffer 3", "f32 281474976710656\nbuffer 3", 9, 27,
     "expected a number up to 281474976710655 but found '281474976710656'"},
    {"f32 4\nbuffer 3", "f32\nbuffer 3", 9, 26, "expected a number but found the end of the line"},
    {"u8 5", "u8 5 list 2", 10, 28, "expected the end of the line but found 'list'"},
    {"u8 5", "u8 5 lists 0 typical 0", 10, 8, "buffer 3: each list has room for 0 items: use a room of 1 or more"},
    {"u8 5", "u8 5 lists 281474976710656 typical 0", 10, 34,
     "expected a number up to 281474976710655 but found '281474976710656'"},
    {"u8 5", "u8 5 lists 2", 10, 35, "expected 'typical' but found the end of the line"},
    {"scratch host u8 5", "output host u8 5 lists 2 typical 2", 1, 1,
     "a partial schedule cannot have lists as inputs or outputs"},
    {"u8 5", "u8 5\nguard 2 every 1", 11, 7, "expected '1' but found '2'"},
    {"u8 5", "u8 5\nguard 1 every 2", 11, 1, "'guard' contradicts"},
    {"send f32 b1[2 +2] to 2 tag 8", "send f32 b1[2 +2] to 2 tag 8 guard 1", 19, 41, "there is no guard 1"},
    {"op 1", "op 01", 12, 4, "expected '1' but found '01'"},
    {"op 1", "op 2", 12, 4, "expected '1' but found '2'"},
    {"nop", "noop", 13, 6, "expected a kind of op but found 'noop'"},
    {"from 1", "to 1", 11, 18, "expected 'from' but found 'to'"},
    {"from 1", "from 2147483648", 11, 23, "expected a number up to 2147483647 but found '2147483648'"},
    {"to 2", "to 3", 14, 1, "op 3 (signal_send): peer 3 is not a rank of the world: use 0 to 2"},
    {"to 2", "to 1", 14, 1, "op 3 (signal_send): peer 1 is the rank itself"},
    {"tag 0", "tag 4294967296", 11, 29, "expected a number up to 4294967295 but found '4294967296'"},
    {"from 0 tag 1", "from 1 tag 0", 12, 1, "op 1 (signal_recv): tag 0 with peer 1 is already used by op 0"},
    {"nop need 1", "nop need 3", 13, 1, "op 2 (nop): needs 3 tokens but has 2 deps"},
    {"nop need 1", "nop need 0", 13, 15, "'0' contradicts"},
    {"nop need 1", "nop in_place need 1", 13, 10, "'in_place' contradicts"},
    {"then 3 4", "then 4 3", 13, 24, "op 3 does not come after op 4"},
    {"then 3 4", "then 3 3", 13, 24, "op 3 does not come after op 3"},
    {"then 3 4", "then 3 9", 13, 1, "op 9 has a dep on op 2, but only 9 ops exist"},
    {"then 3 4", "then 3 4 four", 13, 26, "expected a number but found 'four'"},
    {"then 3 4", "then", 13, 21, "expected a number but found the end of the line"},
    {"then 7", "then 6", 17, 76, "op 6 does not come after op 6"},
    {"then 7", "then 2", 17, 76, "op 2 does not come after op 6"},
    {"capture f32", "capture f64", 15, 14, "'f64' contradicts"},
    {"merge max", "merge copy", 15, 33, "expected 'adasum' or a reduction but found 'copy'"},
    {"merge max", "merge bxor", 15, 1, "op 4 (capture): the reduction bxor is not defined for f32"},
    {"b2[0 +4]", "b4[0 +4]", 16, 1, "op 5 (recv): region c is in buffer 4, which does not exist: this schedule has 4"},
    {"b2[0 +4]", "b65535[0 +4]", 16, 15, "expected a number up to 65534 but found 'b65535'"},
    {"b2[0 +4]", "c2[0 +4]", 16, 15, "expected a region but found 'c2'"},
    {"b2[0 +4]", "b[0 +4]", 16, 15, "expected a number but found 'b'"},
    {"b2[0 +4]", "b2[0 4]", 16, 20, "expected '+' but found '4'"},
    {"b2[0 +4]", "b2[0 +4", 16, 23, "expected ']' but found 'from'"},
    {"b2[0 +4]", "b2[1 +4]", 16, 1, "op 5 (recv): region c, 4 elements at b2[1], exceeds its buffer of 4",
     status::bounds},
    {"b2[0 +4]", "b2[281474976710656 +4]", 16, 18,
     "expected a number up to 281474976710655 but found '281474976710656'"},
    {"b2[0 +4]", "b2[0 +281474976710656]", 16, 21,
     "expected a number up to 281474976710655 but found '281474976710656'"},
    {"b2[0 +4]", "b2[0 +5]", 16, 1, "op 5 (recv): region c, 5 elements at b2[0], exceeds its buffer of 4",
     status::bounds},
    {"recv f32 b2", "recv f32 b0", 16, 1, "op 5 (recv): writes to input buffer 0"},
    {"in_place need 0", "need 0 in_place", 16, 44, "expected the end of the line but found 'in_place'"},
    {"in_place need 0", "in_place need 0 need 0", 16, 53, "expected the end of the line but found 'need'"},
    {"= sum", "= copy", 17, 43, "expected the end of the line but found 'b0'"},
    {"= sum", "= none", 17, 29, "expected a kernel but found 'none'"},
    {"= sum b2[0 +4] b0[0 +4]", "= divide b2[0 +4]", 17, 45, "expected 'divisor' but found 'releases_a'"},
    {"= sum b2[0 +4] b0[0 +4]", "= divide b2[0 +4] divisor 1", 17, 1,
     "op 6 (compute): the divisor is 1: use 2 or more"},
    {"= sum", "= bor", 17, 1, "op 6 (compute): the reduction bor is not defined for f32"},
    {"b0[0 +4] rel", "b0[0 +3] rel", 17, 48, "'3' contradicts"},
    {"b0[0 +4] rel", "b1[1 +4] rel", 17, 1, "op 6 (compute): region b, 4 elements at b1[1], exceeds its buffer of 4",
     status::bounds},
    {"releases_a 5", "releases_a 4", 17, 62, "'4' contradicts"},
    {"releases_a 5", "releases_b 5", 17, 51, "'releases_b' contradicts"},
    {"+2] = copy", "+5] = copy", 18, 1, "op 7 (compute): region a, 5 elements at b1[0], exceeds its buffer of 4",
     status::bounds},
    {"exit 8\n", "", 20, 1, "expected 'op' or 'exit' but found the end of the text"},
    {"exit 8", "exit", 20, 5, "expected a number but found the end of the line"},
    {"exit 8", "exit 9", 20, 6, "set_exit names op 9, which does not exist"},
    {"exit 8", "exit 8 8", 20, 8, "expected the end of the line but found '8'"},
    {"exit 8\n", "exit 8\nlibsched schedule 2\n", 21, 1,
     "expected the end of the text after one schedule but found 'libsched'"},
    {"exit 8\n", "exit 8\n \xff", 21, 2, "expected the end of the text after one schedule but found '?'"},
    {"exit 8\n", "op 9 nop\nexit 8\n", 6, 30, "'9' contradicts"},
};

TEST(schedule_file, names_line_column_and_reason_of_every_fault) {
  for (const fault& it : k_faults) {
    const auto made = parse_schedule(replaced(k_sampler, it.from, it.to));
    ASSERT_FALSE(made) << it.from << " -> " << it.to;
    const std::string wanted =
        "line " + std::to_string(it.line) + ", column " + std::to_string(it.column) + ": " + it.reason;
    EXPECT_TRUE(made.error().text.starts_with(wanted)) << wanted << "\n" << made.error().text;
    EXPECT_EQ(made.error().code, it.code) << made.error().text;
  }
}

TEST(schedule_file, shows_the_line_that_was_contradicted) {
  EXPECT_EQ(answer(parse_schedule(replaced(k_sampler, "nop need 1", "nop need 0"))),
            "LSCHED_ERR_ARGUMENT line 13, column 15: '0' contradicts the rest of the file, which requires this line: "
            "op 2 nop need 2 then 3 4");
}

TEST(schedule_file, passes_on_which_op_compile_refuses_and_blames_no_rank_that_does_not_exist) {
  const auto made = parse_schedule(replaced(k_sampler, "send to 2", "send to 3"));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().op, 3u);
  EXPECT_EQ(made.error().peer, k_no_rank);
}

TEST(schedule_file, is_refused_wherever_it_is_cut_off) {
  const std::size_t whole = k_sampler.size() - 1;  // k_sampler without its last newline
  for (std::size_t length = 0; length < whole; ++length)
    EXPECT_FALSE(parse_schedule(k_sampler.substr(0, length))) << length;
  EXPECT_TRUE(parse_schedule(k_sampler.substr(0, whole)));
}

TEST(schedule_file, no_line_is_superfluous_and_none_may_come_twice) {
  for (std::size_t begin = 0, end = 0; begin < k_sampler.size(); begin = end) {
    end = k_sampler.find('\n', begin) + 1;
    const std::string_view line = k_sampler.substr(begin, end - begin);
    const bool may_miss = line.starts_with("sizes");
    EXPECT_EQ(parse_schedule(replaced(k_sampler, line, "")).has_value(), may_miss) << line;
    EXPECT_FALSE(parse_schedule(replaced(k_sampler, line, std::string(line).append(line)))) << line;
  }
}

// --- worlds ------------------------------------------------------------------------------------------------

/// Returns the schedule of one rank in a world that does nothing.
std::string idle(rank self, rank size, const std::string& name = "idle") {
  return "libsched schedule 2\nname \"" + name + "\"\nrank " + std::to_string(self) + " of " + std::to_string(size) +
         "\nflags\nactivation none seed 0\nop 0 nop\nexit 0\n";
}

TEST(world_file, holds_the_ranks_in_any_order) {
  const auto programs = parse_world(idle(2, 3) + "# the others\n\n" + idle(0, 3) + idle(1, 3));
  ASSERT_TRUE(programs) << answer(programs);
  ASSERT_EQ(programs->size(), 3u);
  rank self = 0;
  for (const schedule_ptr& it : *programs) EXPECT_EQ(it->place(), (world{self++, 3}));
}

TEST(world_file, holds_every_rank_once_with_one_name_and_one_size) {
  const auto of = [](const std::string& text) { return answer(parse_world(text)); };
  const std::string code = "LSCHED_ERR_ARGUMENT ";
  EXPECT_EQ(of(""), code + "line 1, column 1: expected 'libsched' but found the end of the text");
  EXPECT_EQ(of(idle(0, 3) + idle(2, 3)), code + "line 15, column 1: rank 1 of 3 is missing");
  EXPECT_EQ(of(idle(1, 2)), code + "line 8, column 1: rank 0 of 2 is missing");
  EXPECT_EQ(of(idle(0, 2) + idle(1, 2) + idle(0, 2)), code + "line 15, column 1: rank 0 occurs twice");
  EXPECT_EQ(
      of(idle(0, 2) + idle(1, 3)),
      code + "line 8, column 1: this schedule is for a world of 3 ranks, but the first schedule is for a world of 2");
  EXPECT_EQ(of(idle(0, 2) + "#\n" + idle(1, 2, "other")),
            code +
                "line 9, column 1: this schedule and the first schedule have different names: a file contains the "
                "ranks of a single world");
  EXPECT_EQ(of(idle(0, 2) + "1" + idle(1, 2)), code + "line 8, column 1: expected 'libsched' but found '1libsched'");
}

TEST(world_file, its_parts_are_found_alone_and_together) {
  const auto of = [](const std::string& text, world place) {
    const auto made = parse_part(text, place);
    return made && (*made)->place() != place ? "somebody else's" : answer(made);
  };
  const std::string all = idle(1, 3) + idle(0, 3) + idle(2, 3);
  for (rank self = 0; self < 3; ++self) {
    EXPECT_EQ(of(all, {self, 3}), "accepted");
    EXPECT_EQ(of(idle(self, 3), {self, 3}), "accepted");
  }
  EXPECT_EQ(of(idle(0, 1), {0, 1}), "accepted");
  const std::string theirs = "LSCHED_ERR_MISMATCH line 1, column 1: the schedule is for rank 1 of 3, but this is ";
  EXPECT_EQ(of(idle(1, 3), {0, 3}), theirs + "rank 0 of 3");
  EXPECT_EQ(of(all, {3, 4}), theirs + "rank 3 of 4");
  EXPECT_EQ(of(all, {0, 2}), theirs + "rank 0 of 2");
  EXPECT_EQ(of(idle(0, 3) + idle(1, 3), {0, 3}), "LSCHED_ERR_ARGUMENT line 15, column 1: rank 2 of 3 is missing");
}

// --- memory ------------------------------------------------------------------------------------------------

/// Returns the number of bytes that parse_world() allocates for each byte of text. docs/reference/schedule_file.md
/// states the limit.
std::uint64_t greed(std::string_view text) {
  const testing::counting_allocations counting;
  (void)parse_world(text);
  return counting.bytes() / text.size();
}

constexpr std::string_view k_head = "libsched schedule 2\nname \"\"\nrank 0 of 1\nflags\nactivation none seed 0\n";

/// Returns a text of short ops with many deps. Among texts of equal length, such a text needs the most memory.
std::string dense(std::size_t ops) {
  std::string text(k_head);
  for (std::size_t id = 0; id < ops; ++id) {
    text += "op " + std::to_string(id) + " nop" + (id + 1 < ops ? " then" : "");
    for (std::size_t next = id + 1; next < ops && next < id + 40; ++next) text += " " + std::to_string(next);
    text += "\n";
  }
  return text + "exit 0\n";
}

TEST(schedule_file, takes_memory_by_the_length_of_its_text_only) {
  std::string nops(k_head), worlds;
  for (int id = 0; id < 10000; ++id) nops += "op " + std::to_string(id) + " nop\n";
  for (rank self = 0; self < 500; ++self) worlds += idle(self, 500);
  for (const std::string& text : {nops + "exit 0\n", nops, dense(1000), worlds, to_text(*parsed(k_sampler))})
    EXPECT_LT(greed(text), 50u) << text.substr(0, 200);
}

TEST(schedule_file, reserves_nothing_for_what_it_only_declares) {
  const std::string liar = replaced(k_sampler, "buffers 4 guards 0 ops 9 deps 8",
                                    "buffers 65535 guards 4294967295 ops 4294967295 deps 4294967295");
  EXPECT_LT(greed(liar), 100u);
  EXPECT_LT(greed(idle(2147483646, 2147483647)), 100u);
  EXPECT_LT(greed(std::string("libsched schedule 2\nname \"") + std::string(100000, 'x')), 10u);
  EXPECT_LT(greed(std::string(100000, '\n')), 10u);
}

}  // namespace
}  // namespace lsched
