#include "collectives/written/algorithm_text.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "ops/nearest_word.h"

namespace lsched::written {
namespace {

constexpr int k_most_levels = 32;      ///< maximum depth of nested statements
constexpr int k_longest_chain = 4096;  ///< maximum number of `else if` in a chain
constexpr std::size_t k_most_scratches = 64;
constexpr std::size_t k_most_names = 256;
constexpr std::size_t k_longest_name = 64;

bool can_be_written(const collective& of) {
  const auto is_cut = [](content what) { return what != content::listed_blocks; };
  return of.moves_data && !of.adapts && !of.has_blocks && !of.activates && is_cut(of.input.of) && is_cut(of.output.of);
}

/// Returns true if a file may use this word as a new name.
bool is_name(const token& word) {
  constexpr std::array k_taken{
      "in",       "out",   "P",       "r",    "root",     "for",        "end",    "if",      "else",       "let",
      "send",     "recv",  "op",      "copy", "to",       "from",       "by",     "channel", "and",        "or",
      "not",      "mod",   "xor",     "log2", "min",      "max",        "name",   "summary", "collective", "chunks",
      "channels", "needs", "scratch", "like", "in_place", "rank_order", "holding"};
  const char first = word.text.empty() ? '0' : word.text.front();
  return word.what == token::word && (first < '0' || first > '9') && word.text.size() <= k_longest_name &&
         std::ranges::find(k_taken, word.text) == k_taken.end();
}

/// Recursive descent parser, which stops at the first error.
class reader {
 public:
  explicit reader(std::string_view text) : text_(text), from_(text, 0) { out_.text = text; }

  result<algorithm_text> read() {
    title();
    while (!error_ && head_line()) continue;
    if (!error_ && out_.name.empty()) fail(from_.next().at, "expected 'name' and a name in quotes");
    if (!error_ && out_.of == nullptr) fail(from_.next().at, "expected 'collective' and a name from `lsched list`");
    out_.body = statements(0);
    if (!error_ && from_.next().what != token::end) fail_at_word("a statement");
    if (error_) return std::move(*error_);
    return std::move(out_);
  }

 private:
  // --- words -----------------------------------------------------------------------------------------------

  void fail(std::size_t at, failure why) {
    if (!error_) error_ = located(text_, at, std::move(why));
  }
  void fail(std::size_t at, std::string why) { fail(at, failure{status::argument, std::move(why)}); }
  void fail_at_word(const std::string& expected) {
    fail(from_.next().at, "expected " + expected + " but found " + shown(from_.next()));
  }

  /// Returns the line number of offset `at`. Offsets must not decrease from call to call.
  std::uint32_t line_of(std::size_t at) {
    for (; counted_ < at; ++counted_)
      if (text_[counted_] == '\n') ++line_;
    return line_;
  }

  bool is_next(std::string_view text, token::kind what = token::word) const {
    return !error_ && from_.next().what == what && from_.next().text == text;
  }
  bool take(std::string_view text, token::kind what = token::word) {
    const bool is_it = is_next(text, what);
    if (is_it) from_.advance();
    return is_it;
  }
  void expect(std::string_view text, token::kind what = token::word) {
    if (!error_ && !take(text, what)) fail_at_word("'" + std::string(text) + "'");
  }
  void expect_symbol(std::string_view text) { expect(text, token::symbol); }
  void end_line() {
    if (error_ || from_.next().what == token::end) return;
    if (from_.next().what != token::end_of_line) return fail_at_word("the end of the line" + hint(from_.next().text));
    from_.advance();
  }

  /// Returns a hint for words from other programming languages.
  static std::string hint(std::string_view word) {
    if (word == "=") return " (compare values with ==)";
    if (word == "%") return " (the remainder of a division is mod)";
    if (word == "&" || word == "|") return " (use and, or)";
    return "";
  }

  std::string quoted() {
    if (error_ || from_.next().what != token::quoted) {
      fail_at_word("a text in double quotes");
      return {};
    }
    const std::string_view text = from_.next().text.substr(1, from_.next().text.size() - 2);
    const bool is_plain = std::ranges::all_of(text, [](char c) { return c >= 0x20 && c < 0x7f; });
    if (!is_plain) fail(from_.next().at, "only printable ASCII is allowed here");
    from_.advance();
    return std::string(text);
  }

  expression value() {
    if (!error_) {
      auto read = expression::read(from_, text_, names_);
      if (read) return std::move(*read);
      error_ = read.error();
    }
    return expression::constant(0);
  }

  // --- head ------------------------------------------------------------------------------------------------

  void title() {
    expect("libsched");
    expect("algorithm");
    if (!error_ && !is_next("1")) {
      if (from_.next().what == token::word)
        return fail(from_.next().at, failure{status::unsupported, "only version 1 of algorithm files can be read"});
      return fail_at_word("a version");
    }
    from_.advance();
    end_line();
    names_ = {"P"};  // head lines can use only values that are equal on all ranks
  }

