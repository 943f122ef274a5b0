// A line on standard error that shows the progress of long work.
//
// On a terminal the line overwrites itself, at most five times a second, and is erased before other output is written.
// If the stream is not a terminal, nothing is printed by default. On request, one line per second is printed. Work of
// less than a second prints nothing.
#pragma once

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>

namespace lsched {

/// The progress line of one stream. Any thread may call show(). Code that writes other output must hold the lock that
/// erase() returns.
class progress_line {
 public:
  enum class elsewhere : std::uint8_t { nothing, lines };

  /// `how` selects the output if `to` is not a terminal.
  explicit progress_line(elsewhere how = elsewhere::nothing, std::FILE* to = stderr)
      : to_(to), on_terminal_(isatty(fileno(to)) != 0), is_quiet_(!on_terminal_ && how == elsewhere::nothing) {}
  progress_line(const progress_line&) = delete;
  progress_line& operator=(const progress_line&) = delete;
  ~progress_line() { static_cast<void>(erase()); }

  /// If the next line is due, calls text() and prints the result. Otherwise does nothing.
  template <class Text>
  void show(const Text& text) {
    if (is_quiet_) return;
    const std::lock_guard held(lock_);
    const auto now = clock::now();
    if (now < next_) return;
    next_ = now + (on_terminal_ ? std::chrono::milliseconds(200) : std::chrono::milliseconds(1000));
    std::string line = text();
    if (on_terminal_) line.resize(std::min(line.size(), columns()));
    std::fflush(stdout);
    std::fprintf(to_, on_terminal_ ? "\r\033[K%s" : "%s\n", line.c_str());
    std::fflush(to_);
    is_shown_ = on_terminal_;
  }

  /// Erases the line. No line is printed while the caller holds the returned lock, so hold the lock while other output
  /// is written.
  [[nodiscard]] std::unique_lock<std::mutex> erase() {
    std::unique_lock held(lock_);
    if (is_shown_) std::fprintf(to_, "\r\033[K");
    if (is_shown_) std::fflush(to_);
    is_shown_ = false;
    return held;
  }

 private:
  using clock = std::chrono::steady_clock;

  /// Returns the maximum number of characters of a line. A line that wraps could not be erased.
  std::size_t columns() const {
    winsize window{};
    const bool is_known = ioctl(fileno(to_), TIOCGWINSZ, &window) == 0 && window.ws_col > 1;
    return is_known ? window.ws_col - std::size_t{1} : 79;
  }

  std::FILE* const to_;
  const bool on_terminal_, is_quiet_;
  std::mutex lock_;
  clock::time_point next_ = clock::now() + std::chrono::seconds(1);
  bool is_shown_ = false;
};

}  // namespace lsched
