// An endpoint connects one rank to a transport. This file defines the contract of endpoints (docs/inside/transport.md).
//
// Every transport implements `endpoint`. The interfaces of endpoint_memory.h, endpoint_areas.h, endpoint_recorder.h and
// endpoint_liveness.h are optional. If a transport does not implement an optional interface, the base class of that
// interface is used.
//
// Thread safety: only the thread that owns the engine may call an endpoint, unless a function documents otherwise.
// There are no callbacks. All events are return values.
//
// An edge leads from a send op of one rank to a receive op of another. In each round, the message of an edge is sent
// once and received once. An edge without credits (attach()) may have rounds without a message. Messages of one edge
// arrive in order. No message is lost, and no call blocks. attach() reserves all resources, so no queue can be full on
// the data path. If an endpoint has to delay a send, the endpoint keeps the message and reports the completion later.
//
// Ranks are home ranks (membership.h), unless a function documents otherwise.
//
// Life of an instance at an endpoint:
//     attach  ->  (exchange of commit records)  ->  link  ->  rounds  ->  detach
// Before the records are exchanged, attach() reserves all memory that peers may write to. Therefore the memory exists
// when the first message of a fast rank arrives. Each rank chooses its own instance ids. So ranks identify that memory
// by its address, which is part of the commit record.
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
#include "libsched/transport/direct_sleep.h"
#include "libsched/transport/doorbell.h"
#include "libsched/transport/endpoint_areas.h"
#include "libsched/transport/endpoint_liveness.h"
#include "libsched/transport/endpoint_memory.h"
#include "libsched/transport/endpoint_recorder.h"
#include "libsched/transport/message.h"
#include "ops/base.h"
#include "ops/status.h"

namespace lsched {

/// The optional interfaces that a transport implements. If a pointer is null, the base class of the interface is used.
struct endpoint_parts {
  endpoint_memory* memory = nullptr;
  endpoint_areas* areas = nullptr;
  endpoint_recorder* recorder = nullptr;
  endpoint_liveness* liveness = nullptr;
  bool has_cancellation_points = false;  ///< calls of the endpoint may be cancellation points (no_cancellation.h)
  direct_sleep* direct = nullptr;        ///< null: threads sleep only on the doorbell
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
  direct_sleep* direct() const { return parts_.direct; }  ///< may be null

  // --- commit: every member of a world makes each of these calls once -------------------------------------------

  /// Opens a board (board.h) for a world of at most `most` members. The caller calls board::join() when the members are
  /// known. The endpoint must outlive the board. Returns NO_MEMORY if no memory is left.
  virtual result<std::unique_ptr<board>> open_board(std::size_t most) = 0;

  /// Opens the board of the world of all ranks. The returned board has already joined that world. The caller may call
  /// this function only once.
  virtual std::unique_ptr<board> open_home_board() = 0;

  /// Reserves the edges of an instance. `members` contains the members of the instance's world. `id` must be new, and
  /// identifies the instance in later calls. Every edge must lead to a member. Any two edges must differ in peer, tag,
  /// kind or direction. `credits` is true if the schedule is not synchronising. The send of round t+2, or of round t+3
  /// if a transport has more buffers, then waits at least until the message of round t was consumed. Returns one link
  /// for each edge.
  virtual result<std::vector<link_id>> attach(std::uint32_t id, std::span<const rank> members, bool credits,
                                              std::span<const edge_spec> edges) = 0;

  /// Returns the address of an attached instance. The other ranks pass this address to link().
  virtual member_address address_of(std::uint32_t id) const = 0;

  /// Connects instance `id` to the corresponding instances of the other members. `all` contains one address per member,
  /// indexed by rank of the world. The preceding exchange of records ensures that every edge has an opposite edge at
  /// the peer (commit.h). A transport that compares the two ends of each edge returns UNMATCHED if an end is missing.
  virtual status link(std::uint32_t id, std::span<const member_address> all) = 0;

  /// Frees the edges of an instance. No message may be in flight, unless the instance was abandoned. If this rank never
  /// linked the instance, no rank may link the instance, before or after this call.
  virtual void detach(std::uint32_t id) = 0;

  // --- cancellation (docs/reference/cancel.md) ------------------------------------------------------------------

  /// Ends an instance on all members. A transport that uses messages sends the cancellation along this rank's edges.
  /// Each receiver forwards the cancellation along its own edges. So a member receives the cancellation only if a chain
  /// of edges connects this rank to that member. The first reason is kept, and later calls have no effect. On each rank
  /// that has attached the instance, this rank included, take_cancellation() returns the reason once.
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

