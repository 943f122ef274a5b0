// The contract of an endpoint: the attachment of one rank to a transport. (docs/inside/transport.md)
//
// Thread safety: only the thread that owns the engine calls an endpoint, except for functions marked "Any thread".
// There are no callbacks. All events are return values.
//
// An edge leads from a send op of one rank to a receive op of another. In each round, the message of an edge is sent
// once and received once. An edge without credits (attach()) may have rounds without a message. Messages of one edge
// arrive in order. No message is lost, and no call blocks. All resources are reserved at attach, so no queue can be
// full on the data path. If an endpoint has to delay a send, it keeps the message and reports the completion later.
//
// Ranks are home ranks (membership.h), unless a function documents otherwise.
//
// Life of an instance at an endpoint:
//     attach  ->  (exchange of commit records)  ->  link  ->  rounds  ->  detach
// Before the records are exchanged, attach() reserves all memory that peers may write to. So that memory exists when
// the first message of a fast rank arrives. The commit record carries the address of that memory, because each rank
// chooses its own instance ids.
//
// Every implementation passes tests/conformance/endpoint_exam.h.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libsched/transport/board.h"
#include "libsched/transport/doorbell.h"
#include "ops/base.h"
#include "ops/op.h"
#include "ops/status.h"

namespace lsched {

/// The contributors of a value. The count travels with the value and is merged wherever values are combined. At the end
/// of an allreduce it is equal on all ranks, so the reports of the round are equal too.
struct contributor_count {
  std::uint32_t contributors = 0;  ///< ranks whose contribution the value contains
  rank leaver = k_no_rank;         ///< highest rank that has left, but not yet by agreement of all ranks; or k_no_rank
  std::uint64_t offers = 0;        ///< application calls in the value; for a mailbox message: the tag
  friend bool operator==(const contributor_count&, const contributor_count&) = default;
};

constexpr contributor_count merge(const contributor_count& x, const contributor_count& y) {
  return {x.contributors + y.contributors, x.leaver > y.leaver ? x.leaver : y.leaver, x.offers + y.offers};
}

/// A message to send. `null` means "no contribution". It is a flag, not a length, and no payload is sent.
struct message {
  const std::byte* data = nullptr;
  std::uint64_t bytes = 0;
  contributor_count tally{};
  bool null = false;
  /// If not 0: the place of the payload in device memory, by which the receiver finds it (device.h).
  std::uint64_t shown = 0;
};

/// The memory for an incoming message, and its size.
struct message_target {
  /// If `room` is not given, the memory must hold the capacity of the edge.
  message_target(std::byte* begin = nullptr, std::uint64_t room = ~std::uint64_t{0}) : memory(begin), bytes(room) {}
  std::byte* memory;
  std::uint64_t bytes;
};

/// A message that has arrived. `data` is the target given to receive, or memory of the transport or of the peer that
/// stays valid and unchanged until release. A message that is longer than its target is dropped, and `data` is null.
struct arrival {
  const std::byte* data = nullptr;
  std::uint64_t bytes = 0;
  contributor_count tally{};
  bool null = false;
  /// If not 0: the place of the payload in the sender's device memory, valid until release. `data` is null then.
  std::uint64_t shown = 0;
};

/// One direction of one edge of one instance.
using link_id = std::uint32_t;
inline constexpr link_id k_no_link = ~link_id{0};

struct edge_spec {
  bool outgoing = false;
  bool signal = false;
  bool foreign = false;  ///< outgoing: the source may be memory that is not from allocate()
  /// Outgoing: number of the source. Edges of one attach() with equal numbers other than 0 send the same bytes in a
  /// round.
  std::uint32_t source = 0;
  bool in_place = false;      ///< incoming: the payload is read in place until release and needs no target
  bool reads_device = false;  ///< incoming, in place: the payload may be in device memory of the sender
  bool announced = false;     ///< incoming: receive returns only the header, and fetch returns the payload
  rank peer = k_no_rank;
  std::uint32_t tag = 0;
  std::uint64_t capacity = 0;  ///< largest message, in bytes
  bool grows = false;  ///< outgoing: no staging memory is reserved, because messages are usually short or not foreign
  std::uint64_t cookie = 0;  ///< returned with completions
};

/// The message or signal for which a rank waits. Peers read the note for diagnosis.
struct wait_note {
  static constexpr std::uint64_t k_message =
      ~std::uint64_t{0};  ///< value of `instance` if the rank waits for a mailbox message
  bool is_of_message() const { return round != 0 && instance == k_message; }

