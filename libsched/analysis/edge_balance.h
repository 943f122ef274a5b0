// An edge balance shows whether the sends and receives of a whole world match. Each rank contributes a few hundred
// bytes.
//
// An edge connects two ends, a send and a receive. The hash of an end selects two of eight cells. The fields of a send
// are added to both cells, and the fields of a receive are subtracted, modulo 2^64. The cells are then summed over all
// ranks. All sums are zero if each send has a receive with the same peers, tag, kind, guard, dtype and size. Otherwise
// all sums are zero only with a probability of 2^-64. A cell with exactly one unmatched end contains the fields of this
// end, so every rank can report the end. The fields of this end are then subtracted from the end's second cell. If
// exactly one unmatched end remains in that cell, every rank can report this end, too. This is the invertible sketch of
// Goodrich and Mitzenmacher (2011).
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
  /// Adds the ends of all edges of one rank's schedule, except edges from the rank to itself.
  void add(const schedule& program);
  void add(const edge_balance& other);

  bool is_even() const;

  /// Returns an unmatched end in words: "rank 0 sends 64 bytes of f32 with tag 7 to rank 1, which does not receive
  /// that", or "…, which receives 32 bytes of f16 instead". Returns nothing if no cell contains exactly one unmatched
  /// end.
  std::optional<std::string> odd_end() const;

 private:
  /// An end of an edge, or a sum of several ends. Must be trivially copyable, because cells are sent to other ranks.
  struct cell {
    std::uint64_t ends = 0;  ///< number of sends minus number of receives
    std::uint64_t hash = 0;
    std::uint64_t ranks = 0;  ///< sender << 32 | receiver
    std::uint64_t tag = 0;    ///< (hash of the guard, or 0) << 33 | tag << 1 | (1 for signals)
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
