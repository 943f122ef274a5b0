// An encrypted connection: TLS 1.3 with a pre-shared key, over a connected, non-blocking stream socket.
//
// TLS agrees on fresh keys for each connection (psk_dhe_ke), so a recorded connection stays secret even if the
// pre-shared key becomes known later. No certificate is used or accepted.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "libsched/transport/net/crypto/blake2s.h"
#include "libsched/transport/net/crypto/tls_library.h"

namespace lsched {

/// Used by one thread at a time.
class tls_session {
 public:
  /// Number of bytes after which a session changes the key of the bytes that it writes. AES-GCM should not encrypt more
  /// than 2^24.5 records of 16 KiB with a key (RFC 8446, 5.5).
  static constexpr std::uint64_t k_bytes_per_key = std::uint64_t{1} << 37;

  /// Begins a session over `socket`, which must outlive the session. `key` must be equal on both ends. The first calls
  /// of read() and write() make the handshake. Returns NO_MEMORY if OpenSSL refuses.
  static result<std::unique_ptr<tls_session>> begin(const tls_library& library, int socket, bool is_client,
                                                    const hash_bytes& key,
                                                    std::uint64_t bytes_per_key = k_bytes_per_key);
  ~tls_session();
  tls_session(const tls_session&) = delete;
  tls_session& operator=(const tls_session&) = delete;

  /// Like recv(): returns the number of bytes, 0 if the peer has ended the connection, and -1 with errno otherwise.
  /// errno is EAGAIN while nothing has arrived, EPROTO if the peer has another key or bytes were changed on the way,
  /// and the error of the socket if the connection is broken.
  ssize_t read(void* into, std::size_t room);

  /// Like send(). After EAGAIN, the next call must pass at least as many bytes, and OpenSSL has already encrypted the
  /// first of these bytes. So bytes that change after EAGAIN may be sent with their earlier values.
  ssize_t write(const void* from, std::size_t bytes);

  /// Returns whether bytes were decrypted that read() has not returned. The kernel does not report these bytes.
  bool has_decrypted() const { return library_.SSL_pending(ssl_) > 0; }

  /// Returns whether the session waits for room in the socket, and not for bytes of the peer.
  bool waits_for_room() const { return waits_for_room_; }

  // OpenSSL calls the following functions (tls_library.cc). The arguments and results are those of recv() and send().
  const hash_bytes& key() const { return key_; }
  ssize_t read_socket(void* into, std::size_t room);
  ssize_t write_socket(const void* from, std::size_t bytes);
  bool has_ended() const { return has_ended_; }

 private:
  tls_session(const tls_library& library, int socket, const hash_bytes& key, std::uint64_t bytes_per_key)
      : library_(library), socket_(socket), key_(key), bytes_per_key_(bytes_per_key) {}
  void note_error(ssize_t answer);
  ssize_t outcome_of_failure(int answer);

  const tls_library& library_;
  const int socket_;
  const hash_bytes key_;
  const std::uint64_t bytes_per_key_;
  void* ssl_ = nullptr;
  bool waits_for_room_ = false;
  bool has_ended_ = false;     ///< the peer has ended the connection
  int socket_error_ = 0;       ///< errno of the socket, if the connection is broken
  std::uint64_t written_ = 0;  ///< number of bytes that were written with the current key
};

}  // namespace lsched
