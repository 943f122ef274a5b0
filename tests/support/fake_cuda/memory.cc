#include "tests/support/fake_cuda/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "tests/support/fake_cuda/crash.h"

namespace fake_cuda {
namespace {

constexpr std::size_t k_arena = std::size_t{1} << 38U;   // the thread sanitizer may leave no room for a larger arena
constexpr std::size_t k_small = std::size_t{64} << 10U;  // alignment of allocations below the granularity
constexpr std::size_t k_page = 4096;
constexpr const char* k_name = "fake_cuda_device_";  // prefix of a memfd's name; the index of the device follows

std::size_t whole_pages(std::size_t size) { return (size + k_page - 1) / k_page * k_page; }

}  // namespace

chunk::~chunk() { close(fd); }

std::shared_ptr<chunk> make_chunk(std::size_t size, int device) {
  const int fd = memfd_create((k_name + std::to_string(device)).c_str(), MFD_CLOEXEC);
  if (fd < 0) return nullptr;
  auto made = std::make_shared<chunk>(fd, size, device);
  return ftruncate(fd, static_cast<off_t>(whole_pages(size))) == 0 ? made : nullptr;
}

std::shared_ptr<chunk> adopt_chunk(int fd) {
  std::array<char, 128> target{};
  const ssize_t length = readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), target.data(), target.size() - 1);
  const std::string prefix = std::string("/memfd:") + k_name;
  struct stat facts {};
  if (length <= 0 || std::string(target.data()).compare(0, prefix.size(), prefix) != 0 || fstat(fd, &facts) != 0) {
    close(fd);
    return nullptr;
  }
  const int device = std::atoi(target.data() + prefix.size());
  return std::make_shared<chunk>(fd, static_cast<std::size_t>(facts.st_size), device);
}

std::byte* map_alias(const chunk& of) {
  const std::size_t size = whole_pages(of.size);
  void* const place = mmap(nullptr, size + k_page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return nullptr;
  if (mmap(place, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, of.fd, 0) == MAP_FAILED) {
    munmap(place, size + k_page);
    return nullptr;
  }
  return static_cast<std::byte*>(place);
}

bool is_mapped(address start, std::size_t size, bool for_writing) {
  // Accesses to the memory could race with another thread, so this function reads the list of mappings instead.
  std::ifstream maps("/proc/self/maps");
  address at = start;
  for (std::string line; at < start + size && std::getline(maps, line);) {
    address from = 0;
    address to = 0;
    std::array<char, 5> rights{};
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &from, &to, rights.data()) != 3 || to <= at) continue;
    if (from > at || rights[0] != 'r' || (for_writing && rights[1] != 'w')) return false;
    at = to;
  }
  return at >= start + size;
}

std::optional<address> memory_map::take_addresses(std::size_t size) {
  if (arena_ == 0) {
    void* const place =
        mmap(nullptr, k_arena + k_granularity, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED) return std::nullopt;
    arena_ = (reinterpret_cast<address>(place) + k_granularity - 1) / k_granularity * k_granularity;
    arena_size_ = k_arena;
    watch_for_crashes(arena_, arena_size_);
  }
  const std::size_t alignment = size < k_granularity ? k_small : k_granularity;
  const std::size_t begin = (taken_ + alignment - 1) / alignment * alignment;
  if (begin > arena_size_ || size >= arena_size_ - begin) return std::nullopt;
  taken_ = begin + whole_pages(size) + k_page;  // an unused page separates the range from the next range
  return arena_ + begin;
}

range& memory_map::add(range of) {
  of.id = ++last_id_;
  return ranges_[of.start] = std::move(of);
}

void memory_map::remove(address start) {
  const auto found = ranges_.find(start);
  range& gone = found->second;
  if (gone.kind == space::device && gone.reservation == 0) {
    munmap(gone.bytes, whole_pages(gone.backing->size) + k_page);
    freed_[start] = start + gone.size;
  }
  if (gone.kind == space::managed || gone.kind == space::host) munmap(gone.bytes, whole_pages(gone.size));
  ranges_.erase(found);
}

range* memory_map::find(address at) { return find_overlap(at, 1); }

range* memory_map::find_overlap(address start, std::size_t size) {
  auto next = ranges_.lower_bound(start);
  if (next != ranges_.end() && next->first - start < size) {
    if (next == ranges_.begin()) return &next->second;
    const auto before = std::prev(next);
    return before->second.start + before->second.size > start ? &before->second : &next->second;
  }
  if (next == ranges_.begin()) return nullptr;
  --next;
  return next->second.start + next->second.size > start ? &next->second : nullptr;
}

bool memory_map::was_freed(address at) const {
  const auto next = freed_.upper_bound(at);
  return next != freed_.begin() && std::prev(next)->second > at;
}

std::byte* memory_map::locate(address at, std::size_t size, std::uint32_t devices) {
  range* const first = find(at);
  if (first == nullptr) return nullptr;
  range* next = first;
  for (address end = at + size;;) {
    if (next == nullptr || next->bytes == nullptr || (next->devices & devices) != devices) return nullptr;
    if (next->reservation != first->reservation || (next != first && next->reservation == 0)) return nullptr;
    if (next->holds(next->start, end - next->start)) break;
    next = find(next->start + next->size);
  }
  return first->bytes + (at - first->start);
}

std::size_t memory_map::used(int device) const {
  std::size_t bytes = 0;
  for (const auto& [start, of] : ranges_)
    if (of.kind == space::device && of.device == device && of.origin.empty()) bytes += of.size;
  return bytes;
}

}  // namespace fake_cuda
