// The text form of GOAL: writer and parser.
//
//     file    = { blank } "num_ranks" N block { block }          blocks: ranks 0 … N-1, in order
//     block   = "rank" N "{" { blank | op NL | dep NL } "}"
//     op      = [ label ":" ] ( "send" N "b" "to" N { option } | "recv" N "b" "from" any { option }
//                             | "calc" N [ "cpu" N ] )
//     option  = "tag" any, "cpu" N, "nic" N                      each at most once, in this order
//     dep     = label ( "requires" | "irequires" ) label         both defined above it, in the same block
//     any     = N | "-1"
//     blank   = NL | "//" … NL | "/*" … "*/"                     never behind an op or a dep
#include <algorithm>
#include <charconv>
#include <limits>
#include <unordered_map>

#include "bindings/cli/goal/goal.h"
#include "ops/counted.h"

namespace lsched {

void sort_edges(goal_rank& of) {
  std::stable_sort(of.edges.begin(), of.edges.end(), [](const goal_edge& x, const goal_edge& y) {
    return x.before != y.before ? x.before < y.before : x.on_start < y.on_start;
  });
}

// --- writer --------------------------------------------------------------------------------------------------

namespace {

std::string number_or_any(std::uint32_t number) { return number == k_goal_any ? "-1" : std::to_string(number); }

std::string label_of(std::uint32_t op) { return "l" + std::to_string(op + 1); }

void append_description(std::string& out, std::string_view description) {
  if (description.empty()) return;
  out += "// ";
  for (const char letter : description) {
    if (letter == '\n')
      out += "\n// ";
    else
      out += letter >= ' ' && letter <= '~' ? letter : '?';
  }
  out += '\n';
}

void append_op(std::string& out, const goal_op& one) {
  const std::string size = std::to_string(one.size);
  if (one.kind == goal_kind::calc)
    out += "calc " + size;
  else
    out += (one.kind == goal_kind::send ? "send " : "recv ") + size +
           (one.kind == goal_kind::send ? "b to " : "b from ") + number_or_any(one.peer) + " tag " +
           number_or_any(one.tag);
  if (one.cpu != 0) out += " cpu " + std::to_string(one.cpu);
  if (one.nic != 0) out += " nic " + std::to_string(one.nic);
  out += '\n';
}

}  // namespace

std::string to_goal_text(const goal& program, std::string_view description) {
  std::string out = "num_ranks " + std::to_string(program.ranks.size()) + "\n";
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    const goal_rank& me = program.ranks[r];
    out += "\nrank " + std::to_string(r) + " {\n";
    if (r == 0) append_description(out, description);
    for (std::uint32_t id = 0; id < me.ops.size(); ++id) {
      out += label_of(id) + ": ";
      append_op(out, me.ops[id]);
    }
    for (const goal_edge& edge : me.edges)
      out += label_of(edge.after) + (edge.on_start ? " irequires " : " requires ") + label_of(edge.before) + "\n";
    out += "}\n";
  }
  return out;
}

// --- parser --------------------------------------------------------------------------------------------------

namespace {

bool is_letter(char letter) { return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z'); }
bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }
bool is_op(std::string_view word) { return word == "send" || word == "recv" || word == "calc"; }

constexpr std::string_view k_first_word = "num_ranks";

class goal_parser {
 public:
  explicit goal_parser(std::string_view text) : text_(text) {}

  bool begins() { return skip_lines() && take(k_first_word); }

  result<goal> run() {
    if (!read_size()) return error_;
    while (program_.ranks.size() < size_)
      if (!read_block()) return error_;
    if (!skip_lines()) return error_;
    if (at_ < text_.size()) {
      (void)refuse(at_, "unexpected text: nothing may follow the block of the last rank");
      return error_;
    }
    return std::move(program_);
  }

