// Pictures that gnuplot draws. The picture NAME.png is drawn by the script NAME.gp from the data NAME.dat. All three
// files are kept.
//
// The diagrams of a picture are stacked. Each diagram has its key at the right, outside the data. Below the diagrams
// are caveats: facts that a reader must know to judge the numbers. A missing point is marked in the diagram, and listed
// among the caveats.
//
// Call validate() before long work that ends in a picture.
#pragma once

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "bindings/wrapped_text.h"
#include "ops/status.h"

namespace lsched {

/// Returns the path as a string of gnuplot. In single-quoted strings of gnuplot, only the quote must be escaped.
inline std::string quoted_for_gnuplot(const std::filesystem::path& path) {
  std::string word = "'";
  for (const char c : path.string()) word += c == '\'' ? std::string("''") : std::string(1, c);
  return word + "'";
}

struct plot_curve {
  std::string name;
  std::string style;  ///< the style of gnuplot after `with`
  std::vector<std::pair<double, double>> points{};
};

struct plot_diagram {
  std::string settings;  ///< gnuplot commands, none for the key. Settings of preceding diagrams remain in effect
  std::vector<plot_curve> curves{};
  bool shares_x = false;  ///< true if all curves should have points at the same x; missing points are then marked

  /// Returns the curve with that name. Adds the curve if it does not exist.
  plot_curve& named(const std::string& name, const std::string& style) {
    const auto found = std::ranges::find(curves, name, &plot_curve::name);
    return found != curves.end() ? *found : curves.emplace_back(plot_curve{name, style});
  }
};

/// An x value at which a curve has no point, or has a point that the axis cannot show.
struct missing_point {
  std::string curve;
  double x = 0;
};

/// Returns whether one of the two curves hides the other curve.
inline bool coincide(const plot_curve& one, const plot_curve& other) {
  constexpr double k_seen = 0.003;
  return one.points.size() > 1 && std::ranges::equal(one.points, other.points, [](const auto& x, const auto& y) {
           return x.first == y.first && std::abs(x.second - y.second) <= k_seen * std::abs(y.second);
         });
}

inline bool is_drawable(double y, bool is_log) { return std::isfinite(y) && (!is_log || y > 0); }

/// Returns the missing points in the order of curves.
inline std::vector<missing_point> missing_points(const plot_diagram& diagram, bool is_log) {
  std::set<double> all;
  for (const plot_curve& curve : diagram.curves)
    for (const auto& [x, y] : curve.points) all.insert(x);
  std::vector<missing_point> missing;
  for (const plot_curve& curve : diagram.curves) {
    std::set<double> shown, asked;
    for (const auto& [x, y] : curve.points) (is_drawable(y, is_log) ? shown : asked).insert(x);
    for (const double x : diagram.shares_x ? all : asked)
      if (!shown.contains(x)) missing.push_back({curve.name, x});
  }
  return missing;
}

class picture {
 public:
  explicit picture(std::filesystem::path png) : png_(std::move(png)), data_(png_), script_(png_) {
    data_.replace_extension(".dat");
    script_.replace_extension(".gp");
  }

  /// Returns ARGUMENT if one of the three files cannot be written. Leaves no new files behind.
  std::optional<failure> validate() const {
    if (png_ == data_ || png_ == script_)
      return failure{
          status::argument,
          png_.string() +
              ": the name of a picture must end in .png (.dat and .gp files are written to the same folder)"};
    for (const auto& path : {png_, data_, script_}) {
      const bool is_new = !std::filesystem::exists(path);
      if (!std::ofstream(path, std::ios::app))
        return failure{status::argument, "cannot write " + path.string() + ": " + std::strerror(errno)};
      if (is_new) std::filesystem::remove(path);
    }
    return std::nullopt;
  }

  /// Writes the data and the script, and runs gnuplot. Writes the caveats as wrapped lines below the diagrams. Returns
  /// ARGUMENT if a file cannot be written, UNSUPPORTED if gnuplot is not installed, and TRANSPORT if gnuplot does not
  /// start or refuses the script.
  std::optional<failure> draw(const std::string& title, std::span<const plot_diagram> diagrams,
                              const std::vector<std::string>& caveats = {}) const {
    std::ofstream data(data_), script(script_);
    data.precision(9);
    script << script_of(title, diagrams, caveats, data);
    if (!data.flush()) return failure{status::argument, "cannot write " + data_.string()};
    if (!script.flush()) return failure{status::argument, "cannot write " + script_.string()};
    return run_gnuplot();
  }

  /// Returns the script, and writes the points of all curves to `data`.
  std::string script_of(const std::string& title, std::span<const plot_diagram> diagrams,
                        const std::vector<std::string>& caveats, std::ostream& data) const {
    std::vector<bool> is_log;
    for (const plot_diagram& diagram : diagrams)
      is_log.push_back(has_log_y(diagram.settings, !is_log.empty() && is_log.back()));
    const std::vector<std::string> notes = notes_of(diagrams, is_log, caveats);
    const std::size_t key = key_columns(diagrams);
    const double below = 10 + k_note_height * static_cast<double>(notes.size());
    const double height = k_title_height + k_diagram_height * static_cast<double>(diagrams.size()) + below;
    std::ostringstream script;
    script << "set terminal pngcairo size " << 860 + 8 * key << "," << height << " font 'sans,11'\n"
           << "set output " << quoted_for_gnuplot(png_) << "\nset termoption noenhanced\nset grid\nset lmargin 12\n"
           << "set rmargin " << key << "\nset multiplot title " << quoted_for_gnuplot(title) << "\n";
    std::size_t index = 0;
    for (std::size_t i = 0; i < diagrams.size(); ++i) {
      script << "set origin 0," << (below + k_diagram_height * static_cast<double>(diagrams.size() - 1 - i)) / height
             << "\nset size 1," << k_diagram_height / height << "\n";
      // A diagram draws all labels that the script has set before. So the notes are set just before the last diagram.
      if (i + 1 == diagrams.size()) add_notes(script, notes, below, height);
      add_diagram(script, data, diagrams[i], is_log[i], index);
    }
    script << "unset multiplot\n";
    return script.str();
  }

