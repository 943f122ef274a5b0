#include "offload/cuda/cuda_memory.h"

#include <algorithm>
#include <cstring>

#include "offload/cuda/driver/pointers.h"

namespace lsched {
namespace {

constexpr std::uint64_t k_device_grain = std::uint64_t{2} << 20;  ///< the driver's unit of allocation
constexpr std::uint64_t k_page = 4096;

std::uint64_t round_up(std::uint64_t bytes, std::uint64_t grain) { return (bytes + grain - 1) / grain * grain; }

template <class Byte>
bool is_within(const std::byte* memory, std::uint64_t bytes, std::span<Byte> area) {
  return memory >= area.data() && bytes <= area.size() &&
         static_cast<std::uint64_t>(memory - area.data()) <= area.size() - bytes;
}

}  // namespace

cuda_memory::cuda_memory(const cuda_context& in, cuda_health& health, endpoint& net, std::uint64_t staging_bytes,
                         peer_reads which)
    : in_(in),
      health_(health),
      net_(net),
      staging_bytes_(std::clamp(staging_bytes, k_page, memory_pool::k_most)),
      of_peers_(in, health, net, which),
      device_pool_([this](std::uint64_t bytes) { return add_device_area(bytes); }),
      staging_pool_([this](std::uint64_t bytes) { return add_staging_area(bytes); }) {}

cuda_memory::~cuda_memory() {
  of_peers_.hide_all();
  for (const auto& area : shown_) unpin(in_, area);
  for (const auto& area : reached_) unpin(in_, area);
  for (const auto& area : shown_) net_.memory().deallocate(area.data());
  const cuda_scope here(in_);
  if (!here.is_entered()) return;
  for (const auto& area : own_) (void)in_.driver().cuMemFreeHost(area.data());
}

void cuda_memory::describe_unless_known(const std::string& what) {
  const std::lock_guard lock(description_guard_);
  if (description_.empty()) description_ = what;
}

std::string cuda_memory::description() const {
  const std::lock_guard lock(description_guard_);
  return description_;
}

void cuda_memory::keep_all() {
  for (const auto& area : shown_) keep_pinned(area);
  for (const auto& area : reached_) keep_pinned(area);
}

// --- areas ---------------------------------------------------------------------------------------------------------

std::span<std::byte> cuda_memory::add_device_area(std::uint64_t bytes) {
  const std::uint64_t whole = round_up(bytes, k_device_grain);
  auto made = device_area::allocate(in_, health_, whole);
  if (made == nullptr) return {};
  of_peers_.add(*made);
  return device_areas_.emplace_back(std::move(made))->memory();
}

std::span<std::byte> cuda_memory::add_staging_area(std::uint64_t bytes) {
  const std::uint64_t whole = round_up(std::max(bytes, staging_bytes_), k_page);
  const std::span<std::byte> shown = add_shown_area(whole);
  return shown.empty() ? add_own_area(whole) : shown;
}

// Writes to all pages first, because pinning is faster if pages are allocated. The area is freed only by the
// destructor: if the endpoint returned the memory to the system earlier, the memory would stay pinned.
std::span<std::byte> cuda_memory::add_shown_area(std::uint64_t bytes) {
  std::byte* const memory = net_.memory().allocate(bytes);
  if (memory == nullptr) {
    describe_unless_known("no room for staging memory that peers can read");
    return {};
  }
  const std::span<std::byte> area(memory, bytes);
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(memory) % k_page == 0;
  if (is_aligned) std::memset(memory, 0, bytes);
  if (!is_aligned || pin(in_, area) != status::ok) {
    describe_unless_known("the driver does not pin the transport's memory");
    net_.memory().deallocate(memory);
    return {};
  }
  shown_.push_back(area);
  (void)net_.memory().announce_kept(memory, bytes);
  return area;
}

std::span<std::byte> cuda_memory::add_own_area(std::uint64_t bytes) {
  const cuda_scope here(in_);
  if (!health_.note("cuCtxPushCurrent", here.answer())) return {};
  void* made = nullptr;
  constexpr unsigned flags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
  if (!health_.note("cuMemHostAlloc", in_.driver().cuMemHostAlloc(&made, bytes, flags))) return {};
  own_.push_back({static_cast<std::byte*>(made), bytes});
  return own_.back();
}

// --- pieces --------------------------------------------------------------------------------------------------------

// Memory of the library is looked up first, because the driver does not know the pieces into which the library divides
// an allocation.
result<memory_space> cuda_memory::space_of(const std::byte* memory, std::uint64_t bytes) const {
  const auto piece = bytes == 0 ? std::nullopt : device_pool_.rest_of(memory);
  if (!piece) return cuda_space_of(in_.driver(), in_.number(), memory, bytes);
  if (piece->owner != piece_owner::application)
    return failure{status::argument,
                   "a buffer is in memory that is not from lsched_cuda_alloc, or was freed: pass allocated memory"};
  if (bytes > piece->bytes)
    return failure{
        status::argument,
        "a buffer exceeds the end of the device allocation in which the buffer begins: check pointer and count"};
  return memory_space::device;
}

std::byte* cuda_memory::allocate(memory_space space, std::uint64_t bytes) {
  return (space == memory_space::device ? device_pool_ : staging_pool_).allocate(bytes, piece_owner::library);
}

void cuda_memory::deallocate(std::byte* memory) {
  if (!device_pool_.deallocate(memory, piece_owner::library))
    (void)staging_pool_.deallocate(memory, piece_owner::library);
}

bool cuda_memory::is_staging(const std::byte* memory) const {
  const auto holds = [&](const auto& area) { return is_within(memory, 1, area); };
  return std::ranges::any_of(shown_, holds) || std::ranges::any_of(own_, holds) || std::ranges::any_of(reached_, holds);
}

// Pins memory of a peer at the first use, in whole areas that the peer never frees (endpoint::kept_at). A copy must not
// cross the border between two areas.
bool cuda_memory::reaches(const std::byte* memory, std::uint64_t bytes) {
  if (bytes == 0 || (is_staging(memory) && is_staging(memory + bytes - 1))) return true;
  const std::span<const std::byte> kept = net_.memory().kept_at(memory, bytes);
  if (kept.empty() || std::ranges::find(refused_, kept.data()) != refused_.end()) return false;
  if (pin(in_, kept) == status::ok) {
    reached_.push_back(kept);
    return true;
  }
  refused_.push_back(kept.data());
  describe_unless_known("the driver does not pin a peer's memory");
  return false;
}

}  // namespace lsched
