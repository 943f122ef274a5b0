// Depth-first search through every state that a small system can reach.
//
// States are remembered by a 64-bit hash: with n of them, the chance that two different ones were taken for the same
// is n^2 / 2^65 (a million states: 3e-8). The path to the current state is kept, so a fault comes with the steps that
// lead to it. A search that is not finished within its limits answers with a fault: nothing was proved.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace models {

/// What is searched. The search goes back and forth between states by save and restore.
class system {
 public:
  using move = std::uint32_t;

  virtual ~system() = default;

  /// All bytes that the future depends on; equal bytes are one state.
  virtual void save(std::vector<std::byte>& state) const = 0;
  virtual void restore(std::span<const std::byte> state) = 0;

  /// Appends what can happen next.
  virtual void moves(std::vector<move>& out) const = 0;
  virtual void make(move what) = 0;
  virtual std::string describe(move what) const = 0;

  /// What is wrong in the current state; empty if nothing is. `is_last`: no move is left.
  virtual std::string fault(bool is_last) const = 0;
};

struct limits {
  std::uint64_t states = 10'000'000;
  std::chrono::seconds time{100};  ///< of the processor
};

struct report {
  std::string fault;  ///< empty: none in any reachable state
  std::string path;   ///< one line a step
  std::uint64_t states = 0;
  std::uint64_t moves = 0;
  std::uint64_t ends = 0;  ///< states without a move
  double seconds = 0;
};

report explore(system& what, const limits& most = {});

/// "1234 states, 5678 moves, 0.1 s", and the fault with its path if there is one.
std::string to_text(const report& from);

}  // namespace models
