// The words of the command line: numbers, the library's enumerations, and the shape of a request made of them.
#pragma once

#include <cstdint>
#include <optional>
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

/// The number a whole word is, if it is one.
std::optional<std::uint64_t> whole_number_in(std::string_view word);

/// Validators that name the limits and what was written instead. `most` left out: no upper limit.
CLI::Validator whole_number(std::uint64_t least, std::uint64_t most = UINT64_MAX);
CLI::Validator number(double least, double most);

/// Accepts any word but the empty one.
CLI::Validator any_word();

/// Accepts these words; of another it says which one was probably meant.
CLI::Validator one_of(std::vector<std::string> words);

/// --k and --density of sparse allreduces; not both.
struct sparse_data {
  std::optional<std::uint64_t> k;
  double density = 0.01;  ///< of `count`, rounded down, where there is no k
};

void add_sparse_options(CLI::App& command, sparse_data& data);
std::uint64_t items_of(const sparse_data& data, std::uint64_t count);

/// What `list` and `show` are asked for.
struct request_options {
  rank ranks = 8;
  std::uint64_t count = 1024;
  dtype type = dtype::f32;
  kernel reduction = kernel::sum;
  bool is_mean = false;  ///< of collectives that have means
  std::optional<rank> root;
  std::optional<rank> ranks_per_node;
  std::optional<std::uint32_t> tensors;  ///< of collectives that adapt; none: the vector is one
  sparse_data sparse;
  std::string activation;
};

void add_request_options(CLI::App& command, request_options& request);

/// Makes a typical request one of a world with so many neighbours on a node; owners then are the first of each.
void set_nodes(shape& data, const collective& of, rank ranks, rank ranks_per_node);

/// A typical request (collective.h), with everything in it that the collective takes. Throws command_failure for a root
/// that the collective has not.
shape shape_of(const collective& of, const request_options& request);

/// The same of a sparse allreduce. Its place is rank 0's.
sparse_problem problem_of(const request_options& request);

inline constexpr std::string_view k_sparse_allreduce = "sparse_allreduce";
inline constexpr std::string_view k_partial_sparse_allreduce = "partial_sparse_allreduce";

/// Whether it is one of the two.
inline bool is_sparse(std::string_view collective) {
  return collective == k_sparse_allreduce || collective == k_partial_sparse_allreduce;
}

/// The dense collectives that `lsched list` shows, and all of them.
std::vector<std::string> collective_names();
std::vector<std::string> listed_collectives();

/// What `lsched list` shows, and "auto".
std::vector<std::string> algorithm_names(std::string_view collective);

/// Throws the parser's error, with what was probably meant, for names that `lsched list` does not show. No collective:
/// one of any.
void expect_listed(const std::string& collective, const std::string& algorithm);

/// Accepts what read_activation (libsched/schedule/activation.h) does.
CLI::Validator activation_words();

/// Throws the parser's error for an activation of a collective that has none, and for a number in it, or a root, that a
/// world of so many ranks has not. No collective: one of any.
void expect_in_world(const std::string& collective, const std::string& activation, std::optional<rank> root,
                     rank ranks);

/// The activation of those words; solo without any.
activation activation_of(const std::string& words, std::uint64_t seed);

}  // namespace lsched::cli
