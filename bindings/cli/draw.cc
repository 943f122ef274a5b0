#include "bindings/cli/draw.h"

#include <algorithm>

#include "bindings/cli/common/errors.h"
#include "bindings/cli/common/output_file.h"
#include "bindings/cli/picture/builders.h"
#include "libsched/schedule/schedule_file.h"
#include "ops/counted.h"

namespace lsched::cli {
namespace {

/// Returns a title such as "allreduce/ring, 8 ranks, input of 1000 f32".
std::string title_of(std::span<const schedule_ptr> world) {
  const schedule& first = *world.front();
  std::string title = escaped(first.name()) + ", " + counted(world.size(), "rank");
  const auto input = std::ranges::find(first.buffers(), buffer_role::input, &buffer::role);
  if (input != first.buffers().end())
    title += ", input of " + std::to_string(input->count) + " " + std::string(name_of(input->type));
  return title;
}

}  // namespace

int draw_schedules(std::span<const schedule_ptr> world, rank initiator, const std::string& path) {
  output_file file(path);
  picture_words words{.title = title_of(world)};
  if (const activation& starts = world.front()->starts(); starts.policy != activation_policy::none)
    words.caption.push_back("activation " + words_for(starts) + ", all ranks call at step 0");
  file.write(to_svg(require(picture_in_steps(world, initiator, words))));
  return 0;
}

}  // namespace lsched::cli