 private:
  // Each of these functions returns true on success. On failure it sets error_ and returns false.
  bool refuse(std::size_t where, const std::string& why);
  bool skip_lines();
  bool read_number(std::string_view what, std::uint64_t most, std::uint64_t& value);
  bool read_name(std::string_view& name);
  bool read_line_end();
  bool read_size();
  bool read_block();
  bool read_line();
  bool read_peer(goal_op& one);
  bool read_options(goal_op& one);
  bool read_dep(std::string_view label, std::size_t where);
  bool find_label(std::string_view label, std::size_t where, std::uint32_t& op);

  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  /// Skips blanks. If the next word is `word`, skips it and returns true. Otherwise returns false.
  bool take(std::string_view word) {
    skip_blanks();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  bool expect(std::string_view word) { return take(word) || refuse(at_, "expected \"" + std::string(word) + "\""); }
  goal_rank& me() { return program_.ranks.back(); }

  std::string_view text_;
  std::size_t at_ = 0;
  std::uint64_t size_ = 0;
  goal program_;
  std::unordered_map<std::string_view, std::uint32_t> labels_;  ///< indices of labelled ops in the current block
  failure error_;
};

bool goal_parser::refuse(std::size_t where, const std::string& why) {
  const std::string_view before = text_.substr(0, where);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t start = before.rfind('\n') + 1;  // npos + 1 is 0
  error_ = {status::argument,
            "line " + std::to_string(line) + ", column " + std::to_string(where - start + 1) + ": " + why};
  return false;
}

/// Skips blanks, line ends and comments.
bool goal_parser::skip_lines() {
  for (;;) {
    skip_blanks();
    const std::string_view rest = text_.substr(at_);
    if (rest.starts_with("//")) {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (rest.starts_with("/*")) {
      const std::size_t end = text_.find("*/", at_ + 2);
      if (end == std::string_view::npos) return refuse(at_, "the comment is not closed");
      at_ = end + 2;
    } else if (rest.starts_with('\n') || rest.starts_with("\r\n")) {
      at_ += rest.front() == '\r' ? 2u : 1u;
    } else {
      return true;
    }
  }
}

bool goal_parser::read_number(std::string_view what, std::uint64_t most, std::uint64_t& value) {
  skip_blanks();
  const char* const begin = text_.data() + at_;
  const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
  if (end == begin) return refuse(at_, "expected a number (" + std::string(what) + ")");
  if (error != std::errc() || value > most) return refuse(at_, std::string(what) + " is above " + std::to_string(most));
  at_ += static_cast<std::size_t>(end - begin);
  return true;
}

bool goal_parser::read_name(std::string_view& name) {
  skip_blanks();
  const std::size_t start = at_;
  if (at_ == text_.size()) return refuse(at_, "the file ends too early: expected a word");
  if (!is_letter(text_[at_])) return refuse(at_, "expected a word that begins with a letter");
  while (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_]) || text_[at_] == '_')) ++at_;
  name = text_.substr(start, at_ - start);
  return true;
}

bool goal_parser::read_line_end() {
  skip_blanks();
  return take("\n") || take("\r\n") || refuse(at_, "expected the end of the line");
}

bool goal_parser::read_size() {
  constexpr auto k_most = static_cast<std::uint64_t>(std::numeric_limits<rank>::max());
  if (!skip_lines()) return false;
  const std::size_t start = at_;
  if (!expect(k_first_word) || !read_number("the number of ranks", k_most, size_)) return false;
  return size_ > 0 || refuse(start, "num_ranks is 0, but a program has at least one rank");
}

bool goal_parser::read_block() {
  if (!skip_lines()) return false;
  const std::size_t wanted = program_.ranks.size();
  if (at_ == text_.size()) return refuse(at_, "the block of rank " + std::to_string(wanted) + " is missing");
  std::uint64_t number = 0;
  const std::size_t start = at_;
  if (!expect("rank") || !read_number("a rank", size_ - 1, number)) return false;
  if (number != wanted) return refuse(start, "expected the block of rank " + std::to_string(wanted));
  if (!expect("{")) return false;
  program_.ranks.emplace_back();
  labels_.clear();
  for (;;) {
    if (!skip_lines()) return false;
    if (take("}")) break;
    if (!read_line()) return false;
  }
  sort_edges(me());
  return true;
}

