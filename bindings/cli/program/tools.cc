#include "bindings/cli/program/tools.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace lsched::cli {
namespace {

constexpr std::array k_tools{k_bench, k_soak};

/// Returns the path of the tool, or an empty string if this installation does not have the tool.
std::string path_of(const tool& wanted) {
  std::error_code fault;
  std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe", fault);
  if (fault) own = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  const std::string path = own.replace_filename("lsched-" + std::string(wanted.name));
  return access(path.c_str(), X_OK) == 0 ? path : "";
}

/// Returns the output of a program, or an empty string if the program failed.
std::string output_of(const std::string& path, const char* option) {
  std::string text, command = "'";
  for (const char letter : path) command += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  std::FILE* const pipe = popen((command + "' " + option).c_str(), "r");
  if (pipe == nullptr) return "";
  std::array<char, 4096> piece{};
  for (std::size_t got = 0; (got = std::fread(piece.data(), 1, piece.size(), pipe)) > 0;)
    text.append(piece.data(), got);
  return pclose(pipe) == 0 ? text : "";
}

}  // namespace

void become_tool(char** argv) {
  if (argv[0] == nullptr || argv[1] == nullptr) return;
  for (const tool& each : k_tools) {
    const std::string path = each.name == argv[1] ? path_of(each) : "";
    if (!path.empty()) execv(path.c_str(), argv + 1);
  }
}

void add_tools(CLI::App& app) {
  for (const tool& each : k_tools)
    if (!path_of(each).empty()) app.add_subcommand(std::string(each.name), each.summary);
}

described_command with_tools(described_command root) {
  for (const tool& each : k_tools)
    for (described_command& command : root.commands) {
      if (command.word() != each.name) continue;
      const std::string text = output_of(path_of(each), "--describe");
      if (!text.empty()) command = from_json(text);
    }
  return root;
}

}  // namespace lsched::cli
