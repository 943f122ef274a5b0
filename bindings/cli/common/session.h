// The world that a command of `lsched` joins depends on how the command was started.
//
//   started by `lsched run`      that world, over shared memory
//   started by an MPI launcher   MPI_COMM_WORLD, if the command was built with MPI
//   started by hand              a world of one rank; or, if more ranks are wanted, the command starts itself again
//                                as that many ranks through the local launcher
//
//     if (const auto status = session::relaunch(context, options)) return *status;  // this process was the launcher
//     session joined(options);                                                      // throws command_failure
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "bindings/c/lsched.h"
#include "bindings/cli/common/commands.h"

namespace lsched::cli {

enum class origin : std::uint8_t { alone, local_launcher, mpi_launcher };

/// Returns true if a variable of an MPI launcher is set.
bool is_started_by_mpi();

/// Finds in the environment how this process was started. Throws command_failure if the environment contradicts itself.
origin find_origin();

struct session_options {
  std::int32_t ranks = 0;  ///< requested by the user; 0: all ranks of the launcher, default_ranks without a launcher
  std::int32_t default_ranks = 1;
  std::string transport = "auto";  ///< "auto", "shm" or "mpi"
  /// Requested thread level of MPI: "single", "funneled", "serialized" or "multiple". Below "multiple", the library
  /// runs no auxiliary thread in a world where ranks communicate through MPI. If MPI grants less, that level is used.
  std::string mpi_threads = "multiple";
  const lsched_config* config = nullptr;  ///< nullptr: defaults and environment
};

class session {
 public:
  /// If the command was started by hand and needs more than one rank, runs it again as that many ranks and returns
  /// their exit status. Otherwise returns nothing.
  static std::optional<int> relaunch(const command_context& context, const session_options& options);

  /// Joins the world. Blocks until all ranks have joined. Throws command_failure. The error is TRANSPORT if the
  /// launcher belongs to another MPI than this program, which then sees worlds of one rank.
  explicit session(const session_options& options = {});
  session(const session&) = delete;
  session& operator=(const session&) = delete;

  /// Leaves the world. If close() was not called, the command has failed, and main() must call abort_failed_world().
  ~session();

  /// Ends the other ranks of an MPI world that was left without close(), because they may wait for this rank forever.
  /// main() calls it after it has printed the error. Ranks of a local launcher notice a missing rank by themselves.
  static void abort_failed_world();

  /// Leaves the world in good order. All schedules must be destroyed, and every rank must call it. Throws
  /// command_failure.
  void close();

  /// Closes the runtime, in which no schedule may be left, and opens another with this configuration. Collective.
  /// Throws command_failure, also if no MPI launcher has started the ranks, because such ranks can join their world
  /// only once.
  void reopen(const lsched_config& config);

  lsched_world* runtime() const { return runtime_; }
  std::int32_t rank() const { return lsched_rank(runtime_); }
  std::int32_t size() const { return lsched_size(runtime_); }
  bool launched_by_mpi() const { return origin_ == origin::mpi_launcher; }

  /// Returns the transport between ranks: "shm", "mpi" (everything), or "shm+mpi" (shared memory inside a node).
  std::string_view transport() const;

  /// Returns the text of lsched_world_describe.
  std::string description() const;

 private:
  void open(const lsched_config* config);

  lsched_world* runtime_ = nullptr;
  const origin origin_;
  const bool mpi_only_;
};

}  // namespace lsched::cli