bool goal_parser::read_line() {
  std::size_t start = at_;
  std::string_view word;
  if (!read_name(word)) return false;
  if (!is_op(word)) {
    if (!take(":")) return read_dep(word, start);
    if (!labels_.try_emplace(word, static_cast<std::uint32_t>(me().ops.size())).second)
      return refuse(start, "the label " + std::string(word.substr(0, 40)) + " is used twice");
    skip_blanks();
    start = at_;
    if (!read_name(word)) return false;
    if (!is_op(word)) return refuse(start, "expected send, recv or calc");
  }
  goal_op one;
  one.kind = word == "send" ? goal_kind::send : word == "recv" ? goal_kind::recv : goal_kind::calc;
  const bool is_message = one.kind != goal_kind::calc;
  if (me().ops.size() == k_goal_any)
    return refuse(at_, "a rank has more ops than the limit of " + std::to_string(k_goal_any));
  if (!read_number(is_message ? "a size" : "a time", UINT64_MAX, one.size)) return false;
  if (is_message && !(expect("b") && expect(one.kind == goal_kind::send ? "to" : "from") && read_peer(one)))
    return false;
  if (!read_options(one) || !read_line_end()) return false;
  me().ops.push_back(one);
  return true;
}

bool goal_parser::read_peer(goal_op& one) {
  one.peer = k_goal_any;
  if (one.kind == goal_kind::recv && take("-1")) return true;
  std::uint64_t number = 0;
  skip_blanks();
  const std::size_t start = at_;
  if (!read_number("a rank", k_goal_any, number)) return false;
  if (number >= size_)
    return refuse(start,
                  "rank " + std::to_string(number) + " does not exist: the program has only " + counted(size_, "rank"));
  one.peer = static_cast<std::uint32_t>(number);
  return true;
}

bool goal_parser::read_options(goal_op& one) {
  std::uint64_t number = 0;
  const bool is_message = one.kind != goal_kind::calc;
  if (is_message && take("tag")) {
    if (take("-1"))
      number = k_goal_any;
    else if (!read_number("a tag", k_goal_any, number))
      return false;
    one.tag = static_cast<std::uint32_t>(number);
  }
  if (take("cpu")) {
    if (!read_number("a cpu", UINT8_MAX, number)) return false;
    one.cpu = static_cast<std::uint8_t>(number);
  }
  if (is_message && take("nic")) {
    if (!read_number("a nic", UINT8_MAX, number)) return false;
    one.nic = static_cast<std::uint8_t>(number);
  }
  return true;
}

bool goal_parser::read_dep(std::string_view label, std::size_t where) {
  goal_edge edge;
  edge.on_start = take("irequires");
  if (!edge.on_start && !take("requires")) return refuse(at_, "expected \":\", \"requires\" or \"irequires\"");
  if (!find_label(label, where, edge.after)) return false;
  skip_blanks();
  where = at_;
  if (!read_name(label) || !find_label(label, where, edge.before) || !read_line_end()) return false;
  me().edges.push_back(edge);
  return true;
}

bool goal_parser::find_label(std::string_view label, std::size_t where, std::uint32_t& op) {
  const auto found = labels_.find(label);
  if (found == labels_.end()) return refuse(where, "no op above has the label " + std::string(label.substr(0, 40)));
  op = found->second;
  return true;
}

}  // namespace

bool is_goal_text(std::string_view text) { return goal_parser(text).begins(); }

result<goal> parse_goal_text(std::string_view text) { return goal_parser(text).run(); }

}  // namespace lsched
