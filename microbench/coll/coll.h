// The cells of `lsched bench coll`: all measured variants of one exercise.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "microbench/coll/mpi_baseline.h"
#include "microbench/exercise.h"
#include "microbench/rounds.h"

namespace lsched::bench {

/// Returns a cell for an exercise in these buffers. The caller must set the run function of the cell. A pointer is null
/// if this rank has no such buffer.
cell cell_of(const exercise& task, float* input, float* output, bool in_place);

/// Returns a cell for each form that MPI supports. The cells use the objects that this function adds to `baselines`.
std::vector<cell> mpi_cells(const team& ranks, const exercise& task, float* input, float* output, bool in_place,
                            std::vector<std::unique_ptr<mpi_baseline>>& baselines);

/// The cells of one size, with their buffers and schedules. The destructor is collective, because MPI frees persistent
/// collectives collectively.
class cell_set {
 public:
  /// This constructor is collective. Omits algorithms that do not support the exercise. Throws `agreed` if no algorithm
  /// supports the exercise.
  cell_set(team& ranks, const coll_options& options, const collective& kind, std::uint64_t bytes, bool with_mpi);
  cell_set(const cell_set&) = delete;
  cell_set& operator=(const cell_set&) = delete;

  std::vector<cell>& cells() { return cells_; }
  /// Returns the algorithm that "auto" selects for separate malloc'd buffers, or an empty string if "auto" does not
  /// support the exercise. This function is collective.
  std::string taken_by_auto(team& ranks);
  /// Closes the schedules of libsched and reports errors. Must be called once before the destructor, which reports no
  /// errors.
  void end();

 private:
  struct buffers {
    float* input;
    float* output;
  };
  void add_ours(team& ranks, const coll_options& options, const char* memory, buffers apart);
  void add_forms(lsched_schedule* schedule, cell made);
  /// Returns the input and output of this rank. In place, both are parts of the larger buffer.
  buffers in(buffers apart, bool in_place) const;

  exercise task_;
  std::vector<std::vector<float>> heaps_;
  std::vector<shared_floats> shared_;
  std::vector<schedule_handle> schedules_;
  std::vector<std::unique_ptr<lsched_ticket>> tickets_;
  std::vector<std::unique_ptr<mpi_baseline>> mpi_baselines_;
  std::vector<cell> cells_;
};

/// Returns the smallest median of MPI's correct results in µs, or 0 if there is no such result.
double best_of_mpi(std::span<const result> rows);

/// Compares the fastest correct row of the algorithm with the fastest correct row of all other algorithms. Returns the
/// keys own_us, best, best_us and ratio. Missing values are null.
result comparison_of(std::span<const result> rows, const std::string& algorithm);

/// Returns one table for several launches of `lsched bench overlap`. `launches` has the JSON lines of each launch.
/// Throws `failed` if a line is not JSON.
table overlap_table(std::span<const std::string> launches);

/// Measures all sizes of one collective. Writes JSON, and returns a result for each cell. If the options name an
/// algorithm to compare, prints the comparison. `mpi` is the name of the MPI implementation. An empty name means that
/// MPI is not measured. This function is collective.
std::vector<result> sweep(const collective& kind, team& ranks, const coll_options& options, const std::string& mpi,
                          reporter& out);

}  // namespace lsched::bench
