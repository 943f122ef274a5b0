// The transport `net` connects ranks by stream sockets. (docs/inside/net.md)
//
// Two sockets connect each pair of ranks (frame.h). The control socket carries payloads of up to 64 KiB, signals and
// all records. The bulk socket carries larger payloads, without a copy in this library. The sender of such a payload
// waits until the receiver is ready for the payload. So the bulk socket never holds a message that no rank awaits, and
// edges cannot block each other. While the control socket takes no more bytes, the bulk socket also carries payloads of
// more than 16 KiB.
//
// Signals, credits and `ready` are values that only grow. While the control socket takes no more bytes, a newer value
// replaces an older value. So a rank that does not read cannot make another rank's memory grow.
//
// A thread watches the sockets and wakes a sleeping rank (net_watcher.h). A rank is lost if its connection ends without
// a `goodbye`. Each rank that detects a loss informs its peers, and then ignores all bytes of the lost rank.
//
// A lost rank counts as silent if its process may still be alive: either the kernel of the rank does not answer, or
// only the connection has ended. If the connection has not ended when a network partition heals, this rank then sends
// the silent rank a frame with this loss. Without this frame, the silent rank would assume that the process of this
// rank has ended.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "libsched/transport/awaited_links.h"
#include "libsched/transport/endpoint.h"
#include "libsched/transport/message_boards.h"
#include "libsched/transport/net/bulk_stream.h"
#include "libsched/transport/net/control_stream.h"
#include "libsched/transport/net/descriptor.h"
#include "libsched/transport/net/fork_guard.h"
#include "libsched/transport/net/net_address.h"
#include "libsched/transport/net/net_links.h"
#include "libsched/transport/net/net_watcher.h"

namespace lsched {

/// The two connected, non-blocking stream sockets between this rank and a peer.
struct net_sockets {
  stream_socket control;
  stream_socket bulk;
  /// The process of the peer listens at this address while the peer's endpoint is open. If the family is 0, the address
  /// is unknown. Then this rank cannot find out whether the process has ended, and the peer counts as silent.
  net_address listens_at{};
};

struct net_options {
  /// The bell to ring. Must outlive the endpoint. Null: a bell of the endpoint, which permits direct sleep.
  doorbell* bell = nullptr;
  std::chrono::milliseconds shutdown{1000};    ///< maximum time for which close() waits for the kernel
  std::chrono::milliseconds lost_after{3000};  ///< silence of a peer's kernel after which the peer is lost
};

class net_endpoint final : public endpoint, public endpoint_liveness, private board_carrier, private bulk_receiver {
 public:
  /// Opens an endpoint. `sockets` has an entry for each rank, and this rank's own entry is empty. `listening` contains
  /// the listening sockets of this rank. close() closes these sockets. Returns NO_MEMORY if the process has no
  /// descriptors left.
  static result<std::unique_ptr<net_endpoint>> open(const lsched::world& place, std::vector<net_sockets> sockets,
                                                    const net_options& options = {},
                                                    std::vector<descriptor> listening = {});
  ~net_endpoint() override;

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
  void flush() override { write_all(); }
  bool is_listening() const override { return awaited_.has_any() || boards_.is_awaiting() || blocked_ != 0; }
  doorbell& bell() override { return bell_; }
  void close() override;

  status health() const override { return health_; }
  rank culprit() const override { return culprit_; }
  rank find_dead_peer() override;
  bool is_lost(rank who) const override;
  rank lost_after(rank others) const override;

  /// Records a loss that another transport of this rank has found, and informs the peers before this function returns.
  void record_lost(rank who);

 private:
  /// The connection to a peer.
  struct connection {
    connection(rank peer, net_sockets sockets, std::size_t most_bytes)
        : who(peer),
          control(std::move(sockets.control), most_bytes),
          bulk(std::move(sockets.bulk)),
          listens_at(sockets.listens_at) {}
    rank who;
    control_stream control;
    bulk_stream bulk;
    const net_address listens_at;
    descriptor presence{};        ///< connects to the peer's listening socket after the control socket has ended
    std::vector<link_id> news{};  ///< links whose values the peer does not know yet
    bool is_unwritten = false;    ///< the connection is in unwritten_
    bool waits_for_room[2] = {false, false};  ///< the control or bulk socket takes no more bytes now
    bool has_said_goodbye = false;
    bool is_lost = false;
    bool is_cut = false;                 ///< a system call has failed because the peer does not answer
    bool is_answer_old = false;          ///< when the connection broke, the peer's kernel had been silent for long
    int resets = 0;                      ///< number of times that `presence` was reset
    bool is_silent = false;              ///< lost, but the process may live
    bool has_ended[2] = {false, false};  ///< no more bytes will arrive on the control or bulk socket
    std::chrono::steady_clock::time_point ended_at[2]{};
    std::optional<std::chrono::steady_clock::time_point> silent_at{};  ///< when the peer's kernel was last found silent
    std::chrono::milliseconds silence{};                               ///< length, or 0 if the silence is not certain
  };
  enum which : std::uint32_t { control, bulk, presence };
  /// Returns the number that identifies a socket in the epoll set.
  static std::uint64_t name_of(rank peer, which socket) { return static_cast<std::uint64_t>(peer) << 2 | socket; }

