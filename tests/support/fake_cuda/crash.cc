#include "tests/support/fake_cuda/crash.h"

#include <signal.h>
#include <unistd.h>

#include <string_view>

namespace fake_cuda {
namespace {

struct watched {
  std::uintptr_t start = 0;
  std::size_t size = 0;
  struct sigaction before {};
};

watched& the_watched() {
  static watched one;
  return one;
}

/// Handles SIGSEGV. If the address is watched, writes the message and restores the default handler. Otherwise restores
/// the previous handler. After this function returns, the process repeats the access, and the restored handler receives
/// the signal.
void on_fault(int signal_number, siginfo_t* about, void* /*context*/) {
  const watched& one = the_watched();
  if (reinterpret_cast<std::uintptr_t>(about->si_addr) - one.start >= one.size) {
    sigaction(signal_number, &one.before, nullptr);
    return;
  }
  constexpr std::string_view line = "fake CUDA: device memory is not for the host\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
  struct sigaction dies {};
  dies.sa_handler = SIG_DFL;
  sigaction(signal_number, &dies, nullptr);
}

}  // namespace

void watch_for_crashes(std::uintptr_t start, std::size_t size) {
  watched& one = the_watched();
  one.start = start;
  one.size = size;
  struct sigaction ours {};
  ours.sa_sigaction = on_fault;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &ours, &one.before);
}

}  // namespace fake_cuda
