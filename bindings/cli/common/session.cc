#include "bindings/cli/common/session.h"

#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "bindings/c/world.h"
#include "bindings/cli/common/errors.h"
#include "bindings/cli/common/executable.h"
#include "bindings/cli/common/launcher.h"
#include "bindings/cli/common/words.h"
#include "bindings/environment.h"
#include "build_options.h"
#include "ops/counted.h"
#if LSCHED_HAVE_MPI
#include <mpi.h>

#include "bindings/c/lsched_mpi.h"
#endif

namespace lsched::cli {
namespace {

bool has(const char* variable) { return std::getenv(variable) != nullptr; }

#if LSCHED_HAVE_MPI

/// True from MPI_Init_thread to MPI_Finalize. Only the main thread uses this variable.
bool g_is_in_mpi = false;

void enter_mpi(const std::string& threads) {
  int is_initialized = 0;
  MPI_Initialized(&is_initialized);
  if (is_initialized != 0)
    throw command_failure(LSCHED_ERR_STATE, "cannot initialise MPI: MPI is already initialised in this process");
  const int level = threads == "single"       ? MPI_THREAD_SINGLE
                    : threads == "funneled"   ? MPI_THREAD_FUNNELED
                    : threads == "serialized" ? MPI_THREAD_SERIALIZED
                                              : MPI_THREAD_MULTIPLE;
  int provided = MPI_THREAD_SINGLE;
  if (MPI_Init_thread(nullptr, nullptr, level, &provided) != MPI_SUCCESS)
    throw command_failure(LSCHED_ERR_TRANSPORT,
                          "MPI_Init_thread failed: check the MPI installation and the launcher with `lsched doctor`");
  g_is_in_mpi = true;
}

void leave_mpi() {
  if (g_is_in_mpi) MPI_Finalize();
  g_is_in_mpi = false;
}

void abort_mpi() {
  if (g_is_in_mpi) MPI_Abort(MPI_COMM_WORLD, 1);
}

int exchange_through_mpi(const void* mine, void* all, std::uint64_t bytes, void*) {
  const int count = static_cast<int>(bytes);
  return MPI_Allgather(mine, count, MPI_BYTE, all, count, MPI_BYTE, MPI_COMM_WORLD);
}

lsched_status open_mpi_world(const std::string& transport, const lsched_config* config, lsched_world** runtime,
                             lsched_diagnostic* detail) {
  if (transport == "mpi") return lsched_world_open_mpi(MPI_COMM_WORLD, LSCHED_MPI_ONLY, config, runtime, detail);
  if (transport != "net") return lsched_world_open_mpi(MPI_COMM_WORLD, LSCHED_MPI_AUTO, config, runtime, detail);
  int self = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &self);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return lsched_world_open_with(self, size, exchange_through_mpi, nullptr, config, runtime, detail);
}

#else

void enter_mpi(const std::string&) {
  throw command_failure(
      LSCHED_ERR_UNSUPPORTED,
      "an MPI launcher has started this process, but this lsched was built without MPI: build libsched "
      "with -DLSCHED_MPI=ON, or use `lsched run -n P`");
}
void leave_mpi() {}
void abort_mpi() {}
lsched_status open_mpi_world(const std::string&, const lsched_config*, lsched_world**, lsched_diagnostic*) {
  return LSCHED_ERR_UNSUPPORTED;
}

#endif

/// Handles SIGPIPE, which this rank gets if the reader of standard output has ended. The launcher must not report this
/// as a failure. So the handler also sends SIGPIPE to the launcher, which then ends all ranks.
void end_with_launcher(int) {
  kill(getppid(), SIGPIPE);
  sleep(1);
  raise(SIGPIPE);  // if the parent is not the launcher, ends this rank when the handler returns
}

void end_quietly_without_reader() {
  struct sigaction action {};
  sigaction(SIGPIPE, nullptr, &action);
  if (action.sa_handler != SIG_DFL) return;  // if SIGPIPE is ignored, the write fails instead
  action.sa_handler = end_with_launcher;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGPIPE, &action, nullptr);
}

}  // namespace

// PMIX_RANK alone is enough, because a process with that variable expects to be part of a larger job.
bool is_started_by_mpi() {
  return has("PMI_RANK") || has("PMI_SIZE") || has("PMIX_RANK") || has("OMPI_COMM_WORLD_SIZE");
}

