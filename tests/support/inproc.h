// Transport `inproc`: many ranks in one process, driven by one thread. For tests and replay.
//
// The world has a clock. Every poll() of every endpoint moves it by one step, tick() does so without polling,
// and whatever is sent arrives a seeded number of steps later: in order on one edge, in any order between
// edges. The same seed and the same calls give the same events, so a failing run is replayed by its seed.
//
// It is the strictest transport, not the fastest. How a payload travels is drawn per message: copied when it is sent;
// claimed on its way and read from the sender's memory when it arrives; or shown to the receiver in the sender's memory
// until it releases it. A payload that is neither copied nor claimed is not read any more once its sender is closed to
// readers. So sends complete both at once and later, and a schedule that overwrites a source too early is found out.
// Memory that has been released, and fresh memory, is filled with a pattern.
//
// Broken invariants of the caller (a message that exceeds its edge, a round sent twice or left out, a landing
// slot overwritten before it was consumed, a release of nothing) make health() of that endpoint `internal`;
// first_fault() says which.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "libsched/transport/endpoint.h"

namespace lsched {

struct inproc_options {
  std::uint32_t max_delay_steps = 0;  ///< a message takes 1 to this many steps; 0 chooses 3 * ranks
  bool late_sends = true;             ///< false: every payload is copied at once, every send is done at once
  bool stays_open = false;            ///< plants a fault: ranks that close to readers are read all the same
};

/// Outlives its endpoints. One thread for everything, except allocate() and deallocate() of the endpoints.
class inproc_world {
 public:
  inproc_world(rank ranks, std::uint64_t seed, inproc_options options = {});
  ~inproc_world();
  inproc_world(const inproc_world&) = delete;
  inproc_world& operator=(const inproc_world&) = delete;

  /// Takes rank `self`'s place, once: ARGUMENT outside the world, STATE when taken. An endpoint that is
  /// destroyed without close() has died, for its peers.
  result<std::unique_ptr<endpoint>> open(rank self);

  /// The rank dies, and its memory stays. From here on its endpoint may only be destroyed.
  void kill(rank who);

  /// Moves the clock by one step and delivers what is due.
  void tick();

  /// Steps since the world began.
  std::uint64_t now() const;

  /// Messages, signals and credits that are still on their way.
  std::size_t in_flight() const;

  /// Edges of linked instances that at least one end is attached to.
  std::size_t edges() const;

  /// What the caller of an endpoint broke first; empty if nothing.
  const std::string& first_fault() const;

 private:
  friend class inproc_board;
  friend class inproc_endpoint;
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace lsched
