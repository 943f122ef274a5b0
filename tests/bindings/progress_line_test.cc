// Tests of the progress line: its output to a terminal and to a file.
#include "bindings/progress_line.h"
#include "tests/support/wait_until.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <pty.h>

#include <array>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;
using lsched::progress_line;
using clock = std::chrono::steady_clock;

/// A terminal or a pipe. The progress line writes to one end, and the test reads the other end.
class sink {
 public:
  explicit sink(bool is_terminal) {
    std::array<int, 2> ends{-1, -1};
    const int error = is_terminal ? openpty(&ends[0], &ends[1], nullptr, nullptr, nullptr) : pipe(ends.data());
    if (error != 0) throw std::runtime_error("no terminal");
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    reader_ = ends[0];
    stream_ = fdopen(ends[1], "w");
  }
  sink(const sink&) = delete;
  sink& operator=(const sink&) = delete;
  ~sink() {
    std::fclose(stream_);
    close(reader_);
  }
  std::FILE* stream() const { return stream_; }
  std::string text() {
    std::fflush(stream_);
    std::array<char, 4096> piece{};
    for (ssize_t got = 0; (got = read(reader_, piece.data(), piece.size())) > 0;)
      text_.append(piece.data(), static_cast<std::size_t>(got));
    return text_;
  }

 private:
  int reader_ = -1;
  std::FILE* stream_ = nullptr;
  std::string text_;
};

std::size_t count_of(const std::string& text, std::string_view part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

/// Calls show() repeatedly for the given time. Returns the number of times that the progress line has requested a new
/// text.
int show_for(progress_line& line, clock::duration time) {
  int asked = 0;
  for (const auto end = clock::now() + time; clock::now() < end; std::this_thread::yield())
    line.show([&] { return "line " + std::to_string(++asked); });
  return asked;
}

TEST(ProgressLine, is_rewritten_five_times_a_second_at_most) {
  sink terminal(true);
  progress_line line(progress_line::elsewhere::nothing, terminal.stream());
  const auto begin = clock::now();
  const int asked = show_for(line, 1900ms);
  const auto tenths = (clock::now() - begin) / 100ms;
  EXPECT_GE(asked, 2);
  EXPECT_LE(asked, 1 + (tenths - 10) / 2);
  EXPECT_EQ(count_of(terminal.text(), "\r\033[Kline "), static_cast<std::size_t>(asked));
  EXPECT_EQ(count_of(terminal.text(), "\n"), 0u);
}

TEST(ProgressLine, is_gone_before_anything_else_is_written_and_at_the_end) {
  sink terminal(true);
  {
    progress_line line(progress_line::elsewhere::nothing, terminal.stream());
    ASSERT_GE(show_for(line, 1100ms), 1);
    {
      const auto held = line.erase();
      std::fprintf(terminal.stream(), "result\n");
    }
    EXPECT_NE(terminal.text().find("\r\033[Kresult\r\n"), std::string::npos) << terminal.text();
    ASSERT_GE(show_for(line, 300ms), 1);
  }
  EXPECT_TRUE(terminal.text().ends_with("\r\033[K")) << terminal.text();
}

TEST(ProgressLine, fits_into_a_row_of_the_terminal) {
  sink terminal(true);
  progress_line line(progress_line::elsewhere::nothing, terminal.stream());
  EXPECT_TRUE(lsched::testing::wait_until([&] {
    line.show([] { return std::string(300, 'x'); });
    return !terminal.text().empty();
  }));
  EXPECT_EQ(count_of(terminal.text(), "x"), 79u);
}

TEST(ProgressLine, is_silent_where_there_is_no_terminal_unless_lines_are_wanted) {
  sink file(false), lines(false);
  progress_line silent(progress_line::elsewhere::nothing, file.stream());
  progress_line wanted(progress_line::elsewhere::lines, lines.stream());
  EXPECT_EQ(show_for(silent, 1100ms), 0);
  EXPECT_EQ(file.text(), "");
  EXPECT_EQ(show_for(wanted, 100ms), 1);
  EXPECT_EQ(lines.text(), "line 1\n");
}

TEST(ProgressLine, says_nothing_of_short_work) {
  sink terminal(true);
  {
    progress_line line(progress_line::elsewhere::nothing, terminal.stream());
    EXPECT_EQ(show_for(line, 100ms), 0);
  }
  EXPECT_EQ(terminal.text(), "");
}

}  // namespace
