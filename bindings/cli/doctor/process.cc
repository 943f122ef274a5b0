#include <dlfcn.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "bindings/c/lsched.h"
#include "bindings/cli/doctor/child.h"
#include "bindings/cli/doctor/finding.h"
#include "bindings/environment.h"
#include "bindings/foreign_launcher.h"
#include "libsched/transport/shm/peer_processes.h"
#include "libsched/transport/shm/shm_segment.h"
#include "offload/cores.h"

namespace lsched::cli::doctor {
namespace {

constexpr const char* k_memory_page = "docs/guides/troubleshooting.md#lsched_err_nomem";
constexpr std::uint64_t k_descriptors_of_rank = 16;  ///< number of descriptors that a rank needs; the launcher needs
                                                     ///< one more for each rank

std::string mebibytes(std::uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

std::uint64_t bytes_of_machine() {
  return static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

/// Returns the limit on a resource, or nothing if the resource is not limited.
std::optional<std::uint64_t> limit_on(decltype(RLIMIT_AS) resource, bool is_hard = false) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0) return std::nullopt;
  const rlim_t value = is_hard ? limit.rlim_max : limit.rlim_cur;
  return value == RLIM_INFINITY ? std::nullopt : std::optional<std::uint64_t>(value);
}

/// Opens a world of two ranks and closes it. Writes the failure, or the library's warning, to descriptor `out`.
int try_world(int out) {
  std::array<lsched_world*, 2> worlds{};
  lsched_diagnostic why{.struct_size = sizeof why};
  const lsched_status answer = lsched_world_open_threads(2, nullptr, worlds.data(), &why);
  const ssize_t written = write(out, why.text, std::strlen(why.text));
  if (answer != LSCHED_OK || written < 0) return 1;
  for (lsched_world* const each : worlds)
    if (lsched_world_close(each) != LSCHED_OK) return 1;
  return 0;
}

/// A child process that keeps a memory probe until this object is destroyed.
class probed_child {
 public:
  probed_child() {
    std::array<int, 2> address{}, end{};
    if (pipe(address.data()) != 0 || pipe(end.data()) != 0) return;
    process_ = fork();
    if (process_ == 0) _exit(hold_probe(address[1], end));
    close(address[1]);
    close(end[0]);
    end_ = end[1];
    if (read(address[0], &address_, sizeof address_) != sizeof address_) address_ = 0;
    close(address[0]);
  }
  probed_child(const probed_child&) = delete;
  probed_child& operator=(const probed_child&) = delete;
  ~probed_child() {
    if (end_ >= 0) close(end_);
    if (process_ > 0) waitpid(process_, nullptr, 0);
  }

  bool answers() const { return memory_probe::answers(process_, address_); }

 private:
  static int hold_probe(int to, const std::array<int, 2>& end) {
    const memory_probe probe;
    const std::uint64_t address = probe.address();
    char never = 0;
    close(end[1]);
    if (write(to, &address, sizeof address) != sizeof address) return 1;
    return read(end[0], &never, 1) == 0 ? 0 : 1;  // blocks until the parent closes the other end
  }

  pid_t process_ = -1;
  int end_ = -1;
  std::uint64_t address_ = 0;
};

/// Returns true if a child can read the memory of another child, as ranks of `lsched run` do.
bool can_read_sibling() {
  const probed_child sibling;
  return try_in_child([&](int) { return sibling.answers() ? 0 : 1; }).has_succeeded();
}

/// Writes the version of the CUDA driver and the number of devices. Returns 1 if the driver fails, and 2 if there is no
/// driver.
int try_driver(int out) {
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver == nullptr) return 2;
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  const auto version_of = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDriverGetVersion"));
  const auto count_devices = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDeviceGetCount"));
  int version = 0, devices = 0, code = -1;
  if (init != nullptr && version_of != nullptr && count_devices != nullptr) code = init(0);
  if (code == 0) code = version_of(&version);
  if (code == 0) code = count_devices(&devices);
  if (code == 0)
    dprintf(out, "CUDA %d.%d, %d device%s", version / 1000, version % 1000 / 10, devices, devices == 1 ? "" : "s");
  else
    dprintf(out, "error %d", code);
  return code == 0 ? 0 : 1;
}

}  // namespace

finding examine_launcher() {
  finding made{.subject = "launcher", .page = "docs/guides/mpi-and-slurm.md#starting-it"};
  const auto refuse = [&](const std::string& why) {
    made.state = condition::error;
    made.text = why;
    return made;
  };
  const auto is_alone = wants_world_of_one();
  if (!is_alone) return refuse(is_alone.error().text);
  const auto local = find_launch();
  if (!local) return refuse(local.error().text);
  const auto foreign = find_foreign_launch();
  if (!foreign) return refuse(foreign.error().text);
  if (*is_alone) {
    made.state = condition::warning;
    made.text =
        "LSCHED_WORLD=alone is set, so each process opens a world of one rank: unset LSCHED_WORLD to use a launcher";
  } else if (*local) {
    made.text = "this process is rank " + std::to_string((*local)->self) + " of " + std::to_string((*local)->size) +
                " of `lsched run`";
  } else if (const auto joined = find_pmi_launch(); joined && *joined) {
    made.text = (*foreign)->text() + ": programs without MPI open their world with lsched_world_open, and programs " +
                "with MPI with lsched_world_open_mpi";
  } else if (*foreign) {
    made.state = condition::warning;
    made.text =
        (*foreign)->text() + ": lsched_world_open fails here. Call " + std::string((*foreign)->call) + " instead";
  } else {
    made.text = "no launcher has started this process, so lsched_world_open opens a world of one rank";
  }
  return made;
}

