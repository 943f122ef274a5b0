// The cells of `lsched bench coll`: every way to carry out one exercise that is measured.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "microbench/coll/mpi_baseline.h"
#include "microbench/exercise.h"
#include "microbench/rounds.h"

namespace lsched::bench {

/// A round of an exercise in these buffers, without a way to run it; null where this rank has none.
cell cell_of(const exercise& task, float* input, float* output, bool in_place);

/// The forms of MPI that `accepts` as cells, each with the baseline that it runs.
std::vector<cell> mpi_cells(const team& ranks, const exercise& task, float* input, float* output, bool in_place,
                            std::vector<std::unique_ptr<mpi_baseline>>& baselines);

/// Cells of one size, and everything they stand on. Its destruction is collective: MPI frees persistent collectives.
class cell_set {
 public:
  /// Collective. Algorithms that cannot do this exercise are left out; throws `agreed` where none can.
  cell_set(team& ranks, const coll_options& options, const exercise_kind& kind, std::uint64_t bytes, bool with_mpi);
  cell_set(const cell_set&) = delete;
  cell_set& operator=(const cell_set&) = delete;

  std::vector<cell>& cells() { return cells_; }
  /// Of the plain request. Collective.
  std::string taken_by_auto(team& ranks);
  /// Ends our schedules and reports what fails. Once, instead of leaving it to the destructor.
  void end();

 private:
  struct buffers {
    float* input;
    float* output;
  };
  void add_ours(team& ranks, const coll_options& options, const char* memory, buffers apart);
  void add_forms(lsched_schedule* schedule, cell made);
  /// The buffers as this rank has them; in place, the larger of the two serves as both.
  buffers in(buffers apart, bool in_place) const;

  exercise task_;
  std::vector<std::vector<float>> heaps_;
  std::vector<shared_floats> shared_;
  std::vector<schedule_handle> schedules_;
  std::vector<std::unique_ptr<lsched_ticket>> tickets_;
  std::vector<std::unique_ptr<mpi_baseline>> mpi_baselines_;
  std::vector<cell> cells_;
};

/// The smallest median of MPI's right results, µs; 0 if there is none.
double best_of_mpi(std::span<const result> rows);

/// The fastest right row of the algorithm and of the others in one: own_us, best, best_us, ratio; null where none is.
result comparison_of(std::span<const result> rows, const std::string& algorithm);

/// What launches of `lsched bench overlap` wrote, the JSON lines of one each, in one table. Throws `failed` for what is
/// not JSON.
table overlap_table(std::span<const std::string> launches);

/// All sizes of one collective, as options say; writes JSON, and answers a result for each cell. Prints how an
/// algorithm compares, if one is to be compared. `mpi`: its name, empty if it is not measured. Collective.
std::vector<result> sweep(const exercise_kind& kind, team& ranks, const coll_options& options, const std::string& mpi,
                          reporter& out);

}  // namespace lsched::bench
