#include "libsched/schedule/parser.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace lsched {
namespace {

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

}  // namespace

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
  version_ = static_cast<unsigned>(std::min<std::uint64_t>(number, k_text_version + 1));
  if (version_ >= k_first_text_version && version_ <= k_text_version) return true;
  const std::string why = "the file is of version " + shown(version.text) + ", and only versions " +
                          std::to_string(k_first_text_version) + " to " + std::to_string(k_text_version) +
                          " can be read";
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
  parameter_values with{};
  const bool is_read = expect("op") && expect(std::to_string(id)) && read_word(k_all_kinds, "a kind of op", it.kind) &&
                       read_work(it, with) && read_derived(it);
  if (!is_read) return false;
  append(it, with);
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

bool parser::read_work(op& it, parameter_values& with) {
  switch (it.kind) {
    case op_kind::nop: return true;
    case op_kind::send: return read_data(it, it.a) && read_peer(it, "to");
    case op_kind::recv: return read_data(it, it.c) && read_peer(it, "from");
    case op_kind::compute: return read_compute(it, with);
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
bool parser::read_compute(op& it, parameter_values& with) {
  if (!read_data(it, it.c) || !expect("=") || !read_word(k_all_kernels, "a kernel", it.what)) return false;
  const kernel_row& row = row_of(it.what);
  if (row.c.type != operand_type::elements && !read_word(k_types, "a dtype", it.type)) return false;
  const bool has_number_first = version_ == 2 && row.is(trait::function);
  if (has_number_first && !read_parameter(row.parameters.front(), with.front())) return false;
  std::uint64_t again = 0;
  for (const auto& [which, rule] : {std::pair{&op::a, row.a}, {&op::b, row.b}, {&op::s, row.s}}) {
    if (rule.need == operand_need::never || (rule.need == operand_need::optional && next().text != "by")) continue;
    if (rule.steers && !expect("by")) return false;
    const bool counts = which == &op::a && row.c.type == operand_type::sums;
    if (!read_region(it.*which, counts ? it.count : again)) return false;
  }
  return has_number_first || read_parameters(row, with);
}

bool parser::read_parameters(const kernel_row& row, parameter_values& with) {
  for (std::size_t i = 0; i < with.size() && row.parameters[i].exists(); ++i)
    if (!expect(version_ == 2 ? "by" : row.parameters[i].name) || !read_parameter(row.parameters[i], with[i]))
      return false;
  return true;
}

bool parser::read_parameter(const parameter_rule& rule, parameter& into) {
  std::uint64_t integer = 0;
  double real = 0;
  const bool is_integer = rule.type == parameter_type::integer;
  if (!(is_integer ? read_number(integer) : read_real(real))) return false;
  into = is_integer ? parameter(integer) : parameter(real);
  return true;
}

/// All words and symbols up to the next blank, of which compare() will see that to_text writes the number so.
bool parser::read_real(double& into) {
  const token first = next();
  std::size_t end = first.at;
  for (; next().at == end && (next().what == token::word || next().what == token::symbol); in_.advance())
    end += next().text.size();
  const char* const begin = text_.data() + first.at;
  const auto [stop, why] = std::from_chars(begin, text_.data() + end, into);
  if (why == std::errc{} && stop == text_.data() + end && end != first.at) return true;
  return fail(first.at, "expected a number but found " + shown(first));
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

void parser::append(const op& it, const parameter_values& with) {
  switch (it.kind) {
    case op_kind::nop: made_.nop(); break;
    case op_kind::send: made_.send(it.peer, it.tag, it.a, it.count); break;
    case op_kind::recv: made_.recv(it.peer, it.tag, it.c, it.count); break;
    case op_kind::compute: made_.compute(it.what, {it.a, it.b, it.s, it.c}, it.count, with); break;
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

/// Every word of the file stands in to_text's, in the same order, and what it left out is derived.
bool parser::compare() {
  const std::string whole = to_text(*program_, version_);
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

}  // namespace lsched
