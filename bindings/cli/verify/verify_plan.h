// Which worlds `lsched verify` proves.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bindings/cli/common/words.h"
#include "collectives/registry.h"
#include "libsched/verify/verify.h"

namespace lsched::cli {

/// One world: an algorithm, asked for one thing.
struct verify_case {
  const algorithm* dense = nullptr;  ///< none: a sparse one
  const sparse_algorithm* sparse = nullptr;
  sparse_problem problem{};  ///< of the sparse one; its place is rank 0's
  rank size = 1;
  std::uint64_t count = 0;  ///< asked for; blocks may differ from it
  shape data;
  activation starts{};
};

/// Empty lists and names stand for everything, and so does the algorithm "all".
struct verify_wish {
  std::string collective;
  std::string algorithm = "all";
  std::string activation;
  std::vector<rank> sizes{};
  std::vector<std::uint64_t> counts{};
  std::vector<std::uint64_t> items{};  ///< k of sparse allreduces
  dtype type = dtype::f32;
  kernel what = kernel::sum;  ///< of collectives that reduce
};

/// Whether an algorithm of that name can be meant.
bool includes(const verify_wish& wish, std::string_view collective, std::string_view algorithm);

/// A few sizes, for a quick look.
std::vector<rank> sample_sizes();

struct verify_plan {
  std::vector<verify_case> worlds{};
  std::vector<std::string> objections{};  ///< why algorithms cannot serve the wish, or a part of it; few are kept
};

/// Every world the wish asks for that an algorithm can serve, algorithms one after the other, largest world last.
///
/// Without sizes: every P up to 65, the neighbourhoods of larger powers of two, 1000 and 4096; up to 129 where about
/// P^2 messages or blocks are, and for partial sparse allreduces; up to 1024 for other sparse ones. Without counts: 0,
/// 1, P-1, P, P+1 and 1000; of sparse allreduces 0, 1 and 1000 (partial: 1000), with 0, 1 and 10 items (partial: 10).
/// In place and not, where both are possible; in all variants (variants_of; of sparse ones with room for equal shares,
/// and with reused thresholds, where these make a difference), beyond 17 ranks in one of the dense variants, drawn anew
/// for each size, count and activation; up to 16 ranks three roots, then one; and partial ones started by every rank's
/// own call, by one, and by half of them.
verify_plan plan(const verify_wish& wish);

std::string_view collective_of(const verify_case& world);

/// "allreduce/tree, 7 ranks, count 1000, in place"
std::string text_of(const verify_case& world);

postcondition promise_of(const verify_case& world);

/// What verify is to know beside the promise.
verify_options options_of(const verify_case& world);

/// The schedules of all ranks.
result<std::vector<schedule_ptr>> generate_world(const verify_case& world);

}  // namespace lsched::cli
