#include "libsched/transport/net/handshake.h"

#include <sys/random.h>

#include <cstring>
#include <span>

namespace lsched {
namespace {

constexpr std::uint64_t k_magic = 0x316e646568637331;  // has another value in the other byte order

bool draw(void* into, std::size_t bytes) { return getrandom(into, bytes, 0) == static_cast<ssize_t>(bytes); }

}  // namespace

bool draw_secret(secret_bytes& secret) { return draw(secret.data(), secret.size()); }

handshake handshake::to_listener(descriptor connection, const net_job& job, rank self, rank peer,
                                 std::uint32_t socket) {
  handshake made(std::move(connection), job, true);
  made.greeting_ = {k_magic, job.build, self, peer, socket, 0, {}};
  made.is_refused_ = !draw(made.greeting_.nonce.data(), made.greeting_.nonce.size());
  made.write(&made.greeting_, sizeof made.greeting_);
  return made;
}

handshake handshake::to_connector(descriptor connection, const net_job& job, rank self, rank ranks) {
  handshake made(std::move(connection), job, false);
  made.self_ = self;
  made.ranks_ = ranks;
  made.is_refused_ = !draw(made.answer_.nonce.data(), made.answer_.nonce.size());
  made.expect(sizeof made.greeting_);
  return made;
}

void handshake::expect(std::size_t bytes) {
  to_read_ = bytes;
  read_ = 0;
}

void handshake::write(const void* from, std::size_t bytes) {
  std::memcpy(buffer_.data(), from, bytes);
  to_write_ = bytes;
  written_ = 0;
}

// The two directions hash different bytes, so a peer cannot send back a proof that it has received.
hash_bytes handshake::hash_for(purpose what) const {
  struct {
    greeting first;
    std::array<std::byte, 32> nonce;
    purpose what;
  } const all{greeting_, answer_.nonce, what};
  return blake2s(secret_, std::as_bytes(std::span(&all, 1)));
}

bool handshake::is_greeting_valid() const {
  return greeting_.magic == k_magic && greeting_.build == build_ && greeting_.whom == self_ && greeting_.who >= 0 &&
         greeting_.who < ranks_ && greeting_.who != self_ && greeting_.socket < 2 && greeting_.reserved == 0;
}

/// Sends or receives bytes of the current message. Returns `idle` when the message is complete.
socket_state handshake::move_bytes() {
  while (written_ < to_write_) {
    const iovec rest{buffer_.data() + written_, to_write_ - written_};
    const ssize_t now = connection_.write({&rest, 1});
    if (now < 0) return state_of_error();
    written_ += static_cast<std::size_t>(now);
  }
  while (read_ < to_read_) {
    const iovec rest{buffer_.data() + read_, to_read_ - read_};
    const ssize_t now = connection_.read({&rest, 1});
    if (now == 0) return socket_state::ended;
    if (now < 0) return state_of_error();
    read_ += static_cast<std::size_t>(now);
  }
  to_write_ = to_read_ = written_ = read_ = 0;
  return socket_state::idle;
}

/// Handles the current message, which is complete, and begins the next message. Returns false if the peer is refused.
bool handshake::take_step() {
  ++step_;
  if (is_connector_) {
    if (step_ == 1) return expect(sizeof answer_), true;
    if (step_ == 2) {
      std::memcpy(&answer_, buffer_.data(), sizeof answer_);
      const hash_bytes mine = hash_for(purpose::proof_of_connector);
      write(mine.data(), mine.size());
      return is_equal(answer_.proof, hash_for(purpose::proof_of_listener));
    }
    if (step_ == 3) return expect(sizeof k_magic), encrypt();
    return std::memcmp(buffer_.data(), &k_magic, sizeof k_magic) == 0;
  }
  if (step_ == 1) {
    std::memcpy(&greeting_, buffer_.data(), sizeof greeting_);
    if (!is_greeting_valid()) return false;
    answer_.proof = hash_for(purpose::proof_of_listener);
    write(&answer_, sizeof answer_);
  } else if (step_ == 2) {
    expect(sizeof(hash_bytes));
  } else if (step_ == 3) {
    hash_bytes theirs;
    std::memcpy(theirs.data(), buffer_.data(), theirs.size());
    write(&k_magic, sizeof k_magic);
    return is_equal(theirs, hash_for(purpose::proof_of_connector)) && encrypt();
  }
  return true;
}

// Encrypts all later bytes. The peer has proven that it knows the secret.
bool handshake::encrypt() {
  return encryption_ == nullptr || connection_.encrypt(*encryption_, is_connector_, hash_for(purpose::key));
}

handshake::state handshake::advance() {
  while (!is_refused_ && step_ < 4) {
    const socket_state how = move_bytes();
    if (how == socket_state::blocked) return state::pending;
    is_refused_ = how != socket_state::idle || !take_step();
  }
  return is_refused_ ? state::refused : state::proven;
}

}  // namespace lsched
