#include <CLI/Error.hpp>
#include <array>
#include <atomic>
#include <cstdio>
#include <utility>

#include "bindings/cli/common/errors.h"
#include "bindings/cli/common/given_file.h"
#include "bindings/cli/common/parallel.h"
#include "bindings/cli/simulate/simulate.h"
#include "bindings/progress_line.h"
#include "collectives/algorithm/algorithm.h"
#include "collectives/registry.h"
#include "collectives/requests/sample_requests.h"
#include "collectives/requests/world_request.h"
#include "libsched/schedule/schedule_file.h"
#include "ops/counted.h"

namespace lsched::cli {
namespace {

/// Returns the request that is passed to the generators of schedules.
shape shape_of(const simulate_options& options, const simulated_run& run) {
  const collective* known = find_collective(options.collective);
  if (known == nullptr) return {};
  const dtype type = known->adapts ? dtype::f32 : dtype::u8;
  collective_request what{.count = run.bytes / size_of(type), .type = type, .reduction = kernel::sum};
  if (options.ranks_per_node != 0) what.nodes = nodes_of_neighbors(run.ranks, options.ranks_per_node);
  return shape_of(*known, run.ranks, what);
}

/// Fills in the members of a run whose schedules are generated.
void complete(simulated_run& run, const simulate_options& options) {
  const collective* const known = find_collective(options.collective);
  if (known != nullptr && known->activates) run.starts = require(read_activation(options.activation));
  run.starts.seed = run.seed;
  if (options.collective == k_sparse_allreduce) {
    run.sparse = find_sparse(options.algorithm);
    run.problem = {.count = options.count, .k = items_of(options.k, options.count)};
  }
  const algorithm* how = lsched::find(options.collective, options.algorithm);
  if (how != nullptr && how->of->adapts && how->looks_at.nodes)
    run.warning = node_warning(*how, run.ranks, shape_of(options, run));
}

}  // namespace

std::vector<simulated_run> runs_of(const simulate_options& options) {
  const std::vector<schedule_ptr>& given = options.given;
  simulation model = options.model;
  std::vector<simulated_run> runs;
  const auto add = [&](rank ranks, std::uint64_t bytes) {
    if (model.initiator >= ranks)
      throw CLI::ValidationError("--initiator", "rank " + std::to_string(model.initiator) +
                                                    " does not exist in a world of " + counted(ranks, "rank"));
    if (!given.empty() && model.initiator != 0 && given.front()->starts().policy != activation_policy::majority)
      throw CLI::ValidationError("--initiator",
                                 "has no effect, because the activation of the schedules is not majority");
    for (const std::uint64_t seed : options.seeds) {
      model.skew.seed = model.noise.seed = seed;
      runs.push_back({.ranks = ranks, .bytes = bytes, .seed = seed, .model = model});
      if (given.empty()) complete(runs.back(), options);
    }
  };
  if (!given.empty()) add(static_cast<rank>(given.size()), 0);
  for (const rank ranks : given.empty() ? options.ranks : std::vector<rank>{})
    for (const std::uint64_t bytes : options.bytes)
      add(ranks, options.rounds_bytes ? usual_count(options.collective, options.algorithm, ranks, bytes) : bytes);
  return runs;
}

schedule_generator generator_of(const simulate_options& options, const simulated_run& run) {
  if (!options.given.empty())
    return
        [&options](world place) -> result<schedule_ptr> { return options.given[static_cast<std::size_t>(place.self)]; };
  if (run.sparse != nullptr)
    return [&run](world place) {
      sparse_problem problem = run.problem;
      problem.place = place;
      return run.sparse->generate(problem);
    };
  return [&options, &run, data = shape_of(options, run)](world place) {
    return generate(options.collective, options.algorithm, place, data, run.starts);
  };
}

void run_batch(std::size_t count,
               const std::function<result<simulation_report>(std::size_t, const simulation_progress&)>& simulate,
               const std::function<void(std::size_t, const simulation_report&)>& done) {
  std::atomic<std::size_t> finished = 0;
  std::atomic<std::uint64_t> messages = 0;
  progress_line line;
  const auto show = [&] {
    line.show([&] {
      std::array<char, 100> text{};
      std::snprintf(text.data(), text.size(), "simulating: %zu of %zu done, %.1f M messages", finished.load(), count,
                    static_cast<double>(messages.load()) / 1e6);
      return std::string(text.data());
    });
  };
  const auto job = [&](std::size_t i) {
    return require(simulate(i, [&, told = std::uint64_t{0}](std::uint64_t now) mutable {
      messages += now - std::exchange(told, now);
      show();
    }));
  };
  in_order(count, job, [&](std::size_t i, const simulation_report& report) {
    {
      const auto held = line.erase();
      done(i, report);
    }
    ++finished;
    show();
  });
}

result<packed_world> packed_in_parallel(rank size, const schedule_generator& generate) {
  constexpr rank k_batch = 256;
  packed_world all(size);
  std::optional<failure> why;
  progress_line line;
  const auto make = [&](std::size_t batch) {
    std::vector<result<schedule_ptr>> made;
    const rank first = static_cast<rank>(batch) * k_batch;
    for (rank r = first; r < std::min(size, first + k_batch); ++r) made.push_back(generate(world{r, size}));
    return made;
  };
  in_order(
      (static_cast<std::size_t>(size) + k_batch - 1) / k_batch, make,
      [&](std::size_t batch, const std::vector<result<schedule_ptr>>& made) {
        line.show([&] { return "schedules of " + std::to_string(batch * k_batch) + " of " + counted(size, "rank"); });
        for (const auto& program : made)
          if (!why) why = program ? all.add(*program) : std::optional(program.error());
      });
  if (!why) why = all.finish();
  if (why) return std::move(*why);
  return all;
}

}  // namespace lsched::cli
