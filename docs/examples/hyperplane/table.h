// The results of all ranks: tables, and a plot.
#pragma once

#include <algorithm>
#include <cmath>
#include <fstream>
#include <lsched.hpp>
#include <string>
#include <vector>

#include "model.h"
#include "options.h"

/// The results of one rank in one run.
struct outcome {
  std::string name;
  double delay_ms = 0, seconds = 0;
  int steps = 0;
  std::uint64_t missed = 0;                     ///< number of results that this rank did not apply
  std::uint64_t staleness = 0;                  ///< maximum number of rounds by which a gradient of this rank was late
  std::uint64_t behind = 0;                     ///< number of rounds whose results this rank collected only after its
                                                ///< last step
  std::vector<std::vector<float>> snapshots{};  ///< weights at the end of each epoch
  std::vector<float> last{};                    ///< weights after all results have been collected
};

class summary {
 public:
  summary(lsched::world& world, const problem& plane, const options& how)
      : world_(world), how_(how), validation_(plane, 1'000'000, std::min(how.points, 2048)) {}

  void add_throughput(const outcome& mine) { speeds_.push_back(combined(mine)); }
  void add_replicas(const outcome& mine) { replicas_.push_back(combined(mine)); }

  /// Returns true if all losses are finite, and if all ranks end with the same weights, up to rounding, under each
  /// policy that drops no results.
  bool is_sound() const { return is_sound_; }

  void print() const {
    if (world_.rank() != 0) return;
    std::printf("%-14s %8s %10s %9s %10s %10s %10s\n", "policy", "delay ms", "steps/s", "speed-up", "loss", "staleness",
                "replicas");
    for (const line& it : speeds_)
      std::printf("%-14s %8g %10.2f %9.2f %10.4g %10.0f %10.2g\n", it.name.c_str(), it.delay_ms, it.steps_per_s,
                  it.steps_per_s / synchronous(it.delay_ms), it.losses.back(), it.staleness, it.distance_at_end);
    std::printf(
        "\nsolo, delay %g ms; effect of the lag on results that a rank does not collect in time\n"
        "%-22s %10s %10s %10s %10s %10s\n",
        replicas_.front().delay_ms, "lag", "loss", "missed", "behind", "distance", "in the end");
    for (const line& it : replicas_)
      std::printf("%-22s %10.4g %10.0f %10.0f %10.2g %10.2g\n", it.name.c_str(), it.losses.back(), it.missed, it.behind,
                  it.distances.back(), it.distance_at_end);
    std::printf(
        "\nThe paper's speed-ups of solo: 1.50, 1.75, 2.01. distance: largest distance of a replica from the mean,\n"
        "relative to the mean, after the last step; in the end: after all rounds are collected (replicas above).\n"
        "missed: results that were replaced before a rank collected them; behind: rounds collected only in the end.\n"
        "Remaining loss: %.3g.\n",
        problem::k_noise * problem::k_noise / 3.0);
    if (!how_.plot.empty()) draw();
  }

 private:
  struct line {
    std::string name;
    double delay_ms = 0, steps_per_s = 0, missed = 0, staleness = 0, behind = 0, seconds = 0, distance_at_end = 0;
    std::vector<double> losses{}, distances{};  ///< one element per epoch
  };

  double synchronous(double delay_ms) const {
    for (const line& it : speeds_)
      if (it.delay_ms == delay_ms) return it.steps_per_s;  // the first line with this delay is the synchronous run
    return 1;
  }

  double over_ranks(double value, lsched_reduction how) {
    std::vector<double> one{value};
    world_.allreduce(std::span(one), how).run(std::chrono::seconds(60));
    return one.front();
  }

