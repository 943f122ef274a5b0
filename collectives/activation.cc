#include "collectives/activation.h"

#include <span>
#include <vector>

#include "libsched/geometry.h"

namespace lsched {
namespace {

/// An op already in the builder that fires on the first token of any of `causes`.
op_id on_any(builder& to, op_id what, std::span<const op_id> causes) {
  for (const op_id cause : causes) to.dep(cause, what);
  to.any(what);
  return what;
}

op_id signal_on_any(builder& to, rank peer, std::span<const op_id> causes) {
  return on_any(to, to.signal_send(peer, k_activation_tag), causes);
}

// Each of the two answers every op that wakes this rank: the call first, then the receives.

std::vector<op_id> add_extra(builder& to, const fold& folded, op_id call) {
  const rank proxy = folded.proxy_of(to.place().self);
  const op_id heard = to.signal_recv(proxy, k_activation_tag);
  to.signal_send(proxy, k_activation_tag, {call});
  return {call, heard};
}

// `wakes` holds, in this order: call, R_x at a proxy, R_0 … R_{L-1}. What S_k fires on is then a prefix.
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

fragment add_activation(builder& to, activation_policy policy, kernel merge, buffer_id target, extent count) {
  const op_id call = to.call();
  std::vector<op_id> wakes{call};
  if (policy != activation_policy::full) {
    const fold folded(to.place().size);
    wakes = folded.is_extra(to.place().self) ? add_extra(to, folded, call) : add_core(to, folded, call);
  }
  const op_id gate = on_any(to, to.capture(merge, region(target, 0), count), wakes);
  return {.entry = call, .exit = gate};
}

}  // namespace lsched
