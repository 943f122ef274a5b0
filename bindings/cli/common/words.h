// Words of the command line: numbers, enumerations of the library, and the request that they describe.
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

/// The largest number of ranks that an option accepts. list and show only describe such worlds, other commands start
/// them.
inline constexpr std::uint64_t k_most_ranks = 1 << 20;

/// Returns the number, or nothing unless the whole word is a number.
std::optional<std::uint64_t> whole_number_in(std::string_view word);

/// Return validators whose errors name the limits and the given word. Without `most` there is no upper limit.
CLI::Validator whole_number(std::uint64_t least, std::uint64_t most = UINT64_MAX);
CLI::Validator number(double least, double most);

/// Accepts any word that is not empty.
CLI::Validator any_word();

/// Accepts these words. The error for another word suggests the nearest of them.
CLI::Validator one_of(std::vector<std::string> words);

/// The values of --k and --density of sparse allreduces. A command accepts only one of the two.
struct sparse_data {
  std::optional<std::uint64_t> k;
  double density = 0.01;  ///< share of `count`, rounded down; used without k
};

void add_sparse_options(CLI::App& command, sparse_data& data);
std::uint64_t items_of(const sparse_data& data, std::uint64_t count);

/// The request that `list` and `show` describe.
struct request_options {
  rank ranks = 8;
  std::uint64_t count = 1024;
  dtype type = dtype::f32;
  kernel reduction = kernel::sum;
  bool is_mean = false;  ///< for collectives that have means
  std::optional<rank> root;
  std::optional<rank> ranks_per_node;
  std::optional<std::uint32_t> tensors;  ///< for adaptive sums; not set: the vector is one tensor
  sparse_data sparse;
  std::string activation;
};

void add_request_options(CLI::App& command, request_options& request);

/// Puts `ranks_per_node` neighbours on each node of a typical request. The owner of a node is its first rank.
void set_nodes(shape& data, const collective& of, rank ranks, rank ranks_per_node);

/// Returns a typical request (requests.h) with the options that the collective takes. Ignores the other options.
shape shape_of(const collective& of, const request_options& request);

/// Returns the request of rank 0 for a sparse allreduce.
sparse_problem problem_of(const request_options& request);

inline constexpr std::string_view k_sparse_allreduce = "sparse_allreduce";
inline constexpr std::string_view k_partial_sparse_allreduce = "partial_sparse_allreduce";

inline bool is_sparse(std::string_view collective) {
  return collective == k_sparse_allreduce || collective == k_partial_sparse_allreduce;
}

/// Return the dense collectives that `lsched list` shows, and all collectives that it shows.
std::vector<std::string> collective_names();
std::vector<std::string> listed_collectives();

/// Returns "auto" and the algorithms that `lsched list` shows.
std::vector<std::string> algorithm_names(std::string_view collective);

/// Throws the parser's error, with the nearest name, if `lsched list` does not show a name. If `collective` is empty,
/// accepts the algorithms of all collectives.
void expect_listed(const std::string& collective, const std::string& algorithm);

/// Accepts the words that read_activation (libsched/schedule/activation.h) accepts.
CLI::Validator activation_words();

/// Throws the parser's error if an activation is given for a collective without activation policy. Also throws it if a
/// number of the activation, or the root, does not fit `ranks` ranks. An empty `collective` may be any collective.
void expect_in_world(const std::string& collective, const std::string& activation, std::optional<rank> root,
                     rank ranks);

/// Returns the activation that the words describe, or solo without words. Throws command_failure.
activation activation_of(const std::string& words, std::uint64_t seed);

}  // namespace lsched::cli
