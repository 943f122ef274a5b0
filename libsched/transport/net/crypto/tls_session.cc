#include "libsched/transport/net/crypto/tls_session.h"

#include <errno.h>
#include <sys/socket.h>

#include <utility>

namespace lsched {
namespace {

// Constants of OpenSSL 3.
constexpr int k_wants_read = 2, k_wants_write = 3;
constexpr int k_update_own_key = 0;
constexpr int k_verify_peer = 1;

}  // namespace

result<std::unique_ptr<tls_session>> tls_session::begin(const tls_library& library, int socket, bool is_client,
                                                        const hash_bytes& key, std::uint64_t bytes_per_key) {
  std::unique_ptr<tls_session> made(new tls_session(library, socket, key, bytes_per_key));
  made->ssl_ = library.SSL_new(library.context);
  void* const bio = library.BIO_new(library.method);
  if (made->ssl_ == nullptr || bio == nullptr ||
      library.SSL_set_ex_data(made->ssl_, tls_library::k_place_of_session, made.get()) != 1)
    return failure{status::no_memory, "OpenSSL is out of memory for a connection"};
  library.BIO_set_init(bio, 1);
  library.BIO_set_data(bio, made.get());
  library.SSL_set_bio(made->ssl_, bio, bio);
  if (is_client) {
    // OpenSSL trusts no certificate authority here. So a server that shows a certificate instead of a proof of the key
    // is refused.
    library.SSL_set_verify(made->ssl_, k_verify_peer, nullptr);
    library.SSL_set_connect_state(made->ssl_);
  } else {
    library.SSL_set_accept_state(made->ssl_);
  }
  return made;
}

tls_session::~tls_session() {
  if (ssl_ != nullptr) library_.SSL_free(ssl_);
}

ssize_t tls_session::read_socket(void* into, std::size_t room) {
  const ssize_t now = recv(socket_, into, room, MSG_DONTWAIT);
  has_ended_ = has_ended_ || (now == 0 && room != 0);
  note_error(now);
  return now;
}

// Without MSG_NOSIGNAL, SIGPIPE would end a process that does not ignore the signal.
ssize_t tls_session::write_socket(const void* from, std::size_t bytes) {
  const ssize_t now = send(socket_, from, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
  note_error(now);
  return now;
}

void tls_session::note_error(ssize_t answer) {
  if (answer < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) socket_error_ = errno;
}

// OpenSSL keeps a queue of errors for each thread. SSL_get_error() reads this queue, and the application may use the
// same queue. So the queue is emptied before each call and after each failure.
ssize_t tls_session::read(void* into, std::size_t room) {
  std::size_t moved = 0;
  library_.ERR_clear_error();
  const int answer = library_.SSL_read_ex(ssl_, into, room, &moved);
  waits_for_room_ = false;
  return answer == 1 ? static_cast<ssize_t>(moved) : outcome_of_failure(answer);
}

ssize_t tls_session::write(const void* from, std::size_t bytes) {
  library_.ERR_clear_error();
  if (written_ >= bytes_per_key_ && library_.SSL_key_update(ssl_, k_update_own_key) == 1) written_ = 0;
  std::size_t moved = 0;
  const int answer = library_.SSL_write_ex(ssl_, from, bytes, &moved);
  waits_for_room_ = false;
  written_ += moved;
  if (answer == 1) return static_cast<ssize_t>(moved);
  if (outcome_of_failure(answer) == 0) errno = EPIPE;
  return -1;
}

ssize_t tls_session::outcome_of_failure(int answer) {
  const int why = library_.SSL_get_error(ssl_, answer);
  library_.ERR_clear_error();
  if (why != k_wants_read && why != k_wants_write && has_ended_) return 0;
  waits_for_room_ = why == k_wants_write;
  const bool waits = why == k_wants_read || why == k_wants_write;
  errno = waits ? EAGAIN : socket_error_ != 0 ? socket_error_ : EPROTO;
  return -1;
}

}  // namespace lsched
