// A session is the membership of a command in a world. The world depends on how the command was started:
//
//  - `lsched run` has started the command: the command joins the world of `lsched run`.
//  - An MPI launcher has started the command: the command joins MPI_COMM_WORLD, if it was built with MPI.
//  - No launcher has started the command: the command opens a world of one rank. If the user requests more ranks, the
//    local launcher starts the command again, once for each rank.
//
//     if (const auto status = session::relaunch(context, options)) return *status;  // this process was the launcher
//     session joined(options);                                                      // throws command_failure
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "bindings/c/lsched.h"
#include "bindings/cli/common/commands.h"

namespace CLI {
class App;
}  // namespace CLI

namespace lsched::cli {

enum class origin : std::uint8_t { alone, local_launcher, mpi_launcher };

/// Returns true if a variable of an MPI launcher is set.
bool is_started_by_mpi();

/// Finds from environment variables how this process was started. Throws command_failure if the variables contradict
/// each other.
origin find_origin();

struct session_options {
  std::int32_t ranks = 0;  ///< number of ranks that the user requests; 0: all ranks of the launcher, or `default_ranks`
                           ///< without a launcher
  std::int32_t default_ranks = 1;
  std::string transport = "auto";  ///< "auto", "shm", "mpi", or "net". With "net", ranks of an MPI launcher exchange
                                   ///< only addresses through MPI
  /// Requested thread level of MPI: "single", "funneled", "serialized" or "multiple". If ranks communicate through MPI,
  /// a level below "multiple" prevents a progress thread. If MPI provides only a lower level, that level is used.
  std::string mpi_threads = "multiple";
  const lsched_config* config = nullptr;  ///< configuration of the world; nullptr: defaults and environment
};

/// Adds the option --transport.
void add_transport_option(CLI::App& command, session_options& options);

class session {
 public:
  /// If a launcher started the command, or one rank is enough, returns nothing. Otherwise starts the command again as
  /// the requested ranks, and returns the exit status of launch().
  static std::optional<int> relaunch(const command_context& context, const session_options& options);

  /// Joins the world. Blocks until all ranks have joined. Throws command_failure. If the launcher belongs to another
  /// MPI library than this program, MPI_COMM_WORLD has only one rank, and the error is TRANSPORT.
  explicit session(const session_options& options = {});
  session(const session&) = delete;
  session& operator=(const session&) = delete;

  /// Leaves the world. If close() was not called, the command has failed, and run_program() must call
  /// abort_failed_world().
  ~session();

  /// If this rank has left an MPI world without close(), ends the other ranks, because they might wait forever.
  /// run_program() calls this function after it has printed the error. (Ranks of a local launcher detect the missing
  /// rank.)
  static void abort_failed_world();

  /// Closes the world. All schedules must have been destroyed, and every rank must call close(). Throws
  /// command_failure.
  void close();

  /// Closes the world and opens a new world with this configuration. No schedule may be left in the old world. This
  /// function is collective. Throws command_failure. Also throws if no MPI launcher has started the ranks, because such
  /// ranks can open their world only once.
  void reopen(const lsched_config& config);

  lsched_world* runtime() const { return runtime_; }
  std::int32_t rank() const { return lsched_rank(runtime_); }
  std::int32_t size() const { return lsched_size(runtime_); }
  bool launched_by_mpi() const { return origin_ == origin::mpi_launcher; }

  /// Returns the transport between this rank and the other ranks: "shm", "net" or "mpi", or "shm+net" or "shm+mpi"
  /// (shared memory inside a node).
  std::string transport() const;

 private:
  void open(const lsched_config* config);

  lsched_world* runtime_ = nullptr;
  const origin origin_;
  const std::string requested_;  ///< session_options::transport
};

}  // namespace lsched::cli
