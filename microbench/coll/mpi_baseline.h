// MPI's collectives in the forms MPI has, to be compared with. Builds without MPI have no forms; no <mpi.h> here.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "microbench/exercise.h"
#include "microbench/report.h"

namespace lsched::bench {

enum class mpi_form {
  blocking,     ///< MPI_Allreduce
  nonblocking,  ///< MPI_Iallreduce, MPI_Wait
  persistent,   ///< MPI_Allreduce_init once, MPI_Start, MPI_Wait
  yielding,     ///< MPI_Iallreduce, then MPI_Test and sched_yield in turns: what MPI can do where ranks share cores
  persistent_yield,  ///< the same of a persistent one
};
inline constexpr mpi_form k_mpi_forms[] = {mpi_form::blocking, mpi_form::nonblocking, mpi_form::persistent,
                                           mpi_form::yielding, mpi_form::persistent_yield};

/// "blocking", "nonblocking", "persistent", "nonblocking-yield", "persistent-yield".
const char* name_of(mpi_form form);

/// Whether this form takes turns with other ranks of its core whatever the MPI.
inline bool yields(mpi_form form) { return form == mpi_form::yielding || form == mpi_form::persistent_yield; }

/// Whether this MPI offers the form, and survives it. Persistent collectives came with MPI 4; Open MPI 4.1 has them as
/// an extension; MPICH 4.0 does not survive its scatter.
bool has_form(mpi_form form, const exercise_kind& kind);

/// Empty if the ranks of MPI_COMM_WORLD are the `ranks` ranks of this benchmark; else the reason why MPI cannot be
/// measured in this run.
std::string why_no_mpi(int ranks);

/// "MPICH 4.0.2"; empty if MPI cannot be measured in this run. A line says so, and why.
std::string mpi_if_measured(const team& ranks, reporter& out);

/// One collective over MPI_COMM_WORLD, bound to an exercise's buffers. In place if they are one buffer, on the ranks
/// where MPI knows that. Construction and destruction of persistent ones are collective. Throws `failed` where MPI
/// reports an error, and for more elements than an int counts.
class mpi_baseline {
 public:
  mpi_baseline(mpi_form form, const exercise& task, const float* input, float* output, bool in_place);
  ~mpi_baseline();
  mpi_baseline(const mpi_baseline&) = delete;
  mpi_baseline& operator=(const mpi_baseline&) = delete;

  void run();

  /// The two halves of run(), for forms that have them: all but `blocking`.
  void start();
  void finish();

 private:
  struct state;
  std::unique_ptr<state> state_;
};

/// A message to a rank of MPI_COMM_WORLD, or from one. Throw as above, and so does what follows.
void mpi_send(int to, const std::vector<float>& data);
void mpi_receive(int from, std::vector<float>& data);

/// Counts and displacements in floats, as MPI takes them.
struct mpi_blocks {
  std::vector<int> counts, displacements;
};
void mpi_alltoallv(const float* input, const mpi_blocks& sent, float* output, const mpi_blocks& received);

}  // namespace lsched::bench
