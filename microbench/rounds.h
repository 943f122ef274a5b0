// Measures several variants of a round, called cells, under the same conditions.
//
// The cells take turns in five blocks, so that a slow phase of the machine affects all cells. A block starts with a
// barrier and new inputs. Then rounds follow each other, with barriers in between if a rank could otherwise run ahead.
// The time of a round is that of its slowest rank. Results are checked outside the timed part.
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
  std::function<void()> start{}, finish{};                  ///< the two halves of a round, for variants that have them
  std::function<void(std::uint64_t salt)> fill{};           ///< writes inputs, different for different salts
  std::function<double(std::uint64_t salt)> count_wrong{};  ///< returns wrong elements of the output after fill(salt)
  std::function<void()> calm{};           ///< resets the inputs so that rounds in place can repeat: zeros for a sum
  std::function<void()> open{}, close{};  ///< called before and after each block
  std::function<void()> after_round{};    ///< called before the next barrier; timed if there is no barrier
  bool in_place = false;                  ///< the output of a round is the input of the next round
  bool has_barriers = false;              ///< between rounds
  bool is_barrier = false;                ///< the result is the time at which ranks leave
  bool spins = false;                     ///< busy-waits, so that rounds wait for the scheduler if ranks share cores

  std::vector<double> us{};  ///< times of this rank, one per round
  double cpu_us = 0;         ///< processor time of this process in these rounds
  double wrong = 0;          ///< number of wrong elements on this rank
  double spent_ms = 0;       ///< includes checks
  bool is_left_out = false;
};

/// Time limits of cells, by the clock of rank 0.
struct turn_limits {
  std::uint64_t iterations = 100'000;  ///< limit for a cell
  double cell_ms = 0;                  ///< limit for each cell
  clock::time_point end = clock::time_point::max();
  double spinners_ms = std::numeric_limits<double>::infinity();  ///< time left for cells that spin, in all calls
};

/// Measures all cells. Cells that spin are left out when their time is used up. Collective.
void take_turns(std::vector<cell>& cells, team& ranks, turn_limits& limits, const std::string& label, reporter& out);

/// Returns the keys of the cell, the times of its rounds, and the number of wrong elements over all ranks. Collective.
result result_of(const cell& c, team& ranks);

}  // namespace lsched::bench
