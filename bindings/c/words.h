// The words of the C interface, checked: any integer may stand where the header says an enum.
#pragma once

#include <initializer_list>

#include "bindings/c/lsched.h"
#include "collectives/registry.h"
#include "collectives/sparse/sparse_allreduce.h"
#include "collectives/sparse/steps/sparse_functions.h"
#include "collectives/sparse/steps/state.h"

namespace lsched {

inline failure argument(std::string text) { return {status::argument, std::move(text)}; }

/// A rule about arguments, and what a caller is told who breaks it.
struct rule {
  bool is_broken;
  std::string_view text;
};

/// ARGUMENT with the first rule that is broken; `subject` begins its text.
std::optional<failure> first_broken(std::initializer_list<rule> rules, std::string_view subject = {});

/// Whether an integer is one of an enum, whose values follow each other.
template <class Enum>
constexpr bool is_within(Enum value, Enum first, Enum last) {
  return value >= first && value <= last;
}

/// ARGUMENT says which word is none. Dtypes have other numbers in the C interface, where 0 is none.
result<dtype> read_dtype(lsched_dtype type);
result<kernel> read_reduction(lsched_reduction reduction);
lsched_dtype number_of(dtype type);
lsched_reduction number_of(kernel what);  ///< 0: it is none

/// What an allreduce of any kind is asked for, not in place. ARGUMENT says which word is none, or is too large.
result<shape> read_shape(std::uint64_t count, lsched_dtype type, lsched_reduction reduction);

/// The same by the caller's own arithmetic. ARGUMENT says what is missing or wrong in it.
result<shape> read_shape(std::uint64_t count, lsched_dtype type, const lsched_user_op& user_op);

/// The same of what combines nothing.
result<shape> read_shape(std::uint64_t count, lsched_dtype type);

/// The same of any collective that moves data: reduction 0 where it reduces nothing, and where it adapts.
result<shape> read_shape(const collective& kind, std::uint64_t count, lsched_dtype type, lsched_reduction reduction);

/// The arithmetic by itself, if there is nothing wrong with it.
result<user_kernel> read_user_op(const lsched_user_op& user_op);

/// An activation that is not none.
result<activation> read_activation(const char* words, std::uint64_t seed);

/// Returns the text on which all ranks must agree.
/// `elements`: as in lsched_collective_desc, or empty.
std::string agreement_of(const collective& kind, const shape& data, std::string_view algorithm,
                         std::string_view elements);

/// Why a create has failed. Where one of two ranks has segments (agreement_of), it says what to do about that.
failure with_advice(failure why);

/// A sparse allreduce, and by which algorithm.
struct sparse_choice {
  sparse_problem problem;
  const sparse_algorithm* how = nullptr;
};

/// The same at a rank that runs it.
struct sparse_request : sparse_choice {
  std::string agreement;  ///< all that ranks have to agree about, in words
  std::shared_ptr<sparse_state> state;
  std::shared_ptr<sparse_functions> steps;  ///< keep the state, too
};

/// Reads the desc of a rank, but for its memory. ARGUMENT for whatever is out of range or does not belong to the
/// algorithm.
result<sparse_choice> read_choice(world place, const lsched_sparse_desc& desc);
result<sparse_request> read_request(world place, const lsched_sparse_desc& desc);

}  // namespace lsched
