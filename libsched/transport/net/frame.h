// The format of the bytes between two ranks. (docs/inside/net.md)
//
// Two sockets connect a pair of ranks. Each carries frames in both directions. A frame consists of a head and `bytes`
// further bytes. Frames of the control socket are short, and their order is the order of the sender's calls. The bulk
// socket carries payloads larger than k_most_direct_bytes. If the control socket takes no more bytes, the bulk socket
// also carries payloads larger than k_small_bytes. A payload is sent on the bulk socket after the receiver has sent
// `ready`:
//
//     sender                     receiver
//       announcement   ────►       (only if `ready` has not arrived when the message is sent)
//                      ◄─ready─    the target is known, and has room for the message
//       part, part, …  ─bulk──►    straight into the target
//       complete       ─bulk──►    or `broken`, if the sender has abandoned the message
//
// A sender that abandons a message in the middle of a part fills the part with zeros. So the source may change at once.
// The frame `broken` then informs the receiver that the payload is invalid.
//
// Numbers have the byte order of the machine. The handshake refuses peers with another byte order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "libsched/transport/message.h"

namespace lsched {

/// Payloads of at most this size always travel on the control socket, with their heads.
inline constexpr std::uint64_t k_small_bytes = std::uint64_t{16} << 10;
/// Larger payloads, up to this size, travel on the control socket unless this socket takes no more bytes now.
inline constexpr std::uint64_t k_most_direct_bytes = std::uint64_t{64} << 10;
/// Maximum number of payload bytes in one frame of the bulk socket. Messages in flight take turns. In each turn, one
/// part of a message is sent.
inline constexpr std::uint64_t k_part_bytes = std::uint64_t{256} << 10;

enum class frame_kind : std::uint32_t {
  // About an edge that leads from the sender of the frame to its receiver:
  message,       ///< followed by a message_head and the payload
  announcement,  ///< followed by a message_head; the payload follows on the bulk socket when the receiver is ready
  signal,        ///< the register of the edge is at least `value`
  last_message,  ///< the message of round `value` is the last message of the edge
  // About an edge that leads from the receiver of the frame to its sender:
  credit,   ///< the message of round `value` was consumed
  ready,    ///< the message of round `value` may follow on the bulk socket
  refused,  ///< the message of round `value` is dropped, because the target has no room
  // About an instance:
  cancelled,  ///< `value`: end_reason::packed()
  // About the rank:
  board,    ///< followed by a message of message_boards
  lost,     ///< rank `value` is lost; if `index` is 1, the rank may live on the other side of a network partition
  goodbye,  ///< last frame: the sender has closed its endpoint
  // On the bulk socket, about an edge that leads from the sender of the frame to its receiver:
  part,      ///< followed by the next part of the payload
  complete,  ///< the payload is complete
  broken,    ///< the payload will never be complete, and its bytes are invalid
};

struct frame {
  frame_kind kind{};
  std::uint32_t bytes = 0;     ///< number of bytes that follow the head
  std::uint32_t instance = 0;  ///< the receiver's id of the instance
  /// Index of the edge among the edges of the instance with the same source rank and the same target rank
  std::uint32_t index = 0;
  std::uint64_t value = 0;  ///< the round, unless documented otherwise
};
static_assert(sizeof(frame) == 24);

/// Describes a message. Follows the frame heads `message` and `announcement`, and all frame heads of the bulk socket.
/// On the bulk socket, frame::bytes does not count this struct.
struct message_head {
  std::uint64_t bytes = 0;  ///< size of the payload
  contributor_count tally{};
  std::uint64_t null = 0;  ///< 1: the message means "no contribution"
};
static_assert(sizeof(message_head) == 32);

}  // namespace lsched
