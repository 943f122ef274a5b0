// A vector that is one bucket. lsched_offer, lsched_collect and lsched_flush take one pointer for each bucket.
#pragma once

#include <type_traits>

namespace lsched::testing {

template <class Item>
class one_bucket {
  using untyped = std::conditional_t<std::is_const_v<Item>, const void, void>;

 public:
  explicit one_bucket(Item* data) : data_(data) {}
  /// Returns the array of pointers to buckets. The array is a part of this object.
  operator untyped* const*() const { return &data_; }  // NOLINT(google-explicit-constructor)

 private:
  untyped* data_;
};

}  // namespace lsched::testing
