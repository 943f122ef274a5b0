// The handshake of a new connection. Each side proves to the other side that it knows the secret of the job, and which
// rank it is. No side reads further bytes before this proof. (docs/inside/net.md)
//
//     connector                                             listener
//       greeting: who, whom, which socket, nonce   ────►      (64 bytes)
//                              ◄────   nonce, keyed hash of both        (64 bytes)
//       keyed hash of both                         ────►      (32 bytes)
//                              ◄────   admitted                         (8 bytes)
//
// A connector waits for `admitted` after it has sent its hash. So both sides agree whether the connection exists. The
// hashes contain the greeting, both nonces and the direction. So a hash cannot be reused for another connection, pair
// of ranks, socket or direction.
//
// If the job is encrypted, `admitted` is the first encrypted message. The pre-shared key of TLS is another hash of the
// greeting and both nonces. So each connection has a different key.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "libsched/transport/net/crypto/blake2s.h"
#include "libsched/transport/net/control_stream.h"
#include "libsched/transport/net/descriptor.h"
#include "libsched/transport/net/stream_socket.h"
#include "libsched/transport/net/crypto/tls_library.h"
#include "ops/base.h"

namespace lsched {

/// The properties of a job that the ranks of a connection compare.
struct net_job {
  secret_bytes secret{};
  std::uint64_t build = 0;  ///< a hash of the version of the library; ranks with other builds are refused
  const tls_library* encryption = nullptr;  ///< encrypts the connections; null: no encryption
};

/// Fills a secret with random bytes of the kernel. Returns false if the kernel refuses.
bool draw_secret(secret_bytes& secret);

class handshake {
 public:
  enum class state { pending, proven, refused };

  /// Begins a handshake with rank `peer`, which listens at the other end of `connection`. `connection` must be a
  /// connected, non-blocking socket. `socket` is 0 for the control socket and 1 for the bulk socket.
  static handshake to_listener(descriptor connection, const net_job& job, rank self, rank peer, std::uint32_t socket);
  /// Begins the listener's end of a handshake. The rank of the connector is not known yet. `ranks` is the size of the
  /// world.
  static handshake to_connector(descriptor connection, const net_job& job, rank self, rank ranks);

  /// Reads and writes without waiting. If the result is `refused`, the peer has proven nothing, and the caller must
  /// close the connection.
  state advance();

  int socket() const { return connection_.get(); }
  /// Returns true if advance() waits for room to write instead of bytes to read.
  bool waits_for_room() const {
    return connection_.is_encrypted() ? connection_.waits_for_room() : written_ < to_write_;
  }

  /// Returns true if a connector has received the answer of the listener.
  bool has_answer() const { return step_ >= 2; }

  // The following functions may be called after `proven`.
  rank peer() const { return is_connector_ ? greeting_.whom : greeting_.who; }
  std::uint32_t which() const { return greeting_.socket; }
  stream_socket take_connection() { return std::move(connection_); }

 private:
  struct greeting {
    std::uint64_t magic;
    std::uint64_t build;
    rank who;
    rank whom;
    std::uint32_t socket;
    std::uint32_t reserved;
    std::array<std::byte, 32> nonce;
  };
  static_assert(sizeof(greeting) == 64);
  struct answer {
    std::array<std::byte, 32> nonce;
    hash_bytes proof;
  };

  handshake(descriptor connection, const net_job& job, bool is_connector)
      : connection_(std::move(connection)),
        secret_(job.secret),
        build_(job.build),
        encryption_(job.encryption),
        is_connector_(is_connector) {}
  bool is_greeting_valid() const;
  enum class purpose : std::uint64_t { proof_of_listener, proof_of_connector, key };
  hash_bytes hash_for(purpose what) const;
  bool encrypt();
  socket_state move_bytes();
  bool take_step();
  void expect(std::size_t bytes);
  void write(const void* from, std::size_t bytes);

  stream_socket connection_;
  secret_bytes secret_;
  std::uint64_t build_;
  const tls_library* encryption_;
  bool is_connector_;
  rank self_ = k_no_rank, ranks_ = 0;
  greeting greeting_{};
  answer answer_{};
  int step_ = 0;  ///< number of messages of the handshake that were sent or received
  // The message that is being sent or received.
  std::array<std::byte, 64> buffer_{};
  std::size_t to_write_ = 0, written_ = 0, to_read_ = 0, read_ = 0;
  bool is_refused_ = false;
};

}  // namespace lsched
