// The basic types of the library: ranks, ops, rounds, dtypes and memory spaces.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lsched {

/// Index of a process in its world: 0 … size-1. A thread can act as a process.
using rank = std::int32_t;

/// Index of an op inside its schedule.
using op_id = std::uint32_t;

/// Number of a round. A round is one execution of an instance (a schedule bound to memory). Numbers start at 1 and only
/// grow. 0 means that no round has started yet.
using round_no = std::uint64_t;

inline constexpr op_id k_no_op = ~op_id{0};
inline constexpr rank k_no_rank = -1;

/// A rank and the size of its world. A generator (code that builds the schedule of one rank) gets no other information
/// about the position of its rank.
struct world {
  rank self = 0;
  rank size = 1;
  friend bool operator==(const world&, const world&) = default;
};

/// Element types. f16 and bf16 are storage formats: arithmetic first converts their elements to f32 or f64. An element
/// of an item type has an index and a value: it is one element of a sparse vector in coordinate format
/// (ops/sparse/sparse.h). No kernel computes with items elementwise.
enum class dtype : std::uint8_t { i8, u8, i32, i64, u64, f16, bf16, f32, f64, item_f16, item_bf16, item_f32, item_f64 };

/// The dtypes of numbers.
inline constexpr std::array<dtype, 9> k_all_dtypes{dtype::i8,  dtype::u8,   dtype::i32, dtype::i64, dtype::u64,
                                                   dtype::f16, dtype::bf16, dtype::f32, dtype::f64};

inline constexpr std::array<dtype, 4> k_all_items{dtype::item_f16, dtype::item_bf16, dtype::item_f32, dtype::item_f64};

constexpr std::size_t size_of(dtype type) {
  constexpr std::array<std::uint8_t, 13> sizes{1, 1, 4, 8, 8, 2, 2, 4, 8, 6, 6, 8, 12};
  return sizes[static_cast<std::size_t>(type)];
}

constexpr std::string_view name_of(dtype type) {
  constexpr std::array<std::string_view, 13> names{"i8",  "u8",  "i32",      "i64",       "u64",      "f16",     "bf16",
                                                   "f32", "f64", "item_f16", "item_bf16", "item_f32", "item_f64"};
  return names[static_cast<std::size_t>(type)];
}

constexpr bool is_floating(dtype type) { return type >= dtype::f16 && type <= dtype::f64; }
constexpr bool is_item(dtype type) { return type >= dtype::item_f16; }

/// Returns the item type for values of the floating type `value`.
constexpr dtype item_of(dtype value) {
  return static_cast<dtype>(static_cast<int>(dtype::item_f16) + static_cast<int>(value) - static_cast<int>(dtype::f16));
}

/// Location of a buffer's bytes. The location decides whether the host, a device or both can access the bytes.
/// (docs/reference/device.md)
enum class memory_space : std::uint8_t {
  host,
  device,   ///< memory of a GPU; only the GPU accesses this memory
  staging,  ///< pinned host memory; host and GPU access this memory
};

inline constexpr std::array<memory_space, 3> k_all_spaces{memory_space::host, memory_space::device,
                                                          memory_space::staging};

constexpr std::string_view name_of(memory_space space) {
  constexpr std::array<std::string_view, 3> names{"host", "device", "staging"};
  return names[static_cast<std::size_t>(space)];
}

}  // namespace lsched
