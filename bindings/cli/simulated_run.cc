#include "bindings/cli/simulated_run.h"

#include "bindings/cli/words.h"

namespace lsched::cli {

shape shape_of(const simulate_options& options, const simulated_run& it) {
  const collective* of = find_collective(options.collective);
  const dtype type = of != nullptr && (of->adapts || of->has_owners) ? dtype::f32 : dtype::u8;
  const std::uint64_t count = it.bytes / size_of(type);
  shape data = of == nullptr ? shape{} : typical_shape(*of, it.ranks, count, type, kernel::sum);
  if (of != nullptr && options.ranks_per_node != 0) set_nodes(data, *of, it.ranks, options.ranks_per_node);
  return data;
}

result<schedule_ptr> rank_of(const simulate_options& options, const simulated_run& it, world place) {
  if (it.sparse == nullptr)
    return generate(options.collective, options.algorithm, place, shape_of(options, it), it.what.starts);
  sparse_problem problem = it.problem;
  problem.place = place;
  return it.sparse->generate(problem);
}

result<std::vector<schedule_ptr>> world_of(const simulate_options& options, const simulated_run& it) {
  if (!it.goal.empty()) return std::vector(it.goal.begin(), it.goal.end());
  std::vector<schedule_ptr> ranks;
  for (rank r = 0; r < it.ranks; ++r) {
    auto program = rank_of(options, it, {r, it.ranks});
    if (!program) return program.error();
    ranks.push_back(std::move(*program));
  }
  return ranks;
}

}  // namespace lsched::cli
