// Transport `mpi`: any set of ranks that MPI connects. Plain Isend, Issend, Irecv and Testsome on one
// duplicated communicator; nothing is ever cancelled.
//
// A payload edge has an MPI tag of its own, per ordered pair of ranks. A message is a 64-byte header,
// followed in the same MPI message by up to 16 KiB of payload; a larger payload follows in messages of its
// own, straight from the source into the target. MPI keeps messages of one tag in order, and the receiver
// posts what it expects in that order:
//
//     small, null    [header|payload]                     from one of two bounce buffers, by round parity
//     large          [header] [chunk] [chunk] …           the chunks are posted after the header has come
//
// Signals and credits share one control stream per ordered pair of ranks, tag 0: records (instance, index,
// value) whose newest values wait in a table while the previous batch is on its way. A batch is sent
// synchronously (Issend), so a peer that does not listen is never sent a second one.
//
// The last record between two ranks that shared an edge says goodbye, and how many payload messages there
// were: after it nothing more is posted, and what failed instances left unreceived is taken in and dropped.
// So every receive comes to its end, and the communicator is free of messages when it is freed; MPI gives its
// number to another one, which would find them.
//
// MPI cannot wake a sleeper: is_time_driven(). It cannot say who died either: a dead peer is an MPI error,
// which becomes health(), or silence, which becomes a timeout.
#pragma once

#include <mpi.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "libsched/transport/endpoint.h"

namespace lsched {

/// The defaults serve everybody; tests lower them to reach the limits. Equal on all ranks.
struct mpi_limits {
  int highest_tag = 0;                                 ///< 0: whatever MPI allows
  std::uint64_t chunk_bytes = std::uint64_t{1} << 30;  ///< MPI counts are ints; at most 2^31-1
  std::chrono::milliseconds farewell{10000};           ///< how long close() waits for the peers
};

class mpi_endpoint final : public endpoint {
 public:
  /// Payloads up to this size travel with their header.
  static constexpr std::uint64_t k_bounce_bytes = 16384;

  /// Duplicates the communicator: collective over it. STATE outside MPI_Init … MPI_Finalize.
  static result<std::unique_ptr<mpi_endpoint>> open(MPI_Comm comm, const mpi_limits& limits = {});
  ~mpi_endpoint() override;

  /// The duplicate, for collective calls between commits by whoever set this endpoint up.
  MPI_Comm communicator() const { return comm_; }

  /// Whether MPI lets a thread of ours call it while the application calls it too.
  bool allows_auxiliary_thread() const { return is_thread_multiple_; }

  world place() const override { return {self_, static_cast<rank>(streams_.size())}; }
  std::string_view name() const override { return "mpi"; }
  std::byte* allocate(std::size_t bytes) override;
  void deallocate(std::byte* place) override { std::free(place); }
  bool receives_in_place() const override { return true; }

  result<std::vector<link_id>> attach(std::uint32_t id, bool credits, std::span<const edge_spec> edges) override;
  status post_record(std::span<const std::byte> record) override;
  status gather_records(std::span<std::byte> all, rank* missing) override;
  status link(std::uint32_t id) override;
  void detach(std::uint32_t id) override;

  bool send(link_id link, round_no round, const message& what) override;
  bool receive(link_id link, round_no round, std::byte* into, arrival& out) override;
  void release(link_id link, round_no round) override;
  void signal(link_id link, round_no round) override;
  bool arm(link_id link, round_no round) override;
  void disarm(link_id link) override;
  std::size_t poll(std::span<completion> out) override;
  bool is_listening() const override { return waiting_ != 0 || requests_.size() != idle_receives_; }
  bool is_time_driven() const override { return is_listening(); }
  rank find_dead_peer() override { return k_no_rank; }  // MPI cannot tell
  status health() const override { return health_; }
  doorbell& bell() override { return bell_; }

  /// Waits, for a bounded time, until all peers have closed too and nothing is on its way any more.
  void close() override;

 private:
  struct freer {
    void operator()(std::byte* place) const { std::free(place); }
  };
  using memory = std::unique_ptr<std::byte, freer>;

  static constexpr std::size_t k_window = 64;  ///< beyond it, MPICH's Testsome allocates
  static constexpr std::size_t k_batch_records = 64;

  struct control_record {
    std::uint32_t instance;
    std::uint32_t index;  ///< among the control edges of that instance from this rank to that
    std::uint64_t value;
  };

  /// All that is shared by the edges between this rank and one peer. Its address is MPI's.
  struct stream {
    rank peer = k_no_rank;
    int next_tag[2] = {1, 1};         ///< by direction (1: outgoing); 0 is the control stream's
    int reserved_tags[2] = {0, 0};    ///< of attached instances that are not linked yet
    bool speaks = false;              ///< a linked instance had control edges to the peer
    bool hears = false;               ///< the same, from the peer, and it has not said goodbye
    bool delivers = false;            ///< a linked instance had payload edges to the peer
    bool expects = false;             ///< the same, from the peer
    bool has_parted = false;          ///< the peer said goodbye
    bool speaking = false;            ///< a batch is on its way
    std::uint64_t sent = 0;           ///< payload messages to the peer, as MPI counts them
    std::uint64_t taken = 0;          ///< from the peer
    std::uint64_t promised = 0;       ///< by its goodbye
    std::uint64_t first_pending = 1;  ///< number of pending.front(); numbers grow for ever
    std::vector<control_record> pending;
    std::unordered_map<std::uint32_t, std::vector<link_id>> hearers;  ///< by instance, then index
    std::array<control_record, k_batch_records> outgoing;
    std::array<control_record, k_batch_records> incoming;
  };

