// Which worlds `lsched verify` proves.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bindings/cli/common/sparse_words.h"
#include "collectives/registry.h"
#include "libsched/verify/verify.h"

namespace lsched::cli {

/// One world: an algorithm, asked for one thing.
struct verify_case {
  const algorithm* what = nullptr;  ///< none: a sparse one
  const sparse_algorithm* sparse = nullptr;
  sparse_problem problem{};  ///< of that; its place is rank 0's
  rank size = 1;
  std::uint64_t count = 0;  ///< asked for; blocks may differ from it
  shape data;
  activation starts{};
};

/// Empty lists and names stand for everything.
struct verify_wish {
  std::string collective;
  std::string algorithm;
  std::string activation;
  std::vector<rank> sizes;
  std::vector<std::uint64_t> counts;
  std::vector<std::uint64_t> items{};  ///< k of sparse allreduces
};

/// The sizes that prove an algorithm: every P up to 65, the neighbourhoods of larger powers of two, 1000 and 4096.
std::vector<rank> all_sizes();

/// A few of them, for a quick look.
std::vector<rank> sample_sizes();

/// Every world the wish asks for that an algorithm can serve, largest last, algorithms one after the other. Without
/// sizes of its own it gets all_sizes(), where what is of about P^2 messages or blocks stops at 129;
/// without counts 0, 1, P-1, P, P+1 and 1000; in place and not, where both are possible; in all variants (variants_of);
/// up to 16 ranks three roots, then one; and partial ones started by every rank's own call, by one, and by half of
/// them.
std::vector<verify_case> plan(const verify_wish& wish);

/// Likewise of sparse allreduces: without items 0, 1 and 10, with room for everything and, where that makes a
/// difference, for equal shares. Of partial ones without counts 1000 alone, without items 10, and up to 129 ranks.
std::vector<verify_case> plan_sparse(const verify_wish& wish);

/// What the case is one of.
std::string_view collective_of(const verify_case& it);

/// "allreduce/tree, 7 ranks, count 1000, in place"
std::string text_of(const verify_case& it);

postcondition promise_of(const verify_case& it);

/// What verify is to know beside the promise.
verify_options options_of(const verify_case& it);

/// The schedules of all ranks. Throws command_failure.
std::vector<schedule_ptr> generate_world(const verify_case& it);

}  // namespace lsched::cli
