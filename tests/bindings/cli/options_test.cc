// Tests of the command line of `lsched`: help texts, suggestions, names of options, and messages about environment
// variables.
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "build_options.h"
#include "ops/nearest_word.h"
#include "tests/bindings/cli/command_line.h"

namespace lsched::testing {
namespace {

/// Returns the first line of the text that is too wide for a terminal, or an empty text.
std::string too_wide(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::size_t columns = 0;
    for (const char letter : line) columns += (letter & 0xc0) != 0x80;
    if (columns > 100) return line;
  }
  return "";
}

TEST(options, suggestions_count_what_has_to_change) {
  EXPECT_EQ(edit_distance("ring", "ring"), 0u);
  EXPECT_EQ(edit_distance("rng", "ring"), 1u);
  EXPECT_EQ(edit_distance("rnig", "ring"), 1u);  // two adjacent letters are swapped
  EXPECT_EQ(edit_distance("", "ring"), 4u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  const std::vector<std::string> known{"list", "info", "show"};
  EXPECT_EQ(nearest_word("lits", known), "list");
  EXPECT_EQ(nearest_word("bench", known), "");
}

TEST(options, mistyped_words_are_answered_with_the_nearest) {
  for (const auto& [words, wanted] : std::vector<std::pair<std::string, std::string>>{
           {"lsched lits", "did you mean list?"},
           {"lsched list --rnaks 3", "did you mean --ranks?"},
           {"lsched list --count=3 --dtpye=f32", "did you mean --dtype?"},
           {"lsched list --dtype f23", "did you mean f32?"},
           {"lsched verify allreduce --algorithm rnig", "did you mean ring?"},
           {"lsched verify alreduce", "did you mean allreduce?"},
           {"lsched show allreduce --algorithm rnig", "did you mean ring?"}}) {
    const outcome it = shell(words);
    EXPECT_EQ(it.status, 2) << words;
    EXPECT_TRUE(contains(it.out, wanted)) << words << ": " << it.out;
  }
  EXPECT_FALSE(contains(shell("lsched list --xyzzy").out, "did you mean"));
}

TEST(options, a_world_warns_of_misspelt_variables_once) {
  const std::string soak = "lsched run -n 3 lsched soak --iterations 5 --json /dev/null";
  const outcome it = shell("LSCHED_PROGRES=caller LSCHED_XYZZY=1 " + soak);
  EXPECT_EQ(it.status, 0);
  EXPECT_EQ(it.out,
            "libsched [rank 0] warning: LSCHED_PROGRES is not a variable of libsched; did you mean LSCHED_PROGRESS?\n"
            "libsched [rank 0] warning: LSCHED_XYZZY is not a variable of libsched\n");
  EXPECT_EQ(shell("LSCHED_LOG=error LSCHED_PROGRES=caller " + soak).out, "");
  EXPECT_TRUE(contains(shell("LSCHED_LOG=info " + soak).out, "libsched [rank 2] info: libsched "));
  const outcome wrong = shell("LSCHED_LOG=loud lsched soak --ranks 1 --iterations 5");
  EXPECT_EQ(wrong.status, 1);
  EXPECT_TRUE(contains(wrong.out, "LSCHED_LOG is \"loud\", not error, warning or info")) << wrong.out;
}

TEST(options, algorithm_files_that_cannot_be_read_are_told_of_where_a_command_runs) {
  const std::string set = "LSCHED_ALGORITHM_FILES=/nowhere ";
  for (const char* words : {"lsched --help", "lsched help", "lsched --version", "lsched completion bash"})
    EXPECT_FALSE(contains(shell(set + words).out, "/nowhere")) << words;
  const std::string both = "LSCHED_ALGORITHM_FILES=/nowhere:/dev:" LSCHED_TEST_SOURCE_DIR "/docs/examples/my_ring.alg ";
  const std::string text = shell(both + "lsched list allreduce").out;
  EXPECT_TRUE(contains(text, "lsched: LSCHED_ALGORITHM_FILES: /nowhere: no such file"));
  EXPECT_TRUE(contains(text, "lsched: LSCHED_ALGORITHM_FILES: /dev: is a directory\n")) << text;
  EXPECT_TRUE(contains(text, "my_ring")) << text;
}

/// Returns the help texts of all commands.
std::string all_help() {
  std::string text = shell(
                         "for command in '' info list show run postmortem simulate trace help completion soak verify"
                         " bench; do lsched $command --help; done")
                         .out;
  if (LSCHED_HAVE_BENCH)
    text += shell(
                "for part in fig9 partial cost coll adasum sparse tune compare overlap engine cuda; do"
                " lsched bench $part --help; done")
                .out;
  return text;
}

/// Runs each example of the help texts for 0.5 s in a scratch folder. This time is enough, because the command rejects
/// a wrong command line at once.
TEST(options, examples_of_help_make_sense) {
  const std::string folder = ::testing::TempDir() + "lsched-examples-" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  std::filesystem::create_directory_symlink(LSCHED_TEST_SOURCE_DIR "/docs", folder + "/docs");
  const std::string example = "Example:  ", more(example.size(), ' ');
  std::istringstream lines(all_help());
  int found = 0;
  bool is_example = false;
  for (std::string line; std::getline(lines, line);) {
    is_example = line.starts_with(example) || (is_example && line.starts_with(more));
    if (!is_example) continue;
    std::string words = line.substr(example.size());
    if (words.find("$(") != words.npos) continue;                            // needs a running process
    if (words.starts_with("mpiexec")) words.erase(0, words.find("lsched"));  // the command starts its own ranks
    std::ofstream(folder + "/script") << words << "\n";
    const outcome it = shell("cd " + folder + " && HOME=. timeout 0.5 sh script");
    EXPECT_FALSE(contains(it.out, "Try `lsched ")) << words << ": " << it.out;
    ++found;
  }
  EXPECT_GT(found, 20);
  std::filesystem::remove_all(folder);
}

TEST(options, no_line_of_help_is_too_wide) {
  const std::string text = all_help();
  EXPECT_GT(text.size(), 10'000u);
  EXPECT_EQ(too_wide(text), "");
  EXPECT_EQ(too_wide(std::string(101, 'x')), std::string(101, 'x'));
}

TEST(options, no_line_of_ordinary_output_is_too_wide) {
  for (const char* words : {"lsched list", "lsched list --explain --ranks 8", "lsched info",
                            "lsched simulate --critical-path", "lsched verify allreduce --ranks 2-3 --count 1"}) {
    const outcome it = shell(words);
    EXPECT_EQ(it.status, 0) << words;
    EXPECT_EQ(too_wide(it.out), "") << words;
  }
  if (LSCHED_HAVE_BENCH) {
    for (const char* words : {"coll --algorithm all --bytes 4,64K", "overlap --bytes 64", "adasum --bytes 4,1M",
                              "cost --bytes 8,64K --seconds 0.02"})
      EXPECT_EQ(too_wide(shell("lsched bench " + std::string(words) + " --cell-seconds 0.001").out), "") << words;
    for (const char* words : {"sparse --ranks 2 --count 100", "sparse --figure balance --ranks 2 --count 2000",
                              "fig9 --ranks 2 --iterations 5 --bytes 64K", "engine --only limits"})
      EXPECT_EQ(too_wide(shell("lsched bench " + std::string(words)).out), "") << words;
  }
}

TEST(options, man_pages_cover_every_command) {
  const std::string folder = ::testing::TempDir() + "lsched-man-" + std::to_string(getpid());
  ASSERT_EQ(shell("lsched help --man " + folder).status, 0);
  for (const char* page : {"lsched", "lsched-run", "lsched-verify", "lsched-completion"}) {
    std::ifstream file(folder + "/" + page + ".1");
    std::stringstream text;
    text << file.rdbuf();
    EXPECT_TRUE(text.str().starts_with(".TH " + std::string(page) + " 1 ")) << page;
    EXPECT_TRUE(contains(text.str(), ".SH NAME\n")) << page;
    const bool places_pages = contains(text.str(), ".SH FILES\nPages (docs/...) are in ../");
    EXPECT_EQ(places_pages, contains(text.str(), "docs/")) << page;
  }
  EXPECT_EQ(shell("LC_ALL=C grep -l '[^ -~]' " + folder + "/*").out, "");
  std::filesystem::remove_all(folder);
  EXPECT_EQ(shell("lsched help --man /proc/nowhere").status, 1);
  EXPECT_EQ(shell("lsched help show").out, shell("lsched show --help").out);
}

TEST(options, json_goes_into_the_file_that_is_named) {
  const std::string file = ::testing::TempDir() + "lsched-json-" + std::to_string(getpid());
  for (const char* words : {"info", "list", "show barrier", "simulate", "verify barrier --ranks 2"}) {
    const std::string command = "lsched " + std::string(words) + " --json ";
    EXPECT_EQ(shell(command + file).out, "") << words;
    std::ifstream written(file);
    const int first = written.get();
    EXPECT_TRUE(first == '{' || first == '[') << words;
    EXPECT_EQ(shell(command + "-").out.front(), static_cast<char>(first)) << words;
    const outcome nowhere = shell(command + "/nowhere/at/all");
    EXPECT_EQ(nowhere.status, 1) << words;
    EXPECT_TRUE(contains(nowhere.out, "/nowhere/at/all: cannot be written")) << nowhere.out;
  }
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace lsched::testing
