#include "collectives/tuning_table.h"

#include <algorithm>
#include <limits>

#include "ops/number_text.h"

namespace lsched {
namespace {

constexpr std::string_view k_title = "libsched tuning ";
constexpr std::uint64_t k_endless = std::numeric_limits<std::uint64_t>::max();

class line_reader {
 public:
  line_reader(std::string_view line, std::uint32_t number) : rest_(line.substr(0, line.find('#'))), number_(number) {}

  /// Returns the next word, or an empty word at the end of the line.
  std::string_view word() {
    const std::size_t begin = std::min(rest_.find_first_not_of(" \t\r"), rest_.size());
    const std::size_t end = std::min(rest_.find_first_of(" \t\r", begin), rest_.size());
    const std::string_view found = rest_.substr(begin, end - begin);
    rest_.remove_prefix(end);
    return found;
  }
  void expect(std::string_view wanted) {
    if (word() != wanted) fail("\"" + std::string(wanted) + "\" is missing in this line: correct the line");
  }
  /// Returns true if the next word is `one`, and false if it is `other`.
  bool is_first(std::string_view one, std::string_view other) {
    const std::string_view found = word();
    if (found != one && found != other) fail(std::string(one) + " or " + std::string(other) + " is missing");
    return found == one;
  }
  /// Reads a number. If `most` is the largest number of its type, "max" is also accepted.
  template <class Number>
  Number number(Number least, Number most, const std::string& kind) {
    const std::string_view found = word();
    if (found == "max" && most == std::numeric_limits<Number>::max()) return most;
    const auto value = parse_number<Number>(found);
    if (value && *value >= least && *value <= most) return *value;
    fail("\"" + std::string(found) + "\" is not " + kind);
    return Number{};
  }
  template <class Integer>
  Integer whole_number(Integer least, Integer most) {
    return number(least, most, "a valid whole number from " + std::to_string(least) + " on");
  }
  double nanoseconds() { return number(0.0, 1e12, "a number of nanoseconds"); }
  void end() {
    if (const std::string_view more = word(); !more.empty()) fail("\"" + std::string(more) + "\" is not expected here");
  }
  /// Sets the error, unless an earlier error is already set.
  void fail(const std::string& why) {
    if (!error_) error_ = failure{status::argument, "tuning table, line " + std::to_string(number_) + ": " + why};
  }
  const std::optional<failure>& error() const { return error_; }
  std::uint32_t line() const { return number_; }

 private:
  std::string_view rest_;
  std::uint32_t number_;
  std::optional<failure> error_;
};

tuning_rule read_rule(std::string_view collective, line_reader& words) {
  constexpr rank k_most_ranks = std::numeric_limits<rank>::max() - 1;
  tuning_rule rule{.collective = std::string(collective), .line = words.line()};
  words.expect("ranks");
  rule.ranks = words.whole_number(1, k_most_ranks);
  rule.is_near = words.is_first("near", "far");
  rule.is_crowded = !words.is_first("roomy", "crowded");
  words.expect("bytes");
  rule.least_bytes = words.whole_number(std::uint64_t{0}, k_endless);
  rule.most_bytes = words.whole_number(rule.least_bytes, k_endless);
  rule.algorithm = words.word();
  if (rule.algorithm.empty()) words.fail("the name of an algorithm is missing");
  for (std::string_view option = words.word(); !option.empty() && !words.error(); option = words.word()) {
    if (option == "segment")
      rule.segment_bytes = words.whole_number(std::uint64_t{1}, k_endless - 1);
    else if (option == "radix")
      rule.radix = words.whole_number(2, k_most_ranks);
    else
      words.fail("\"" + std::string(option) + "\" is neither segment nor radix");
  }
  return rule;
}

void read_line(line_reader& words, tuning_table& table) {
  const std::string_view first = words.word();
  if (first.empty()) return;
  if (first != "wire" && first != "turn") return table.rules.push_back(read_rule(first, words));
  if (first == "turn") {
    table.turn = words.nanoseconds();
  } else {
    std::optional<wire_costs>& wire = words.is_first("near", "far") ? table.near : table.far;
    wire = wire_costs{words.nanoseconds(), words.nanoseconds(), words.nanoseconds()};
  }
  words.end();
}

}  // namespace

std::vector<const tuning_rule*> tuning_table::find(std::string_view collective, rank ranks, const topology& around,
                                                   std::uint64_t bytes) const {
  std::vector<const tuning_rule*> fitting;
  for (const tuning_rule& rule : rules)
    if (rule.collective == collective && rule.ranks == ranks && rule.is_near == around.is_one_node() &&
        rule.is_crowded == around.is_crowded() && rule.least_bytes <= bytes && bytes <= rule.most_bytes)
      fitting.push_back(&rule);
  return fitting;
}

result<tuning_table> parse_tuning(std::string_view text) {
  if (text.empty())
    return failure{status::argument, "the tuning table is empty: it must begin with \"libsched tuning 1\""};
  tuning_table table;
  for (std::uint32_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    line_reader words(line, number);
    const bool is_title = number == 1 && line.starts_with(k_title);
    if (is_title && line.substr(k_title.size()) != "1")
      return failure{status::unsupported, "the tuning table has another version than \"libsched tuning 1\": " +
                                              std::string(line.substr(0, 40))};
    if (number == 1 && !is_title) words.fail("a tuning table must begin with \"libsched tuning 1\"");
    if (number > 1) read_line(words, table);
    if (words.error()) return *words.error();
  }
  return table;
}

}  // namespace lsched
