#include "bindings/mpi/mpi_library.h"

#include <mpi.h>

#include <algorithm>
#include <array>

#include "bindings/environment.h"
#include "ops/counted.h"

namespace lsched {
namespace {

std::string mismatch(const std::string& started, int size) {
  return "the launcher started " + started + ", but MPI_COMM_WORLD has " + counted(size, "rank") +
         ": the program was built with one MPI and started by another's mpiexec";
}

}  // namespace

std::string mpi_library() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  if (MPI_Get_library_version(text.data(), &length) != MPI_SUCCESS) return "unknown";
  std::string line(text.data(), static_cast<std::size_t>(length));
  line.resize(std::min(line.find('\n'), line.size()));
  // MPICH writes "MPICH Version:\t4.0.2", Open MPI one line of words.
  std::string clean;
  for (const char letter : line) {
    const bool is_space = letter == ' ' || letter == '\t' || letter == '\r';
    if (!is_space)
      clean += letter;
    else if (!clean.empty() && clean.back() != ' ')
      clean += ' ';
  }
  if (const auto label = clean.find(" Version:"); label != std::string::npos) clean.erase(label, 9);
  return clean;
}

std::string launcher_mismatch() {
  int size = 0;
  if (MPI_Comm_size(MPI_COMM_WORLD, &size) != MPI_SUCCESS) return {};
  for (const char* variable : {"PMI_SIZE", "OMPI_COMM_WORLD_SIZE"})
    if (const auto started = number_in_environment(variable, 1); started && *started && **started != size)
      return mismatch(counted(**started, "rank"), size);
  for (const char* variable : {"PMI_RANK", "PMIX_RANK"})  // PMIx does not put the size into the environment
    if (const auto self = number_in_environment(variable); self && *self && **self >= size)
      return mismatch("rank " + std::to_string(**self), size);
  return {};
}

}  // namespace lsched
