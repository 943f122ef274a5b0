#include "microbench/computing.h"

#include <algorithm>

namespace lsched::bench {

void compute(std::uint64_t steps) {
  double a = 1, b = 1.5;
  for (std::uint64_t i = 0; i < steps; ++i) {
    a = a * 0.999999 + b;
    b = b * 0.999998 - a * 1e-9;
  }
  keep(&a);
  keep(&b);
}

std::uint64_t steps_for(team& ranks, double us) {
  constexpr std::uint64_t k_probe = 200'000;
  std::vector<double> probes;
  for (int i = 0; i < 5; ++i) {
    ranks.barrier();
    const auto start = clock::now();
    compute(k_probe);
    probes.push_back(ns_between(start, clock::now()) / 1e3);
  }
  const double probe_us = ranks.combine(summarise(std::move(probes)).median, LSCHED_MAX);
  return static_cast<std::uint64_t>(std::max(us / probe_us * static_cast<double>(k_probe), 1.0));
}

}  // namespace lsched::bench
