// The two hand-overs between an application and a partial instance: what it offers, what it collects.
//
// A place is one atomic index; taking is an exchange with "empty", so there is always exactly one owner of a
// buffer and nobody waits for anybody:
//
//     offer   (application)  adds to what is pending, in a spare buffer, and puts that in its place
//     capture (engine)       takes the pending buffer for this round; empty means null for this round
//     publish (engine)       puts the finished result behind those that wait; where there is no room, into the last
//     collect (application)  takes the first that waits, and gives the buffer back as spare when it has copied it, or
//                            when it takes the next
//
// Three contribution buffers suffice (one captured, one pending, one being filled), and two more result buffers than
// results are kept (one written, one with the application), or three where results are combined: the newest one is also
// kept as it was made until the next is (docs/reference/shrink.md). A buffer's plain fields belong to whoever holds it;
// the exchanges are acq_rel, so the next holder sees them. What is pending, or was captured, is only read: also by the
// offer that adds to it.
//
// A gradient that missed its round stays pending and is merged into the next; nothing is lost and nothing is
// counted twice. One application thread at a time per instance may offer, and one may collect.
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

/// An exchangeable place for a buffer.
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
  /// Puts `buffer` where `expected` still is. Answers whether it was.
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

/// The arithmetic of an instance's data: how two values become one.
struct combiner {
  reduce_fn reduce = nullptr;  ///< elementwise
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  /// later = earlier and later, of all elements at once. Empty: by `reduce`.
  std::function<void(const std::byte* earlier, std::byte* later)> merge{};
};

/// The application's memory for what crosses: in one piece, or in several that stand for it one after the other.
template <class Byte>
struct part {
  Byte* data = nullptr;
  std::uint64_t count = 0;  ///< elements
};
using source_part = part<const std::byte>;
using target_part = part<std::byte>;

/// Application → engine.
class contribution {
 public:
  static constexpr std::uint32_t k_buffers = 3;
  struct pending {
    std::byte* data = nullptr;
    std::uint64_t offers = 0;
    round_no since = 0;  ///< the round that the first of them called for
  };

  contribution(combiner how, std::span<std::byte* const, k_buffers> memory)
      : how_(std::move(how)), buffers_{{memory[0]}, {memory[1]}, {memory[2]}} {}

  /// Deposits a gradient, and notes which round it calls for. Application. One pass over it, two if what was pending is
  void offer(std::span<const source_part> gradient, round_no call = 0);
  void offer(const std::byte* gradient, round_no call = 0) {
    const source_part whole{gradient, how_.count};
    offer(std::span(&whole, 1), call);
  }

  /// Its buffers. Whoever holds it ends them after it.
  std::vector<std::byte*> memory() const;

  /// Takes over a part of a gradient that is put together, from element `begin` on; commit() deposits the whole. No
  /// other offer comes between the first part and that. Application.
  void prepare(std::uint64_t begin, const source_part& one);
  /// A capture while this adds to what was pending finds nothing, and the next one all of it. Application.
  void commit(round_no call);
  bool is_prepared() const { return prepared_.has_value(); }

  /// Takes back what is pending, and what is being put together, and forgets it. Application. Answers how many offers
  /// that were.
  std::uint64_t withdraw();

  /// What is pending, copied to `into`. Application. Answers how many offers that are; 0: nothing is written. A capture
  /// meanwhile: nothing is pending.
  std::uint64_t save(std::byte* into) const;
  /// So many offers that were saved elsewhere are pending, too. As offer.
  void load(const std::byte* saved, std::uint64_t offers, round_no call);

  /// There will be no offer any more. Application, after its last one.
  void leave() { has_left_.store(true); }
  bool has_left() const { return has_left_.load(); }

  struct captured {
    std::optional<std::uint32_t> buffer;  ///< to send this round, or nothing; it comes back through `done`
    bool is_last = false;                 ///< no later capture finds anything
  };
  /// Engine. Whether the application has left is asked first: an offer may come between the two, and then a leave.
  /// Asked last, this capture would call itself the last one while that offer is pending, and if no other rank is left,
  /// no further round sends it.
  captured capture() {
    const bool is_last = has_left_.load();
    return {pending_.take(), is_last};
  }
  /// Engine, while the application is elsewhere: what was captured is pending again, before what was offered since.
  void give_back(std::uint32_t buffer);

  const pending& at(std::uint32_t buffer) const { return buffers_[buffer]; }
  void done(std::uint32_t buffer) { spares_.put(buffer); }

