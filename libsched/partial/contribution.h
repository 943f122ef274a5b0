// The two hand-overs between an application and a partial instance: contributions and results.
//
// A place is an atomic that holds the index of a buffer, or "empty". A thread takes the buffer by exchanging the place
// with "empty". So a buffer always has exactly one owner, and no thread waits for another thread:
//
//     offer   (application)  adds the gradient to the pending contribution, in a spare buffer, and puts that buffer in
//                            the place
//     capture (engine)       takes the pending buffer for this round; empty: this rank contributes nothing (null)
//     publish (engine)       puts the finished result behind the results that wait; if the queue is full, replaces
//                            the last waiting result, or merges both results (lag_policy)
//     collect (application)  takes the first result that waits; the buffer is spare again after the copy, or when the
//                            application takes the next result
//
// Three contribution buffers suffice: one captured, one pending, one being filled. Two result buffers are needed beyond
// the results that are kept: the engine writes the first, and the application reads the second. If results are
// combined, a third buffer keeps the newest result uncombined until the next result (docs/reference/shrink.md).
//
// A buffer's plain fields belong to its holder. The exchanges are acq_rel, so the next holder sees them. Pending and
// captured buffers are never written. An offer reads the pending buffer and writes the sum to a spare buffer.
//
// A gradient that misses its round stays pending and is merged into the next offer, so nothing is lost and nothing is
// counted twice. Thread safety: for each instance, one application thread at a time may offer, and one may collect.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "libsched/transport/endpoint.h"
#include "ops/kernel.h"

namespace lsched {

/// An atomic place for the index of a buffer.
class place {
 public:
  std::optional<std::uint32_t> take() {
    const std::uint32_t held = held_.exchange(0, std::memory_order_acq_rel);
    return held == 0 ? std::nullopt : std::optional(held - 1);
  }
  void put(std::uint32_t buffer) { held_.exchange(buffer + 1, std::memory_order_acq_rel); }
  std::optional<std::uint32_t> look() const {
    const std::uint32_t held = held_.load(std::memory_order_acquire);
    return held == 0 ? std::nullopt : std::optional(held - 1);
  }
  /// Replaces `expected` by `buffer`. Returns false if `expected` is no longer in the place.
  bool replace(std::uint32_t expected, std::uint32_t buffer) {
    std::uint32_t held = expected + 1;
    return held_.compare_exchange_strong(held, buffer + 1, std::memory_order_acq_rel);
  }

 private:
  std::atomic<std::uint32_t> held_{0};
};

/// A set of spare buffers: one bit each, at most 63.
class spares {
 public:
  explicit spares(std::uint32_t buffers) : bits_((std::uint64_t{1} << buffers) - 1) {}
  void put(std::uint32_t buffer) { bits_.fetch_or(std::uint64_t{1} << buffer, std::memory_order_acq_rel); }
  std::optional<std::uint32_t> take();

 private:
  std::atomic<std::uint64_t> bits_;
};

/// The arithmetic that combines two values of an instance.
struct combiner {
  reduce_fn reduce = nullptr;  ///< elementwise
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  /// Merges `earlier` into `later`, for all elements at once. If empty, `reduce` is used.
  std::function<void(const std::byte* earlier, std::byte* later)> merge{};
};

/// A part of the application's memory for a contribution or a result, which consists of one or several consecutive
/// parts.
template <class Byte>
struct part {
  Byte* data = nullptr;
  std::uint64_t count = 0;  ///< elements
};
using source_part = part<const std::byte>;
using target_part = part<std::byte>;

/// Hands contributions from the application to the engine.
class contribution {
 public:
  static constexpr std::uint32_t k_buffers = 3;
  struct pending {
    std::byte* data = nullptr;
    std::uint64_t offers = 0;
    round_no since = 0;  ///< round that the first of these offers called for
  };

  contribution(combiner how, std::span<std::byte* const, k_buffers> memory)
      : how_(std::move(how)), buffers_{{memory[0]}, {memory[1]}, {memory[2]}} {}

  /// Deposits a gradient and records the round that it calls for. Application. Reads the gradient once, or twice if a
  /// capture takes the pending buffer meanwhile.
  void offer(std::span<const source_part> gradient, round_no call = 0);
  void offer(const std::byte* gradient, round_no call = 0) {
    const source_part whole{gradient, how_.count};
    offer(std::span(&whole, 1), call);
  }

  /// Returns the buffers. The owner frees them after this object is destroyed.
  std::vector<std::byte*> memory() const;

  /// Copies a part of a gradient, beginning at element `begin`. commit() deposits the whole gradient. No offer may come
  /// between the first part and commit(). Application.
  void prepare(std::uint64_t begin, const source_part& one);
  /// Deposits the prepared gradient. Application. A capture during this call finds nothing, and the next capture finds
  /// all of it.
  void commit(round_no call);
  bool is_prepared() const { return prepared_.has_value(); }

  /// Discards the pending offers and the parts that were prepared. Application. Returns the number of pending offers.
  std::uint64_t withdraw();

  /// Copies the pending contribution to `into`. Application. Returns the number of its offers, or 0 if nothing is
  /// pending. Also returns 0 if a capture takes the contribution meanwhile. `into` is then unspecified.
  std::uint64_t save(std::byte* into) const;
  /// Deposits a saved contribution of `offers` offers, as offer() does.
  void load(const std::byte* saved, std::uint64_t offers, round_no call);

  /// Records that no offer will follow. Application, after its last offer.
  void leave() { has_left_.store(true); }
  bool has_left() const { return has_left_.load(); }

