// The cells of one size of `lsched bench coll`: every way to carry out one exercise that is measured.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "microbench/benchmarks.h"
#include "microbench/exercise.h"
#include "microbench/harness.h"

namespace lsched::bench {

class mpi_rival;

/// Whose, which form, which buffers, which algorithm. What is measured of it is this rank's until it is combined.
struct cell {
  std::string impl;  ///< "libsched" or "mpi"
  std::string form;
  std::string buffers;
  std::string algorithm;
  bool in_place = false;
  bool spins = false;  ///< waits for the scheduler where ranks share cores
  const exercise* what = nullptr;
  float* input = nullptr;  ///< null where this rank has none
  float* output = nullptr;
  std::function<void()> run{};
  std::function<void()> start{}, finish{};  ///< its two halves, for forms that have them

  std::vector<double> us{};  ///< a number per round
  double wrong = 0;          ///< elements
  double spent_ms = 0;       ///< checks included
  bool is_left_out = false;
};

/// Cells, and everything they stand on. Its destruction is collective: MPI frees persistent collectives.
class cell_set {
 public:
  /// Collective. Algorithms that cannot do this exercise are left out; throws `agreed` where none can.
  cell_set(team& ranks, const coll_options& options, const exercise_kind& kind, std::uint64_t bytes, bool with_mpi);
  ~cell_set();
  cell_set(const cell_set&) = delete;
  cell_set& operator=(const cell_set&) = delete;

  std::vector<cell>& cells() { return cells_; }
  /// Ends our schedules and reports what fails. Once, instead of leaving it to the destructor.
  void end();

 private:
  struct buffers {
    float* input;
    float* output;
  };
  void add_ours(team& ranks, const coll_options& options, const char* memory, buffers apart);
  void add_forms(lsched_schedule* schedule, cell made);
  void add_mpi(const team& ranks, buffers at, bool in_place);
  /// The buffers as this rank has them; in place, the larger of the two serves as both.
  buffers in(buffers apart, bool in_place) const;

  exercise what_;
  std::vector<std::vector<float>> heaps_;
  std::vector<shared_floats> shared_;
  std::vector<schedule_handle> schedules_;
  std::vector<std::unique_ptr<lsched_ticket>> tickets_;
  std::vector<std::unique_ptr<mpi_rival>> rivals_;
  std::vector<cell> cells_;
};

/// Bytes of memory that the buffers of a set take, all local ranks together.
double set_bytes(const team& ranks, const exercise_kind& kind, std::uint64_t bytes);

}  // namespace lsched::bench
