// The contract of a transport attachment: one rank's way to move bytes. (docs/inside/transport.md)
//
// The engine's owner calls it, nobody else, unless a function says "any thread". Everything is reported by value; there
// are no callbacks. A round's message on an edge is sent once and received once, or where the edge has no credits, in
// some rounds neither; messages on one edge arrive in order; nothing is dropped, nothing blocks. Resources are reserved
// at attach, so a full queue cannot happen on the data path: an endpoint that has to delay a send keeps it and reports
// it done later.
//
// Ranks here are those of the transport, "home" (membership.h), unless a function says otherwise.
//
// Life of an instance at an endpoint:
//     attach  ->  (exchange of commit records)  ->  link  ->  rounds  ->  detach
// attach reserves everything a peer may write to *before* the records are exchanged, so a fast rank's first
// message always finds its place. The others reach it by an address that goes with the record: each rank numbers its
// instances as it likes.
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

/// What a value is made of, carried beside it and combined wherever values are combined. Identical on all
/// ranks at the end of an allreduce, which makes the round's report identical too.
struct contributor_count {
  std::uint32_t contributors = 0;  ///< ranks whose contribution is in
  rank leaver = k_no_rank;         ///< highest rank that left and is not yet agreed upon
  std::uint64_t offers = 0;        ///< application calls inside; of a mailbox's message: its tag
  friend bool operator==(const contributor_count&, const contributor_count&) = default;
};

constexpr contributor_count merge(const contributor_count& x, const contributor_count& y) {
  return {x.contributors + y.contributors, x.leaver > y.leaver ? x.leaver : y.leaver, x.offers + y.offers};
}

/// A message to send. `null` means "no contribution": a flag, not a length; no payload byte moves.
struct message {
  const std::byte* data = nullptr;
  std::uint64_t bytes = 0;
  contributor_count tally{};
  bool null = false;
  std::uint64_t shown = 0;  ///< not 0: the payload is in device memory, which the receiver finds there (device.h)
};

/// Where a message is to go, and how long it may be there.
struct message_target {
  /// Without a length there is room for all that the edge carries.
  message_target(std::byte* begin = nullptr, std::uint64_t room = ~std::uint64_t{0}) : memory(begin), bytes(room) {}
  std::byte* memory;
  std::uint64_t bytes;
};

/// A message that has arrived. `data` is the target given to receive, or memory of the transport or of the peer
/// that stays valid and unchanged until release; null of a message that is longer than its target, which is dropped.
struct arrival {
  const std::byte* data = nullptr;
  std::uint64_t bytes = 0;
  contributor_count tally{};
  bool null = false;
  std::uint64_t shown = 0;  ///< not 0: the payload is in the sender's device memory, there, until release; no `data`
};

/// One direction of one edge of one instance.
using link_id = std::uint32_t;
inline constexpr link_id k_no_link = ~link_id{0};

struct edge_spec {
  bool outgoing = false;
  bool signal = false;
  bool foreign = false;       ///< outgoing: the source may be memory that allocate() did not give
  std::uint32_t source = 0;   ///< outgoing: edges of one attach with equal numbers but 0 send the same bytes in a round
  bool in_place = false;      ///< incoming: the payload is read where it is, until release: it needs no target
  bool reads_device = false;  ///< incoming, in place: the payload may be in device memory that the sender shows
  bool announced = false;     ///< incoming: receive says what has come, and fetch brings it
  rank peer = k_no_rank;
  std::uint32_t tag = 0;
  std::uint64_t capacity = 0;  ///< bytes, the most one message carries
  bool grows = false;          ///< outgoing: most messages are far below that, or not foreign: nothing is reserved
  std::uint64_t cookie = 0;    ///< handed back with completions
};

/// What a rank waits for. For people, and for the ranks that wait for it.
struct wait_note {
  static constexpr std::uint64_t k_message =
      ~std::uint64_t{0};  ///< in the place of an instance: of a mailbox's message
  bool is_of_message() const { return round != 0 && instance == k_message; }

  std::uint64_t instance = 0;  ///< the number on record, which is the same on all ranks
  round_no round = 0;          ///< 0: it does not wait
  op_id op = k_no_op;          ///< k_no_op: for something else than an op that communicates
  rank peer = k_no_rank;
  op_kind kind = op_kind::nop;
  std::uint32_t tag = 0;
  std::uint64_t since_ns = 0;  ///< of the machine's monotonic clock
};