finding examine_shared_memory() {
  finding made{.subject = "shared memory", .page = k_memory_page};
  const trial_result tried = try_in_child(try_world);
  made.text = tried.text;
  if (tried.has_succeeded() && tried.text.empty()) {
    made.text = "a world of two ranks can be opened";
  } else if (tried.has_succeeded()) {
    made.state = condition::warning;
  } else {
    made.state = condition::error;
    if (WIFSIGNALED(tried.wait_status))
      made.text = "a process that opens a world was killed by signal " + std::to_string(WTERMSIG(tried.wait_status)) +
                  " (" + strsignal(WTERMSIG(tried.wait_status)) + ")";
    else if (made.text.empty())
      made.text = "a world of two ranks cannot be opened";
  }
  return made;
}

finding examine_peer_reads() {
  finding made{.subject = "reading peers", .page = "docs/reference/environment.md"};
  if (can_read_sibling()) {
    made.text = "ranks read each other's memory, so large messages are copied once";
    return made;
  }
  std::string scope;
  std::ifstream("/proc/sys/kernel/yama/ptrace_scope") >> scope;
  made.state = condition::warning;
  made.text = "ranks cannot read each other's memory" + (scope.empty() ? "" : " (ptrace_scope is " + scope + ")") +
              ": large messages are copied twice, except from buffers of lsched_alloc";
  return made;
}

finding examine_address_limit(int ranks) {
  finding made{.subject = "ulimit -v", .page = k_memory_page};
  const auto limit = limit_on(RLIMIT_AS);
  if (!limit) {
    made.text = "the address space is not limited";
    return made;
  }
  const std::uint64_t region = shm_segment::default_stride(ranks, bytes_of_machine(), *limit / 2);
  made.state = region == 0 ? condition::error : condition::warning;
  made.text = "the address space is limited to " + mebibytes(*limit) + ": each of " + std::to_string(ranks) +
              " ranks gets " + mebibytes(region) + " of shared memory; raise the limit, or set LSCHED_REGION";
  return made;
}

finding examine_file_limit(int ranks) {
  finding made{.subject = "ulimit -f", .page = k_memory_page};
  const auto limit = limit_on(RLIMIT_FSIZE);
  const std::uint64_t wanted = static_cast<std::uint64_t>(ranks) *
                               shm_segment::default_stride(ranks, bytes_of_machine(), shm_segment::k_most_reserved);
  if (!limit) {
    made.text = "the size of files, and so of shared memory, is not limited";
  } else if (*limit >= wanted) {
    made.text = "files are limited to " + mebibytes(*limit) + "; the shared memory of " + std::to_string(ranks) +
                " ranks takes " + mebibytes(wanted);
  } else {
    made.state = condition::warning;
    made.text = "files are limited to " + mebibytes(*limit) + ", but the shared memory of " + std::to_string(ranks) +
                " ranks takes " + mebibytes(wanted) + ": raise the limit, or set LSCHED_REGION to less than " +
                mebibytes(*limit / static_cast<std::uint64_t>(ranks));
  }
  return made;
}

finding examine_descriptor_limit(int ranks) {
  finding made{.subject = "ulimit -n", .page = "docs/guides/troubleshooting.md#lsched_err_transport"};
  const auto limit = limit_on(RLIMIT_NOFILE, true);  // the hard limit, to which `lsched run` raises the soft limit
  const auto soft = limit_on(RLIMIT_NOFILE);
  const std::uint64_t launcher = k_descriptors_of_rank + static_cast<std::uint64_t>(ranks);
  const bool is_low = (limit && *limit < launcher) || (soft && *soft < k_descriptors_of_rank);
  made.state = is_low ? condition::error : condition::ok;
  made.text = "a process may have " + (soft ? std::to_string(*soft) : "any number of") + " descriptors (at most " +
              (limit ? std::to_string(*limit) : "any number") + "); a rank takes " +
              std::to_string(k_descriptors_of_rank) + ", and the launcher of " + std::to_string(ranks) +
              " ranks takes " + std::to_string(launcher) + (is_low ? ": raise the limit" : "");
  return made;
}

finding examine_cores() {
  finding made{.subject = "cores", .page = "docs/guides/tuning.md#threads-and-cores"};
  const auto online = static_cast<std::size_t>(std::max(sysconf(_SC_NPROCESSORS_ONLN), 1L));
  const std::size_t allowed = allowed_cores().size(), usable = usable_cores();
  made.text = "this process may use " + std::to_string(usable) + " of " + std::to_string(online) + " cores";
  if (usable == online) return made;
  made.state = condition::warning;
  made.text += usable < allowed ? ", because of the limit of its control group (cpu.max)" : ", because of its affinity";
  made.text += ": additional ranks share cores";
  return made;
}

finding examine_gpu() {
  finding made{.subject = "GPU driver", .page = "docs/reference/device.md#on-a-machine-with-a-gpu"};
  const trial_result tried = try_in_child(try_driver);
  const bool is_absent = WIFEXITED(tried.wait_status) && WEXITSTATUS(tried.wait_status) == 2;
  const bool has_device_file = access("/dev/nvidiactl", F_OK) == 0;
  if (tried.has_succeeded()) {
    made.text = tried.text;
  } else if (is_absent && !has_device_file) {
    made.text = "this machine has no CUDA driver (libcuda.so.1), so buffers are in host memory";
  } else {
    made.state = condition::warning;
    made.text = is_absent ? "there is an NVIDIA device, but the loader finds no libcuda.so.1: install the driver, or "
                            "set LD_LIBRARY_PATH"
                          : "the CUDA driver fails: " + (tried.text.empty() ? "without an error code" : tried.text);
  }
  return made;
}

}  // namespace lsched::cli::doctor
