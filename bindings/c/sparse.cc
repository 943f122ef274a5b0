// Sparse allreduces of the C interface: check, describe, commit; and what lives from round to round.
#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "bindings/c/sized.h"
#include "bindings/c/sparse.h"
#include "bindings/c/words.h"
#include "bindings/c/world.h"

namespace lsched {
namespace {

failure refused(std::string why) { return {status::argument, std::move(why)}; }

constexpr std::uint32_t k_period = 64, k_reuse = 32;

/// The problem of a rank, of which place and type are known to be right.
result<sparse_problem> read_problem(world place, const lsched_sparse_desc& desc) {
  const auto data = read_shape(desc.count, desc.dtype);
  if (!data) return data.error();
  if (desc.capacity < LSCHED_STRICT || desc.capacity > LSCHED_DEFER)
    return refused("capacity is not an lsched_capacity");
  if (desc.boundaries < LSCHED_POOLED || desc.boundaries > LSCHED_AVERAGED)
    return refused("boundaries is not an lsched_boundaries");
  if (desc.balance < LSCHED_BALANCE_BY_COST || desc.balance > LSCHED_BALANCE_NEVER)
    return refused("balance is not an lsched_balance");
  if (desc.selection < LSCHED_EXACT || desc.selection > LSCHED_REUSED)
    return refused("selection is not an lsched_selection");
  if (desc.selection != LSCHED_REUSED && desc.reuse != 0) return refused("reuse is of LSCHED_REUSED: leave it 0");
  if (desc.nans < LSCHED_NAN_PROPAGATE || desc.nans > LSCHED_NAN_ERROR)
    return refused("nans is not an lsched_nan_policy");
  const sparse_problem problem{.count = desc.count,
                               .k = desc.k,
                               .place = place,
                               .type = data->type,
                               .capacity = static_cast<capacity_policy>(desc.capacity),
                               .boundaries = static_cast<boundary_rule>(desc.boundaries),
                               .period = desc.period == 0 ? k_period : desc.period,
                               .scale = desc.scale == 0 ? 1 : desc.scale,
                               .nans = static_cast<nan_policy>(desc.nans),
                               .balance = static_cast<balance_rule>(desc.balance),
                               .selection = static_cast<selection_rule>(desc.selection),
                               .reuse = desc.reuse == 0 ? k_reuse : desc.reuse,
                               .bucket = desc.bucket};
  if (auto why = validate(problem)) return std::move(*why);
  return problem;
}

std::optional<failure> validate_memory(const lsched_sparse_desc& desc, const sparse_problem& problem) {
  const std::uint64_t bytes = problem.count * size_of(problem.type);
  if (bytes == 0) return std::nullopt;
  if (desc.gradient == nullptr || desc.update == nullptr) return refused("gradient or update is null");
  const auto gradient = reinterpret_cast<std::uintptr_t>(desc.gradient);
  const auto update = reinterpret_cast<std::uintptr_t>(desc.update);
  if (gradient < update + bytes && update < gradient + bytes) return refused("gradient and update overlap");
  return std::nullopt;
}

result<const sparse_algorithm*> read_algorithm(const lsched_sparse_desc& desc, const sparse_problem& problem) {
  const std::string_view wanted = desc.algorithm == nullptr ? "auto" : desc.algorithm;
  const sparse_algorithm* const found = wanted == "auto" ? &choose_sparse(problem) : find_sparse(wanted);
  if (found == nullptr) {
    std::string names;
    for (const sparse_algorithm& it : sparse_algorithms()) names += ", " + std::string(it.name);
    return refused("there is no sparse allreduce \"" + std::string(wanted) + "\": choose auto" + names);
  }
  const bool is_plain = desc.capacity == LSCHED_STRICT && desc.period == 0 && desc.boundaries == LSCHED_POOLED &&
                        desc.balance == LSCHED_BALANCE_BY_COST && desc.selection == LSCHED_EXACT && desc.bucket == 0;
  if (!is_plain && wanted != "oktopk")
    return refused(
        "capacity, period, boundaries, balance, selection and bucket are of \"oktopk\", which has to be asked for: "
        "leave them 0");
  return found;
}

/// All that ranks have to agree about, in words.
std::string agreement_of(const sparse_problem& it, std::string_view algorithm) {
  constexpr std::array k_capacities{"strict", "defer"}, k_boundaries{"pooled", "averaged"};
  constexpr std::array k_selections{"exact", "reused"};
  constexpr std::array k_nans{"propagate", "ignore", "error"};
  constexpr std::array k_balances{"cost", "published", "always", "never"};
  const auto named = [](const auto& names, auto which) { return std::string(names[static_cast<std::size_t>(which)]); };
  std::string text = "sparse_allreduce " + std::string(algorithm) + " " + std::string(name_of(it.type)) + " count " +
                     std::to_string(it.count) + " k " + std::to_string(it.k) + ", nans " + named(k_nans, it.nans);
  if (algorithm != "oktopk") return text;
  text += ", " + named(k_capacities, it.capacity) + ", " + named(k_boundaries, it.boundaries) + " every " +
          std::to_string(it.period) + ", balance " + named(k_balances, it.balance) + ", " +
          named(k_selections, it.selection);
  if (it.selection == selection_rule::reused) text += " " + std::to_string(it.reuse);
  return text + ", bucket " + std::to_string(it.bucket);
}

/// What functions use lives as long as they do.
struct local_part {
  explicit local_part(const sparse_problem& problem) : state(problem) {}
  sparse_state state;
  std::shared_ptr<sparse_functions> steps;
};

struct described {
  commit_request request;
  std::shared_ptr<sparse_state> state{};
  std::shared_ptr<sparse_functions> steps{};
};

described describe(lsched_world* world, const lsched_sparse_desc& desc) {
  const std::string nothing = "a sparse allreduce with bad arguments";
  auto asked = read_request(world->joined.place(), desc);
  if (!asked) return {{nothing, asked.error()}};
  if (auto why = validate_memory(desc, asked->problem)) return {{nothing, *why}};
  return {{std::move(asked->agreement),
           asked->how->generate(asked->problem),
           {{static_cast<const std::byte*>(desc.gradient)}, {static_cast<std::byte*>(desc.update)}},
           {.local = asked->steps}},
          std::move(asked->state),
          asked->steps};
}

lsched_status create(lsched_world* world, const lsched_sparse_desc* desc, lsched_schedule** schedule,
                     lsched_diagnostic* diagnostic) {
  const auto known = read_struct(desc);
  described all = known ? describe(world, *known) : described{{"a sparse allreduce with bad arguments", known.error()}};
  const lsched_status answer = commit(world, std::move(all.request), schedule, diagnostic);
  if (answer != LSCHED_OK) return answer;
  (*schedule)->residual = std::move(all.state);
  (*schedule)->sparse = std::move(all.steps);
  return answer;
}

round_no rounds_of(const instance& it) {
  const round_no finished = it.finished.load();
  return finished == k_last_round ? it.round : finished;
}

lsched_sparse_stats stats_of(const lsched_schedule& schedule) {
  lsched_sparse_stats all{.rounds = rounds_of(*schedule.instance)};
  const auto buffers = schedule.instance->program->buffers();
  for (std::size_t b = 0; b < buffers.size(); ++b) {
    const traffic& one = schedule.instance->moved[b];
    all.messages_sent += one.messages_sent;
    all.messages_received += one.messages_received;
    (buffers[b].has_lists() ? all.item_bytes_sent : all.other_bytes_sent) += one.bytes_sent;
    (buffers[b].has_lists() ? all.item_bytes_received : all.other_bytes_received) += one.bytes_received;
  }
  return all;
}

bool is_sparse(const lsched_schedule* schedule) { return schedule != nullptr && schedule->residual != nullptr; }
bool has_items(const lsched_schedule* schedule) {
  return is_sparse(schedule) || (schedule != nullptr && schedule->coo != nullptr);
}

/// Between rounds the state is the caller's. What begins rounds of a partial schedule is not his alone: nothing does
/// while he looks.
template <class Look>
lsched_status between_rounds(const lsched_schedule* schedule, Look&& look) {
  if (!is_sparse(schedule)) return LSCHED_ERR_ARGUMENT;
  const auto answer_of = [&] {
    return is_between_rounds(*schedule->instance) ? guarded(nullptr, [&] { return look(*schedule->residual); })
                                                  : LSCHED_ERR_STATE;
  };
  if (!schedule->is_partial()) return answer_of();
  lsched_status answer = LSCHED_ERR_STATE;
  schedule->world->process.driver().with_engine([&] { answer = answer_of(); });
  return answer;
}

}  // namespace

result<sparse_question> read_question(world place, const lsched_sparse_desc& desc) {
  const auto problem = read_problem(place, desc);
  if (!problem) return problem.error();
  const auto how = read_algorithm(desc, *problem);
  if (!how) return how.error();
  return sparse_question{*problem, *how};
}

result<sparse_request> read_request(world place, const lsched_sparse_desc& desc) {
  const auto asked = read_question(place, desc);
  if (!asked) return asked.error();
  const auto& [problem, how] = *asked;
  std::shared_ptr<local_part> local;
  try {
    local = std::make_shared<local_part>(problem);
    local->steps = how->functions(problem, local->state);
  } catch (const std::bad_alloc&) {
    return failure{status::no_memory, "there is no memory for a residual of " + std::to_string(problem.count) +
                                          " elements and lists of " + std::to_string(problem.k)};
  }
  return sparse_request{*asked, agreement_of(problem, how->name), std::shared_ptr<sparse_state>(local, &local->state),
                        std::shared_ptr<sparse_functions>(local, local->steps.get())};
}

}  // namespace lsched

