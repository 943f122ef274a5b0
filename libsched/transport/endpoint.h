// The contract of an endpoint: the attachment of one rank to a transport. (docs/inside/transport.md)
//
// Every transport implements `endpoint`. A transport that shares memory, or that can watch its peers, also implements
// the interfaces of endpoint_memory.h, endpoint_areas.h, endpoint_recorder.h and endpoint_liveness.h. For all other
// transports, the base classes of these four interfaces are used.
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
// Before the records are exchanged, attach() reserves all memory that peers may write to. Therefore the memory exists
// when the first message of a fast rank arrives. The commit record carries the address of that memory, because each
// rank chooses its own instance ids.
//
// Every implementation passes tests/conformance/endpoint_exam.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "libsched/transport/board.h"
#include "libsched/transport/doorbell.h"
#include "libsched/transport/endpoint_areas.h"
#include "libsched/transport/endpoint_liveness.h"
#include "libsched/transport/endpoint_memory.h"
#include "libsched/transport/endpoint_recorder.h"
#include "libsched/transport/message.h"
#include "ops/base.h"
#include "ops/status.h"

namespace lsched {

/// The interfaces that a transport implements besides its endpoint. Null: the base class of the interface is used.
struct endpoint_parts {
  endpoint_memory* memory = nullptr;
  endpoint_areas* areas = nullptr;
  endpoint_recorder* recorder = nullptr;
  endpoint_liveness* liveness = nullptr;
  bool has_cancellation_points = false;  ///< calls of the endpoint may be cancellation points (no_cancellation.h)
};

class endpoint {
 public:
  virtual ~endpoint() = default;

  const world& place() const { return place_; }
  std::string_view name() const { return name_; }
  endpoint_memory& memory() const { return of_transport_or_base<endpoint_memory>(parts_.memory); }
  endpoint_areas& areas() const { return of_transport_or_base<endpoint_areas>(parts_.areas); }
  endpoint_recorder& recorder() const { return of_transport_or_base<endpoint_recorder>(parts_.recorder); }
  endpoint_liveness& liveness() const { return of_transport_or_base<endpoint_liveness>(parts_.liveness); }
  bool has_cancellation_points() const { return parts_.has_cancellation_points; }

  // --- commit: all members of a world make each call, once ------------------------------------------------------

  /// Opens a board for a world of at most `most` members. The caller calls board::join() when the members are known.
  /// The endpoint must outlive the board. Returns NO_MEMORY if no memory is left.
  virtual result<std::unique_ptr<board>> open_board(std::size_t most) = 0;

  /// Opens the board of the world of all ranks. The board has joined already. Called once.
  virtual std::unique_ptr<board> open_home_board() = 0;

  /// Reserves the edges of an instance whose world has these members. `id` must be new; it identifies the instance in
  /// later calls. Every edge leads to a member, and no two edges agree in peer, tag, kind and direction. `credits`: the
  /// schedule is not synchronising, so the send of round t+2 waits until the message of round t was consumed. Returns
  /// one link per edge.
  virtual result<std::vector<link_id>> attach(std::uint32_t id, std::span<const rank> members, bool credits,
                                              std::span<const edge_spec> edges) = 0;

  /// Returns the address that the other ranks need to link their ends of an attached instance.
  virtual member_address address_of(std::uint32_t id) const = 0;

  /// Connects instance `id` to the instances at these addresses. `all` has one address per member, indexed by rank of
  /// the world. The preceding exchange of records ensures that every edge has an opposite edge at the peer (commit.h).
  /// A transport that compares both ends returns UNMATCHED if an end is missing.
  virtual status link(std::uint32_t id, std::span<const member_address> all) = 0;

  /// Frees the edges. Unless the instance was abandoned, no message may be in flight. If the instance was never linked
  /// on this rank, it must not be linked on any rank.
  virtual void detach(std::uint32_t id) = 0;

  // --- cancellation (docs/reference/cancel.md) ------------------------------------------------------------------

  /// Ends an instance on all members. A transport that uses messages sends the cancellation to the peers with which
  /// this rank shares an edge, and these ranks pass the cancellation on. So a member does not receive the cancellation
  /// unless a chain of edges leads to it from this rank. The first reason is kept, and later calls have no effect. Each
  /// rank that has attached the instance, this rank included, gets the reason once from take_cancellation().
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
  /// PENDING: `reader` still reads the memory. UNSUPPORTED: the transport may still access memory of the caller and
  /// cannot be stopped. `reader` is then a rank that may still use the message, or k_no_rank.
  virtual status check_readers(std::uint32_t id, rank* reader) = 0;

