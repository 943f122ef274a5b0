#include "collectives/adasum/adasum_exchange.h"

#include <algorithm>
#include <numeric>

#include "collectives/adasum/adasum.h"
#include "collectives/patterns/blocks.h"

namespace lsched {
namespace {

enum : std::uint32_t { k_fold_tag, k_fold_sums_tag, k_half_tag, k_unfold_tag, k_first_step_tag };
std::uint32_t halving_tag(int j) { return k_first_step_tag + 2 * static_cast<std::uint32_t>(j); }
std::uint32_t doubling_tag(int j) { return halving_tag(j) + 1; }
/// Of the exchange across dimension i that belongs to step j.
std::uint32_t sums_tag(int levels, int j, int i) {
  return halving_tag(levels) + static_cast<std::uint32_t>(j * (j + 1) / 2 + i);
}
/// Of the sums of blocks that belong to step j; -1: to the fold.
std::uint32_t blocks_tag(int levels, int j) { return sums_tag(levels, levels, 0) + static_cast<std::uint32_t>(j + 1); }

element_range elements_of(const tensor_map& map, part_range it) {
  return map.range(wide(it.first), wide(it.first + it.count));
}

/// Tensors with elements in a part of the vector of which neither half holds all: at most one over each end of it, and
/// one over the middle.
std::vector<tensor> shared_tensors(const tensor_map& map, part_range whole) {
  const element_range lower = elements_of(map, whole.half(false)), upper = elements_of(map, whole.half(true));
  const auto all = map.tensors_in({lower.begin, upper.end});
  std::vector<tensor> shared;
  const auto add = [&](const tensor& it) {
    const bool is_new = shared.empty() || shared.back().begin < it.begin;
    if (is_new && !lower.contains(it) && !upper.contains(it)) shared.push_back(it);
  };
  if (all.empty()) return shared;
  add(all.front());
  if (upper.count() != 0)
    for (const tensor& it : map.tensors_in({upper.begin, upper.begin + 1})) add(it);
  add(all.back());
  return shared;
}

/// Tensors with elements in a block that does not hold all of them: two at most.
std::vector<tensor> crossing_tensors(const tensor_map& map, part_range block) {
  const element_range whole = elements_of(map, block);
  std::vector<tensor> crossing;
  for (const tensor& it : map.tensors_in(whole))
    if (!whole.contains(it)) crossing.push_back(it);
  return crossing;
}

/// The part of a block that lies in it where `kept` lies in its own, of blocks of so many parts.
part_range same_part(part_range kept, rank block, rank parts) {
  return {kept.first % parts + block * parts, kept.count};
}

}  // namespace

std::vector<std::uint64_t> part_begins(const shape& data, rank nodes, rank owners) {
  const std::uint64_t parts = wide(fold(nodes).core()) * wide(owners);
  const cut all = cut_into_blocks(data, data.count, parts);
  std::vector<std::uint64_t> begins;
  for (std::uint64_t i = 0; i <= parts; ++i) begins.push_back(all.begin(i));
  return begins;
}

adasum_exchange::adasum_exchange(ordered_ops& ops, const tensor_map& map, adasum_vector& vector, ownership own)
    : ops_(ops),
      map_(map),
      vector_(vector),
      own_(std::move(own)),
      folded_(static_cast<rank>(own_.peers.size())),
      all_{own_.block * folded_.core(), folded_.core()} {}

void adasum_exchange::write(place source, op_id after) {
  received_ = after;
  if (folded_.is_extra(own_.node)) return write_extra(source);
  if (folded_.levels() == 0) {
    if (!vector_.is_same(source, vector_.output())) ops_.copy(parts_in(source, all_), in_output(all_));
    return;
  }
  const bool is_proxy = folded_.is_proxy(own_.node);
  if (is_proxy) fold_in(source);
  halve(is_proxy ? vector_.output() : source);
  spread();
  if (is_proxy) ops_.send(rank_at(folded_.extra_of(own_.node)), k_unfold_tag, in_output(all_));
}

stretch adasum_exchange::parts_in(place where, part_range it) const {
  return vector_.blocks(where, wide(it.first), wide(it.first + it.count));
}

// The proxy has the lower number, and the first half.
void adasum_exchange::write_extra(place source) {
  const rank proxy = folded_.proxy_of(own_.node);
  const part_range mine = all_.half(true);
  combine(proxy, k_fold_tag, source, all_, mine, {{proxy, k_fold_sums_tag, all_, mine}},
          blocks_tag(folded_.levels(), -1));
  ops_.send(rank_at(proxy), k_half_tag, in_output(mine));
  ops_.wait_for(received_);
  ops_.recv(rank_at(proxy), k_unfold_tag, in_output(all_));
}

void adasum_exchange::fold_in(place source) {
  const rank extra = folded_.extra_of(own_.node);
  const part_range mine = all_.half(false);
  combine(extra, k_fold_tag, source, all_, mine, {{extra, k_fold_sums_tag, all_, mine}},
          blocks_tag(folded_.levels(), -1));
  received_ = ops_.recv(rank_at(extra), k_half_tag, in_output(all_.half(true)));
}

/// What is held after the first j steps.
part_range adasum_exchange::held_after(int j) const {
  part_range held = all_;
  for (int i = 0; i < j; ++i) held = held.half(keeps_upper(i));
  return held;
}

void adasum_exchange::halve(place source) {
  const int levels = folded_.levels();
  for (int j = 0; j < levels; ++j) {
    std::vector<sums_exchange> exchanges;
    for (int i = j; i >= 0; --i)
      exchanges.push_back({folded_.across(own_.node, i), sums_tag(levels, j, i), held_after(i), held_after(i + 1)});
    combine(folded_.across(own_.node, j), halving_tag(j), source, held_after(j), held_after(j + 1), exchanges,
            blocks_tag(levels, j));
    source = vector_.output();
  }
}

/// Exchanges halves of `held`, which is in `source`, and makes the adaptive sum of `kept` in the output.
void adasum_exchange::combine(rank partner, std::uint32_t tag, place source, part_range held, part_range kept,
                              const std::vector<sums_exchange>& exchanges, std::uint32_t of_blocks) {
  const bool is_upper = kept.first != held.first;
  ops_.send(rank_at(partner), tag, parts_in(source, held.half(!is_upper)));
  ops_.wait_for(received_);
  const element_range mine = elements_of(map_, kept);
  const auto tensors = map_.tensors_in(mine);
  const stretch payload = ops_.scratch(mine.count());
  const op_id before = std::exchange(received_, ops_.recv(rank_at(partner), tag, payload));
  if (tensors.empty()) ops_.wait_for(before);  // since no sum does

  const bool is_lower = own_.node < partner;
  const stretch sums = vector_.sums(tensors.size());
  const auto operands = [&](const tensor& it, bool lower) {
    const element_range part = mine.common(it);
    return lower == is_lower ? vector_.elements(source, part) : part_of_payload(payload, mine.begin, part);
  };
  add_sums(tensors, sums, kept, exchanges, of_blocks, [&](const tensor& it, const stretch& into) {
    ops_.dot_norms(operands(it, true), operands(it, false), into);
  });
  for (std::size_t i = 0; i < tensors.size(); ++i)
    ops_.adasum(operands(tensors[i], true), operands(tensors[i], false), adasum_vector::sums_of(sums, i),
                vector_.elements(vector_.output(), mine.common(tensors[i])));
  vector_.copy_gaps(source, vector_.output(), mine);
}

/// Takes the sums of my part of each of `tensors`, and fills `sums` with those of the entire tensors.
template <class Take>
void adasum_exchange::add_sums(std::span<const tensor> tensors, const stretch& sums, part_range kept,
                               const std::vector<sums_exchange>& exchanges, std::uint32_t of_blocks, const Take& take) {
  std::vector<std::vector<tensor>> shared;  // by exchange, and as the last those of other blocks, too
  std::vector<stretch> letters;             // what I send in it
  for (const sums_exchange& it : exchanges) shared.push_back(shared_tensors(map_, it.both));
  shared.push_back(crossing_tensors(map_, all_));
  for (const auto& it : shared) letters.push_back(it.empty() ? stretch{} : vector_.sums(it.size()));
  // Where the sums of a tensor belong before exchange k; nowhere if they are complete, and not of mine.
  const auto home = [&](const tensor& it, std::size_t k) -> stretch {
    for (std::size_t i = 0; k < shared.size() && i < shared[k].size(); ++i)
      if (shared[k][i] == it) return adasum_vector::sums_of(letters[k], i);
    const auto found = std::ranges::lower_bound(tensors, it.begin, {}, &tensor::begin);
    if (found == tensors.end() || *found != it) return {};
    return adasum_vector::sums_of(sums, static_cast<std::uint64_t>(found - tensors.begin()));
  };
  for (const tensor& it : tensors) take(it, home(it, 0));
  for (std::size_t k = 0; k < exchanges.size(); ++k) {
    if (shared[k].empty()) continue;
    const element_range known = elements_of(map_, exchanges[k].mine);
    for (const tensor& it : shared[k])
      if (!known.overlaps(it)) add_nothing(home(it, k));
    ops_.send(rank_at(exchanges[k].partner), exchanges[k].tag, letters[k]);
    const stretch theirs = vector_.sums(shared[k].size());
    ops_.recv(rank_at(exchanges[k].partner), exchanges[k].tag, theirs);
    for (std::size_t i = 0; i < shared[k].size(); ++i) {
      const stretch next = home(shared[k][i], k + 1);
      if (next.count == 0) continue;
      const stretch one = adasum_vector::sums_of(letters[k], i), other = adasum_vector::sums_of(theirs, i);
      const bool is_lower = own_.node < exchanges[k].partner;
      ops_.add(is_lower ? one : other, is_lower ? other : one, next);
    }
  }
  for (const tensor& it : shared.back())
    add_blocks(it, home(it, exchanges.size()), kept, of_blocks, home(it, shared.size()));
}

/// Zeros: the sums of no elements.
void adasum_exchange::add_nothing(const stretch& sums) {
  const stretch all = parts_in(vector_.input(), all_);
  const stretch none{all.at, 0, all.cell, 0};
  ops_.dot_norms(none, none, sums);
}

/// Adds what the owners of a tensor's blocks know of it, in the order of blocks, for those who combine a part of it.
void adasum_exchange::add_blocks(const tensor& it, const stretch& mine, part_range kept, std::uint32_t tag,
                                 const stretch& into) {
  std::vector<rank> blocks;
  for (rank b = 0; b < static_cast<rank>(own_.owners.size()); ++b)
    if (elements_of(map_, {b * all_.count, all_.count}).overlaps(it)) blocks.push_back(b);
  const auto owner_of = [&](rank block) { return own_.owners[static_cast<std::size_t>(block)]; };
  for (const rank b : blocks)
    if (b != own_.block && elements_of(map_, same_part(kept, b, all_.count)).overlaps(it))
      ops_.send(owner_of(b), tag, mine);
  if (into.count == 0) return;
  stretch sum;
  for (const rank b : blocks) {
    const stretch next = b == own_.block ? mine : vector_.sums(1);
    if (b != own_.block) ops_.recv(owner_of(b), tag, next);
    if (b != blocks.front()) ops_.add(sum, next, into);
    sum = b == blocks.front() ? next : into;
  }
}

void adasum_exchange::spread() {
  for (int j = folded_.levels() - 1; j >= 0; --j) {
    const rank partner = rank_at(folded_.across(own_.node, j));
    const part_range held = held_after(j);
    ops_.send(partner, doubling_tag(j), in_output(held.half(keeps_upper(j))));
    if (j + 1 == folded_.levels()) ops_.wait_for(received_);
    ops_.recv(partner, doubling_tag(j), in_output(held.half(!keeps_upper(j))));
  }
}

std::uint32_t tags_of_exchange(rank nodes) {
  const int levels = fold(nodes).levels();
  return blocks_tag(levels, levels);
}

// --- what it costs -------------------------------------------------------------------------------------------

namespace {

/// Letters of sums between the owners of a node when they have kept their `part`th of so many parts of their blocks: of
/// every tensor, from each of its owners to all others who have kept a part of it.
std::uint64_t letters_between_blocks(const tensor_map& map, rank owners, rank core, part_range kept) {
  std::uint64_t letters = 0;
  for (rank b = 0; b < owners; ++b) {
    const element_range block = elements_of(map, {b * core, core});
    for (const tensor& it : crossing_tensors(map, {b * core, core})) {
      if (it.begin < block.begin) continue;  // counted where it begins
      std::uint64_t know = 0, need = 0;
      for (rank other = b; other < owners && elements_of(map, {other * core, core}).overlaps(it); ++other) {
        ++know;
        if (elements_of(map, same_part(kept, other, core)).overlaps(it)) ++need;
      }
      letters += need * (know - 1);
    }
  }
  return letters;
}

}  // namespace

// What vectors move is as in Rabenseifner's allreduce. Of sums: the 2^i parts that are held after i steps are each held
// by core / 2^i peers, which exchange sums across dimension i in steps i and later, if any tensor is shared; and their
// nodes' owners exchange some after step i-1.
cost cost_of_exchange(rank nodes, rank owners, const shape& data) {
  const fold folded(nodes);
  const rank core = folded.core();
  const auto levels = static_cast<std::uint64_t>(folded.levels());
  const tensor_map map(data, part_begins(data, nodes, owners));
  cost all{.messages = wide(owners) * (2 * levels * wide(core) + 4 * wide(folded.rem())),
           .bytes = saturating_product(2 * (wide(core) - 1), bytes_of(data.count, data)),
           .hops_are_bound = true};
  const auto add = [&](std::uint64_t messages, std::size_t tensors) {
    if (tensors == 0) return;
    all.messages += messages;
    all.bytes = saturating_sum(all.bytes, messages * tensors * k_dot_sums * sizeof(double));
  };
  for (rank b = 0; b < owners; ++b)
    for (int i = 0; i < folded.levels(); ++i) {
      const rank length = core >> i;
      for (rank first = b * core; first < (b + 1) * core; first += length)
        add(wide(length) * (levels - static_cast<std::uint64_t>(i)), shared_tensors(map, {first, length}).size());
    }
  for (int i = 1; owners > 1 && i <= folded.levels(); ++i) {
    const rank length = core >> i;
    for (rank first = 0; first < core; first += length)
      add(wide(length) * letters_between_blocks(map, owners, core, {first, length}), 1);
  }
  all.hops = 2 * levels + levels * (levels + 1) / 2 + (owners > 1 ? levels : 0);
  if (folded.rem() == 0) return all;
  for (rank b = 0; b < owners; ++b) {
    const part_range block{b * core, core};
    const std::uint64_t upper_half = elements_of(map, block.half(true)).count();
    const std::uint64_t whole = elements_of(map, block).count();
    const std::uint64_t per_extra = saturating_sum(bytes_of(2 * whole, data), bytes_of(upper_half, data));
    all.bytes = saturating_sum(all.bytes, saturating_product(wide(folded.rem()), per_extra));
    add(2 * wide(folded.rem()), shared_tensors(map, block).size());
  }
  for (const bool upper : {false, true})
    if (owners > 1)
      add(wide(folded.rem()) * letters_between_blocks(map, owners, core, part_range{0, core}.half(upper)), 1);
  all.hops += owners > 1 ? 5 : 4;
  return all;
}

// --- one node a rank -----------------------------------------------------------------------------------------

namespace {

// A payload is held for sums that wait for earlier steps, and in place for their sends.
fragment add_halving(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  const auto [self, size] = to.place();
  ownership own{.node = self, .peers = std::vector<rank>(wide(size)), .owners = {self}};
  std::iota(own.peers.begin(), own.peers.end(), 0);
  const tensor_map map(data, part_begins(data, size, 1));
  ordered_ops ops(to, data, entry);
  adasum_vector vector(ops, data, map, input, output);
  adasum_exchange(ops, map, vector, std::move(own)).write(vector.input());
  return ops.finish(true);
}

}  // namespace

constinit const algorithm k_adasum_halving{
    .of = &k_adasum,
    .name = "halving",
    .add = add_halving,
    .needs = {.summary = "long vectors, any P; halving then doubling, sums across dimensions in between"},
    .cost_of = [](rank size, const shape& data) { return cost_of_exchange(size, 1, data); },
    .looks_at = {.tensors = true},
    .expression_of = hypercube_expression};

}  // namespace lsched
