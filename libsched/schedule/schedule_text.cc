// Writes and reads the text form of a schedule.
//
// The reader makes two passes over the words of a schedule. The first pass calls the builder with the data that the
// builder needs, and compiles the schedule. The second pass calls to_text for the compiled schedule, in the version of
// the file. It compares the result with the file, and refuses any word that differs. So every word of a file is
// checked, and the first pass may skip data that compile() can derive. Files are untrusted, so memory is never
// allocated according to a size that a file declares.
#include <charconv>
#include <concepts>
#include <limits>
#include <utility>
#include <vector>

#include "libsched/schedule/builder.h"
#include "libsched/schedule/scanner.h"
#include "libsched/schedule/schedule_file.h"
#include "libsched/schedule/text_grammar.h"

namespace lsched {
namespace {

using namespace text_grammar;

// --- writing -------------------------------------------------------------------------------------------------

/// Words are separated by one space, lines end with one newline, and numbers are decimal, without a sign or leading
/// zeros.
class text_writer {
 public:
  explicit text_writer(unsigned version) : version_(version) {}

  std::string run(const schedule& program);

  bool word(std::string_view text) {
    if (!text_.empty() && text_.back() != '\n' && text_.back() != '[' && text_.back() != '+') text_ += ' ';
    return symbol(text);
  }
  bool symbol(std::string_view text) {
    text_ += text;
    return true;
  }
  bool option(std::string_view text, bool exists) { return exists && word(text); }
  bool number(std::integral auto value, std::uint64_t = 0) { return word(std::to_string(value)); }
  bool real(double value) {
    std::array<char, 32> digits;  // std::to_chars writes the shortest text that parses to the same number
    return word({digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr});
  }
  bool choice(const auto&, std::string_view, auto value) { return word(name_of(value)); }
  bool quoted(std::string_view text) { return word("\"") && symbol(escaped(text)) && symbol("\""); }
  bool buffer_name(std::uint64_t buffer) { return word("b") && symbol(std::to_string(buffer)); }
  bool guard_number(std::size_t value) { return number(value); }
  bool place(world value, std::string_view) { return number(value.self) && word("of") && number(value.size); }
  bool version() { return number(version_); }
  bool is_version_2() const { return version_ == 2; }
  bool end_line() { return symbol("\n"); }

 private:
  void write_op(const schedule& program, op_id id);

  const unsigned version_;
  std::string text_;
};

std::string text_writer::run(const schedule& program) {
  head_text head{program.name(), program.place(), program.is_synchronising(), program.is_holding(), program.starts()};
  head_lines(*this, head);
  size_line(*this, {program.buffers().size(), program.guards().size(), program.ops().size(), program.dep_count()});
  std::size_t count = 0;
  for (buffer described : program.buffers()) {
    bool has_lists = described.has_lists();
    word("buffer") && number(count++) && buffer_words(*this, described, has_lists) && end_line();
  }
  count = 1;
  for (guard when : program.guards()) word("guard") && number(count++) && guard_words(*this, when) && end_line();
  for (op_id id = 0; id < program.ops().size(); ++id) write_op(program, id);
  word("exit") && number(program.exit()) && end_line();
  return std::move(text_);
}

void text_writer::write_op(const schedule& program, op_id id) {
  op_text text{.work = program.ops()[id]};
  const op& work = text.work;
  std::uint64_t target_count = 0;
  if (work.kind == op_kind::compute) {
    text.parameters = program.parameters_of(work);
    text.target = row_of(work.what).c.type_in(work.type);
    for (const operand& part : operands_of(work, program.buffers()))
      (part.which == &op::a   ? text.a
       : part.which == &op::b ? text.b
       : part.which == &op::s ? text.s
                              : target_count) = part.count;
  }
  word("op") && number(id) && op_words(*this, text, target_count);
  if (!program.successors(id).empty()) word("then");
  for (const op_id next : program.successors(id)) number(next);
  end_line();
}

// --- reading -------------------------------------------------------------------------------------------------

/// Skips the next words and returns true if a file may leave out these words. Otherwise returns false.
bool skip_derived(scanner& in) {
  const std::string_view word = in.next().text;
  const bool is_line = word == "sizes";
  const bool is_pair = word == "need" || word == "releases_a" || word == "releases_b";
  if (!is_line && !is_pair && word != "in_place") return false;
  while (is_line && in.next().what != token::end_of_line) in.advance();
  if (is_pair) in.advance();
  in.advance();
  return true;
}

/// Returns the line of `text` that contains byte `at`, without the newline.
std::string_view line_at(std::string_view text, std::size_t at) {
  const std::size_t begin = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;  // in the first line, npos + 1 is 0
  return text.substr(begin, text.find('\n', begin) - begin);
}

/// Reads the schedule that begins at position `at`. If a reading function other than option() or take() returns false,
/// it has set the failure.
class text_reader {
 public:
  text_reader(std::string_view text, std::size_t at) : text_(text), in_(text, at) {}

