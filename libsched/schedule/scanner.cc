#include "libsched/schedule/scanner.h"

#include <algorithm>
#include <utility>

namespace lsched {
namespace {

bool is_letter(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

}  // namespace

void scanner::advance() {
  const bool is_between_lines = next_.what == token::end_of_line || next_.what == token::end;
  skip_blanks();
  for (; is_between_lines && starts_with("\n"); skip_blanks()) ++at_;
  const std::size_t begin = at_;
  const token::kind what = take();
  next_ = {what, begin, text_.substr(begin, at_ - begin)};
}

void scanner::skip_blanks() {
  while (starts_with(" \t\r")) ++at_;
  if (starts_with("#")) at_ = std::min(text_.find('\n', at_), text_.size());
}

/// A quotation mark without a closing mark on the same line becomes a symbol, which the grammar does not accept.
token::kind scanner::take() {
  if (at_ == text_.size()) return token::end;
  const char first = text_[at_++];
  if (first == '\n') return token::end_of_line;
  if (is_letter(first)) {
    while (at_ < text_.size() && is_letter(text_[at_])) ++at_;
    return token::word;
  }
  const std::size_t close = first == '"' ? text_.find_first_of("\"\n", at_) : text_.npos;
  if (close == text_.npos || text_[close] == '\n') return token::symbol;
  at_ = close + 1;
  return token::quoted;
}

std::string shown(std::string_view text) {
  constexpr std::size_t k_most = 100;
  std::string out;
  for (const char letter : text.substr(0, k_most)) out += letter >= 0x20 && letter < 0x7f ? letter : '?';
  return text.size() > k_most ? out + "..." : out;
}

std::string shown(const token& t) {
  if (t.what == token::end) return "the end of the text";
  if (t.what == token::end_of_line) return "the end of the line";
  return "'" + shown(t.text) + "'";
}

failure located(std::string_view text, std::size_t at, failure why) {
  const std::string_view before = text.substr(0, at);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const std::size_t column = at - (before.rfind('\n') + 1) + 1;  // correct in the first line, too: npos + 1 is 0
  why.text = "line " + std::to_string(line) + ", column " + std::to_string(column) + ": " + why.text;
  return why;
}

failure located(std::string_view text, std::size_t at, const std::string& why) {
  return located(text, at, failure{status::argument, why});
}

}  // namespace lsched
