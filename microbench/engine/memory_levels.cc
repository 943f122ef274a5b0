#include "microbench/engine/memory_levels.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "microbench/harness.h"

namespace lsched::bench {
namespace {

/// A cache line, as wide as the registers of the target that a clone of a loop is made for.
using line [[gnu::vector_size(k_line), gnu::may_alias]] = std::uint64_t;

std::size_t cache_bytes(int name, std::size_t otherwise) {
  const long bytes = sysconf(name);
  return bytes > 0 ? static_cast<std::size_t>(bytes) : otherwise;
}

}  // namespace

std::array<level, 4> memory_levels() {
  constexpr std::size_t k_mib = std::size_t{1} << 20;
  const std::size_t first = cache_bytes(_SC_LEVEL1_DCACHE_SIZE, 32768) / 2;
  const std::size_t second = cache_bytes(_SC_LEVEL2_CACHE_SIZE, k_mib);
  const std::size_t third = cache_bytes(_SC_LEVEL3_CACHE_SIZE, 32 * k_mib);
  const std::size_t memory =
      static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t shared = std::clamp(8 * second, second, std::max(second, third / 2));
  const std::size_t beyond = std::max(shared, std::min(2 * third, memory / 4));
  return {{{"L1", first, first}, {"L2", second / 2, second / 2}, {"L3", shared, shared}, {"DRAM", beyond, 16 * k_mib}}};
}

arena::arena(std::size_t bytes) : bytes_(bytes + k_most_inputs * 2 * k_page) {
  void* mapped = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw failed("no memory for vectors that no cache holds");
  start_ = static_cast<std::byte*>(mapped);
  std::uint64_t state = 1;
  for (std::size_t i = 0; i < bytes_; i += sizeof state) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    const std::uint64_t word = (state >> 3 & 0x03FF03FF03FF03FFU) | 0x3C003C003C003C00U;
    std::memcpy(start_ + i, &word, sizeof word);
  }
}

arena::~arena() { munmap(start_, bytes_); }

#if defined(__x86_64__)
[[gnu::target_clones("default", "avx2", "avx512f")]]
#endif
void read_streams(const void* const* x, std::size_t inputs, std::size_t bytes) {
  line a{}, b{}, c{}, d{};
  for (std::size_t done = 0; done + k_lines * k_line <= bytes; done += k_lines * k_line)
    for (std::size_t k = 0; k < inputs; ++k) {
      const line* from = static_cast<const line*>(x[k]) + done / k_line;
      for (std::size_t i = 0; i < k_lines; i += 4) a ^= from[i], b ^= from[i + 1], c ^= from[i + 2], d ^= from[i + 3];
    }
  a ^= b ^ c ^ d;
  keep(&a);
}

#if defined(__x86_64__)
[[gnu::target_clones("default", "avx2", "avx512f")]]
#endif
void mix_streams(const void* const* x, std::size_t inputs, void* to, std::size_t bytes) {
  line* out = static_cast<line*>(to);
  for (std::size_t i = 0; i + 2 <= bytes / k_line; i += 2) {
    const line* first = static_cast<const line*>(x[0]) + i;
    line a = first[0], b = first[1];
    for (std::size_t k = 1; k < inputs; ++k) {
      const line* from = static_cast<const line*>(x[k]) + i;
      a ^= from[0], b ^= from[1];
    }
    out[i] = a, out[i + 1] = b;
  }
  keep(to);
}

}  // namespace lsched::bench
