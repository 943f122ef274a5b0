// Command-line options of the example.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

struct options {
  bool is_cubic = false;
  int rates = 150;
  bool as_json = false;
  std::string plot;  ///< prefix of the plot's files; empty: no plot
  bool wants_help = false;

  /// Returns the i-th learning rate, as published. The best rates of the cubic begin lower.
  float rate(int i) const { return static_cast<float>((is_cubic ? 0.02 : 0.1) + 0.01 * i); }
};

inline void print_usage(std::FILE* to) {
  std::fprintf(to,
               "usage: lsched run -n RANKS adasum_fit [--mode square|cubic] [--plot PREFIX] [--json] [--rates N]\n\n"
               "Fits the coefficients of a polynomial by SGD, one point per rank and step, with gradients combined by\n"
               "the mean and by Adasum. Prints the number of steps at each learning rate. RANKS: 2, 4, 8, 16.\n\n"
               "  --mode square   x^2 - 20x + 50, two coefficients unknown (default)\n"
               "  --mode cubic    10x^3 + 5x^2 - 20x - 5, three unknown\n"
               "  --plot PREFIX   steps by learning rate: PREFIX.png, drawn by gnuplot from PREFIX.gp and PREFIX.dat\n"
               "  --json          a JSON object for each line of the table\n"
               "  --rates N       number of learning rates: 0.10, 0.11 and so on (cubic: 0.02, 0.03); default 150\n");
}

/// Reads the command line. If an argument is invalid, prints the reason and returns nothing.
inline std::optional<options> read_options(int count, char** words) {
  options how;
  for (int i = 1; i < count; ++i) {
    const auto is = [&](const char* name) { return std::strcmp(words[i], name) == 0; };
    const char* const value = i + 1 < count ? words[i + 1] : "";
    const bool is_mode = std::strcmp(value, "square") == 0 || std::strcmp(value, "cubic") == 0;
    if (is("--help") || is("-h")) {
      how.wants_help = true;
    } else if (is("--json")) {
      how.as_json = true;
    } else if (is("--mode") && is_mode) {
      how.is_cubic = std::strcmp(words[++i], "cubic") == 0;
    } else if (is("--plot") && *value != '\0') {
      how.plot = words[++i];
    } else if (is("--rates") && std::atoi(value) > 0) {
      how.rates = std::atoi(words[++i]);
    } else {
      std::fprintf(stderr, "adasum_fit: unknown argument %s\n", words[i]);
      print_usage(stderr);
      return std::nullopt;
    }
  }
  return how;
}
