// Measures several variants of a round under the same conditions. A cell is one variant.
//
// The cells take turns in five blocks, so that a slow phase of the machine affects all cells. A block starts with a
// barrier and new inputs. Then the rounds run one after the other. If a rank could run ahead, barriers separate the
// rounds. The time of a round is the time of the slowest rank. Results are checked outside the timed part.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "microbench/report.h"

namespace lsched::bench {

struct cell {
  result keys;  ///< keys of the JSON line
  std::function<void()> run;
  std::function<void()> start{}, finish{};                  ///< the two halves of a round; empty: not divided
  std::function<void(std::uint64_t salt)> fill{};           ///< writes inputs, different for different salts
  std::function<double(std::uint64_t salt)> count_wrong{};  ///< returns the number of wrong outputs after fill(salt)
  std::function<void()> calm{};           ///< sets inputs that rounds in place can sum repeatedly: zeros
  std::function<void()> open{}, close{};  ///< called before and after each block
  std::function<void()> after_round{};    ///< called before the next barrier; timed if there is no barrier
  bool in_place = false;                  ///< the output of a round is the input of the next round
  bool has_barriers = false;              ///< true: barriers separate the rounds
  bool is_barrier = false;                ///< the round is checked by the times at which ranks leave
  bool spins = false;                     ///< the variant busy-waits, so that ranks that share cores delay each other

  std::vector<double> us{};  ///< times of this rank, one per round
  double cpu_us = 0;         ///< processor time of this process in these rounds
  double wrong = 0;          ///< number of wrong elements on this rank
  double spent_ms = 0;       ///< time of all rounds and checks, by the clock of rank 0
  bool is_left_out = false;
};

/// Time limits of cells, by the clock of rank 0.
struct turn_limits {
  std::uint64_t iterations = 100'000;  ///< limit of the rounds of each cell
  double cell_ms = 0;                  ///< limit of the time of each cell
  clock::time_point end = clock::time_point::max();
  double spinners_ms = std::numeric_limits<double>::infinity();  ///< remaining time of all cells that spin
};

/// Measures all cells. When `spinners_ms` is used up, omits all cells that spin. This function is collective.
void take_turns(std::vector<cell>& cells, team& ranks, turn_limits& limits, const std::string& label, reporter& out);

/// Returns a result with the keys of the cell, the times of its rounds, and the number of wrong elements over all
/// ranks. This function is collective.
result result_of(const cell& c, team& ranks);

}  // namespace lsched::bench
