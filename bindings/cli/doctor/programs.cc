#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "bindings/c/private_calls.h"
#include "bindings/cli/common/executable.h"
#include "bindings/cli/common/launcher.h"
#include "bindings/cli/doctor/child.h"
#include "bindings/cli/doctor/finding.h"
#include "build_options.h"
#if LSCHED_HAVE_MPI
#include "bindings/mpi/mpi_library.h"
#endif

namespace lsched::cli::doctor {
namespace {

constexpr const char* k_version_page = "docs/guides/troubleshooting.md#lsched_err_version";
constexpr const char* k_mpi_page = "docs/guides/mpi-and-slurm.md#starting-it";

/// Returns the output of `program --version`, standard error included.
std::string version_text_of(const std::string& program) {
  return try_in_child([&](int out) {
           dup2(out, STDOUT_FILENO);
           dup2(out, STDERR_FILENO);
           execl(program.c_str(), program.c_str(), "--version", nullptr);
           return 127;
         })
      .text;
}

std::string first_line_of(const std::string& text) { return text.substr(0, text.find('\n')); }

#if LSCHED_HAVE_MPI
/// Returns the MPI library of a launcher. `text` is what the launcher prints for --version. Returns an empty string if
/// the text does not name an MPI library.
std::string_view owner_of_launcher(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 5> k_words{{{"HYDRA", "MPICH"},
                                                                                  {"Intel(R) MPI", "MPICH"},
                                                                                  {"Open MPI", "Open MPI"},
                                                                                  {"OpenRTE", "Open MPI"},
                                                                                  {"PRRTE", "Open MPI"}}};
  for (const auto& [word, owner] : k_words)
    if (text.find(word) != std::string_view::npos) return owner;
  return {};
}
#endif

}  // namespace

finding examine_command() {
  finding made{.subject = "command", .page = k_version_page};
  std::error_code none;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", none);
  const std::string own = "lsched " + std::string(lsched_version()) + " at " + self.string();
  std::string first;
  if (find_executable("lsched", first) != 0) {
    made.state = condition::warning;
    made.text = "this is " + own + ", but PATH has no lsched: add the folder of the command to PATH";
  } else if (std::filesystem::equivalent(first, self, none)) {
    made.text = own + " is the first lsched in PATH";
  } else {
    const std::string other = first_line_of(version_text_of(first));
    const bool is_same = other.starts_with("lsched " + std::string(lsched_version()) + " ");
    made.state = is_same ? condition::ok : condition::warning;
    made.text = "this is " + own + "; the first lsched in PATH is " + first + " (" +
                (other.empty() ? "no version" : other) +
                (is_same ? "), of the same version" : "): start this command by its path, or change PATH");
  }
  return made;
}

finding examine_library() {
  finding made{.subject = "library", .page = k_version_page};
  void* const library = dlopen(LSCHED_SONAME, RTLD_LAZY | RTLD_LOCAL);
  const auto* const other =
      library == nullptr ? nullptr : static_cast<const private_calls*>(dlsym(library, "lsched_private_calls"));
  Dl_info where{};
  if (other == nullptr || dladdr(other, &where) == 0) {
    made.text = "the loader finds no " LSCHED_SONAME
                ": programs need its folder at link time (-Wl,-rpath) or in "
                "LD_LIBRARY_PATH; the command and the Python package have their own copy";
  } else if (std::string_view(other->build) == lsched_private_calls.build) {
    made.text = std::string(where.dli_fname) + " is from the same build as the command";
  } else {
    made.state = condition::error;
    made.text = std::string(where.dli_fname) + " has version " + other->build + ", but the command has version " +
                lsched_private_calls.build +
                ": `lsched run` starts only programs of its own build, so install both from one build";
  }
  return made;
}

finding examine_mpi() {
  finding made{.subject = "MPI", .page = k_mpi_page};
#if LSCHED_HAVE_MPI
  const std::string library = mpi_library();
  std::string launcher;
  if (find_executable("mpiexec", launcher) != 0) {
    made.text = "this lsched was built with " + library + "; PATH has no mpiexec, which only programs over MPI need";
    return made;
  }
  const std::string_view owner = owner_of_launcher(version_text_of(launcher));
  const std::string_view family = mpi_family(library);
  made.text = "this lsched was built with " + library + "; the first mpiexec in PATH, " + launcher + ", belongs to " +
              (owner.empty() ? "an unknown MPI" : std::string(owner));
  if (!owner.empty() && owner != family) {
    made.state = condition::warning;
    made.text += ": start programs with the mpiexec of " + std::string(family) + ", such as mpiexec." +
                 (family == "MPICH" ? "mpich" : "openmpi");
  }
#else
  made.text = "this lsched was built without MPI: `lsched run` starts ranks on one host or, with --hosts, on several";
#endif
  return made;
}

}  // namespace lsched::cli::doctor
