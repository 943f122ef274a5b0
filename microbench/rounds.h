// Every way to spend a round (a cell) gets the same treatment.
//
// Cells take turns in five blocks, so that a slow phase of the machine hits all of them. A block starts with a barrier
// and inputs nobody has seen; then rounds follow each other, with a barrier between them where a rank may leave before
// others have come. A round's time is that of its slowest rank. Results are checked outside the timed part.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "microbench/report.h"

namespace lsched::bench {

struct cell {
  result keys;  ///< of its JSON line
  std::function<void()> run;
  std::function<void()> start{}, finish{};                  ///< its two halves, for forms that have them
  std::function<void(std::uint64_t salt)> fill{};           ///< writes inputs, different for different salts
  std::function<double(std::uint64_t salt)> count_wrong{};  ///< how many elements of the output are wrong after that
  std::function<void()> calm{};           ///< makes inputs that rounds in place can go on with: zeros of a sum
  std::function<void()> open{}, close{};  ///< before and after each of its blocks
  std::function<void()> after_round{};    ///< before the next barrier; timed where there is none
  bool in_place = false;                  ///< a round's output is the next one's input
  bool has_barriers = false;              ///< between rounds
  bool is_barrier = false;                ///< its answer is when ranks leave
  bool spins = false;                     ///< waits for the scheduler where ranks share cores

  std::vector<double> us{};  ///< this rank's, a number per round
  double cpu_us = 0;         ///< what this process took of the processor for them
  double wrong = 0;          ///< elements, of this rank
  double spent_ms = 0;       ///< checks included
  bool is_left_out = false;
};

/// How long cells may take. Rank 0's clock decides.
struct turn_limits {
  std::uint64_t iterations = 100'000;  ///< of a cell, at most
  double cell_ms = 0;                  ///< for each cell
  clock::time_point end = clock::time_point::max();
  double spinners_ms = std::numeric_limits<double>::infinity();  ///< left for all cells that spin, these and later ones
};

/// Measures all of them. Cells that spin are left out when their time is used up. Collective.
void take_turns(std::vector<cell>& cells, team& ranks, turn_limits& limits, const std::string& label, reporter& out);

/// The cell's keys, with the times of its rounds and what was wrong, all ranks together. Collective.
result result_of(const cell& c, team& ranks);

}  // namespace lsched::bench
