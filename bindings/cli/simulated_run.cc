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

result<std::vector<schedule_ptr>> world_of(const simulate_options& options, const simulated_run& it) {
  if (!it.goal.empty()) return std::vector(it.goal.begin(), it.goal.end());
  const shape data = shape_of(options, it);
  std::vector<schedule_ptr> ranks;
  for (rank r = 0; r < it.ranks; ++r) {
    auto program = generate(options.collective, options.algorithm, {r, it.ranks}, data, it.what.starts);
    if (!program) return program.error();
    ranks.push_back(std::move(*program));
  }
  return ranks;
}

}  // namespace lsched::cli
