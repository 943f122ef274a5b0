#include "collectives/tuning_table.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace lsched {
namespace {

constexpr std::string_view k_title = "libsched tuning ";
constexpr std::uint64_t k_endless = std::numeric_limits<std::uint64_t>::max();

/// The words of one line, one after the other.
class line_reader {
 public:
  line_reader(std::string_view line, std::uint32_t number) : rest_(line.substr(0, line.find('#'))), number_(number) {}

  /// The next word; empty at the end.
  std::string_view word() {
    const std::size_t begin = std::min(rest_.find_first_not_of(" \t\r"), rest_.size());
    const std::size_t end = std::min(rest_.find_first_of(" \t\r", begin), rest_.size());
    const std::string_view found = rest_.substr(begin, end - begin);
    rest_.remove_prefix(end);
    return found;
  }
  void expect(std::string_view wanted) {
    if (word() != wanted) object("\"" + std::string(wanted) + "\" is missing");
  }
  /// The first or the second of two words.
  bool is_first(std::string_view one, std::string_view other) {
    const std::string_view found = word();
    if (found != one && found != other) object(std::string(one) + " or " + std::string(other) + " is missing");
    return found == one;
  }
  std::uint64_t number(std::uint64_t least, std::uint64_t most) {
    const std::string_view found = word();
    if (found == "max" && most == k_endless) return k_endless;
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(found.data(), found.data() + found.size(), value);
    if (error != std::errc() || end != found.data() + found.size() || value < least || value > most)
      object("\"" + std::string(found) + "\" is not a whole number from " + std::to_string(least) +
             " on that can be used here");
    return value;
  }
  double nanoseconds() {
    const std::string_view found = word();
    double value = 0;
    const auto [end, error] = std::from_chars(found.data(), found.data() + found.size(), value);
    if (error != std::errc() || end != found.data() + found.size() || !(value >= 0 && value < 1e12))
      object("\"" + std::string(found) + "\" is not a number of nanoseconds");
    return value;
  }
  void end() {
    if (const std::string_view more = word(); !more.empty())
      object("\"" + std::string(more) + "\" is one word too many");
  }
  /// The first objection counts.
  void object(std::string why) {
    if (!why_)
      why_ = failure{status::argument, "tuning table, line " + std::to_string(number_) + ": " + std::move(why)};
  }
  const std::optional<failure>& validate() const { return why_; }
  std::uint32_t number_of_line() const { return number_; }

 private:
  std::string_view rest_;
  std::uint32_t number_;
  std::optional<failure> why_;
};

tuning_rule read_rule(std::string_view collective, line_reader& line) {
  constexpr std::uint64_t k_most_ranks = std::numeric_limits<rank>::max();
  tuning_rule it{.collective = std::string(collective), .line = line.number_of_line()};
  line.expect("ranks");
  it.ranks = static_cast<rank>(line.number(1, k_most_ranks));
  it.is_near = line.is_first("near", "far");
  it.is_crowded = !line.is_first("roomy", "crowded");
  line.expect("bytes");
  it.least_bytes = line.number(0, k_endless);
  it.most_bytes = line.number(it.least_bytes, k_endless);
  it.algorithm = line.word();
  if (it.algorithm.empty()) line.object("no algorithm");
  for (std::string_view option = line.word(); !option.empty() && !line.validate(); option = line.word()) {
    if (option == "segment")
      it.segment_bytes = line.number(1, k_endless - 1);
    else if (option == "radix")
      it.radix = static_cast<rank>(line.number(2, k_most_ranks));
    else
      line.object("\"" + std::string(option) + "\" is neither segment nor radix");
  }
  return it;
}

void read_line(line_reader& line, tuning_table& table) {
  const std::string_view first = line.word();
  if (first.empty()) return;
  if (first == "wire") {
    std::optional<wire_costs>& wire = line.is_first("near", "far") ? table.near : table.far;
    wire = wire_costs{line.nanoseconds(), line.nanoseconds(), line.nanoseconds()};
    return line.end();
  }
  if (first == "turn") {
    table.turn = line.nanoseconds();
    return line.end();
  }
  table.rules.push_back(read_rule(first, line));
}

std::string text_of(double value) {
  char digits[32];
  return {digits, std::to_chars(digits, digits + sizeof digits, value).ptr};
}

std::string text_of(std::uint64_t bytes) { return bytes == k_endless ? "max" : std::to_string(bytes); }

std::string text_of(std::string_view name, const std::optional<wire_costs>& wire) {
  if (!wire) return {};
  return "wire " + std::string(name) + " " + text_of(wire->hop) + " " + text_of(wire->message) + " " +
         text_of(wire->byte) + "\n";
}

std::string text_of(const tuning_rule& it) {
  std::string text = it.collective + " ranks " + std::to_string(it.ranks) + (it.is_near ? " near" : " far");
  text +=
      (it.is_crowded ? " crowded bytes " : " roomy bytes ") + text_of(it.least_bytes) + " " + text_of(it.most_bytes);
  text += " " + it.algorithm;
  if (it.segment_bytes != 0) text += " segment " + std::to_string(it.segment_bytes);
  if (it.radix != 0) text += " radix " + std::to_string(it.radix);
  return text + "\n";
}

}  // namespace

std::vector<const tuning_rule*> tuning_table::find(std::string_view collective, rank ranks, const topology& around,
                                                   std::uint64_t bytes) const {
  std::vector<const tuning_rule*> fitting;
  for (const tuning_rule& it : rules)
    if (it.collective == collective && it.ranks == ranks && it.is_near == around.is_one_node() &&
        it.is_crowded == around.is_crowded() && it.least_bytes <= bytes && bytes <= it.most_bytes)
      fitting.push_back(&it);
  return fitting;
}

result<tuning_table> parse_tuning(std::string_view text) {
  tuning_table table;
  std::uint32_t number = 0;
  bool has_title = false;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    line_reader reader(line, ++number);
    if (has_title) {
      read_line(reader, table);
    } else if (line == std::string(k_title) + "1") {
      has_title = true;
    } else if (line.starts_with(k_title)) {
      return failure{status::unsupported,
                     "this is another version of a tuning table: " + std::string(line.substr(0, 40))};
    } else {
      reader.object("a tuning table begins with \"libsched tuning 1\"");
    }
    if (reader.validate()) return *reader.validate();
  }
  if (!has_title) return failure{status::argument, "an empty tuning table: it begins with \"libsched tuning 1\""};
  return table;
}

std::string to_text(const tuning_table& table) {
  std::string text = std::string(k_title) + "1\n" + text_of("near", table.near) + text_of("far", table.far);
  if (table.turn) text += "turn " + text_of(*table.turn) + "\n";
  for (const tuning_rule& it : table.rules) text += text_of(it);
  return text;
}

}  // namespace lsched
