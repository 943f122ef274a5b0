// A sandbox like the sandboxes of containers and batch systems: the operating system refuses some system calls with
// EPERM (seccomp).
#pragma once

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

namespace lsched::testing {

#ifdef SYS_readlink
inline constexpr long k_readlink = SYS_readlink;
#else
inline constexpr long k_readlink = SYS_readlinkat;
#endif

inline constexpr std::array k_refusable{std::pair{"kill", long{SYS_kill}},
                                        std::pair{"set_robust_list", long{SYS_set_robust_list}},
                                        std::pair{"madvise", long{SYS_madvise}},
                                        std::pair{"fcntl", long{SYS_fcntl}},
                                        std::pair{"ftruncate", long{SYS_ftruncate}},
                                        std::pair{"futex", long{SYS_futex}},
                                        std::pair{"readlink", k_readlink}};

/// Makes the operating system refuse some system calls of this thread and of all threads that this thread starts.
/// `names` lists the system calls, separated by commas.
inline void refuse_calls(std::string_view names) {
  std::vector<sock_filter> program{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  while (!names.empty()) {
    const std::string_view name = names.substr(0, names.find(','));
    names.remove_prefix(std::min(names.size(), name.size() + 1));
    long number = -1;
    for (const auto& [known, its] : k_refusable)
      if (name == known) number = its;
    if (number < 0) throw std::invalid_argument("no such call");
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(number), 0, 1));
    program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
    throw std::runtime_error("no sandbox");
}

}  // namespace lsched::testing
