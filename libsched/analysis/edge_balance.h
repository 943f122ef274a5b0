// Edge balance: checks that the sends and receives of a whole world match, with a few bytes of each rank.
//
// Every end of an edge is added to two of eight cells, which its hash selects. Sends are added and receives subtracted,
// all modulo 2^64. The sum over all ranks is zero if each send has a receive with the same peers, tag, kind, dtype and
// size. Otherwise the sum is nonzero, up to a probability of 2^-64. A cell with exactly one unmatched end contains the
// plain fields of that end, so every rank can report it without another message. Subtracting that end from its other
// cell may leave exactly one end there. This is the invertible sketch of Goodrich and Mitzenmacher (2011).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libsched/schedule/schedule.h"

namespace lsched {

class edge_balance {
 public:
  /// Adds all edges of one rank's schedule, except edges to the rank itself.
  void add(const schedule& program);
  void add(const edge_balance& other);

  bool is_even() const;

  /// Returns an unmatched end in words: "rank 0 sends 64 bytes of f32 with tag 7 to rank 1, which does not receive
  /// that", or "…, which receives 32 bytes of f16 instead". Returns nothing if there are so many unmatched ends that no
  /// cell contains exactly one.
  std::optional<std::string> odd_end() const;

 private:
  /// An end, or a sum of ends. Trivially copyable, because cells are sent to other processes and nodes.
  struct cell {
    std::uint64_t ends = 0;  ///< sends minus receives
    std::uint64_t hash = 0;
    std::uint64_t ranks = 0;  ///< from << 32 | to
    std::uint64_t tag = 0;    ///< hash of the guard, if any, << 33 | tag << 1 | is a signal
    std::uint64_t data = 0;   ///< dtype << 56 | bytes

    std::uint64_t hashed() const;
    bool is_lone() const;
    bool is_send() const { return ends == 1; }
    void add(const cell& other, std::uint64_t times);
    std::string text() const;
  };
  std::vector<cell> lone_ends() const;
  void add(const cell& end, std::uint64_t times);
  std::array<cell, 8> cells_{};
};

}  // namespace lsched
