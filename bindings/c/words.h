// Checks of the enums, numbers and texts that callers pass to the C interface. An enum argument may have any integer
// value, because C does not restrict it.
#pragma once

#include <initializer_list>

#include "bindings/c/lsched.h"
#include "collectives/registry.h"
#include "collectives/sparse/sparse_allreduce.h"
#include "collectives/sparse/steps/sparse_functions.h"
#include "collectives/sparse/steps/state.h"

namespace lsched {

inline failure argument(std::string text) { return {status::argument, std::move(text)}; }

/// A rule about arguments, and the error text for a caller who breaks it.
struct rule {
  bool is_broken;
  std::string_view text;
};

/// Returns ARGUMENT with the text of the first broken rule, or nothing if no rule is broken. The error text begins with
/// `subject`.
std::optional<failure> first_broken(std::initializer_list<rule> rules, std::string_view subject = {});

/// Returns whether a value is one of the consecutive values of an enum.
template <class Enum>
constexpr bool is_within(Enum value, Enum first, Enum last) {
  return value >= first && value <= last;
}

// Conversions between enums of the C interface and enums of ops/. If a value is invalid, the read functions return
// ARGUMENT with the name of the argument. The same dtype has different numbers in both, because 0 means no dtype in the
// C interface.
result<dtype> read_dtype(lsched_dtype type);
result<kernel> read_reduction(lsched_reduction reduction);
lsched_dtype number_of(dtype type);
lsched_reduction number_of(kernel what);  ///< returns 0 for a kernel that is no reduction of the C interface

/// Reads the shape of an allreduce that is not in place. Returns ARGUMENT, with the name of the argument, for an
/// invalid dtype or reduction, or a count that is too large.
result<shape> read_shape(std::uint64_t count, lsched_dtype type, lsched_reduction reduction);

/// Reads the shape of a collective that combines by the caller's reduction. If a member of `user_op` is invalid or
/// missing, returns ARGUMENT with its name.
result<shape> read_shape(std::uint64_t count, lsched_dtype type, const lsched_user_op& user_op);

/// Reads the shape of a collective that moves data but does not reduce.
result<shape> read_shape(std::uint64_t count, lsched_dtype type);

/// Reads the shape of any collective that moves data. `reduction` must be 0 if the collective does not reduce, and may
/// be 0 for an adaptive sum.
result<shape> read_shape(const collective& kind, std::uint64_t count, lsched_dtype type, lsched_reduction reduction);

/// Reads the caller's reduction. If a member is invalid or missing, returns ARGUMENT with its name.
result<user_kernel> read_user_op(const lsched_user_op& user_op);

/// Parses the text of an activation. A null text is ARGUMENT.
result<activation> read_activation(const char* words, std::uint64_t seed);

/// Returns the agreement text of a collective: commit compares this text, which must be equal on all ranks. `elements`
/// is as in lsched_collective_desc, or empty.
std::string agreement_of(const collective& kind, const shape& data, std::string_view algorithm,
                         std::string_view elements);

/// Adds advice to a failure of a create function whose text quotes the agreement texts of two ranks, if only one of
/// these has a segment size.
failure with_advice(failure why);

/// The request of a sparse allreduce and the chosen algorithm.
struct sparse_choice {
  sparse_problem problem;
  const sparse_algorithm* how = nullptr;
};

/// A sparse allreduce with all data that a rank needs to run it.
struct sparse_request : sparse_choice {
  std::string agreement;  ///< the text on which all ranks must agree
  std::shared_ptr<sparse_state> state;
  std::shared_ptr<sparse_functions> steps;  ///< shares the ownership of the state
};

/// Reads the desc of a rank, except gradient and update. Returns ARGUMENT if a member is out of range, or is set
/// although the algorithm does not use it.
result<sparse_choice> read_choice(world place, const lsched_sparse_desc& desc);
result<sparse_request> read_request(world place, const lsched_sparse_desc& desc);

}  // namespace lsched
