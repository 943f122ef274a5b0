// Transfers the messages of boards (libsched/transport/message_boards.h) as MPI messages with a separate tag.
#pragma once

#include <mpi.h>

#include <functional>
#include <list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "libsched/transport/message_boards.h"

namespace lsched {

/// Only one thread at a time may use a carrier.
class mpi_board_carrier final : public board_carrier {
 public:
  /// The members and functions of the endpoint that the carrier uses. `note_sent` and `note_taken` count the messages
  /// to and from a peer. `succeeded` handles the return code of an MPI call, and returns true if the call has
  /// succeeded. `take` gets each message that has arrived.
  struct surroundings {
    MPI_Comm comm;
    int tag;
    std::function<void(rank peer)> begin_with;
    std::function<void(rank peer)> note_sent;
    std::function<void(rank peer)> note_taken;
    std::function<bool(int code)> succeeded;
    std::function<status()> health;
    std::function<void(rank from, std::span<const std::byte>)> take;
  };

  explicit mpi_board_carrier(surroundings around) : around_(std::move(around)) {}
  mpi_board_carrier(const mpi_board_carrier&) = delete;
  mpi_board_carrier& operator=(const mpi_board_carrier&) = delete;

  void begin_with(rank peer) override { around_.begin_with(peer); }
  void send(rank peer, const content& bytes) override;
  status receive(bool is_awaiting) override;
  bool can_send() const override;

  /// Returns true if a message is in flight.
  bool has_transfers() const { return !sends_.empty() || !receives_.empty(); }

  /// Completes messages that are in flight, without receiving new messages.
  void advance_transfers();

  /// Leaks the memory of all transfers, because MPI may still use that memory.
  void abandon();

 private:
  struct outgoing {
    MPI_Request request;
    content bytes;
  };
  struct incoming {
    MPI_Request request;
    std::unique_ptr<std::vector<std::byte>> bytes;
    rank peer;
  };

  bool receive_next();
  bool is_complete(MPI_Request& request);

  surroundings around_;
  std::list<outgoing> sends_;
  std::list<incoming> receives_;
};

}  // namespace lsched
