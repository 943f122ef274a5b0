#include "bindings/cli/common/world_file.h"

#include "bindings/cli/common/errors.h"
#include "bindings/input_file.h"
#include "libsched/schedule/schedule_file.h"

namespace lsched::cli {

std::vector<schedule_ptr> read_world_file(const std::string& path) {
  auto ranks = parse_world(require(content_of(path)));
  if (!ranks) throw command_failure(static_cast<lsched_status>(ranks.error().code), path + ": " + ranks.error().text);
  return std::move(*ranks);
}

}  // namespace lsched::cli
