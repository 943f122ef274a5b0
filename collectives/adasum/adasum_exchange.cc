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
/// Returns the tag of messages with the sums that are exchanged across dimension i in step j.
std::uint32_t sums_tag(int levels, int j, int i) {
  return halving_tag(levels) + static_cast<std::uint32_t>(j * (j + 1) / 2 + i);
}
/// Returns the tag of messages with sums of blocks in step j, or in the fold if j is -1.
std::uint32_t blocks_tag(int levels, int j) { return sums_tag(levels, levels, 0) + static_cast<std::uint32_t>(j + 1); }

element_range elements_of(const tensor_map& map, block_range range) {
  return map.range(wide(range.first), wide(range.end));
}

/// Returns the tensors that have elements in `whole`, but are not completely in one half of `whole`. There are at most
/// three: across the beginning, the middle and the end of `whole`.
std::vector<tensor> shared_tensors(const tensor_map& map, block_range whole) {
  const element_range lower = elements_of(map, whole.half(false)), upper = elements_of(map, whole.half(true));
  const auto all = map.tensors_in({lower.begin, upper.end});
  std::vector<tensor> shared;
  const auto add = [&](const tensor& t) {
    const bool is_new = shared.empty() || shared.back().begin < t.begin;
    if (is_new && !lower.contains(t) && !upper.contains(t)) shared.push_back(t);
  };
  if (all.empty()) return shared;
  add(all.front());
  if (upper.count() != 0)
    for (const tensor& t : map.tensors_in({upper.begin, upper.begin + 1})) add(t);
  add(all.back());
  return shared;
}

/// Returns the tensors that have elements in `block`, but are not completely in the block. There are at most two.
std::vector<tensor> crossing_tensors(const tensor_map& map, block_range block) {
  const element_range whole = elements_of(map, block);
  std::vector<tensor> crossing;
  for (const tensor& t : map.tensors_in(whole))
    if (!whole.contains(t)) crossing.push_back(t);
  return crossing;
}

/// Each block has `parts` parts. Parts are indexed consecutively over all blocks. parts_of() returns all parts of a
/// block. The parts `kept` belong to one block. same_part() returns the parts at the same positions in `block`.
block_range parts_of(rank block, rank parts) { return {block * parts, (block + 1) * parts}; }
block_range same_part(block_range kept, rank block, rank parts) {
  const rank first = kept.first % parts + block * parts;
  return {first, first + kept.count()};
}

}  // namespace

std::vector<std::uint64_t> part_begins(const shape& data, rank nodes, rank owners) {
  return block_begins(data, wide(fold(nodes).core()) * wide(owners));
}

adasum_exchange::adasum_exchange(adasum_part& part, ownership own)
    : part_(part),
      own_(std::move(own)),
      folded_(static_cast<rank>(own_.peers.size())),
      all_(parts_of(own_.block, folded_.core())) {}

void adasum_exchange::write(place source, op_id after) {
  received_ = after;
  if (folded_.is_extra(own_.node)) return write_extra(source);
  if (folded_.levels() == 0) {
    if (!part_.is_same(source, part_.result())) part_.copy(parts_in(source, all_), in_output(all_));
    return;
  }
  const bool is_proxy = folded_.is_proxy(own_.node);
  if (is_proxy) fold_in(source);
  halve(is_proxy ? part_.result() : source);
  spread();
  if (is_proxy) part_.send(rank_at(folded_.extra_of(own_.node)), k_unfold_tag, in_output(all_));
}

stretch adasum_exchange::parts_in(place where, block_range range) const {
  return part_.blocks(where, wide(range.first), wide(range.end));
}

// The proxy, which has the lower index, combines the first half.
void adasum_exchange::write_extra(place source) {
  const rank proxy = folded_.proxy_of(own_.node);
  const block_range own = all_.half(true);
  combine(proxy, k_fold_tag, source, all_, own, {{proxy, k_fold_sums_tag, all_, own}},
          blocks_tag(folded_.levels(), -1));
  part_.send(rank_at(proxy), k_half_tag, in_output(own));
  part_.wait_for(received_);
  part_.recv(rank_at(proxy), k_unfold_tag, in_output(all_));
}

void adasum_exchange::fold_in(place source) {
  const rank extra = folded_.extra_of(own_.node);
  const block_range own = all_.half(false);
  combine(extra, k_fold_tag, source, all_, own, {{extra, k_fold_sums_tag, all_, own}},
          blocks_tag(folded_.levels(), -1));
  received_ = part_.recv(rank_at(extra), k_half_tag, in_output(all_.half(true)));
}

/// Returns the parts that this rank has after the first j steps.
block_range adasum_exchange::held_after(int j) const {
  block_range held = all_;
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
    source = part_.result();
  }
}

