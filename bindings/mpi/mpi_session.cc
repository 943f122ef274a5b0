#include "bindings/mpi/mpi_session.h"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "bindings/c/lsched_mpi.h"

namespace lsched::cli {
namespace {

std::optional<int> number_in(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  const std::string_view word(text);
  int value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  const bool is_number = error == std::errc() && end == word.data() + word.size();
  return is_number ? std::optional(value) : std::nullopt;
}

std::optional<int> first_of(std::initializer_list<const char*> variables) {
  for (const char* variable : variables)
    if (const auto value = number_in(variable)) return value;
  return std::nullopt;
}

/// What the launcher says it started. Not every launcher tells the size to a program of another MPI.
std::optional<int> launched_size() { return first_of({"PMI_SIZE", "OMPI_COMM_WORLD_SIZE"}); }
std::optional<int> launched_rank() { return first_of({"PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK"}); }

/// A session of this process was destroyed without finish(). The main thread's.
bool g_is_unfinished = false;

failure foreign_launcher(int size) {
  const auto started = launched_size();
  const auto self = launched_rank();
  std::string text = "the launcher started ";
  if (started)
    text += std::to_string(*started) + " ranks";
  else
    text += "rank " + std::to_string(*self);
  text += ", but MPI_COMM_WORLD has " + std::to_string(size) + (size == 1 ? " rank" : " ranks") +
          ": it belongs to another MPI than this program (" + mpi_library() + "); use that one's mpiexec";
  return {.code = status::transport, .text = std::move(text)};
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

result<std::unique_ptr<mpi_session>> mpi_session::open() {
  int is_initialized = 0;
  MPI_Initialized(&is_initialized);
  if (is_initialized != 0) return failure{.code = status::state, .text = "MPI is initialised already"};
  int provided = MPI_THREAD_SINGLE;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS)
    return failure{.code = status::transport, .text = "MPI_Init_thread failed"};

  int size = 0;
  int self = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &self);
  const bool is_foreign = launched_size().value_or(size) != size || launched_rank().value_or(self) != self;
  if (is_foreign) {
    MPI_Finalize();
    return foreign_launcher(size);
  }
  return std::unique_ptr<mpi_session>(new mpi_session);
}

mpi_session::~mpi_session() {
  if (is_finished_)
    MPI_Finalize();
  else
    g_is_unfinished = true;
}

void mpi_session::abort_unfinished() {
  if (g_is_unfinished) MPI_Abort(MPI_COMM_WORLD, 1);
}

lsched_status mpi_session::open_runtime(bool mpi_only, const lsched_config* config, lsched_runtime** runtime,
                                        lsched_diagnostic* diagnostic) {
  const lsched_mpi_transport transport = mpi_only ? LSCHED_MPI_ONLY : LSCHED_MPI_AUTO;
  return lsched_runtime_open_mpi(MPI_COMM_WORLD, transport, config, runtime, diagnostic);
}

}  // namespace lsched::cli
