// A picture that gnuplot draws from two files, which are left beside it.
//
// NAME.png is drawn by NAME.gp from NAME.dat. Long work that ends in a picture asks validate() first.
#pragma once

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ops/status.h"

namespace lsched {

/// As gnuplot reads it: its single-quoted strings escape nothing but the quote itself.
inline std::string quoted_for_gnuplot(const std::filesystem::path& path) {
  std::string word = "'";
  for (const char c : path.string()) word += c == '\'' ? std::string("''") : std::string(1, c);
  return word + "'";
}

struct plot_curve {
  std::string name;
  std::string style;  ///< as gnuplot has it after `with`
  std::vector<std::pair<double, double>> points{};
};

/// One of the diagrams of a picture, which stand below each other.
struct plot_diagram {
  std::string settings;  ///< lines of gnuplot; those of the diagrams above stay in force
  std::vector<plot_curve> curves{};

  /// The curve of that name; added if there is none.
  plot_curve& named(const std::string& name, const std::string& style) {
    const auto found = std::ranges::find(curves, name, &plot_curve::name);
    return found != curves.end() ? *found : curves.emplace_back(plot_curve{name, style});
  }
};

class picture {
 public:
  explicit picture(std::filesystem::path png) : png_(std::move(png)), data_(png_), script_(png_) {
    data_.replace_extension(".dat");
    script_.replace_extension(".gp");
  }

  /// Why the picture or its files cannot be written, if so: ARGUMENT. Leaves nothing behind.
  std::optional<failure> validate() const {
    if (png_ == data_ || png_ == script_)
      return failure{status::argument, png_.string() + ": a picture's name ends in .png; .dat and .gp stand beside it"};
    for (const auto& path : {png_, data_, script_}) {
      const bool is_new = !std::filesystem::exists(path);
      if (!std::ofstream(path, std::ios::app))
        return failure{status::argument, "cannot write " + path.string() + ": " + std::strerror(errno)};
      if (is_new) std::filesystem::remove(path);
    }
    return std::nullopt;
  }

  /// Writes both files and has gnuplot draw. ARGUMENT: they cannot be written; UNSUPPORTED: there is no gnuplot;
  /// TRANSPORT: it does not start, or refuses the script.
  std::optional<failure> draw(const std::string& title, std::span<const plot_diagram> diagrams) const {
    std::ofstream data(data_), script(script_);
    data.precision(9);
    script << "set terminal pngcairo size 1100," << 450 * diagrams.size() << " font 'sans,11'\n"
           << "set output " << quoted_for_gnuplot(png_) << "\nset termoption noenhanced\nset grid\nset lmargin 12\n"
           << "set multiplot layout " << diagrams.size() << ",1 title " << quoted_for_gnuplot(title) << "\n";
    std::size_t index = 0;
    for (const plot_diagram& diagram : diagrams) {
      script << diagram.settings;
      const char* separator = "plot ";
      for (const plot_curve& curve : diagram.curves) {
        data << "# " << curve.name << "\n";
        for (const auto& [x, y] : curve.points) data << x << " " << y << "\n";
        data << "\n\n";
        script << std::exchange(separator, ", \\\n  ") << quoted_for_gnuplot(data_) << " index " << index++
               << " using 1:2 with " << curve.style << " title " << quoted_for_gnuplot(curve.name);
      }
      script << "\n";
    }
    script << "unset multiplot\n";
    if (!data.flush()) return failure{status::argument, "cannot write " + data_.string()};
    if (!script.flush()) return failure{status::argument, "cannot write " + script_.string()};
    return run_gnuplot();
  }

 private:
  std::optional<failure> run_gnuplot() const {
    std::string command = "gnuplot", argument = script_.string();
    const std::array<char*, 3> arguments{command.data(), argument.data(), nullptr};
    pid_t process = 0;
    const int error = posix_spawnp(&process, command.c_str(), nullptr, nullptr, arguments.data(), environ);
    if (error != 0)
      return failure{error == ENOENT ? status::unsupported : status::transport,
                     "gnuplot did not start (" + std::string(std::strerror(error)) +
                         "): `apt-get install gnuplot-nox`, then `gnuplot " + argument + "`"};
    int ended = 0;
    while (waitpid(process, &ended, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(ended) && WEXITSTATUS(ended) == 0) return std::nullopt;
    return failure{status::transport, "gnuplot refused " + argument};
  }

  std::filesystem::path png_, data_, script_;
};

}  // namespace lsched
