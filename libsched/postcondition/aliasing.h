// An aliasing describes how the inputs and outputs of a schedule share memory if the schedule works in place.
//
//   offset 2       input               0 1 2           offset -1      input       0 1 2 3 4 5
//   (gather)       output          0 1 2 3 4 5         (scatter)      output        0 1
//
// The k-th input and the k-th output of a rank form a pair and share memory. Each rank has an offset between its first
// input and its first output. In every other pair, input and output begin at the same element. An input or output
// without a counterpart shares no memory.
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

  /// If `exists` is true, both buffers of each pair begin at the same element. If `exists` is false, no buffers share
  /// memory. The template accepts only bool, because a number could be mistaken for an offset.
  template <std::same_as<bool> Bool>
  aliasing(Bool exists) : exists_(exists) {}

  /// `offsets`: for each rank, the first input begins at this element of the first output. An offset of -n means that
  /// the first output begins at element n of the first input.
  explicit aliasing(std::vector<std::int64_t> offsets) : exists_(true), offsets_(std::move(offsets)) {}

  /// `is_apart`: for each rank, true if its inputs share no memory with its outputs.
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

/// Returns the location of each buffer. Buffers that share memory have the same placement::memory: the index of the
/// first of these buffers. They must have the same type (see words_for_misfit), because locations are in elements.
std::vector<placement> placements_of(const schedule& program, const aliasing& in_place);

/// Returns an error text if the buffers of a pair of this rank have different types, or if neither of the two lies
/// within the other.
std::optional<std::string> words_for_misfit(const schedule& program, const aliasing& in_place);

}  // namespace lsched