origin find_origin() {
  constexpr std::array k_contract{k_run_descriptor, k_run_rank, k_run_size};
  const auto present = std::ranges::count_if(k_contract, has);
  if (present == std::ssize(k_contract)) return origin::local_launcher;
  if (present != 0)
    throw command_failure(LSCHED_ERR_STATE, std::string("only some of the launcher's variables ") + k_run_descriptor +
                                                ", " + k_run_rank + " and " + k_run_size +
                                                " are set: unset them, or use `lsched run`");
  return is_started_by_mpi() ? origin::mpi_launcher : origin::alone;
}

void add_transport_option(CLI::App& command, session_options& options) {
  command
      .add_option("--transport", options.transport,
                  "Transport of the ranks; mpi: all messages through MPI; net: TCP between hosts, also if an MPI "
                  "launcher started the ranks")
      ->check(one_of({"auto", "shm", "net", "mpi"}))
      ->capture_default_str();
}

std::optional<int> session::relaunch(const command_context& context, const session_options& options) {
  if (find_origin() != origin::alone || options.transport == "mpi" || options.transport == "net") return std::nullopt;
  const std::int32_t ranks = options.ranks != 0 ? options.ranks : options.default_ranks;
  if (ranks <= 1) return std::nullopt;
  launch_request request;
  request.ranks = ranks;
  request.path = own_program();
  request.words = context.arguments;
  std::error_code fault;
  request.title = std::filesystem::read_symlink(request.path, fault).filename().string();
  std::ranges::replace(request.title, '-', ' ');  // lsched-soak is started as `lsched soak`
  return launch(request);
}

session::session(const session_options& options) : origin_(find_origin()), requested_(options.transport) {
  if (requested_ == "mpi" && !launched_by_mpi())
    throw command_failure(
        LSCHED_ERR_UNSUPPORTED,
        "--transport mpi needs ranks that an MPI launcher has started: start the command with mpiexec -n P lsched …");
  if (requested_ == "shm" && launched_by_mpi())
    throw command_failure(
        LSCHED_ERR_UNSUPPORTED,
        "--transport shm needs ranks that `lsched run` has started: use auto, net or mpi with an MPI launcher");
  if (requested_ == "net" && origin_ == origin::alone)
    throw command_failure(LSCHED_ERR_UNSUPPORTED,
                          "--transport net needs ranks on several hosts: lsched run --hosts A:2,B:2 lsched …, or an "
                          "MPI launcher");
  if (launched_by_mpi()) enter_mpi(options.mpi_threads);
  if (origin_ == origin::local_launcher) end_quietly_without_reader();
  open(options.config);
  if (options.ranks == 0 || options.ranks == size()) return;
  const std::int32_t started = size();
  static_cast<void>(lsched_world_close(runtime_));
  throw command_failure(LSCHED_ERR_ARGUMENT, "--ranks is " + std::to_string(options.ranks) +
                                                 ", but the launcher started " + counted(started, "rank") +
                                                 ": leave the option out");
}

void session::open(const lsched_config* config) {
  lsched_diagnostic detail{.struct_size = sizeof detail};
  require(launched_by_mpi() ? open_mpi_world(requested_, config, &runtime_, &detail)
                            : lsched_world_open(config, &runtime_, &detail),
          "the world could not be opened", &detail);
}

session::~session() {
  // Errors are ignored (usually BUSY), because the process ends.
  if (runtime_ != nullptr) static_cast<void>(lsched_world_close(runtime_));
}

void session::close() {
  require(lsched_world_close(runtime_), "the world could not be closed");
  runtime_ = nullptr;
  leave_mpi();
}

void session::reopen(const lsched_config& config) {
  if (!launched_by_mpi())
    throw command_failure(
        LSCHED_ERR_UNSUPPORTED,
        "this measurement opens the world several times, but ranks of `lsched run` can open their world only once: use "
        "an MPI launcher");
  require(lsched_world_close(runtime_), "the world could not be closed");
  runtime_ = nullptr;
  open(&config);
}

void session::abort_failed_world() { abort_mpi(); }

std::string session::transport() const { return std::string(runtime_->process.net().name()); }

}  // namespace lsched::cli