 private:
  void copy_parts(std::span<const source_part> gradient, std::byte* into) const;
  void deposit(std::span<const source_part> gradient, std::uint64_t offers, round_no call);
  void add(const pending& earlier, pending& later) const;

  combiner how_;
  pending buffers_[k_buffers];
  std::optional<std::uint32_t> prepared_;  ///< application only: what is being put together
  place pending_;
  std::atomic<bool> has_left_{false};
  spares spares_{k_buffers};
};

/// What one delivery covers: the rounds in (from, to], and what went into them.
struct delivered {
  round_no from = 0;
  round_no to = 0;
  std::uint64_t contributors = 0;  ///< of round `to`
  std::uint64_t last_offers = 0;   ///< likewise
  std::uint64_t offers = 0;        ///< inside the result: of one round (latest) or of all in (from, to]
  std::uint64_t in_result = 0;     ///< contributors of the round whose result it is (latest)
  std::uint64_t ranks = 0;         ///< of the world in which round `to` was
  std::uint64_t mine = 0;          ///< this rank's offers inside (from, to]
  round_no staleness = 0;          ///< of these: rounds between the one called for and the one it was in, at most
  bool null = true;                ///< nobody contributed: there is no result
};

/// What happens to a result that is not collected before the next one is there.
enum class lag_policy : std::uint8_t {
  latest,      ///< the newest result replaces it
  accumulate,  ///< it is combined into the newest: no round's result is ever dropped
  history,     ///< both are kept, up to a number of results; beyond that, the newest two are combined
};

struct lag_rule {
  static constexpr std::uint32_t k_most = 60;
  lag_policy policy;
  std::uint32_t results;  ///< kept for the application: 1, but of a history 1 … k_most

  constexpr lag_rule(lag_policy what = lag_policy::latest, std::uint32_t kept = 1) : policy(what), results(kept) {}
  constexpr std::uint32_t buffers() const { return results + (policy == lag_policy::latest ? 2 : 3); }
};

/// Engine → application.
class delivery {
 public:
  struct slot {
    std::byte* data = nullptr;
    delivered what{};
  };

  /// Of memory so many pieces as the rule says.
  delivery(combiner how, lag_rule lag, std::span<std::byte* const> memory);

  /// Engine: where the next result is to be written.
  std::byte* writing() const { return slots_[writing_].data; }

  /// Engine: the round's result lies at `data` (the memory of another buffer, if storage was exchanged).
  /// Answers where the next result is to be written.
  std::byte* publish(std::byte* data, const delivered& what);

  /// Application: copies the first result out that was not yet collected, if there is one. An empty answer leaves
  /// `result` untouched; so does a null one. Without parts, or with a null pointer, it is dropped.
  std::optional<delivered> collect(std::span<const target_part> result);
  std::optional<delivered> collect(std::byte* result) {
    const target_part whole{result, how_.count};
    return collect(std::span(&whole, result == nullptr ? 0 : 1));
  }

  /// Engine: the round's result that was published last, alone; no data where that was null, or before the first.
  const slot& newest() const { return newest_; }

  /// Engine: the next result is written there instead; the memory has changed places with that of another buffer.
  void write_at(std::byte* data) { slots_[writing_].data = data; }

  /// Its buffers. Whoever holds it ends them after it.
  std::vector<std::byte*> memory() const;

  struct loan {
    std::byte* data = nullptr;
    delivered what{};
  };
  /// Application: the same where it lies. It is the application's until the next borrow or collect that answers with
  /// something.
  std::optional<loan> borrow();

  /// Copies a whole result. Any thread.
  void copy(const std::byte* result, std::span<const target_part> into) const;

  /// Application: the last round collected.
  round_no collected() const { return collected_; }

 private:
  bool absorb(slot& into, slot& older);
  void give_back();

  place& at(std::uint64_t number) { return queue_[number % queue_.size()]; }

  combiner how_;
  lag_rule lag_;
  std::vector<slot> slots_;
  std::vector<place> queue_;
  std::uint64_t queued_ = 0;            ///< engine only: results put behind others
  std::uint32_t writing_ = 0;           ///< engine only
  slot newest_{};                       ///< engine only
  std::optional<std::uint32_t> kept_;   ///< engine only: that result's, where it is in no other's hands
  std::uint64_t taken_ = 0;             ///< application only: of those queued
  round_no collected_ = 0;              ///< application only
  std::optional<std::uint32_t> lent_;   ///< application only: the slot it reads from
  std::atomic<round_no> published_{0};  ///< engine → application: the last round put into its place
  spares spares_;
};

}  // namespace lsched
