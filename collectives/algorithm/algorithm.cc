#include "collectives/algorithm/algorithm.h"

#include <algorithm>
#include <string>
#include <utility>

#include "collectives/algorithm/nodes.h"
#include "ops/counted.h"
#include "ops/rules.h"

namespace lsched {
namespace {

failure constraint(std::string text) { return {.code = status::constraint, .text = std::move(text)}; }

std::string name(std::string_view text) { return std::string(text); }

std::optional<failure> validate_place(world place) {
  if (place.size < 1) return argument("a world needs at least one rank, not " + std::to_string(place.size));
  if (place.self < 0 || place.self >= place.size)
    return argument("rank " + std::to_string(place.self) + " is outside its world: use 0 to " +
                    std::to_string(place.size - 1));
  return std::nullopt;
}

std::optional<failure> validate_user(const algorithm& how, const shape& data) {
  if (data.what != kernel::user) {
    if (data.unit == 1 && !data.commutes) return std::nullopt;
    return argument(
        "a built-in reduction cannot have a unit, or be declared commutative: set these only for a user_op");
  }
  if (data.unit == 0 || data.unit > k_max_count)
    return argument("a unit cannot have " + counted(data.unit, "element") + ": use 1 to 2^48-1");
  const auto is_cut = [&](std::uint64_t count) { return count % data.unit != 0; };
  if (is_cut(data.count) || std::ranges::any_of(data.counts, is_cut))
    return argument("a count is not a multiple of the unit of " + std::to_string(data.unit) +
                    " elements: use counts of whole units");
  if (how.of->activates)
    return constraint(
        name(how.of->name) +
        " does not support a user_op, because late contributions are merged in any order: choose a built-in reduction");
  if (how.needs.needs_commutative && !data.commutes)
    return constraint("algorithm " + name(how.name) +
                      " combines operands in any order, but the user_op does not commute: choose another algorithm, or "
                      "\"auto\"");
  return std::nullopt;
}

std::optional<failure> validate_kernel(const collective& of, const shape& data) {
  if (!of.reduces && data.what != kernel::none)
    return argument(name(of.name) + " has no reduction: set the kernel to none, not \"" + name(name_of(data.what)) +
                    "\"");
  if (data.is_mean && (!of.has_means || data.what != kernel::sum))
    return argument(of.has_means ? "only sums are divided, not the results of \"" + name(name_of(data.what)) +
                                       "\": choose sum, or no divisor"
                                 : "the result of " + name(of.name) + " cannot be divided: choose no divisor");
  if (!of.reduces) return std::nullopt;
  if (of.adapts) {
    if (data.what == kernel::adasum || data.what == kernel::sum) return std::nullopt;
    return argument("late contributions to " + name(of.name) + " are merged by adasum or by sum, not by \"" +
                    name(name_of(data.what)) + "\"");
  }
  if (!is_reduction(data.what))
    return argument("\"" + name(name_of(data.what)) + "\" is not a reduction: choose sum, min, max or another");
  if (!supports(data.what, data.type))
    return argument("\"" + name(name_of(data.what)) + "\" is not defined for " + name(name_of(data.type)) +
                    ": choose an integer type or an arithmetic reduction");
  return std::nullopt;
}

std::optional<failure> validate_blocks(const collective& of, world place, const shape& data) {
  const auto ranks = static_cast<std::size_t>(place.size);
  if (of.has_counts ? data.counts.size() != ranks : !data.counts.empty())
    return argument(name(of.name) +
                    (of.has_counts ? " needs " + std::to_string(ranks) + " counts, one for each rank, but has "
                                   : " takes no list of counts, but has ") +
                    std::to_string(data.counts.size()));
  if (!of.has_blocks && !data.blocks.empty())
    return argument(name(of.name) + " takes no list of blocks: leave the list empty");
  for (const auto& [from, to, count] : data.blocks)
    if (std::min(from, to) < 0 || std::max(from, to) >= place.size)
      return argument("a block from rank " + std::to_string(from) + " to rank " + std::to_string(to) +
                      " is outside the world: use ranks from 0 to " + std::to_string(place.size - 1));
  return std::nullopt;
}

std::optional<failure> validate_buckets(const collective& of, const shape& data) {
  if (data.buckets.empty()) return std::nullopt;
  if (!of.has_buckets) return argument(name(of.name) + " has no buckets: pass none");
  std::uint64_t rest = data.count;
  for (const std::uint64_t count : data.buckets) {
    if (count > rest)
      return argument("the buckets have more elements than the vector, which has " + std::to_string(data.count) +
                      ": use smaller buckets");
    rest -= count;
  }
  if (rest == 0) return std::nullopt;
  return argument("the last bucket ends " + counted(rest, "element") +
                  " before the end of the vector: cover the vector with buckets");
}

std::optional<failure> validate_tensors(const collective& of, const shape& data) {
  if (of.adapts && !is_floating(data.type))
    return argument(name(of.name) + " combines only floating types, not " + name(name_of(data.type)));
  if (data.tensors.empty()) return std::nullopt;
  if (!of.adapts) return argument(name(of.name) + " has no tensors: pass none");
  const auto gap = [&](std::uint64_t from, std::uint64_t to) {  // gaps are copied from one rank, which may be late
    return argument("elements " + std::to_string(from) + " to " + std::to_string(to) + " of the vector of " +
                    name(of.name) + " are in no tensor: list a tensor for every element");
  };
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < data.tensors.size(); ++i) {
    const tensor& part = data.tensors[i];
    const std::string which = "tensor " + std::to_string(i);
    if (part.begin < end)
      return argument(which + " begins before the previous tensor ends: list tensors in order and without overlap");
    if (part.begin > data.count || part.count > data.count - part.begin)
      return argument(which + " is not within the vector, which has " + counted(data.count, "element"));
    if (of.activates && part.begin > end) return gap(end, part.begin);
    end = part.end();
  }
  if (of.activates && end < data.count) return gap(end, data.count);
  return std::nullopt;
}

std::optional<failure> validate_lists(const collective& of, const constraints& needs, const shape& data) {
  if (data.room == 0) return std::nullopt;
  const auto moves_equal_blocks = [](const rank_buffer& one) {
    return one.of == content::own_block || one.of == content::all_blocks;
  };
  if (!moves_equal_blocks(of.input) || !moves_equal_blocks(of.output) || of.reduces || of.has_counts || of.has_blocks)
    return argument(name(of.name) +
                    " does not support a capacity: only gather, scatter, allgather and alltoall can have blocks whose "
                    "lengths change in each round");
  if (data.room > k_any_room)
    return argument("a capacity of " + std::to_string(data.room) + " is too large: use at most " +
                    std::to_string(k_any_room));
  if (data.count > data.room)
    return argument("a typical block of " + std::to_string(data.count) + " exceeds the capacity of " +
                    std::to_string(data.room));
  if (data.in_place)
    return argument(
        "a schedule with a capacity cannot be created in place: pass in-place memory to its rounds instead");
  if (!needs.moves_lists)
    return constraint(
        "this algorithm does not support a capacity, because its messages contain several blocks: choose another "
        "algorithm, or \"auto\"");
  return std::nullopt;
}

/// Checks that no buffer exceeds k_max_count, and that the sum of the block sizes does not overflow.
std::optional<failure> validate_size(const collective& of, world place, const shape& data) {
  const auto too_large = [](const std::string& count) {
    return argument("a vector of " + count + " elements exceeds the largest vector, of " + std::to_string(k_max_count));
  };
  if (data.count > k_max_count) return too_large(std::to_string(data.count));
  std::uint64_t sum = 0;
  const auto passes = [&](std::uint64_t count) { return count > k_max_count || (sum += count) > k_max_count; };
  for (const std::uint64_t count : data.counts)
    if (passes(count)) return too_large(std::to_string(std::max(sum, count)));
  sum = 0;
  for (const exchanged_block& block : data.blocks)
    if (passes(block.count)) return too_large(std::to_string(std::max(sum, block.count)));
  if (of.has_counts || of.has_blocks) return std::nullopt;
  const extents ones = of.extents_of({.self = data.root, .size = place.size}, {.count = 1, .root = data.root});
  const std::uint64_t blocks = std::max({ones.input.value_or(1), ones.output.value_or(1), std::uint64_t{1}});
  const std::uint64_t longest = std::max(data.count, data.room);
  if (longest > k_max_count / blocks) return too_large(std::to_string(blocks) + " x " + std::to_string(longest));
  return std::nullopt;
}

std::optional<failure> validate_nodes(world place, const shape& data) {
  if (!data.nodes.empty() && data.nodes.size() != static_cast<std::size_t>(place.size))
    return argument("nodes are given for " + std::to_string(data.nodes.size()) + " of " + std::to_string(place.size) +
                    " ranks: give the node of every rank, or none");
  return std::nullopt;
}

std::optional<failure> validate_data(const algorithm& how, world place, const shape& data) {
  const collective& of = *how.of;
  const constraints& needs = how.needs;
  if (data.radix < 0 || data.radix == 1)
    return argument("a radix of " + std::to_string(data.radix) + " is too small: use 2 or more, or 0 for the default");
  if (!of.moves_data) {
    if (data == shape{.type = data.type, .radix = data.radix}) return std::nullopt;
    return argument("this collective moves no data: set count to 0, the kernel to none, and no divisor");
  }
  if (auto why = validate_kernel(of, data)) return why;
  if (auto why = validate_user(how, data)) return why;
  if (auto why = validate_blocks(of, place, data)) return why;
  if (auto why = validate_buckets(of, data)) return why;
  if (auto why = validate_tensors(of, data)) return why;
  if (auto why = validate_nodes(place, data)) return why;
  if (auto why = validate_lists(of, needs, data)) return why;
  if (of.is_rooted ? data.root < 0 || data.root >= place.size : data.root != 0)
    return argument(of.is_rooted ? "root " + std::to_string(data.root) + " is outside the world: use 0 to " +
                                       std::to_string(place.size - 1)
                                 : name(of.name) + " has no root: leave root 0");
  if (auto why = validate_size(of, place, data)) return why;
  if (data.in_place && !needs.in_place)
    return constraint("algorithm " + name(how.name) + " does not work in place: give input and output separate memory");
  return std::nullopt;
}

/// Calls validate() of the custom generator. For a partial algorithm, also requires a proof, because only a proof can
/// show that messages do not mix contributions.
std::optional<failure> validate_custom(const algorithm& how, rank size, const shape& data) {
  if (how.custom == nullptr) return std::nullopt;
  if (auto why = how.custom->validate(size, data)) return why;
  return how.dense == nullptr ? std::nullopt : how.custom->doubt(how, size, data);
}

std::optional<failure> validate_start(const collective& of, const activation& starts, rank size) {
  if (of.activates && starts.policy == activation_policy::none)
    return argument(
        "a partial collective needs an activation policy: full, solo, majority, first_of, all_of or quorum");
  if (!of.activates && starts.policy != activation_policy::none)
    return argument(
        "only partial collectives have an activation policy: choose a partial collective, or set the policy to none");
  return validate(starts, size);
}

}  // namespace