  result<schedule_part> run() {
    if (!read_head() || !read_lists() || !compile() || !compare()) return why_;
    return schedule_part{program_, begin_, in_.next()};
  }

  bool word(std::string_view text) { return take(text) || refuse("'" + std::string(text) + "'"); }
  bool symbol(std::string_view text) { return word(text); }
  bool option(std::string_view text, bool) { return take(text); }
  template <class Number>
  bool number(Number& into, std::uint64_t most = std::uint64_t{std::numeric_limits<Number>::max()}) {
    std::uint64_t value = 0;
    if (!read_digits(next().text, most, value)) return false;
    into = static_cast<Number>(value);
    in_.advance();
    return true;
  }

  /// Reads all words and symbols up to the next blank as one real number. compare() checks later that to_text writes
  /// the same characters.
  bool real(double& into) {
    const token first = next();
    std::size_t end = first.at;
    for (; next().at == end && (next().what == token::word || next().what == token::symbol); in_.advance())
      end += next().text.size();
    const char* const begin = text_.data() + first.at;
    const auto [stop, why] = std::from_chars(begin, text_.data() + end, into);
    if (why == std::errc{} && stop == text_.data() + end && end != first.at) return true;
    return fail(first.at, "expected a number but found " + shown(first));
  }

  template <class Value>
  bool choice(const auto& all, const char* wanted, Value& into) {
    const auto place = std::ranges::find_if(all, [&](Value each) { return name_of(each) == next().text; });
    if (place == all.end()) return refuse(wanted);
    into = *place;
    in_.advance();
    return true;
  }
  /// Reads a name between quotation marks, with an escape sequence for any byte. compare() later refuses unnecessary
  /// escape sequences.
  bool quoted(std::string& into) {
    constexpr std::string_view digits = "0123456789abcdef";
    if (next().what != token::quoted) return refuse("a name in quotes");
    std::string_view rest = next().text.substr(1, next().text.size() - 2);
    while (!rest.empty()) {
      if (rest.front() != '\\') {
        into += rest.front();
        rest.remove_prefix(1);
        continue;
      }
      const std::size_t high = rest.size() < 4 || rest[1] != 'x' ? digits.npos : digits.find(rest[2]);
      const std::size_t low = rest.size() < 4 ? digits.npos : digits.find(rest[3]);
      if (high == digits.npos || low == digits.npos)
        return fail(static_cast<std::size_t>(rest.data() - text_.data()),
                    "expected \\x and two lower-case hexadecimal digits, for one byte");
      into += static_cast<char>(high << 4 | low);
      rest.remove_prefix(4);
    }
    in_.advance();
    return true;
  }

  bool buffer_name(std::uint64_t& into) {
    if (!next().text.starts_with('b')) return refuse("a region");
    if (!read_digits(next().text.substr(1), k_no_buffer - 1, into)) return false;
    in_.advance();
    return true;
  }

  bool guard_number(std::size_t& into) {
    const std::size_t at = next().at;
    if (!number(into, k_most_guards)) return false;
    return (into != 0 && into <= guards_.size()) || fail(at, "there is no guard " + std::to_string(into));
  }

  bool place(world& into, const std::string& name) {
    const std::size_t at = next().at;
    if (!number(into.self) || !word("of") || !number(into.size)) return false;
    made_ = builder(into, name);
    return is_sound(at);
  }

  bool version() {
    const token found = next();
    std::uint64_t value = 0;
    if (!number(value)) return false;
    version_ = static_cast<unsigned>(std::min<std::uint64_t>(value, k_text_version + 1));
    if (version_ >= k_first_text_version && version_ <= k_text_version) return true;
    const std::string why = "the file has version " + shown(found.text) + ", but only versions " +
                            std::to_string(k_first_text_version) + " to " + std::to_string(k_text_version) +
                            " can be read";
    return fail(found.at, failure{status::unsupported, why});
  }

  bool is_version_2() const { return version_ == 2; }
  bool end_line() {
    const bool is_end = next().what == token::end_of_line || next().what == token::end;
    if (!is_end) return refuse("the end of the line");
    in_.advance();
    return true;
  }

 private:
  const token& next() const { return in_.next(); }
  template <class Why>
  bool fail(std::size_t at, Why why) {
    why_ = located(text_, at, std::move(why));
    return false;
  }
  bool refuse(const std::string& wanted) {
    return fail(next().at, "expected " + wanted + " but found " + shown(next()));
  }
  /// Returns true if the builder has no error. Otherwise sets the failure, located at `at`, and returns false.
  bool is_sound(std::size_t at) { return made_.error() == nullptr || fail(at, *made_.error()); }
  bool take(std::string_view text) {
    if (next().text != text) return false;
    in_.advance();
    return true;
  }

  bool read_digits(std::string_view digits, std::uint64_t most, std::uint64_t& into) {
    into = 0;
    for (const char digit : digits) {
      if (digit < '0' || digit > '9') return refuse("a number");
      const auto value = static_cast<std::uint64_t>(digit - '0');
      if (value > most || into > (most - value) / 10) return refuse("a number up to " + std::to_string(most));
      into = into * 10 + value;
    }
    return !digits.empty() || refuse("a number");
  }

