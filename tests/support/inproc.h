// Transport `inproc`: many ranks in one process, driven by one thread, for tests and replay.
//
// The world has a clock. Every poll() of an endpoint advances the clock by one step, and tick() does so without
// polling. A message arrives some steps after it was sent, and the seed determines the number of steps. Messages of one
// edge arrive in order; messages of different edges arrive in any order. The same seed and the same calls give the same
// events, so a failing run can be replayed by its seed.
//
// The transport is strict rather than fast. For each message, the transport chooses at random how the payload travels:
//   * the payload is copied when the message is sent,
//   * the receiver claims the payload while the message is in flight, and reads it from the sender's memory on arrival,
//     or
//   * the receiver reads the payload in the sender's memory, and releases the payload later.
// After a sender has withdrawn its memory from readers (close_to_readers), only payloads that were copied or claimed
// are still read. Because the ways differ, some sends complete at once and others later. This reveals schedules that
// overwrite a source too early. Released memory and new memory are filled with a pattern.
//
// If the caller of an endpoint breaks an invariant, health() of the endpoint becomes `internal`, and first_fault()
// describes the error. A message must not exceed the capacity of its edge. No round may be sent twice. On an edge with
// credits, no round may be left out. No landing slot may be overwritten before it was consumed. Only a received message
// may be released.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "libsched/transport/endpoint.h"

namespace lsched {

struct inproc_options {
  /// Maximum number of steps from the departure of a message to its arrival. The value 0 selects 3 * ranks.
  std::uint32_t max_delay_steps = 0;
  bool late_sends = true;   ///< false: the transport copies all payloads, and sends complete at once
  bool stays_open = false;  ///< planted fault: peers still read memory that a rank has closed to readers
};

/// The world that all ranks share. It must outlive its endpoints. One thread makes all calls, except for allocate() and
/// deallocate() of the endpoints.
class inproc_world {
 public:
  inproc_world(rank ranks, std::uint64_t seed, inproc_options options = {});
  ~inproc_world();
  inproc_world(const inproc_world&) = delete;
  inproc_world& operator=(const inproc_world&) = delete;

  /// Opens the endpoint of rank `self`. Each endpoint can be opened once. Failures: ARGUMENT (rank outside the world),
  /// STATE (already open). If the endpoint is destroyed without close(), the rank is dead for its peers.
  result<std::unique_ptr<endpoint>> open(rank self);

  /// Simulates the death of a rank. Its memory stays valid. Afterwards its endpoint may only be destroyed.
  void kill(rank who);

  /// Advances the clock by one step and delivers due messages.
  void tick();

  /// Returns the number of steps so far.
  std::uint64_t now() const;

  /// Returns the number of messages, signals and credits in flight.
  std::size_t in_flight() const;

  /// Returns the number of edges that belong to linked instances and still have an attached end.
  std::size_t edges() const;

  /// Returns a description of the first invariant that a caller has broken, or an empty string.
  const std::string& first_fault() const;

 private:
  friend class inproc_board;
  friend class inproc_endpoint;
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace lsched
