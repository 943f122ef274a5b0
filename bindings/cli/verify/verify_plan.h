// The cases (algorithm, number of ranks and request) that `lsched verify` verifies.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bindings/cli/common/words.h"
#include "collectives/registry.h"
#include "libsched/verify/verify.h"

namespace lsched::cli {

/// A case to verify: an algorithm, a number of ranks and a request. In the sources of `lsched verify`, a case is also
/// called a world.
struct verify_case {
  const algorithm* dense = nullptr;  ///< the algorithm, or nullptr if it is sparse (see `sparse`)
  const sparse_algorithm* sparse = nullptr;
  sparse_problem problem{};  ///< request of the sparse algorithm on rank 0
  rank size = 1;
  std::uint64_t count = 0;  ///< requested count; the counts of blocks may differ
  shape data;
  activation starts{};
};

/// A selection of cases. An empty list or name, or the algorithm "all", selects everything.
struct verify_wish {
  std::string collective;
  std::string algorithm = "all";
  std::string activation;
  std::vector<rank> sizes{};
  std::vector<std::uint64_t> counts{};
  std::vector<std::uint64_t> items{};                 ///< values of k for sparse allreduces
  collective_request what{.reduction = kernel::sum};  ///< dtype, and reduction of collectives that reduce

  collective_request request_of(std::uint64_t count, rank root) const {
    collective_request request = what;
    request.count = count;
    request.root = root;
    return request;
  }
};

/// Returns true if the wish selects the algorithm with that name.
bool includes(const verify_wish& wish, std::string_view collective, std::string_view algorithm);

/// Returns a few sizes for a quick verification.
std::vector<rank> sample_sizes();

struct verify_plan {
  std::vector<verify_case> worlds{};
  std::vector<std::string> objections{};  ///< reasons why algorithms do not support selected cases; at most 8
};

/// Returns every selected case that its algorithm supports, grouped by algorithm, in ascending order of ranks. The
/// cases of an algorithm combine these values:
///
///  - Sizes: the default is every P up to 65, and 96, 100, 127, 128, 129, 255, 256, 1000, 1024 and 4096. The default
///    ends at 129 for algorithms with about P^2 messages or blocks, for algorithms from files, and for partial sparse
///    allreduces. The default ends at 1024 for other sparse allreduces.
///  - Counts: the default is 0, 1, P-1, P, P+1 and 1000. For sparse allreduces the default is 0, 1 and 1000, each with
///    0, 1 and 10 items. For partial sparse allreduces the default is 1000 with 10 items.
///  - Variants: all variants of the request (variants_of), each in place and not in place if both are possible. If no
///    size is given, a world of more than 17 ranks has only one dense variant, which depends on the size. Sparse
///    algorithms also have variants with capacity `defer` and with reused thresholds, if these variants have another
///    schedule.
///  - Roots: three roots for up to 16 ranks, and one root for more ranks.
///  - Activations: the default is full, solo, majority, a quorum of half the ranks with and without a grace, all_of all
///    ranks, and deadline.
verify_plan plan(const verify_wish& wish);

std::string_view collective_of(const verify_case& world);

/// Returns a text such as "allreduce/tree, 7 ranks, count 1000, in place".
std::string text_of(const verify_case& world);

postcondition promise_of(const verify_case& world);

verify_options options_of(const verify_case& world);

result<std::vector<schedule_ptr>> generate_world(const verify_case& world);

}  // namespace lsched::cli
