// Programs: what every rank of a collective does, as a function, so that a million ranks need no memory for it.
//
// A program is the straight-line reading of a generator: at(r, i) is the i-th step of rank r. Sends do not wait; a
// receive waits for its message. Receives are numbered from 0 in the order of their rank's program, and a send says
// which number it is for, so nothing is searched. tests/libsched/schedule_world_test.cc holds each program that has a
// generator against it, message by message.
#pragma once

#include <variant>

#include "libsched/geometry.h"

namespace lsched {

enum class step_kind : std::uint8_t { send, recv, end };

struct step {
  step_kind kind = step_kind::end;
  std::uint8_t passes = 0;  ///< recv: so often the payload is then passed over with what the rank has; a sum takes one
  std::uint8_t size = 0;    ///< which of the program's message sizes
  rank peer = 0;
  std::uint32_t receive = 0;  ///< number of the receive: here, or at the peer of a send
};

/// Allreduce by recursive doubling on the core of a fold; extras are folded in before and out after. As
/// collectives/allreduce.h.
struct recursive_doubling_program {
  static constexpr bool k_one_source = false;  ///< all receives of a rank are from one peer, in order
  rank size = 1;
  std::uint64_t bytes = 0;
  fold folded;
  std::uint8_t passes = 1;  ///< over what is combined: an adaptive sum takes its dot product first

  recursive_doubling_program(rank ranks = 1, std::uint64_t message = 0, std::uint8_t combining = 1)
      : size(ranks), bytes(message), folded(ranks), passes(combining) {}

  std::uint32_t levels() const { return static_cast<std::uint32_t>(folded.levels()); }
  std::uint64_t bytes_of(std::uint8_t) const { return bytes; }
  step at(rank r, std::uint32_t i) const {
    if (folded.rem() == 0) return at_power_of_two(r, i);
    if (folded.is_extra(r)) {
      if (i == 0) return {step_kind::send, 0, 0, folded.proxy_of(r), 0};
      return i == 1 ? step{step_kind::recv, 0, 0, folded.proxy_of(r), 0} : step{};
    }
    const std::uint32_t folds = folded.is_proxy(r) ? 1 : 0;
    if (i < folds) return {step_kind::recv, passes, 0, folded.extra_of(r), 0};
    const std::uint32_t j = (i - folds) / 2;
    const bool is_send = (i - folds) % 2 == 0;
    if (j == levels()) return folds == 1 && is_send ? step{step_kind::send, 0, 0, folded.extra_of(r), 0} : step{};
    const rank peer = folded.across(r, static_cast<int>(j));
    if (is_send) return {step_kind::send, 0, 0, peer, j + (folded.is_proxy(peer) ? 1u : 0u)};
    return {step_kind::recv, passes, 0, peer, j + folds};
  }

 private:
  static constexpr std::uint8_t k_none = 0;
  step at_power_of_two(rank r, std::uint32_t i) const {
    const std::uint32_t j = i / 2;
    if (j == levels()) return {};
    return {i % 2 == 0 ? step_kind::send : step_kind::recv, i % 2 != 0 ? passes : k_none, 0, r ^ (rank{1} << j), j};
  }
};

/// Reduce along a k-nomial tree to rank 0, and broadcast back unless `is_reduce`. As collectives/allreduce_tree.h.
struct tree_program {
  static constexpr bool k_one_source = false;
  rank size = 1;
  std::uint64_t bytes = 0;
  rank radix = k_tree_radix;
  bool is_reduce = false;

  std::uint64_t bytes_of(std::uint8_t) const { return bytes; }
  step at(rank r, std::uint32_t i) const {
    const knomial tree(size, radix);
    const std::uint32_t children = tree.child_count(r);
    if (i < children) return {step_kind::recv, 1, 0, tree.child_of(r, i), i};
    std::uint32_t rest = i - children;
    if (r != 0) {
      const rank parent = tree.parent_of(r);
      if (rest == 0) return {step_kind::send, 0, 0, parent, tree.place_of(r)};
      if (is_reduce) return {};
      if (rest == 1) return {step_kind::recv, 0, 0, parent, children};
      rest -= 2;
    }
    if (is_reduce || rest >= children) return {};
    const rank child = tree.child_of(r, children - 1 - rest);  // the deepest subtree first
    return {step_kind::send, 0, 0, child, tree.child_count(child)};
  }
};

/// Barrier by dissemination, one byte a message. As collectives/barrier.h.
struct dissemination_program {
  static constexpr bool k_one_source = false;
  rank size = 1;
  std::uint64_t bytes = 1;

