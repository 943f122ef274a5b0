// The words of the command line: numbers, the library's enumerations, and the shape of a request made of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/selection.h"
#include "collectives/sparse/sparse_allreduce.h"

namespace CLI {
class App;
class Validator;
}  // namespace CLI

namespace lsched::cli {

/// What any option that counts ranks takes; list and show make up such worlds, the others start them.
inline constexpr std::uint64_t k_most_ranks = 1 << 20;

/// The names of values that an option takes.
template <class Values>
std::vector<std::string> names_of(const Values& values) {
  std::vector<std::string> names;
  for (const auto value : values) names.emplace_back(name_of(value));
  return names;
}

/// The value of that name; the parser has let no other through.
template <class Values>
auto named(const Values& values, const std::string& name) {
  return *std::find_if(values.begin(), values.end(), [&](auto value) { return name_of(value) == name; });
}

/// The number a whole word is, if it is one.
std::optional<std::uint64_t> whole_number_in(std::string_view word);

/// Validators that name the limits and what was written instead. `most` left out: no upper limit.
CLI::Validator whole_number(std::uint64_t least, std::uint64_t most = UINT64_MAX);
CLI::Validator number(double least, double most);

/// --count, --dtype, --op and --root as `list` and `show` take them. Names were checked by the parser.
struct data_options {
  std::uint64_t count = 1024;
  std::string type = "f32";
  std::string reduction = "sum";
  std::optional<rank> root;
  std::optional<rank> ranks_per_node;
  std::optional<std::uint32_t> tensors;  ///< of collectives that adapt; none: the vector is one
};

/// --k and --density of sparse allreduces; not both.
struct sparse_data {
  std::optional<std::uint64_t> k;
  double density = 0.01;  ///< of `count`, rounded down, where there is no k
};

void add_data_options(CLI::App& command, data_options& data);
void add_sparse_options(CLI::App& command, sparse_data& data);
std::uint64_t items_of(const sparse_data& data, std::uint64_t count);

/// Makes a typical request one of a world with so many neighbours on a node; owners then are the first of each.
void set_nodes(shape& data, const collective& of, rank ranks, rank ranks_per_node);

/// A typical request (collective.h) for that many ranks, with everything in it that the collective takes.
/// Throws command_failure for a root that it has not.
shape shape_of(const collective& of, rank ranks, const data_options& data);

inline constexpr std::string_view k_sparse_allreduce = "sparse_allreduce";
inline constexpr std::string_view k_partial_sparse_allreduce = "partial_sparse_allreduce";

/// Whether it is one of the two.
inline bool is_sparse(std::string_view collective) {
  return collective == k_sparse_allreduce || collective == k_partial_sparse_allreduce;
}

/// What `list` and `show` ask for: `count` elements of a type. Its place is rank 0's.
sparse_problem problem_of(const data_options& data, const sparse_data& sparse, rank ranks);

/// Throws command_failure where there is none of that name.
const sparse_algorithm& sparse_named(const std::string& algorithm);

/// The collectives that `lsched list` shows.
std::vector<std::string> collective_names();

/// What `lsched list` shows, and "auto".
std::vector<std::string> algorithm_names(std::string_view collective);

/// Accepts what read_activation (libsched/schedule/activation.h) does.
CLI::Validator activation_words();

/// The activation a collective is asked for: none for ordinary ones if `name` is empty. Partial ones default to solo.
activation activation_of(const collective& of, const std::string& name, std::uint64_t seed);
/// Likewise, of a collective that has one.
activation activation_of(const std::string& name, std::uint64_t seed);

}  // namespace lsched::cli
