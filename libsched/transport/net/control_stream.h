// The control socket of a pair of ranks (frame.h). This socket carries short frames. The frames are gathered and
// written together.
//
// Longer payloads need no copy. The write() with arguments takes a payload directly from its source. read() stores a
// payload that is longer than the buffer directly in its target (`landing`).
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "libsched/transport/net/frame.h"
#include "libsched/transport/net/stream_socket.h"

namespace lsched {

/// The result of a read from, or a write to, a non-blocking socket.
enum class socket_state {
  idle,     ///< all bytes were written, or no more bytes have arrived
  blocked,  ///< the kernel takes no more bytes now, or more bytes may have arrived
  ended,    ///< the peer has shut the connection down
  failed,   ///< the connection is broken
};

/// Returns the state that `errno` describes after a failed system call.
socket_state state_of_error();

/// Returns whether the `errno` of a failed socket call means that the peer's kernel does not answer.
bool is_error_of_cut();

/// Only one thread at a time may use an object of this class.
class control_stream {
 public:
  /// `most_bytes`: largest accepted number of bytes that follow a frame head.
  control_stream(stream_socket socket, std::size_t most_bytes);

  int socket() const { return socket_.get(); }

  /// Reserves memory for further frames, of `bytes` bytes in total. put() does not allocate while the unwritten frames
  /// fit into the reserved memory.
  void reserve(std::size_t bytes);
  /// Takes back a reservation.
  void unreserve(std::size_t bytes) { reserved_ -= bytes; }

  /// Appends a frame to the bytes that write() will write. Sets frame::bytes.
  void put(frame head, std::span<const std::byte> first = {}, std::span<const std::byte> second = {});

  /// Returns the number of bytes that were put but not written yet.
  std::size_t unwritten() const { return outgoing_.size() - written_; }

  /// Writes as many bytes as the kernel takes.
  socket_state write();
  /// Puts a frame as put() does, and writes as many bytes as the kernel takes. Copies only the bytes of the frame that
  /// the kernel does not take.
  socket_state write(frame head, std::span<const std::byte> first, std::span<const std::byte> second);

  /// A message that lands. Its payload is read directly into its target, not into the buffer.
  struct landing {
    frame head;
    message_head what;
    std::uint64_t moved;      ///< number of bytes of the payload that have arrived
    bool is_ignored = false;  ///< the payload is dropped
  };
  /// Returns the message that lands now, or nullptr.
  const landing* landing_message() const { return is_landing_ ? &landing_ : nullptr; }
  /// Begins to land the next frame if its heads have arrived, and if the frame is a message that is longer than the
  /// buffer. Returns whether a landing has begun. If the lengths in the heads contradict each other, sets is_invalid().
  bool begin_landing();
  /// Drops the payload of the landing message.
  void ignore_landing() { landing_.is_ignored = true; }
  /// The buffer may already contain payload bytes of the landing message. Moves these bytes to `place`, the memory for
  /// the payload. If `place` is null, drops these bytes.
  void land(std::byte* place);

  /// Reads bytes that have arrived into the buffer. The spans that next() has returned become invalid. If a message
  /// lands, stores its payload in the memory at `place`. If `place` is null, drops the payload.
  socket_state read(std::byte* place);
  /// Returns whether bytes were decrypted but not read. The kernel does not report such bytes.
  bool has_decrypted() const { return socket_.has_decrypted(); }

  struct incoming {
    frame head;
    std::span<const std::byte> bytes;
    bool has_landed = false;  ///< `bytes` does not contain the payload, which has landed
    bool is_ignored = false;  ///< the payload was dropped
  };
  /// Removes and returns the next complete frame that was read. Returns std::nullopt if no frame is complete, or if the
  /// next frame is invalid (is_invalid()).
  std::optional<incoming> next();
  /// Returns whether the peer has sent a frame whose length is invalid.
  bool is_invalid() const { return is_invalid_; }

  /// Closes the socket.
  void close() { socket_.reset(); }

 private:
  socket_state read_payload(std::byte* place);

  stream_socket socket_;
  std::size_t most_bytes_;
  std::size_t reserved_ = 0;
  std::vector<std::byte> outgoing_;
  std::size_t written_ = 0;  ///< number of bytes of outgoing_ that were written
  std::vector<std::byte> incoming_;
  std::size_t begin_ = 0, end_ = 0;  ///< range of the bytes that were read but not returned by next()
  bool is_landing_ = false;
  landing landing_{};
  bool is_invalid_ = false;
};

}  // namespace lsched
