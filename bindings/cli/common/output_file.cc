#include "bindings/cli/common/output_file.h"

#include "bindings/cli/common/errors.h"
#include "bindings/input_file.h"

namespace lsched::cli {

output_file::output_file(std::string path) : path_(std::move(path)), stream_(path_, std::ios::binary) {
  if (!stream_) throw command_failure(LSCHED_ERR_ARGUMENT, path_ + ": cannot be written: " + reason_of(errno));
}

void output_file::write(std::string_view content) {
  stream_.write(content.data(), static_cast<std::streamsize>(content.size()));
  stream_.close();
  if (!stream_) throw command_failure(LSCHED_ERR_ARGUMENT, path_ + ": could not be written: " + reason_of(errno));
}

}  // namespace lsched::cli
