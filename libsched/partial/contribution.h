// The two queues between an application and a partial instance: one for contributions, and one for results.
//
// A place is an atomic that holds the index of a buffer, or "empty". A thread takes the buffer by an atomic exchange of
// the place with "empty". So a buffer always has exactly one owner. The engine never waits. The application waits only
// if it collects a result while the engine replaces this result:
//
//     offer   (application)  adds the gradient to the pending contribution, in a spare buffer, and puts that buffer in
//                            the place
//     capture (engine)       takes the pending buffer for this round; if the place is empty, the contribution is null
//     publish (engine)       puts the finished result behind the uncollected results; if the queue is full, replaces
//                            the last uncollected result, or merges both results (lag_policy)
//     collect (application)  takes the first uncollected result; the buffer is spare again after the copy, or when the
//                            application takes the next result
//
// Four contribution buffers suffice: the captured buffer, the pending buffer, the buffer that prepare() fills, and the
// buffer that receives a sum. In addition to the queued results, two result buffers are needed: the engine writes one,
// and the application reads the other. If results are combined, a third buffer keeps an uncombined copy of the newest
// result (docs/reference/shrink.md).
//
// Only the owner of a buffer accesses its plain fields. The exchanges are acq_rel, so the next owner sees these fields.
// Pending and captured buffers are never written: an offer writes the sum to a spare buffer.
//
// If a gradient misses its round, it stays pending and is merged with the next offer. So every gradient counts exactly
// once.
//
// An offer has a weight, by default 1. The gradient is multiplied by the weight when it is copied, and a contribution
// counts the weights of its offers instead of the offers. So a result divided by its count is the weighted mean of all
// gradients in the result, no matter which of them were late. Counts saturate at 2^64-1, so a count is never 0 if there
// was an offer.
//
// A late contribution can be multiplied by a factor that depends on its age (age_rule). offer() multiplies the pending
// contribution by the factor of the rounds between the two calls. data_for() multiplies the captured contribution by
// the factor of the rounds from its last call to the round that captures it. Counts are not multiplied.
//
// Thread safety: for each instance, one application thread at a time may offer, and one may collect.
#pragma once

#include <algorithm>
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
  /// Replaces `expected` by `buffer`. Returns false if the place does not hold `expected`.
  bool replace(std::uint32_t expected, std::uint32_t buffer) {
    std::uint32_t held = expected + 1;
    return held_.compare_exchange_strong(held, buffer + 1, std::memory_order_acq_rel);
  }

 private:
  std::atomic<std::uint32_t> held_{0};
};

/// A set of spare buffers, with one bit for each of at most 63 buffers.
class spares {
 public:
  explicit spares(std::uint32_t buffers) : bits_((std::uint64_t{1} << buffers) - 1) {}
  void put(std::uint32_t buffer) { bits_.fetch_or(std::uint64_t{1} << buffer, std::memory_order_acq_rel); }
  std::optional<std::uint32_t> take();
  bool has(std::uint32_t buffer) const { return (bits_.load(std::memory_order_acquire) >> buffer & 1) != 0; }

 private:
  std::atomic<std::uint64_t> bits_;
};

/// The factors by which contributions are multiplied because of their age. The factor of age 0 is 1. Without `factors`
/// and `is_inverse`, all factors are 1.
struct age_rule {
  std::vector<double> factors{};  ///< factors of the ages 0, 1, …; larger ages have the last factor
  bool is_inverse = false;        ///< the factor is 1 / (1 + age)
  std::uint32_t rounds = 1;       ///< number of rounds in a unit of age: the number of fragments

  bool exists() const { return is_inverse || !factors.empty(); }
  double factor_of(round_no late) const {
    const round_no age = late / rounds;
    if (is_inverse) return 1 / (1 + static_cast<double>(age));
    return factors.empty() ? 1 : factors[std::min<round_no>(age, factors.size() - 1)];
  }
};

/// Computes to[i] = factor * from[i]. `from` and `to` are disjoint.
using scale_fn = void (*)(const void* from, std::size_t count, double factor, void* to);

/// The arithmetic that combines two values of an instance.
struct combiner {
  reduce_fn reduce = nullptr;  ///< elementwise
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  /// Merges all elements of `earlier` into `later`. If `merge` is empty, `reduce` is used.
  std::function<void(const std::byte* earlier, std::byte* later)> merge{};
  multiply_fn multiply = nullptr;  ///< multiplies a gradient by its weight; null unless `reduce` is a sum
  age_rule age{};
  scale_fn scale = nullptr;  ///< multiplies a contribution by the factor of its age; set if `age` exists

  std::uint64_t element_bytes() const { return count == 0 ? 0 : bytes / count; }
};

/// A part of a contribution or result in the application's memory. The contribution or result is the concatenation of
/// its parts.
template <class Byte>
struct part {
  Byte* data = nullptr;
  std::uint64_t count = 0;  ///< number of elements
};
using source_part = part<const std::byte>;
using target_part = part<std::byte>;

