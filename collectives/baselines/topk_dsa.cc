#include "collectives/baselines/topk_dsa.h"

#include <algorithm>
#include <cstring>

#include "collectives/allgather/allgather.h"
#include "collectives/patterns/lists.h"

namespace lsched {
namespace {

/// Sets values[index] = value. Values can be unaligned, because a block has the alignment of items, which is 1.
void put_values(const std::byte* items, std::uint64_t count, dtype type, std::byte* values) {
  for (std::uint64_t i = 0; i < count; ++i, items += item_size(type)) {
    const std::uint32_t index = index_at(type, items, 0);
    std::copy_n(items + sizeof index, size_of(type), values + index * size_of(type));
  }
}

/// Writes an item for each value that is not zero. The index of values[0] is `first`. Returns the number of items.
template <class Bits>
std::uint64_t gather_values(const std::byte* values, std::uint64_t count, std::uint32_t first, std::byte* to) {
  constexpr std::size_t size = sizeof(std::uint32_t) + sizeof(Bits);
  std::uint64_t gathered = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    Bits bits = 0;
    std::memcpy(&bits, values + i * sizeof bits, sizeof bits);
    if (static_cast<Bits>(bits << 1) == 0) continue;
    const std::uint32_t index = first + static_cast<std::uint32_t>(i);
    std::memcpy(to + gathered * size, &index, sizeof index);
    std::memcpy(to + gathered * size + sizeof index, &bits, sizeof bits);
    ++gathered;
  }
  return gathered;
}

std::uint64_t gather_values(const std::byte* values, std::uint64_t count, std::uint32_t first, dtype type,
                            std::byte* to) {
  switch (size_of(type)) {
    case 2: return gather_values<std::uint16_t>(values, count, first, to);
    case 4: return gather_values<std::uint32_t>(values, count, first, to);
    default: return gather_values<std::uint64_t>(values, count, first, to);
  }
}

}  // namespace

topk_dsa::topk_dsa(const sparse_problem& problem)
    : round_end(problem, most_in_union(problem, most_items(problem))),
      problem_(problem),
      regions_(problem.count, index(problem.place.size)),
      room_(most_items(problem)),
      result_room_(most_in_union(problem, room_)),
      own_(problem),
      sum_(problem.type, regions_.size(index(problem.place.self)), nan_policy::propagate),
      sums_(std::min(regions_.size(index(problem.place.self)), result_room_) * item_size(problem.type)) {}

std::uint64_t topk_dsa::list_room(rank region) const { return std::min(room_, regions_.size(index(region))); }

std::uint64_t topk_dsa::block_room(rank region) const {
  return units_of_block(problem_.type, regions_.size(index(region)), result_room_);
}

void topk_dsa::select(std::byte* residual, const std::byte* gradient, top_k_hint& hint, std::byte* items,
                      std::span<std::uint64_t> lengths) {
  sent_ = own_.select(residual, gradient, hint);
  const std::size_t size = item_size(problem_.type);
  std::uint64_t done = 0;
  for (std::size_t region = 0; region < lengths.size(); ++region) {
    const std::uint64_t end = regions_.begin(region + 1), begin_of_list = done;
    while (done < sent_.count && index_at(problem_.type, sent_.items, done) < end) ++done;
    lengths[region] = done - begin_of_list;
    const auto first = static_cast<std::uint32_t>(regions_.begin(region));
    std::byte* const list = items + begin_of_list * size;
    std::copy_n(sent_.items + begin_of_list * size, lengths[region] * size, list);
    shift_indices(problem_.type, list, lengths[region], 0 - first);
  }
}

std::uint64_t topk_dsa::reduce(std::span<const item_list> lists, std::byte* block) {
  const std::uint64_t region = regions_.size(index(problem_.place.self));
  for (const item_list& list : lists) sum_.add(list);
  const std::uint64_t items = sum_.take(0, region, sums_.data());
  const std::uint64_t units = units_of_block(problem_.type, region, items);
  const std::uint64_t bytes = units * item_size(problem_.type);
  if (is_values(problem_.place.self, units)) {
    std::fill_n(block, bytes, std::byte{0});
    put_values(sums_.data(), items, problem_.type, block);
  } else {
    std::copy_n(sums_.data(), bytes, block);
  }
  return units;
}

