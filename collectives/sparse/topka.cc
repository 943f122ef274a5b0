// TopkA: an allgather of all lists. Every rank then sums all lists (Renggli and others, SparCML, 2019).
//
// The lengths (P words) are gathered first, and then the lists. Both are gathered by dissemination, for any P. The
// computations of a rank between messages are functions (topka_steps.h).
#include <algorithm>

#include "collectives/allgather/allgather.h"
#include "collectives/patterns/lists.h"
#include "collectives/sparse/sparse_allreduce.h"
#include "collectives/sparse/steps/topka_steps.h"

namespace lsched {
namespace {

constexpr std::uint32_t number_of(topka_step step) { return static_cast<std::uint32_t>(step); }
constexpr std::uint32_t k_list_tags = 64;

}  // namespace

fragment add_topka(builder& to, const sparse_problem& problem, const sparse_ends& ends) {
  const std::uint64_t room = std::max<std::uint64_t>(1, most_items(problem));
  const std::uint64_t ranks = wide(problem.place.size);
  const dtype items = item_of(problem.type);
  const buffer_id mine = to.lists(buffer_role::scratch, items, 1, {.room = room, .typical = std::min(room, problem.k)});
  const buffer_id length = to.scratch(dtype::u64, 1), lengths = to.scratch(dtype::u64, ranks);
  const op_id exit = to.nop();
  const op_id selected = to.apply(kernel::split, number_of(topka_step::select), ends.gradient, k_no_buffer, mine);
  const op_id measured = to.measure({mine, 0}, {length, 0}, 1, {selected});
  const fragment known = add_allgather_dissemination(to, {.count = 1, .type = dtype::u64}, length, lengths, measured);
  const list_layout layout{.room = room, .total = room * ranks, .typical = std::min(room, problem.k)};
  const op_id ready = to.nop({known.exit, selected});
  const gathered_lists all = add_list_gather(to, mine, {lengths, 0}, layout, k_list_tags, ready, exit);
  to.dep(to.apply(kernel::fold, number_of(topka_step::settle), all.lists, ends.contributor_count, ends.update,
                  {all.done, ends.counted}),
         exit);
  return {.exit = exit};
}

}  // namespace lsched
