// Runs jobs on sparse vectors (ops/sparse_job.h) on the host, as the reference for devices.
#pragma once

#include <cstring>
#include <vector>

#include "ops/sparse/sparse.h"
#include "ops/sparse_job.h"

namespace lsched::testing {

inline void run_on_host(const sparse_selection& job) {
  const std::uint64_t room = std::min(job.count, 2 * job.k);
  std::vector<std::byte> items(room * item_size(job.type));
  top_k_hint none{};
  const accumulation from{job.residual, job.gradient, job.scale, job.count};
  const nan_policy nans = job.ignores_nan ? nan_policy::ignore : nan_policy::propagate;
  const top_k_list found = sparse_kernels_of(job.type).top_k(from, job.k, nans, items.data(), room, none);
  if (found.count != 0) std::memcpy(job.items, items.data(), found.count * item_size(job.type));
  *job.found = found.count;
}

inline void run_on_host(const sparse_settlement& job) {
  const dtype wide = residual_of(job.type);
  const std::size_t width = size_of(job.type);
  auto* const residual = static_cast<std::byte*>(job.residual);
  auto* const update = static_cast<std::byte*>(job.update);
  for (std::uint64_t i = 0; job.least_dropped != 0 && i < job.count; ++i)
    if (magnitude_at(wide, residual + i * size_of(wide)) >= job.least_dropped)
      std::memset(residual + i * size_of(wide), 0, size_of(wide));
  if (job.clears_all && job.count != 0) std::memset(update, 0, job.count * width);
  for (std::uint64_t i = 0; !job.clears_all && i < job.cleared.count; ++i)
    std::memset(update + index_at(job.type, job.cleared.items, i) * width, 0, width);
  const sparse_kernels& kernels = sparse_kernels_of(job.type);
  kernels.scatter(job.result.items, job.result.count, job.divisor, update);
  kernels.settle(residual, job.leaving.items, job.leaving.count, job.leaving.items, job.leaving.count);
}

/// Runs a job whose vectors the host accesses at other addresses. `seen` maps the address of a vector to the address
/// for the host.
template <class Seen>
void run_on_host(const sparse_job& job, const Seen& seen) {
  if (const auto* const select = std::get_if<sparse_selection>(&job)) {
    sparse_selection here = *select;
    here.residual = seen(select->residual);
    here.gradient = seen(select->gradient);
    return run_on_host(here);
  }
  sparse_settlement here = std::get<sparse_settlement>(job);
  here.residual = seen(here.residual);
  here.update = seen(here.update);
  run_on_host(here);
}

}  // namespace lsched::testing
