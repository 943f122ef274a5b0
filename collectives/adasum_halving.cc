#include "collectives/adasum_halving.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "collectives/adasum_vector.h"
#include "collectives/blocks.h"

namespace lsched {
namespace {

enum : std::uint32_t { k_fold_tag, k_fold_sums_tag, k_half_tag, k_unfold_tag, k_first_step_tag };
std::uint32_t halving_tag(int j) { return k_first_step_tag + 2 * static_cast<std::uint32_t>(j); }
std::uint32_t doubling_tag(int j) { return halving_tag(j) + 1; }
/// Of the exchange across dimension i that belongs to step j.
std::uint32_t sums_tag(int levels, int j, int i) {
  return halving_tag(levels) + static_cast<std::uint32_t>(j * (j + 1) / 2 + i);
}

/// Blocks [first, first + count) of as many as the core has ranks.
struct block_range {
  rank first = 0;
  rank count = 0;
  block_range half(bool upper) const { return {upper ? first + count / 2 : first, count / 2}; }
};

element_range elements_of(const tensor_map& map, block_range it) {
  return map.range(wide(it.first), wide(it.first + it.count));
}

/// Tensors with elements in a part of the vector of which neither half holds all: at most one over each end of it, and
/// one over the middle.
std::vector<tensor> shared_tensors(const tensor_map& map, block_range whole) {
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

/// One exchange of sums: I have those of `mine`, half of `both`, and the partner those of the other half.
struct sums_exchange {
  rank partner = 0;
  std::uint32_t tag = 0;
  block_range both{};
  block_range mine{};
};

/// The ops of one rank while they are being written.
class halving_doubling {
 public:
  halving_doubling(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry)
      : self_(to.place().self),
        folded_(to.place().size),
        all_{0, folded_.core()},
        map_(data, block_begins(data, folded_.core())),
        ops_(to, data, entry),
        vector_(ops_, data, map_, input, output) {}

  // A payload is held for sums that wait for earlier steps, and in place for their sends.
  fragment write() {
    if (folded_.levels() == 0) {
      if (!vector_.is_same(vector_.input(), vector_.output())) ops_.copy(in_input(all_), in_output(all_));
    } else if (folded_.is_extra(self_)) {
      write_extra();
    } else {
      write_core();
    }
    return ops_.finish(true);
  }

  static std::vector<std::uint64_t> block_begins(const shape& data, rank core) {
    const cut blocks = cut_into_blocks(data, data.count, wide(core));
    std::vector<std::uint64_t> begins;
    for (rank i = 0; i <= core; ++i) begins.push_back(blocks.begin(wide(i)));
    return begins;
  }

 private:
  using place = adasum_vector::place;

  stretch blocks_in(place where, block_range it) const {
    return vector_.blocks(where, wide(it.first), wide(it.first + it.count));
  }
  stretch in_input(block_range it) const { return blocks_in(vector_.input(), it); }
  stretch in_output(block_range it) const { return blocks_in(vector_.output(), it); }

  // The proxy has the lower rank, and the first half.
  void write_extra() {
    const rank proxy = folded_.proxy_of(self_);
    const block_range mine = all_.half(true);
    combine(proxy, k_fold_tag, vector_.input(), all_, mine, {{proxy, k_fold_sums_tag, all_, mine}});
    ops_.send(proxy, k_half_tag, in_output(mine));
    ops_.wait_for(received_);
    ops_.recv(proxy, k_unfold_tag, in_output(all_));
  }

  void fold_in() {
    const rank extra = folded_.extra_of(self_);
    const block_range mine = all_.half(false);
    combine(extra, k_fold_tag, vector_.input(), all_, mine, {{extra, k_fold_sums_tag, all_, mine}});
    received_ = ops_.recv(extra, k_half_tag, in_output(all_.half(true)));
  }

  void write_core() {
    const bool is_proxy = folded_.is_proxy(self_);
    if (is_proxy) fold_in();
    halve(is_proxy);
    spread();
    if (is_proxy) ops_.send(folded_.extra_of(self_), k_unfold_tag, in_output(all_));
  }

  bool keeps_upper(int j) const { return (folded_.virtual_of(self_) >> j) % 2 != 0; }

  /// What is held after the first j steps.
  block_range held_after(int j) const {
    block_range held = all_;
    for (int i = 0; i < j; ++i) held = held.half(keeps_upper(i));
    return held;
  }

  void halve(bool is_in_output) {
    for (int j = 0; j < folded_.levels(); ++j) {
      std::vector<sums_exchange> exchanges;
      for (int i = j; i >= 0; --i)
        exchanges.push_back(
            {folded_.across(self_, i), sums_tag(folded_.levels(), j, i), held_after(i), held_after(i + 1)});
      combine(folded_.across(self_, j), halving_tag(j), is_in_output ? vector_.output() : vector_.input(),
              held_after(j), held_after(j + 1), exchanges);
      is_in_output = true;
    }
  }

  /// Exchanges halves of `held`, which is in `source`, and makes the adaptive sum of `kept` in the output.
  void combine(rank partner, std::uint32_t tag, place source, block_range held, block_range kept,
               const std::vector<sums_exchange>& exchanges) {
    const bool is_upper = kept.first != held.first;
    ops_.send(partner, tag, blocks_in(source, held.half(!is_upper)));
    ops_.wait_for(received_);
    const element_range mine = elements_of(map_, kept);
    const auto tensors = map_.tensors_in(mine);
    const stretch payload = ops_.scratch(mine.count());
    const op_id before = std::exchange(received_, ops_.recv(partner, tag, payload));
    if (tensors.empty()) ops_.wait_for(before);  // since no sum does

    const bool is_lower = self_ < partner;
    const stretch sums = vector_.sums(tensors.size());
    const auto operands = [&](const tensor& it, bool lower) {
      const element_range part = mine.common(it);
      return lower == is_lower ? vector_.elements(source, part) : part_of_payload(payload, mine.begin, part);
    };
    add_sums(tensors, sums, exchanges, [&](const tensor& it, const stretch& into) {
      ops_.dot_norms(operands(it, true), operands(it, false), into);
    });
    for (std::size_t i = 0; i < tensors.size(); ++i)
      ops_.adasum(operands(tensors[i], true), operands(tensors[i], false), adasum_vector::sums_of(sums, i),
                  vector_.elements(vector_.output(), mine.common(tensors[i])));
    vector_.copy_gaps(source, vector_.output(), mine);
  }

  /// Takes the sums of my part of each of `tensors`, and fills `sums` with those of the entire tensors.
  template <class Take>
  void add_sums(std::span<const tensor> tensors, const stretch& sums, const std::vector<sums_exchange>& exchanges,
                const Take& take) {
    std::vector<std::vector<tensor>> shared;  // by exchange
    std::vector<stretch> letters;             // what I send in it
    for (const sums_exchange& it : exchanges) {
      shared.push_back(shared_tensors(map_, it.both));
      letters.push_back(shared.back().empty() ? stretch{} : vector_.sums(shared.back().size()));
    }
    // Where the sums of a tensor belong before exchange k; nowhere if they are complete, and not of mine.
    const auto home = [&](const tensor& it, std::size_t k) -> stretch {
      for (std::size_t i = 0; k < exchanges.size() && i < shared[k].size(); ++i)
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
      ops_.send(exchanges[k].partner, exchanges[k].tag, letters[k]);
      const stretch theirs = vector_.sums(shared[k].size());
      ops_.recv(exchanges[k].partner, exchanges[k].tag, theirs);
      for (std::size_t i = 0; i < shared[k].size(); ++i) {
        const stretch next = home(shared[k][i], k + 1);
        if (next.count == 0) continue;
        const stretch one = adasum_vector::sums_of(letters[k], i), other = adasum_vector::sums_of(theirs, i);
        const bool is_lower = self_ < exchanges[k].partner;
        ops_.add(is_lower ? one : other, is_lower ? other : one, next);
      }
    }
  }

  /// Zeros: the sums of no elements.
  void add_nothing(const stretch& sums) {
    const stretch none{in_input(all_).at, 0, in_input(all_).cell, 0};
    ops_.dot_norms(none, none, sums);
  }

  void spread() {
    for (int j = folded_.levels() - 1; j >= 0; --j) {
      const rank partner = folded_.across(self_, j);
      const block_range held = held_after(j);
      ops_.send(partner, doubling_tag(j), in_output(held.half(keeps_upper(j))));
      if (j + 1 == folded_.levels()) ops_.wait_for(received_);
      ops_.recv(partner, doubling_tag(j), in_output(held.half(!keeps_upper(j))));
    }
  }

  const rank self_;
  const fold folded_;
  const block_range all_;
  const tensor_map map_;
  ordered_ops ops_;
  adasum_vector vector_;
  op_id received_ = k_no_op;  ///< the half that came last
};

// What vectors move is as in Rabenseifner's allreduce. Of sums: the 2^i parts that are held after i steps are each held
// by core / 2^i ranks, which exchange sums across dimension i in steps i and later, if any tensor is shared.
cost cost_of_halving(rank size, const shape& data, const activation&) {
  const fold folded(size);
  const auto levels = static_cast<std::uint64_t>(folded.levels());
  const tensor_map map(data, halving_doubling::block_begins(data, folded.core()));
  const std::uint64_t upper_half = elements_of(map, block_range{0, folded.core()}.half(true)).count();
  const std::uint64_t per_extra = saturating_sum(bytes_of(2 * data.count, data), bytes_of(upper_half, data));
  cost all{.messages = 2 * levels * wide(folded.core()) + 4 * wide(folded.rem()),
           .bytes = saturating_sum(saturating_product(2 * (wide(folded.core()) - 1), bytes_of(data.count, data)),
                                   saturating_product(wide(folded.rem()), per_extra)),
           .hops_are_bound = true};
  const auto add = [&](std::uint64_t messages, std::size_t tensors) {
    if (tensors == 0) return;
    all.messages += messages;
    all.bytes = saturating_sum(all.bytes, messages * tensors * k_dot_sums * sizeof(double));
  };
  for (int i = 0; i < folded.levels(); ++i) {
    const rank length = folded.core() >> i;
    for (rank first = 0; first < folded.core(); first += length)
      add(wide(length) * (levels - static_cast<std::uint64_t>(i)), shared_tensors(map, {first, length}).size());
  }
  all.hops = 2 * levels + levels * (levels + 1) / 2;
  if (folded.rem() == 0) return all;
  add(2 * wide(folded.rem()), shared_tensors(map, {0, folded.core()}).size());
  all.hops += 4;
  return all;
}

}  // namespace

constinit const algorithm k_adasum_halving{
    .of = &k_adasum,
    .name = "halving",
    .generate = generated<k_adasum_halving, add_adasum_halving>,
    .needs = {.summary = "long vectors, any P; halving then doubling, sums across dimensions in between"},
    .cost_of = cost_of_halving,
    .looks_at = {.tensors = true},
    .expression_of = hypercube_expression};

fragment add_adasum_halving(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  return halving_doubling(to, data, input, output, entry).write();
}

}  // namespace lsched
