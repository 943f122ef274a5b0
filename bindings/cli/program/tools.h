// Tools: commands of `lsched` that are programs of their own. `lsched bench` starts `lsched-bench` from its own folder.
#pragma once

#include <string>
#include <string_view>

#include "bindings/cli/program/description.h"

namespace lsched::cli {

struct tool {
  std::string_view name;  ///< "bench": the command is `lsched bench`, and the program is lsched-bench
  const char* summary;
};

inline constexpr tool k_bench{"bench", "Measure this machine: collectives, messages, costs, figures of papers"};
inline constexpr tool k_soak{"soak", "Run partial allreduces for a long time, and check every result"};

/// Replaces this process by the tool that the first word names. Returns if the word names no tool of this installation,
/// or if the tool cannot be executed.
void become_tool(char** argv);

/// Adds the tools of this installation to the commands that the parser knows, so that help and suggestions name them.
void add_tools(CLI::App& app);

/// Returns the description with the commands and options of the tools.
described_command with_tools(described_command root);

}  // namespace lsched::cli
