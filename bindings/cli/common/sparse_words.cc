#include "bindings/cli/common/errors.h"
#include "bindings/cli/common/sparse_words.h"

#include <CLI/CLI.hpp>
#include <string>

namespace lsched::cli {

void add_sparse_options(CLI::App& command, sparse_data& data) {
  auto* k = command.add_option("--k", data.k, "Items that a rank sends in a sparse allreduce")
                ->check(whole_number(0, k_max_count));
  command.add_option("--density", data.density, "Likewise, as a share of --count")
      ->check(number(0, 1))
      ->capture_default_str()
      ->excludes(k);
}

std::uint64_t items_of(const sparse_data& data, std::uint64_t count) {
  return data.k.value_or(static_cast<std::uint64_t>(data.density * static_cast<double>(count)));
}

sparse_problem problem_of(const data_options& data, const sparse_data& sparse, rank ranks) {
  return {.count = data.count,
          .k = items_of(sparse, data.count),
          .place = {0, ranks},
          .type = named(k_all_dtypes, data.type)};
}

const sparse_algorithm& sparse_named(const std::string& algorithm) {
  if (const sparse_algorithm* known = find_sparse(algorithm)) return *known;
  std::string names;
  for (const sparse_algorithm& it : sparse_algorithms()) names.append(names.empty() ? "" : ", ").append(it.name);
  throw command_failure(LSCHED_ERR_ARGUMENT, "no sparse allreduce is called \"" + algorithm + "\"; there are " + names);
}

}  // namespace lsched::cli
