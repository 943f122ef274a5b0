// Opens a world: as a rank of `lsched run`, as a world of one rank, or with threads as ranks.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "bindings/c/sized.h"
#include "bindings/c/world.h"
#include "bindings/environment.h"
#include "bindings/foreign_launcher.h"
#include "libsched/transport/shm/ancestors.h"
#include "libsched/transport/shm/shm_endpoint.h"
#include "offload/cores.h"

namespace lsched {
namespace {

failure not_a_rank(const launch& where, std::int32_t starter) {
  return {status::state, "This process was started by rank " + std::to_string(where.self) + " (process " +
                             std::to_string(starter) +
                             ") and is not a rank; set LSCHED_WORLD=alone to open a world of its own"};
}

/// Returns the failure for a process whose descriptor from the launcher is closed or refers to another file.
failure lacks_segment(const launch& where) {
  if (const std::int32_t starter = find_user_above(0); starter != 0) return not_a_rank(where, starter);
  return {status::transport, std::string(k_run_descriptor) + "=" + std::to_string(where.descriptor) +
                                 " is not the descriptor that `lsched run` has passed on: a program between it and "
                                 "rank " +
                                 std::to_string(where.self) + " has closed that descriptor, and must pass it on"};
}

/// Maps the launcher's segment. Then makes sure that programs which this process executes do not inherit the
/// descriptor, because they would keep the memory of all ranks allocated. The descriptor keeps its number.
result<std::shared_ptr<shm_segment>> adopt_from_launcher(const launch& where) {
  const int copy = fcntl(where.descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const bool is_refused = copy < 0 && errno != EBADF;
  if (is_refused || (shm_segment::is_segment(copy) && fcntl(where.descriptor, F_SETFD, FD_CLOEXEC) != 0))
    return failure{status::transport, std::string("fcntl, for ") + k_run_descriptor + ": " + std::strerror(errno)};
  if (!shm_segment::is_segment(copy)) {
    if (copy >= 0) ::close(copy);
    return lacks_segment(where);
  }
  auto segment = shm_segment::adopt(copy);
  if (!segment) return segment;
  if (const std::int32_t starter = find_user_above((*segment)->creator().number); starter != 0)
    return not_a_rank(where, starter);
  return segment;
}

/// Makes the kernel kill this process when its launcher ends, even if the launcher is not its parent. The launcher has
/// set the signal of the descriptor to SIGKILL (F_SETSIG), by which this function recognizes the descriptor. The
/// function makes this process the receiver of that signal (F_SETOWN).
std::optional<failure> end_with_launcher(int descriptor) {
  if (fcntl(descriptor, F_GETSIG) != SIGKILL)
    return failure{status::argument, std::string(k_run_launcher) + " names no descriptor of a launcher"};
  if (fcntl(descriptor, F_SETFD, FD_CLOEXEC) != 0 || fcntl(descriptor, F_SETOWN, getpid()) != 0)
    return failure{status::transport, std::string(k_run_launcher) + ": " + std::strerror(errno)};
  pollfd launcher{descriptor, 0, 0};
  if (poll(&launcher, 1, 0) > 0)  // the launcher ended before F_SETOWN
    return failure{status::transport, "the launcher of this process has ended"};
  return std::nullopt;
}

/// Returns OK. Writes a warning to the diagnostic if the regions are smaller than a user would expect.
lsched_status report_opened(const shm_segment& segment, const open_options& options, lsched_diagnostic* diagnostic) {
  const std::string shortage = options.region_bytes == 0 ? segment.words_for_small_regions() : std::string();
  return shortage.empty() ? LSCHED_OK : report(diagnostic, {status::ok, shortage});
}

/// Attaches this process to the segment, as the rank in `where`. If this process is a child that the rank has forked,
/// another process already has this rank, and the failure names that process.
result<std::unique_ptr<shm_endpoint>> take_place(const std::shared_ptr<shm_segment>& segment, const launch& where,
                                                 const shm_options& options) {
  auto net = shm_endpoint::open(segment, where.self, options);
  if (net || net.error().code != status::state) return net;
  const std::int32_t holder = segment->page(where.self).process.load().number;
  if (is_above(holder)) return not_a_rank(where, holder);
  return net;
}

lsched_status open_launched(const launch& where, const open_options& options, lsched_world** world,
                            lsched_diagnostic* diagnostic) {
  auto segment = adopt_from_launcher(where);
  if (!segment) return report(diagnostic, segment.error());
  if (where.size != (*segment)->ranks())
    return report(diagnostic, {status::argument, "LSCHED_RUN_SIZE does not fit the launcher's segment"});
  auto net = take_place(*segment, where, options.shm);
  if (!net) return report(diagnostic, net.error());
  if (where.launcher)  // after take_place(), so that no other process can be this rank
    if (const auto why = end_with_launcher(*where.launcher)) return report(diagnostic, *why);
  if (const auto why = (*segment)->wait_for_ranks(options.start_timeout)) return report(diagnostic, *why);
  *world = new lsched_world(std::move(*net), options, neighbourhood_of(**segment, options.ranks_per_node));
  return report_opened(**segment, options, diagnostic);
}

lsched_status open_alone(const open_options& options, lsched_world** world, lsched_diagnostic* diagnostic) {
  const auto segment = shm_segment::create(1, options.region_bytes, usable_cores(), options.recorder);
  if (!segment) return report(diagnostic, segment.error());
  auto net = shm_endpoint::open(*segment, 0, options.shm);
  if (!net) return report(diagnostic, net.error());
  *world = new lsched_world(std::move(*net), options, neighbourhood_of(**segment, options.ranks_per_node));
  return report_opened(**segment, options, diagnostic);
}

lsched_status open_process(const open_options& options, lsched_world** world, lsched_diagnostic* diagnostic) {
  const auto is_alone = wants_world_of_one();
  if (!is_alone) return report(diagnostic, is_alone.error());
  if (*is_alone) return open_alone(options, world, diagnostic);
  const auto where = find_launch();
  if (!where) return report(diagnostic, where.error());
  if (*where) return open_launched(**where, options, world, diagnostic);
  if (const auto why = refuse_foreign_launch()) return report(diagnostic, *why);
  return open_alone(options, world, diagnostic);
}

}  // namespace
}  // namespace lsched

using namespace lsched;

extern "C" {

lsched_status lsched_world_open_abi(int abi, const lsched_config* config, lsched_world** world,
                                    lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] {
    if (abi != LSCHED_ABI) return report(diagnostic, wrong_abi(abi));
    if (world == nullptr) return report(diagnostic, {status::argument, "world is null"});
    const auto options = read_config(config);
    if (!options) return report(diagnostic, options.error());
    return open_process(*options, world, diagnostic);
  });
}

lsched_status lsched_world_open_threads_abi(int abi, int32_t ranks, const lsched_config* config, lsched_world** worlds,
                                            lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] {
    if (abi != LSCHED_ABI) return report(diagnostic, wrong_abi(abi));
    if (worlds == nullptr || ranks < 1)
      return report(diagnostic, {status::argument, "a world needs at least one rank, and room for its handles"});
    const auto options = read_config(config);
    if (!options) return report(diagnostic, options.error());
    auto segment = shm_segment::create(ranks, options->region_bytes, usable_cores(), options->recorder);
    if (!segment) return report(diagnostic, segment.error());
    std::vector<std::unique_ptr<lsched_world>> opened;
    for (rank r = 0; r < ranks; ++r) {
      shm_options here = options->shm;
      here.watches_processes = false;
      auto net = shm_endpoint::open(*segment, r, here);
      if (!net) return report(diagnostic, net.error());
      opened.push_back(std::make_unique<lsched_world>(std::move(*net), *options,
                                                      neighbourhood_of(**segment, options->ranks_per_node)));
    }
    for (rank r = 0; r < ranks; ++r) worlds[r] = opened[static_cast<std::size_t>(r)].release();
    return report_opened(**segment, *options, diagnostic);
  });
}

}  // extern "C"