 private:
  static constexpr double k_diagram_height = 430, k_title_height = 40, k_note_height = 18;
  static constexpr std::size_t k_first_note = 1000, k_first_mark = 2000;  ///< tags of labels

  /// Returns whether the y axis is logarithmic after these settings. `before` is the state before these settings.
  static bool has_log_y(const std::string& settings, bool before) {
    const auto last = [&](const char* words) { return settings.rfind(words); };
    const auto place = [](std::size_t found) {
      return found == std::string::npos ? -1 : static_cast<std::ptrdiff_t>(found);
    };
    const auto on = std::max(place(last("\nset logscale y")), place(last("set logscale xy")));
    const auto begins = settings.starts_with("set logscale y") ? 0 : -1;
    const auto off = place(last("unset logscale y"));
    if (std::max<std::ptrdiff_t>(on, begins) < 0 && off < 0) return before;
    return std::max<std::ptrdiff_t>(on, begins) > off;
  }

  static std::size_t key_columns(std::span<const plot_diagram> diagrams) {
    std::size_t longest = 0;
    for (const plot_diagram& diagram : diagrams)
      for (const plot_curve& curve : diagram.curves) longest = std::max(longest, columns_of(curve.name));
    return longest + 9;
  }

  static std::vector<std::string> notes_of(std::span<const plot_diagram> diagrams, const std::vector<bool>& is_log,
                                           const std::vector<std::string>& caveats) {
    constexpr std::size_t k_note_columns = 120;
    std::string missing;
    for (std::size_t i = 0; i < diagrams.size(); ++i)
      for (const missing_point& point : missing_points(diagrams[i], is_log[i])) {
        std::ostringstream where;
        where << (missing.empty() ? "" : ", ") << point.curve << " at " << point.x;
        if (missing.find(where.str()) == std::string::npos) missing += where.str();
      }
    std::vector<std::string> all = caveats, lines;
    for (const plot_diagram& diagram : diagrams)
      for (std::size_t i = 0; i < diagram.curves.size(); ++i)
        for (std::size_t j = 0; j < i; ++j)
          if (coincide(diagram.curves[j], diagram.curves[i]))
            all.push_back("One line hides another: " + diagram.curves[j].name + ", and " + diagram.curves[i].name +
                          ".");
    if (!missing.empty()) all.push_back("× no value: " + missing + ".");
    for (const std::string& note : all) {
      std::istringstream text(wrapped(note, 0, k_note_columns));
      for (std::string line; std::getline(text, line);) lines.push_back(line);
    }
    return lines;
  }

  static void add_notes(std::ostream& script, const std::vector<std::string>& notes, double below, double height) {
    for (std::size_t i = 0; i < notes.size(); ++i)
      script << "set label " << k_first_note + i << " " << quoted_for_gnuplot(notes[i]) << " at screen 0.01, screen "
             << (below - k_note_height * static_cast<double>(i + 1)) / height << " left font 'sans,10'\n";
  }

  void add_diagram(std::ostream& script, std::ostream& data, const plot_diagram& diagram, bool is_log,
                   std::size_t& index) const {
    script << diagram.settings << "set key outside right top vertical Left reverse\n";
    const std::vector<missing_point> missing = missing_points(diagram, is_log);
    for (std::size_t i = 0; i < missing.size(); ++i)
      script << "set label " << k_first_mark + i << " '×' at first " << missing[i].x
             << ", graph 0.03 center textcolor rgb 'red'\n";
    const char* separator = "plot ";
    for (const plot_curve& curve : diagram.curves) {
      data << "# " << curve.name << "\n";
      for (const auto& [x, y] : curve.points)
        if (is_drawable(y, is_log)) data << x << " " << y << "\n";
      data << "\n\n";
      script << std::exchange(separator, ", \\\n  ") << quoted_for_gnuplot(data_) << " index " << index++
             << " using 1:2 with " << curve.style << " title " << quoted_for_gnuplot(curve.name);
    }
    script << "\n";
    for (std::size_t i = 0; i < missing.size(); ++i) script << "unset label " << k_first_mark + i << "\n";
  }

  std::optional<failure> run_gnuplot() const {
    std::string command = "gnuplot", argument = script_.string();
    const std::array<char*, 3> arguments{command.data(), argument.data(), nullptr};
    pid_t process = 0;
    const int error = posix_spawnp(&process, command.c_str(), nullptr, nullptr, arguments.data(), environ);
    if (error != 0)
      return failure{error == ENOENT ? status::unsupported : status::transport,
                     "gnuplot did not start (" + std::string(std::strerror(error)) +
                         "): install gnuplot (`apt-get install gnuplot-nox`), then run `gnuplot " + argument + "`"};
    int ended = 0;
    while (waitpid(process, &ended, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(ended) && WEXITSTATUS(ended) == 0) return std::nullopt;
    return failure{status::transport, "gnuplot failed: run `gnuplot " + argument + "` to see the error"};
  }

  std::filesystem::path png_, data_, script_;
};

}  // namespace lsched
