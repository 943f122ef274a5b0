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

/// Only one thread at a time may use an object of this class.
class tls_session {
 public:
  /// After this number of written bytes, a session changes the key with which it writes. AES-GCM should not encrypt
  /// more than 2^24.5 records of 16 KiB with one key (RFC 8446, 5.5).
  static constexpr std::uint64_t k_bytes_per_key = std::uint64_t{1} << 37;

  /// Begins a session over `socket`, which must outlive the session. `key` must be equal on both ends. The first calls
  /// of read() and write() perform the TLS handshake. Returns NO_MEMORY if OpenSSL cannot create the session.
  static result<std::unique_ptr<tls_session>> begin(const tls_library& library, int socket, bool is_client,
                                                    const hash_bytes& key,
                                                    std::uint64_t bytes_per_key = k_bytes_per_key);
  ~tls_session();
  tls_session(const tls_session&) = delete;
  tls_session& operator=(const tls_session&) = delete;

  /// Reads like recv(). Returns the number of bytes, 0 if the peer has ended the connection, and -1 with errno
  /// otherwise. errno is EAGAIN while no bytes have arrived. errno is EPROTO if the peer has another key, or if bytes
  /// were changed on the way. If the connection is broken, errno is the error of the socket.
  ssize_t read(void* into, std::size_t room);

  /// Writes like send(). After EAGAIN, the next call must pass at least as many bytes. OpenSSL has already encrypted
  /// some of the bytes of the failed call. If these bytes change after EAGAIN, their earlier values may be sent.
  ssize_t write(const void* from, std::size_t bytes);

  /// Returns whether bytes were decrypted that read() has not returned. The kernel does not report these bytes.
  bool has_decrypted() const { return library_.SSL_pending(ssl_) > 0; }

  /// Returns whether the session waits for room in the socket, and not for bytes of the peer.
  bool waits_for_room() const { return waits_for_room_; }

  // The callbacks of OpenSSL (tls_library.cc) call the following functions. read_socket() and write_socket() have the
  // arguments and results of recv() and send().
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
