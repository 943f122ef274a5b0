// How results leave a benchmark: JSON lines, a table beside them, a picture, and progress on standard error.
//
// A result is the JSON object of its line. Columns say which of its keys the table shows. Rank 0 speaks; on other ranks
// everything is accepted and dropped.
#pragma once

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/gnuplot.h"
#include "bindings/progress_line.h"
#include "microbench/benchmarks.h"
#include "microbench/harness.h"

namespace lsched::bench {

using result = nlohmann::json;

/// A column of a table, filled from a key of each result: sizes ("bytes") as 64K, true as yes, wrong results marked,
/// lists joined by +, null as -, a key that is not there as nothing; one that no row has makes no column.
struct column {
  const char* heading;
  const char* key;
  int decimals;     ///< of numbers; negative: as the JSON line has them
  double factor;    ///< of numbers with decimals
  const char* per;  ///< the key of a divisor, if not null
  const char* unit;

  constexpr column(const char* heading_text, const char* key_name, int decimal_places = -1, double times = 1,
                   const char* divisor = nullptr, const char* unit_text = "")
      : heading(heading_text), key(key_name), decimals(decimal_places), factor(times), per(divisor), unit(unit_text) {}
};

/// A share of 1, in percent; and words, in multiples of k.
constexpr column percent(const char* heading, const char* key, int decimals = 2) {
  return {heading, key, decimals, 100, nullptr, " %"};
}
constexpr column per_k(const char* heading, const char* key) { return {heading, key, 2, 1, "k"}; }

/// us_min, us_median, us_p95 and rounds.
result times_of(const summary& us);
/// The columns of these.
inline constexpr column k_us_min("min us", "us_min", 2), k_us_median("median us", "us_median", 2),
    k_us_p95("p95 us", "us_p95", 2), k_rounds("rounds", "rounds"), k_wrong("wrong", "wrong");

/// Rows of text, a line each, right-aligned under their headings. Benchmarks choose columns that fit into
/// k_columns (bindings/wrapped_text.h); JSON has the rest.
class table {
 public:
  explicit table(std::vector<std::string> headings) : rows_{std::move(headings)} {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  void print(std::FILE* to) const;
  void print_markdown(std::FILE* to) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};
table table_of(std::span<const result> rows, std::span<const column> columns);

class reporter {
 public:
  /// Opens what the options name: JSON "-" is standard output (the rest then goes to standard error), else a file.
  /// Finds out whether the picture could be written. Introduces the world. Collective; every rank throws `agreed`
  /// if a file cannot be written.
  reporter(std::string_view name, const output_options& options, team& ranks);
  /// The same for a benchmark of one process; throws `failed`.
  reporter(std::string_view name, const output_options& options);

  /// The lines a report starts with: transport, ranks, cores, and the spin probe, during which other ranks sleep. Then,
  /// if options say so, binds the application thread of rank r to the r-th core of its machine, round robin. Results
  /// get what is said here as keys. Collective.
  void introduce(team& ranks);

  /// Writes a JSON line, and keeps the result for the table, which may show more than the line has. The same on every
  /// rank. Results of libsched that have violations, or are wrong, make the exit status 1.
  void add(result line, const result& for_table = {});
  /// The table of the results that were added since the last one.
  void print(std::initializer_list<column> columns);
  void print(const table& rows);
  /// Every result there was.
  const std::vector<result>& results() const { return results_; }
  /// One line for the reader of the table.
  [[gnu::format(printf, 2, 3)]] void say(const char* format, ...);
  /// What is going on now, on standard error if that is a terminal (bindings/progress_line.h).
  [[gnu::format(printf, 2, 3)]] void progress(const char* format, ...);

  /// `caveat`: what a reader must know of this benchmark; ranks, machine and date are said besides.
  /// On rank 0: writes NAME.dat and NAME.gp beside the picture, and has gnuplot draw it, if options ask for one. A
  /// gnuplot that refuses its script makes the exit status 1; one that is not installed does not. Throws `failed` if
  /// the files cannot be written.
  void draw(const std::string& title, std::span<const plot_diagram> diagrams, const std::string& caveat);

  /// The exit status, after a last line about what was wrong.
  int finish();

 private:
  struct file_closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  void open();

  std::string name_;
  const output_options& options_;
  bool is_root_;
  std::unique_ptr<std::FILE, file_closer> file_;
  std::FILE* json_ = nullptr;
  std::FILE* text_ = stdout;
  result common_;  ///< keys of every line
  std::vector<result> results_;
  std::size_t printed_ = 0;  ///< of the results
  bool is_right_ = true, is_drawn_ = true;
  progress_line line_;
};

}  // namespace lsched::bench
