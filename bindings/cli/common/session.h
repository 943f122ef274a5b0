// How a command of `lsched` joins a world.
//
//   started by `lsched run`      that world, over shared memory
//   started by an MPI launcher   MPI_COMM_WORLD, if the command was built with MPI
//   started by hand              a world of one; or, if more ranks are wanted, the command starts itself again
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

/// Whether a variable of an MPI launcher is set.
bool is_started_by_mpi();

/// Who started this process, by its environment. Throws where the environment contradicts itself.
origin find_origin();

struct session_options {
  std::int32_t ranks = 0;  ///< wanted by the user; 0: whatever the launcher gives, default_ranks if alone
  std::int32_t default_ranks = 1;
  std::string transport = "auto";  ///< "auto", "shm" or "mpi"
  /// What MPI is asked for: "single", "funneled", "serialized" or "multiple". Below the last the library runs no
  /// auxiliary thread in a world where ranks talk through MPI. (A library that grants less is used at its level.)
  std::string mpi_threads = "multiple";
  const lsched_config* config = nullptr;  ///< nullptr: defaults and environment
};

class session {
 public:
  /// Started by hand and more than one rank wanted: runs this command again as that many ranks and answers
  /// their exit status. Nothing in every other case.
  static std::optional<int> relaunch(const command_context& context, const session_options& options);

  /// Joins. Blocks until all ranks have come. Throws command_failure: also TRANSPORT, where the launcher belongs to
  /// another MPI than this program, which then sees worlds of one.
  explicit session(const session_options& options = {});
  session(const session&) = delete;
  session& operator=(const session&) = delete;

  /// Leaves. Without close(), the command has failed, and abort_failed_world() is to be called.
  ~session();

  /// Ends the other ranks of an MPI world that was left without close(): they may wait for this one for ever.
  /// main() calls it when it has printed why. (Ranks of a local launcher notice by themselves.)
  static void abort_failed_world();

  /// Leaves in good order; all schedules are gone, and every rank does the same. Throws command_failure.
  void close();

  /// Closes the runtime, of which no schedule is left, and opens another with this configuration. Collective. Throws
  /// command_failure, for ranks that no MPI launcher has started too: they join their world once.
  void reopen(const lsched_config& config);

  lsched_world* runtime() const { return runtime_; }
  std::int32_t rank() const { return lsched_rank(runtime_); }
  std::int32_t size() const { return lsched_size(runtime_); }
  bool launched_by_mpi() const { return origin_ == origin::mpi_launcher; }

  /// What the ranks talk through: "shm", "mpi" (everything), or "shm+mpi" (shared memory inside a node).
  std::string_view transport() const;

  /// lsched_world_describe.
  std::string description() const;

 private:
  void open(const lsched_config* config);

  lsched_world* runtime_ = nullptr;
  const origin origin_;
  const bool mpi_only_;
};

}  // namespace lsched::cli
