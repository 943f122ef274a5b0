// Command-line options of the example.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

struct options {
  int dimensions = 8192;
  int points = 32768;  ///< number of points of all ranks together
  int batch = 256;     ///< number of points per step on one rank; eight ranks use 2,048
  int epochs = 16;
  float rate = 0.05f;
  double step_ms = 32;  ///< time that each rank sleeps in each step, in addition to the arithmetic and to a delay
  std::vector<double> delays_ms{20, 30, 40};
  unsigned seed = 1;
  std::string plot;  ///< prefix of the plot's files; empty: no plot
};

inline std::optional<options> read_options(int count, char** words) {
  options how;
  for (int i = 1; i < count; i += 2) {
    const auto is = [&](const char* name) { return std::strcmp(words[i], name) == 0 && i + 1 < count; };
    if (is("--epochs"))
      how.epochs = std::atoi(words[i + 1]);
    else if (is("--dimensions"))
      how.dimensions = std::atoi(words[i + 1]);
    else if (is("--points"))
      how.points = std::atoi(words[i + 1]);
    else if (is("--batch"))
      how.batch = std::atoi(words[i + 1]);
    else if (is("--step-ms"))
      how.step_ms = std::atof(words[i + 1]);
    else if (is("--delay-ms"))
      how.delays_ms = {std::atof(words[i + 1])};
    else if (is("--plot"))
      how.plot = words[i + 1];
    else
      return std::fprintf(stderr,
                          "usage: lsched run -n 8 hyperplane [--epochs N] [--delay-ms MS] [--step-ms MS]\n"
                          "       [--dimensions N] [--points N] [--batch N] [--plot PREFIX]\n"),
             std::nullopt;
  }
  const bool is_sane = how.epochs > 0 && how.dimensions > 0 && how.batch > 0 && how.points >= how.batch;
  if (!is_sane) std::fprintf(stderr, "hyperplane: all numbers must be positive, and --points at least --batch\n");
  return is_sane ? std::optional(how) : std::nullopt;
}
