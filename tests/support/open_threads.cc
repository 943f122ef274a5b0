#include "tests/support/open_threads.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/tcp_store.h"

namespace lsched::testing {
namespace {

lsched_status open_on_hosts(std::int32_t ranks, const lsched_config* config, lsched_world** worlds,
                            lsched_diagnostic* why) {
  const auto count = static_cast<std::size_t>(ranks);
  std::vector<lsched_status> answers(count);
  std::vector<lsched_diagnostic> texts(count, {.struct_size = sizeof(lsched_diagnostic)});
  const tcp_store store(ranks);
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < count; ++r)
    threads.emplace_back([&, r] {
      const auto self = static_cast<std::int32_t>(r);
      tcp_store::client mine(store, self);
      answers[r] =
          lsched_world_open_with(self, ranks, tcp_store::client::exchange, &mine, config, &worlds[r], &texts[r]);
    });
  for (std::thread& one : threads) one.join();
  const auto failed = std::ranges::find_if(answers, [](lsched_status answer) { return answer != LSCHED_OK; });
  if (failed == answers.end()) return LSCHED_OK;
  if (why != nullptr) *why = texts[static_cast<std::size_t>(failed - answers.begin())];
  return *failed;
}

}  // namespace

std::int32_t emulated_hosts() {
  const char* const hosts = std::getenv("LSCHED_TEST_HOSTS");
  return hosts == nullptr ? 0 : std::atoi(hosts);
}

lsched_status open_threads(std::int32_t ranks, const lsched_config* config, lsched_world** worlds,
                           lsched_diagnostic* why) {
  const std::int32_t hosts = emulated_hosts();
  if (hosts == 0) return lsched_world_open_threads(ranks, config, worlds, why);
  setenv("LSCHED_RANKS_PER_NODE", std::to_string((ranks + hosts - 1) / hosts).c_str(), 1);
  setenv("LSCHED_NET_INTERFACES", "lo", 1);
  return open_on_hosts(ranks, config, worlds, why);
}

}  // namespace lsched::testing
