#include "tests/models/arena.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>

namespace models {
namespace {

alignas(64) std::byte g_memory[1 << 16];
std::size_t g_used = 0;
bool g_is_open = false;
std::span<std::byte> g_pool;

bool is_ours(const void* memory) {
  const auto* place = static_cast<const std::byte*>(memory);
  return !std::less<>()(place, g_memory) && std::less<>()(place, g_memory + sizeof g_memory);
}

void* take_from_pool(std::size_t bytes, std::size_t alignment) {
  auto& used = *reinterpret_cast<std::size_t*>(g_pool.data());
  const std::size_t begin = (std::max(used, sizeof used) + alignment - 1) / alignment * alignment;
  if (begin + bytes > g_pool.size()) std::abort();
  used = begin + bytes;
  return g_pool.data() + begin;
}

void* take(std::size_t bytes, std::size_t alignment) {
  if (!g_pool.empty()) return take_from_pool(bytes, alignment);
  if (!g_is_open) return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  const std::size_t begin = (g_used + alignment - 1) / alignment * alignment;
  if (begin + bytes > sizeof g_memory) std::abort();
  g_used = begin + bytes;
  return g_memory + begin;
}

void give(void* memory) {
  if (!is_ours(memory)) std::free(memory);
}

}  // namespace

arena_scope::arena_scope() { g_is_open = true; }
arena_scope::~arena_scope() { g_is_open = false; }

void allocate_from(std::span<std::byte> pool) { g_pool = pool; }

std::span<std::byte> arena() { return {g_memory, (g_used + 15) / 16 * 16}; }

void empty_arena() {
  std::memset(g_memory, 0, g_used);
  g_used = 0;
}

}  // namespace models

void* operator new(std::size_t bytes) {
  void* const memory = models::take(bytes == 0 ? 1 : bytes, 16);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new(std::size_t bytes, std::align_val_t to) {
  void* const memory = models::take(bytes, static_cast<std::size_t>(to));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { models::give(memory); }
void operator delete(void* memory, std::size_t) noexcept { models::give(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { models::give(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { models::give(memory); }
