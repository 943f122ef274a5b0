#include "collectives/sparse/steps/dense_update.h"

#include <cstring>

namespace lsched {

dense_update::dense_update(dtype type, std::uint64_t count, std::uint64_t room)
    : type_(type), count_(count), scatter_(sparse_kernels_of(type).scatter) {
  last_.reserve(room);
}

void dense_update::write(item_list result, std::uint64_t divisor, std::byte* vector) {
  if (vector == nullptr) return;
  if (vector == last_vector_) {
    for (const std::uint32_t index : last_) std::memset(vector + index * size_of(type_), 0, size_of(type_));
  } else {
    std::memset(vector, 0, count_ * size_of(type_));
  }
  scatter_(result.items, result.count, divisor, vector);
  last_vector_ = vector;
  last_.resize(result.count);
  for (std::size_t i = 0; i < last_.size(); ++i)
    std::memcpy(&last_[i], result.items + i * item_size(type_), sizeof last_[i]);
}

}  // namespace lsched
