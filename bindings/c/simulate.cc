// Simulations: the C face of libsched/simulate.
#include <algorithm>
#include <array>

#include "bindings/c/sized.h"
#include "bindings/c/sparse.h"
#include "bindings/c/words.h"
#include "bindings/c/world.h"
#include "libsched/schedule/schedule_file.h"
#include "libsched/simulate/schedule_world.h"

namespace lsched {
namespace {

constexpr rank k_most_ranks = 1 << 24;
constexpr double k_longest_ns = 1e12;
constexpr double k_ps_per_ns = 1e3, k_fs_per_ns = 1e6;

failure argument(std::string text) { return {status::argument, std::move(text)}; }

lsched_simulate_desc default_desc() {
  const machine where;
  const loggops& cost = where.levels.front().cost;
  const auto ns = [](picoseconds time) { return static_cast<double>(time) / k_ps_per_ns; };
  const auto ns_per_byte = [](femtoseconds time) { return static_cast<double>(time) / k_fs_per_ns; };
  return {.struct_size = sizeof(lsched_simulate_desc),
          .round = 1,
          .L = ns(cost.L),
          .o = ns(cost.o),
          .g = ns(cost.g),
          .G = ns_per_byte(cost.G),
          .O = ns_per_byte(cost.O),
          .compute = ns_per_byte(where.compute),
          .S = where.S};
}

result<machine> read_machine(const lsched_simulate_desc& desc) {
  const std::array times{desc.L, desc.o, desc.g, desc.G, desc.O, desc.compute};
  if (!std::ranges::all_of(times, [](double time) { return time >= 0 && time <= k_longest_ns; }))
    return argument("L, o, g, G, O or compute is not from 0 to 1e12 ns");
  machine where{.S = desc.S, .compute = rounded(desc.compute * k_fs_per_ns)};
  where.levels.front().cost = {.L = rounded(desc.L * k_ps_per_ns),
                               .o = rounded(desc.o * k_ps_per_ns),
                               .g = rounded(desc.g * k_ps_per_ns),
                               .G = rounded(desc.G * k_fs_per_ns),
                               .O = rounded(desc.O * k_fs_per_ns)};
  return where;
}

/// Every schedule is packed and dropped before the next is made.
template <class Generate>
result<packed_world> generated(rank size, const Generate& generate) {
  packed_world world(size);
  for (rank r = 0; r < size; ++r) {
    const auto program = generate(lsched::world{r, size});
    if (!program) return program.error();
    if (auto why = world.add(*program)) return std::move(*why);
  }
  if (auto why = world.finish()) return std::move(*why);
  return world;
}

result<packed_world> world_of_text(const lsched_simulate_desc& desc) {
  const auto ranks = parse_world({desc.text, desc.bytes});
  if (!ranks) return ranks.error();
  return packed_world::of(*ranks);
}

result<packed_world> world_of_collective(const lsched_simulate_desc& desc) {
  const auto asked = read_collective({.collective = desc.collective,
                                      .algorithm = desc.algorithm,
                                      .ranks = desc.ranks,
                                      .root = desc.root,
                                      .count = desc.count,
                                      .dtype = desc.dtype,
                                      .reduction = desc.reduction,
                                      .activation = desc.activation,
                                      .in_place = false},
                                     k_most_ranks);
  if (!asked) return asked.error();
  return generated(desc.ranks, [&](world place) { return asked->how->generate(place, asked->data, asked->starts); });
}

result<packed_world> world_of_sparse(const lsched_simulate_desc& desc) {
  if (auto why = validate_ranks(desc.ranks, k_most_ranks)) return std::move(*why);
  const auto known = read_struct(desc.sparse);
  if (!known) return known.error();
  auto asked = read_question({0, desc.ranks}, *known);
  if (!asked) return asked.error();
  return generated(desc.ranks, [&](world place) {
    asked->problem.place = place;
    return asked->how->generate(asked->problem);
  });
}

result<packed_world> read_world(const lsched_simulate_desc& desc) {
  const std::array<const void*, 3> sources{desc.text, desc.collective, desc.sparse};
  if (std::ranges::count(sources, nullptr) != 2) return argument("text, collective and sparse: not exactly one is set");
  if (desc.text != nullptr) return world_of_text(desc);
  return desc.sparse != nullptr ? world_of_sparse(desc) : world_of_collective(desc);
}

result<start_skew> read_starts(const lsched_simulate_desc& desc, rank size) {
  if (desc.starts_ns == nullptr) return start_skew{};
  start_skew starts{.kind = skew_kind::listed};
  for (rank r = 0; r < size; ++r) {
    const auto start = static_cast<double>(desc.starts_ns[r]);
    if (start > k_longest_ns) return argument("starts_ns[" + std::to_string(r) + "] is above 1e12");
    starts.samples.push_back(rounded(start * k_ps_per_ns));
  }
  return starts;
}

result<simulation_report> simulated(const lsched_simulate_desc& desc) {
  if (desc.reserved != 0) return failure{status::version, "lsched_simulate_desc.reserved is not zero"};
  if (desc.round == 0 || desc.round >= k_last_round) return argument("round is 0, or too large");
  const auto where = read_machine(desc);
  if (!where) return where.error();
  const auto world = read_world(desc);
  if (!world) return world.error();
  if (desc.initiator < 0 || desc.initiator >= world->size()) return argument("initiator is not a rank");
  const auto starts = read_starts(desc, world->size());
  if (!starts) return starts.error();
  return simulate_schedules(*world,
                            {.where = *where, .skew = *starts, .instance = desc.round, .initiator = desc.initiator});
}

}  // namespace
}  // namespace lsched

using namespace lsched;

extern "C" {

void lsched_simulate_desc_init_sized(lsched_simulate_desc* desc, size_t bytes) {
  init_struct(desc, bytes, default_desc());
}

lsched_status lsched_simulate(const lsched_simulate_desc* desc, lsched_simulation* simulation, uint64_t* finish_ps,
                              uint64_t most_ranks, lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] {
    if (desc == nullptr || simulation == nullptr || (finish_ps == nullptr && most_ranks > 0))
      return report(diagnostic, argument("desc, simulation or finish_ps is null"));
    if (!is_there(simulation))
      return report(diagnostic, refusal_of(published_as(simulation), &simulation->struct_size));
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
