// Transport `mpi` connects any set of ranks that can communicate through MPI. It uses Isend, Issend, Irecv and Testsome
// on a duplicated communicator. MPI_Cancel is used only for receives of instances that were given up.
//
// Each payload edge between two ranks has its own MPI tag. A message consists of a 64-byte header and at most 16 KiB of
// payload. A larger payload follows in separate MPI messages, without a copy at the sender or receiver. MPI keeps
// messages with the same tag in order, and the receiver posts its receives in that order:
//
//  - A small or null payload: [header|payload]. The sender uses one of two bounce buffers (even and odd rounds).
//  - A large payload: [header] [chunk] [chunk] …. The receives of chunks are posted after the header has arrived.
//
// Signals and credits between two ranks share one control stream in each direction, with tag 0. A control record is
// (instance, index, value). While a batch of records is in flight, newer values wait in a table. A batch is sent
// synchronously (Issend), so at most one batch is sent to a peer that does not receive. The cancellation of an instance
// is also a record. A rank that receives this record for the first time sends it to its own peers in the instance. The
// messages of boards (mpi_board_carrier.h) have tag 1.
//
// close() drains all streams. The last control record from a rank to a peer contains a number: how many other MPI
// messages the rank has sent to this peer. After the last record, the rank sends no further message. close() also
// receives and drops orphans: messages to an instance that failed before it received them. So no message is left when
// the communicator is freed. (A remaining message could be received on another communicator, because MPI may reuse the
// context id.)
//
// MPI cannot wake a sleeping rank, so ranks must poll (is_time_driven()). MPI does not report dead ranks either. A dead
// peer causes an MPI error, which health() reports, or a timeout.
#pragma once

#include <mpi.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "bindings/mpi/finalize_hook.h"
#include "bindings/mpi/mpi_board_carrier.h"
#include "bindings/mpi/mpi_links.h"
#include "bindings/mpi/mpi_requests.h"
#include "libsched/transport/awaited_links.h"
#include "libsched/transport/endpoint.h"
#include "libsched/transport/message_boards.h"

namespace lsched {

/// Limits, which must be equal on all ranks. Only tests change the defaults.
struct mpi_limits {
  int highest_tag = 0;                                 ///< highest tag to use; 0: MPI's highest tag
  std::uint64_t chunk_bytes = std::uint64_t{1} << 30;  ///< at most 2^31-1, because MPI counts are ints
  std::chrono::milliseconds shutdown{10000};           ///< maximum time for which close() waits for peers
};

class mpi_endpoint final : public endpoint, public endpoint_liveness {
 public:
  /// Opens an endpoint over a duplicate of the communicator. Collective. Returns STATE if MPI is not initialised or is
  /// finalised.
  static result<std::unique_ptr<mpi_endpoint>> open(MPI_Comm comm, const mpi_limits& limits = {});
  ~mpi_endpoint() override;

  /// Returns the duplicated communicator. The code that opened this endpoint may use the communicator for collective
  /// calls between commits.
  MPI_Comm communicator() const { return comm_; }

  /// Returns true if MPI allows a thread of this library to call MPI concurrently with the application.
  bool allows_auxiliary_thread() const { return is_thread_multiple_; }

  result<std::unique_ptr<board>> open_board(std::size_t most) override;
  std::unique_ptr<board> open_home_board() override;
  result<std::vector<link_id>> attach(std::uint32_t id, std::span<const rank> members, bool credits,
                                      std::span<const edge_spec> edges) override;
  member_address address_of(std::uint32_t id) const override { return links_.address_of(id); }
  status link(std::uint32_t id, std::span<const member_address> all) override;
  void detach(std::uint32_t id) override;

  void cancel(std::uint32_t id, const end_reason& reason) override;
  void abandon(std::uint32_t id) override;
  void close_to_readers(std::uint32_t id, const end_reason& reason) override;
  status check_readers(std::uint32_t id, rank* reader) override;

  bool send(link_id link, round_no round, const message& payload) override;
  bool receive(link_id link, round_no round, message_target into, arrival& out) override;
  bool fetch(link_id link, round_no round, message_target into, arrival& out) override;
  void end_edge(link_id link, round_no last) override;
  void release(link_id link, round_no round) override;
  void signal(link_id link, round_no round) override;
  bool arm(link_id link, round_no round) override;
  void disarm(link_id link) override;
  std::size_t poll(std::span<completion> out) override;
  bool is_listening() const override {
    return awaited_.has_any() || requests_.size() != idle_receives_ || is_board_busy();
  }
  bool is_time_driven() const override { return is_listening(); }
  status health() const override { return health_; }
  doorbell& bell() override { return bell_; }

  /// Waits, for a bounded time, until all peers have also closed and no message is in flight.
  void close() override;

  /// Arranges that MPI_Finalize first closes the endpoint, unless it is already closed. After that, the endpoint does
  /// not call MPI, and its health is STATE if ranks have communicated through MPI. Returns false if MPI refuses the
  /// hook.
  bool close_at_finalize(finalize_hook::engine_owner exclusively);

 private:
  mpi_endpoint(MPI_Comm comm, const lsched::world& place, const mpi_limits& limits, bool is_thread_multiple);

  bool can_transmit(const mpi_link& state, round_no round) const;
  bool transmit(link_id link, round_no round, const message& payload);
  void resume(link_id link);
  void post_chunk_out(link_id link);
  void post_chunk_in(link_id link);
  bool landed(link_id link, int bytes);
  bool bring(link_id link);
  bool chunk_landed(link_id link, int bytes);
  bool has_arrived(link_id link);
  void raise(link_id link, std::uint64_t value);
  void pass_on_cancellation(std::uint32_t id);
  void answer_cancellation(mpi_stream& from, const mpi_stream::control_record& news);
  void kill_links(std::uint32_t id);
  bool has_ended(rank peer) const;
  void send_control(mpi_stream& to);
  void receive_control(mpi_stream& from);
  void take_control(mpi_stream& from, int bytes);
  void take_control(mpi_stream& from, const mpi_stream::control_record& news);

  void add_request(MPI_Request request, mpi_requests::owner owner);
  bool uses_callers_memory(const mpi_requests::owner& owner) const;
  void sweep();
  void handle(const mpi_requests::event& news);
  bool succeeded(int code);
  void begin_with(rank peer);

  bool is_board_busy() const { return boards_.is_awaiting() || carrier_.has_transfers(); }
  bool drain();
  void announce_end();
  void receive_orphans();
  bool is_drained() const;
  void leak();
  void end_with_mpi();

  MPI_Comm comm_;
  mpi_limits limits_;
  bool is_thread_multiple_;
  bool is_closed_ = false;
  finalize_hook at_finalize_{};
  status health_ = status::ok;
  doorbell bell_{};

  mpi_links links_;
  std::vector<mpi_edge::memory> orphans_;  ///< messages that close() has received
  mpi_edge::memory dropped_{};             ///< receives chunks of a payload that is longer than its target

  mpi_requests requests_;
  std::size_t idle_receives_ = 0;  ///< number of receives posted for control records that may never arrive
  awaited_links<mpi_links> awaited_{links_};

  mpi_board_carrier carrier_;
  message_boards boards_;
};

}  // namespace lsched