  std::uint64_t instance = 0;  ///< number on record, equal on all ranks
  round_no round = 0;          ///< 0: the rank does not wait
  op_id op = k_no_op;          ///< k_no_op: the rank does not wait for an op that communicates
  rank peer = k_no_rank;
  op_kind kind = op_kind::nop;
  std::uint32_t tag = 0;
  std::uint64_t since_ns = 0;  ///< start of the wait on the machine's monotonic clock
};

/// The state of a rank's process according to the operating system.
enum class rank_state : std::uint8_t { unknown, running, stopped, ending };

/// The reason why a rank has ended an instance early.
struct end_reason {
  rank who = k_no_rank;            ///< rank that has cancelled the instance, or the culprit of a failure
  status why = status::cancelled;  ///< cancelled, or the failure, for example PEER
  friend bool operator==(const end_reason&, const end_reason&) = default;

  /// Packs the reason into a word that is never 0.
  constexpr std::uint32_t packed() const {
    return static_cast<std::uint32_t>(-static_cast<int>(why)) << k_rank_bits | static_cast<std::uint32_t>(who + 1);
  }
  static constexpr end_reason unpack(std::uint32_t word) {
    const auto why = -static_cast<int>(word >> k_rank_bits);
    return {static_cast<rank>(word & ((std::uint32_t{1} << k_rank_bits) - 1)) - 1, static_cast<status>(why)};
  }
  static constexpr int k_rank_bits = 24;
};

/// The report that another rank has ended an instance.
struct cancellation {
  std::uint32_t instance = 0;  ///< id of the instance on this rank
  end_reason reason{};
  /// True: the report is a departure. This rank waits for `reason.who`, which has detached the instance.
  bool is_departure = false;
  /// Departure: messages up to this round may be in flight; empty: all messages have arrived
  std::optional<round_no> last{};
};

struct completion {
  std::uint64_t cookie = 0;
  round_no round = 0;  ///< round for which the operation was posted or armed
  arrival what{};      ///< set for receives only
};

class endpoint {
 public:
  virtual ~endpoint() = default;

  virtual world place() const = 0;
  virtual std::string_view name() const = 0;

  /// Allocates memory that peers may be able to read directly. The memory is 64-byte aligned and not initialised.
  /// Returns nullptr if no memory is left. Any thread, cold path.
  virtual std::byte* allocate(std::size_t bytes) = 0;
  virtual void deallocate(std::byte* memory) = 0;

  /// Returns whether messages are sent from this memory without a copy. The caller guarantees that the memory has
  /// `bytes` bytes. Any thread.
  virtual bool sends_from(const std::byte* memory, std::uint64_t bytes) const {
    static_cast<void>(memory), static_cast<void>(bytes);
    return true;
  }

  /// Returns the offset of a place in this rank's memory, by which other ranks find the place (memory_at()); 0: no rank
  /// shares the memory.
  virtual std::uint64_t offset_of(const std::byte* memory) const {
    static_cast<void>(memory);
    return 0;
  }
  /// Returns a place in another rank's memory for reading; nullptr if the ranks share no memory, or if the memory has
  /// fewer than `bytes` bytes from that place on.
  virtual const std::byte* memory_at(rank who, std::uint64_t place, std::uint64_t bytes) const {
    static_cast<void>(who), static_cast<void>(place), static_cast<void>(bytes);
    return nullptr;
  }

  /// Announces a part of this rank's memory that is never freed, so that the ranks that share the memory can prepare to
  /// read the part. The part comes from allocate(). Returns false if no rank shares the memory or if too many parts are
  /// announced. Cold path.
  virtual bool show_kept(const std::byte* memory, std::uint64_t bytes) {
    static_cast<void>(memory), static_cast<void>(bytes);
    return false;
  }
  /// Returns the announced part of any rank that contains [place, place + bytes), as mapped in this process; empty if
  /// no part does. Cheap.
  virtual std::span<const std::byte> kept_at(const std::byte* place, std::uint64_t bytes) const {
    static_cast<void>(place), static_cast<void>(bytes);
    return {};
  }

  // Device memory that ranks of a node expose to each other. Only devices interpret a device_area.

  /// A piece of a rank's device memory.
  struct device_area {
    std::uint64_t address, bytes;
    std::int32_t process;              ///< process in which the address is valid
    std::int32_t descriptor;           ///< descriptor in that process; -1: use `handle`
    std::array<std::byte, 16> device;  ///< unique id of the device
    std::array<std::byte, 64> handle;
    std::uint64_t serial = 0;  ///< set by the endpoint; unique among all areas that the rank exposes
  };
  static constexpr std::uint32_t k_most_areas = 64;

  /// Exposes an area to the ranks that share this rank's memory. `number` is below k_most_areas and not in use. Returns
  /// false if no rank shares the memory. Cold path.
  virtual bool show_area(std::uint32_t number, const device_area& what) {
    static_cast<void>(number), static_cast<void>(what);
    return false;
  }
  /// Withdraws the area with that number. Cold path.
  virtual void hide_area(std::uint32_t number) { static_cast<void>(number); }
  /// Returns the area that a rank exposes now under that number. Cheap.
  virtual std::optional<device_area> area_of(rank who, std::uint32_t number) const {
    static_cast<void>(who), static_cast<void>(number);
    return std::nullopt;
  }

