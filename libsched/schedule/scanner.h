// Scans the text form of a schedule, and locates errors in the text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "libsched/schedule/schedule.h"
#include "ops/status.h"

namespace lsched {

/// A token of the text. `word`: consecutive letters and digits. `quoted`: a quoted text, including the quotes.
/// `symbol`: any other single byte. `end_of_line`: the end of a line that is not blank. `end`: the end of the text.
struct token {
  enum kind { word, quoted, symbol, end_of_line, end } what = end;
  std::size_t at = 0;
  std::string_view text{};
  friend bool operator==(const token& x, const token& y) { return x.what == y.what && x.text == y.text; }
};

class scanner {
 public:
  scanner(std::string_view text, std::size_t at) : text_(text), at_(at) { advance(); }

  const token& next() const { return next_; }
  void advance();

 private:
  bool starts_with(std::string_view any_of) const {
    return at_ < text_.size() && any_of.find(text_[at_]) != any_of.npos;
  }
  void skip_blanks();
  token::kind take();

  std::string_view text_;
  std::size_t at_;
  token next_{};
};

/// A schedule that was read from a text, with its position in the text.
struct schedule_part {
  schedule_ptr program;
  std::size_t begin = 0;
  token next{};  ///< first token after the schedule
};

/// Reads the schedule that begins at `at`. Failures: those of parse_schedule (schedule_file.h).
result<schedule_part> read_schedule(std::string_view text, std::size_t at);

/// Returns a quotation from a file, for an error text. The result is printable ASCII, and truncated if long.
std::string shown(std::string_view text);
std::string shown(const token& t);

/// Returns the failure `why`, with the line and column of byte `at` put in front of the error text.
failure located(std::string_view text, std::size_t at, failure why);
failure located(std::string_view text, std::size_t at, const std::string& why);

}  // namespace lsched