/// Calls `act` with each non-empty part, its offset in bytes, and its size in bytes.
template <class Byte, class Act>
void for_each_part(std::span<const part<Byte>> parts, const combiner& how, Act&& act) {
  std::uint64_t begin = 0;
  for (const part<Byte>& piece : parts) {
    const std::uint64_t bytes = piece.count * how.element_bytes();
    if (bytes > 0) act(piece, begin, bytes);
    begin += bytes;
  }
}

/// Hands contributions from the application to the engine.
class contribution {
 public:
  static constexpr std::uint32_t k_buffers = 4;
  struct pending {
    std::byte* data = nullptr;
    std::uint64_t offers = 0;  ///< sum of the weights of the offers
    round_no since = 0;        ///< round for which the first of these offers was made
    round_no newest = 0;       ///< round for which the last of these offers was made; the age counts from this round
  };

  /// `aged` is the memory for a captured contribution that is scaled because of its age. Without ages, null.
  contribution(combiner how, std::span<std::byte* const, k_buffers> memory, std::byte* aged = nullptr)
      : how_(std::move(how)), buffers_{{memory[0]}, {memory[1]}, {memory[2]}, {memory[3]}}, aged_(aged) {}

  /// Application: adds a gradient to the pending contribution. `call` is the round that the application calls for with
  /// this offer. `weight` is at least 1. Reads the gradient once, or twice if a capture takes the pending buffer
  /// meanwhile.
  void offer(std::span<const source_part> gradient, round_no call = 0, std::uint64_t weight = 1);
  void offer(const std::byte* gradient, round_no call = 0, std::uint64_t weight = 1) {
    const source_part whole{gradient, how_.count};
    offer(std::span(&whole, 1), call, weight);
  }

  /// Returns the buffers. The owner frees them after this object is destroyed.
  std::vector<std::byte*> memory() const;
  /// Engine, while the application makes no calls: copies the contributions to other memory, and uses that memory from
  /// now on. `memory` must have as many buffers as memory().
  void move_to(std::span<std::byte* const> memory);

  /// Application: copies a part of a gradient to a spare buffer, beginning at element `begin`. After all parts,
  /// commit() adds the whole gradient. Between the first prepare() and commit(), offer() must not be called.
  void prepare(std::uint64_t begin, const source_part& one);
  /// Application: adds the prepared gradient to the pending contribution. A capture during this call takes the pending
  /// contribution with or without the prepared gradient. If `weight` is 0, discards the prepared gradient.
  void commit(round_no call, std::uint64_t weight = 1);
  bool is_prepared() const { return prepared_.has_value(); }

  /// Application: discards the pending offers and the prepared parts. Returns the sum of the weights of the offers.
  std::uint64_t withdraw();

  /// Application: copies the pending contribution to `into`. Returns the sum of the weights of its offers, or 0 if
  /// nothing is pending. If a capture takes the contribution meanwhile, returns 0, and the content of `into` is
  /// unspecified.
  std::uint64_t save(std::byte* into) const;
  /// Application: adds a saved contribution to the pending contribution. `offers` is the sum that save() has returned.
  void load(const std::byte* saved, std::uint64_t offers, round_no call);

  /// Application: records that no offer will follow. Called after the last offer.
  void leave() { has_left_.store(true); }
  bool has_left() const { return has_left_.load(); }

  struct captured {
    std::optional<std::uint32_t> buffer;  ///< buffer of this round's contribution, or empty; see done()
    bool is_last = false;                 ///< no later capture will find a contribution, unless give_back() is called
  };
  /// Engine: takes the pending contribution for this round. `has_left_` must be loaded before the pending buffer.
  /// Otherwise offer() and leave() could be called between the two loads. This capture would then miss the offer, but
  /// count as the last capture, so the offer might never be sent.
  captured capture() {
    const bool is_last = has_left_.load();
    return {pending_.take(), is_last};
  }
  bool has_pending() const { return pending_.look().has_value(); }
  /// Engine, while the application makes no calls: makes a captured contribution pending again, as the earliest offer.
  void give_back(std::uint32_t buffer);

  const pending& at(std::uint32_t buffer) const { return buffers_[buffer]; }

  /// Returns the factor of a captured contribution in a round.
  double factor_of(std::uint32_t buffer, round_no round) const { return factor_of(buffers_[buffer].newest, round); }
  /// Engine: returns the data of a captured contribution for a round. If the factor is not 1, this is a scaled copy,
  /// because give_back() and offer() need the original.
  std::byte* data_for(std::uint32_t buffer, round_no round) const;
  void done(std::uint32_t buffer) { spares_.put(buffer); }

 private:
  /// A gradient that is not yet in a buffer.
  struct offered {
    std::span<const source_part> gradient;
    std::uint64_t offers;  ///< sum of the weights of the offers that the gradient contains
    std::uint64_t factor;  ///< factor by which the gradient must be multiplied
    round_no call;
  };

