// The line on standard error that says how far long work has come.
//
// On a terminal the line overwrites itself, five times a second at most, and is erased before anything else is written.
// Elsewhere there is none, unless lines are asked for: then one a second. Work of less than a second shows nothing.
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

class progress_line {
 public:
  enum class elsewhere : std::uint8_t { nothing, lines };

  /// `how`: what is shown where `to` is no terminal.
  explicit progress_line(elsewhere how = elsewhere::nothing, std::FILE* to = stderr)
      : to_(to), on_terminal_(isatty(fileno(to)) != 0), is_quiet_(!on_terminal_ && how == elsewhere::nothing) {}
  progress_line(const progress_line&) = delete;
  progress_line& operator=(const progress_line&) = delete;
  ~progress_line() { static_cast<void>(erase()); }

  /// Shows what text() answers, if it is time for another line; asks for no text otherwise. From any thread.
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

  /// Erases the line; none is shown until the lock goes. Held by whoever writes something else.
  [[nodiscard]] std::unique_lock<std::mutex> erase() {
    std::unique_lock held(lock_);
    if (is_shown_) std::fprintf(to_, "\r\033[K");
    if (is_shown_) std::fflush(to_);
    is_shown_ = false;
    return held;
  }

 private:
  using clock = std::chrono::steady_clock;

  /// How many characters a line may have. One that goes over the edge could not be erased.
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
