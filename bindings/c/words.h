// Checks of the enums, numbers and texts of the C interface. Any integer may be passed in place of an enum.
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

/// Returns ARGUMENT with the text of the first broken rule, or nothing. The error text begins with `subject`.
std::optional<failure> first_broken(std::initializer_list<rule> rules, std::string_view subject = {});

/// Returns whether a value is one of the consecutive values of an enum.
template <class Enum>
constexpr bool is_within(Enum value, Enum first, Enum last) {
  return value >= first && value <= last;
}

// Conversions between the enums of the C interface and those of ops. The read functions return ARGUMENT, with the name
// of the argument, for an invalid value. Dtypes have other numbers in the C interface, where 0 means none.
result<dtype> read_dtype(lsched_dtype type);
result<kernel> read_reduction(lsched_reduction reduction);
lsched_dtype number_of(dtype type);
lsched_reduction number_of(kernel what);  ///< 0 for a kernel that is no reduction of the C interface

/// Reads the shape of an allreduce that is not in place. Returns ARGUMENT, with the name of the argument, for an
/// invalid dtype or reduction, or a count that is too large.
result<shape> read_shape(std::uint64_t count, lsched_dtype type, lsched_reduction reduction);

/// Reads the shape of a collective that combines by the caller's reduction. Returns ARGUMENT with the invalid or
/// missing member.
result<shape> read_shape(std::uint64_t count, lsched_dtype type, const lsched_user_op& user_op);

/// Reads the shape of a collective that combines nothing.
result<shape> read_shape(std::uint64_t count, lsched_dtype type);

/// Reads the shape of any collective that moves data. `reduction` must be 0 if the collective does not reduce, and may
/// be 0 for an adaptive sum.
result<shape> read_shape(const collective& kind, std::uint64_t count, lsched_dtype type, lsched_reduction reduction);

/// Reads the caller's reduction. Returns ARGUMENT with the invalid or missing member.
result<user_kernel> read_user_op(const lsched_user_op& user_op);

/// Reads an activation, which must not be null.
result<activation> read_activation(const char* words, std::uint64_t seed);

/// Returns the text on which all ranks must agree. `elements` is as in lsched_collective_desc, or empty.
std::string agreement_of(const collective& kind, const shape& data, std::string_view algorithm,
                         std::string_view elements);

/// Adds advice to the failure of a create if only one of the two agreement texts in it has a segment size.
failure with_advice(failure why);

/// A sparse allreduce and its algorithm.
struct sparse_choice {
  sparse_problem problem;
  const sparse_algorithm* how = nullptr;
};

/// A sparse allreduce at a rank that runs it.
struct sparse_request : sparse_choice {
  std::string agreement;  ///< the text on which all ranks must agree
  std::shared_ptr<sparse_state> state;
  std::shared_ptr<sparse_functions> steps;  ///< shares the ownership of the state
};

/// Reads the desc of a rank, except gradient and update. Returns ARGUMENT for a member that is out of range or does not
/// belong to the algorithm.
result<sparse_choice> read_choice(world place, const lsched_sparse_desc& desc);
result<sparse_request> read_request(world place, const lsched_sparse_desc& desc);

}  // namespace lsched
