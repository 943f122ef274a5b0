#include "collectives/activation/activation.h"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "libsched/schedule/geometry.h"

namespace lsched {
namespace {

/// Makes op `id` fire when any op of `causes` completes.
op_id on_any(builder& to, op_id id, std::span<const op_id> causes) {
  for (const op_id cause : causes) to.dep(cause, id);
  to.any(id);
  return id;
}

op_id signal_on_any(builder& to, rank peer, std::span<const op_id> causes) {
  return on_any(to, to.signal_send(peer, k_activation_tag), causes);
}

// add_extra and add_core return the call op, followed by the receives. The round starts on this rank when any of these
// ops completes.

std::vector<op_id> add_extra(builder& to, const fold& folded, op_id call) {
  const rank proxy = folded.proxy_of(to.place().self);
  const op_id heard = to.signal_recv(proxy, k_activation_tag);
  to.signal_send(proxy, k_activation_tag, {call});
  return {call, heard};
}

/// Appends an op that fires after `number` of the ops in `heard`.
op_id count(builder& to, std::span<const op_id> heard, rank number) {
  const op_id counted = to.nop();
  for (const op_id one : heard) to.dep(one, counted);
  to.set_need(counted, static_cast<std::uint32_t>(number));
  return counted;
}

/// Appends the ops by which the coordinator counts calls. Returns the op that starts the round.
op_id add_coordinator(builder& to, op_id call, const activation& starts) {
  const rank size = to.place().size;
  std::vector<op_id> heard{call};
  for (rank r = 1; r < size; ++r) heard.push_back(to.signal_recv(r, k_arrival_tag));
  const op_id enough = count(to, heard, quota_of(starts, size).arrivals);
  if (!has_grace(starts, size)) return enough;
  const op_id grace = to.grace_call({enough});
  for (rank r = 0; r < size; ++r) heard.push_back(to.left_call(r));
  const op_id all = count(to, heard, size);
  return on_any(to, to.nop(), std::array{all, grace});
}

/// Appends an activation that counts calls. The coordinator starts the round after enough calls. The other ranks start
/// the round when their parents signal.
std::vector<op_id> add_counted(builder& to, op_id call, const activation& starts) {
  const auto [self, size] = to.place();
  const knomial tree(size, 2);
  op_id woken = k_no_op;
  if (self == k_coordinator) {
    woken = add_coordinator(to, call, starts);
  } else {
    to.signal_send(k_coordinator, k_arrival_tag, {call});
    woken = to.signal_recv(tree.parent_of(self), k_activation_tag);
  }
  const auto children = tree.children_of(self);
  for (std::size_t i = children.size(); i-- > 0;) to.signal_send(children[i], k_activation_tag, {woken});
  return {woken};
}

// `wakes` contains these ops (activation.h) in this order: call, R_x at a proxy, R_0 … R_{L-1}. So the ops that can
// cause S_k are a prefix of `wakes`.
std::vector<op_id> add_core(builder& to, const fold& folded, op_id call) {
  const rank self = to.place().self;
  const bool is_proxy = folded.is_proxy(self);

  std::vector<op_id> wakes{call};
  if (is_proxy) wakes.push_back(to.signal_recv(folded.extra_of(self), k_activation_tag));
  const std::size_t before_dimensions = wakes.size();
  for (int k = 0; k < folded.levels(); ++k) wakes.push_back(to.signal_recv(folded.across(self, k), k_activation_tag));

  for (int k = 0; k < folded.levels(); ++k)
    signal_on_any(to, folded.across(self, k), std::span(wakes).first(before_dimensions + static_cast<std::size_t>(k)));
  if (is_proxy) {
    std::vector<op_id> others = wakes;
    others.erase(others.begin() + 1);
    signal_on_any(to, folded.extra_of(self), others);
  }
  return wakes;
}

}  // namespace

fragment add_activation(builder& to, const activation& starts, kernel merge, buffer_id target, std::uint64_t count) {
  const auto [self, size] = to.place();
  to.set_activation(starts);
  const op_id call = to.call();
  std::vector<op_id> wakes{call};
  if (starts.is_woken() && has_coordinator(starts, size)) {
    wakes = add_counted(to, call, starts);
  } else if (starts.is_woken()) {
    const fold folded(size);
    wakes = folded.is_extra(self) ? add_extra(to, folded, call) : add_core(to, folded, call);
  }
  if (starts.has_full_call()) wakes.push_back(to.full_call());
  const op_id gate = on_any(to, to.capture(merge, region(target, 0), count), wakes);
  return {.entry = call, .exit = gate};
}

activation_cost cost_of_activation(const activation& starts, rank size) {
  if (!starts.is_woken()) return {};
  const auto others = static_cast<std::uint64_t>(size) - 1;
  const auto arrivals = static_cast<std::uint64_t>(quota_of(starts, size).arrivals);
  if (has_coordinator(starts, size))
    return {.most = 2 * others,
            .least = others + std::min(arrivals, others),
            .hops = 1 + static_cast<std::uint64_t>(ceil_log2(size))};
  const fold folded(size);
  const auto levels = static_cast<std::uint64_t>(folded.levels());
  return {.most = static_cast<std::uint64_t>(folded.core()) * levels + 2 * static_cast<std::uint64_t>(folded.rem()),
          .least = others,
          .hops = levels + (folded.rem() == 0 ? 0 : 2)};
}

}  // namespace lsched
