// Detects whether a launcher other than `lsched run` started this process as one of several processes. If the library
// cannot join the world of such a launcher, opening a world fails. A world of one rank in each process would give wrong
// sums without an error.
#pragma once

#include <fcntl.h>
#include <link.h>

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "bindings/environment.h"

namespace lsched {

/// Returns whether LSCHED_WORLD=alone is set, which asks for a world of one rank under any launcher. Returns ARGUMENT
/// for any other value.
inline result<bool> wants_world_of_one() {
  const char* const set = text_in_environment("LSCHED_WORLD");
  if (set == nullptr || set == std::string_view("alone")) return set != nullptr;
  return failure{status::argument, std::string("LSCHED_WORLD is \"") + set +
                                       "\", but the only valid value is \"alone\": unset the variable, or set "
                                       "it to \"alone\""};
}

/// A launcher that started this process as one of several processes.
struct foreign_launch {
  std::string number;         ///< number of processes that the launcher started, or "several"
  std::string_view launcher;  ///< name of the launcher, for error texts
  std::string_view mpi;       ///< the MPI library to which the launcher belongs; empty: unknown
  const char* variable;       ///< the environment variable that shows the launch
  std::string_view call;      ///< the function that opens a world of the launcher's processes

  /// Returns a text such as "this process is one of 3 processes started by an MPI launcher (PMI_SIZE, set by MPICH)".
  std::string text() const {
    return "this process is one of " + number + " processes started by " + std::string(launcher) + " (" + variable +
           (mpi.empty() ? "" : ", set by " + std::string(mpi)) + ")";
  }
};

/// Searches for a foreign launcher in this order: PMI, Open MPI, torchrun, a step of Slurm, PMIx. Returns the first
/// launcher that it finds, or nothing if no foreign launcher started several processes. (A batch script of Slurm is one
/// process, even if its job has several tasks.) Returns ARGUMENT if the value of a variable should be a number of
/// processes, but is not a number.
inline result<std::optional<foreign_launch>> find_foreign_launch() {
  struct row {
    const char* size;    ///< the variable that holds the number of processes
    const char* beside;  ///< a second variable that must be set; null: none
    std::string_view launcher, mpi, call;
  };
  constexpr std::array k_rows{
      row{"PMI_SIZE", nullptr, "an MPI launcher", "MPICH", "lsched_world_open_mpi"},
      row{"OMPI_COMM_WORLD_SIZE", nullptr, "an MPI launcher", "Open MPI", "lsched_world_open_mpi"},
      row{"WORLD_SIZE", "RANK", "torchrun", "", "lsched_world_open_with"},
      row{"SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "srun", "",
          "lsched_world_open_mpi (srun --mpi) or lsched_world_open_with"}};
  bool is_counted = false;
  for (const row& each : k_rows) {
    if (each.beside != nullptr && in_environment(each.beside) == nullptr) continue;
    const auto size = number_in_environment(each.size);
    if (!size) return size.error();
    if (*size && **size > 1)
      return std::optional(foreign_launch{std::to_string(**size), each.launcher, each.mpi, each.size, each.call});
    is_counted = is_counted || *size;
  }
  const auto self = number_in_environment("PMIX_RANK");  // PMIx launchers do not publish the number of processes
  if (!self) return self.error();
  if (*self && (**self > 0 || !is_counted))
    return std::optional(foreign_launch{"several", "an MPI launcher", "", "PMIX_RANK", "lsched_world_open_mpi"});
  return std::optional<foreign_launch>();
}

/// Returns true if this process has loaded a shared library of MPI or PMI.
inline bool has_loaded_mpi() {
  const auto find = [](dl_phdr_info* library, std::size_t, void*) -> int {
    const std::string_view path(library->dlpi_name);
    const std::string_view name = path.substr(path.rfind('/') + 1);
    return name.starts_with("libmpi") || name.starts_with("libpmi") ? 1 : 0;
  };
  return dl_iterate_phdr(find, nullptr) != 0;
}

/// Returns the launch by a process manager of MPI that offers PMI-1 (offload/open/pmi_exchange.h). Returns nothing if
/// there is no such manager, if the manager has started only one process, or if this process has not inherited PMI_FD.
inline result<std::optional<launch>> find_pmi_launch() {
  launch found{.is_pmi = true};
  for (const auto& [variable, number] : {std::pair("PMI_FD", &found.descriptor), std::pair("PMI_RANK", &found.self),
                                         std::pair("PMI_SIZE", &found.size)}) {
    const auto read = number_in_environment(variable);
    if (!read) return read.error();
    if (!*read) return std::optional<launch>();
    *number = **read;
  }
  const bool is_usable = found.self < found.size && found.size > 1 && fcntl(found.descriptor, F_GETFD) >= 0;
  return is_usable ? std::optional(found) : std::nullopt;
}

/// Returns UNSUPPORTED if a foreign launcher started this process as one of several. The text names the function that
/// opens the world. Returns the failures of find_foreign_launch().
inline std::optional<failure> refuse_foreign_launch() {
  const auto found = find_foreign_launch();
  if (!found) return found.error();
  if (!*found) return std::nullopt;
  return failure{status::unsupported, (*found)->text() + ": open the world with " + std::string((*found)->call) +
                                          ", start the program with `lsched run`, or set LSCHED_WORLD=alone"};
}

/// Returns the launch whose world this process opens, or nothing if the process opens a world of one rank. A launch by
/// PMI is only returned if this process has not loaded MPI, because MPI may use PMI. Returns the failures of
/// wants_world_of_one(), find_launch() and refuse_foreign_launch().
inline result<std::optional<launch>> find_launch_to_join() {
  const auto is_alone = wants_world_of_one();
  if (!is_alone) return is_alone.error();
  if (*is_alone) return std::optional<launch>();
  auto where = find_launch();
  if (!where || *where) return where;
  if (!has_loaded_mpi()) where = find_pmi_launch();
  if (!where || *where) return where;
  if (auto why = refuse_foreign_launch()) return *why;
  return where;
}

}  // namespace lsched
