// Sparse allreduces on the command line: their name, and how many items are asked for.
#pragma once

#include <optional>

#include "bindings/cli/common/words.h"
#include "collectives/sparse/sparse_allreduce.h"

namespace lsched::cli {

inline constexpr std::string_view k_sparse_allreduce = "sparse_allreduce";
inline constexpr std::string_view k_partial_sparse_allreduce = "partial_sparse_allreduce";

/// --k and --density; not both.
struct sparse_data {
  std::optional<std::uint64_t> k;
  double density = 0.01;  ///< of `count`, rounded down, where there is no k
};

void add_sparse_options(CLI::App& command, sparse_data& data);

std::uint64_t items_of(const sparse_data& data, std::uint64_t count);

/// What `list` and `show` ask for: `count` elements of a type. Its place is rank 0's.
sparse_problem problem_of(const data_options& data, const sparse_data& sparse, rank ranks);

/// Throws command_failure where there is none of that name.
const sparse_algorithm& sparse_named(const std::string& algorithm);

}  // namespace lsched::cli