  /// Returns whether the receiver of a linked outgoing edge accepts messages in device memory.
  virtual bool reads_device(link_id link) const {
    static_cast<void>(link);
    return false;
  }

  // --- commit: all members of a world make each call, once ------------------------------------------------------

  /// Opens a board for a world of at most `most` members. The caller calls board::join() when the members are known.
  /// The endpoint must outlive the board. Returns NO_MEMORY if no memory is left.
  virtual result<std::unique_ptr<board>> open_board(std::size_t most) = 0;

  /// Opens the board of the world of all ranks. The board has joined already. Called once.
  virtual std::unique_ptr<board> open_home_board() = 0;

  /// Reserves the edges of an instance of a world of these ranks. `id` is new and names the instance from here on.
  /// Every edge leads to a member, and no two edges agree in peer, tag, kind and direction. `credits`: the schedule is
  /// not synchronising, so the send of round t+2 waits until the message of round t was consumed. Returns one link per
  /// edge.
  virtual result<std::vector<link_id>> attach(std::uint32_t id, std::span<const rank> members, bool credits,
                                              std::span<const edge_spec> edges) = 0;

  /// Returns the address that the other ranks need to link their ends of an attached instance.
  virtual member_address address_of(std::uint32_t id) const = 0;

  /// Connects instance `id` to the instances at these addresses. `all` has one address per member, by rank in the
  /// world. The preceding exchange ensures that every edge has an opposite edge at the peer (commit.h). A transport
  /// that compares both ends returns UNMATCHED if an end is missing.
  virtual status link(std::uint32_t id, std::span<const member_address> all) = 0;

  /// Frees the edges. No message may be in flight unless the instance was abandoned. An instance that was never linked
  /// here must not be linked on any rank.
  virtual void detach(std::uint32_t id) = 0;

  // --- cancellation (docs/reference/cancel.md) ------------------------------------------------------------------

  /// Ends an instance on all members. A transport that uses messages ends the instance only on the members to which
  /// edges lead. The first reason is kept, and later calls have no effect. Each rank that has attached the instance,
  /// this rank included, gets the reason once from take_cancellation().
  virtual void cancel(std::uint32_t id, const end_reason& reason) = 0;

  /// Returns whether poll() has found a cancellation or a lost rank.
  bool has_bad_news() const { return has_bad_news_; }

  /// Removes and returns a cancellation that poll() has found.
  std::optional<cancellation> take_cancellation() {
    has_bad_news_ = cancellations_.size() > 1 || !losses_.empty();
    if (cancellations_.empty()) return std::nullopt;
    const cancellation next = cancellations_.back();
    cancellations_.pop_back();
    return next;
  }

  /// Drops all operations that are posted or armed for an attached instance. No completion follows, targets are no
  /// longer written, and payloads in place are released. Afterwards only detach, close_to_readers, cancel and
  /// check_readers may be called.
  virtual void abandon(std::uint32_t id) = 0;

  /// Prevents peers from starting to read this rank's memory for a linked instance. No peer is woken. If a peer reaches
  /// a payload that it may no longer read, that peer gets the reason from take_cancellation(). The first reason is
  /// kept.
  virtual void close_to_readers(std::uint32_t id, const end_reason& reason) = 0;

  /// Returns OK if no peer reads this rank's memory for an instance that is closed to readers or was cancelled.
  /// PENDING: `reader` still reads. UNSUPPORTED: the transport may still access memory of the caller and cannot be
  /// stopped. `reader` is then a rank that may still use the message, or k_no_rank.
  virtual status check_readers(std::uint32_t id, rank* reader) = 0;

  // --- lost peers ---------------------------------------------------------------------------------------------

  /// Removes and returns the next lost rank that poll() has found, in the order on record; k_no_rank if no loss is
  /// left. The caller takes all losses before the cancellations.
  rank take_loss() {
    if (losses_.empty()) return k_no_rank;
    const rank next = losses_.front();
    losses_.erase(losses_.begin());
    has_bad_news_ = !losses_.empty() || !cancellations_.empty();
    return next;
  }

  /// Searches for peers that have died, or that have closed while this rank waits for them, and records them as lost.
  /// Returns the first rank on record, or k_no_rank. Also reports departures (cancellation). Calls the operating
  /// system, so this function should only be called in idle moments.
  virtual rank find_dead_peer() { return k_no_rank; }

  /// Returns whether the loss of a rank is on record.
  virtual bool is_lost(rank who) const {
    static_cast<void>(who);
    return false;
  }

