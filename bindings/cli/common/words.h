// Parsing of words on the command line: numbers, names of enumerators, and the request that the options describe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/requests/collective_request.h"
#include "collectives/sparse/sparse_allreduce.h"

namespace CLI {
class App;
class Validator;
}  // namespace CLI

namespace lsched::cli {

/// The maximum number of ranks that an option accepts.
inline constexpr std::uint64_t k_most_ranks = 1 << 20;

/// Converts `word` to a number. Returns nothing unless `word` consists of digits.
std::optional<std::uint64_t> whole_number_in(std::string_view word);

/// Return validators for numbers from `least` to `most`. The errors name the limits and the given word.
CLI::Validator whole_number(std::uint64_t least, std::uint64_t most = UINT64_MAX);
CLI::Validator number(double least, double most);

/// Returns a validator that accepts any word that is not empty.
CLI::Validator any_word();

/// Returns a validator that accepts `words`. The error for any other word suggests the nearest accepted word.
CLI::Validator one_of(std::vector<std::string> words);

/// Adds the option --k of sparse allreduces.
void add_items_option(CLI::App& command, std::optional<std::uint64_t>& k);

/// Returns the number of items that a rank sends in a sparse allreduce of `count` elements: `k`, or count / 100.
std::uint64_t items_of(std::optional<std::uint64_t> k, std::uint64_t count);

/// The request that `list` and `show` describe.
struct request_options {
  rank ranks = 8;
  collective_request what{.count = 1024, .reduction = kernel::sum};
  std::optional<rank> ranks_per_node;
  std::optional<std::uint32_t> tensors;  ///< number of tensors of an adaptive sum; not set: the vector is one tensor
  std::optional<std::uint64_t> k;        ///< items that a rank sends in a sparse allreduce (items_of)
  std::string activation;
};

void add_request_options(CLI::App& command, request_options& request);

/// Returns a typical request, in which the options that the collective uses replace the typical values.
shape shape_of(const collective& of, const request_options& request);

/// Returns the request of a sparse allreduce on rank 0.
sparse_problem problem_of(const request_options& request);

inline constexpr std::string_view k_sparse_allreduce = "sparse_allreduce";
inline constexpr std::string_view k_partial_sparse_allreduce = "partial_sparse_allreduce";

inline bool is_sparse(std::string_view collective) {
  return collective == k_sparse_allreduce || collective == k_partial_sparse_allreduce;
}

/// collective_names() returns the names of the dense collectives. listed_collectives() returns the names of all
/// collectives that `lsched list` shows.
std::vector<std::string> collective_names();
std::vector<std::string> listed_collectives();

/// Returns "auto" and the names of the collective's algorithms that `lsched list` shows.
std::vector<std::string> algorithm_names(std::string_view collective);

/// Throws the parser's error if `lsched list` does not show the collective or the algorithm. The error suggests the
/// nearest name. If `collective` is empty, the algorithms of all collectives are accepted.
void expect_listed(const std::string& collective, const std::string& algorithm);

/// Returns a validator that accepts the texts that read_activation (libsched/schedule/activation.h) accepts.
CLI::Validator activation_words();

/// Throws the parser's error if an activation is given for a collective that has no activation policy. Also throws this
/// error if the root or a number in the activation is too large for `ranks` ranks. If `collective` is empty, the
/// collective is not checked.
void expect_in_world(const std::string& collective, const std::string& activation, std::optional<rank> root,
                     rank ranks);

/// Returns the activation that `words` describes, or "solo" if `words` is empty. Throws command_failure.
activation activation_of(const std::string& words, std::uint64_t seed);

}  // namespace lsched::cli
