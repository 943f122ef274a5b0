#include "bindings/cli/simulate/simulated_run.h"

#include "bindings/cli/common/parallel_packing.h"
#include "bindings/cli/common/words.h"

namespace lsched::cli {

shape shape_of(const simulate_options& options, const simulated_run& it) {
  const collective* of = find_collective(options.collective);
  const dtype type = of != nullptr && (of->adapts || of->has_owners) ? dtype::f32 : dtype::u8;
  const std::uint64_t count = it.bytes / size_of(type);
  shape data = of == nullptr ? shape{} : typical_shape(*of, it.ranks, count, type, kernel::sum);
  if (of != nullptr && options.ranks_per_node != 0) set_nodes(data, *of, it.ranks, options.ranks_per_node);
  return data;
}

namespace {

/// What makes one rank of it. Not of a file.
std::function<result<schedule_ptr>(world)> generator_of(const simulate_options& options, const simulated_run& it) {
  if (it.sparse != nullptr)
    return [&it](world place) {
      sparse_problem problem = it.problem;
      problem.place = place;
      return it.sparse->generate(problem);
    };
  return [&options, &it, data = shape_of(options, it)](world place) {
    return generate(options.collective, options.algorithm, place, data, it.starts);
  };
}

}  // namespace

result<packed_world> packed_world_of(const simulate_options& options, const simulated_run& it) {
  if (!it.given.empty()) return packed_world::of(it.given);
  return packed_in_parallel(it.ranks, generator_of(options, it));
}

result<std::vector<schedule_ptr>> world_of(const simulate_options& options, const simulated_run& it) {
  if (!it.given.empty()) return std::vector(it.given.begin(), it.given.end());
  const auto make = generator_of(options, it);
  std::vector<schedule_ptr> ranks;
  for (rank r = 0; r < it.ranks; ++r) {
    auto program = make({r, it.ranks});
    if (!program) return program.error();
    ranks.push_back(std::move(*program));
  }
  return ranks;
}

}  // namespace lsched::cli
