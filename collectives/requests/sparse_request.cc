#include "collectives/requests/sparse_request.h"

#include <new>
#include <utility>

#include "collectives/requests/agreement.h"
#include "collectives/requests/collective_request.h"
#include "libsched/session/memory_layout.h"
#include "ops/rules.h"

namespace lsched {
namespace {

constexpr sparse_problem k_defaults{};

result<const sparse_algorithm*> choose_algorithm(const sparse_request& request, const sparse_problem& problem) {
  const std::string_view wanted = request.algorithm.data() == nullptr ? "auto" : request.algorithm;
  const sparse_algorithm* const found = wanted == "auto" ? &choose_sparse(problem) : find_sparse(wanted);
  if (found == nullptr) {
    std::string names;
    for (const sparse_algorithm& one : sparse_algorithms()) names += ", " + std::string(one.name);
    return argument("sparse_allreduce has no algorithm \"" + std::string(wanted) + "\": choose auto" + names);
  }
  const sparse_problem& asked = request.problem;
  const bool is_plain = asked.capacity == k_defaults.capacity && asked.period == 0 &&
                        asked.boundaries == k_defaults.boundaries && asked.balance == k_defaults.balance &&
                        asked.selection == k_defaults.selection && asked.bucket == 0;
  if (!is_plain && wanted != "oktopk")
    return argument(
        "capacity, period, boundaries, balance, selection and bucket need algorithm \"oktopk\": set algorithm, "
        "or leave these members 0");
  return found;
}

/// The state of a sparse allreduce, and the functions that use this state. Both have the same lifetime.
struct local_part {
  explicit local_part(const sparse_problem& problem) : state(problem) {}
  sparse_state state;
  std::shared_ptr<sparse_functions> steps;
};

}  // namespace

result<sparse_choice> choose(const sparse_request& request) {
  sparse_problem problem = request.problem;
  if (problem.period == 0) problem.period = k_defaults.period;
  if (problem.scale == 0) problem.scale = k_defaults.scale;
  if (problem.reuse == 0) problem.reuse = k_defaults.reuse;
  if (auto why = validate_count(problem.count)) return std::move(*why);
  if (problem.selection != selection_rule::reused && request.problem.reuse != 0)
    return argument("only LSCHED_REUSED uses reuse: leave reuse 0");
  if (auto why = validate(problem)) return std::move(*why);
  const auto how = choose_algorithm(request, problem);
  if (!how) return how.error();
  return sparse_choice{problem, *how};
}

result<planned_sparse> plan(const sparse_request& request) {
  const auto chosen = choose(request);
  if (!chosen) return chosen.error();
  auto [problem, how] = *chosen;
  std::string agreement = agreement_of(problem, how->name);
  std::shared_ptr<local_part> local;
  try {
    local = std::make_shared<local_part>(problem);
    if (request.image) {
      if (auto why = local->state.load(*request.image)) return std::move(*why);
      problem.rounds_before = local->state.rounds();
      agreement += ", from an image of round " + std::to_string(problem.rounds_before) + " with common hash " +
                   std::to_string(local->state.common_hash());
    }
    local->steps = how->functions(problem, local->state);
  } catch (const std::bad_alloc&) {
    return failure{status::no_memory, "out of memory for a residual of " + std::to_string(problem.count) +
                                          " elements and lists of " + std::to_string(problem.k) + " items"};
  }
  return planned_sparse{{problem, how},
                        std::move(agreement),
                        std::shared_ptr<sparse_state>(local, &local->state),
                        std::shared_ptr<sparse_functions>(local, local->steps.get())};
}

std::optional<failure> validate_vectors(const sparse_request& request) {
  const std::uint64_t bytes = request.problem.count * size_of(request.problem.type);
  const bool is_missing = bytes > 0 && (request.gradient == nullptr || request.update == nullptr);
  const memory_layout apart{};
  return first_broken({{is_missing, "gradient or update is null"},
                       {!apart.fits({request.gradient, bytes}, {request.update, bytes}),
                        "gradient and update overlap: pass separate memory"}});
}

}  // namespace lsched