std::uint64_t topk_dsa::settle(std::span<const item_list> blocks, std::byte* result, std::byte* residual,
                               std::byte* update) {
  std::uint64_t items = 0;
  for (std::size_t region = 0; region < blocks.size(); ++region) {
    const item_list& block = blocks[region];
    const auto first = static_cast<std::uint32_t>(regions_.begin(region));
    std::byte* const to = result + items * item_size(problem_.type);
    if (is_values(static_cast<rank>(region), block.count)) {
      items += gather_values(block.items, regions_.size(region), first, problem_.type, to);
    } else {
      std::copy_n(block.items, block.count * item_size(problem_.type), to);
      shift_indices(problem_.type, to, block.count, first);
      items += block.count;
    }
  }
  // Contributions that cancel out have arrived, although the result has no item for them.
  round_end::settle(sent_, sent_, {result, items}, residual, update);
  return items;
}

// --- schedule and functions ------------------------------------------------------------------------------------------

namespace {

/// The functions that the schedule calls, in the order of a round.
enum class topk_dsa_step : std::uint32_t {
  select,  ///< adds the gradient to the residual, and selects items, as a list for each region
  reduce,  ///< sums the lists of all ranks for this rank's region, and writes the sum as a block
  settle   ///< converts the blocks of all regions to the update
};

constexpr std::uint32_t number_of(topk_dsa_step step) { return static_cast<std::uint32_t>(step); }
enum : std::uint32_t { k_part_tags = 0, k_length_tags = 64, k_block_tags = 128 };

class topk_dsa_functions : public functions_of_steps<topk_dsa> {
 public:
  topk_dsa_functions(const sparse_problem& problem, sparse_state& state)
      : functions_of_steps(problem, state),
        lists_(problem.ranks()),
        lengths_(lists_.size()),
        result_(steps_.result_room() * item_size(problem.type)) {}

  status call(std::uint32_t number, round_no round, const function_input& source, const function_input&,
              const function_output& target) override {
    switch (static_cast<topk_dsa_step>(number)) {
      case topk_dsa_step::select:
        steps_.select(residual(), source.data, state_.hint, target.data, lengths_);
        return lay_out(target, lengths_);
      case topk_dsa_step::reduce: gather(source, lists_); return set_length(target, steps_.reduce(lists_, target.data));
      case topk_dsa_step::settle: break;
    }
    gather(source, lists_);
    steps_.settle(lists_, result_.data(), residual(), target.data);
    return finish(round);
  }

 private:
  std::vector<item_list> lists_;  ///< lists by rank in step `reduce`, blocks by region in step `settle`
  std::vector<std::uint64_t> lengths_;
  std::vector<std::byte> result_;
};

}  // namespace

fragment add_topk_dsa(builder& to, const sparse_problem& problem, const sparse_ends& ends) {
  const std::uint64_t ranks = problem.ranks(), k = std::max<std::uint64_t>(1, most_items(problem));
  const std::uint64_t part_room = std::max<std::uint64_t>(1, std::min(k, cut(problem.count, ranks).size(0)));
  const dtype items = item_of(problem.type);
  const std::uint64_t typical = std::min(part_room, typical_share(problem, k));
  const buffer_id parts =
      to.lists(buffer_role::scratch, items, ranks, {.room = part_room, .total = k, .typical = typical});
  const buffer_id received = to.lists(buffer_role::scratch, items, ranks, {.room = part_room, .typical = typical});
  const std::uint64_t room =
      std::max<std::uint64_t>(1, units_of_values(problem.type, cut(problem.count, ranks).size(0)));
  const std::uint64_t sum = std::min(room, typical_share(problem, typical_union(problem)));
  const buffer_id block = to.lists(buffer_role::scratch, items, 1, {.room = room, .typical = sum});
  const buffer_id length = to.scratch(dtype::u64, 1), lengths = to.scratch(dtype::u64, ranks);
  const op_id exit = to.nop();
  to.set_first_tag(k_part_tags);
  const op_id selected = to.apply(kernel::split, number_of(topk_dsa_step::select), ends.gradient, k_no_buffer, parts);
  const op_id all = add_list_exchange(to, {.from = parts, .into = received, .sent = selected}, exit);
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

std::shared_ptr<sparse_functions> functions_of_topk_dsa(const sparse_problem& problem, sparse_state& state) {
  return std::make_shared<topk_dsa_functions>(problem, state);
}

}  // namespace lsched