  bool read_head() {
    head_text head;
    if (!head_lines(*this, head) || !size_line(*this, {})) return false;
    if (head.is_synchronising) made_.declare_synchronising();
    if (head.is_holding) made_.declare_holding();
    made_.set_activation(head.starts);
    return true;
  }

  bool read_lists() {
    for (std::size_t number = 0; take("buffer"); ++number)
      if (!read_buffer(number)) return false;
    while (take("guard"))
      if (!read_guard()) return false;
    while (next().text == "op")
      if (!read_op()) return false;
    return read_exit();
  }

  bool read_buffer(std::size_t number) {
    const std::size_t at = next().at;
    buffer described;
    bool has_lists = false;
    if (!word(std::to_string(number)) || !buffer_words(*this, described, has_lists)) return false;
    if (has_lists)
      made_.lists(described.role, described.type, described.count, described.lists);
    else
      made_.declare(described.role, described.type, described.count, described.space);
    return is_sound(at) && end_line();
  }

  /// Reads the line of a guard. Guards are numbered from 1.
  bool read_guard() {
    guard& when = guards_.emplace_back();
    return word(std::to_string(guards_.size())) && guard_words(*this, when) && end_line();
  }

  bool read_op() {
    const auto id = static_cast<op_id>(lines_.size());
    const std::size_t at = next().at;
    lines_.push_back(at);
    op_text text;
    if (!word("op") || !word(std::to_string(id)) || !op_words(*this, text, 0)) return false;
    append(text);
    made_.set_need(id, text.work.need);
    if (text.work.guard != 0) made_.set_guard(id, guards_[text.work.guard - std::size_t{1}]);
    return is_sound(at) && read_successors(id) && end_line();
  }

  bool read_successors(op_id id) {
    if (!take("then")) return true;
    op_id last = id;
    do {
      const std::size_t at = next().at;
      op_id successor = 0;
      if (!number(successor)) return false;
      if (successor <= last)
        return fail(at, "op " + std::to_string(successor) + " does not come after op " + std::to_string(last) +
                            ": successors are listed in ascending order and have higher numbers than their op");
      deps_.emplace_back(id, successor);
      last = successor;
    } while (next().what == token::word);
    return true;
  }

  bool read_exit() {
    if (!take("exit")) return refuse("'op' or 'exit'");
    const std::size_t at = next().at;
    op_id exit = k_no_op;
    if (!number(exit) || !end_line()) return false;
    made_.set_exit(exit);
    return is_sound(at);
  }

  void append(const op_text& text) {
    const op& work = text.work;
    switch (work.kind) {
      case op_kind::nop: made_.nop(); break;
      case op_kind::send: made_.send(work.peer, work.tag, work.a, work.count); break;
      case op_kind::recv: made_.recv(work.peer, work.tag, work.c, work.count); break;
      case op_kind::compute:
        made_.compute(work.what, {work.a, work.b, work.s, work.c}, work.count, text.parameters);
        break;
      case op_kind::signal_send: made_.signal_send(work.peer, work.tag); break;
      case op_kind::signal_recv: made_.signal_recv(work.peer, work.tag); break;
      case op_kind::capture: made_.capture(work.what, work.c, work.count); break;
    }
  }

  bool compile() {
    for (const auto& [before, after] : deps_) {
      made_.dep(before, after);
      if (!is_sound(lines_[before])) return false;
    }
    const auto made = made_.compile();
    if (!made) return fail(made.error().op < lines_.size() ? lines_[made.error().op] : begin_, made.error());
    program_ = *made;
    return true;
  }

  /// Checks that to_text writes every word of the file, in the same order. Words that are missing in the file must be
  /// words that compile() can derive.
  bool compare() {
    const std::string whole = to_text(*program_, version_);
    scanner read(text_, begin_), written(whole, 0);
    while (read.next().at < next().at) {
      if (read.next() == written.next()) {
        read.advance();
        written.advance();
      } else if (!skip_derived(written)) {
        return fail(read.next().at, shown(read.next()) +
                                        " contradicts the rest of the file, which requires this line: " +
                                        shown(line_at(whole, written.next().at)));
      }
    }
    return true;
  }

  std::string_view text_;
  scanner in_;
  std::size_t begin_ = in_.next().at;
  builder made_{world{}};
  unsigned version_ = k_text_version;
  std::vector<guard> guards_{};
  std::vector<std::size_t> lines_{};  ///< by op: position of its line in the text
  std::vector<std::pair<op_id, op_id>> deps_{};
  schedule_ptr program_{};
  failure why_{};
};

}  // namespace

std::string to_text(const schedule& program, unsigned version) { return text_writer(version).run(program); }

result<schedule_part> read_schedule(std::string_view text, std::size_t at) { return text_reader(text, at).run(); }

}  // namespace lsched