  /// Removes and returns the next lost rank that poll() has found, in the order of recording; k_no_rank if no loss is
  /// left. The caller takes all losses before the cancellations.
  rank take_loss() {
    if (losses_.empty()) return k_no_rank;
    const rank next = losses_.front();
    losses_.erase(losses_.begin());
    has_bad_news_ = !losses_.empty() || !cancellations_.empty();
    return next;
  }

  // --- data path ----------------------------------------------------------------------------------------------

  /// Sends the message of `round`. The previous send of the link must have completed. Returns true if the send has
  /// completed at once: poll() then reports no completion, and the source may change. Returns false if poll() will
  /// report the completion: until then, the source must not change.
  virtual bool send(link_id link, round_no round, const message& what) = 0;

  /// Receives the message of `round` into `into`, or in place if the edge allows that. Returns true if `out` contains
  /// the message, and false if poll() will report the completion.
  virtual bool receive(link_id link, round_no round, message_target into, arrival& out) = 0;

  /// Fetches the payload of a message on an announced edge, after receive() has returned the tally and the length of
  /// the message without data. The target must be large enough for the payload. Returns the same values as receive().
  virtual bool fetch(link_id link, round_no round, message_target into, arrival& out) = 0;

  /// Announces that the message of round `last` is the last on the edge, so that the receiver learns of the departure
  /// (cancellation). Does nothing if ranks of the transport detect departures anyway.
  virtual void end_edge(link_id link, round_no last) { static_cast<void>(link), static_cast<void>(last); }

  /// Ends the use of the in-place payload of `round`.
  virtual void release(link_id link, round_no round) = 0;

  /// Sets the register of a signal edge to `round`. The register is a word in the peer's memory, and never decreases.
  /// Never waits. The transport may merge signals into a later signal.
  virtual void signal(link_id link, round_no round) = 0;

  /// Requests a completion for the moment when this rank's register of a signal edge reaches `round`. If the register
  /// has already reached `round`, requests nothing and returns true. A later call replaces the requested round.
  virtual bool arm(link_id link, round_no round) = 0;

  /// Withdraws the request of arm(). A completion that was not polled yet is dropped. A transport may also stop waiting
  /// for a payload of the link. A transport that then still writes the payload to its target must return UNSUPPORTED
  /// from check_readers().
  virtual void disarm(link_id link) = 0;

  /// Returns up to `out.size()` completions.
  virtual std::size_t poll(std::span<completion> out) = 0;

  /// Returns whether the last poll() has moved bytes of long payloads, so that further polls will probably move more
  /// bytes although no completion is due. A thread that waits then polls again instead of sleeping.
  virtual bool is_moving() const { return false; }

  /// Wakes sleeping peers for which send, release, signal or poll has published anything since the last flush. Peers
  /// that poll see the messages without a flush. The owner flushes when it has no more to publish, before any long
  /// operation, and before it sleeps or releases the engine.
  virtual void flush() {}

  /// Returns whether any posted or armed operation waits for a message.
  virtual bool is_listening() const = 0;

  /// Returns whether progress needs polling because the transport cannot wake sleeping ranks.
  virtual bool is_time_driven() const { return false; }

  /// Returns the doorbell that peers ring for this rank.
  virtual doorbell& bell() = 0;

  /// Informs the peers that this rank leaves on purpose.
  virtual void close() = 0;

 protected:
  /// `name` names the transport in texts, and must outlive the endpoint.
  endpoint(const world& place, std::string_view name, const endpoint_parts& optional = {})
      : place_(place), name_(name), parts_(optional) {}

  void report_cancelled(const cancellation& what) {
    cancellations_.push_back(what);
    has_bad_news_ = true;
  }
  void report_lost(rank peer) {
    losses_.push_back(peer);
    has_bad_news_ = true;
  }

 private:
  template <class Part>
  static Part& of_transport_or_base(Part* own) {
    static constinit Part base;
    return own != nullptr ? *own : base;
  }

  const world place_;
  const std::string_view name_;
  const endpoint_parts parts_;
  bool has_bad_news_ = false;
  std::vector<rank> losses_;
  std::vector<cancellation> cancellations_;
};

}  // namespace lsched
