// The exchange of the ranks of `lsched run --hosts`, through their launcher.
//
//      rank ──exchange_request──► agent of the host ──► command ──► agents of all hosts ──exchange_answer──► ranks
//
// The descriptor LSCHED_RUN_FD of each rank is a stream socket. The agent holds the other end of the socket. After
// every rank has sent a request, the command sends an answer to all ranks. If a rank has ended, or has not sent a
// request in time, the answer is a failure that names the rank.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "offload/open/launch.h"
#include "offload/open/rendezvous.h"
#include "offload/open/timed_socket.h"

namespace lsched {

struct exchange_request {
  std::uint32_t limit_ms;  ///< time after which the command no longer waits for other ranks
  std::array<std::byte, k_exchanged_bytes> record;
};

/// The beginning of an answer. `bytes` bytes follow: the records of all ranks, or the reason of a failure as text.
struct exchange_answer {
  std::int32_t code;     ///< status
  std::int32_t culprit;  ///< the rank that caused a failure, or k_no_rank
  std::uint32_t bytes;
};

/// Returns true if the descriptor of a launch is the socket of this exchange. Otherwise the descriptor refers to a
/// segment.
bool has_exchange(const launch& where);

/// Returns an exchange over `socket`, whose other end performs the exchanges of `size` ranks. `other_size` is the
/// failure if an answer is for another number of ranks. The limits are as below.
exchange_function exchange_over(const timed_socket& socket, rank size, const failure& other_size,
                                std::chrono::nanoseconds first, std::chrono::nanoseconds later);

/// Returns the exchange over the socket of a rank. The socket must stay open while the exchange is used. In the first
/// exchange, this rank waits for other ranks for the time `first`. In later exchanges, this rank waits for the time
/// `later`.
exchange_function exchange_with_launcher(const launch& where, std::chrono::nanoseconds first,
                                         std::chrono::nanoseconds later);

}  // namespace lsched
