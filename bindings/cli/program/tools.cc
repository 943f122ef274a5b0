#include "bindings/cli/program/tools.h"

#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>

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

}  // namespace

void become_tool(char** argv) {
  const auto is_word = [](const char* word, std::string_view wanted) { return word != nullptr && word == wanted; };
  if (argv[0] == nullptr) return;
  const bool is_completion = is_word(argv[1], "--complete");
  char** name = argv + (is_completion ? 2 : 1);
  if (is_word(*name, "help")) ++name;
  for (const tool& each : k_tools) {
    if (!is_word(*name, each.name) || (is_completion && name[1] == nullptr)) continue;
    const std::string path = path_of(each);
    if (path.empty()) return;
    std::rotate(argv + 1, name, name + 1);
    execv(path.c_str(), argv + 1);
  }
}

void add_tools(CLI::App& app) {
  for (const tool& each : k_tools)
    if (!path_of(each).empty()) app.add_subcommand(std::string(each.name), each.summary);
}

bool run_tools(const char* option, const std::string& value) {
  bool has_failed = false;
  for (const tool& each : k_tools) {
    const std::string path = path_of(each);
    if (path.empty()) continue;
    const pid_t child = fork();
    if (child == 0) {
      execl(path.c_str(), path.c_str(), option, value.c_str(), nullptr);
      _exit(1);
    }
    int answer = 0;
    has_failed = has_failed || child < 0 || waitpid(child, &answer, 0) != child || answer != 0;
  }
  return !has_failed;
}

}  // namespace lsched::cli