  /// Returns the rank that was lost after `others` other ranks, in the order on record; k_no_rank if fewer losses are
  /// on record. Any thread.
  virtual rank lost_after(rank others) const {
    static_cast<void>(others);
    return k_no_rank;
  }

  // --- state of ranks, for diagnosis ----------------------------------------------------------------------------

  /// Puts an attached instance on record under a number that is equal on all ranks, and a readable name. Returns the
  /// word in which this rank publishes the last round that its application has called for; nullptr if no rank reads the
  /// word.
  virtual std::atomic<round_no>* put_on_record(std::uint32_t id, std::uint64_t number, std::string_view label) {
    static_cast<void>(id), static_cast<void>(number), static_cast<void>(label);
    return nullptr;
  }
  /// Returns the last round of a linked instance that `who` has entered; nullopt if the transport cannot find out.
  virtual std::optional<round_no> entered_by(rank who, std::uint32_t id) const {
    static_cast<void>(who), static_cast<void>(id);
    return std::nullopt;
  }

  /// Publishes what this rank has been waiting for, for diagnosis by other ranks. Round 0 withdraws the note.
  virtual void note_wait(const wait_note& what) { static_cast<void>(what); }
  virtual wait_note wait_of(rank who) const {
    static_cast<void>(who);
    return {};
  }

  virtual rank_state state_of(rank who) const {
    static_cast<void>(who);
    return rank_state::unknown;
  }

  // --- data path ----------------------------------------------------------------------------------------------

  /// Sends the message of `round`. The previous send of the link must have completed. Returns true if the send has
  /// completed: no completion follows, and the source may change. Returns false if a completion follows, until which
  /// the source must not change.
  virtual bool send(link_id link, round_no round, const message& what) = 0;

  /// Receives the message of `round` into `into`, or in place if the edge allows that. Returns true if `out` holds the
  /// message, and false if a completion follows.
  virtual bool receive(link_id link, round_no round, message_target into, arrival& out) = 0;

  /// Fetches the payload of a message on an announced edge, after receive has returned its tally and length without
  /// data. The target must be large enough for the payload. Returns the same values as receive().
  virtual bool fetch(link_id link, round_no round, message_target into, arrival& out) = 0;

  /// Announces that no message follows that of round `last` on the edge, so that the receiver gets a departure. Does
  /// nothing if ranks of the transport detect departures anyway.
  virtual void end_edge(link_id link, round_no last) { static_cast<void>(link), static_cast<void>(last); }

  /// Ends the use of the in-place payload of `round`.
  virtual void release(link_id link, round_no round) = 0;

  /// Raises the register of a signal edge, a word at the peer, to `round`. Never waits. The transport may merge signals
  /// into a later signal.
  virtual void signal(link_id link, round_no round) = 0;

  /// Requests a completion for the moment when this rank's register of a signal edge holds at least `round`. Returns
  /// true if the register already does. A later call replaces the requested round.
  virtual bool arm(link_id link, round_no round) = 0;

  /// Withdraws the request of arm. A completion that was not polled yet is dropped. Used only when a round restarts or
  /// the instance ends.
  virtual void disarm(link_id link) = 0;

  /// Returns up to `out.size()` completions.
  virtual std::size_t poll(std::span<completion> out) = 0;

  /// Wakes sleeping peers for which send, release, signal or poll has published anything since the last flush. Peers
  /// that poll see the messages without a flush, but sleeping peers may not. The owner flushes when it has no more to
  /// publish, before any long operation, and before it sleeps or releases the engine.
  virtual void flush() {}

  /// Returns whether any posted or armed operation waits for a message.
  virtual bool is_listening() const = 0;

  /// Returns whether progress needs polling because the transport cannot wake sleeping ranks.
  virtual bool is_time_driven() const { return false; }

  /// Returns whether calls of this endpoint may be cancellation points (no_cancellation.h).
  virtual bool has_cancellation_points() const { return false; }

  /// health() returns OK, or the error that made the transport fail. culprit() returns the rank whose message could not
  /// be read, if that was the cause, or k_no_rank.
  virtual status health() const { return status::ok; }
  virtual rank culprit() const { return k_no_rank; }

  /// Returns the doorbell that peers ring for this rank.
  virtual doorbell& bell() = 0;

  /// Informs the peers that this rank leaves on purpose.
  virtual void close() = 0;

 protected:
  void report_cancelled(const cancellation& what) {
    cancellations_.push_back(what);
    has_bad_news_ = true;
  }
  void report_lost(rank peer) {
    losses_.push_back(peer);
    has_bad_news_ = true;
  }

 private:
  bool has_bad_news_ = false;
  std::vector<rank> losses_;
  std::vector<cancellation> cancellations_;
};

}  // namespace lsched
