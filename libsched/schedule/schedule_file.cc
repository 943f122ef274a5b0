#include "libsched/schedule/schedule_file.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "libsched/schedule/builder.h"
#include "ops/counted.h"

// Two passes over the words of a schedule. The first tells the builder what it has to know, and compiles. The second
// walks along the text and along what to_text makes of the result, and refuses any word that differs: nothing that
// a file says is believed unchecked, and the first pass may skip whatever compile() finds out by itself. No
// list is sized by a number that a file declares.

namespace lsched {
namespace {

// --- words -------------------------------------------------------------------------------------------------

/// Letters and digits in a row, a quoted text with its quotes, any other byte, the end of a line that has words,
/// or the end of the text.
struct token {
  enum kind { word, quoted, symbol, end_of_line, end } what = end;
  std::size_t at = 0;
  std::string_view text{};
  friend bool operator==(const token& x, const token& y) { return x.what == y.what && x.text == y.text; }
};

bool is_letter(char it) {
  return (it >= '0' && it <= '9') || (it >= 'a' && it <= 'z') || (it >= 'A' && it <= 'Z') || it == '_';
}

class scanner {
 public:
  scanner(std::string_view text, std::size_t at) : text_(text), at_(at) { advance(); }

  const token& next() const { return next_; }
  void advance() {
    const bool is_between_lines = next_.what == token::end_of_line || next_.what == token::end;
    skip_blanks();
    for (; is_between_lines && starts_with("\n"); skip_blanks()) ++at_;
    const std::size_t begin = at_;
    const token::kind what = take();
    next_ = {what, begin, text_.substr(begin, at_ - begin)};
  }

 private:
  bool starts_with(std::string_view any_of) const {
    return at_ < text_.size() && any_of.find(text_[at_]) != any_of.npos;
  }
  void skip_blanks() {
    while (starts_with(" \t\r")) ++at_;
    if (starts_with("#")) at_ = std::min(text_.find('\n', at_), text_.size());
  }

  /// A quote that is not closed on its line is a symbol, and no symbol that anybody expects.
  token::kind take() {
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

  std::string_view text_;
  std::size_t at_;
  token next_{};
};

// --- failures ----------------------------------------------------------------------------------------------

/// What a file says, fit to be printed: short, and nothing but printable ASCII.
std::string shown(std::string_view text) {
  constexpr std::size_t k_most = 100;
  std::string out;
  for (const char letter : text.substr(0, k_most)) out += letter >= 0x20 && letter < 0x7f ? letter : '?';
  return text.size() > k_most ? out + "..." : out;
}

std::string shown(const token& it) {
  if (it.what == token::end) return "the end of the text";
  if (it.what == token::end_of_line) return "the end of the line";
  return "'" + shown(it.text) + "'";
}

failure located(std::string_view text, std::size_t at, failure why) {
  const std::string_view before = text.substr(0, at);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const std::size_t column = at - (before.rfind('\n') + 1) + 1;  // npos + 1 is 0
  why.text = "line " + std::to_string(line) + ", column " + std::to_string(column) + ": " + why.text;
  return why;
}

failure located(std::string_view text, std::size_t at, const std::string& why) {
  return located(text, at, failure{status::argument, why});
}

// --- one schedule ------------------------------------------------------------------------------------------

constexpr std::array k_all_kinds{op_kind::nop,         op_kind::send,        op_kind::recv,   op_kind::compute,
                                 op_kind::signal_send, op_kind::signal_recv, op_kind::capture};
constexpr auto k_types = [] {
  std::array<dtype, k_all_dtypes.size() + k_all_items.size()> all{};
  std::ranges::copy(k_all_items, std::ranges::copy(k_all_dtypes, all.begin()).out);
  return all;
}();
constexpr auto k_all_kernels = [] {
  std::array<kernel, k_kernel_rows.size() - 1> all{};
  std::ranges::transform(k_kernel_rows.subspan(1), all.begin(), &kernel_row::what);
  return all;
}();
constexpr std::array k_all_roles{buffer_role::input, buffer_role::output, buffer_role::scratch};
constexpr std::array k_all_policies{activation_policy::none,     activation_policy::full,     activation_policy::solo,
                                    activation_policy::majority, activation_policy::first_of, activation_policy::all_of,
                                    activation_policy::quorum};

/// Reads the schedule that begins at `at`. A member that answers false has filled in why().
class parser {
 public:
  parser(std::string_view text, std::size_t at) : text_(text), in_(text, at) {}

  bool read() { return read_head() && read_lists() && compile() && compare(); }
  bool end_text() { return next().what == token::end || refuse("the end of the text after one schedule"); }

