// The results of a world: a table that includes the expected results, JSON, and a plot.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "options.h"
#include "polynomial.h"

/// The way to combine gradients. `alone`: only the gradients of rank 0 are used.
enum class way { alone, mean, adasum };

inline const char* name_of(way by) {
  constexpr std::array<const char*, 3> k_names{"one rank", "mean", "adasum"};
  return k_names[static_cast<std::size_t>(by)];
}

/// The fits at all learning rates.
struct sweep {
  way by = way::alone;
  int ranks = 1;
  int x_max = 1;
  std::vector<std::int32_t> steps{};  ///< number of steps of the fit at each rate; 0: the fit does not end
};

/// The best result of a sweep.
struct best {
  int steps = 0;  ///< minimum number of steps over all rates; 0: the fit ends at no rate
  double rate = 0;
  int converging = 0;  ///< number of rates at which the fit ends; 0 in an expected result: unknown
};

inline best best_of(const options& how, const sweep& of) {
  best it;
  for (int i = 0; i < how.rates; ++i) {
    const int steps = of.steps[static_cast<std::size_t>(i)];
    if (steps == 0) continue;
    ++it.converging;
    if (it.steps == 0 || steps < it.steps) it.steps = steps, it.rate = static_cast<double>(how.rate(i));
  }
  return it;
}

/// Returns the results that an emulation of all ranks in one program has found. The emulation rounds differently, so a
/// gradient may become zero some steps earlier or later.
inline std::optional<best> emulated(const options& how, const sweep& of) {
  struct row {
    int ranks;
    best mean[2], adasum[2];  ///< index 0: x_max is 1; index 1: x_max is 2
  };
  static constexpr row k_square[] = {{1, {{38, .31, 17}, {40, .16, 5}}, {}},
                                     {2, {{37, .58, 32}, {35, .25, 25}}, {{23, .36, 35}, {27, .16, 15}}},
                                     {4, {{32, .65, 32}, {25, .41, 40}}, {{17, .40, 39}, {21, .18, 23}}},
                                     {8, {{28, .62, 36}, {15, .41, 53}}, {{14, .34, 38}, {18, .17, 22}}},
                                     {16, {{27, .72, 37}, {14, .43, 48}}, {{15, .36, 41}, {14, .17, 20}}}};
  static constexpr row k_cubic[] = {{2, {{66}, {91}}, {{48}, {106}}},
                                    {4, {{67}, {66}}, {{48}, {65}}},
                                    {8, {{77}, {62}}, {{36}, {64}}},
                                    {16, {{84}, {40}}, {{33}, {53}}}};
  for (const row& it : how.is_cubic ? std::span<const row>(k_cubic) : std::span<const row>(k_square)) {
    const best& found = (of.by == way::adasum ? it.adasum : it.mean)[of.x_max - 1];
    if (it.ranks == of.ranks && found.steps != 0) return found;
  }
  return std::nullopt;
}

inline std::string words_of(const best& it) {
  char text[64];
  if (it.steps == 0) return "  –";
  if (it.converging == 0)
    std::snprintf(text, sizeof text, "%3d", it.steps);
  else
    std::snprintf(text, sizeof text, "%3d (%.2f) %4d", it.steps, it.rate, it.converging);
  return text;
}

/// Prints a line if the minimum number of steps differs from the emulation. The line includes the steps of this run at
/// the emulation's rate, if that rate was tried.
inline void print_difference(const options& how, const sweep& of) {
  const best found = best_of(how, of);
  const auto expected = emulated(how, of);
  if (!expected || found.steps == 0 || found.steps == expected->steps) return;
  std::size_t there = 0;  // index of the emulation's best rate
  while (there < of.steps.size() &&
         std::abs(static_cast<double>(how.rate(static_cast<int>(there))) - expected->rate) > .005)
    ++there;
  if (expected->rate != 0 && there == of.steps.size()) return;
  std::printf("x_max %d, %s: measured %d, emulated %d", of.x_max, name_of(of.by), found.steps, expected->steps);
  if (expected->rate == 0)
    std::printf("\n");
  else if (of.steps[there] == 0)
    std::printf(", at rate %.2f, where the measured fit does not converge\n", expected->rate);
  else
    std::printf(", at rate %.2f, where %d steps were measured\n", expected->rate, of.steps[there]);
}