std::optional<failure> validate(const algorithm& how, world place, const shape& data, const activation& starts) {
  if (auto why = validate_place(place)) return why;
  if (auto why = validate_data(how, place, data)) return why;
  if (auto why = validate_start(*how.of, starts, place.size)) return why;
  if (auto why = validate_custom(how, place.size, in_units(data))) return why;
  if (place.size < 2 || data.tensors.size() <= how.most_tensors) return std::nullopt;
  const std::size_t tensors = tensors_of(data).size();
  if (tensors <= how.most_tensors) return std::nullopt;
  return constraint(name(how.of->name) + "/" + name(how.name) + " takes " + counted(how.most_tensors, "tensor") +
                    " at most, not " + std::to_string(tensors) + ": choose another algorithm, or \"auto\"");
}

std::string_view node_warning(const algorithm& how, rank size, const shape& data) {
  if (!how.of->adapts || !how.looks_at.nodes || !is_one_node(data, size)) return {};
  return "on one node, adasum/two_level computes the mean of the ranks, not an adaptive sum";
}

std::uint64_t bytes_of(std::uint64_t count, const shape& data) {
  return saturating_product(saturating_product(count, std::max<std::uint64_t>(data.room, 1)), size_of(data.type));
}

std::uint64_t bytes_to_all(rank size, const shape& data) {
  if (data.counts.empty()) return saturating_product(wide(size) * (wide(size) - 1), bytes_of(data.count, data));
  return saturating_product(wide(size) - 1, bytes_of(block_offsets(data, size).back(), data));
}

cost cost_of_messages(std::uint64_t messages, std::uint64_t count, const shape& data, std::uint64_t hops) {
  return {.messages = messages, .bytes = saturating_product(messages, bytes_of(count, data)), .hops = hops};
}

}  // namespace lsched