/// What the operating system says of a rank's process.
enum class rank_state : std::uint8_t { unknown, running, stopped, ending };

/// Why a rank has ended an instance before its time.
struct end_reason {
  rank who = k_no_rank;            ///< the rank that has cancelled the instance, or the rank to blame for a failure
  status why = status::cancelled;  ///< or the failure, PEER for instance
  friend bool operator==(const end_reason&, const end_reason&) = default;

  /// As one word, which is never 0.
  constexpr std::uint32_t packed() const {
    return static_cast<std::uint32_t>(-static_cast<int>(why)) << k_rank_bits | static_cast<std::uint32_t>(who + 1);
  }
  static constexpr end_reason unpack(std::uint32_t word) {
    const auto why = -static_cast<int>(word >> k_rank_bits);
    return {static_cast<rank>(word & ((std::uint32_t{1} << k_rank_bits) - 1)) - 1, static_cast<status>(why)};
  }
  static constexpr int k_rank_bits = 24;
};

/// News of an instance that another rank has ended.
struct cancellation {
  std::uint32_t instance = 0;  ///< this rank's number
  end_reason reason{};
  bool is_departure = false;       ///< instead: this rank waits in vain for `reason.who`, which has detached it
  std::optional<round_no> last{};  ///< of a departure: messages up to this round may be on their way. Nothing: all came
};

struct completion {
  std::uint64_t cookie = 0;
  round_no round = 0;  ///< the round it was posted or armed for
  arrival what{};      ///< receives only
};

class endpoint {
 public:
  virtual ~endpoint() = default;

  virtual world place() const = 0;
  virtual std::string_view name() const = 0;

  /// Memory that peers may be able to read directly; 64-byte aligned, contents unspecified. Null when there is
  /// none left. Any thread, cold path.
  virtual std::byte* allocate(std::size_t bytes) = 0;
  virtual void deallocate(std::byte* memory) = 0;

  /// Whether a message of this memory, of which the caller answers for `bytes` bytes, leaves from where it is. If not,
  /// it is copied first. Any thread.
  virtual bool sends_from(const std::byte* memory, std::uint64_t bytes) const {
    static_cast<void>(memory), static_cast<void>(bytes);
    return true;
  }

  /// Where the other ranks that share this rank's memory find a place in it; 0: none shares it.
  virtual std::uint64_t offset_of(const std::byte* memory) const {
    static_cast<void>(memory);
    return 0;
  }
  /// Such a place of another rank, to be read; null: no memory is shared with it, or there is none of so many bytes.
  virtual const std::byte* memory_at(rank who, std::uint64_t place, std::uint64_t bytes) const {
    static_cast<void>(who), static_cast<void>(place), static_cast<void>(bytes);
    return nullptr;
  }

  /// Tells the ranks that share this rank's memory of a part of it, from allocate(), that is never given back: they may
  /// prepare to read there. False: there are no such ranks, or more parts than can be told of. Cold path.
  virtual bool show_kept(const std::byte* memory, std::uint64_t bytes) {
    static_cast<void>(memory), static_cast<void>(bytes);
    return false;
  }
  /// That part of a rank's that holds all of [place, place + bytes), where this rank sees it; empty: none does. Cheap.
  virtual std::span<const std::byte> kept_at(const std::byte* place, std::uint64_t bytes) const {
    static_cast<void>(place), static_cast<void>(bytes);
    return {};
  }

  // Device memory that ranks of a node show each other. What it takes to find it is for devices alone to know.

  /// One piece of a rank's device memory.
  struct device_area {
    std::uint64_t address, bytes;
    std::int32_t process;              ///< in which the address means something
    std::int32_t descriptor;           ///< of that process; -1: by `handle`
    std::array<std::byte, 16> device;  ///< which one of all in the world
    std::array<std::byte, 64> handle;
    std::uint64_t serial = 0;  ///< the endpoint's: of nothing else that the rank ever shows
  };
  static constexpr std::uint32_t k_most_areas = 64;

