#include "bindings/cli/common/session.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "bindings/cli/common/errors.h"
#include "bindings/cli/common/launcher.h"
#if LSCHED_HAVE_MPI
#include "bindings/cli/common/mpi_session.h"
#endif

namespace lsched::cli {

#if !LSCHED_HAVE_MPI
class mpi_session {};  // never made
#endif

namespace {

bool has(const char* variable) { return std::getenv(variable) != nullptr; }

/// A launcher that only sets PMIX_RANK counts too: its process expects to be part of something.
bool is_started_by_mpi() {
  return has("PMI_RANK") || has("PMI_SIZE") || has("PMIX_RANK") || has("OMPI_COMM_WORLD_SIZE");
}

std::unique_ptr<mpi_session> open_mpi(const std::string& threads) {
#if LSCHED_HAVE_MPI
  const std::vector<std::string> levels = mpi_thread_levels();
  return require(
      mpi_session::open(static_cast<int>(std::find(levels.begin(), levels.end(), threads) - levels.begin())));
#else
  static_cast<void>(threads);
  throw command_failure(LSCHED_ERR_UNSUPPORTED,
                        "started by an MPI launcher, but this lsched was built without MPI: build it with "
                        "-DLSCHED_MPI=ON, or use `lsched run -n P`");
#endif
}

}  // namespace

std::vector<std::string> mpi_thread_levels() { return {"single", "funneled", "serialized", "multiple"}; }

origin find_origin() {
  constexpr std::array k_contract{k_run_descriptor, k_run_rank, k_run_size};
  const auto there = std::count_if(k_contract.begin(), k_contract.end(), has);
  if (there == std::ssize(k_contract)) return origin::local_launcher;
  if (there != 0)
    throw command_failure(LSCHED_ERR_STATE, std::string("of the launcher's variables ") + k_run_descriptor + ", " +
                                                k_run_rank + " and " + k_run_size + " only some are set");
  return is_started_by_mpi() ? origin::mpi_launcher : origin::alone;
}

std::optional<int> session::relaunch(const command_context& context, const session_options& options) {
  if (find_origin() != origin::alone || options.transport == "mpi") return std::nullopt;
  const std::int32_t ranks = options.ranks != 0 ? options.ranks : options.default_ranks;
  if (ranks <= 1) return std::nullopt;
  launch_request request;
  request.ranks = ranks;
  request.path = "/proc/self/exe";
  request.words = context.arguments;
  request.title = "lsched " + (context.arguments.size() > 1 ? context.arguments[1] : std::string());
  return launch(request);
}

session session::open(const session_options& options) {
  session here;
  here.origin_ = find_origin();
  here.mpi_only_ = options.transport == "mpi";
  const bool wants_mpi = options.transport == "mpi";
  if (wants_mpi && !here.launched_by_mpi())
    throw command_failure(LSCHED_ERR_UNSUPPORTED,
                          "--transport mpi needs ranks that an MPI launcher has started: "
                          "mpiexec -n P lsched …");
  if (options.transport == "shm" && here.launched_by_mpi())
    throw command_failure(LSCHED_ERR_UNSUPPORTED,
                          "--transport shm needs ranks that `lsched run` has started; an MPI "
                          "launcher's ranks take auto or mpi");
  lsched_diagnostic detail;
  lsched_diagnostic_init(&detail);
  if (here.launched_by_mpi()) {
    here.mpi_ = open_mpi(options.mpi_threads);
#if LSCHED_HAVE_MPI
    require(here.mpi_->open_runtime(wants_mpi, options.config, &here.runtime_, &detail), "opening the runtime",
            &detail);
#endif
  } else {
    require(lsched_world_open(options.config, &here.runtime_, &detail), "opening the runtime", &detail);
  }
  here.check_size(options);
  return here;
}

void session::check_size(const session_options& options) const {
  if (options.ranks == 0 || options.ranks == size()) return;
  throw command_failure(LSCHED_ERR_ARGUMENT, "--ranks " + std::to_string(options.ranks) +
                                                 ", but the launcher started " + std::to_string(size()) +
                                                 "; leave the option out");
}

session::session() = default;

session::session(session&& from) noexcept
    : runtime_(std::exchange(from.runtime_, nullptr)),
      origin_(from.origin_),
      mpi_only_(from.mpi_only_),
      mpi_(std::move(from.mpi_)) {}

session::~session() {
  if (runtime_ == nullptr) return;
  const lsched_status answer = lsched_world_close(runtime_);  // BUSY on the way out of a failure: the process ends
  static_cast<void>(answer);
}

void session::close() {
  require(lsched_world_close(runtime_), "closing the runtime");
  runtime_ = nullptr;
#if LSCHED_HAVE_MPI
  if (mpi_ != nullptr) mpi_->finish();
  mpi_.reset();
#endif
}

void session::reopen(const lsched_config& config) {
  if (!launched_by_mpi())
    throw command_failure(LSCHED_ERR_UNSUPPORTED, "ranks of `lsched run` join their world once; use an MPI launcher");
#if LSCHED_HAVE_MPI
  require(lsched_world_close(runtime_), "closing the runtime");
  runtime_ = nullptr;
  lsched_diagnostic detail;
  lsched_diagnostic_init(&detail);
  require(mpi_->open_runtime(mpi_only_, &config, &runtime_, &detail), "opening the runtime", &detail);
#else
  static_cast<void>(config);
#endif
}

void session::abort_failed_world() {
#if LSCHED_HAVE_MPI
  mpi_session::abort_unfinished();
#endif
}

std::string_view session::transport() const {
  if (!launched_by_mpi()) return "shm";
  return mpi_only_ ? "mpi" : "shm+mpi";
}

std::string session::description() const {
  std::array<char, 512> text{};
  require(lsched_world_describe(runtime_, text.data(), text.size()), "describing the runtime");
  return text.data();
}

}  // namespace lsched::cli