inline void print_table(const options& how, const std::vector<sweep>& sweeps) {
  const polynomial curve{how.is_cubic};
  std::printf("%s, %d ranks: fewest steps (and their learning rate), and how many of %d rates converge in %d steps\n\n",
              how.is_cubic ? "cubic" : "square", sweeps.back().ranks, how.rates, curve.most_steps());
  std::printf("%5s  %-9s %-18s %-18s\n", "x_max", "gradient", "measured", "emulated");
  for (const sweep& it : sweeps) {
    const auto expected = emulated(how, it);
    std::printf("%5d  %-9s %-18s %-18s\n", it.x_max, name_of(it.by), words_of(best_of(how, it)).c_str(),
                expected ? words_of(*expected).c_str() : "");
  }
  std::printf(
      "\nemulated: all ranks in one program, with different rounding\n"
      "published: Adasum takes up to 50 %% fewer steps, at 2 to 2.5 times one rank's best rate\n");
  for (const sweep& it : sweeps) print_difference(how, it);
  for (std::size_t i = 0; i + 2 < sweeps.size(); i += 3) {
    const best one = best_of(how, sweeps[i]), mean = best_of(how, sweeps[i + 1]), adasum = best_of(how, sweeps[i + 2]);
    if (one.steps == 0 || mean.steps == 0 || adasum.steps == 0) continue;
    std::printf("x_max %d: Adasum takes %.0f %% %s steps, at %.1f times one rank's best rate; the mean at %.1f times\n",
                sweeps[i].x_max, std::abs(100.0 * (mean.steps - adasum.steps) / mean.steps),
                adasum.steps > mean.steps ? "more" : "fewer", adasum.rate / one.rate, mean.rate / one.rate);
  }
}

inline void print_json(const options& how, const std::vector<sweep>& sweeps) {
  for (const sweep& it : sweeps) {
    const best found = best_of(how, it);
    std::printf("{\"mode\":\"%s\",\"ranks\":%d,\"x_max\":%d,\"gradient\":\"%s\",\"rates\":%d,\"converging\":%d,",
                how.is_cubic ? "cubic" : "square", it.ranks, it.x_max, name_of(it.by), how.rates, found.converging);
    if (found.steps != 0) std::printf("\"best_steps\":%d,\"best_rate\":%.2f,", found.steps, found.rate);
    if (const auto expected = emulated(how, it)) std::printf("\"emulated_steps\":%d,", expected->steps);
    std::printf("\"steps\":[");
    for (std::size_t i = 0; i < it.steps.size(); ++i) std::printf("%s%d", i == 0 ? "" : ",", it.steps[i]);
    std::printf("]}\n");
  }
}

/// Plots the number of steps over the learning rate, with one plot for each x_max. Fits that do not end are plotted at
/// twice the maximum number of steps.
inline void draw(const options& how, const std::vector<sweep>& sweeps) {
  const int most = polynomial{how.is_cubic}.most_steps();
  std::ofstream data(how.plot + ".dat"), script(how.plot + ".gp");
  for (const sweep& of : sweeps) {
    data << "# " << name_of(of.by) << ", " << of.ranks << " ranks, x_max " << of.x_max << ": rate, steps\n";
    for (int i = 0; i < how.rates; ++i) {
      const int steps = of.steps[static_cast<std::size_t>(i)];
      data << how.rate(i) << ' ' << (steps == 0 ? 2 * most : steps) << '\n';
    }
    data << "\n\n";
  }
  script << "set terminal pngcairo size 1000,800 noenhanced font 'sans,12'\nset output '" << how.plot << ".png'\n"
         << "set grid\nset key right center\nset yrange [0:" << 2 * most + most / 10 << "]\n"
         << "set xlabel 'learning rate'\nset ylabel 'steps (" << 2 * most << ": does not converge)'\n"
         << "set multiplot layout 2,1\n";
  for (std::size_t i = 0; i < sweeps.size(); ++i) {
    const bool is_first = i % 3 == 0;
    if (is_first)
      script << (i == 0 ? "" : "\n") << "set title '" << (how.is_cubic ? "cubic" : "square") << ", "
             << sweeps.back().ranks << " ranks, x_max " << sweeps[i].x_max << "'\nplot ";
    script << (is_first ? "" : ", ") << "'" << how.plot << ".dat' index " << i << " with linespoints title '"
           << name_of(sweeps[i].by) << "'";
  }
  script << "\nunset multiplot\n";
  data.close();
  script.close();
  const bool is_drawn = std::system(("gnuplot '" + how.plot + ".gp'").c_str()) == 0;
  std::fprintf(stderr, is_drawn ? "plot: %s.png\n" : "gnuplot cannot draw %s.gp\n", how.plot.c_str());
}
