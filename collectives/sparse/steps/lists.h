// What steps of several algorithms do with lists: a rank's own top k, sums of lists, and what ends a round.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "collectives/sparse/steps/device_vectors.h"
#include "collectives/sparse/steps/problem.h"
#include "collectives/sparse/steps/zeroed_memory.h"

namespace lsched {

/// The first step of most baselines. It has more room to work in than a list of exactly k. Allocates when made.
class own_top_k {
 public:
  explicit own_top_k(const sparse_problem& problem);

  /// residual += scale * gradient, then the first k items of the order by magnitude, by index: here until the next
  /// call. residual: count elements of residual_of(type); gradient: count elements, or nullptr for none. The residual
  /// still holds what is in the list.
  item_list select(std::byte* residual, const std::byte* gradient, top_k_hint& hint);

 private:
  sparse_problem problem_;
  std::uint64_t room_;
  std::vector<std::byte> items_;
};

/// Adds a distance, modulo 2^32, to the index of each item.
void shift_indices(dtype type, std::byte* items, std::uint64_t count, std::uint32_t distance);

/// The sum of lists of one region, in the order in which they are added. Memory for a dense vector, of which only what
/// was added to, ever, takes space.
class region_sum {
 public:
  /// Of vectors of `count` elements. Under nan_policy::ignore, sums that are NaN are passed over. Throws
  /// std::bad_alloc.
  region_sum(dtype type, std::uint64_t count, nan_policy nans);

  /// Positions of items are below `count`. O(items).
  void add(item_list list);

  /// Writes the sum of what was added since the last call, all of it in [begin, end), as a list; answers its length.
  /// Each item is 0 + v0 + v1 + …, in the order of addition and the residual's type, rounded once; zeros are dropped.
  /// There is room for all that is touched. O(items + (end - begin) / 64).
  std::uint64_t take(std::uint64_t begin, std::uint64_t end, std::byte* items);

 private:
  dtype type_;
  nan_policy nans_;
  zeroed_memory sums_;
  zeroed_memory touched_;
};

/// A result as a dense vector: what an optimiser takes. Remembers where the vector is not zero. Allocates when made.
class dense_update {
 public:
  /// Results have up to `room` items; count elements in the vector.
  dense_update(dtype type, std::uint64_t count, std::uint64_t room);

  /// vector[index] = value / divisor, and all else is zero. nullptr: nothing is done.
  void write(item_list result, std::uint64_t divisor, std::byte* vector);

  /// Makes the vector zero. Only what was written since the last time is zeroed, as long as the vector is the same one
  /// and nobody else wrote to it; another one is zeroed as a whole.
  void clear(std::byte* vector);
  /// That element is written.
  void note(std::uint64_t position) { last_.push_back(position); }

  /// The next vector is zeroed as a whole, whichever it is.
  void forget() { last_vector_ = nullptr; }

 private:
  dtype type_;
  std::uint64_t count_;
  const std::byte* last_vector_ = nullptr;
  std::vector<std::uint64_t> last_;  ///< positions
};

/// The least magnitude of a residual whose element rounds to an infinite item: halfway from the largest finite one to
/// where the next would be.
std::uint64_t least_infinite(dtype type);

/// nan_policy::error: a round is refused if its result has a value that is not finite.
///
/// One rank's, of one round after the other. All ranks have the same result, bit for bit, so all come to the same
/// answer, and no message is needed. Nothing that is not finite gets lost on the way there: it is the first in the
/// order by magnitude, and whatever is added to it, the sum is not finite either.
class result_check {
 public:
  explicit result_check(const sparse_problem& problem)
      : type_(problem.type), count_(problem.count), refuses_(problem.nans == nan_policy::error) {}

  /// Before a round is settled, with `count` elements of residual_of(type). False: the round is refused, and nothing
  /// that was sent is to leave the residual; but what cannot be sent as a finite item has become zero there, so that it
  /// does not make the next round non-finite. Always true under other policies. O(result), and O(count) where refused.
  bool accepts(item_list result, void* residual);
  /// The same, without the residual: elements of it from least_infinite(type) on are to become zero. O(result).
  bool accepts(item_list result);

  /// Of the round that was checked last, if it was refused: the first index whose value is not finite.
  std::optional<std::uint32_t> non_finite_element() const { return non_finite_; }

 private:
  dtype type_;
  std::uint64_t count_;
  bool refuses_;
  std::optional<std::uint32_t> non_finite_{};
};

/// What ends a round: the result is checked, what has arrived leaves the residual, and the update is written. Base of
/// the steps of all algorithms.
class round_end {
 public:
  /// The next update is zeroed as a whole, whichever it is.
  void forget_update() { update_.forget(), vectors_.forget_update(); }
  /// Of the last round that was settled.
  std::optional<std::uint32_t> non_finite_element() const { return check_.non_finite_element(); }

 protected:
  /// Results have up to `room` items.
  round_end(const sparse_problem& problem, std::uint64_t room);

  /// Of what was sent, the indices that `arrived` has leave the residual; answers how many these are. update: count
  /// elements of the items' type, or nullptr. It becomes result / P, zero elsewhere (dense_update). Of a round that is
  /// refused the update is zero, and nothing was sent.
  std::uint64_t settle(item_list sent, item_list arrived, item_list result, void* residual, std::byte* update);
  /// The same where the vectors are in device memory: what the device has to do.
  const sparse_job* prepare_to_settle(item_list sent, item_list arrived, item_list result, std::byte* update);

  dtype type_;
  device_vectors vectors_;  ///< used where vectors are in device memory

 private:
  std::uint64_t ranks_;
  dense_update update_;
  result_check check_;
};

}  // namespace lsched
