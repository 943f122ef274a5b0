// The keyed hash BLAKE2s of RFC 7693, with a key and a result of 32 bytes. The hash is used as a message authentication
// code.
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace lsched {

using secret_bytes = std::array<std::byte, 32>;
using hash_bytes = std::array<std::byte, 32>;

/// Returns the keyed hash of a message. A party without the key can neither compute nor verify the hash.
hash_bytes blake2s(const secret_bytes& key, std::span<const std::byte> message);

/// Compares two hashes in a time that does not depend on their contents.
bool is_equal(const hash_bytes& one, const hash_bytes& other);

}  // namespace lsched