  /// Reads a line of the head. Returns false if the next line is a statement.
  bool head_line() {
    const token word = from_.next();
    if (take("name"))
      name(word.at);
    else if (take("summary"))
      out_.summary = quoted();
    else if (take("collective"))
      collective_line();
    else if (take("chunks"))
      once(out_.chunks, word.at);
    else if (take("channels"))
      once(out_.channels, word.at);
    else if (take("needs"))
      out_.needs.push_back(value());
    else if (take("scratch"))
      scratch_line();
    else if (take("in_place"))
      out_.in_place = true;
    else if (take("rank_order"))
      out_.is_in_rank_order = true;
    else if (take("holding"))
      out_.is_holding = true;
    else
      return false;
    end_line();
    return true;
  }

  void name(std::size_t at) {
    if (!out_.name.empty()) return fail(at, "this line occurs twice");
    out_.name = quoted();
    const bool fits = std::ranges::all_of(out_.name, [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
             c == '.';
    });
    if (!fits || out_.name.empty() || out_.name.size() > k_longest_name || out_.name == "auto")
      fail(at, "a name has 1 to 64 letters, digits, '_', '-' and '.', and is not \"auto\"");
  }

  static std::string suggestion(std::string_view word) {
    std::vector<std::string_view> known;
    for (const collective* each : collectives())
      if (can_be_written(*each)) known.push_back(each->name);
    return suggestion_for(word, known);
  }

  static std::string words_for_dense(std::string_view partial) {
    constexpr std::string_view k_partial = "partial_";
    const collective* const dense =
        partial.starts_with(k_partial) ? find_collective(partial.substr(k_partial.size())) : nullptr;
    if (dense == nullptr || !can_be_written(*dense)) return {};
    return ": write the dense collective, " + std::string(dense->name) + ", which includes its partial form";
  }

  void collective_line() {
    const token word = from_.next();
    if (out_.of != nullptr) return fail(word.at, "this line occurs twice");
    from_.advance();
    out_.of = find_collective(word.text);
    if (out_.of == nullptr) return fail(word.at, "there is no collective " + shown(word) + suggestion(word.text));
    if (!can_be_written(*out_.of))
      fail(word.at, failure{status::unsupported,
                            shown(word) + " cannot be written in an algorithm file" + words_for_dense(word.text)});
    if (out_.of->is_rooted) names_ = {"P", "", "root"};
  }

  void once(expression& where, std::size_t at) {
    if (where.exists()) fail(at, "this line occurs twice");
    where = value();
  }

  void scratch_line() {
    scratch made{.at = from_.next().at};
    const bool is_new = std::ranges::find(out_.scratches, from_.next().text, &scratch::name) == out_.scratches.end();
    if (!is_name(from_.next()) || !is_new) return fail_at_word("a name that is not taken");
    if (out_.scratches.size() == k_most_scratches) return fail(made.at, "a file can have at most 64 scratch vectors");
    made.name = from_.next().text;
    from_.advance();
    if (take("like")) {
      made.like = is_next("in") ? k_in : k_out;
      if (!take("in")) expect("out");
    } else {
      expect("chunks");
      made.count = value();
    }
    out_.scratches.push_back(std::move(made));
  }

  // --- statements ------------------------------------------------------------------------------------------

  /// Reads statements until a word that cannot begin a statement.
  std::vector<statement> statements(int level) {
    std::vector<statement> all;
    if (level == 0) names_ = {"P", "r", "root"};
    if (level > k_most_levels)
      fail(from_.next().at,
           "statements are nested too deeply: use at most " + std::to_string(k_most_levels) + " levels");
    const std::size_t known = names_.size();
    while (!error_ && from_.next().what == token::word && !is_next("end") && !is_next("else"))
      all.push_back(one_statement(level));
    names_.resize(std::min(known, names_.size()));
    return all;
  }

  statement one_statement(int level) {
    statement made{.at = from_.next().at, .line = line_of(from_.next().at)};
    if (take("send"))
      send(made);
    else if (take("let"))
      let(made);
    else if (take("for"))
      loop(made, level);
    else if (take("if"))
      branch(made, level);
    else if (vector_named(from_.next().text))
      assignment(made);
    else
      fail_at_word("'send', 'let', 'for', 'if' or the vector that is written");
    end_line();
    return made;
  }

  std::optional<std::size_t> vector_named(std::string_view word) const {
    if (word == "in") return k_in;
    if (word == "out") return k_out;
    const auto own = std::ranges::find(out_.scratches, word, &scratch::name);
    if (own == out_.scratches.end()) return std::nullopt;
    return k_scratch + static_cast<std::size_t>(own - out_.scratches.begin());
  }

