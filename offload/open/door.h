// The door of a world that can grow. New ranks find the world through the door, and all ranks open a larger world.
//
//     old rank, new rank                        door (a thread in the process of rank 0)
//       connection, handshake    ────────────►
//       knock                    ────────────►  waits until all old ranks and at least one new rank have knocked
//                                ◄────────────  invitation: rank in the larger world, and its size
//       exchange_request         ────────────►
//                                ◄────────────  exchange_answer (launch_exchange.h), up to four times
//
// A connection serves one attempt to open a world. After a failed attempt, every rank connects again. Each side proves
// that it knows the secret of the door (handshake.h).
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "libsched/transport/net/handshake.h"
#include "libsched/transport/net/net_address.h"
#include "libsched/transport/net/stream_socket.h"
#include "offload/open/rendezvous.h"
#include "offload/open/timed_socket.h"
#include "ops/base.h"
#include "ops/status.h"

namespace lsched {

/// The data by which a process finds a door and proves itself.
struct door_key {
  static constexpr std::size_t k_most_addresses = 7;
  secret_bytes secret{};
  std::uint32_t count = 0;  ///< number of addresses
  std::array<net_address, k_most_addresses> addresses{};

  /// Returns a text without blanks that read_door_key() can read.
  std::string text() const;
};
static_assert(std::is_trivially_copyable_v<door_key>);
result<door_key> read_door_key(std::string_view text);

class door {
 public:
  /// Opens a door for the ranks of a world of `members` ranks. `build` is a hash of the version of the library. Returns
  /// UNSUPPORTED if no interface fits or no port is free.
  static result<std::unique_ptr<door>> open(const net_interfaces& chosen, rank members, std::uint64_t build);
  /// Closes all connections, and waits for the thread.
  virtual ~door() = default;

  virtual const door_key& key() const = 0;
};

/// A connection of a rank to a door.
class visit {
 public:
  using clock = std::chrono::steady_clock;

  /// Connects to a door. `member` is the rank in the world of the door, or k_no_rank for a new rank. Each wait ends
  /// with CANCELLED as soon as the descriptor `stop` is readable. Returns TIMEOUT if no connection exists at the
  /// deadline.
  static result<visit> connect(const door_key& key, std::uint64_t build, rank member, clock::time_point deadline,
                               int stop);

  /// Waits for an invitation. Returns the place of this rank in the larger world.
  result<world> await_invitation(clock::time_point deadline) const;

  /// Returns the exchange of the invited ranks. This object must outlive the exchange.
  exchange_function exchange(const world& invited, std::chrono::nanoseconds limit) const;

 private:
  visit(stream_socket connection, int stop) : connection_(std::move(connection)), stop_(stop) {}
  timed_socket socket() const;

  stream_socket connection_;
  int stop_;
};

}  // namespace lsched
