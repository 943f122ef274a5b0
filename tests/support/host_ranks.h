// Ranks of a test on several hosts (network_hosts.h).
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

#include "bindings/c/lsched.h"
#include "tests/support/network_hosts.h"
#include "tests/support/tcp_store.h"
#include "tests/support/thread_ranks.h"

namespace lsched::testing {

/// The hosts of the ranks of a job. Each host has `per_host` consecutive ranks, but the last host may have fewer.
struct host_layout {
  rank ranks;
  int per_host;
  int hosts() const { return (ranks + per_host - 1) / per_host; }
  int host_of(rank who) const { return who / per_host; }
};

/// Moves this process to the host of the rank, and opens the world. Prints the reason and returns null on an error.
inline lsched_world* open_on_host(const network_hosts& net, const host_layout& how, rank self, const tcp_store& store) {
  tcp_store::client mine(store, self);  // must connect before the process leaves the first host
  if (!net.enter(how.host_of(self))) {
    std::fprintf(stderr, "rank %d cannot enter its host\n", self);
    return nullptr;
  }
  setenv("LSCHED_RANKS_PER_NODE", std::to_string(how.per_host).c_str(), 1);
  lsched_world* world = nullptr;
  diagnostic why;
  const lsched_config config = test_config();
  if (lsched_world_open_with(self, how.ranks, tcp_store::client::exchange, &mine, &config, &world, &why) != LSCHED_OK)
    std::fprintf(stderr, "rank %d: %s\n", self, why.text);
  return world;
}

/// Returns the number of trials that the variable LSCHED_TEST_HOST_TRIALS requests, or 0.
inline int requested_host_trials() {
  const char* const wish = std::getenv("LSCHED_TEST_HOST_TRIALS");
  return wish != nullptr ? std::atoi(wish) : 0;
}

}  // namespace lsched::testing
