#include "collectives/sparse/topka.h"

#include <algorithm>

#include "collectives/allgather/allgather_dissemination.h"
#include "collectives/patterns/list_gather.h"
#include "collectives/sparse/protocol/topka_steps.h"

namespace lsched {
namespace {

constexpr std::uint32_t number_of(topka_step step) { return static_cast<std::uint32_t>(step); }
constexpr std::uint32_t k_list_tags = 64;

/// `room`: items of a list.
void write(builder& to, const sparse_problem& problem, std::uint64_t room) {
  const std::uint64_t ranks = wide(problem.place.size);
  const dtype items = item_of(problem.type);
  const buffer_id gradient = to.input(problem.type, problem.count);
  const buffer_id update = to.output(problem.type, problem.count);
  const buffer_id mine = to.lists(buffer_role::scratch, items, 1, {.room = room, .typical = std::min(room, problem.k)});
  const buffer_id length = to.scratch(dtype::u64, 1), lengths = to.scratch(dtype::u64, ranks);
  const op_id exit = to.nop();
  const op_id selected = to.apply(kernel::split, number_of(topka_step::select), gradient, k_no_buffer, mine);
  const op_id measured = to.measure({mine, 0}, {length, 0}, 1, {selected});
  const fragment known = add_allgather_dissemination(to, {.count = 1, .type = dtype::u64}, length, lengths, measured);
  const list_layout layout{.room = room, .total = room * ranks, .typical = std::min(room, problem.k)};
  const op_id ready = to.nop({known.exit, selected});
  const gathered_lists all = add_list_gather(to, mine, {lengths, 0}, layout, k_list_tags, ready, exit);
  to.dep(to.apply(kernel::fold, number_of(topka_step::settle), all.lists, k_no_buffer, update, {all.done}), exit);
  to.set_exit(exit);
  to.declare_synchronising();
}

}  // namespace

result<schedule_ptr> lists_to_all_schedule(const sparse_problem& problem, std::uint64_t room, std::string name) {
  if (auto why = objection(problem)) return std::move(*why);
  builder to(problem.place, std::move(name));
  write(to, problem, std::max<std::uint64_t>(1, room));
  return to.compile();
}

result<schedule_ptr> topka_schedule(const sparse_problem& problem) {
  return lists_to_all_schedule(problem, most_items(problem), "sparse_allreduce/topka");
}

}  // namespace lsched
