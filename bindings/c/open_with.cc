// Opens a world whose ranks find each other by an exchange that the caller provides (lsched_world_open_with).
#include "bindings/c/build_id.h"
#include "bindings/c/sized.h"
#include "bindings/c/world.h"
#include "offload/open/node_world.h"

using namespace lsched;

static_assert(k_exchanged_bytes == LSCHED_EXCHANGE_BYTES);

extern "C" lsched_status lsched_world_open_with_abi(int abi, int32_t rank, int32_t size, lsched_exchange exchange,
                                                    void* context, const lsched_config* config, lsched_world** world,
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
