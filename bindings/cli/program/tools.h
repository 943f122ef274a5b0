// Tools: commands of `lsched` that are separate programs. For example, `lsched bench` starts `lsched-bench`, which is
// in the same folder as `lsched`.
#pragma once

#include <string>
#include <string_view>

namespace CLI {
class App;
}

namespace lsched::cli {

struct tool {
  std::string_view name;  ///< "bench": the command is `lsched bench`, and the program is lsched-bench
  const char* summary;
};

inline constexpr tool k_bench{"bench", "Measure this machine: collectives, costs, figures of papers"};
inline constexpr tool k_soak{"soak", "Run partial allreduces for a long time, and check every result"};

/// If the command line names a tool, replaces this process by the tool. Only the words "--complete" and "help" may
/// precede the name of the tool. The tool gets these words after its own name. Returns if this installation has no such
/// tool, or if the tool cannot be executed.
void become_tool(char** argv);

/// Adds the tools of this installation to the commands that the parser knows, so that help and suggestions name them.
void add_tools(CLI::App& app);

/// Runs each tool of this installation with an option and its value. Returns false if one of the tools fails.
bool run_tools(const char* option, const std::string& value);

}  // namespace lsched::cli