using namespace lsched;

extern "C" {

lsched_status lsched_sparse_create(lsched_world* world, const lsched_sparse_desc* desc, lsched_schedule** schedule,
                                   lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] {
    if (world == nullptr) return report(diagnostic, {status::argument, "world is null"});
    return create(world, desc, schedule, diagnostic);
  });
}

lsched_status lsched_sparse_get_stats(const lsched_schedule* schedule, lsched_sparse_stats* stats) {
  if (!has_items(schedule) || !is_there(stats)) return LSCHED_ERR_ARGUMENT;
  schedule->world->process.driver().with_engine([&] { write_struct(stats, stats_of(*schedule)); });
  return LSCHED_OK;
}

lsched_status lsched_sparse_residual(const lsched_schedule* schedule, void** residual, lsched_dtype* dtype) {
  if (residual == nullptr || dtype == nullptr) return LSCHED_ERR_ARGUMENT;
  return between_rounds(schedule, [&](sparse_state& state) {
    *residual = state.residual();
    *dtype = number_of(state.residual_type());
    return LSCHED_OK;
  });
}

lsched_status lsched_sparse_save(const lsched_schedule* schedule, void* image, size_t bytes, size_t* needed) {
  return between_rounds(schedule, [&](const sparse_state& state) {
    const std::vector<std::byte> all = state.save();
    if (needed != nullptr) *needed = all.size();
    if (image == nullptr) return needed != nullptr ? LSCHED_OK : LSCHED_ERR_ARGUMENT;
    if (bytes < all.size()) return LSCHED_ERR_ARGUMENT;
    std::memcpy(image, all.data(), all.size());
    return LSCHED_OK;
  });
}

lsched_status lsched_sparse_load(lsched_schedule* schedule, const void* image, size_t bytes) {
  return between_rounds(schedule, [&](sparse_state& state) {
    if (image == nullptr) return LSCHED_ERR_ARGUMENT;
    const auto why = state.load({static_cast<const std::byte*>(image), bytes});
    return why ? report(nullptr, *why) : LSCHED_OK;
  });
}

}  // extern "C"