  /// Tells the ranks that share this rank's memory of an area, by a number below k_most_areas under which none is
  /// shown. False: there are no such ranks. Cold path.
  virtual bool show_area(std::uint32_t number, const device_area& what) {
    static_cast<void>(number), static_cast<void>(what);
    return false;
  }
  /// Under that number nothing is shown any more. Cold path.
  virtual void hide_area(std::uint32_t number) { static_cast<void>(number); }
  /// What a rank shows now. Cheap.
  virtual std::optional<device_area> area_of(rank who, std::uint32_t number) const {
    static_cast<void>(who), static_cast<void>(number);
    return std::nullopt;
  }

  /// Of a linked outgoing edge: whether its receiver takes messages in device memory.
  virtual bool reads_device(link_id link) const {
    static_cast<void>(link);
    return false;
  }

  // --- commit: each by all members of a world, once each ------------------------------------------------------

  /// A board for a world of so many members at most, to be joined when they are known. The endpoint outlives it.
  /// NO_MEMORY.
  virtual result<std::unique_ptr<board>> open_board(std::size_t most) = 0;

  /// That of the world of all ranks, joined. Once.
  virtual std::unique_ptr<board> open_home_board() = 0;

  /// Reserves the edges of an instance of a world of these ranks, which is called `id` from here on, a number that was
  /// never used before. Every edge leads to a member, and no two are of one peer, tag, kind and direction.
  /// `credits`: the schedule is not synchronising, so the send of round t+2 waits until round t was consumed. Answers
  /// one link per edge.
  virtual result<std::vector<link_id>> attach(std::uint32_t id, std::span<const rank> members, bool credits,
                                              std::span<const edge_spec> edges) = 0;

  /// Of an attached instance: what the other ranks have to know before they link theirs.
  virtual member_address address_of(std::uint32_t id) const = 0;

  /// Connects instance `id` to those at the addresses, one for each member by its rank in the world, after an exchange
  /// by which every edge of the world has its opposite: commit.h sees to that. A transport that looks at both ends
  /// answers UNMATCHED where it misses one.
  virtual status link(std::uint32_t id, std::span<const member_address> all) = 0;

  /// Gives the edges back. No message may be outstanding, unless the instance was abandoned. One that was never linked
  /// here must not be linked anywhere.
  virtual void detach(std::uint32_t id) = 0;

  // --- giving up (docs/reference/cancel.md) ---------------------------------------------------------------------

  /// Ends an instance on all members (by messages: on those that edges lead to). The first reason stays on record, and
  /// later calls change nothing. Each rank that has attached the instance, this one included, learns the reason once by
  /// take_cancellation().
  virtual void cancel(std::uint32_t id, const end_reason& reason) = 0;

  /// Whether poll() has heard of a cancellation, or of a rank that is lost.
  bool has_bad_news() const { return has_bad_news_; }

  /// The next cancellation that poll() has found.
  std::optional<cancellation> take_cancellation() {
    has_bad_news_ = cancellations_.size() > 1 || !losses_.empty();
    if (cancellations_.empty()) return std::nullopt;
    const cancellation next = cancellations_.back();
    cancellations_.pop_back();
    return next;
  }

  /// Drops all that was posted or armed for an attached instance: no completion follows, memory that was given as a
  /// target is not written any more, and payloads in place are released. Only detach, close_to_readers, cancel and
  /// check_readers may follow.
  virtual void abandon(std::uint32_t id) = 0;

  /// From here on no peer begins to read this rank's memory for a linked instance. No peer is woken: a peer that comes
  /// to a payload which it cannot read any more learns the reason by take_cancellation(). The first reason stays.
  virtual void close_to_readers(std::uint32_t id, const end_reason& reason) = 0;

  /// Whether the peers have ended their reads of this rank's memory, of an instance that is closed to readers or was
  /// cancelled. PENDING: `reader` still reads. UNSUPPORTED: the medium may still read or write memory of the caller's,
  /// and cannot be made to let go; `reader` is a rank that may still use the message, or none.
  virtual status check_readers(std::uint32_t id, rank* reader) = 0;

  // --- peers that are lost ------------------------------------------------------------------------------------

  /// The next lost rank of which poll() has heard, in the order that is on record; k_no_rank: none. Asked first: what
  /// is left are cancellations.
  rank take_loss() {
    if (losses_.empty()) return k_no_rank;
    const rank next = losses_.front();
    losses_.erase(losses_.begin());
    has_bad_news_ = !losses_.empty() || !cancellations_.empty();
    return next;
  }

