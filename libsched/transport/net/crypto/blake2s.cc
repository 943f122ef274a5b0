#include "libsched/transport/net/crypto/blake2s.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

namespace lsched {
namespace {

using word = std::uint32_t;
constexpr std::size_t k_block = 64;

constexpr std::array<word, 8> k_start{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

constexpr std::uint8_t k_order[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0}};

word load(const std::byte* from) {
  word made = 0;
  for (int i = 3; i >= 0; --i) made = made << 8 | static_cast<word>(from[i]);
  return made;
}

void store(std::byte* to, word value) {
  for (int i = 0; i < 4; ++i) to[i] = static_cast<std::byte>(value >> 8 * i);
}

/// The function F of RFC 7693.
void compress(std::array<word, 8>& h, const std::byte* block, std::uint64_t length, bool is_last) {
  std::array<word, 16> v, m;
  std::ranges::copy(h, v.begin());
  std::ranges::copy(k_start, v.begin() + 8);
  v[12] ^= static_cast<word>(length);
  v[13] ^= static_cast<word>(length >> 32);
  if (is_last) v[14] = ~v[14];
  for (std::size_t i = 0; i < 16; ++i) m[i] = load(block + 4 * i);
  const auto mix = [&v](std::size_t a, std::size_t b, std::size_t c, std::size_t d, word x, word y) {
    v[a] += v[b] + x;
    v[d] = std::rotr(v[d] ^ v[a], 16);
    v[c] += v[d];
    v[b] = std::rotr(v[b] ^ v[c], 12);
    v[a] += v[b] + y;
    v[d] = std::rotr(v[d] ^ v[a], 8);
    v[c] += v[d];
    v[b] = std::rotr(v[b] ^ v[c], 7);
  };
  for (const auto& s : k_order) {
    for (std::size_t i = 0; i < 4; ++i) mix(i, 4 + i, 8 + i, 12 + i, m[s[2 * i]], m[s[2 * i + 1]]);
    for (std::size_t i = 0; i < 4; ++i)
      mix(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4, m[s[8 + 2 * i]], m[s[9 + 2 * i]]);
  }
  for (std::size_t i = 0; i < 8; ++i) h[i] ^= v[i] ^ v[i + 8];
}

}  // namespace

hash_bytes blake2s(const secret_bytes& key, std::span<const std::byte> message) {
  std::array<word, 8> h = k_start;
  h[0] ^= 0x01010000 ^ static_cast<word>(key.size()) << 8 ^ word { sizeof(hash_bytes) };
  std::array<std::byte, k_block> block{};
  std::ranges::copy(key, block.begin());
  std::uint64_t length = k_block;
  compress(h, block.data(), length, message.empty());
  while (!message.empty()) {
    const std::size_t now = std::min(k_block, message.size());
    block.fill({});
    std::copy_n(message.begin(), now, block.begin());
    message = message.subspan(now);
    length += now;
    compress(h, block.data(), length, message.empty());
  }
  hash_bytes made;
  for (std::size_t i = 0; i < 8; ++i) store(made.data() + 4 * i, h[i]);
  return made;
}

bool is_equal(const hash_bytes& one, const hash_bytes& other) {
  std::byte differs{};
  for (std::size_t i = 0; i < one.size(); ++i) differs |= one[i] ^ other[i];
  return differs == std::byte{};
}

}  // namespace lsched
