// The rendezvous of ranks that share only an exchange function. The ranks find out whether they can form a world, and
// connect.
//
//      first exchange                 last exchange
//     ───────────────►  connect()  ───────────────►  confirm()
//      introductions                    outcomes
//
//   1. Each rank sends its introduction to all ranks. From all introductions each rank decides whether the ranks can
//      form a world. All ranks have the same data, so all ranks make the same decision.
//   2. Each rank connects. For this purpose, connector::connect() makes further exchanges. Then each rank sends the
//      outcome to all ranks. If a rank has failed, all ranks fail.
//
// A rank that has failed still takes part in the next exchange, so that no rank waits for it. If the decision of step 1
// is negative, all ranks omit step 2.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ops/base.h"
#include "ops/status.h"

namespace lsched {

/// Sends the `bytes` bytes at `mine` to all ranks. Writes the bytes of all ranks to `all`, in rank order. Returns
/// nothing, or the reason why the exchange has failed.
using exchange_function = std::function<std::optional<failure>(const void* mine, void* all, std::uint64_t bytes)>;

/// The machine, process name space and user of a process.
struct residence {
  std::array<char, 40> machine{};  ///< boot id, which identifies the machine
  std::uint64_t processes = 0;     ///< inode of the process name space
  std::uint64_t user = 0;
  std::array<char, 48> host{};  ///< host name, for error texts
};

residence find_residence();

/// Returns the reason why two processes cannot share memory, as a predicate for "ranks 0 and 1 …". Returns nothing if
/// they can share memory. Processes can share memory if they run on the same host, in the same process name space, for
/// the same user.
std::optional<std::string> find_separation(const residence& first, const residence& second);

/// The way in which the ranks of a new world connect. Each rank uses one object for one rendezvous. Each function is
/// called at most once, in this order.
class connector {
 public:
  virtual ~connector() = default;

  /// Sends the outcome of this rank to all ranks. Returns nothing if all ranks have succeeded. Otherwise returns this
  /// rank's failure, or the failure of another rank, which names that rank.
  using agreement = std::function<std::optional<failure>(const std::optional<failure>& own)>;

  /// Connects this rank. `homes` has the residences of all ranks, in rank order. All ranks call `exchange` and `agree`
  /// equally often, together at most twice.
  virtual std::optional<failure> connect(std::span<const residence> homes, const exchange_function& exchange,
                                         const agreement& agree) = 0;

  /// Checks the connections after all ranks have connected.
  virtual std::optional<failure> confirm() = 0;
};

struct participant {
  world place;
  std::string_view build;  ///< name of the library's build, which must be equal on all ranks
  residence home{};
  std::optional<failure> unable{};  ///< the reason why this rank cannot open the world, if it cannot
};

/// Connects the ranks of a new world. `exchange` is called at most four times on each rank. Returns nothing if all
/// ranks have connected. Otherwise returns a failure. If another rank is to blame, the failure names that rank.
std::optional<failure> meet(const participant& self, const exchange_function& exchange, connector& way);

/// The number of bytes that each rank sends in an exchange. The number is the same in every build, so that ranks of
/// different builds can compare their builds.
inline constexpr std::size_t k_exchanged_bytes = 256;

}  // namespace lsched
