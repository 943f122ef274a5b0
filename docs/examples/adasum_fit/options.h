// What the example can be asked for.
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
  std::string plot;  ///< prefix of the picture's files; empty: none
  bool wants_help = false;

  /// As published. The cubic's best rates begin lower.
  float rate(int i) const { return static_cast<float>((is_cubic ? 0.02 : 0.1) + 0.01 * i); }
};

inline void print_usage(std::FILE* to) {
  std::fprintf(to,
               "usage: lsched run -n RANKS adasum_fit [--mode square|cubic] [--plot PREFIX] [--json] [--rates N]\n\n"
               "Fits the coefficients of a polynomial by SGD, one point per rank and step, with gradients combined by\n"
               "the mean and by Adasum. Tells how many steps each takes at which learning rate. RANKS: 2, 4, 8, 16.\n\n"
               "  --mode square   x^2 - 20x + 50, two coefficients unknown (default)\n"
               "  --mode cubic    10x^3 + 5x^2 - 20x - 5, three unknown\n"
               "  --plot PREFIX   steps by learning rate: PREFIX.png, drawn by gnuplot from PREFIX.gp and PREFIX.dat\n"
               "  --json          instead of the table an object for each line of it\n"
               "  --rates N       learning rates 0.10, 0.11 and so on, of the cubic 0.02, 0.03; 150\n");
}

/// Nothing, once it has said why, if it cannot be made out.
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
      std::fprintf(stderr, "adasum_fit: cannot make out %s\n", words[i]);
      print_usage(stderr);
      return std::nullopt;
    }
  }
  return how;
}
