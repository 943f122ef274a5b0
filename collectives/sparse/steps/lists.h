// Steps that several algorithms share: selection of a rank's top k, sums of lists, and the end of a round.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "collectives/sparse/steps/device_vectors.h"
#include "collectives/sparse/steps/problem.h"
#include "collectives/sparse/steps/zeroed_memory.h"

namespace lsched {

/// Selects a rank's k elements with the largest magnitudes. The constructor allocates the memory.
class own_top_k {
 public:
  explicit own_top_k(const sparse_problem& problem);

  /// Adds scale * gradient to the residual. Then returns the k elements of the residual with the largest magnitudes as
  /// a list, ascending by index. The list is valid until the next call of select(). The residual still contains the
  /// items of the list. `residual` must have `count` elements of residual_of(type). `gradient` must have `count`
  /// elements, or be nullptr.
  item_list select(std::byte* residual, const std::byte* gradient, top_k_hint& hint);

 private:
  sparse_problem problem_;
  std::uint64_t room_;
  std::vector<std::byte> items_;
};

/// Adds `distance`, modulo 2^32, to the index of each item.
void shift_indices(dtype type, std::byte* items, std::uint64_t count, std::uint32_t distance);

/// The sum of lists of one region, computed in the order in which the lists are added. Reserves memory for a dense
/// vector, but the system allocates only pages that are accessed.
class region_sum {
 public:
  /// `count` is the length of the vector. Under nan_policy::ignore, sums that are NaN are dropped. Throws
  /// std::bad_alloc.
  region_sum(dtype type, std::uint64_t count, nan_policy nans);

  /// Adds a list. Indices of items must be below `count`. O(items).
  void add(item_list list);
  /// Adds a list whose values have the residual's type.
  void add_wide(item_list list);

  /// Writes the sum of all lists that were added since the last call of take(). The sum is a list. Returns the length
  /// of this list. The indices of all added items must be in [begin, end). Each value is 0 + v0 + v1 + …, in the order
  /// in which lists were added. The value is computed in the residual's type and rounded once. Zeros are dropped.
  /// `items` must have capacity for all distinct indices. O(items + (end - begin) / 64).
  std::uint64_t take(std::uint64_t begin, std::uint64_t end, std::byte* items);

 private:
  void add_as(dtype type, item_list list);

  dtype type_;
  nan_policy nans_;
  zeroed_memory sums_;
  zeroed_memory touched_;
};

/// Writes results as dense vectors, as optimizers need them. Stores which elements are not zero. The constructor
/// allocates the memory.
class dense_update {
 public:
  /// `room` is the maximum number of items of a result, and `count` the length of the vector.
  dense_update(dtype type, std::uint64_t count, std::uint64_t room);

  /// Sets vector[index] = value / divisor, and all other elements to zero. Does nothing if `vector` is nullptr.
  void write(item_list result, std::uint64_t divisor, std::byte* vector);

  /// Sets the vector to zero. If `vector` is the same as in the last call of clear(), only the elements noted since
  /// that call are set to zero. The caller must ensure that no other code writes to the vector between the two calls.
  /// Any other vector is set to zero entirely.
  void clear(std::byte* vector);
  /// Notes that the element at `position` has been written since the last clear().
  void note(std::uint64_t position) { last_.push_back(position); }

  /// Makes the next clear() set the whole vector to zero, not only the noted positions.
  void forget() { last_vector_ = nullptr; }

 private:
  dtype type_;
  std::uint64_t count_;
  const std::byte* last_vector_ = nullptr;
  std::vector<std::uint64_t> last_;  ///< positions noted since the last clear()
};

/// Returns the smallest magnitude at which a residual element is rounded to an infinite item. For 16-bit types, this
/// magnitude is half a unit in the last place above the largest finite item. For other types, this magnitude is
/// infinity.
std::uint64_t least_infinite(dtype type);

/// Refuses a round under nan_policy::error if the result has a value that is not finite.
///
/// All ranks have the same result, bit for bit, so they make the same decision without a message. A non-finite value
/// always reaches the result: it is first in the order by magnitude, and every sum that contains it is non-finite, too.
class result_check {
 public:
  explicit result_check(const sparse_problem& problem)
      : type_(problem.type), count_(problem.count), refuses_(problem.nans == nan_policy::error) {}

  /// Returns false if the round is refused, which is possible only under nan_policy::error. Must be called before a
  /// round is settled. `residual` must have `count` elements of residual_of(type). If the round is refused, sets some
  /// elements of the residual to zero: those that cannot be sent as finite items. So the next round can succeed. The
  /// caller must then not remove any sent item from the residual. O(result), and O(count) if refused.
  bool accepts(item_list result, void* residual);
  /// Checks only the result. If the round is refused, the caller must set to zero the elements of the residual with a
  /// magnitude of least_infinite(type) or more. O(result).
  bool accepts(item_list result);

  /// If the last checked round was refused, returns the first index with a non-finite value. Otherwise returns nothing.
  std::optional<std::uint32_t> non_finite_element() const { return non_finite_; }

 private:
  dtype type_;
  std::uint64_t count_;
  bool refuses_;
  std::optional<std::uint32_t> non_finite_{};
};

/// The end of a round: checks the result, removes from the residual the sent items that have arrived, and writes the
/// update. Base class of the steps of all algorithms.
class round_end {
 public:
  /// Makes the next settle() set the whole update to zero before it writes the result.
  void forget_update() { update_.forget(), vectors_.forget_update(); }
  /// If the last settled round was refused, returns the index of the first non-finite element. Otherwise returns
  /// nothing.
  std::optional<std::uint32_t> non_finite_element() const { return check_.non_finite_element(); }

 protected:
  /// `room` is the maximum number of items of a result.
  round_end(const sparse_problem& problem, std::uint64_t room);

  /// Removes the sent items whose indices are in `arrived` from the residual. Returns the number of these items.
  /// `update` must have `count` elements of the items' type, or be nullptr. Sets `update` to `result` divided by P,
  /// with zeros elsewhere. If the round is refused, the update becomes zero, and all sent items stay in the residual.
  std::uint64_t settle(item_list sent, item_list arrived, item_list result, void* residual, std::byte* update);
  /// Does the same as settle(), but removes no sent items. Returns false if the round is refused. Otherwise the caller
  /// must remove the sent items from the residual.
  bool write_update(item_list result, void* residual, std::byte* update);
  /// Returns a job for the device that does the work of settle(). The vectors must be in device memory.
  const sparse_job* prepare_to_settle(item_list sent, item_list arrived, item_list result, std::byte* update);

  dtype type_;
  device_vectors vectors_;  ///< used if the vectors are in device memory

 private:
  std::uint64_t ranks_;
  dense_update update_;
  result_check check_;
};

}  // namespace lsched
