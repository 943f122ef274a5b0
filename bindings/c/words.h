// The words of the C interface, checked: any integer may stand where the header says an enum.
#pragma once

#include "bindings/c/lsched.h"
#include "collectives/registry.h"

namespace lsched {

/// ARGUMENT says which word is none. Dtypes have other numbers in the C interface, where 0 is none.
result<dtype> read_dtype(lsched_dtype type);
result<kernel> read_reduction(lsched_reduction what);
lsched_dtype number_of(dtype type);

/// What an allreduce of any kind is asked for, not in place. ARGUMENT says which word is none, or is too large.
result<shape> read_shape(std::uint64_t count, lsched_dtype type, lsched_reduction what);

/// The same by the caller's own arithmetic. ARGUMENT says what is missing or wrong in it.
result<shape> read_shape(std::uint64_t count, lsched_dtype type, const lsched_user_op& what);

/// The arithmetic by itself, if there is nothing wrong with it.
result<user_kernel> read_user_op(const lsched_user_op& what);

/// The same of what combines nothing.
result<shape> read_shape(std::uint64_t count, lsched_dtype type);

/// An activation that is not none.
result<activation> read_activation(const char* words, std::uint64_t seed);

/// What names a collective of the registry where no rank of it runs.
struct collective_words {
  const char* collective;
  const char* algorithm;  ///< null: auto
  rank ranks, root;
  std::uint64_t count;
  lsched_dtype dtype;
  lsched_reduction reduction;
  const char* activation;  ///< null: none
  bool in_place;
};

struct named_collective {
  const algorithm* how;
  shape data;
  activation starts;
};

/// ARGUMENT for words that name nothing, CONSTRAINT for an algorithm that cannot do it.
result<named_collective> read_collective(const collective_words& words, rank most_ranks);

/// ARGUMENT for a size of the world below 1 or above `most`, a power of two.
std::optional<failure> validate_ranks(rank ranks, rank most);

}  // namespace lsched