  /// Looks for peers that have died, or closed while something waits for them, and puts them on record. Answers the
  /// first one there, or k_no_rank. Finds departures (cancellation), too. Asks the operating system: for idle moments.
  virtual rank find_dead_peer() { return k_no_rank; }

  /// Whether the loss of a rank is on record.
  virtual bool is_lost(rank who) const {
    static_cast<void>(who);
    return false;
  }

  /// The rank that was lost after so many others, in the order on record; k_no_rank: no more is on record. Any thread.
  virtual rank lost_after(rank others) const {
    static_cast<void>(others);
    return k_no_rank;
  }

  // --- where ranks are, for diagnosis ---------------------------------------------------------------------------

  /// Puts an attached instance on record, by a number that is the same on all ranks and a name for people. Answers
  /// where this rank writes, for the others, the last round that its application has called for; null: nobody reads it.
  virtual std::atomic<round_no>* put_on_record(std::uint32_t id, std::uint64_t number, std::string_view label) {
    static_cast<void>(id), static_cast<void>(number), static_cast<void>(label);
    return nullptr;
  }
  /// The last round of a linked instance that `who` has entered; nothing: the medium does not know.
  virtual std::optional<round_no> entered_by(rank who, std::uint32_t id) const {
    static_cast<void>(who), static_cast<void>(id);
    return std::nullopt;
  }

  /// Notes for the others what this rank waits for, once it has waited for a while; round 0 takes that back.
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

  /// Sends round `round`'s message, one at a time: the link's last send must be done. True: done at once, no completion
  /// follows, the source may change. False: a completion follows; until then the source must stay as it is.
  virtual bool send(link_id link, round_no round, const message& what) = 0;

  /// Receives round `round`'s message into `into`, or in place where the edge allows it. True: `out` holds it.
  /// False: a completion follows.
  virtual bool receive(link_id link, round_no round, message_target into, arrival& out) = 0;

  /// Of an announced edge, whose receive tells the tally and the length of a message, and whose `out` has no data:
  /// brings that message. Answers as receive. The target has room for it.
  virtual bool fetch(link_id link, round_no round, message_target into, arrival& out) = 0;

  /// No message will be sent on the edge after that of round `last`: its receiver hears of the departure. A medium by
  /// which ranks hear of that anyway does nothing.
  virtual void end_edge(link_id link, round_no last) { static_cast<void>(link), static_cast<void>(last); }

  /// The in-place payload of `round` has been read for the last time.
  virtual void release(link_id link, round_no round) = 0;

  /// Raises the peer's register to `round`. Never waits; may be merged with later ones.
  virtual void signal(link_id link, round_no round) = 0;

  /// Asks for a completion once the register holds at least `round`. True: it does already. Arming again
  /// replaces the round asked for.
  virtual bool arm(link_id link, round_no round) = 0;

  /// Takes the arm back; a completion not yet polled is dropped. Used only when a round begins anew or the
  /// instance ends.
  virtual void disarm(link_id link) = 0;

  /// Reports up to `out.size()` completions.
  virtual std::size_t poll(std::span<completion> out) = 0;

  /// Wakes the peers that sleep and for which send, release, signal or poll has published something since the last
  /// flush. Until then a peer that polls sees it, one that sleeps may not. The owner flushes when it has nothing more
  /// to publish, and before anything that takes long; never later than it sleeps or lets go.
  virtual void flush() {}

  /// Whether anything is posted or armed that a message could complete.
  virtual bool is_listening() const = 0;

  /// Whether progress needs polling even though nobody rings (a medium that cannot wake sleepers).
  virtual bool is_time_driven() const { return false; }

  /// Whether calls of this endpoint may be cancellation points (no_cancellation.h).
  virtual bool has_cancellation_points() const { return false; }

  /// Why the transport itself has failed, or ok; and whose message could not be taken, where it was that.
  virtual status health() const { return status::ok; }
  virtual rank culprit() const { return k_no_rank; }

  /// The bell that peers ring for this rank.
  virtual doorbell& bell() = 0;

  /// Tells the peers that this rank goes away on purpose.
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
