// Tests that damage thousands of real schedule files at random, with a fixed seed. For each damaged file:
//   * the parser does not crash (`make sanitize` runs this test with the address sanitizer);
//   * if the file is refused, the error names a line and a column that exist;
//   * if the file is accepted, the accepted schedule is printed and read again. The result must be the same schedule,
//     and the printed text must contain all words of the file in the same order. A separate splitter, which shares no
//     code with the parser, extracts the words.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "collectives/registry.h"
#include "collectives/requests/sample_requests.h"
#include "libsched/schedule/schedule_file.h"
#include "tests/support/sampling.h"

namespace lsched {
namespace {

using words = std::vector<std::string>;

/// Returns the words of a text. All quotes must be closed. Brackets, plus signs and equals signs are separate words.
words words_of(std::string_view text) {
  words all{""};
  bool is_quoted = false, is_comment = false;
  for (const char letter : text) {
    is_comment = letter != '\n' && (is_comment || (letter == '#' && !is_quoted));
    if (is_comment) continue;
    if (letter == '"' && !is_quoted && !all.back().empty()) all.emplace_back();
    if (letter == '"') is_quoted = !is_quoted;
    const bool is_blank = !is_quoted && std::string_view(" \t\r\n").find(letter) != std::string_view::npos;
    const bool is_alone = !is_quoted && std::string_view("[]+=").find(letter) != std::string_view::npos;
    if ((is_blank || is_alone) && !all.back().empty()) all.emplace_back();
    if (!is_blank) all.back() += letter;
    if (is_alone) all.emplace_back();
  }
  if (all.back().empty()) all.pop_back();
  return all;
}

bool stand_in(const words& some, const words& all) {
  auto next = some.begin();
  for (const std::string& word : all)
    if (next != some.end() && *next == word) ++next;
  return next == some.end();
}

/// Returns whether `why` begins with "line L, column C: ". This must be a position in `text`, or the end of `text`.
bool is_located(std::string_view text, const std::string& why) {
  std::size_t line = 0, column = 0;
  if (std::sscanf(why.c_str(), "line %zu, column %zu: ", &line, &column) != 2 || line == 0 || column == 0) return false;
  for (; line > 1; --line) {
    const std::size_t end = text.find('\n');
    if (end == text.npos) return false;
    text.remove_prefix(end + 1);
  }
  return column <= std::min(text.find('\n'), text.size()) + 1;
}

using programs = std::vector<schedule_ptr>;

/// Reads one schedule, or a world of schedules.
result<programs> read(std::string_view text) {
  auto one = parse_schedule(text);
  return one ? programs{*one} : parse_world(text);
}

/// Parses a text, and checks the result. Returns the fault of the parser, or an empty string. Increments `accepted` if
/// the parser accepts the text.
std::string fault(const std::string& text, int& accepted) {
  const auto made = read(text);
  if (!made) return is_located(text, made.error().text) ? "" : "no such place: " + made.error().text;
  ++accepted;
  std::string printed;
  for (const schedule_ptr& it : *made) printed += to_text(*it);
  const auto again = read(printed);
  if (!again) return "its print is refused: " + again.error().text;
  for (std::size_t i = 0; i < made->size(); ++i)
    if (*(*made)[i] != *(*again)[i]) return "its print is another schedule";
  const bool is_reordered = made->size() > 1;  // a file may list ranks in any order, but they are printed in order
  const words said = words_of(text);
  if (said[2] == "2") printed = to_text(*made->front(), 2);
  return is_reordered || stand_in(said, words_of(printed)) ? "" : "the file has words that its print lacks";
}

// --- damage ------------------------------------------------------------------------------------------------

/// Damages files: drops or repeats words, lines or bytes, or replaces them by those of another file.
class vandal {
 public:
  explicit vandal(std::uint64_t seed) : random_(seed) {}

  std::string damaged(std::string text, const std::string& other) {
    for (std::uint64_t times = 1 + below(2); times > 0; --times) damage(text, other);
    return text;
  }
  std::uint64_t below(std::uint64_t end) { return random_() % std::max<std::uint64_t>(end, 1); }

 private:
  struct range {
    std::size_t begin, size;
  };
  range anything(const std::string& text) {
    const std::size_t begin = below(text.size() + 1);
    return {begin, std::min(below(40), text.size() - begin)};
  }
  range line(const std::string& text) {
    const std::size_t inside = below(text.size()), end = std::min(text.find('\n', inside), text.size());
    const std::size_t begin = inside == 0 ? 0 : text.rfind('\n', inside - 1) + 1;
    return {begin, std::min(end + 1, text.size()) - begin};
  }
  range word(const std::string& text) {
    constexpr std::string_view ends = " []+=\n";
    const std::size_t inside = below(text.size()), end = std::min(text.find_first_of(ends, inside), text.size());
    const std::size_t begin = inside == 0 ? 0 : text.find_last_of(ends, inside - 1) + 1;
    return {begin, end - begin};
  }
  range number(const std::string& text) {
    const std::size_t begin = std::min(text.find_first_of("0123456789", below(text.size())), text.size());
    return {begin, std::min(text.find_first_not_of("0123456789", begin), text.size()) - begin};
  }
  range place(const std::string& text) {
    switch (below(4)) {
      case 0: return word(text);
      case 1: return number(text);
      case 2: return line(text);
      default: return anything(text);
    }
  }
  static std::string part(const std::string& text, range it) { return text.substr(it.begin, it.size); }

