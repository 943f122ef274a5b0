// Whether the sends and receives of a whole world pair up, from a few bytes of each rank.
//
// Every end of an edge goes into two of eight cells, chosen by its hash; sends are added and receives subtracted, all
// modulo 2^64. Over all ranks the sum is zero if each send has its receive of the same peers, tag, kind, dtype and
// size, and nonzero if not (up to 2^-64). A cell in which exactly one end is left over is that end, in plain numbers,
// so every rank can name it without another message, and take it away, which may leave just one in another cell: the
// invertible sketch of Goodrich and Mitzenmacher (2011).
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
  /// All edges of one rank's schedule but those to itself.
  void add(const schedule& program);
  void add(const edge_balance& other);

  bool is_even() const;

  /// What is left over, in words: "rank 0 sends 64 bytes of f32 with tag 7 to rank 1, which does not receive that", or,
  /// "…, which receives 32 bytes of f16 instead". Nothing if so much is left over that no cell holds just one end.
  std::optional<std::string> odd_end() const;

 private:
  /// One end, or a sum of them. Plain bytes: it crosses process and node borders.
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