  /// Returns the largest distance of a rank's weights from the mean over ranks, relative to the length of the mean.
  double distance(const std::vector<float>& weights) {
    std::vector<double> mean(weights.begin(), weights.end());
    world_.allreduce(std::span(mean)).run(std::chrono::seconds(60));
    double off = 0, length = 0;
    for (std::size_t i = 0; i < mean.size(); ++i) {
      mean[i] /= world_.size();
      off += (weights[i] - mean[i]) * (weights[i] - mean[i]);
      length += mean[i] * mean[i];
    }
    return over_ranks(std::sqrt(off / std::max(length, 1e-30)), LSCHED_MAX);
  }

  line combined(const outcome& mine) {
    line it{.name = mine.name, .delay_ms = mine.delay_ms};
    it.seconds = over_ranks(mine.seconds, LSCHED_MAX);
    it.steps_per_s = mine.steps / it.seconds;
    it.missed = over_ranks(static_cast<double>(mine.missed), LSCHED_SUM);
    it.staleness = over_ranks(static_cast<double>(mine.staleness), LSCHED_MAX);
    it.behind = over_ranks(static_cast<double>(mine.behind), LSCHED_MAX);
    for (const auto& weights : mine.snapshots) {
      it.distances.push_back(distance(weights));
      it.losses.push_back(over_ranks(world_.rank() == 0 ? validation_.loss(weights) : 0, LSCHED_MAX));
    }
    it.distance_at_end = distance(mine.last);
    const bool loses_nothing = mine.name.find("latest") == std::string::npos;
    if (loses_nothing && it.distance_at_end > 1e-5) is_sound_ = false;
    if (mine.name.starts_with("history") && it.behind == 0 && it.distance_at_end != 0) is_sound_ = false;
    if (!std::isfinite(it.losses.back())) is_sound_ = false;
    return it;
  }

  /// Plots with gnuplot. The data file has a block for each line. The script refers to blocks by number.
  void draw() const {
    std::ofstream data(how_.plot + ".dat"), script(how_.plot + ".gp");
    const auto write = [&](const std::vector<line>& lines) {
      for (const line& it : lines) {
        data << "# " << it.name << ", " << it.delay_ms << " ms: seconds, loss, distance\n";
        for (std::size_t i = 0; i < it.losses.size(); ++i)
          data << it.seconds * static_cast<double>(i + 1) / static_cast<double>(it.losses.size()) << ' ' << it.losses[i]
               << ' ' << std::max(it.distances[i], 1e-9) << '\n';
        data << "\n\n";
      }
    };
    write(speeds_);
    write(replicas_);
    script << "set terminal pngcairo size 1000,900 noenhanced font 'sans,12'\nset output '" << how_.plot << ".png'\n"
           << "set grid\nset logscale y\nset key outside right\nset multiplot layout 2,1\n"
           << "set xlabel 'training time [s]'\nset ylabel 'validation loss'\nplot ";
    const auto plot = [&](const std::vector<line>& lines, std::size_t from, int column, bool says_delay) {
      for (std::size_t i = 0; i < lines.size(); ++i)
        script << (i == 0 ? "" : ", ") << "'" << how_.plot << ".dat' index " << from + i << " using 1:" << column
               << " with linespoints title '" << lines[i].name << (says_delay ? ", ms late: " : "")
               << (says_delay ? std::to_string(lines[i].delay_ms).substr(0, 2) : "") << "'";
      script << '\n';
    };
    plot(speeds_, 0, 2, true);
    script << "set ylabel 'distance of replicas (solo)'\nplot ";
    plot(replicas_, speeds_.size(), 3, false);
    script << "unset multiplot\n";
    script.close();
    data.close();
    const bool is_drawn = std::system(("gnuplot '" + how_.plot + ".gp'").c_str()) == 0;
    std::printf(is_drawn ? "plot: %s.png\n" : "gnuplot cannot draw %s.gp\n", how_.plot.c_str());
  }

  lsched::world& world_;
  const options& how_;
  const shard validation_;
  std::vector<line> speeds_, replicas_;
  bool is_sound_ = true;
};