  void copy(const offered& one, std::byte* into) const;
  void deposit(const offered& one);
  bool add_to_pending(const offered& one, std::uint32_t sum);
  double factor_of(round_no earlier, round_no later) const {
    return earlier < later ? how_.age.factor_of(later - earlier) : 1;
  }
  struct merging {
    double fade;           ///< factor of the earlier data, because of its age
    std::uint64_t factor;  ///< factor of the later data, because of its weight
  };
  void combine(const std::byte* earlier, const source_part& later, const merging& by, std::byte* into) const;
  void add(const pending& earlier, pending& later) const;

  combiner how_;
  pending buffers_[k_buffers];
  std::byte* aged_;
  std::optional<std::uint32_t> prepared_;  ///< application only: buffer that prepare() fills
  place pending_;
  std::atomic<bool> has_left_{false};
  spares spares_{k_buffers};
};

/// The rounds (from, to] that a result covers, and the participation of ranks in these rounds.
struct delivered {
  round_no from = 0;
  round_no to = 0;
  std::uint64_t contributors = 0;  ///< number of contributors of round `to`
  std::uint64_t last_offers = 0;   ///< sum of the weights of the offers in round `to`
  /// Sum of the weights of the offers in the result. With lag_policy::latest, the result covers one round. Otherwise
  /// it covers the rounds (from, to].
  std::uint64_t offers = 0;
  std::uint64_t in_result = 0;  ///< with lag_policy::latest: number of contributors of the result
  std::uint64_t ranks = 0;      ///< size of the world of round `to`
  std::uint64_t mine = 0;       ///< sum of the weights of this rank's offers in the rounds (from, to]
  double age_factor = 1;        ///< smallest factor of an age by which a round multiplied a contribution of this rank
  round_no staleness = 0;       ///< maximum number of rounds from an offer of this rank to the round that includes it
  std::uint64_t groups = 0;     ///< with replica groups: bit g is set if group g is in round `to`
  bool null = true;             ///< no rank contributed: there is no result
};

/// Decides what happens to an uncollected result when the next result arrives.
enum class lag_policy : std::uint8_t {
  latest,      ///< the next result replaces the uncollected result
  accumulate,  ///< the uncollected result is combined with the next result, so that no result is dropped
  history,     ///< both results are kept; if there are more than `results` results, the newest two are combined
};

/// Adds the rounds of an older result to a newer result: the rounds and the participation, but not the data. `null` is
/// unchanged.
void add_rounds(delivered& into, const delivered& older, lag_policy policy);

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

  /// `memory` must have lag.buffers() buffers.
  delivery(combiner how, lag_rule lag, std::span<std::byte* const> memory);

  /// Engine: returns the memory for the next result.
  std::byte* writing() const { return slots_[writing_].data; }

  /// Engine: publishes the result of a round. The result is at `data`, which differs from writing() if the output has
  /// exchanged its memory with another buffer. Returns the memory for the next result.
  std::byte* publish(std::byte* data, const delivered& what);

  /// Application: copies the first uncollected result to `result`. If there is no such result, or if that result is
  /// null, `result` is unchanged. If `result` is null or has no parts, the collected result is dropped.
  std::optional<delivered> collect(std::span<const target_part> result);
  std::optional<delivered> collect(std::byte* result) {
    const target_part whole{result, how_.count};
    return collect(std::span(&whole, result == nullptr ? 0 : 1));
  }

  /// Engine: returns the result of the last published round, not combined with other results. `data` is null if that
  /// result is null or if no round was published.
  const slot& newest() const { return newest_; }

  /// Engine: sets the memory for the next result, after the output has exchanged its memory with another buffer.
  void write_at(std::byte* data) { slots_[writing_].data = data; }

  /// Returns the buffers. The owner frees them after this object is destroyed.
  std::vector<std::byte*> memory() const;
  /// Engine, while the application makes no calls: copies the results to other memory, and uses that memory from now
  /// on. `memory` must have lag.buffers() buffers. A loan of borrow() keeps pointing to the former memory.
  void move_to(std::span<std::byte* const> memory);

  /// Application: returns true if an uncollected result exists.
  bool has_result() const { return collected_.to < published_.load(std::memory_order_acquire); }

  struct loan {
    std::byte* data = nullptr;
    delivered what{};
  };
  /// Application: returns the first uncollected result without a copy. The memory is valid until the next borrow() or
  /// collect() that returns a result.
  std::optional<loan> borrow();

  /// Copies a whole result to the parts `into`. Any thread may call this function.
  void copy(const std::byte* result, std::span<const target_part> into) const;

  /// Application: returns the rounds and the participation of the result that was collected last.
  const delivered& collected() const { return collected_; }

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
  std::optional<std::uint32_t> kept_;   ///< engine only: buffer of newest_, unless that buffer is queued
  std::uint64_t taken_ = 0;             ///< application only: number of results taken
  delivered collected_{};               ///< application only
  std::optional<std::uint32_t> lent_;   ///< application only: slot that borrow() has returned
  std::atomic<round_no> published_{0};  ///< written by the engine, read by the application: the last published round
  spares spares_;
};

}  // namespace lsched
