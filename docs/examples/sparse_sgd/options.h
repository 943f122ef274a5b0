// What the example can be asked for.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <lsched_sparse.hpp>
#include <optional>

struct options {
  double density = 0.02;
  const char* algorithm = "auto";
  lsched::rate_place rate = lsched::rate_place::inside;
  int steps = 600;
  bool as_json = false;
  bool wants_help = false;
};

inline void print_usage(std::FILE* to) {
  std::fprintf(
      to,
      "usage: lsched run -n RANKS sparse_sgd [--density D] [--algorithm NAME] [--outside] [--steps N] [--json]\n\n"
      "Fits a linear model by SGD, with all of the gradient and with the part that matters most. Fails if the\n"
      "second is not near the first in the end.\n\n"
      "  --density D        of the elements that travel, above 0 and at most 1; 0.02\n"
      "  --algorithm NAME   of the sparse allreduce; auto\n"
      "  --outside          the learning rate multiplies updates; without it, gradients\n"
      "  --steps N          at least 2; 600\n"
      "  --json             instead of the table one object\n");
}

/// Nothing, once it has said why, if it cannot be made out.
inline std::optional<options> read_options(int count, char** words) {
  options how;
  for (int i = 1; i < count; ++i) {
    const auto is = [&](const char* name) { return std::strcmp(words[i], name) == 0; };
    const char* const value = i + 1 < count ? words[i + 1] : "";
    if (is("--help") || is("-h")) {
      how.wants_help = true;
    } else if (is("--json")) {
      how.as_json = true;
    } else if (is("--outside")) {
      how.rate = lsched::rate_place::outside;
    } else if (is("--density") && std::atof(value) > 0 && std::atof(value) <= 1) {
      how.density = std::atof(words[++i]);
    } else if (is("--algorithm") && *value != '\0') {
      how.algorithm = words[++i];
    } else if (is("--steps") && std::atoi(value) >= 2) {
      how.steps = std::atoi(words[++i]);
    } else {
      std::fprintf(stderr, "sparse_sgd: cannot make out %s\n", words[i]);
      print_usage(stderr);
      return std::nullopt;
    }
  }
  return how;
}
