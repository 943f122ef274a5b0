/* The MPI header is plain C11 too, and brings what it needs. */
#include "lsched_mpi.h"

int main(void) { return MPI_COMM_WORLD == MPI_COMM_NULL; }
