// The activation broadcast of collectives/activation.h, as a function: which signals a rank sends when it is woken.
#pragma once

#include <vector>

#include "libsched/geometry.h"

namespace lsched {

class activation_wave {
 public:
  explicit activation_wave(rank size)
      : folded_(size), states_(static_cast<std::size_t>(size), static_cast<std::uint8_t>(folded_.levels())) {}

  /// Number of a signal's receive; those along dimension k are k.
  static constexpr std::uint32_t k_call = 32, k_pair = 33;  ///< the own call; between a proxy and its extra

  bool is_awake(rank r) const { return (state(r) & k_awake) != 0; }

  /// Rank r hears `cause`. Calls send(peer, number of the receive there) for each signal that this sets off, and
  /// answers whether it was the first.
  template <class Send>
  bool wake(rank r, std::uint32_t cause, Send&& send) {
    std::uint8_t& mine = states_[static_cast<std::size_t>(r)];
    const bool is_first = (mine & k_awake) == 0;
    mine |= k_awake;
    if (folded_.is_extra(r)) {
      if (cause == k_call) send(folded_.proxy_of(r), k_pair);
      return is_first;
    }
    // S_k fires on the first of call, pair, R_0 … R_{k-1}: all from `begin` on but those that have.
    const std::uint32_t fired_from = mine & k_dimensions;
    const std::uint32_t begin = cause < k_call ? cause + 1 : 0;
    for (std::uint32_t k = begin; k < fired_from; ++k) send(folded_.across(r, static_cast<int>(k)), k);
    if (begin < fired_from) mine = static_cast<std::uint8_t>((mine & (k_awake | k_told_extra)) | begin);
    if (folded_.is_proxy(r) && cause != k_pair && (mine & k_told_extra) == 0) {
      mine |= k_told_extra;
      send(folded_.extra_of(r), k_pair);
    }
    return is_first;
  }

  std::size_t memory() const { return states_.capacity(); }

 private:
  static constexpr std::uint8_t k_dimensions = 0x3f, k_awake = 0x40, k_told_extra = 0x80;
  std::uint8_t state(rank r) const { return states_[static_cast<std::size_t>(r)]; }

  fold folded_;
  std::vector<std::uint8_t> states_;
};

}  // namespace lsched