  enum class wait : std::uint8_t { nothing, turn, chunks, message, signal };

  struct link_state {
    edge_spec spec{};
    std::uint32_t instance = 0;
    bool credits = false;
    bool is_live = false;  ///< false once detached; MPI may still use its memory
    int tag = 0;
    std::uint32_t control_index = 0;
    std::byte* bounce[2] = {nullptr, nullptr};  ///< out: by round parity; in: the first alone
    std::byte* landing = nullptr;               ///< in: large payloads that are read in place
    bool is_bounce_busy[2] = {false, false};
    std::uint32_t in_flight = 0;   ///< requests that use this link's memory
    std::uint64_t value = 0;       ///< register, credit known, or newest value sent
    std::uint64_t pending_at = 0;  ///< number in the stream's table
    enum wait wait = wait::nothing;
    bool is_due = false;     ///< what it waits for has happened
    bool is_queued = false;  ///< it is in `due_`
    round_no round = 0;      ///< of what it waits for
    message outgoing{};
    arrival incoming{};
    std::byte* into = nullptr;
    std::uint64_t moved = 0;  ///< payload bytes whose chunks are posted or done
  };

  struct block {
    memory bytes;
    std::vector<link_id> links;
    bool is_linked = false;
  };

  enum class task : std::uint8_t {
    bounce_even,
    bounce_odd,
    chunk_out,
    header_in,
    chunk_in,
    control_out,
    control_in,
    leftover_in,  ///< what nobody received in time, to be dropped
  };

  /// The edges of a rank's unlinked instances as two numbers: if all ends have their opposites, the world's
  /// sums are equal; if not, they differ (up to 2^-64). They travel behind the record.
  struct edge_sums {
    std::uint64_t outgoing = 0;
    std::uint64_t incoming = 0;
  };
  static constexpr std::size_t k_entry_bytes = record_bytes + sizeof(edge_sums);

  /// What a request belongs to: `of` is a link, or a rank for the control stream.
  struct owner {
    task what;
    std::uint32_t of;
  };
  static constexpr bool receives(task what) {
    return what == task::header_in || what == task::chunk_in || what == task::control_in;
  }
  struct event {
    owner whose;
    int bytes;
  };

  mpi_endpoint(MPI_Comm comm, rank self, rank size, const mpi_limits& limits, bool is_thread_multiple);

  std::optional<failure> objection(std::span<const edge_spec> edges) const;
  link_id add_link(std::uint32_t id, bool credits, const edge_spec& edge);
  stream& stream_to(rank peer);
  stream& stream_of(link_id link) { return *streams_[static_cast<std::size_t>(links_[link].spec.peer)]; }
  bool reserve_memory(block& held);
  bool reserve_tags(const block& held);
  void release_tags(const block& held);
  edge_sums sums_of_unlinked() const;
  void enumerate_control(std::uint32_t id, const block& held);
  std::vector<link_id> sorted(const block& held) const;
  void reserve_queues();
  void reap();

  bool can_transmit(const link_state& state, round_no round) const;
  bool transmit(link_id link, round_no round, const message& what);
  void resume(link_id link);
  void post_chunk_out(link_id link);
  void post_chunk_in(link_id link);
  bool landed(link_id link, int bytes);
  bool chunk_landed(link_id link, int bytes);
  bool has_arrived(link_id link);
  void tell(link_id link, std::uint64_t value);
  void speak(stream& to);
  void listen(stream& from);
  void hear(stream& from, int bytes);
  void hear(stream& from, const control_record& news);

  void await(link_id link, enum wait what, round_no round);
  void satisfy(link_id link);
  void forget(link_id link);
  void add_request(MPI_Request request, owner whose);
  void sweep();
  std::size_t test_window(std::size_t begin, std::size_t count);
  void handle(const event& news);
  bool succeeded(int code);

  bool say_goodbye();
  void part();
  void take_leftovers();
  bool is_quiet() const;
  void leak();

  MPI_Comm comm_;
  rank self_;
  mpi_limits limits_;
  bool is_thread_multiple_;
  bool is_closed_ = false;
  status health_ = status::ok;
  doorbell bell_{};

  std::vector<std::unique_ptr<stream>> streams_;  ///< by rank; null until the first edge
  std::vector<link_state> links_;
  std::vector<link_id> free_links_;
  std::unordered_map<std::uint32_t, block> blocks_;
  std::vector<block> retired_;  ///< detached, perhaps still in MPI's hands
  std::size_t known_peers_ = 0;
  std::vector<memory> leftovers_;  ///< of close()

  std::vector<MPI_Request> requests_;  ///< dense: never a null request
  std::vector<owner> owners_;          ///< parallel to it
  std::size_t idle_receives_ = 0;      ///< of them, armed for control that need not come
  std::size_t cursor_ = 0;
  std::array<int, k_window> indices_{};
  std::array<MPI_Status, k_window> statuses_{};
  std::array<event, k_window> events_{};
  std::vector<link_id> due_;
  std::size_t waiting_ = 0;  ///< links that wait for something, or have news

  memory records_;          ///< this rank's entry, then everybody's
  bool has_agreed_ = true;  ///< the last exchange's edges pair up
  MPI_Request exchange_ = MPI_REQUEST_NULL;
};

}  // namespace lsched