  net_endpoint(const lsched::world& place, const net_options& options);
  result<bool> begin(std::vector<net_sockets> sockets, std::vector<descriptor> listening);

  // board_carrier
  void begin_with(rank) override {}
  void send(rank peer, const content& bytes) override;
  status receive(bool is_awaiting) override;
  bool can_send() const override { return !is_closed_; }
  bool can_lose() const override { return true; }
  bool is_gone(rank peer) const override;
  bool is_silent(rank peer) const override;

  // The functions of bulk_receiver. The bytes come from peer `reading_from_`.
  bool part(const frame& about, const message_head& what) override;
  std::byte* target(const frame& about) override;
  void moved(const frame& about, std::uint64_t bytes) override;
  bool end(const frame& about) override;

  // The connections (net_endpoint.cc)
  connection* open_connection_to(rank peer) const;
  void pump();
  void write_all();
  bool write(connection& to, std::uint64_t most);
  void watch_room(connection& to, which socket, bool is_blocked);
  void put(rank peer, const frame& head, std::span<const std::byte> first = {}, std::span<const std::byte> second = {});
  void put_about(const net_link& state, frame_kind kind, std::uint64_t value);
  void write_message(connection& to, const frame& head, const message_head& what, const std::byte* payload);
  void ring_for_news();
  void put_news(connection& to);
  void put_news(net_link& of);
  void note_unwritten(connection& to);
  bool has_decrypted(const connection& from, which socket) const;
  bool read_control(connection& from);
  void read_bulk(connection& from);
  void read_rest(connection& from);
  void note_broken(connection& to);
  bool is_own_fault();
  void stop_reading(connection& from, which socket);
  void check_presence(connection& of);
  void read_presence(connection& of);
  void note_presence(connection& of, int error);
  void end_presence_check(connection& of);
  void inspect_end(connection& of, std::chrono::steady_clock::time_point now);
  bool is_silent_for_too_long(const connection& of, std::chrono::steady_clock::time_point now) const;
  void close_sockets(connection& of);
  void verify_suspects();
  bool note_silence(std::chrono::steady_clock::time_point now);
  bool was_silent(rank peer, std::chrono::steady_clock::time_point now) const;
  void lose(rank who, bool is_silent = false);
  void report_losses(rank first);
  void inspect_connections(std::chrono::steady_clock::time_point now);
  void mute(connection& of);
  void fail(rank culprit);
  void kill_links(std::uint32_t id);
  void pass_on_cancellation(std::uint32_t id);
  bool waits_in_vain(const net_link& state) const;

  // The data path (net_endpoint_data.cc)
  bool take(connection& from, const control_stream::incoming& news);
  bool take_message(link_id link, const control_stream::incoming& news);
  bool take_announcement(link_id link, const frame& head, const message_head& what);
  bool begin_message(link_id link, const frame& head, const message_head& what);
  bool begin_landing(connection& from);
  std::byte* landing_place(const connection& from);
  std::byte* place_of(link_id link, round_no round);
  bool take_value(link_id link, const frame& news);
  bool transmit(link_id link, round_no round, const message& payload);
  void begin_stream(link_id link);
  bool take_cell(link_id link);
  bool bring(link_id link);
  bool can_land(const net_link& state) const;
  void tell(link_id link, std::uint64_t net_link::*value, std::uint64_t now, bool is_urgent = true);
  bool is_awaited(link_id link, round_no round) const;
  bool has_arrived(link_id link);
  void expect(const net_link& state);
  bool read_expected();

  const int process_;  ///< the process that has opened the endpoint
  const std::chrono::milliseconds shutdown_, lost_after_;
  bool is_closed_ = false;
  status health_ = status::ok;
  rank culprit_ = k_no_rank;
  doorbell own_bell_{};
  doorbell& bell_;

  descriptor set_;                                        ///< an epoll set with all sockets
  fork_guard guard_;                                      ///< for all sockets
  std::vector<descriptor> listening_;                     ///< sockets that prove the existence of this process
  std::vector<std::unique_ptr<connection>> connections_;  ///< by rank; null for this rank
  std::vector<connection*> unwritten_;  ///< connections with bytes or values that were not written yet
  std::size_t blocked_ = 0;             ///< number of sockets that take no more bytes now
  std::uint64_t moved_ = 0;  ///< number of bytes that the bulk sockets have moved since poll() last reported a move
  rank reading_from_ = k_no_rank;
  std::chrono::steady_clock::time_point next_inspection_{};  ///< when find_dead_peer() reads the kernel's state again
  std::array<connection*, 2> expected_{};  ///< the last two peers whose small messages this rank has awaited
  std::uint32_t looks_ = 0;                ///< number of calls of read_expected()
  struct suspect {
    rank who;
    bool is_silent;
    rank by = k_no_rank;  ///< the peer that has reported the loss
  };
  std::vector<suspect> suspects_;  ///< ranks that a peer has reported as lost, or whose connection has ended
  std::vector<link_id> streamed_;  ///< links whose payloads the bulk socket has just taken

  net_links links_;
  awaited_links<net_links> awaited_{links_};

  std::unique_ptr<std::atomic<rank>[]> losses_;  ///< lost ranks, in the order of their detection
  std::atomic<rank> lost_ = 0;                   ///< number of lost ranks

  message_boards boards_;
  net_watcher watcher_;
};

}  // namespace lsched
