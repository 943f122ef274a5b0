// A file that a command writes in addition to its ordinary output, or instead of it.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <string>

#include "bindings/cli/common/errors.h"
#include "bindings/input_file.h"

namespace lsched::cli {

/// Opens the file before the work begins, so that a command fails early if the file cannot be written. Existing content
/// stays until write(). The path "-" means standard output. Throws command_failure.
class output_file {
 public:
  explicit output_file(std::string path) : path_(std::move(path)) {
    if (is_stdout()) return;
    stream_.open(path_, std::ios::binary | std::ios::app);
    if (!stream_) throw command_failure(LSCHED_ERR_ARGUMENT, path_ + ": cannot be written: " + reason_of(errno));
  }

  /// Replaces the content of the file. Must be called at most once. If the path is "-", writes to standard output. At
  /// its end, the command flushes standard output and reports errors.
  void write(const std::string& content) {
    if (is_stdout()) {
      std::fwrite(content.data(), 1, content.size(), stdout);
      return;
    }
    static_cast<void>(truncate(path_.c_str(), 0));  // fails for pipes, which have no length
    stream_ << content;
    stream_.close();
    if (!stream_) throw command_failure(LSCHED_ERR_ARGUMENT, path_ + ": could not be written: " + reason_of(errno));
  }

  bool is_stdout() const { return path_ == "-"; }

 private:
  std::string path_;
  std::ofstream stream_;
};

}  // namespace lsched::cli
