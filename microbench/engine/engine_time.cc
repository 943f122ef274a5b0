#include "microbench/engine/engine_time.h"

#include <filesystem>
#include <fstream>
#include <string>

namespace lsched::bench {

// Linux: comm is the thread's name, schedstat "ns on a core, ns waiting for one, times on one".
std::optional<engine_time> read_engine_time() {
  std::optional<engine_time> all;
  std::error_code ignored;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", ignored)) {
    std::string name;
    std::getline(std::ifstream(thread.path() / "comm"), name);
    if (!name.starts_with("lsched-progress")) continue;
    double ns = 0, waited = 0;
    std::uint64_t turns = 0;
    if (!(std::ifstream(thread.path() / "schedstat") >> ns >> waited >> turns)) return std::nullopt;
    if (!all) all.emplace();
    all->ns += ns;
    all->turns += turns;
  }
  return all;
}

}  // namespace lsched::bench
