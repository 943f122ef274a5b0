#include "offload/cuda/peer_memory.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

namespace lsched {
namespace {

// Where: the number of the area, from 1 on, and the offset in it.
constexpr int k_offset_bits = 48;
constexpr std::uint64_t k_offsets = std::uint64_t{1} << k_offset_bits;

/// A descriptor of another process, as one of this; -1: the system does not allow it.
int take_descriptor(std::int32_t process, std::int32_t descriptor) {
  const auto other = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
  if (other < 0) return -1;
  const auto taken = static_cast<int>(syscall(SYS_pidfd_getfd, other, descriptor, 0));
  close(other);
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

bool peer_memory::reads(rank home) { return which_ != peer_reads::never && open(home, 0).memory != nullptr; }

const std::byte* peer_memory::find(rank home, std::uint64_t where, std::uint64_t bytes) {
  const std::uint64_t number = where >> k_offset_bits, offset = where % k_offsets;
  if (number == 0 || number > endpoint::k_most_areas) return nullptr;
  const opened_area& area = open(home, static_cast<std::uint32_t>(number - 1));
  const bool holds = area.memory != nullptr && offset <= area.bytes && bytes <= area.bytes - offset;
  return holds ? area.memory + offset : nullptr;
}

// Of one that the peer has not told of yet it is asked again.
const peer_memory::opened_area& peer_memory::open(rank home, std::uint32_t number) {
  static const opened_area k_none{};
  const auto known = opened_.find({home, number});
  if (known != opened_.end()) return known->second;
  const auto what = net_.area_of(home, number);
  if (!what) return k_none;
  return opened_.emplace(std::pair(home, number), open(*what)).first->second;
}

peer_memory::opened_area peer_memory::open(const endpoint::device_area& what) const {
  if (what.device != in_.uuid()) return {};
  if (what.process == getpid()) return {reinterpret_cast<const std::byte*>(what.address), what.bytes};
  opened_area made{.bytes = what.bytes};
  if (what.descriptor >= 0) {
    const int taken = take_descriptor(what.process, what.descriptor);
    if (taken >= 0) made.imported = device_area::import(in_, taken, what.bytes);
    if (made.imported != nullptr) made.memory = made.imported->memory().data();
    return made;
  }
  const cuda_scope here(in_);
  CUipcMemHandle handle{};
  std::memcpy(&handle, what.handle.data(), sizeof handle);
  if (in_.driver().cuIpcOpenMemHandle != nullptr && in_.driver().cuIpcCloseMemHandle != nullptr &&
      in_.driver().cuIpcOpenMemHandle(&made.legacy, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) == CUDA_SUCCESS)
    made.memory = reinterpret_cast<const std::byte*>(made.legacy);
  return made;
}

}  // namespace lsched
