// Steps on lists that several algorithms share: a rank's own top k, sums of lists, and the end of a round.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "collectives/sparse/steps/device_vectors.h"
#include "collectives/sparse/steps/problem.h"
#include "collectives/sparse/steps/zeroed_memory.h"

namespace lsched {

/// The first step of most baselines. Its workspace is larger than a list of k items. Allocates in the constructor.
class own_top_k {
 public:
  explicit own_top_k(const sparse_problem& problem);

  /// residual += scale * gradient. Then returns the first k items of the order by magnitude, ascending by index, which
  /// are valid until the next call. `residual` has `count` elements of residual_of(type). `gradient` has `count`
  /// elements, or is nullptr. The residual still contains the items of the list.
  item_list select(std::byte* residual, const std::byte* gradient, top_k_hint& hint);

 private:
  sparse_problem problem_;
  std::uint64_t room_;
  std::vector<std::byte> items_;
};

/// Adds a distance, modulo 2^32, to the index of each item.
void shift_indices(dtype type, std::byte* items, std::uint64_t count, std::uint32_t distance);

/// The sum of lists of one region, in the order of addition. It has memory for a dense vector, of which only pages that
/// were ever touched take space.
class region_sum {
 public:
  /// For vectors of `count` elements. Under nan_policy::ignore, sums that are NaN are dropped. Throws std::bad_alloc.
  region_sum(dtype type, std::uint64_t count, nan_policy nans);

  /// Adds a list. Positions of items must be below `count`. O(items).
  void add(item_list list);

  /// Writes the sum of all lists since the last call as a list, and returns its length. The positions of all these
  /// lists must be in [begin, end). Each item is 0 + v0 + v1 + …, in the order of addition and the residual's type,
  /// rounded once. Zeros are dropped. `items` must have room for all touched elements. O(items + (end - begin) / 64).
  std::uint64_t take(std::uint64_t begin, std::uint64_t end, std::byte* items);

 private:
  dtype type_;
  nan_policy nans_;
  zeroed_memory sums_;
  zeroed_memory touched_;
};

/// A result as a dense vector, the form that an optimiser takes. Remembers the elements that are not zero. Allocates in
/// the constructor.
class dense_update {
 public:
  /// Results have up to `room` items, and the vector has `count` elements.
  dense_update(dtype type, std::uint64_t count, std::uint64_t room);

  /// Sets vector[index] = value / divisor, and all other elements to zero. Does nothing if `vector` is nullptr.
  void write(item_list result, std::uint64_t divisor, std::byte* vector);

  /// Zeroes the vector. If the vector is that of the last call, only the elements written since then are zeroed, so
  /// that no other code may have written to it. Any other vector is zeroed as a whole.
  void clear(std::byte* vector);
  /// Notes that the element at `position` has been written.
  void note(std::uint64_t position) { last_.push_back(position); }

  /// Makes the next call zero the whole vector.
  void forget() { last_vector_ = nullptr; }

 private:
  dtype type_;
  std::uint64_t count_;
  const std::byte* last_vector_ = nullptr;
  std::vector<std::uint64_t> last_;  ///< positions
};

/// Returns the least magnitude of a residual's element that rounds to an infinite item. It is halfway between the
/// largest finite item and the next larger step.
std::uint64_t least_infinite(dtype type);

/// nan_policy::error: refuses a round if its result has a value that is not finite.
///
/// Used by one rank, for one round after the other. All ranks have the same result, bit for bit, so that they reach the
/// same decision without a message. A non-finite value cannot get lost before the result: it comes first in the order
/// by magnitude, and every sum that contains it is not finite either.
class result_check {
 public:
  explicit result_check(const sparse_problem& problem)
      : type_(problem.type), count_(problem.count), refuses_(problem.nans == nan_policy::error) {}

  /// Returns false if the round is refused. Called before a round is settled, with `count` elements of
  /// residual_of(type). If the round is refused, no sent item may leave the residual. Elements that cannot be sent as
  /// finite items have become zero, so that they do not make the next round non-finite. Always true under other
  /// policies. O(result), and O(count) if refused.
  bool accepts(item_list result, void* residual);
  /// Checks only the result. If the round is refused, the caller must zero the elements of the residual from
  /// least_infinite(type) on. O(result).
  bool accepts(item_list result);

  /// Returns the first index with a non-finite value in the last round that was checked, if that round was refused.
  std::optional<std::uint32_t> non_finite_element() const { return non_finite_; }

 private:
  dtype type_;
  std::uint64_t count_;
  bool refuses_;
  std::optional<std::uint32_t> non_finite_{};
};

/// The end of a round: checks the result, removes items that have arrived from the residual, and writes the update.
/// Base of the steps of all algorithms.
class round_end {
 public:
  /// Makes the next update zero the whole vector.
  void forget_update() { update_.forget(), vectors_.forget_update(); }
  /// Returns the first non-finite element of the last settled round, if that round was refused.
  std::optional<std::uint32_t> non_finite_element() const { return check_.non_finite_element(); }

 protected:
  /// Results have up to `room` items.
  round_end(const sparse_problem& problem, std::uint64_t room);

  /// Removes the sent items whose indices are in `arrived` from the residual, and returns their number. `update` has
  /// `count` elements of the items' type, or is nullptr. It becomes result / P, and zero elsewhere (dense_update). If
  /// the round is refused, the update is zero, and all sent items stay in the residual.
  std::uint64_t settle(item_list sent, item_list arrived, item_list result, void* residual, std::byte* update);
  /// Returns the same work as a job for the device, if the vectors are in device memory.
  const sparse_job* prepare_to_settle(item_list sent, item_list arrived, item_list result, std::byte* update);

  dtype type_;
  device_vectors vectors_;  ///< used if the vectors are in device memory

 private:
  std::uint64_t ranks_;
  dense_update update_;
  result_check check_;
};

}  // namespace lsched