/// Exchanges halves of `held`, which is in `source`, and writes the adaptive sum of the half `kept` to the output.
void adasum_exchange::combine(rank partner, std::uint32_t tag, place source, block_range held, block_range kept,
                              const std::vector<sums_exchange>& exchanges, std::uint32_t of_blocks) {
  const bool is_upper = kept.first != held.first;
  part_.send(rank_at(partner), tag, parts_in(source, held.half(!is_upper)));
  part_.wait_for(received_);
  const element_range own = elements_of(part_.map(), kept);
  const auto tensors = part_.map().tensors_in(own);
  const stretch payload = part_.scratch(own.count());
  const op_id before = std::exchange(received_, part_.recv(rank_at(partner), tag, payload));
  if (tensors.empty()) part_.wait_for(before);  // without tensors, no other op waits for the previous receive

  const bool is_lower = own_.node < partner;
  const stretch sums = part_.new_sums(tensors.size());
  const auto operands = [&](const tensor& t, bool lower) {
    const element_range part = own.common(t);
    return lower == is_lower ? part_.elements(source, part) : part_of_payload(payload, own.begin, part);
  };
  add_sums(tensors, sums, kept, exchanges, of_blocks,
           [&](const tensor& t, const stretch& into) { part_.dot_norms(operands(t, true), operands(t, false), into); });
  for (std::size_t i = 0; i < tensors.size(); ++i)
    part_.adasum(operands(tensors[i], true), operands(tensors[i], false), adasum_part::sums_of(sums, i),
                 part_.elements(part_.result(), own.common(tensors[i])));
  part_.copy_gaps(source, part_.result(), own);
}

/// Computes the sums of this rank's part of each tensor, and fills `sums` with the sums of the entire tensors.
template <class Take>
void adasum_exchange::add_sums(std::span<const tensor> tensors, const stretch& sums, block_range kept,
                               const std::vector<sums_exchange>& exchanges, std::uint32_t of_blocks, const Take& take) {
  std::vector<std::vector<tensor>> shared;  // tensors shared in each exchange, then those shared between blocks
  std::vector<stretch> outgoing;            // for each exchange: the sums to send
  for (const sums_exchange& one : exchanges) shared.push_back(shared_tensors(part_.map(), one.both));
  shared.push_back(crossing_tensors(part_.map(), all_));
  for (const auto& one : shared) outgoing.push_back(one.empty() ? stretch{} : part_.new_sums(one.size()));
  // Returns the memory for the sums of a tensor before exchange k. Returns no memory if the sums are complete and this
  // rank does not need them.
  const auto home = [&](const tensor& t, std::size_t k) -> stretch {
    for (std::size_t i = 0; k < shared.size() && i < shared[k].size(); ++i)
      if (shared[k][i] == t) return adasum_part::sums_of(outgoing[k], i);
    const auto found = std::ranges::lower_bound(tensors, t.begin, {}, &tensor::begin);
    if (found == tensors.end() || *found != t) return {};
    return adasum_part::sums_of(sums, static_cast<std::uint64_t>(found - tensors.begin()));
  };
  for (const tensor& t : tensors) take(t, home(t, 0));
  for (std::size_t k = 0; k < exchanges.size(); ++k) {
    if (shared[k].empty()) continue;
    const element_range known = elements_of(part_.map(), exchanges[k].own);
    for (const tensor& t : shared[k])
      if (!known.overlaps(t)) add_nothing(home(t, k));
    part_.send(rank_at(exchanges[k].partner), exchanges[k].tag, outgoing[k]);
    const stretch theirs = part_.new_sums(shared[k].size());
    part_.recv(rank_at(exchanges[k].partner), exchanges[k].tag, theirs);
    for (std::size_t i = 0; i < shared[k].size(); ++i) {
      const stretch next = home(shared[k][i], k + 1);
      if (next.count == 0) continue;
      const stretch one = adasum_part::sums_of(outgoing[k], i), other = adasum_part::sums_of(theirs, i);
      const bool is_lower = own_.node < exchanges[k].partner;
      part_.add(is_lower ? one : other, is_lower ? other : one, next);
    }
  }
  for (const tensor& t : shared.back())
    add_blocks(t, home(t, exchanges.size()), kept, of_blocks, home(t, shared.size()));
}

/// Appends an op that sets `sums` to zero, which is the sum over no elements.
void adasum_exchange::add_nothing(const stretch& sums) {
  const stretch all = parts_in(part_.given(), all_);
  const stretch none{all.at, 0, all.cell, 0};
  part_.dot_norms(none, none, sums);
}