  struct captured {
    std::optional<std::uint32_t> buffer;  ///< buffer of this round's contribution, or empty; returned by done()
    bool is_last = false;                 ///< no later capture will find a contribution
  };
  /// Takes the pending contribution for this round. Engine. `has_left_` is loaded first, because an offer and then a
  /// leave may come between the two loads. If `has_left_` were loaded last, this capture would count as the last one
  /// while that offer is pending. Without other ranks, no further round would send that offer.
  captured capture() {
    const bool is_last = has_left_.load();
    return {pending_.take(), is_last};
  }
  /// Makes a captured contribution pending again, before later offers. Engine, while the application makes no calls.
  void give_back(std::uint32_t buffer);

  const pending& at(std::uint32_t buffer) const { return buffers_[buffer]; }
  void done(std::uint32_t buffer) { spares_.put(buffer); }

 private:
  void copy_parts(std::span<const source_part> gradient, std::byte* into) const;
  void deposit(std::span<const source_part> gradient, std::uint64_t offers, round_no call);
  void add(const pending& earlier, pending& later) const;

  combiner how_;
  pending buffers_[k_buffers];
  std::optional<std::uint32_t> prepared_;  ///< application only: gradient that is being prepared
  place pending_;
  std::atomic<bool> has_left_{false};
  spares spares_{k_buffers};
};

/// The rounds (from, to] that a delivery covers, and their participation.
struct delivered {
  round_no from = 0;
  round_no to = 0;
  std::uint64_t contributors = 0;  ///< contributors of round `to`
  std::uint64_t last_offers = 0;   ///< offers of round `to`
  /// Offers in the result: of one round (lag_policy::latest) or of all rounds in (from, to]
  std::uint64_t offers = 0;
  std::uint64_t in_result = 0;  ///< contributors of the round that made the result (latest)
  std::uint64_t ranks = 0;      ///< size of the world of round `to`
  std::uint64_t mine = 0;       ///< this rank's offers inside (from, to]
  round_no staleness = 0;       ///< maximum over `mine` of the rounds between the call and the result
  bool null = true;             ///< no rank contributed: there is no result
};

/// The treatment of a result that is not collected before the next result.
enum class lag_policy : std::uint8_t {
  latest,      ///< the next result replaces the uncollected result
  accumulate,  ///< the uncollected result is combined into the next result: no round's result is ever dropped
  history,     ///< both results are kept, up to a number of results; beyond that number, the newest two are combined
};

struct lag_rule {
  static constexpr std::uint32_t k_most = 60;
  lag_policy policy;
  std::uint32_t results;  ///< maximum number of results kept for the application: 1 … k_most with `history`, else 1

  constexpr lag_rule(lag_policy what = lag_policy::latest, std::uint32_t kept = 1) : policy(what), results(kept) {}
  constexpr std::uint32_t buffers() const { return results + (policy == lag_policy::latest ? 2 : 3); }
};

/// Hands results from the engine to the application.
class delivery {
 public:
  struct slot {
    std::byte* data = nullptr;
    delivered what{};
  };

  /// Creates a delivery. `memory` has lag.buffers() buffers.
  delivery(combiner how, lag_rule lag, std::span<std::byte* const> memory);

  /// Engine: returns the memory for the next result.
  std::byte* writing() const { return slots_[writing_].data; }

  /// Engine: publishes the result of a round at `data`, which is the memory of another buffer if storage was exchanged.
  /// Returns the memory for the next result.
  std::byte* publish(std::byte* data, const delivered& what);

  /// Application: copies the first uncollected result to `result`. If there is no such result, or if that result is
  /// null, `result` is unchanged. Without parts, or with a null pointer, the result is dropped.
  std::optional<delivered> collect(std::span<const target_part> result);
  std::optional<delivered> collect(std::byte* result) {
    const target_part whole{result, how_.count};
    return collect(std::span(&whole, result == nullptr ? 0 : 1));
  }

  /// Engine: returns the result of the last published round, uncombined. `data` is null if that result is null or if no
  /// round was published.
  const slot& newest() const { return newest_; }

  /// Engine: sets the memory for the next result, after that memory was exchanged with the memory of another buffer.
  void write_at(std::byte* data) { slots_[writing_].data = data; }

  /// Returns the buffers. The owner frees them after this object is destroyed.
  std::vector<std::byte*> memory() const;

  struct loan {
    std::byte* data = nullptr;
    delivered what{};
  };
  /// Application: returns the first uncollected result in place. The memory is valid until the next borrow() or
  /// collect() that returns a result.
  std::optional<loan> borrow();

  /// Copies a whole result. Any thread.
  void copy(const std::byte* result, std::span<const target_part> into) const;

  /// Application: returns the last round collected.
  round_no collected() const { return collected_; }

 private:
  bool absorb(slot& into, slot& older);
  void give_back();

  place& at(std::uint64_t number) { return queue_[number % queue_.size()]; }

  combiner how_;
  lag_rule lag_;
  std::vector<slot> slots_;
  std::vector<place> queue_;
  std::uint64_t queued_ = 0;            ///< engine only: number of places filled so far
  std::uint32_t writing_ = 0;           ///< engine only
  slot newest_{};                       ///< engine only
  std::optional<std::uint32_t> kept_;   ///< engine only: buffer of newest_, unless it is queued
  std::uint64_t taken_ = 0;             ///< application only: number of results taken
  round_no collected_ = 0;              ///< application only
  std::optional<std::uint32_t> lent_;   ///< application only: slot that is lent
  std::atomic<round_no> published_{0};  ///< engine → application: the last round put into its place
  spares spares_;
};

}  // namespace lsched