  chunks region() {
    chunks place{.at = from_.next().at};
    const auto vector = vector_named(from_.next().text);
    if (error_ || !vector) {
      fail_at_word("'in', 'out' or a scratch vector");
      return place;
    }
    place.vector = *vector;
    from_.advance();
    if (!take("[", token::symbol)) return place;
    place.first = value();
    if (take(".", token::symbol)) {
      expect_symbol(".");
      place.last = value();
    }
    expect_symbol("]");
    return place;
  }

  message peer(std::string_view direction) {
    expect(direction);
    message made{.peer = value()};
    if (take("channel")) made.channel = value();
    return made;
  }

  void send(statement& made) {
    made.what = statement::kind::send;
    made.target = region();
    made.to = peer("to");
  }

  operand read_operand() {
    if (take("recv")) return {.from = peer("from")};
    return {.place = region()};
  }

  void assignment(statement& made) {
    made.target = region();
    if (!error_ && made.target.vector == k_in)
      fail(made.at, "the input is read-only: write to 'out' or a scratch vector");
    expect_symbol("=");
    if (take("copy")) {
      made.what = statement::kind::copy;
      made.operands.push_back(read_operand());
    } else if (is_next("recv")) {
      made.what = statement::kind::receive;
      made.operands.push_back(read_operand());
    } else {
      made.what = statement::kind::combine;
      if (!error_ && !is_next("op")) fail_at_word("'copy', 'recv' or 'op'");
      if (!error_ && !out_.of->reduces)
        fail(from_.next().at, std::string(out_.of->name) + " has no reduction, so 'op' cannot be used");
      expect("op");
      made.operands.push_back(read_operand());
      made.operands.push_back(read_operand());
    }
  }

  void name_variable(statement& made) {
    const token word = from_.next();
    if (error_) return;
    const bool is_taken = std::ranges::find(names_, word.text) != names_.end() ||
                          std::ranges::find(out_.scratches, word.text, &scratch::name) != out_.scratches.end();
    if (!is_name(word) || is_taken) return fail_at_word("a name that is not taken");
    if (names_.size() == k_most_names)
      return fail(word.at, "more than 256 names are in scope here: use fewer variables");
    made.name = word.text;
    from_.advance();
  }

  /// The variable is in scope until the end of the block.
  void declare_variable(statement& made) {
    made.variable = names_.size();
    names_.push_back(made.name);
    out_.variables = std::max(out_.variables, names_.size());
  }

  void let(statement& made) {
    made.what = statement::kind::let;
    name_variable(made);
    expect_symbol("=");
    made.values.push_back(value());
    declare_variable(made);
  }

  void loop(statement& made, int level) {
    made.what = statement::kind::loop;
    name_variable(made);
    expect("in");
    made.values.push_back(value());
    expect_symbol(".");
    expect_symbol(".");
    made.values.push_back(value());
    made.values.push_back(take("by") ? value() : expression::constant(1));
    end_line();
    declare_variable(made);
    made.body = statements(level + 1);
    names_.pop_back();
    expect("end");
  }

  void branch(statement& made, int level, int chain = 0) {
    made.what = statement::kind::branch;
    made.values.push_back(value());
    end_line();
    made.body = statements(level + 1);
    if (take("else")) {
      if (is_next("if")) {  // this branch and the `else if` have a common `end`
        if (chain == k_longest_chain)
          return fail(from_.next().at,
                      "this chain has more than " + std::to_string(k_longest_chain) + " branches 'else if'");
        made.rest.push_back({.at = from_.next().at, .line = line_of(from_.next().at)});
        from_.advance();
        return branch(made.rest.back(), level, chain + 1);
      }
      end_line();
      made.rest = statements(level + 1);
    }
    expect("end");
  }

  const std::string_view text_;
  scanner from_;
  std::size_t counted_ = 0;  ///< offset in the text up to which lines have been counted
  std::uint32_t line_ = 1;   ///< line number at offset counted_
  variable_names names_{};
  algorithm_text out_{};
  std::optional<failure> error_{};
};

}  // namespace

std::string algorithm_text::line_at(std::size_t at) const {
  const std::string_view rest = std::string_view(text).substr(at);
  std::string_view line = rest.substr(0, rest.find_first_of("#\n\r"));
  while (line.ends_with(' ') || line.ends_with('\t')) line.remove_suffix(1);
  return shown(line);
}

failure algorithm_text::refused(std::size_t at, failure why) const {
  failure placed = located(text, at, std::move(why));
  placed.text.insert(0, name + ": ");
  return placed;
}

result<algorithm_text> read(std::string_view text) { return reader(text).read(); }

}  // namespace lsched::written