  std::size_t begin() const { return begin_; }
  const token& next() const { return in_.next(); }  ///< after the schedule
  const schedule_ptr& program() const { return program_; }
  const failure& why() const { return why_; }

 private:
  template <class Why>
  bool fail(std::size_t at, Why why) {
    why_ = located(text_, at, std::move(why));
    return false;
  }
  bool refuse(const std::string& wanted) {
    return fail(next().at, "expected " + wanted + " but found " + shown(next()));
  }
  /// Whether the builder has had nothing to object so far.
  bool is_sound(std::size_t at) { return made_.error() == nullptr || fail(at, *made_.error()); }

  bool take(std::string_view word);
  bool expect(std::string_view word) { return take(word) || refuse("'" + std::string(word) + "'"); }
  bool end_line();
  bool read_digits(std::string_view digits, std::uint64_t most, std::uint64_t& into);
  template <class Number>
  bool read_number(Number& into, std::uint64_t most = std::uint64_t{std::numeric_limits<Number>::max()});
  template <class Words, class Word>
  bool read_word(const Words& all, const std::string& what, Word& into);

  bool read_head();
  bool read_version();
  bool read_name(std::string& name);
  bool read_flags();
  bool read_activation();
  bool read_sizes();

  bool read_lists();
  bool read_buffer();
  bool read_lists_of(list_layout& lists);
  bool read_guard();
  bool read_op();
  bool read_exit();

  bool read_work(op& it);
  bool read_data(op& it, region& where);
  bool read_compute(op& it);
  bool read_merge(op& it);
  bool read_region(region& where, std::uint64_t& count);
  bool read_peer(op& it, std::string_view direction);
  bool read_derived(op& it);
  bool read_guard_of(op& it);
  bool read_successors(op_id id);
  void append(const op& it);

  bool compile();
  bool compare();

