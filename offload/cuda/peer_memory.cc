#include "offload/cuda/peer_memory.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace lsched {
namespace {

// A location encodes the index of an area, counted from 1, and an offset in the area.
constexpr int k_offset_bits = 48;
constexpr std::uint64_t k_offsets = std::uint64_t{1} << k_offset_bits;

std::uint64_t place_of(std::size_t number, std::span<const std::byte> area, const std::byte* memory) {
  return (number + 1) << k_offset_bits | static_cast<std::uint64_t>(memory - area.data());
}

}  // namespace

// --- of this rank ----------------------------------------------------------------------------------------------------

exposed_area peer_memory::described(std::span<const std::byte> memory) const {
  exposed_area what{};
  what.address = reinterpret_cast<std::uintptr_t>(memory.data());
  what.bytes = memory.size();
  what.process = getpid();
  what.descriptor = -1;
  what.device = in_.uuid();
  return what;
}

/// Exposes the area under the first free index that is not below `first`. Returns false on failure.
bool peer_memory::tell(std::size_t first, const exposed_area& what, const shown_area& mine) {
  const auto free = std::find_if(shown_.begin() + static_cast<std::ptrdiff_t>(first), shown_.end(),
                                 [](const shown_area& one) { return one.memory.empty(); });
  if (free == shown_.end() || !net_.areas().expose(static_cast<std::uint32_t>(free - shown_.begin()), what))
    return false;
  *free = mine;
  return true;
}

void peer_memory::add(const device_area& area) {
  if (which_ == peer_reads::never || area.descriptor() < 0) return;
  exposed_area what = described(area.memory());
  what.descriptor = area.descriptor();
  (void)tell(0, what, {area.memory()});
}

std::uint64_t peer_memory::place_in_shown(const std::byte* memory, std::uint64_t bytes) const {
  for (std::size_t i = 0; i < shown_.size(); ++i) {
    const auto& area = shown_[i].memory;
    const bool holds = memory >= area.data() && memory + bytes <= area.data() + area.size();
    if (holds && shown_[i].allocation == 0) return place_of(i, area, memory);
  }
  return 0;
}

std::uint64_t peer_memory::expose(const std::byte* memory, std::uint64_t bytes) {
  if (const std::uint64_t own = place_in_shown(memory, bytes); own != 0 || which_ != peer_reads::always) return own;
  const auto whole = cuda_allocation_of(in_.driver(), memory);
  if (!whole || memory + bytes > whole->memory.data() + whole->memory.size()) return 0;
  const auto find = [&] { return std::ranges::find(shown_, whole->number, &shown_area::allocation); };
  auto found = find();
  if (found == shown_.end() && expose_foreign(*whole)) found = find();
  if (found == shown_.end()) return 0;
  ++found->users;
  return place_of(static_cast<std::size_t>(found - shown_.begin()), found->memory, memory);
}

// A foreign area never gets index 0, because peers open area 0 to test whether they can read this device's memory.
bool peer_memory::expose_foreign(const cuda_allocation& whole) {
  const cuda_scope here(in_);
  CUipcMemHandle handle{};
  if (in_.driver().cuIpcGetMemHandle == nullptr ||
      in_.driver().cuIpcGetMemHandle(&handle, reinterpret_cast<CUdeviceptr>(whole.memory.data())) != CUDA_SUCCESS)
    return false;
  exposed_area what = described(whole.memory);
  static_assert(sizeof what.handle == sizeof handle);
  std::memcpy(what.handle.data(), &handle, sizeof handle);
  return tell(1, what, {whole.memory, whole.number});
}

void peer_memory::hide(std::uint64_t where) {
  const std::size_t number = (where >> k_offset_bits) - 1;
  shown_area& area = shown_.at(number);
  if (area.allocation == 0 || --area.users != 0) return;
  net_.areas().withdraw(static_cast<std::uint32_t>(number));
  area = {};
}

void peer_memory::hide_all() {
  for (std::size_t i = 0; i < shown_.size(); ++i)
    if (!shown_[i].memory.empty()) net_.areas().withdraw(static_cast<std::uint32_t>(i));
  shown_.fill({});
}

// --- of peers --------------------------------------------------------------------------------------------------------

// If an area cannot be opened, the cause is usually a restriction of this process. So this rank then reads no memory of
// any peer.
bool peer_memory::reads(rank home) {
  if (which_ == peer_reads::never) return false;
  for (const area_name& whose : std::exchange(failed_, {})) (void)open(whose);
  return failed_.empty() && open({home, 0}) != nullptr;
}

std::shared_ptr<const std::byte> peer_memory::find_exposed(rank home, std::uint64_t where, std::uint64_t bytes) {
  const std::uint64_t number = where >> k_offset_bits, offset = where % k_offsets;
  const bool is_number = number != 0 && number <= exposed_area::k_most;
  const auto area = is_number ? open({home, static_cast<std::uint32_t>(number - 1)}) : nullptr;
  if (area != nullptr && offset <= area->bytes() && bytes <= area->bytes() - offset)
    return {area, area->memory() + offset};
  if (!is_number || area != nullptr) health_.note("the rank did not publish this memory");
  return nullptr;
}

std::shared_ptr<peer_import> peer_memory::open(area_name whose) {
  const auto what = net_.areas().area_of(whose.first, whose.second);
  if (!what || what->device != in_.uuid()) {
    health_.note("the rank did not publish this memory");
    return nullptr;
  }
  opened_area& known = opened_[whose];
  if (known.serial == what->serial)
    if (auto found = known.open.lock()) return found;
  auto opened = peer_import::open(in_, health_, *what);
  if (opened == nullptr) {
    if (std::ranges::find(failed_, whose) == failed_.end()) failed_.push_back(whose);
    return nullptr;
  }
  const std::shared_ptr<peer_import> made(
      opened.release(), [this](peer_import* gone) { closer_.close(std::unique_ptr<peer_import>(gone)); });
  known = {what->serial, made, what->descriptor >= 0 ? made : nullptr};
  return made;
}

void peer_memory::forget_gone() {
  std::erase_if(opened_, [this](const auto& one) {
    const auto& [whose, area] = one;
    const auto what = net_.areas().area_of(whose.first, whose.second);
    return !what || what->serial != area.serial || net_.liveness().is_lost(whose.first);
  });
}

}  // namespace lsched
