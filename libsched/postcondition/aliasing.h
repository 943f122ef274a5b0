// Aliasing: how a schedule's inputs and outputs share memory when it works in place.
//
//   offset 2       input               0 1 2           offset -1      input       0 1 2 3 4 5
//   (gather)       output          0 1 2 3 4 5         (scatter)      output        0 1
//
// The k-th input and the k-th output of a rank share a memory. Each rank has an offset, which applies to its first
// pair. In every other pair, input and output begin at the same element. An input without an output, or an output
// without an input, shares nothing.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libsched/schedule/schedule.h"

namespace lsched {

class aliasing {
 public:
  aliasing() = default;

  /// true: in place, and both buffers of a pair begin at the same element. false: every buffer has memory of its own.
  /// Takes no numbers, which could be mistaken for offsets.
  template <std::same_as<bool> Bool>
  aliasing(Bool exists) : exists_(exists) {}

  /// `offsets`: by rank, the element of the first output at which the first input begins. A negative offset -n means
  /// that the first output begins at element n of the first input.
  explicit aliasing(std::vector<std::int64_t> offsets) : exists_(true), offsets_(std::move(offsets)) {}

  /// `is_apart`: by rank, true if no input shares memory with an output.
  aliasing(std::vector<std::int64_t> offsets, std::vector<bool> is_apart)
      : exists_(true), offsets_(std::move(offsets)), is_apart_(std::move(is_apart)) {}

  /// Returns true if any rank's inputs and outputs share memory.
  bool exists() const { return exists_; }

  bool exists_at(rank r) const {
    const auto i = static_cast<std::size_t>(r);
    return exists_ && !(i < is_apart_.size() && is_apart_[i]);
  }

  /// Returns the offset of a rank's first pair, or 0 if no offset was given for this rank.
  std::int64_t offset_at(rank r) const {
    const auto i = static_cast<std::size_t>(r);
    return i < offsets_.size() ? offsets_[i] : 0;
  }

 private:
  bool exists_ = false;
  std::vector<std::int64_t> offsets_;
  std::vector<bool> is_apart_{};
};

/// Returns the location of each buffer. The number of a memory is its first buffer. Buffers that share a memory must
/// have the same type (words_for_misfit), because locations are in elements.
std::vector<placement> placements_of(const schedule& program, const aliasing& in_place);

/// Returns an error text if the rank's buffers cannot share memory in this way: two buffers have different types, or
/// neither lies within the other.
std::optional<std::string> words_for_misfit(const schedule& program, const aliasing& in_place);

}  // namespace lsched
