#include "collectives/compose.h"

#include <algorithm>
#include <string>

#include "collectives/activation/activation.h"
#include "collectives/algorithm/nodes.h"
#include "collectives/allreduce/allreduce.h"

namespace lsched {
namespace {

/// The dense collective that computes one bucket of a partial collective.
struct bucket_request {
  const algorithm* dense = nullptr;
  shape data;
};

/// Returns the request for one bucket. For an empty vector, the request is an allreduce, because only an allreduce
/// counts each contributor exactly once if all blocks are empty.
bucket_request request_of(const algorithm& how, shape data, std::uint64_t count) {
  const algorithm* dense = count == 0 ? &k_allreduce_recursive_doubling : how.dense;
  data.count = count;
  data.buckets.clear();
  if (!dense->of->reduces) data.what = kernel::none;
  if (dense->of->reduces && how.of->adapts) data.what = kernel::sum;  // true only for an empty vector
  if (!dense->of->adapts) data.tensors.clear();
  return {dense, std::move(data)};
}

std::vector<bucket_request> requests_of(const algorithm& how, const shape& data) {
  std::vector<bucket_request> all;
  for (const std::uint64_t count : data.buckets)
    if (count != 0) all.push_back(request_of(how, data, count));
  if (all.empty()) all.push_back(request_of(how, data, data.count));
  return all;
}

cost cost_of_partial(const algorithm& how, rank size, const shape& data, const activation& starts) {
  cost total;
  for (const auto& [dense, part] : requests_of(how, data)) {
    const cost one = dense->counted_cost(size, part);
    total.messages = saturating_sum(total.messages, one.messages);
    total.bytes = saturating_sum(total.bytes, one.bytes);
    total.signals = saturating_sum(total.signals, one.signals);
    total.signals_of_one = saturating_sum(total.signals_of_one, one.signals_of_one);
    total.hops = std::max(total.hops, one.hops);
    total.hops_are_bound = total.hops_are_bound || one.hops_are_bound;
  }
  if (!starts.is_woken()) return total;
  const auto [most, least, hops] = cost_of_activation(starts, size);
  total.signals = saturating_sum(total.signals, most);
  total.signals_of_one = saturating_sum(total.signals_of_one, least);
  total.hops += hops;
  total.hops_are_bound = true;
  return total;
}

/// The buffers of this rank. A member is k_no_buffer if the rank has no such buffer.
struct ends {
  buffer_id input = k_no_buffer;
  buffer_id output = k_no_buffer;
};

ends declare_ends(builder& to, const collective& of, const shape& data) {
  const extents counts = of.extents_of(to.place(), data);
  ends made;
  if (counts.input) made.input = to.input(data.type, *counts.input);
  if (counts.output) made.output = to.output(data.type, *counts.output);
  return made;
}

/// Declares input and output buffers whose elements are lists.
ends declare_lists(builder& to, const collective& of, const shape& request) {
  const extents counts = of.extents_of(to.place(), in_units(request));
  const list_layout layout{.room = request.room, .typical = request.count};
  ends made;
  if (counts.input) made.input = to.lists(buffer_role::input, request.type, *counts.input, layout);
  if (counts.output) made.output = to.lists(buffer_role::output, request.type, *counts.output, layout);
  return made;
}

/// Appends the division of the output by the number of ranks, after all other ops.
void append_division(builder& to, buffer_id output, fragment& whole) {
  const auto ranks = wide(to.place().size);
  if (output == k_no_buffer || ranks == 1) return;
  const region all(output, 0);
  const op_id division = to.divide(all, all, to.at(output).count, ranks);
  if (whole.exit != k_no_op) to.dep(whole.exit, division);
  whole.exit = division;
}

result<schedule_ptr> compose_dense(const algorithm& how, world place, const shape& request) {
  const bool is_renamed = !how.name_on_one_node.empty() && is_one_node(request, place.size);
  const std::string_view name = is_renamed ? how.name_on_one_node : how.name;
  builder to(place, std::string(how.of->name) + "/" + std::string(name));
  to.set_unit(request.unit);
  const shape data = in_units(request);
  const ends buffers = request.room == 0 ? declare_ends(to, *how.of, data) : declare_lists(to, *how.of, request);
  fragment whole = how.append_to(to, data, buffers.input, buffers.output, k_no_op);
  if (data.is_mean) append_division(to, buffers.output, whole);
  if (whole.exit != k_no_op) to.set_exit(whole.exit);
  if (whole.holding) to.declare_holding();
  if (how.of->is_synchronising) to.declare_synchronising();
  return to.compile();
}

result<schedule_ptr> compose_partial(const algorithm& how, world place, const shape& data, const activation& starts) {
  const std::vector<bucket_request> requests = requests_of(how, data);
  const algorithm& first = *requests.front().dense;
  builder to(place, "partial_" + std::string(first.of->name) + "/" + std::string(first.name));
  const ends buffers = declare_ends(to, *how.of, data);
  const op_id gate = add_activation(to, starts, data.what, buffers.input, to.at(buffers.input).count).exit;
  builder::bucket part{.of = static_cast<std::uint32_t>(requests.size())};
  std::vector<op_id> exits;
  bool is_holding = true;
  for (const auto& [dense, request] : requests) {
    if (auto why = validate(*dense, place, request)) return *why;
    to.set_bucket(part);
    const auto begin = static_cast<op_id>(to.op_count());
    const fragment added = dense->append_to(to, request, buffers.input, buffers.output, k_no_op);
    exits.push_back(added.exit == k_no_op ? to.nop() : added.exit);
    to.set_entry(begin, gate);
    is_holding = is_holding && added.holding;
    const extents counts = dense->of->extents_of(place, request);
    ++part.number;
    part.first_signal_tag += k_signal_tags;
    part.input_begin += counts.input.value_or(0);
    part.output_begin += counts.output.value_or(0);
  }
  to.set_bucket({});
  const op_id exit = exits.size() == 1 ? exits.front() : to.nop();
  for (const op_id one : exits)
    if (one != exit) to.dep(one, exit);
  to.set_exit(exit);
  if (is_holding) to.declare_holding();
  to.declare_synchronising();
  return to.compile();
}

}  // namespace

result<schedule_ptr> compose(const algorithm& how, world place, const shape& data, const activation& starts) {
  if (auto why = validate(how, place, data, starts)) return std::move(*why);
  return how.dense == nullptr ? compose_dense(how, place, data) : compose_partial(how, place, data, starts);
}

result<schedule_ptr> algorithm::generate(world place, const shape& data, const activation& starts) const {
  return compose(*this, place, data, starts);
}

std::optional<algorithm> partial_of(const algorithm& dense) {
  const collective* const partial = find_collective("partial_" + std::string(dense.of->name));
  if (partial == nullptr || dense.needs.needs_everybody || !dense.of->is_synchronising) return std::nullopt;
  algorithm made = dense;
  made.of = partial;
  made.dense = &dense;
  made.needs.in_place = made.needs.moves_lists = false;
  made.needs.summary = "starts by its policy, absent ranks contribute null; then like the dense algorithm";
  made.looks_at.is_visible = false;
  made.looks_at.buckets = partial->has_buckets;
  return made;
}

cost cost_of_round(const algorithm& how, rank size, const shape& data, const activation& starts) {
  if (how.dense != nullptr) return cost_of_partial(how, size, data, starts);
  cost all = how.counted_cost(size, in_units(data));
  all.bytes = saturating_product(all.bytes, data.unit);
  return all;
}

}  // namespace lsched