  std::uint64_t bytes_of(std::uint8_t) const { return bytes; }
  step at(rank r, std::uint32_t i) const {
    const std::uint32_t j = i / 2;
    if ((std::uint64_t{1} << j) >= static_cast<std::uint64_t>(size)) return {};
    const rank distance = rank{1} << j;
    if (i % 2 == 0) return {step_kind::send, 0, 0, ring_after(r, distance, size), j};
    return {step_kind::recv, 0, 0, ring_before(r, distance, size), j};
  }
};

/// Allreduce on a ring: P-1 steps of reduce-scatter, P-1 of allgather, each with one of P blocks (the first
/// bytes % P of them a byte longer).
struct ring_program {
  static constexpr bool k_one_source = true;
  rank size = 1;
  std::uint64_t bytes = 0;

  std::uint64_t bytes_of(std::uint8_t which) const { return bytes / static_cast<std::uint64_t>(size) + which; }
  std::uint8_t size_of_block(std::int64_t block) const {
    const auto index = static_cast<std::uint64_t>((block % size + size) % size);
    return index < bytes % static_cast<std::uint64_t>(size) ? 1 : 0;
  }
  step at(rank r, std::uint32_t i) const {
    const std::uint32_t round = i / 2, half = static_cast<std::uint32_t>(size) - 1;
    if (round >= 2 * half) return {};
    const std::int64_t block = std::int64_t{r} - round;  // what r sends in this round
    if (i % 2 == 0) return {step_kind::send, 0, size_of_block(block), ring_after(r, 1, size), round};
    return {step_kind::recv, static_cast<std::uint8_t>(round < half ? 1 : 0), size_of_block(block - 1),
            ring_before(r, 1, size), round};
  }
};

/// Allreduce by recursive halving and doubling, of 2^k ranks; as an adaptive sum, each half is passed over twice, and
/// the sums of it go across the dimensions behind. As collectives/allreduce_rabenseifner.h and
/// collectives/adasum_halving.h.
struct halving_program {
  static constexpr bool k_one_source = false;
  static constexpr std::uint64_t k_sums_bytes = 24;
  rank size = 1;
  std::uint64_t bytes = 0;
  bool is_adaptive = false;
  bool sums_travel = true;  ///< false: as if all ranks knew the sums

  /// 0: sums; k: the half of step k-1.
  std::uint64_t bytes_of(std::uint8_t which) const {
    if (which == 0) return k_sums_bytes;
    return which < 64 ? (bytes >> which) + ((bytes & ((std::uint64_t{1} << which) - 1)) != 0 ? 1 : 0) : 0;
  }
  std::uint32_t levels() const { return static_cast<std::uint32_t>(floor_log2(size)); }
  /// Steps of the exchanges of sums in step j.
  std::uint32_t sums_in(std::uint32_t j) const { return is_adaptive && sums_travel && bytes != 0 ? 2 * (j + 1) : 0; }

  step at(rank r, std::uint32_t i) const {
    const std::uint32_t receive = i / 2;
    std::uint32_t rest = i;
    for (std::uint32_t j = 0; j < levels(); ++j) {
      if (rest < 2) return exchange(r, j, rest, j + 1, is_adaptive ? 2 : 1, receive);
      rest -= 2;
      if (rest < sums_in(j)) return exchange(r, j - rest / 2, rest % 2, 0, 1, receive);
      rest -= sums_in(j);
    }
    const std::uint32_t back = rest / 2;
    if (back >= levels()) return {};
    const std::uint32_t j = levels() - 1 - back;
    return exchange(r, j, rest % 2, j + 1, 0, receive);
  }

 private:
  /// Both partners are at the same step, so that their receives have the same number.
  static step exchange(rank r, std::uint32_t dimension, std::uint32_t half, std::uint32_t which, int passes,
                       std::uint32_t receive) {
    const rank partner = r ^ (rank{1} << dimension);
    const auto size = static_cast<std::uint8_t>(which);
    if (half == 0) return {step_kind::send, 0, size, partner, receive};
    return {step_kind::recv, static_cast<std::uint8_t>(passes), size, partner, receive};
  }
};

/// Everybody sends to rank 0, which receives in rank order. At most 65 ranks.
struct gather_program {
  static constexpr bool k_one_source = false;
  rank size = 1;
  std::uint64_t bytes = 0;

  std::uint64_t bytes_of(std::uint8_t) const { return bytes; }
  step at(rank r, std::uint32_t i) const {
    if (r != 0) return i == 0 ? step{step_kind::send, 0, 0, 0, static_cast<std::uint32_t>(r) - 1} : step{};
    if (i + 1 >= static_cast<std::uint32_t>(size)) return {};
    return {step_kind::recv, 0, 0, static_cast<rank>(i) + 1, i};
  }
};

using program = std::variant<recursive_doubling_program, tree_program, dissemination_program, ring_program,
                             gather_program, halving_program>;

inline rank size_of(const program& what) {
  return std::visit([](const auto& it) { return it.size; }, what);
}

}  // namespace lsched
