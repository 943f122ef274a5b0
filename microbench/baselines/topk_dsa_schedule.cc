#include "microbench/baselines/topk_dsa_schedule.h"

#include <algorithm>

#include "collectives/allgather/allgather.h"
#include "collectives/patterns/list_gather.h"
#include "libsched/schedule/geometry.h"
#include "microbench/baselines/rival_steps.h"

namespace lsched {
namespace {

constexpr std::uint32_t number_of(topk_dsa_step step) { return static_cast<std::uint32_t>(step); }
enum : std::uint32_t { k_part_tags = 0, k_length_tags = 64, k_block_tags = 128 };

/// Items that a block may have: those of its region's values.
std::uint64_t most_units(const sparse_problem& problem) {
  const std::uint64_t region = cut(problem.count, wide(problem.place.size)).size(0);
  const std::size_t item = item_size(problem.type);
  return std::max<std::uint64_t>(1, (region * size_of(problem.type) + item - 1) / item);
}

}  // namespace

fragment add_topk_dsa(builder& to, const sparse_problem& problem, const sparse_ends& ends) {
  const auto [self, size] = problem.place;
  const std::uint64_t ranks = wide(size), k = std::max<std::uint64_t>(1, most_items(problem));
  const std::uint64_t part_room = std::max<std::uint64_t>(1, std::min(k, cut(problem.count, ranks).size(0)));
  const dtype items = item_of(problem.type);
  const auto at = [](buffer_id buffer, rank element) { return region(buffer, wide(element)); };
  const std::uint64_t typical = std::min(part_room, typical_share(problem, k));
  const buffer_id parts =
      to.lists(buffer_role::scratch, items, ranks, {.room = part_room, .total = k, .typical = typical});
  const buffer_id received = to.lists(buffer_role::scratch, items, ranks, {.room = part_room, .typical = typical});
  const std::uint64_t room = most_units(problem);
  const std::uint64_t sum = std::min(room, typical_share(problem, typical_union(problem)));
  const buffer_id block = to.lists(buffer_role::scratch, items, 1, {.room = room, .typical = sum});
  const buffer_id length = to.scratch(dtype::u64, 1), lengths = to.scratch(dtype::u64, ranks);
  const op_id exit = to.nop();
  to.set_first_tag(k_part_tags);
  const op_id selected = to.apply(kernel::split, number_of(topk_dsa_step::select), ends.gradient, k_no_buffer, parts);
  const op_id all = to.nop({to.copy(at(parts, self), at(received, self), 1, {selected}), selected});
  for (rank distance = 1; distance < size; ++distance) {
    const rank peer = ring_after(self, distance, size);
    to.dep(to.send(peer, 0, at(parts, peer), 1, {selected}), exit);
  }
  for (rank distance = 1; distance < size; ++distance) {
    const rank peer = ring_before(self, distance, size);
    to.dep(to.recv(peer, 0, at(received, peer), 1), all);
  }
  const op_id reduced = to.apply(kernel::fold, number_of(topk_dsa_step::reduce), received, k_no_buffer, block, {all});
  const op_id measured = to.measure({block, 0}, {length, 0}, 1, {reduced});
  to.set_first_tag(k_length_tags);
  const fragment known = add_allgather_dissemination(to, {.count = 1, .type = dtype::u64}, length, lengths, measured);
  to.set_first_tag(k_block_tags);
  const list_layout layout{.room = room, .total = room * ranks, .typical = sum};
  const op_id ready = to.nop({known.exit, reduced});
  const gathered_lists blocks = add_list_gather(to, block, {lengths, 0}, layout, 0, ready, exit);
  to.dep(to.apply(kernel::join, number_of(topk_dsa_step::settle), blocks.lists, ends.contributor_count, ends.update,
                  {blocks.done, ends.counted}),
         exit);
  return {.exit = exit};
}

}  // namespace lsched