  std::string_view text_;
  scanner in_;
  std::size_t begin_ = in_.next().at;
  builder made_{world{}};
  std::size_t buffers_ = 0;         ///< read so far
  std::size_t on_device_ = begin_;  ///< where a buffer was said to be in device memory
  std::vector<guard> guards_{};
  std::vector<std::size_t> lines_{};  ///< where each op begins
  std::vector<std::pair<op_id, op_id>> deps_{};
  schedule_ptr program_{};
  failure why_{};
};

bool parser::take(std::string_view word) {
  if (next().text != word) return false;
  in_.advance();
  return true;
}

bool parser::end_line() {
  const bool is_end = next().what == token::end_of_line || next().what == token::end;
  if (!is_end) return refuse("the end of the line");
  in_.advance();
  return true;
}

bool parser::read_digits(std::string_view digits, std::uint64_t most, std::uint64_t& into) {
  into = 0;
  for (const char digit : digits) {
    if (digit < '0' || digit > '9') return refuse("a number");
    const auto value = static_cast<std::uint64_t>(digit - '0');
    if (value > most || into > (most - value) / 10) return refuse("a number up to " + std::to_string(most));
    into = into * 10 + value;
  }
  return !digits.empty() || refuse("a number");
}

template <class Number>
bool parser::read_number(Number& into, std::uint64_t most) {
  std::uint64_t number = 0;
  if (!read_digits(next().text, most, number)) return false;
  into = static_cast<Number>(number);
  in_.advance();
  return true;
}

template <class Words, class Word>
bool parser::read_word(const Words& all, const std::string& what, Word& into) {
  const auto place = std::find_if(all.begin(), all.end(), [&](Word it) { return name_of(it) == next().text; });
  if (place == all.end()) return refuse(what);
  into = *place;
  in_.advance();
  return true;
}

// --- head --------------------------------------------------------------------------------------------------

bool parser::read_head() {
  std::string name;
  const bool has_name = expect("libsched") && expect("schedule") && read_version() && end_line() && expect("name") &&
                        read_name(name) && end_line() && expect("rank");
  if (!has_name) return false;
  const std::size_t at = next().at;
  world place;
  if (!read_number(place.self) || !expect("of") || !read_number(place.size) || !end_line()) return false;
  made_ = builder(place, std::move(name));
  return is_sound(at) && read_flags() && read_activation() && read_sizes();
}

bool parser::read_version() {
  const token version = next();
  std::uint64_t number = 0;
  if (!read_number(number)) return false;
  if (number == 2) return true;
  const std::string why = "the file is of version " + shown(version.text) + ", and only version 2 can be read";
  return fail(version.at, failure{status::unsupported, why});
}

/// Whether a byte had to be escaped, compare() knows.
bool parser::read_name(std::string& name) {
  constexpr std::string_view digits = "0123456789abcdef";
  if (next().what != token::quoted) return refuse("a name in quotes");
  std::string_view rest = next().text.substr(1, next().text.size() - 2);
  while (!rest.empty()) {
    if (rest.front() != '\\') {
      name += rest.front();
      rest.remove_prefix(1);
      continue;
    }
    const std::size_t high = rest.size() < 4 || rest[1] != 'x' ? digits.npos : digits.find(rest[2]);
    const std::size_t low = rest.size() < 4 ? digits.npos : digits.find(rest[3]);
    if (high == digits.npos || low == digits.npos)
      return fail(static_cast<std::size_t>(rest.data() - text_.data()),
                  "expected \\x and two lower-case hexadecimal digits, for one byte");
    name += static_cast<char>(high << 4 | low);
    rest.remove_prefix(4);
  }
  in_.advance();
  return true;
}

bool parser::read_flags() {
  if (!expect("flags")) return false;
  if (take("synchronising")) made_.declare_synchronising();
  if (take("holding")) made_.declare_holding();
  return end_line();
}

bool parser::read_activation() {
  activation starts;
  if (!expect("activation") || !read_word(k_all_policies, "an activation policy", starts.policy)) return false;
  if (has_number(starts.policy) && !read_number(starts.number)) return false;
  if (take("every") && !read_number(starts.full_every)) return false;
  const bool is_read = expect("seed") && read_number(starts.seed) && end_line();
  made_.set_activation(starts);
  return is_read;
}

bool parser::read_sizes() {
  if (!take("sizes")) return true;
  std::uint64_t size = 0;  // for compare() to check
  for (const std::string_view of : {"buffers", "guards", "ops", "deps"})
    if (!expect(of) || !read_number(size)) return false;
  return end_line();
}

// --- lists -------------------------------------------------------------------------------------------------

bool parser::read_lists() {
  while (take("buffer"))
    if (!read_buffer()) return false;
  while (take("guard"))
    if (!read_guard()) return false;
  while (next().text == "op")
    if (!read_op()) return false;
  return read_exit();
}

bool parser::read_buffer() {
  const std::size_t at = next().at;
  buffer it;
  if (!expect(std::to_string(buffers_)) || !read_word(k_all_roles, "a role", it.role)) return false;
  if (next().text == "device") {
    it.space = memory_space::device;
    on_device_ = at;
    in_.advance();
  } else if (!expect("host")) {
    return false;
  }
  const bool is_read = read_word(k_types, "a dtype", it.type) && read_number(it.count, k_max_count);
  if (!is_read) return false;
  if (take("lists")) {
    if (!read_lists_of(it.lists)) return false;
    made_.lists(it.role, it.type, it.count, it.lists);
  } else {
    made_.declare(it.role, it.type, it.count, it.space);
  }
  ++buffers_;
  return is_sound(at) && end_line();
}

bool parser::read_lists_of(list_layout& lists) {
  if (!read_number(lists.room, k_max_count)) return false;
  if (take("packed") && !read_number(lists.total, k_max_count)) return false;
  return expect("typical") && read_number(lists.typical, k_max_count);
}

/// They are numbered from 1.
bool parser::read_guard() {
  guard it;
  if (!expect(std::to_string(guards_.size() + 1)) || !expect("every") || !read_number(it.every)) return false;
  it.skips_empty = take("skips_empty");
  guards_.push_back(it);
  return end_line();
}

bool parser::read_op() {
  const auto id = static_cast<op_id>(lines_.size());
  const std::size_t at = next().at;
  lines_.push_back(at);
  op it;
  const bool is_read = expect("op") && expect(std::to_string(id)) && read_word(k_all_kinds, "a kind of op", it.kind) &&
                       read_work(it) && read_derived(it);
  if (!is_read) return false;
  append(it);
  made_.set_need(id, it.need);
  if (it.guard != 0) made_.set_guard(id, guards_[it.guard - std::size_t{1}]);
  return is_sound(at) && read_successors(id) && end_line();
}

bool parser::read_exit() {
  if (!take("exit")) return refuse("'op' or 'exit'");
  const std::size_t at = next().at;
  op_id exit = k_no_op;
  if (!read_number(exit) || !end_line()) return false;
  made_.set_exit(exit);
  return is_sound(at);
}

// --- one op ------------------------------------------------------------------------------------------------

bool parser::read_work(op& it) {
  switch (it.kind) {
    case op_kind::nop: return true;
    case op_kind::send: return read_data(it, it.a) && read_peer(it, "to");
    case op_kind::recv: return read_data(it, it.c) && read_peer(it, "from");
    case op_kind::compute: return read_compute(it);
    case op_kind::signal_send: return read_peer(it, "to");
    case op_kind::signal_recv: return read_peer(it, "from");
    case op_kind::capture: return read_data(it, it.c) && expect("merge") && read_merge(it);
  }
  return false;
}

/// The dtype is the buffer's, and compare() will see to it.
bool parser::read_data(op& it, region& where) {
  return read_word(k_types, "a dtype", it.type) && read_region(where, it.count);
}

/// As append_compute (libsched/schedule/schedule.cc) writes it. The op's count is the target's, or that of what the
/// sums are of; compare() refuses other counts.
bool parser::read_compute(op& it) {
  if (!read_data(it, it.c) || !expect("=") || !read_word(k_all_kernels, "a kernel", it.what)) return false;
  const kernel_row& row = row_of(it.what);
  if (row.c.type != operand_type::elements && !read_word(k_types, "a dtype", it.type)) return false;
  if (row.is(trait::function) && !read_number(it.tag)) return false;
  std::uint64_t again = 0;
  for (const auto& [which, rule] : {std::pair{&op::a, row.a}, {&op::b, row.b}, {&op::s, row.s}}) {
    if (rule.need == operand_need::never || (rule.need == operand_need::optional && next().text != "by")) continue;
    if (rule.steers && !expect("by")) return false;
    const bool counts = which == &op::a && row.c.type == operand_type::sums;
    if (!read_region(it.*which, counts ? it.count : again)) return false;
  }
  return !row.parameter.exists() || row.is(trait::function) || (expect("by") && read_number(it.tag));
}

bool parser::read_merge(op& it) {
  if (!take(name_of(kernel::adasum))) return read_word(k_all_reductions, "'adasum' or a reduction", it.what);
  it.what = kernel::adasum;
  return true;
}

bool parser::read_region(region& where, std::uint64_t& count) {
  std::uint64_t buffer = 0, offset = 0;
  if (!next().text.starts_with('b')) return refuse("a region");
  if (!read_digits(next().text.substr(1), k_no_buffer - 1, buffer)) return false;
  in_.advance();
  if (!expect("[") || !read_number(offset, k_max_count) || !expect("+")) return false;
  if (!read_number(count, k_max_count)) return false;
  where = region(static_cast<std::uint16_t>(buffer), offset);
  return expect("]");
}

bool parser::read_peer(op& it, std::string_view direction) {
  return expect(direction) && read_number(it.peer) && expect("tag") && read_number(it.tag);
}

/// What compile() finds out by itself, the guard, and `need`, which compile() finds out where that is "all". Whether
/// these words fit the op, compare() knows.
bool parser::read_derived(op& it) {
  it.in_place = take("in_place");
  if (take("releases_a") && !read_number(it.releases_a)) return false;
  if (take("releases_b") && !read_number(it.releases_b)) return false;
  if (take("guard") && !read_guard_of(it)) return false;
  return !take("need") || read_number(it.need);
}

bool parser::read_guard_of(op& it) {
  const std::size_t at = next().at;
  std::size_t number = 0;
  if (!read_number(number, k_most_guards)) return false;
  if (number == 0 || number > guards_.size()) return fail(at, "there is no guard " + std::to_string(number));
  it.guard = number & k_most_guards;
  return true;
}

bool parser::read_successors(op_id id) {
  if (!take("then")) return true;
  op_id last = id;
  do {
    const std::size_t at = next().at;
    op_id successor = 0;
    if (!read_number(successor)) return false;
    if (successor <= last)
      return fail(at, "op " + std::to_string(successor) + " does not come after op " + std::to_string(last) +
                          ": successors are listed in ascending order and have higher numbers than their op");
    deps_.emplace_back(id, successor);
    last = successor;
  } while (next().what == token::word);
  return true;
}

void parser::append(const op& it) {
  switch (it.kind) {
    case op_kind::nop: made_.nop(); break;
    case op_kind::send: made_.send(it.peer, it.tag, it.a, it.count); break;
    case op_kind::recv: made_.recv(it.peer, it.tag, it.c, it.count); break;
    case op_kind::compute: made_.compute(it.what, {it.a, it.b, it.s, it.c}, it.count, it.tag); break;
    case op_kind::signal_send: made_.signal_send(it.peer, it.tag); break;
    case op_kind::signal_recv: made_.signal_recv(it.peer, it.tag); break;
    case op_kind::capture: made_.capture(it.what, it.c, it.count); break;
  }
}

// --- judgement ---------------------------------------------------------------------------------------------

bool parser::compile() {
  for (const auto& [before, after] : deps_) {
    made_.dep(before, after);
    if (!is_sound(lines_[before])) return false;
  }
  const auto made = made_.compile();
  if (!made) return fail(made.error().op < lines_.size() ? lines_[made.error().op] : on_device_, made.error());
  program_ = *made;
  return true;
}

/// Steps over one of the things that a file may leave out; false: there is none here.
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

/// The line of `text` that has the byte `at`, without its end.
std::string_view line_at(std::string_view text, std::size_t at) {
  const std::size_t begin = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;  // npos + 1 is 0
  return text.substr(begin, text.find('\n', begin) - begin);
}

/// Every word of the file stands in to_text's, in the same order, and what it left out is derived.
bool parser::compare() {
  const std::string whole = to_text(*program_);
  scanner said(text_, begin_), meant(whole, 0);
  while (said.next().at < next().at) {
    if (said.next() == meant.next()) {
      said.advance();
      meant.advance();
    } else if (!skip_derived(meant)) {
      return fail(said.next().at, shown(said.next()) + " contradicts the rest of the file, by which this line is: " +
                                      shown(line_at(whole, meant.next().at)));
    }
  }
  return true;
}

// --- one world ---------------------------------------------------------------------------------------------

/// A schedule and where in the text it begins.
struct part {
  schedule_ptr program;
  std::size_t at;
};

result<std::vector<part>> parse_parts(std::string_view text) {
  std::vector<part> parts;
  std::size_t at = 0;
  do {
    parser one(text, at);
    if (!one.read()) return one.why();
    parts.push_back({one.program(), one.begin()});
    at = one.next().at;
  } while (at < text.size());
  return parts;
}

result<std::vector<schedule_ptr>> world_of(std::string_view text, std::vector<part> parts) {
  const auto rank_of = [](const part& it) { return it.program->place().self; };
  const schedule& first = *parts.front().program;
  for (const part& it : parts) {
    if (it.program->place().size != first.place().size)
      return located(text, it.at,
                     "this schedule is of a world of " + counted(it.program->place().size, "rank") +
                         ", and the first one of " + std::to_string(first.place().size));
    if (it.program->name() != first.name())
      return located(text, it.at, "this schedule has another name than the first one");
  }
  std::stable_sort(parts.begin(), parts.end(), [&](const part& x, const part& y) { return rank_of(x) < rank_of(y); });
  std::vector<schedule_ptr> programs;
  for (const part& it : parts) {
    const auto wanted = static_cast<rank>(programs.size());
    if (rank_of(it) < wanted) return located(text, it.at, "rank " + std::to_string(rank_of(it)) + " is here twice");
    if (rank_of(it) > wanted) break;
    programs.push_back(it.program);
  }
  if (programs.size() < static_cast<std::size_t>(first.place().size))
    return located(
        text, text.size(),
        "rank " + std::to_string(programs.size()) + " of " + std::to_string(first.place().size) + " is missing");
  return programs;
}

}  // namespace

result<schedule_ptr> parse_schedule(std::string_view text) {
  parser one(text, 0);
  if (!one.read() || !one.end_text()) return one.why();
  return one.program();
}

result<std::vector<schedule_ptr>> parse_world(std::string_view text) {
  auto parts = parse_parts(text);
  if (!parts) return parts.error();
  return world_of(text, std::move(*parts));
}

result<schedule_ptr> parse_part(std::string_view text, world place) {
  auto parts = parse_parts(text);
  if (!parts) return parts.error();
  part mine = parts->front();
  if (parts->size() > 1) {
    const auto programs = world_of(text, std::move(*parts));
    if (!programs) return programs.error();
    if (place.size == mine.program->place().size) mine.program = (*programs)[static_cast<std::size_t>(place.self)];
  }
  if (mine.program->place() == place) return mine.program;
  const auto words = [](world it) { return "rank " + std::to_string(it.self) + " of " + std::to_string(it.size); };
  return located(text, mine.at,
                 failure{status::mismatch,
                         "the schedule is for " + words(mine.program->place()) + ", and this is " + words(place)});
}

std::string escaped(std::string_view name) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const char letter : name) {
    const auto code = static_cast<unsigned char>(letter);
    if (code >= 0x20 && code < 0x7f && letter != '"' && letter != '\\')
      text += letter;
    else
      text.append("\\x").append(1, digits[code >> 4]).append(1, digits[code & 15]);
  }
  return text;
}

}  // namespace lsched
