// A connected, non-blocking stream socket, which may be encrypted.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <memory>
#include <span>
#include <utility>

#include "libsched/transport/net/descriptor.h"
#include "libsched/transport/net/crypto/tls_session.h"

namespace lsched {

/// Only one thread at a time may use an object of this class.
class stream_socket {
 public:
  stream_socket() = default;
  /// Takes ownership of a socket.
  stream_socket(descriptor socket) : socket_(std::move(socket)) {}  // NOLINT(google-explicit-constructor)

  int get() const { return socket_.get(); }
  explicit operator bool() const { return static_cast<bool>(socket_); }

  /// Encrypts all further bytes. Both ends must call this function after the same byte. Returns false if OpenSSL cannot
  /// begin the encryption.
  bool encrypt(const tls_library& by, bool is_client, const hash_bytes& key);
  bool is_encrypted() const { return session_ != nullptr; }

  /// Read and write like recvmsg() and sendmsg(), but without waiting. After an error of the encryption, errno is
  /// EPROTO.
  ssize_t read(std::span<const iovec> into);
  ssize_t write(std::span<const iovec> from);

  /// Returns whether bytes were decrypted but not read. The kernel does not report such bytes.
  bool has_decrypted() const { return session_ != nullptr && session_->has_decrypted(); }
  /// Returns whether the encryption waits for room in the socket.
  bool waits_for_room() const { return session_ != nullptr && session_->waits_for_room(); }

  /// Closes the socket.
  void reset() {
    session_.reset();
    socket_.reset();
  }

 private:
  descriptor socket_;
  std::unique_ptr<tls_session> session_;  ///< null: not encrypted
};

}  // namespace lsched
