// A file that a command writes when its work is done.
#pragma once

#include <fstream>
#include <string>
#include <string_view>

namespace lsched::cli {

class output_file {
 public:
  /// Creates the file, so that nobody works for one that cannot be written. Throws command_failure.
  explicit output_file(std::string path);
  /// Writes all of it; once. Throws command_failure.
  void write(std::string_view content);

 private:
  std::string path_;
  std::ofstream stream_;
};

}  // namespace lsched::cli
