// The findings of `lsched doctor`. Each finding is the result of one check of the installation or of this process.
#pragma once

#include <string>

namespace lsched::cli::doctor {

enum class condition { ok, warning, error };

struct finding {
  std::string subject;
  condition state = condition::ok;
  std::string text;  ///< one sentence
  std::string page;  ///< path of a page of the documentation, relative to the root of the repository, with the heading
};

// programs.cc: checks whether searches for programs and libraries find those of this build.
finding examine_command();
finding examine_library();
finding examine_mpi();

// process.cc: checks of the environment, the limits and the rights of this process. `ranks` is the size of the planned
// world.
finding examine_launcher();
finding examine_shared_memory();
finding examine_peer_reads();
finding examine_address_limit(int ranks);
finding examine_file_limit(int ranks);
finding examine_descriptor_limit(int ranks);
finding examine_cores();
finding examine_gpu();

// network.cc: checks whether a world over several hosts can be opened.
finding examine_network();

}  // namespace lsched::cli::doctor
