// The output of a benchmark: JSON lines, tables, a plot, and progress on standard error.
//
// A result is the JSON object of its line. Columns select the keys that the table shows. Only rank 0 writes. On other
// ranks the functions have no effect.
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

/// A column of a table, filled from a key of each result. Values of the key "bytes" are printed in the form 64K. The
/// value true is printed as yes, and null as -. Lists are joined by +. Wrong results are marked. If a result lacks the
/// key, its cell is empty. If all results lack the key, the table omits the column.
struct column {
  const char* heading;
  const char* key;
  int decimals;     ///< decimals of numbers; negative: as in the JSON line
  double factor;    ///< factor by which numbers with decimals are multiplied
  const char* per;  ///< key of a number by which values are divided, or null
  const char* unit;

  constexpr column(const char* heading_text, const char* key_name, int decimal_places = -1, double times = 1,
                   const char* divisor = nullptr, const char* unit_text = "")
      : heading(heading_text), key(key_name), decimals(decimal_places), factor(times), per(divisor), unit(unit_text) {}
};

/// Returns a column that prints a fraction of 1 in percent.
constexpr column percent(const char* heading, const char* key, int decimals = 2) {
  return {heading, key, decimals, 100, nullptr, " %"};
}
/// Returns a column that prints a number of words, divided by the value of the key `k`.
constexpr column per_k(const char* heading, const char* key) { return {heading, key, 2, 1, "k"}; }

/// Returns a result with the keys us_min, us_median, us_p95 and rounds.
result times_of(const summary& us);
/// Columns for the keys of times_of, and for the number of wrong results.
inline constexpr column k_us_min("min us", "us_min", 2), k_us_median("median us", "us_median", 2),
    k_us_p95("p95 us", "us_p95", 2), k_rounds("rounds", "rounds"), k_wrong("wrong", "wrong");

/// Rows of text, right-aligned under their headings. Benchmarks choose columns that fit into k_columns characters
/// (bindings/wrapped_text.h). Other numbers are only in the JSON lines.
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
  /// Opens the files that the options name, validates that the plot can be written, and calls introduce(). If the JSON
  /// path is "-", JSON lines go to standard output, and all other text goes to standard error. This constructor is
  /// collective. If a file cannot be written, every rank throws `agreed`.
  reporter(std::string_view name, const output_options& options, team& ranks);
  /// Opens the files for a benchmark of one process. Throws `failed`.
  reporter(std::string_view name, const output_options& options);

  /// Prints the first lines of a report: transport, ranks, cores, and the result of spin_probe_ns(). Other ranks sleep
  /// during the probe. These facts become keys of all results. With the option `pin`, binds the application thread of
  /// rank r to the r-th core of its machine, round robin. This function is collective.
  void introduce(team& ranks);

  /// Writes a JSON line. Keeps the result for the next table, with the additional keys `for_table`. All ranks pass the
  /// same result. If a result of libsched has violations or is wrong, the exit status becomes 1.
  void add(result line, const result& for_table = {});
  /// Prints a table of the results that were added since the last table.
  void print(std::initializer_list<column> columns);
  void print(const table& rows);
  /// Returns all results.
  const std::vector<result>& results() const { return results_; }
  /// Prints one line for the reader of the table.
  [[gnu::format(printf, 2, 3)]] void say(const char* format, ...);
  /// Shows the present step on standard error, if that is a terminal (bindings/progress_line.h).
  [[gnu::format(printf, 2, 3)]] void progress(const char* format, ...);

  /// Draws the plot on rank 0 if the options request a plot: writes NAME.dat and NAME.gp next to the plot, and runs
  /// gnuplot. `caveat` is a restriction that the reader must know. The plot shows the caveat with ranks, machine and
  /// date. The exit status becomes 1 if gnuplot rejects the script, but not if gnuplot is missing. Throws `failed` if
  /// the files cannot be written.
  void draw(const std::string& title, std::span<const plot_diagram> diagrams, const std::string& caveat);

  /// Returns the exit status. Prints a last line if a result was wrong.
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
  std::size_t printed_ = 0;  ///< number of results in earlier tables
  bool is_right_ = true, is_drawn_ = true;
  progress_line line_;
};

}  // namespace lsched::bench
