// Opens a world: as a rank of a launcher, as a world of one rank, with threads as ranks, or by an exchange that the
// caller provides.
#include "bindings/c/build_id.h"
#include "bindings/c/sized.h"
#include "bindings/c/world.h"
#include "bindings/foreign_launcher.h"
#include "offload/open/pmi_exchange.h"
#include "offload/open/launch_exchange.h"
#include "offload/open/node_world.h"

using namespace lsched;

static_assert(k_exchanged_bytes == LSCHED_EXCHANGE_BYTES);

namespace {

/// Returns OK. Writes the warning to the diagnostic, unless the warning is empty.
lsched_status report_opened(const std::string& warning, lsched_diagnostic* diagnostic) {
  return warning.empty() ? LSCHED_OK : report(diagnostic, {status::ok, warning});
}

}  // namespace

extern "C" {

lsched_status lsched_world_open_abi(int abi, const lsched_config* config, lsched_world** world,
                                    lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] {
    if (abi != LSCHED_ABI) return report(diagnostic, wrong_abi(abi));
    if (world == nullptr) return report(diagnostic, {status::argument, "world is null"});
    const auto options = read_config(config);
    if (!options) return report(diagnostic, options.error());
    const auto where = find_launch_to_join();
    if (!where) return report(diagnostic, where.error());
    auto made = !*where                 ? open_alone(options->segment)
                : (*where)->is_pmi      ? open_over_pmi(**where, LSCHED_BUILD, options->segment)
                : has_exchange(**where) ? open_over_hosts(**where, LSCHED_BUILD, options->segment)
                                        : open_launched(**where, options->segment);
    if (!made) return report(diagnostic, made.error());
    *world = new lsched_world(std::move(made->net), *options, made->around);
    return report_opened(made->warning, diagnostic);
  });
}

lsched_status lsched_world_open_threads_abi(int abi, int32_t ranks, const lsched_config* config, lsched_world** worlds,
                                            lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] {
    if (abi != LSCHED_ABI) return report(diagnostic, wrong_abi(abi));
    if (worlds == nullptr || ranks < 1)
      return report(diagnostic, {status::argument, "ranks is below 1, or worlds is null"});
    const auto options = read_config(config);
    if (!options) return report(diagnostic, options.error());
    auto made = open_threads(ranks, options->segment);
    if (!made) return report(diagnostic, made.error());
    std::vector<std::unique_ptr<lsched_world>> opened;
    for (opened_rank& each : *made)
      opened.push_back(std::make_unique<lsched_world>(std::move(each.net), *options, each.around));
    for (rank r = 0; r < ranks; ++r) worlds[r] = opened[static_cast<std::size_t>(r)].release();
    return report_opened(made->front().warning, diagnostic);
  });
}

lsched_status lsched_world_open_with_abi(int abi, int32_t rank, int32_t size, lsched_exchange exchange, void* context,
                                         const lsched_config* config, lsched_world** world,
                                         lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] {
    if (abi != LSCHED_ABI) return report(diagnostic, wrong_abi(abi));
    if (exchange == nullptr || size < 1 || rank < 0 || rank >= size)
      return report(diagnostic, {status::argument, "exchange is null, or rank is not from 0 to size - 1"});
    auto options = read_config(config);
    if (world == nullptr) options = failure{status::argument, "world is null"};
    const auto how = options ? result<segment_options>(options->segment) : options.error();
    const auto by = [&](const void* mine, void* all, std::uint64_t bytes) -> std::optional<failure> {
      const int answer = exchange(mine, all, bytes, context);
      if (answer == 0) return std::nullopt;
      return failure{status::transport,
                     "the caller's exchange function failed, and returned " + std::to_string(answer)};
    };
    auto made = open_by_rendezvous({rank, size}, LSCHED_BUILD, by, how);
    if (!made) return report(diagnostic, made.error());
    *world = new lsched_world(std::move(made->net), *options, made->around);
    return LSCHED_OK;
  });
}

}  // extern "C"
