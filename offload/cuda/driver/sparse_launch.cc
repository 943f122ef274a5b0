#include "offload/cuda/driver/sparse_launch.h"

#include <algorithm>
#include <cstddef>

#include "offload/cuda/kernels/select.h"

namespace lsched {
namespace {

constexpr std::uint32_t k_narrowing_threads = 64;  // number of threads of the block that runs `narrow`
// Maximum number of blocks in a counting pass. More blocks would be slower, because each block adds its own counters to
// those of the grid.
constexpr std::uint32_t k_most_counters = 4096;

/// Returns the number of threads in a block that processes tiles.
constexpr std::uint32_t tile_threads(std::uint64_t count) { return threads_for(parts(count, k_select_own)); }

constexpr std::uint64_t tiles_of(std::uint64_t count) {
  return parts(count, std::uint64_t{tile_threads(count)} * k_select_own * k_select_rows);
}

unsigned magnitude_bits(dtype type) { return static_cast<unsigned>(8 * size_of(type) - 1); }

/// Adds the launches of the counting passes to `all`. Each pass determines a few bits of the k-th magnitude, the
/// highest bits first. The first pass also adds the gradient to the residual.
void add_counting_passes(const sparse_selection& job, device_arguments with, launch_list& all) {
  // Number of elements of the residual that a thread processes at once.
  const std::uint64_t vector = job.type == dtype::f64 ? 2 : 4;
  device_grid grid = grid_for(parts(job.count, vector));
  grid.blocks = std::min(grid.blocks, k_most_counters);
  for (unsigned left = magnitude_bits(job.type); left > 0;) {
    with.bits = std::min(left, k_select_bits);
    left -= with.bits;
    with.shift = left;
    all.add({function_of(vector_step::count, job.type), grid, with});
    with.a = nullptr;
    if (job.k == 0) return;
    all.add({function_of(vector_step::narrow, job.type), {1, k_narrowing_threads}, with});
  }
}

}  // namespace

device_launch launch_of_clearing(void* memory, std::uint64_t bytes) {
  return {function_of(vector_step::clear, dtype::f32),
          grid_for(parts(bytes, k_device_vector_bytes)),
          {.c = memory, .count = bytes}};
}

std::uint64_t selection_workspace_bytes(std::uint64_t count) {
  return offsetof(select_workspace, tiles) + tiles_of(count) * sizeof(select_tally);
}

launch_list launches_of(const sparse_selection& job, void* workspace) {
  launch_list all;
  if (job.count == 0) return all;
  const std::uint64_t tiles = tiles_of(job.count);
  const device_arguments with{.a = job.gradient,
                              .c = job.residual,
                              .workspace = static_cast<double*>(workspace),
                              .count = job.count,
                              .x = job.scale,
                              .items = job.items,
                              .found = job.found,
                              .wanted = job.k,
                              .tiles = tiles,
                              .ignores_nan = job.ignores_nan};
  all.add(launch_of_clearing(workspace, offsetof(select_workspace, tiles)));
  add_counting_passes(job, with, all);
  if (job.k == 0) return all;
  const device_grid grid{static_cast<std::uint32_t>(tiles), tile_threads(job.count)};
  all.add({function_of(vector_step::tally, job.type), grid, with});
  all.add({function_of(vector_step::scan, job.type), {1, threads_for(tiles)}, with});
  all.add({function_of(vector_step::take, job.type), grid, with});
  return all;
}

launch_list launches_of(const sparse_settlement& job) {
  launch_list all;
  const auto over_items = [&](vector_step step, const sparse_settlement::list& list, void* vector,
                              std::uint64_t divisor) {
    if (list.count == 0) return;
    all.add({function_of(step, job.type),
             grid_for(list.count),
             {.a = list.items, .c = vector, .count = list.count, .divisor = divisor}});
  };
  if (job.count == 0) return all;
  if (job.least_dropped != 0)
    all.add({function_of(vector_step::drop, job.type),
             grid_for(job.count),
             {.c = job.residual, .count = job.count, .wanted = job.least_dropped}});
  if (job.clears_all)
    all.add(launch_of_clearing(job.update, job.count * size_of(job.type)));
  else
    over_items(vector_step::put, job.cleared, job.update, 0);
  over_items(vector_step::put, job.result, job.update, job.divisor);
  over_items(vector_step::leave, job.leaving, job.residual, 0);
  return all;
}

}  // namespace lsched
