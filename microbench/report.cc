#include "microbench/report.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdarg>
#include <cstring>
#include <ctime>
#include <fstream>
#include <thread>

#include "bindings/wrapped_text.h"
#include "offload/cores.h"
#include "ops/counted.h"

namespace lsched::bench {
namespace {

// Returns the width of a UTF-8 text in characters: the number of bytes that begin a character.
std::size_t width(std::string_view cell) {
  return static_cast<std::size_t>(
      std::count_if(cell.begin(), cell.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

bool tells_of_errors(std::string_view key) { return key == "wrong" || key == "violations"; }

std::string text_of(const result& value, const result& row, const column& c) {
  if (value.is_null()) return "-";
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array()) {
    std::string all;
    for (const result& each : value) all += (all.empty() ? "" : " + ") + text_of(each, row, c);
    return all;
  }
  if (std::string_view(c.key) == "bytes") return size_text(value.get<std::uint64_t>());
  if (tells_of_errors(c.key)) return value.dump() + (value > 0 ? " WRONG" : "");
  if (c.decimals < 0) return value.dump() + c.unit;
  const double divisor = c.per != nullptr ? row.at(c.per).get<double>() : 1;
  return text("%.*f%s", c.decimals, value.get<double>() * c.factor / divisor, c.unit);
}

void pin_application(const team& ranks, reporter& out) {
  const std::vector<unsigned>& cores = ranks.core_list();
  if (cores.empty()) throw failed("--pin: cannot read the affinity mask of this process");
  const unsigned core = cores[static_cast<std::size_t>(ranks.rank()) % cores.size()];
  if (!bind_this_thread(core)) throw failed("--pin: cannot bind the thread to core " + std::to_string(core));
  out.say("pinned: application thread of rank r on the r-th of %zu cores", cores.size());
}

std::string format(const char* layout, std::va_list arguments) {
  std::array<char, 1024> line{};
  std::vsnprintf(line.data(), line.size(), layout, arguments);
  return line.data();
}

}  // namespace

namespace {

std::string processor_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(std::min(line.find(':') + 2, line.size()));
  return "an unnamed processor";
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm day{};
  std::array<char, 32> text{};
  gmtime_r(&now, &day);
  std::strftime(text.data(), text.size(), "%Y-%m-%d", &day);
  return text.data();
}

/// Returns a sentence about ranks, machine and date. `common` has no key "ranks" if the benchmark counts in one
/// process.
std::string words_for_machine(const result& common) {
  std::string words;
  if (common.contains("ranks"))
    words = counted(common.at("ranks").get<int>(), "rank") + " over " + common.at("transport").get<std::string>() +
            (common.at("oversubscribed").get<bool>() ? ", more than cores (oversubscribed)" : ", one core per rank") +
            (common.at("pinned").get<bool>() ? ", pinned" : "") + ". ";
  return words + counted(usable_cores(), "core") + " of " + processor_model() + ", " + today() + ", libsched " +
         lsched_version() + ".";
}

}  // namespace

result times_of(const summary& us) {
  return {{"us_min", us.min}, {"us_median", us.median}, {"us_p95", us.p95}, {"rounds", us.samples}};
}

// ---- table ----

void table::print(std::FILE* to) const {
  std::vector<std::size_t> widths(rows_[0].size(), 0);
  for (const auto& row : rows_)
    for (std::size_t column = 0; column < row.size(); ++column)
      widths[column] = std::max(widths[column], width(row[column]));
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t column = 0; column < row.size(); ++column)
      line += std::string((column == 0 ? 0 : 2) + widths[column] - width(row[column]), ' ') + row[column];
    std::fprintf(to, "%s\n", line.c_str());
  }
}

void table::print_markdown(std::FILE* to) const {
  const auto print_row = [to](const std::vector<std::string>& row) {
    std::string line = "|";
    for (const std::string& cell : row) line += " " + cell + " |";
    std::fprintf(to, "%s\n", line.c_str());
  };
  print_row(rows_[0]);
  print_row(std::vector<std::string>(rows_[0].size(), "---"));
  for (std::size_t i = 1; i < rows_.size(); ++i) print_row(rows_[i]);
}

table table_of(std::span<const result> rows, std::span<const column> columns) {
  std::vector<std::string> headings;
  std::vector<column> shown;
  for (const column& c : columns)
    if (std::ranges::any_of(rows, [&](const result& row) { return row.contains(c.key); })) shown.push_back(c);
  for (const column& c : shown) headings.emplace_back(c.heading);
  table lines(std::move(headings));
  for (const result& row : rows) {
    std::vector<std::string> line;
    for (const column& c : shown) line.push_back(row.contains(c.key) ? text_of(row.at(c.key), row, c) : "");
    lines.add(std::move(line));
  }
  return lines;
}

