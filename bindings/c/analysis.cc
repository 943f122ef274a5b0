// The C interface of verify.h and of libsched/simulate: proofs and simulations of schedules. No function needs a world.
#include <algorithm>
#include <array>
#include <cstring>

#include "bindings/c/sized.h"
#include "bindings/c/words.h"
#include "bindings/c/world.h"
#include "collectives/promise.h"
#include "collectives/requests/world_request.h"
#include "libsched/schedule/schedule_file.h"
#include "libsched/simulate/packed_world.h"
#include "libsched/simulate/simulated_round.h"
#include "libsched/verify/verify.h"

namespace lsched {
namespace {

// --- a collective of the registry --------------------------------------------------------------------------

template <class Desc>
collective_request read_request(const Desc& desc, rank root) {
  collective_request request{.collective = view_of(desc.collective),
                             .algorithm = view_of(desc.algorithm),
                             .count = desc.count,
                             .type = read_dtype(desc.dtype),
                             .reduction = read_optional_reduction(desc.reduction),
                             .root = root};
  if (desc.activation != nullptr) request.starts = read_activation(std::string_view(desc.activation));
  return request;
}

// --- proofs ------------------------------------------------------------------------------------------------

/// The schedules of a world, and the postcondition that they must satisfy.
struct question {
  std::vector<schedule_ptr> world;
  world_promise promise;
  aliasing in_place{};
};

/// Reads from the desc the values with which the text of the schedules must agree.
result<asked> read_asked(const lsched_verify_desc& desc) {
  const auto is_required = [&](std::uint32_t bit) { return (desc.required & bit) != 0; };
  asked by_caller{.collective = desc.collective == nullptr ? "" : desc.collective};
  if (is_required(LSCHED_REQUIRE_DTYPE)) {
    const auto type = read_dtype(desc.dtype);
    if (!type) return type.error();
    by_caller.type = *type;
  }
  if (is_required(LSCHED_REQUIRE_REDUCTION)) {
    const auto what = read_reduction(desc.reduction);
    if (!what) return what.error();
    by_caller.what = *what;
  }
  if (is_required(LSCHED_REQUIRE_COUNT)) by_caller.count = desc.count;
  if (by_caller.count > k_max_count) return argument("count is above 2^48-1");
  if (is_required(LSCHED_REQUIRE_ROOT)) by_caller.root = desc.root;
  return by_caller;
}

result<question> read_text(const lsched_verify_desc& desc) {
  auto world = parse_world({desc.text, desc.bytes});
  if (!world) return world.error();
  auto by_caller = read_asked(desc);
  if (!by_caller) return by_caller.error();
  auto promise = promise_for(*world, *by_caller);
  if (!promise) return promise.error();
  if ((desc.required & LSCHED_REQUIRE_PROMISE) != 0 && promise->of == nullptr)
    return argument("LSCHED_REQUIRE_PROMISE is set, but the expected outputs of \"" + world->front()->name() +
                    "\" are not known: set collective, or clear this bit");
  const aliasing in_place = desc.in_place != 0 ? promise->in_place : aliasing(false);
  return question{std::move(*world), std::move(*promise), in_place};
}

result<question> read_registered(const lsched_verify_desc& desc) {
  const auto named = choose_for_world(read_request(desc, 0), desc.ranks, k_most_proved, desc.in_place != 0);
  if (!named) return named.error();
  const auto& [how, data, starts] = *named;
  auto world = generate_world(*how, desc.ranks, data, starts);
  if (!world) return world.error();
  const aliasing in_place = aliasing_of(*how->of, desc.ranks, data);
  return question{
      std::move(*world), {how->of, how, data, promise_of(*how, desc.ranks, data, starts), in_place}, in_place};
}

void write(lsched_finding& to, const finding& found) {
  to = {.property = name_of(found.what).data(),
        .rank = found.where,
        .peer = found.peer,
        .op = found.op,
        .buffer = found.buffer == k_no_buffer ? UINT32_MAX : found.buffer,
        .begin = found.begin,
        .end = found.end,
        .text = {}};
  std::memcpy(to.text, found.text.data(), std::min(found.text.size(), sizeof to.text - 1));
}

lsched_verification figures_of(const question& posed, const verification& answer) {
  const unexpected_bound worst = worst_unexpected(answer);
  const world_promise& promise = posed.promise;
  const bool moves_data = promise.of != nullptr && promise.of->moves_data;
  return {.holds = answer.holds() ? 1 : 0,
          .ranks = static_cast<std::int32_t>(posed.world.size()),
          .collective = promise.of == nullptr ? nullptr : promise.of->name.data(),
          .algorithm = promise.by == nullptr ? nullptr : promise.by->name.data(),
          .is_synchronising = answer.is_synchronising ? 1 : 0,
          .is_eager_safe = answer.is_eager_safe ? 1 : 0,
          .messages = answer.round_cost.messages,
          .bytes = answer.round_cost.bytes,
          .signals = answer.round_cost.signals,
          .signals_of_one = answer.round_cost.signals_of_one,
          .hops = answer.round_cost.hops,
          .unexpected_messages = worst.messages,
          .unexpected_bytes = worst.bytes,
          .findings = 0,
          .notes = 0,
          .count = promise.data.count,
          .dtype = moves_data ? number_of(promise.data.type) : lsched_dtype{},
          .reduction = number_of(promise.data.what),
          .root = promise.data.root,
          .reserved = 0};
}

// --- simulations -------------------------------------------------------------------------------------------

constexpr double k_longest_ns = 1e12;
constexpr double k_ps_per_ns = 1e3, k_fs_per_ns = 1e6;

result<machine> read_machine(const lsched_machine* given) {
  const lsched_machine from = given == nullptr ? lsched_machine LSCHED_DEFAULT_MACHINE : *given;
  const std::array times{from.L, from.o, from.g, from.G, from.O, from.compute};
  if (!std::ranges::all_of(times, [](double time) { return time >= 0 && time <= k_longest_ns; }))
    return argument(
        "a time of lsched_machine (L, o, g, G, O or compute) is not from 0 to 1e12 ns: set a time in this range");
  machine where{.S = from.S, .compute = rounded(from.compute * k_fs_per_ns)};
  where.levels.front().cost = {.L = rounded(from.L * k_ps_per_ns),
                               .o = rounded(from.o * k_ps_per_ns),
                               .g = rounded(from.g * k_ps_per_ns),
                               .G = rounded(from.G * k_fs_per_ns),
                               .O = rounded(from.O * k_fs_per_ns)};
  return where;
}

result<packed_world> world_of_text(const lsched_simulate_desc& desc) {
  const auto ranks = parse_world({desc.text, desc.bytes});
  if (!ranks) return ranks.error();
  return packed_world::of(*ranks);
}

result<packed_world> world_of_collective(const lsched_simulate_desc& desc) {
  const auto chosen = choose_for_world(read_request(desc, desc.root), desc.ranks, k_most_simulated, false);
  if (!chosen) return chosen.error();
  return packed_world::of(desc.ranks,
                          [&](world place) { return chosen->how->generate(place, chosen->data, chosen->starts); });
}

result<packed_world> world_of_sparse(const lsched_simulate_desc& desc) {
  if (auto why = validate_ranks(desc.ranks, k_most_simulated)) return std::move(*why);
  const auto known = read_struct(desc.sparse);
  if (!known) return known.error();
  const auto request = read_sparse({0, desc.ranks}, *known);
  if (!request) return request.error();
  auto chosen = choose(*request);
  if (!chosen) return chosen.error();
  return packed_world::of(desc.ranks, [&](world place) {
    chosen->problem.place = place;
    return chosen->how->generate(chosen->problem);
  });
}

result<packed_world> read_world(const lsched_simulate_desc& desc) {
  const std::array<const void*, 3> sources{desc.text, desc.collective, desc.sparse};
  if (std::ranges::count(sources, nullptr) != 2)
    return argument(
        "lsched_simulate_desc needs exactly one of text, collective and sparse: set one of these members, and leave "
        "the others null");
  if (desc.text != nullptr) return world_of_text(desc);
  return desc.sparse != nullptr ? world_of_sparse(desc) : world_of_collective(desc);
}

std::optional<failure> validate_starts(const lsched_simulate_desc& desc, rank size) {
  for (rank r = 0; desc.starts_ns != nullptr && r < size; ++r)
    if (static_cast<double>(desc.starts_ns[r]) > k_longest_ns)
      return argument("starts_ns[" + std::to_string(r) + "] is above the latest start, 1e12 ns: use an earlier start");
  return std::nullopt;
}

result<simulation_report> simulated(const lsched_simulate_desc& desc) {
  if (desc.reserved != 0)
    return failure{status::version, "lsched_simulate_desc.reserved is not zero: set this member to 0"};
  if (desc.round == 0 || desc.round >= k_last_round)
    return argument("round is " + std::to_string(desc.round) + ": use 1 or more");
  const auto where = read_machine(desc.machine);
  if (!where) return where.error();
  const auto world = read_world(desc);
  if (!world) return world.error();
  if (desc.initiator < 0 || desc.initiator >= world->size())
    return argument("initiator is " + std::to_string(desc.initiator) + ", not a rank of the world: use 0 to " +
                    std::to_string(world->size() - 1));
  if (auto why = validate_starts(desc, world->size())) return std::move(*why);
  simulated_round round{.where = *where, .instance = desc.round, .initiator = desc.initiator};
  if (desc.starts_ns != nullptr)
    round.starts = [&](rank r) { return rounded(static_cast<double>(desc.starts_ns[r]) * k_ps_per_ns); };
  return simulate_round(*world, round);
}

}  // namespace
}  // namespace lsched

