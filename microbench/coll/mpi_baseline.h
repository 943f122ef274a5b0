// MPI's collectives in all their forms, for comparison with libsched. Builds without MPI have no forms. This header
// does not include <mpi.h>.
#pragma once

#include <memory>
#include <string>

#include "microbench/exercise.h"
#include "microbench/report.h"

namespace lsched::bench {

enum class mpi_form {
  blocking,          ///< MPI_Allreduce
  nonblocking,       ///< MPI_Iallreduce, MPI_Wait
  persistent,        ///< MPI_Allreduce_init once, MPI_Start, MPI_Wait
  yielding,          ///< MPI_Iallreduce, then MPI_Test and sched_yield in turn, for ranks that share cores
  persistent_yield,  ///< MPI_Allreduce_init once, MPI_Start, then MPI_Test and sched_yield in turn
};
inline constexpr mpi_form k_mpi_forms[] = {mpi_form::blocking, mpi_form::nonblocking, mpi_form::persistent,
                                           mpi_form::yielding, mpi_form::persistent_yield};

/// Returns "blocking", "nonblocking", "persistent", "nonblocking-yield" or "persistent-yield".
const char* name_of(mpi_form form);

/// Returns true if this form calls sched_yield() between calls of MPI_Test.
inline bool yields(mpi_form form) { return form == mpi_form::yielding || form == mpi_form::persistent_yield; }

/// Returns true if this MPI implementation supports the form. MPI 4 introduced persistent collectives. Open MPI 4.1 has
/// persistent collectives as an extension. Returns false for the persistent scatter of MPICH 4.0, because it crashes.
/// Returns false for a collective that MPI does not have.
bool has_form(mpi_form form, const collective& kind);

/// Returns the reason why MPI cannot be measured in this run. Returns an empty string if the ranks of MPI_COMM_WORLD
/// are the `ranks` ranks of this benchmark.
std::string why_no_mpi(int ranks);

/// Returns the name of the MPI implementation, such as "MPICH 4.0.2". If MPI cannot be measured in this run, prints the
/// reason and returns an empty string.
std::string mpi_if_measured(const team& ranks, reporter& out);

/// One collective over MPI_COMM_WORLD, bound to the buffers of an exercise. With `in_place`, input and output are in
/// one buffer, on the ranks where MPI supports that. Construction and destruction of persistent forms are collective.
/// Throws `failed` if MPI returns an error, or if an int cannot hold the number of elements.
class mpi_baseline {
 public:
  mpi_baseline(mpi_form form, const exercise& task, const float* input, float* output, bool in_place);
  ~mpi_baseline();
  mpi_baseline(const mpi_baseline&) = delete;
  mpi_baseline& operator=(const mpi_baseline&) = delete;

  void run();

  /// The two halves of run(). All forms except `blocking` have them.
  void start();
  void finish();

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace lsched::bench
