// The bulk socket of a pair of ranks (frame.h). This socket carries large payloads. This library writes each payload
// directly from its source, and reads each payload directly into its target.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "libsched/transport/net/control_stream.h"
#include "libsched/transport/net/frame.h"
#include "libsched/transport/net/stream_socket.h"

namespace lsched {

/// Handles the payloads that arrive on a bulk socket.
class bulk_receiver {
 public:
  virtual ~bulk_receiver() = default;
  /// Called when the head of a part has arrived. Returns false if the head breaks the protocol.
  virtual bool part(const frame& about, const message_head& what) = 0;
  /// Called before each read of the part. Returns the memory for the next bytes, or nullptr if the message was
  /// abandoned.
  virtual std::byte* target(const frame& about) = 0;
  /// Called after `bytes` bytes of the part have arrived.
  virtual void moved(const frame& about, std::uint64_t bytes) = 0;
  /// Called when the message is complete or broken. `about.kind` is `complete` or `broken`. Returns false if the frame
  /// breaks the protocol.
  virtual bool end(const frame& about) = 0;
};

/// Only one thread at a time may use an object of this class.
class bulk_stream {
 public:
  explicit bulk_stream(stream_socket socket) : socket_(std::move(socket)) {}

  int socket() const { return socket_.get(); }

  /// Reserves memory, so that one more message can be in flight without an allocation.
  void reserve() { transfers_.reserve(++reserved_); }
  /// Takes back a reservation.
  void unreserve() { --reserved_; }

  /// Begins to send a payload. `about` contains the instance, the index and the round. `source` must stay valid and
  /// unchanged until write() has appended the link to `sent`, or until abandon().
  void send(link_id link, const frame& about, const message_head& what, const std::byte* source);
  /// Stops sending the payload of a link. The source may then change at once. The receiver gets `broken` instead of
  /// `complete`. Returns false if no payload of the link is in flight.
  bool abandon(link_id link);

  /// Writes as many bytes as the kernel takes, but not more than about `most`. Appends to `sent` each link whose
  /// payload was written completely.
  socket_state write(std::vector<link_id>& sent, std::uint64_t most);
  /// Returns whether any payload was not written completely.
  bool has_more() const { return !transfers_.empty(); }
  /// Returns the number of bytes that were written and read since the last call.
  std::uint64_t take_moved() { return std::exchange(moved_, 0); }

  /// Reads bytes that have arrived, at most about `most`. Returns `blocked` if more bytes may have arrived. A frame
  /// that breaks the protocol sets is_invalid() and returns `failed`.
  socket_state read(bulk_receiver& into, std::uint64_t most);
  bool is_invalid() const { return is_invalid_; }
  /// Returns whether bytes were decrypted but not read. The kernel does not report such bytes.
  bool has_decrypted() const { return socket_.has_decrypted(); }

  /// Closes the socket, and forgets the payloads in flight.
  void close() {
    socket_.reset();
    transfers_.clear();
  }

 private:
  struct transfer {
    link_id link;
    frame about;
    message_head what;
    const std::byte* source;  ///< null: abandoned
    std::uint64_t moved = 0;  ///< number of payload bytes in the parts that were written
  };
  struct bulk_head {
    frame about;
    message_head what;
  };

  void begin_part();
  socket_state write_part(std::uint64_t& left);
  socket_state read_head(bulk_receiver& into);
  socket_state read_part(bulk_receiver& into);
  bool take_head(bulk_receiver& into);

  stream_socket socket_;

  // Transfers take turns. In each turn, one part of a transfer is written. The part that is being written belongs to
  // transfers_[turn_].
  std::vector<transfer> transfers_;
  std::size_t reserved_ = 0;
  std::size_t turn_ = 0;
  bool is_writing_ = false;    ///< a part is being written
  bulk_head outgoing_{};       ///< the head of the part
  bulk_head last_{};           ///< the head `complete` or `broken`, which follows the last part
  bool is_last_ = false;       ///< `last_` follows the part
  std::uint64_t written_ = 0;  ///< number of bytes of the head, the payload and the last head that were written

  bulk_head next_{};           ///< the bytes of the next head that have arrived
  std::size_t head_read_ = 0;  ///< number of bytes of next_ that have arrived
  frame current_{};            ///< the part that is being read
  std::uint64_t unread_ = 0;   ///< number of bytes of the part that have not arrived; 0: no part is being read
  bool is_invalid_ = false;
  std::uint64_t moved_ = 0;
};

}  // namespace lsched
