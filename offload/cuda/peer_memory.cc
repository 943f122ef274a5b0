#include "offload/cuda/peer_memory.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace lsched {
namespace {

// Where: the number of the area, from 1 on, and the offset in it.
constexpr int k_offset_bits = 48;
constexpr std::uint64_t k_offsets = std::uint64_t{1} << k_offset_bits;

/// A descriptor of another process, as one of this; -1: the system does not allow it, as errno says.
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

peer_memory::~peer_memory() {
  const cuda_scope here(in_);
  for (const auto& [whose, area] : opened_)
    if (area.legacy != 0) (void)in_.driver().cuIpcCloseMemHandle(area.legacy);
}

// --- of this rank ----------------------------------------------------------------------------------------------------

endpoint::device_area peer_memory::described(std::span<const std::byte> memory) const {
  endpoint::device_area what{};
  what.address = reinterpret_cast<std::uintptr_t>(memory.data());
  what.bytes = memory.size();
  what.process = getpid();
  what.descriptor = -1;
  what.device = in_.uuid();
  return what;
}

bool peer_memory::tell(const endpoint::device_area& what, const shown_area& mine) {
  if (shown_.size() == endpoint::k_most_areas) return false;
  if (!net_.show_area(static_cast<std::uint32_t>(shown_.size()), what)) return false;
  shown_.push_back(mine);
  return true;
}

void peer_memory::add(const device_area& area) {
  if (which_ == peer_reads::never || area.descriptor() < 0) return;
  endpoint::device_area what = described(area.memory());
  what.descriptor = area.descriptor();
  (void)tell(what, {area.memory()});
}

std::uint64_t peer_memory::place_in_shown(const std::byte* memory, std::uint64_t bytes) const {
  for (std::size_t i = 0; i < shown_.size(); ++i) {
    const auto& area = shown_[i].memory;
    const bool holds = memory >= area.data() && memory + bytes <= area.data() + area.size();
    if (holds && shown_[i].allocation == 0)
      return (i + 1) << k_offset_bits | static_cast<std::uint64_t>(memory - area.data());
  }
  return 0;
}

std::uint64_t peer_memory::show(const std::byte* memory, std::uint64_t bytes) {
  if (const std::uint64_t own = place_in_shown(memory, bytes); own != 0 || which_ != peer_reads::always) return own;
  const auto whole = cuda_allocation_of(in_.driver(), memory);
  if (!whole || memory + bytes > whole->memory.data() + whole->memory.size()) return 0;
  for (std::size_t i = 0; i <= shown_.size(); ++i) {
    if (i == shown_.size() && !show_foreign(*whole)) return 0;
    if (shown_[i].allocation == whole->number)
      return (i + 1) << k_offset_bits | static_cast<std::uint64_t>(memory - shown_[i].memory.data());
  }
  return 0;
}

bool peer_memory::show_foreign(const cuda_allocation& whole) {
  const cuda_scope here(in_);
  CUipcMemHandle handle{};
  if (in_.driver().cuIpcGetMemHandle == nullptr ||
      in_.driver().cuIpcGetMemHandle(&handle, reinterpret_cast<CUdeviceptr>(whole.memory.data())) != CUDA_SUCCESS)
    return false;
  endpoint::device_area what = described(whole.memory);
  static_assert(sizeof what.handle == sizeof handle);
  std::memcpy(what.handle.data(), &handle, sizeof handle);
  return tell(what, {whole.memory, whole.number});
}

// --- of peers --------------------------------------------------------------------------------------------------------

// Whatever is in the way is most often this rank's own: then nobody's memory is read.
bool peer_memory::reads(rank home) {
  if (which_ == peer_reads::never) return false;
  for (const auto& [whose, number] : std::exchange(failed_, {})) (void)open(whose, number);
  return failed_.empty() && open(home, 0) != nullptr;
}

const std::byte* peer_memory::find(rank home, std::uint64_t where, std::uint64_t bytes) {
  const std::uint64_t number = where >> k_offset_bits, offset = where % k_offsets;
  health_.note("it was not shown");
  if (number == 0 || number > endpoint::k_most_areas) return nullptr;
  const opened_area* const area = open(home, static_cast<std::uint32_t>(number - 1));
  const bool holds = area != nullptr && offset <= area->bytes && bytes <= area->bytes - offset;
  return holds ? area->memory + offset : nullptr;
}

const peer_memory::opened_area* peer_memory::open(rank home, std::uint32_t number) {
  const std::pair whose(home, number);
  if (const auto known = opened_.find(whose); known != opened_.end()) return &known->second;
  const auto what = net_.area_of(home, number);
  if (!what || what->device != in_.uuid()) return nullptr;
  opened_area made = open(*what);
  if (made.memory != nullptr) return &opened_.emplace(whose, std::move(made)).first->second;
  if (std::ranges::find(failed_, whose) == failed_.end()) failed_.push_back(whose);
  return nullptr;
}

peer_memory::opened_area peer_memory::open(const endpoint::device_area& what) const {
  if (what.process == getpid()) return {reinterpret_cast<const std::byte*>(what.address), what.bytes};
  opened_area made{.bytes = what.bytes};
  what.descriptor >= 0 ? open_shared(what, made) : open_foreign(what, made);
  return made;
}

void peer_memory::open_shared(const endpoint::device_area& what, opened_area& made) const {
  const int taken = take_descriptor(what.process, what.descriptor);
  if (taken < 0) return health_.note("pidfd_getfd: " + std::string(std::strerror(errno)));
  made.imported = device_area::import(in_, health_, taken, what.bytes);
  if (made.imported != nullptr) made.memory = made.imported->memory().data();
}

void peer_memory::open_foreign(const endpoint::device_area& what, opened_area& made) const {
  const cuda_driver& driver = in_.driver();
  if (driver.cuIpcOpenMemHandle == nullptr || driver.cuIpcCloseMemHandle == nullptr)
    return health_.note("the driver has no cuIpcOpenMemHandle");
  const cuda_scope here(in_);
  CUipcMemHandle handle{};
  std::memcpy(&handle, what.handle.data(), sizeof handle);
  CUresult answer = here.answer();
  if (answer == CUDA_SUCCESS)
    answer = driver.cuIpcOpenMemHandle(&made.legacy, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
  if (health_.note("cuIpcOpenMemHandle", answer)) made.memory = reinterpret_cast<const std::byte*>(made.legacy);
}

}  // namespace lsched