  /// Drops all operations that are posted or armed for an attached instance. The endpoint then reports no more
  /// completions of the instance and writes to no more targets. In-place payloads are released. Afterwards the caller
  /// may only call detach(), close_to_readers(), cancel() and check_readers() for the instance.
  virtual void abandon(std::uint32_t id) = 0;

  /// Prevents peers from starting to read this rank's memory for a linked instance. No peer is woken. If a peer reaches
  /// a payload that it may no longer read, take_cancellation() returns the reason on that peer. A transport that copies
  /// payloads instead cancels the instance if a payload is not copied yet. The first reason is kept.
  virtual void close_to_readers(std::uint32_t id, const end_reason& reason) = 0;

  /// The instance must be closed to readers or cancelled. Returns OK if no peer reads this rank's memory for the
  /// instance. Returns PENDING while a peer still reads this memory, and sets `*reader` to that peer. Returns
  /// UNSUPPORTED if the transport may still access memory of the caller and cannot be stopped. `*reader` is then a peer
  /// whose transfer may still be in progress, or k_no_rank.
  virtual status check_readers(std::uint32_t id, rank* reader) = 0;

  /// Removes and returns the next lost rank that poll() has found. Returns k_no_rank if no loss is left. Losses are
  /// returned in the order in which they were recorded. The caller must take all losses before it takes any
  /// cancellation.
  rank take_loss() {
    if (losses_.empty()) return k_no_rank;
    const rank next = losses_.front();
    losses_.erase(losses_.begin());
    has_bad_news_ = !losses_.empty() || !cancellations_.empty();
    return next;
  }

  // --- data path ----------------------------------------------------------------------------------------------

  /// Sends the message of `round`. The previous send of the link must have completed. Returns true if the send has
  /// already completed. In this case, poll() reports no completion, and the source may change. Returns false if poll()
  /// will report the completion. Until then, the source must not change.
  virtual bool send(link_id link, round_no round, const message& what) = 0;

  /// Receives the message of `round` into `into`, or in place if edge_spec::in_place is set. Returns true if `out`
  /// contains the message, and false if poll() will report the completion.
  virtual bool receive(link_id link, round_no round, message_target into, arrival& out) = 0;

  /// Fetches the payload of a message on an announced edge (edge_spec::announced). The header of the message must have
  /// been received before. If the target is too small for the payload, the payload is dropped, as by receive(). The
  /// return value has the same meaning as that of receive().
  virtual bool fetch(link_id link, round_no round, message_target into, arrival& out) = 0;

  /// Announces that the message of round `last` is the last message on the edge. The receiver then detects the
  /// departure of this rank (cancellation::is_departure). Does nothing if the transport detects departures without this
  /// call.
  virtual void end_edge(link_id link, round_no last) { static_cast<void>(link), static_cast<void>(last); }

  /// Releases the payload of `round`, which was received in place.
  virtual void release(link_id link, round_no round) = 0;

  /// Sets the register of a signal edge to `round`. The register is a word in the peer's memory, and never decreases.
  /// This function never waits. The transport may merge several signals into one.
  virtual void signal(link_id link, round_no round) = 0;

  /// Requests a completion when this rank's register of a signal edge reaches `round`. Returns true and requests
  /// nothing if the register has already reached `round`. A later call replaces the requested round.
  virtual bool arm(link_id link, round_no round) = 0;

  /// Withdraws the request of arm(). A completion that poll() has not reported yet is dropped. On a payload edge, the
  /// transport may also stop waiting for the payload. If the transport may still write that payload to its target,
  /// check_readers() must return UNSUPPORTED.
  virtual void disarm(link_id link) = 0;

  /// Writes completions to `out` and returns their number.
  virtual std::size_t poll(std::span<completion> out) = 0;

  /// Returns whether the last poll() has moved bytes of long payloads. Further polls will then probably move more
  /// bytes, so a waiting thread polls again instead of sleeping.
  bool is_moving() const { return is_moving_; }

  /// Wakes the sleeping peers for which any call has published anything since the last flush: messages, signals,
  /// releases, credits, records of boards, cancellations. Polling peers receive messages without a flush. The engine's
  /// owner flushes when it has nothing more to publish, before any long operation, and before it sleeps or releases the
  /// engine.
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
  /// `name` is the transport's name in error texts, and must outlive the endpoint.
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
  /// poll() sets the value that is_moving() returns.
  void set_moving(bool is_moving) { is_moving_ = is_moving; }

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
  bool is_moving_ = false;
  std::vector<rank> losses_;
  std::vector<cancellation> cancellations_;
};

}  // namespace lsched
