// Trials of a rendezvous (offload/open/rendezvous.h) whose ranks are threads of one process.
//
// A trial has at most one trouble. A rank may have another build, host, namespace, user or world size, or may fail. An
// exchange may fail or change bytes. The seed selects the ranks and the bytes that are affected. The trial checks the
// result on each rank.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "ops/base.h"

namespace lsched::testing {

enum class trouble : std::uint8_t {
  none,
  other_build,
  other_host,
  unnamed_host,  ///< the boot id is unknown, and the host names differ
  other_name_space,
  other_user,
  other_size,
  unable,       ///< a rank cannot open the world
  no_link,      ///< connector::connect() fails
  no_exchange,  ///< an exchange fails on one rank
  changed_introduction,
  changed_outcome,
  changed_for_one,  ///< only one rank sees a changed introduction
  repeated          ///< the second exchange returns the data of the first exchange, and connect() fails on a rank
};
inline constexpr std::size_t k_troubles = 14;

/// Planted faults of one rank. A trial must detect each of these faults.
enum class wrong_rank : std::uint8_t {
  none,
  judges_alone,     ///< treats its own introduction as the introduction of every rank
  ignores_outcome,  ///< treats the outcome of every rank as a success
  leaves_early      ///< takes no part in the second exchange after a failure to connect
};

struct rendezvous_trial {
  rank size = 3;
  std::uint64_t seed = 0;
  trouble what = trouble::none;
  wrong_rank planted = wrong_rank::none;
};

/// Runs a trial. Returns a description of the first wrong answer, or an empty string.
std::string perform(const rendezvous_trial& trial);

}  // namespace lsched::testing
