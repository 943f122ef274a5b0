#include "offload/cuda/peer_import.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace lsched {
namespace {

/// Duplicates a file descriptor of another process into this process. Returns -1 and sets errno if the system refuses.
int take_descriptor(std::int32_t process, std::int32_t descriptor) {
  const auto other = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
  if (other < 0) return -1;
  const auto taken = static_cast<int>(syscall(SYS_pidfd_getfd, other, descriptor, 0));
  const int why = errno;
  close(other);
  errno = why;
  return taken;
}

}  // namespace

std::unique_ptr<peer_import> peer_import::open(const cuda_context& in, cuda_health& health, const exposed_area& what) {
  std::unique_ptr<peer_import> made(new peer_import(in, what.bytes));
  if (what.process == getpid()) {
    made->memory_ = reinterpret_cast<const std::byte*>(what.address);
    return made;
  }
  const bool is_open = what.descriptor >= 0 ? made->open_shared(health, what) : made->open_legacy(health, what);
  return is_open ? std::move(made) : nullptr;
}

bool peer_import::open_shared(cuda_health& health, const exposed_area& what) {
  const int taken = take_descriptor(what.process, what.descriptor);
  if (taken < 0) return health.note("pidfd_getfd: " + std::string(std::strerror(errno))), false;
  shared_ = device_area::import(in_, health, taken, what.bytes);
  if (shared_ != nullptr) memory_ = shared_->memory().data();
  return shared_ != nullptr;
}

bool peer_import::open_legacy(cuda_health& health, const exposed_area& what) {
  const cuda_driver& driver = in_.driver();
  if (driver.cuIpcOpenMemHandle == nullptr || driver.cuIpcCloseMemHandle == nullptr)
    return health.note("the driver has no cuIpcOpenMemHandle"), false;
  const cuda_scope here(in_);
  CUipcMemHandle handle{};
  static_assert(sizeof what.handle == sizeof handle);
  std::memcpy(&handle, what.handle.data(), sizeof handle);
  CUresult answer = here.answer();
  if (answer == CUDA_SUCCESS) answer = driver.cuIpcOpenMemHandle(&legacy_, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
  memory_ = reinterpret_cast<const std::byte*>(legacy_);
  return health.note("cuIpcOpenMemHandle", answer);
}

peer_import::~peer_import() {
  if (legacy_ == 0) return;
  const cuda_scope here(in_);
  if (here.is_entered()) (void)in_.driver().cuIpcCloseMemHandle(legacy_);
}

}  // namespace lsched
