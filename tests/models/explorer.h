// A depth-first search of all states that a small system can reach.
//
// States are stored as 64-bit hashes. With n states, the probability that two different states have equal hashes is n^2
// / 2^65 (3e-8 for a million states). The search keeps the path to the current state. Therefore the report of a fault
// lists the steps that lead to the fault. A search that reaches its limits has proved nothing, and reports a fault.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace models {

/// The system to search. The search uses save() and restore() to move between states.
class system {
 public:
  using move = std::uint32_t;

  virtual ~system() = default;

  /// Appends all bytes on which the future behaviour of the system depends. Two states with equal bytes are the same
  /// state.
  virtual void save(std::vector<std::byte>& state) const = 0;
  virtual void restore(std::span<const std::byte> state) = 0;

  /// Appends all moves that are possible next.
  virtual void moves(std::vector<move>& out) const = 0;
  virtual void make(move what) = 0;
  virtual std::string describe(move what) const = 0;

  /// Returns the fault of the current state, or an empty string. `is_last` is true if no move is possible in this
  /// state.
  virtual std::string fault(bool is_last) const = 0;
};

struct limits {
  std::uint64_t states = 10'000'000;
  std::chrono::seconds time{100};  ///< limit of the CPU time
};

struct report {
  std::string fault;  ///< description of the first fault; empty if no reachable state has a fault
  std::string path;   ///< steps that lead to the fault, one line per step
  std::uint64_t states = 0;
  std::uint64_t moves = 0;
  std::uint64_t ends = 0;  ///< number of states in which no move is possible
  double seconds = 0;
};

report explore(system& what, const limits& most = {});

/// Returns a text such as "1234 states, 5678 moves, 9 ends, 0.10 s", and the fault with its path if there is one.
std::string to_text(const report& from);

}  // namespace models