  void damage(std::string& text, const std::string& other) {
    static const std::vector<std::string> shrapnel{"0",
                                                   "1",
                                                   "2",
                                                   "65535",
                                                   "4294967295",
                                                   "4294967296",
                                                   "18446744073709551615",
                                                   "281474976710655",
                                                   "#",
                                                   "\"",
                                                   "\n",
                                                   "\r\n",
                                                   " ",
                                                   "\t",
                                                   "late 0",
                                                   "then 1",
                                                   "need",
                                                   "none",
                                                   "in_place",
                                                   "\\x00",
                                                   "late 0 slot 0 bound 1\n",
                                                   "buffer 0 scratch device f64 0\n"};
    const range here = place(text), there = place(other), digits = number(text);
    switch (below(9)) {
      case 0: text.erase(here.begin, here.size); break;
      case 1: text.insert(here.begin, part(text, here)); break;
      case 2: text.insert(here.begin, part(other, there)); break;
      case 3: text.replace(here.begin, here.size, part(other, there)); break;
      case 4: text.insert(below(text.size() + 1), 1, static_cast<char>(below(256))); break;
      case 5: text.replace(here.begin, here.size, shrapnel[below(shrapnel.size())]); break;
      case 6: text.insert(word(text).begin, " \t"); break;
      case 7: text.replace(digits.begin, digits.size, std::to_string(below(4))); break;
      default: text.insert(here.begin, shrapnel[below(shrapnel.size())]); break;
    }
  }

  std::mt19937_64 random_;
};

/// Returns the text without the line "sizes". With this line, the parser refuses many damaged files before it makes
/// another check.
std::string without_sizes(std::string text) {
  const std::size_t begin = text.find("sizes");
  return text.erase(begin, text.find('\n', begin) + 1 - begin);
}

/// Returns the texts of schedules from all generators, in small worlds: texts of single ranks, with and without sizes,
/// and texts of whole worlds.
std::vector<std::string> real_files() {
  std::vector<std::string> files;
  for (const algorithm& it : algorithms())
    for (const rank size : {1, 2, 3, 5}) {
      const shape data = typical_shape(*it.of, size, 3, it.of->adapts ? dtype::f32 : dtype::i32, kernel::max);
      const activation starts{it.of->activates ? activation_policy::solo : activation_policy::none, 0};
      std::string all;
      for (rank self = 0; self < size; ++self) {
        all += files.emplace_back(to_text(**it.generate({self, size}, data, starts)));
        files.push_back(without_sizes(files.back()));
      }
      if (size == 2 || size == 3) files.push_back(all);
    }
  return files;
}

void damage_files(int times, std::uint64_t seed) {
  const std::vector<std::string> files = real_files();
  vandal random(seed);
  int accepted = 0;
  for (int i = 0; i < times; ++i) {
    const std::string text = random.damaged(files[random.below(files.size())], files[random.below(files.size())]);
    const std::string wrong = fault(text, accepted);
    ASSERT_EQ(wrong, "") << "seed " << seed << ", file " << i << ":\n" << text;
  }
  EXPECT_GT(accepted, times / 20) << "too many files are refused";
  EXPECT_LT(accepted, times / 2) << "too few files are damaged";
}

TEST(schedule_file, survives_damage) { damage_files(testing::sampled() ? 3000 : 100000, 1); }

TEST(schedule_file, soak_survives_much_damage) {
  for (std::uint64_t seed = 2; seed < 102; ++seed) damage_files(100000, seed);
}

// --- tests of the checks -----------------------------------------------------------------------------------

TEST(schedule_file_fuzz, sees_a_place_outside_the_text) {
  for (const std::string_view why : {"line 1, column 1: x", "line 2, column 4: x", "line 3, column 1: x"})
    EXPECT_TRUE(is_located("a\nbcd\n", std::string(why))) << why;
  for (const std::string_view why : {"", "line 0, column 1: x", "line 1, column 0: x", "line 1, column 3: x",
                                     "line 2, column 5: x", "line 3, column 2: x", "line 4, column 1: x"})
    EXPECT_FALSE(is_located("a\nbcd\n", std::string(why))) << why;
}

TEST(schedule_file_fuzz, sees_words_that_the_print_does_not_have) {
  EXPECT_EQ(words_of("op 0 # no\n\n b1[0 +2]=\"a # b\"#"),
            (words{"op", "0", "b1", "[", "0", "+", "2", "]", "=", "\"a # b\""}));
  EXPECT_TRUE(stand_in({"op", "then"}, {"op", "need", "then"}));
  EXPECT_TRUE(stand_in({}, {}));
  EXPECT_FALSE(stand_in({"op", "need", "op"}, {"op", "need"}));
  EXPECT_FALSE(stand_in({"then", "need"}, {"need", "then"}));
}

}  // namespace
}  // namespace lsched
