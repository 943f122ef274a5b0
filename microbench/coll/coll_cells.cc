#include "microbench/coll/coll_cells.h"

#include <algorithm>
#include <array>

#include "collectives/registry.h"
#if LSCHED_HAVE_MPI
#include "microbench/coll/mpi_rival.h"
#endif

namespace lsched::bench {

#if !LSCHED_HAVE_MPI
class mpi_rival {};  // never made
#endif

namespace {

bool wants_in_place(const coll_options& options, const exercise_kind& kind, bool in_place) {
  return !in_place || (kind.can_be_in_place && options.has_in_place);
}

/// What `--algorithm` asks of a collective: one name, or all it has.
std::vector<std::string> algorithms_for(const coll_options& options, const std::string& collective_name) {
  const collective* const of = find_collective(collective_name);
  if (of == nullptr) throw agreed("libsched has no " + collective_name);
  if (options.algorithm != "all") return {options.algorithm};
  std::vector<std::string> names;
  for (const algorithm& each : algorithms())
    if (each.of == of) names.emplace_back(each.name);
  if (names.empty()) throw agreed("libsched has no algorithm for " + collective_name);
  return names;
}

/// Null, on all ranks, where some rank says that the algorithm cannot do this. Throws `agreed` for other failures.
schedule_handle make_schedule(team& ranks, const exercise& what, const std::string& algorithm, const float* input,
                              float* output) {
  const collective& of = *find_collective(what.kind().name);
  const std::vector<std::uint64_t> counts(static_cast<std::size_t>(what.size()), what.count());
  const bool has_counts = of.has_counts || of.has_blocks;
  const lsched_collective_desc desc{.struct_size = sizeof desc,
                                    .collective = what.kind().name,
                                    .input = input,
                                    .output = output,
                                    .count = has_counts ? 0 : what.count(),
                                    .counts = has_counts ? counts.data() : nullptr,
                                    .recv_counts = of.has_blocks ? counts.data() : nullptr,
                                    .dtype = LSCHED_F32,
                                    .reduction = of.reduces ? LSCHED_SUM : lsched_reduction{},
                                    .algorithm = algorithm.c_str()};
  lsched_schedule* schedule = nullptr;
  auto why = fresh_diagnostic();
  const lsched_status answer = lsched_collective_create(ranks.runtime(), &desc, &schedule, &why);
  schedule_handle made(schedule);
  if (ranks.combine(answer == LSCHED_ERR_CONSTRAINT ? 1.0 : 0.0, LSCHED_MAX) > 0) return nullptr;
  if (answer != LSCHED_OK) throw agreed(why.text);
  return made;
}

}  // namespace

cell_set::buffers cell_set::in(buffers apart, bool in_place) const {
  if (!in_place) return {what_.inputs() > 0 ? apart.input : nullptr, what_.outputs() > 0 ? apart.output : nullptr};
  float* const both = what_.inputs() >= what_.outputs() ? apart.input : apart.output;
  return {what_.inputs() > 0 ? both + what_.input_offset() : nullptr,
          what_.outputs() > 0 ? both + what_.output_offset() : nullptr};
}

cell_set::cell_set(team& ranks, const coll_options& options, const exercise_kind& kind, std::uint64_t bytes,
                   bool with_mpi)
    : what_(kind, ranks.rank(), ranks.size(), bytes) {
  const auto heap = [&](std::uint64_t floats) { return heaps_.emplace_back(std::max<std::size_t>(floats, 1)).data(); };
  const auto shared = [&](std::uint64_t floats) {
    return shared_.emplace_back(allocate_shared(ranks.runtime(), std::max<std::size_t>(floats, 1))).get();
  };
  const buffers apart{heap(what_.inputs()), heap(what_.outputs())};
  add_ours(ranks, options, "malloc", apart);
  if (kind.what != pattern::barrier)
    add_ours(ranks, options, "lsched_alloc", {shared(what_.inputs()), shared(what_.outputs())});
  for (const bool in_place : {false, true})
    if (with_mpi && wants_in_place(options, kind, in_place)) add_mpi(ranks, in(apart, in_place), in_place);
}

cell_set::~cell_set() = default;

void cell_set::end() {
  for (schedule_handle& schedule : schedules_) close(std::move(schedule));
}

void cell_set::add_ours(team& ranks, const coll_options& options, const char* memory, buffers apart) {
  const std::size_t before = cells_.size();
  for (const bool in_place : {false, true}) {
    if (!wants_in_place(options, what_.kind(), in_place) || (in_place && !what_.kind().ours_can_be)) continue;
    const buffers at = in(apart, in_place);
    for (const std::string& name : algorithms_for(options, what_.kind().name)) {
      schedule_handle made = make_schedule(ranks, what_, name, at.input, at.output);
      if (made == nullptr) continue;
      add_forms(made.get(), {.impl = "libsched",
                             .buffers = memory,
                             .algorithm = algorithm_of(made.get()),
                             .in_place = in_place,
                             .what = &what_,
                             .input = at.input,
                             .output = at.output});
      schedules_.push_back(std::move(made));
    }
  }
  if (cells_.size() == before)
    throw agreed(options.algorithm + " of " + what_.kind().name + " cannot do " + std::to_string(what_.count()) +
                 " floats");
}

void cell_set::add_forms(lsched_schedule* schedule, cell made) {
  made.form = "blocking";
  made.run = [schedule] { expect_ok(lsched_run(schedule, k_patience_ns, nullptr), "lsched_run"); };
  cells_.push_back(made);
  made.form = "persistent";
  lsched_ticket* const ticket = tickets_.emplace_back(std::make_unique<lsched_ticket>()).get();
  made.start = [schedule, ticket] { expect_ok(lsched_start(schedule, ticket), "lsched_start"); };
  made.finish = [ticket] { expect_ok(lsched_wait(*ticket, k_patience_ns, nullptr), "lsched_wait"); };
  made.run = [schedule] {
    lsched_ticket round{};
    expect_ok(lsched_start(schedule, &round), "lsched_start");
    expect_ok(lsched_wait(round, k_patience_ns, nullptr), "lsched_wait");
  };
  cells_.push_back(std::move(made));
}

#if LSCHED_HAVE_MPI
void cell_set::add_mpi(const team& ranks, buffers at, bool in_place) {
  for (const mpi_form form : k_mpi_forms) {
    if (!has_form(form, what_.kind()) || (yields(form) && !ranks.is_oversubscribed())) continue;
    auto& rival = *rivals_.emplace_back(std::make_unique<mpi_rival>(form, what_, at.input, at.output, in_place));
    cell made{.impl = "mpi",
              .form = name_of(form),
              .buffers = "malloc",
              .algorithm = "its own",
              .in_place = in_place,
              .spins = ranks.is_oversubscribed() && !yields(form),
              .what = &what_,
              .input = at.input,
              .output = at.output,
              .run = [&rival] { rival.run(); }};
    if (form != mpi_form::blocking) {
      made.start = [&rival] { rival.start(); };
      made.finish = [&rival] { rival.finish(); };
    }
    cells_.push_back(std::move(made));
  }
}
#else
void cell_set::add_mpi(const team&, buffers, bool) {}
#endif

double set_bytes(const team& ranks, const exercise_kind& kind, std::uint64_t bytes) {
  const exercise root(kind, 0, ranks.size(), bytes);
  const exercise other(kind, ranks.size() - 1, ranks.size(), bytes);
  const auto floats = std::max(root.inputs() + root.outputs(), other.inputs() + other.outputs());
  constexpr int k_kinds_of_memory = 2;
  return static_cast<double>(floats * sizeof(float)) * k_kinds_of_memory * ranks.local_ranks();
}

}  // namespace lsched::bench