// ---- reporter ----

reporter::reporter(std::string_view name, const output_options& options, team& ranks)
    : name_(name), options_(options), is_root_(ranks.is_root()), common_{{"bench", name}} {
  on_root(ranks, [&] { open(); });
  introduce(ranks);
}

reporter::reporter(std::string_view name, const output_options& options)
    : name_(name), options_(options), is_root_(true), common_{{"bench", name}} {
  open();
}

void reporter::open() {
  if (options_.json == "-") {
    json_ = stdout;
    text_ = stderr;
  } else if (!options_.json.empty()) {
    file_.reset(std::fopen(options_.json.c_str(), "w"));
    if (!file_) throw failed("cannot write " + options_.json + ": " + std::strerror(errno));
    json_ = file_.get();
  }
  if (options_.plot.empty()) return;
  if (const auto why = picture(options_.plot).validate()) throw failed(why->text);
}

void reporter::introduce(team& ranks) {
  ranks.barrier();
  common_.update({{"ranks", ranks.size()},
                  {"transport", options_.transport},
                  {"pinned", options_.pin},
                  {"oversubscribed", ranks.is_oversubscribed()}});
  if (is_root_) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // until the other ranks sleep in the next barrier
    const double spin_ns = spin_probe_ns(ranks.core_list());
    common_["spin_ns"] = std::round(spin_ns * 10) / 10;
    std::array<char, 256> world{};
    expect_ok(lsched_world_describe(ranks.runtime(), world.data(), world.size()), "lsched_world_describe");
    say("%s: %s", name_.c_str(), world.data());
    say("%s, %d of them on this machine, %s: %s; spin probe %.0f ns one way%s", counted(ranks.size(), "rank").c_str(),
        ranks.local_ranks(), counted(ranks.cores(), "core").c_str(),
        ranks.is_oversubscribed() ? "oversubscribed" : "one core per rank", spin_ns,
        spin_ns > 1000  ? " (a single core, or a busy machine)"
        : spin_ns > 100 ? " (the slow mode of a virtual machine, or distant cores)"
                        : "");
  }
  ranks.barrier();
  if (options_.pin) pin_application(ranks, *this);
}

void reporter::add(result line, const result& for_table) {
  result whole = common_;
  whole.update(line);
  for (const char* key : {"wrong", "violations"}) {
    if (!whole.contains(key)) continue;
    const auto count = whole[key].get<std::uint64_t>();
    whole[key] = count;
    is_right_ = is_right_ && (count == 0 || whole.value("impl", whole.value("what", "")) == "mpi");
  }
  if (json_ != nullptr) {
    const auto held = line_.erase();
    if (std::fprintf(json_, "%s\n", whole.dump().c_str()) < 0 || std::fflush(json_) != 0)
      throw failed("the results cannot be written: " + std::string(std::strerror(errno)));
  }
  if (!for_table.is_null()) whole.update(for_table);
  results_.push_back(std::move(whole));
}

void reporter::print(std::initializer_list<column> columns) {
  print(table_of(std::span(results_).subspan(printed_), columns));
}

void reporter::print(const table& rows) {
  printed_ = results_.size();
  if (!is_root_) return;
  const auto held = line_.erase();
  rows.print(text_);
  std::fflush(text_);
}

void reporter::say(const char* layout, ...) {
  if (!is_root_) return;
  const auto held = line_.erase();
  std::va_list arguments;
  va_start(arguments, layout);
  std::string line = format(layout, arguments);
  va_end(arguments);
  if (line.find("  ") == line.npos) line = wrapped(line);  // prose, not a row of a table
  std::fprintf(text_, "%s\n", line.c_str());
  std::fflush(text_);
}

void reporter::progress(const char* layout, ...) {
  if (!is_root_) return;
  std::va_list arguments;
  va_start(arguments, layout);
  line_.show([&] { return name_ + ": " + format(layout, arguments); });
  va_end(arguments);
}

void reporter::draw(const std::string& title, std::span<const plot_diagram> diagrams, const std::string& caveat) {
  if (!is_root_ || options_.plot.empty()) return;
  const auto why = picture(options_.plot).draw(title, diagrams, {caveat, words_for_machine(common_)});
  if (why && why->code == status::argument) throw failed(why->text);
  if (why)
    say("no plot: %s", why->text.c_str());
  else
    say("plot: %s", options_.plot.c_str());
  is_drawn_ = !why || why->code == status::unsupported;
}

int reporter::finish() {
  if (!is_right_) say("WRONG: libsched has returned wrong results, which the table marks");
  return is_right_ && is_drawn_ ? 0 : 1;
}

}  // namespace lsched::bench
