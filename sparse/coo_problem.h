// What a sum of sparse vectors that users bring is asked for, as all ranks say it; and what room that takes.
//
// Every rank brings items, an index and a value each, in any order, an index as often as it likes (COO: "coordinates").
// Every rank gets, for each index that anybody has given, the sum of all its values: an index once, ascending, also if
// the sum is zero. Nothing is left out, and nothing is kept for later.
//
// The vector is cut into P equal regions, of which rank r owns the r-th. Users' indices are u64; those that travel are
// u32, and count from the beginning of their region.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "libsched/geometry.h"
#include "ops/status.h"

namespace lsched {

struct coo_problem {
  std::uint64_t count = 0;        ///< elements of the vector, up to P * 2^32; nothing takes memory for them
  std::uint64_t room = 0;         ///< items that a rank brings, at most
  std::uint64_t result_room = 0;  ///< items of the result, at most
  world place{};
  dtype type = dtype::f32;  ///< of values; floating
  bool has_dense = false;   ///< this rank wants the result as a vector, too. Its own choice
};

/// Why nothing can be done for it, or for this rank of it; nothing if all is well.
std::optional<failure> objection(const coo_problem& to);

constexpr cut regions_of(const coo_problem& of) { return {of.count, static_cast<std::uint64_t>(of.place.size)}; }

// Lists have room for an item at least (list_layout).

/// Items of what a rank brings, an index once; all of them, and those in one region.
constexpr std::uint64_t taken_room(const coo_problem& of) {
  return std::max<std::uint64_t>(1, std::min(of.room, of.count));
}
constexpr std::uint64_t part_room(const coo_problem& of) {
  return std::max<std::uint64_t>(1, std::min(of.room, regions_of(of).size(0)));
}
/// Items of the result in one region, and in all.
constexpr std::uint64_t sum_room(const coo_problem& of) {
  const std::uint64_t of_all = part_room(of) * static_cast<std::uint64_t>(of.place.size);  // below 2^63
  return std::max<std::uint64_t>(1, std::min({of.result_room, regions_of(of).size(0), of_all}));
}
constexpr std::uint64_t gathered_room(const coo_problem& of) {
  return std::max<std::uint64_t>(1, std::min(of.result_room, sum_room(of) * static_cast<std::uint64_t>(of.place.size)));
}

}  // namespace lsched
