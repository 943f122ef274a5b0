#include "bindings/mpi/mpi_calls.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <utility>

#include "bindings/mpi/mpi_library.h"

namespace lsched {
namespace {

bool finish(MPI_Request& request) {
  for (int is_done = 0;;) {
    if (MPI_Test(&request, &is_done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
    if (is_done != 0) return true;
    sched_yield();
  }
}

}  // namespace

bool is_mpi_running() {
  int is_initialized = 0;
  int is_finalized = 0;
  return MPI_Initialized(&is_initialized) == MPI_SUCCESS && is_initialized != 0 &&
         MPI_Finalized(&is_finalized) == MPI_SUCCESS && is_finalized == 0;
}

std::optional<failure> validate_world(MPI_Comm comm) {
  if (!is_mpi_running())
    return failure{status::state,
                   "MPI is not initialised, or already finalised: open the world between MPI_Init and MPI_Finalize"};
  if (comm == MPI_COMM_NULL)
    return failure{
        status::argument,
        "the communicator is MPI_COMM_NULL, which has no ranks: pass a communicator that contains this rank"};
  int is_inter = 0;
  if (MPI_Comm_test_inter(comm, &is_inter) == MPI_SUCCESS && is_inter == 0) return std::nullopt;
  return failure{
      status::argument,
      "the communicator is an intercommunicator: pass an intracommunicator, for example of MPI_Intercomm_merge"};
}

int highest_tag_of(MPI_Comm comm, int wished) {
  int* bound = nullptr;
  int is_set = 0;
  if (MPI_Comm_get_attr(comm, MPI_TAG_UB, &bound, &is_set) != MPI_SUCCESS || is_set == 0) return 32767;
  return wished > 0 ? std::min(wished, *bound) : *bound;
}

failure mpi_failure(const char* call) { return {status::transport, std::string(call) + " failed"}; }

bool reduce_all(const void* own, void* all, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  MPI_Request request = MPI_REQUEST_NULL;
  return MPI_Iallreduce(own, all, count, type, op, comm, &request) == MPI_SUCCESS && finish(request);
}

bool gather_all(rank own, rank* all, MPI_Comm comm) {
  static_assert(sizeof(rank) == sizeof(std::int32_t));
  MPI_Request request = MPI_REQUEST_NULL;
  return MPI_Iallgather(&own, 1, MPI_INT32_T, all, 1, MPI_INT32_T, comm, &request) == MPI_SUCCESS && finish(request);
}

bool broadcast(void* data, int bytes, MPI_Comm comm, rank root) {
  MPI_Request request = MPI_REQUEST_NULL;
  return MPI_Ibcast(data, bytes, MPI_BYTE, root, comm, &request) == MPI_SUCCESS && finish(request);
}

std::optional<failure> agree(MPI_Comm comm, const std::optional<failure>& own) {
  struct {
    std::int32_t code;
    char text[508];
  } told{};
  rank self = 0, size = 0, first = 0;
  if (MPI_Comm_rank(comm, &self) != MPI_SUCCESS || MPI_Comm_size(comm, &size) != MPI_SUCCESS)
    return mpi_failure("MPI_Comm_rank");
  const rank failing = own ? self : size;
  if (!reduce_all(&failing, &first, 1, MPI_INT32_T, MPI_MIN, comm)) return mpi_failure("MPI_Iallreduce");
  if (first == size) return std::nullopt;
  if (first == self) {
    told.code = static_cast<std::int32_t>(own->code);
    own->text.copy(told.text, sizeof told.text - 1);
  }
  if (!broadcast(&told, static_cast<int>(sizeof told), comm, first)) return mpi_failure("MPI_Ibcast");
  return failure{static_cast<status>(told.code), told.text, first};
}

// --- the library -------------------------------------------------------------------------------------------

std::string mpi_library() {
  // The loaded library may be of another implementation than the header. In this case the header's limit may be too
  // small, so the buffer has the size of MPICH's limit, which is the largest.
  std::array<char, std::max(MPI_MAX_LIBRARY_VERSION_STRING, 8192)> text{};
  int length = 0;
  if (MPI_Get_library_version(text.data(), &length) != MPI_SUCCESS) return "unknown";
  std::string line(text.data(), static_cast<std::size_t>(length));
  line.resize(std::min(line.find('\n'), line.size()));
  // MPICH's text begins with "MPICH Version:\t4.0.2", and Open MPI's text is one line.
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

std::string_view mpi_family(std::string_view library) {
  constexpr std::pair<std::string_view, std::string_view> k_names[]{{"Open MPI", "Open MPI"},
                                                                    {"Spectrum MPI", "Open MPI"},
                                                                    {"MPICH", "MPICH"},
                                                                    {"MVAPICH", "MPICH"},
                                                                    {"Intel(R) MPI", "MPICH"}};
  for (const auto& [name, family] : k_names)
    if (library.find(name) != std::string_view::npos) return family;
  return {};
}

std::optional<failure> refuse_mixed_mpi(std::string_view program, std::string_view ours, std::string_view library) {
  const auto differ = [](std::string_view one, std::string_view other) {
    return !mpi_family(one).empty() && !mpi_family(other).empty() && mpi_family(one) != mpi_family(other);
  };
  if (differ(program, ours))
    return failure{status::unsupported, "the program was compiled with mpi.h of " + std::string(program) +
                                            ", but libsched_mpi with that of " + std::string(ours) +
                                            ": compile both with the same MPI"};
  if (differ(ours, library))
    return failure{status::unsupported, "libsched_mpi was compiled with mpi.h of " + std::string(ours) +
                                            ", but the MPI library that runs is " + std::string(library) +
                                            ": link and start the program with the same MPI"};
  return std::nullopt;
}

}  // namespace lsched
