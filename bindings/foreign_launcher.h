// Launchers of others: whether one has started this process as one of several. A world of one rank in their place would
// give wrong sums without a word.
#pragma once

#include <string>

#include "bindings/environment.h"

namespace lsched {

/// Whether the user wants a world of one rank, whoever has started the process: LSCHED_WORLD=alone. ARGUMENT for any
/// other word.
inline result<bool> wants_world_of_one() {
  const char* const set = text_in_environment("LSCHED_WORLD");
  if (set == nullptr || set == std::string_view("alone")) return set != nullptr;
  return failure{status::argument, std::string("LSCHED_WORLD is \"") + set + "\", not alone"};
}

/// UNSUPPORTED: such a launcher has started this process; says by which call the world is opened. In this order: PMI
/// and PMIx, torchrun, a step of Slurm. (A batch script of Slurm is one process, whatever its job has asked for.)
inline std::optional<failure> refuse_foreign_launch() {
  constexpr std::string_view k_mpi = "lsched_world_open_mpi", k_with = "lsched_world_open_with";
  const auto refused = [](const std::string& number, std::string_view launcher, const std::string& variable,
                          const std::string& call) {
    return failure{status::unsupported, "this process is one of " + number + " started by " + std::string(launcher) +
                                            " (" + variable + "): open the world with " + call +
                                            ", or start it with `lsched run`, or set LSCHED_WORLD=alone"};
  };
  struct launcher {
    const char* size;  ///< the variable that says how many there are
    const char* with;  ///< another one that must be set; null: none
    std::string_view name;
    std::string call;
  };
  const launcher all[] = {
      {"PMI_SIZE", nullptr, "an MPI launcher", std::string(k_mpi)},
      {"OMPI_COMM_WORLD_SIZE", nullptr, "an MPI launcher", std::string(k_mpi)},
      {"WORLD_SIZE", "RANK", "torchrun", std::string(k_with)},
      {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "srun", std::string(k_mpi) + " (srun --mpi) or " + std::string(k_with)}};
  bool is_counted = false;
  for (const launcher& one : all) {
    if (one.with != nullptr && in_environment(one.with) == nullptr) continue;
    const auto size = number_in_environment(one.size);
    if (!size) return size.error();
    if (*size && **size > 1) return refused(std::to_string(**size), one.name, one.size, one.call);
    is_counted = is_counted || *size;
  }
  const auto self = number_in_environment("PMIX_RANK");  // its launchers do not say how many there are
  if (!self) return self.error();
  if (*self && (**self > 0 || !is_counted))
    return refused("several", "an MPI launcher", "PMIX_RANK", std::string(k_mpi));
  return std::nullopt;
}

}  // namespace lsched