/// Adds up a tensor's sums from the owners of all blocks that contain a part of the tensor, in the order of blocks.
/// Only owners that combine a part of the tensor receive these sums.
void adasum_exchange::add_blocks(const tensor& t, const stretch& own, block_range kept, std::uint32_t tag,
                                 const stretch& into) {
  std::vector<rank> blocks;
  for (rank b = 0; b < static_cast<rank>(own_.owners.size()); ++b)
    if (elements_of(part_.map(), parts_of(b, all_.count())).overlaps(t)) blocks.push_back(b);
  const auto owner_of = [&](rank block) { return own_.owners[static_cast<std::size_t>(block)]; };
  for (const rank b : blocks)
    if (b != own_.block && elements_of(part_.map(), same_part(kept, b, all_.count())).overlaps(t))
      part_.send(owner_of(b), tag, own);
  if (into.count == 0) return;
  stretch sum;
  for (const rank b : blocks) {
    const stretch next = b == own_.block ? own : part_.new_sums(1);
    if (b != own_.block) part_.recv(owner_of(b), tag, next);
    if (b != blocks.front()) part_.add(sum, next, into);
    sum = b == blocks.front() ? next : into;
  }
}

void adasum_exchange::spread() {
  for (int j = folded_.levels() - 1; j >= 0; --j) {
    const rank partner = rank_at(folded_.across(own_.node, j));
    const block_range held = held_after(j);
    part_.send(partner, doubling_tag(j), in_output(held.half(keeps_upper(j))));
    if (j + 1 == folded_.levels()) part_.wait_for(received_);
    part_.recv(partner, doubling_tag(j), in_output(held.half(!keeps_upper(j))));
  }
}

std::uint32_t tags_of_exchange(rank nodes) {
  const int levels = fold(nodes).levels();
  return blocks_tag(levels, levels);
}

// --- costs ---------------------------------------------------------------------------------------------------

namespace {

/// Returns the number of messages with sums that the owners of a node send to each other. Each block has `core` parts,
/// and its owner has kept the parts `kept`. For every tensor, an owner sends if its block has a part of the tensor. The
/// receivers are all other owners that have kept a part of the tensor.
std::uint64_t messages_between_blocks(const tensor_map& map, rank owners, rank core, block_range kept) {
  std::uint64_t messages = 0;
  for (rank b = 0; b < owners; ++b) {
    const element_range block = elements_of(map, parts_of(b, core));
    for (const tensor& t : crossing_tensors(map, parts_of(b, core))) {
      if (t.begin < block.begin) continue;  // was counted in the block in which the tensor begins
      std::uint64_t know = 0, need = 0;
      for (rank other = b; other < owners && elements_of(map, parts_of(other, core)).overlaps(t); ++other) {
        ++know;
        if (elements_of(map, same_part(kept, other, core)).overlaps(t)) ++need;
      }
      messages += need * (know - 1);
    }
  }
  return messages;
}

}  // namespace

// The vectors move as in Rabenseifner's allreduce. After i steps, the vector is divided into 2^i parts, and each part
// is on core / 2^i peers. If any tensor is shared, these peers exchange sums across dimension i in step i and all later
// steps. The owners of a node also exchange sums. They do so in step i-1, in which each owner keeps one of 2^i parts.
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
        add(wide(length) * (levels - static_cast<std::uint64_t>(i)),
            shared_tensors(map, {first, first + length}).size());
    }
  for (int i = 1; owners > 1 && i <= folded.levels(); ++i) {
    const rank length = core >> i;
    for (rank first = 0; first < core; first += length)
      add(wide(length) * messages_between_blocks(map, owners, core, {first, first + length}), 1);
  }
  all.hops = 2 * levels + levels * (levels + 1) / 2 + (owners > 1 ? levels : 0);
  if (folded.rem() == 0) return all;
  for (rank b = 0; b < owners; ++b) {
    const block_range block = parts_of(b, core);
    const std::uint64_t upper_half = elements_of(map, block.half(true)).count();
    const std::uint64_t whole = elements_of(map, block).count();
    const std::uint64_t per_extra = saturating_sum(bytes_of(2 * whole, data), bytes_of(upper_half, data));
    all.bytes = saturating_sum(all.bytes, saturating_product(wide(folded.rem()), per_extra));
    add(2 * wide(folded.rem()), shared_tensors(map, block).size());
  }
  for (const bool upper : {false, true})
    if (owners > 1)
      add(wide(folded.rem()) * messages_between_blocks(map, owners, core, block_range{0, core}.half(upper)), 1);
  all.hops += owners > 1 ? 5 : 4;
  return all;
}

// --- one rank on each node -----------------------------------------------------------------------------------------

namespace {

// The fragment satisfies the conditions of builder::declare_holding: the reader of a payload waits only for sums of
// earlier steps and, in place, for the sends of these steps.
fragment add_halving(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  const auto [self, size] = to.place();
  ownership own{.node = self, .peers = std::vector<rank>(wide(size)), .owners = {self}};
  std::iota(own.peers.begin(), own.peers.end(), 0);
  adasum_part part(to, data, input, output, entry, part_begins(data, size, 1));
  adasum_exchange(part, std::move(own)).write(part.given());
  return part.finish(true);
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
