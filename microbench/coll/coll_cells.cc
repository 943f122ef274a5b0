#include <algorithm>

#include "collectives/registry.h"
#include "microbench/coll/coll.h"

namespace lsched::bench {
namespace {

/// Returns true if rounds with this `in_place` are measured. A bcast is never measured in place, because each rank has
/// only one buffer.
bool wants_in_place(const coll_options& options, const collective& kind, bool in_place) {
  return !in_place || (options.has_in_place && kind.moves_data && &kind != &k_bcast);
}

/// Returns the algorithm that `--algorithm` names, or all algorithms of the collective for "all".
std::vector<std::string> algorithms_for(const coll_options& options, const collective& wanted) {
  if (options.algorithm != "all") return {options.algorithm};
  std::vector<std::string> names;
  for (const algorithm& each : algorithms())
    if (each.of == &wanted) names.emplace_back(each.name);
  if (names.empty()) throw agreed("libsched has no algorithm for " + std::string(wanted.name));
  return names;
}

/// Creates a schedule. Returns null on all ranks if the algorithm does not support the exercise on some rank. Throws
/// `agreed` for other errors.
schedule_handle make_schedule(team& ranks, const exercise& task, const std::string& algorithm, const float* input,
                              float* output) {
  const collective& kind = task.kind();
  const std::string name(kind.name);
  const std::vector<std::uint64_t> counts(static_cast<std::size_t>(task.size()), task.count());
  const bool has_counts = kind.has_counts || kind.has_blocks;
  const lsched_collective_desc desc{.struct_size = sizeof desc,
                                    .collective = name.c_str(),
                                    .input = input,
                                    .output = output,
                                    .count = has_counts ? 0 : task.count(),
                                    .counts = has_counts ? counts.data() : nullptr,
                                    .recv_counts = kind.has_blocks ? counts.data() : nullptr,
                                    .dtype = LSCHED_F32,
                                    .reduction = kind.reduces ? LSCHED_SUM : lsched_reduction{},
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

cell cell_of(const exercise& task, float* input, float* output, bool in_place) {
  cell made{.keys = {{"in_place", in_place}}, .in_place = in_place};
  made.has_barriers = !task.kind().is_synchronising;  // without barriers a rank could run ahead
  made.is_barrier = !task.kind().moves_data;
  made.fill = [=, &task](std::uint64_t salt) {
    if (output != nullptr && !in_place) std::fill_n(output, task.outputs(), -1.0f);
    if (input != nullptr) task.fill(input, salt);
  };
  if (output != nullptr)
    made.count_wrong = [=, &task](std::uint64_t salt) { return static_cast<double>(task.count_wrong(output, salt)); };
  // In place, a sum becomes the input of the next round. Sums would grow without bound, so all inputs are set to zero.
  if (in_place)
    made.calm = [=, &task] {
      if (input != nullptr) std::fill_n(input, task.inputs(), 0.0f);
      if (output != nullptr) std::fill_n(output, task.outputs(), 0.0f);
    };
  return made;
}

std::vector<cell> mpi_cells(const team& ranks, const exercise& task, float* input, float* output, bool in_place,
                            std::vector<std::unique_ptr<mpi_baseline>>& baselines) {
  std::vector<cell> cells;
  for (const mpi_form form : k_mpi_forms) {
    if (!has_form(form, task.kind()) || (yields(form) && !ranks.is_oversubscribed())) continue;
    mpi_baseline* const baseline =
        baselines.emplace_back(std::make_unique<mpi_baseline>(form, task, input, output, in_place)).get();
    cell& made = cells.emplace_back(cell_of(task, input, output, in_place));
    made.keys.update({{"impl", "mpi"}, {"form", name_of(form)}, {"buffers", "malloc"}, {"algorithm", "its own"}});
    made.spins = ranks.is_oversubscribed() && !yields(form);
    made.run = [baseline] { baseline->run(); };
    if (form == mpi_form::blocking) continue;
    made.start = [baseline] { baseline->start(); };
    made.finish = [baseline] { baseline->finish(); };
  }
  return cells;
}

cell_set::buffers cell_set::in(buffers apart, bool in_place) const {
  if (!in_place) return {task_.inputs() > 0 ? apart.input : nullptr, task_.outputs() > 0 ? apart.output : nullptr};
  float* const both = task_.inputs() >= task_.outputs() ? apart.input : apart.output;
  return {task_.inputs() > 0 ? both + task_.input_offset() : nullptr,
          task_.outputs() > 0 ? both + task_.output_offset() : nullptr};
}

cell_set::cell_set(team& ranks, const coll_options& options, const collective& kind, std::uint64_t bytes, bool with_mpi)
    : task_(kind, ranks.rank(), ranks.size(), bytes) {
  const auto heap = [&](std::uint64_t floats) { return heaps_.emplace_back(std::max<std::size_t>(floats, 1)).data(); };
  const auto shared = [&](std::uint64_t floats) {
    return shared_.emplace_back(allocate_shared(ranks.runtime(), std::max<std::size_t>(floats, 1))).get();
  };
  const buffers apart{heap(task_.inputs()), heap(task_.outputs())};
  add_ours(ranks, options, "malloc", apart);
  if (kind.moves_data) add_ours(ranks, options, "lsched_alloc", {shared(task_.inputs()), shared(task_.outputs())});
  for (const bool in_place : {false, true}) {
    if (!with_mpi || !wants_in_place(options, kind, in_place)) continue;
    const buffers place = in(apart, in_place);
    for (cell& c : mpi_cells(ranks, task_, place.input, place.output, in_place, mpi_baselines_))
      cells_.push_back(std::move(c));
  }
  for (cell& c : cells_) c.keys.update({{"coll", kind.name}, {"bytes", bytes}});
}

std::string cell_set::taken_by_auto(team& ranks) {
  const buffers place = in({heaps_[0].data(), heaps_[1].data()}, false);
  schedule_handle made = make_schedule(ranks, task_, "auto", place.input, place.output);
  const std::string name = made == nullptr ? "" : algorithm_of(made.get());
  if (made != nullptr) close(std::move(made));
  return name;
}

void cell_set::end() {
  for (schedule_handle& schedule : schedules_) close(std::move(schedule));
}

void cell_set::add_ours(team& ranks, const coll_options& options, const char* memory, buffers apart) {
  const std::size_t before = cells_.size();
  for (const bool in_place : {false, true}) {
    if (!wants_in_place(options, task_.kind(), in_place) || (in_place && task_.kind().has_blocks)) continue;
    const buffers place = in(apart, in_place);
    for (const std::string& name : algorithms_for(options, task_.kind())) {
      schedule_handle made = make_schedule(ranks, task_, name, place.input, place.output);
      if (made == nullptr) continue;
      cell ours = cell_of(task_, place.input, place.output, in_place);
      ours.keys.update({{"impl", "libsched"}, {"buffers", memory}, {"algorithm", algorithm_of(made.get())}});
      add_forms(made.get(), std::move(ours));
      schedules_.push_back(std::move(made));
    }
  }
  if (cells_.size() == before)
    throw agreed(options.algorithm + " of " + std::string(task_.kind().name) + " does not support " +
                 std::to_string(task_.count()) + " floats: choose other --bytes or --algorithm");
}

void cell_set::add_forms(lsched_schedule* schedule, cell made) {
  made.keys["form"] = "blocking";
  made.run = [schedule] { run(schedule); };
  cells_.push_back(made);
  made.keys["form"] = "persistent";
  lsched_ticket* const ticket = tickets_.emplace_back(std::make_unique<lsched_ticket>()).get();
  made.start = [schedule, ticket] { expect_ok(lsched_start(schedule, ticket), "lsched_start"); };
  made.finish = [ticket] { expect_ok(lsched_wait(*ticket, k_patience_ns, nullptr), "lsched_wait"); };
  made.run = [schedule] { start_and_wait(schedule); };
  cells_.push_back(std::move(made));
}

}  // namespace lsched::bench
