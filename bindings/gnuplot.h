// A picture that gnuplot draws from two files, which are left beside it.
//
// NAME.png is drawn by NAME.gp from NAME.dat. Long work that ends in a picture asks objection() first.
#pragma once

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "ops/status.h"

namespace lsched {

class picture {
 public:
  explicit picture(std::filesystem::path png) : png_(std::move(png)), data_(png_), script_(png_) {
    data_.replace_extension(".dat");
    script_.replace_extension(".gp");
  }

  const std::filesystem::path& png() const { return png_; }
  const std::filesystem::path& data() const { return data_; }

  /// Why the picture or its files cannot be written, if so: ARGUMENT. Leaves nothing behind.
  std::optional<failure> objection() const {
    if (png_ == data_ || png_ == script_)
      return failure{status::argument, png_.string() + ": a picture's name ends in .png; .dat and .gp stand beside it"};
    for (const auto& path : {png_, data_, script_}) {
      const bool is_new = !std::filesystem::exists(path);
      std::ofstream file(path, std::ios::app);
      if (!file) return failure{status::argument, "cannot write " + path.string() + ": " + std::strerror(errno)};
      file.close();
      if (is_new) std::filesystem::remove(path);
    }
    return std::nullopt;
  }

  /// Writes both files and has gnuplot draw. ARGUMENT: they cannot be written; UNSUPPORTED: there is no gnuplot;
  /// TRANSPORT: it does not start, or refuses the script.
  std::optional<failure> draw(const std::string& data, const std::string& script) const {
    for (const auto& [path, content] : {std::pair(&data_, &data), std::pair(&script_, &script)}) {
      std::ofstream file(*path);
      file << *content;
      file.close();
      if (!file) return failure{status::argument, "cannot write " + path->string()};
    }
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

/// As gnuplot reads it: its single-quoted strings escape nothing but the quote itself.
inline std::string quoted_for_gnuplot(const std::filesystem::path& path) {
  std::string word = "'";
  for (const char c : path.string()) word += c == '\'' ? std::string("''") : std::string(1, c);
  return word + "'";
}

}  // namespace lsched
