// MPI's collectives in all forms of MPI, for comparison. Builds without MPI have no forms. Does not include <mpi.h>.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "microbench/exercise.h"
#include "microbench/report.h"

namespace lsched::bench {

enum class mpi_form {
  blocking,          ///< MPI_Allreduce
  nonblocking,       ///< MPI_Iallreduce, MPI_Wait
  persistent,        ///< MPI_Allreduce_init once, MPI_Start, MPI_Wait
  yielding,          ///< MPI_Iallreduce, then MPI_Test and sched_yield in turn, for ranks that share cores
  persistent_yield,  ///< MPI_Allreduce_init once, MPI_Start, then as yielding
};
inline constexpr mpi_form k_mpi_forms[] = {mpi_form::blocking, mpi_form::nonblocking, mpi_form::persistent,
                                           mpi_form::yielding, mpi_form::persistent_yield};

/// Returns "blocking", "nonblocking", "persistent", "nonblocking-yield" or "persistent-yield".
const char* name_of(mpi_form form);

/// Returns true if this form yields its core between tests, whether or not the MPI does.
inline bool yields(mpi_form form) { return form == mpi_form::yielding || form == mpi_form::persistent_yield; }

/// Returns true if this MPI has a working implementation of the form. MPI 4 introduced persistent collectives. Open MPI
/// 4.1 has them as an extension. The persistent scatter of MPICH 4.0 crashes.
bool has_form(mpi_form form, const exercise_kind& kind);

/// Returns the reason why MPI cannot be measured in this run. Empty: the ranks of MPI_COMM_WORLD are the `ranks` ranks
/// of this benchmark.
std::string why_no_mpi(int ranks);

/// Returns the name of the MPI, such as "MPICH 4.0.2". If MPI cannot be measured in this run, prints the reason and
/// returns an empty string.
std::string mpi_if_measured(const team& ranks, reporter& out);

/// One collective over MPI_COMM_WORLD, bound to the buffers of an exercise. It is in place if both are one buffer, on
/// the ranks where MPI supports that. Construction and destruction of persistent forms are collective. Throws `failed`
/// if MPI returns an error, or if an int cannot hold the number of elements.
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

/// Sends a message to a rank of MPI_COMM_WORLD, or receives one. Throws `failed` like mpi_baseline.
void mpi_send(int to, const std::vector<float>& data);
void mpi_receive(int from, std::vector<float>& data);

/// Counts and displacements in floats, in the form of MPI.
struct mpi_blocks {
  std::vector<int> counts, displacements;
};
/// Runs MPI_Alltoallv. Throws `failed` like mpi_baseline.
void mpi_alltoallv(const float* input, const mpi_blocks& sent, float* output, const mpi_blocks& received);

}  // namespace lsched::bench
