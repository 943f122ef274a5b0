#include <algorithm>
#include <array>
#include <barrier>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "bindings/c/lsched.h"
#include "bindings/cli/doctor/child.h"
#include "bindings/cli/doctor/finding.h"
#include "bindings/net_environment.h"

namespace lsched::cli::doctor {
namespace {

/// The exchange of two ranks that are threads of a process.
struct thread_exchange {
  std::barrier<> gate{2};
  std::array<std::byte, 2 * LSCHED_EXCHANGE_BYTES> records{};
};

struct thread_rank {
  thread_exchange* with = nullptr;
  std::size_t self = 0;

  static int exchange(const void* mine, void* all, std::uint64_t bytes, void* context) {
    const auto& own = *static_cast<thread_rank*>(context);
    std::memcpy(own.with->records.data() + own.self * bytes, mine, bytes);
    own.with->gate.arrive_and_wait();
    std::memcpy(all, own.with->records.data(), 2 * bytes);
    own.with->gate.arrive_and_wait();
    return 0;
  }
};

/// Opens a world of two ranks that act as two hosts. Writes the failure to descriptor `out`.
int try_hosts(int out) {
  setenv("LSCHED_RANKS_PER_NODE", "1", 1);
  setenv("LSCHED_START_TIMEOUT", "5", 1);
  thread_exchange both;
  std::array<thread_rank, 2> ranks{thread_rank{&both, 0}, thread_rank{&both, 1}};
  std::array<lsched_world*, 2> worlds{};
  std::array<lsched_diagnostic, 2> why{};
  const auto open = [&](std::size_t r) {
    why[r].struct_size = sizeof why[r];
    return lsched_world_open_with(static_cast<std::int32_t>(r), 2, thread_rank::exchange, &ranks[r], nullptr,
                                  &worlds[r], &why[r]);
  };
  lsched_status second = LSCHED_OK;
  std::thread other([&] { second = open(1); });
  const lsched_status first = open(0);
  other.join();
  if (first == LSCHED_OK && second == LSCHED_OK) return 0;
  const char* const text = why[first == LSCHED_OK ? 1 : 0].text;
  return write(out, text, std::strlen(text)) < 0 ? 2 : 1;
}

}  // namespace

finding examine_network() {
  finding made{.subject = "network", .page = "docs/guides/several-nodes.md#the-network"};
  const auto chosen = network_in_environment();
  if (!chosen) {
    made.state = condition::error;
    made.text = chosen.error().text;
    return made;
  }
  std::string addresses;
  for (const std::string& each : addresses_by_interface(chosen->interfaces))
    addresses += (addresses.empty() ? "" : ", ") + each;
  const std::string by = chosen->interfaces_from.empty() ? "" : " (" + chosen->interfaces_from + ")";
  const auto used = addresses_of_host(chosen->interfaces, net_listener::k_most_addresses);
  const bool has_only_loopback =
      chosen->interfaces_from.empty() && std::ranges::all_of(used, &net_address::is_loopback);
  const trial_result tried = try_in_child(try_hosts);
  made.state = tried.has_succeeded() && !has_only_loopback ? condition::ok : condition::warning;
  if (tried.has_succeeded() && has_only_loopback)
    made.text = "ranks of other hosts cannot connect, because only the loopback interface is up";
  else if (tried.has_succeeded())
    made.text = "ranks of other hosts can connect to " + addresses + by;
  else
    made.text = "no world over several hosts can be opened" + by + ": " +
                (tried.text.empty() ? "a trial has not ended in time" : tried.text);
  return made;
}

}  // namespace lsched::cli::doctor
