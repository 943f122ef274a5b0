// Conversion of the enums, numbers and texts that callers pass to the C interface. In C, an enum argument may have any
// integer value.
#pragma once

#include <cstdint>
#include <vector>

#include "bindings/c/lsched.h"
#include "collectives/requests/collective_request.h"
#include "collectives/requests/sparse_request.h"
#include "ops/rules.h"

namespace lsched {

/// Returns whether a value is one of the consecutive values of an enum.
template <class Enum>
constexpr bool is_within(Enum value, Enum first, Enum last) {
  return value >= first && value <= last;
}

// Conversions between enums of the C interface and enums of ops/. If a value is invalid, the read functions return
// ARGUMENT with the name of the argument. A dtype has different numbers in the two enums, because 0 means no dtype in
// the C interface.
result<dtype> read_dtype(lsched_dtype type);
result<kernel> read_reduction(lsched_reduction reduction);
lsched_dtype number_of(dtype type);
lsched_reduction number_of(kernel what);  ///< returns 0 for a kernel that is no reduction of the C interface

/// Reads the reduction of a request, which may be 0.
result<kernel> read_optional_reduction(lsched_reduction reduction);

/// Reads the caller's reduction. If a member is invalid or missing, returns ARGUMENT with the member's name.
result<user_operation> read_user_op(const lsched_user_op& user_op);

/// Reads the tensors or the buckets of a request. Returns ARGUMENT if only one of the two arguments is given.
result<std::vector<tensor>> read_tensors(const lsched_tensor* tensors, std::uint64_t number);
result<std::vector<std::uint64_t>> read_buckets(const std::uint64_t* buckets, std::uint64_t number);

/// Parses the text of an activation. A null text is ARGUMENT.
result<activation> read_activation(const char* words, std::uint64_t seed);

/// Reads a sparse request of the rank `place.self`. Returns ARGUMENT for an invalid enum.
result<sparse_request> read_sparse(world place, const lsched_sparse_desc& desc);

/// Converts a text to a view. The view of a null text is null.
inline std::string_view view_of(const char* text) { return text == nullptr ? std::string_view() : text; }

}  // namespace lsched
