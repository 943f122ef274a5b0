// Implements legacy IPC handles. A handle contains the id of the exporting process, and that process's file descriptor
// of the memory. A process that has opened the handle keeps the memory even if the exporting process ends.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "tests/support/fake_cuda/worker.h"

using namespace fake_cuda;

namespace {

struct handle_text {
  pid_t process;
  int fd;
  std::uint64_t file;  ///< inode of the memory, to detect a descriptor that was reused
  std::uint64_t size;
};
static_assert(sizeof(handle_text) <= sizeof(CUipcMemHandle));

std::uint64_t file_of(int fd) {
  struct stat facts {};
  return fstat(fd, &facts) == 0 ? facts.st_ino : 0;
}

/// Returns the memory of a handle, or nullptr if the memory no longer exists or may not be accessed.
std::shared_ptr<chunk> fetch(const handle_text& from) {
  const auto process = static_cast<int>(syscall(SYS_pidfd_open, from.process, 0));
  if (process < 0) return nullptr;
  const auto fd = static_cast<int>(syscall(SYS_pidfd_getfd, process, from.fd, 0));
  close(process);
  if (fd < 0) return nullptr;
  std::shared_ptr<chunk> found = adopt_chunk(fd);
  return found && file_of(found->fd) == from.file ? found : nullptr;
}

}  // namespace

CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr at) {
  return call("cuIpcGetMemHandle", k_needs_context, [&](process& p, lock&) {
    const range* const of = p.memory.find(at);
    if (handle == nullptr || of == nullptr || !of->is_exportable()) return CUDA_ERROR_INVALID_VALUE;
    const handle_text text{p.id, of->backing->fd, file_of(of->backing->fd), of->size};
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);  // some systems let only tracers copy the descriptor
    *handle = {};
    std::memcpy(handle->reserved, &text, sizeof text);
    return CUDA_SUCCESS;
  });
}

CUresult cuIpcOpenMemHandle(CUdeviceptr* at, CUipcMemHandle handle, unsigned flags) {
  return call("cuIpcOpenMemHandle", k_needs_context, [&](process& p, lock&) {
    handle_text text{};
    std::memcpy(&text, handle.reserved, sizeof text);
    if (at == nullptr || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) return CUDA_ERROR_INVALID_VALUE;
    if (text.process == p.id) return CUDA_ERROR_INVALID_CONTEXT;
    range made;
    made.origin.assign(handle.reserved, sizeof text);
    for (const auto& [start, of] : p.memory.all()) {
      if (of.origin != made.origin || of.context != current_context(p)) continue;
      ++p.memory.find(start)->opened;
      *at = start;
      return CUDA_SUCCESS;
    }
    made.backing = fetch(text);
    made.bytes = made.backing ? map_alias(*made.backing) : nullptr;
    const std::optional<address> start = p.memory.take_addresses(text.size);
    if (made.bytes == nullptr || !start) return CUDA_ERROR_INVALID_HANDLE;
    made.start = *start;
    made.size = text.size;
    made.device = made.backing->device;
    made.context = current_context(p);
    made.devices = 1U << static_cast<unsigned>(made.device) | 1U << static_cast<unsigned>(made.context->device);
    made.opened = 1;
    *at = p.memory.add(std::move(made)).start;
    return CUDA_SUCCESS;
  });
}

// Waits for the device, like a call that frees memory. It is unknown whether a real driver waits in this call.
CUresult cuIpcCloseMemHandle(CUdeviceptr at) {
  return call("cuIpcCloseMemHandle", k_needs_context, [&](process& p, lock& held) {
    if (p.memory.was_freed(at)) misuse("memory of another process is closed after it was closed");
    const auto find = [&] {
      range* const of = p.memory.find(at);
      const bool is_import = of != nullptr && of->start == at && !of->origin.empty();
      if (is_import && of->opened == 1 && is_used(p, at, of->size))
        misuse("cuIpcCloseMemHandle of memory that queued work uses");
      return is_import ? of : nullptr;
    };
    const range* const before = find();
    if (before == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult answer = wait_for_device(p, held, before->device); answer != CUDA_SUCCESS) return answer;
    range* const of = find();
    if (of == nullptr) return CUDA_ERROR_DEINITIALIZED;  // a reset during the wait has freed everything
    if (--of->opened == 0) p.memory.remove(at);
    return CUDA_SUCCESS;
  });
}
