#include "bindings/cli/common/executable.h"

#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

namespace lsched::cli {
namespace {

/// Returns 0 if the path is an executable file. Otherwise returns the exit status that a shell would return:
/// k_exit_not_found if there is no such file, and k_exit_not_executable if the file cannot be executed.
int find_fault(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return k_exit_not_found;
  return S_ISREG(info.st_mode) && access(path.c_str(), X_OK) == 0 ? 0 : k_exit_not_executable;
}

}  // namespace

std::string own_program() {
  constexpr char k_link[] = "/proc/self/exe";
  return access(k_link, X_OK) == 0 ? k_link : reinterpret_cast<const char*>(getauxval(AT_EXECFN));
}

int find_executable(const std::string& name, std::string& path) {
  if (name.find('/') != std::string::npos) return find_fault(path = name);
  const char* search = std::getenv("PATH");
  std::istringstream folders(std::string(search != nullptr ? search : "/usr/local/bin:/usr/bin:/bin") + ":");
  int answer = k_exit_not_found;
  for (std::string folder; !name.empty() && std::getline(folders, folder, ':');) {
    path = (folder.empty() ? "." : folder) + "/" + name;  // an empty element of PATH is the working directory
    const int fault = find_fault(path);
    if (fault == 0) return 0;
    if (fault == k_exit_not_executable) answer = fault;
  }
  return answer;
}

int refuse_program(const std::string& name, int error) {
  const char* const reason =
      error == ENOEXEC  ? "the file is neither a program for this machine nor a script. In a "
                          "script, begin the first line with #! and the path of an interpreter"
      : error == ENOENT ? "the interpreter in the first line of the script does not exist: correct the path after #!"
                        : std::strerror(error);
  std::fprintf(stderr, "lsched: cannot run \"%s\": %s\n", name.c_str(), reason);
  return error == ENOENT ? k_exit_not_found : k_exit_not_executable;
}

}  // namespace lsched::cli