using namespace lsched;

extern "C" {

lsched_status lsched_verify(const lsched_verify_desc* desc, lsched_verification* verification, lsched_finding* findings,
                            uint64_t most_findings, lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] {
    if (desc == nullptr || verification == nullptr || (findings == nullptr && most_findings > 0))
      return report(diagnostic, argument("desc, verification or findings is null"));
    if (!is_there(verification)) return report(diagnostic, refusal_of(verification));
    const auto known = read_struct(desc);
    if (!known) return report(diagnostic, known.error());
    constexpr std::uint32_t k_all_required = LSCHED_REQUIRE_PROMISE * 2 - 1;
    if (known->required > (known->text == nullptr ? 0 : k_all_required))
      return report(diagnostic, argument("required is " + std::to_string(known->required) +
                                         ": combine LSCHED_REQUIRE_REDUCTION, _DTYPE, _COUNT, _ROOT and _PROMISE, "
                                         "or set required to 0 if `text` is null"));
    if (!is_within(known->in_place, 0, 1)) return report(diagnostic, argument("in_place is neither 0 nor 1"));
    const auto posed = known->text != nullptr ? read_text(*known) : read_registered(*known);
    if (!posed) return report(diagnostic, posed.error());
    const lsched::verification answer = verify(
        posed->world, posed->promise.what,
        {.in_place = posed->in_place, .most_findings = most_findings, .buffers = {known->eager_bytes, known->slots}});
    lsched_verification figures = figures_of(*posed, answer);
    for (const finding& found : answer.findings)
      if (figures.findings < most_findings) write(findings[figures.findings++], found);
    for (const finding& found : answer.notes)
      if (figures.findings + figures.notes < most_findings) write(findings[figures.findings + figures.notes++], found);
    write_struct(verification, figures);
    return LSCHED_OK;
  });
}

lsched_status lsched_simulate(const lsched_simulate_desc* desc, lsched_simulation* simulation, uint64_t* finish_ps,
                              uint64_t most_ranks, lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] {
    if (desc == nullptr || simulation == nullptr || (finish_ps == nullptr && most_ranks > 0))
      return report(diagnostic, argument("desc, simulation or finish_ps is null"));
    if (!is_there(simulation)) return report(diagnostic, refusal_of(simulation));
    const auto known = read_struct(desc);
    if (!known) return report(diagnostic, known.error());
    const auto made = simulated(*known);
    if (!made) return report(diagnostic, made.error());
    std::copy_n(made->finish.begin(), std::min<std::size_t>(most_ranks, made->finish.size()), finish_ps);
    write_struct(simulation, {.ranks = static_cast<std::int32_t>(made->finish.size()),
                              .active = made->active,
                              .messages = made->messages,
                              .bytes = made->bytes,
                              .signals = made->signals,
                              .nic_waits = made->nic_waits,
                              .last_ps = static_cast<std::uint64_t>(made->last())});
    return LSCHED_OK;
  });
}

}  // extern "C"
