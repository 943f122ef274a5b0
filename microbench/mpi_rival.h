// MPI_Allreduce(float, sum) in the forms MPI has, to be compared with. Only in builds with LSCHED_HAVE_MPI;
// no <mpi.h> here.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace lsched::bench {

enum class mpi_form {
  blocking,     ///< MPI_Allreduce
  nonblocking,  ///< MPI_Iallreduce, MPI_Wait
  persistent,   ///< MPI_Allreduce_init once, MPI_Start, MPI_Wait
  yielding      ///< MPI_Iallreduce, then MPI_Test and sched_yield in turns: what MPI can do where ranks share
                ///< cores
};

/// "blocking", "nonblocking", "persistent", "nonblocking-yield".
const char* name_of(mpi_form form);

/// Whether this MPI offers the form (persistent collectives came with MPI 4).
bool has_form(mpi_form form);

/// "MPICH 4.0.2, MPI_THREAD_MULTIPLE"
std::string mpi_description();

/// Empty if the ranks of MPI_COMM_WORLD are the `ranks` ranks of this benchmark; else the reason why MPI
/// cannot be measured in this run.
std::string why_no_mpi(int ranks);

/// One collective over MPI_COMM_WORLD, bound to buffers of `count` floats (the same buffer twice: in place).
/// Construction and destruction of persistent ones are collective. Throws `failed` where MPI reports an
/// error.
class mpi_allreduce {
 public:
  mpi_allreduce(mpi_form form, const float* input, float* output, std::size_t count);
  ~mpi_allreduce();
  mpi_allreduce(const mpi_allreduce&) = delete;
  mpi_allreduce& operator=(const mpi_allreduce&) = delete;

  void run();

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace lsched::bench
