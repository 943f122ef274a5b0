// The findings of `lsched doctor`. Each has a subject, a state, a sentence and a page of the documentation.
#pragma once

#include <string>

namespace lsched::cli::doctor {

enum class condition { ok, warning, error };

struct finding {
  std::string subject;  ///< "command", "ulimit -v"
  condition state = condition::ok;
  std::string text;  ///< one sentence
  std::string page;  ///< the path of a page below the root of the repository, with the heading
};

// programs.cc: other programs and libraries that a search may find in place of those of this build.
finding examine_command();
finding examine_library();
finding examine_mpi();

// process.cc: the environment, the limits and the rights of this process. `ranks` is the size of the planned world.
finding examine_launcher();
finding examine_shared_memory();
finding examine_peer_reads();
finding examine_address_limit(int ranks);
finding examine_file_limit(int ranks);
finding examine_descriptor_limit(int ranks);
finding examine_cores();
finding examine_gpu();

}  // namespace lsched::cli::doctor
