// The request for a collective: what a caller states, and its validation. The C interface fills a request for one rank.
// (Python uses the C interface.) The command and the functions that analyze schedules fill a request for all ranks of a
// world (sample_requests.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "collectives/registry.h"
#include "ops/kernel.h"

namespace lsched {

struct user_operation {
  dtype type = dtype::f32;
  user_kernel with{};
  bool commutes = false;
};

/// The members are named as in lsched_collective_desc, and have the same meaning. Members that the collective does not
/// use must have their defaults. A member of a type result<…> contains a failure if the caller's value is invalid.
/// validate() returns this failure if the collective uses the member. The caller owns all memory that the request
/// refers to.
struct collective_request {
  std::string_view collective{};  ///< null: the caller has given no name
  std::string_view algorithm{};   ///< null: the library chooses the algorithm, as for "auto"
  std::uint64_t count = 0;
  result<dtype> type = dtype::f32;
  result<kernel> reduction = kernel::none;
  std::optional<result<user_operation>> user_op{};
  result<bool> is_mean = false;
  std::optional<rank> root{};
  std::uint64_t segment_bytes = 0;
  rank radix = 0;
  result<std::vector<tensor>> tensors = std::vector<tensor>{};
  result<std::vector<std::uint64_t>> buckets = std::vector<std::uint64_t>{};
  std::optional<result<activation>> starts{};  ///< not set: the caller has given no activation
  std::vector<rank> nodes{};                   ///< node of each rank; empty: one node
  std::string_view elements{};

  // The blocks of this rank. Only neighbor_exchange uses `destinations` and `sources`.
  const std::uint64_t* counts = nullptr;
  const std::uint64_t* recv_counts = nullptr;
  const rank* destinations = nullptr;
  const rank* sources = nullptr;
  std::int32_t destination_count = 0;
  std::int32_t source_count = 0;

  // The memory of this rank, and its rounds.
  const void* input = nullptr;
  void* output = nullptr;
  std::uint64_t capacity = 0;  ///< maximum number of elements of a block, or k_any_count; 0: no lists
  std::int32_t depth = 0;      ///< rounds that may be outstanding at once; 0 means 1
};

/// The capacity of a request that sets no limit for its blocks.
inline constexpr std::uint64_t k_any_count = UINT64_MAX;

/// A validated request of one rank.
struct rank_request {
  const collective* kind = nullptr;
  shape data{};
  extents buffers{};                 ///< elements of the input and of the output; not set: this rank has no such buffer
  const std::byte* input = nullptr;  ///< null if this rank has no input, or if memory comes with each round
  std::byte* output = nullptr;
  std::int64_t aliasing_bytes = 0;  ///< in place: offset of the input from the beginning of the output
  std::size_t depth = 1;
};

/// Reads the dtype, the reduction and the count. `kind` must move data. If a dtype or reduction is invalid, or a count
/// is too large, returns ARGUMENT with the name of the member. An adaptive sum needs no reduction.
result<shape> read_shape(const collective& kind, const collective_request& request);

/// Returns ARGUMENT for a count that is too large.
std::optional<failure> validate_count(std::uint64_t count);

/// Returns the name of the requested algorithm, or "auto".
std::string_view algorithm_of(const collective_request& request);

/// Returns the collective that implements requests for `kind` with a capacity. The blocks of such a request are lists.
/// Their lengths may change in every round. Returns null if `kind` cannot have a capacity.
const collective* collective_of_lists(const collective& kind);

/// Validates the request of the rank `place.self`. Returns ARGUMENT for a member that is missing, out of range or not
/// used by the collective, and for buffers that overlap. The error text begins with the name of the collective, unless
/// that name is unknown.
result<rank_request> validate(const collective_request& request, world place);

/// Prefixes a failure with the name of the requested collective, unless the text begins with that name or the
/// collective does not exist.
failure about(std::string_view collective, failure why);

}  // namespace lsched
