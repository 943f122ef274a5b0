// Aliasing: how a schedule's inputs and outputs share memory when it works in place.
//
//   offset 2       input               0 1 2           offset -1      input       0 1 2 3 4 5
//   (gather)       output          0 1 2 3 4 5         (scatter)      output        0 1
//
// The k-th input and the k-th output of a rank lie in one memory. The offset, by rank, is that of the first pair; all
// other pairs begin together. Where a rank has only one of the two, nothing is shared.
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

  /// True: in place, and both begin together. False: every buffer is memory of its own. No numbers, which mean offsets.
  template <std::same_as<bool> Bool>
  aliasing(Bool exists) : exists_(exists) {}

  /// By rank: the first input's first element is the first output's element of this number; below zero, the output's
  /// first is the input's -number-th.
  explicit aliasing(std::vector<std::int64_t> offsets) : exists_(true), offsets_(std::move(offsets)) {}

  /// Adds the ranks on which no input shares memory with an output.
  aliasing(std::vector<std::int64_t> offsets, std::vector<bool> is_apart)
      : exists_(true), offsets_(std::move(offsets)), is_apart_(std::move(is_apart)) {}

  /// Returns true if any rank's inputs and outputs share memory.
  bool exists() const { return exists_; }

  bool exists_at(rank r) const {
    const auto i = static_cast<std::size_t>(r);
    return exists_ && !(i < is_apart_.size() && is_apart_[i]);
  }

  /// Of the first pair of a rank. Ranks beyond those that were given have 0.
  std::int64_t offset_at(rank r) const {
    const auto i = static_cast<std::size_t>(r);
    return i < offsets_.size() ? offsets_[i] : 0;
  }

 private:
  bool exists_ = false;
  std::vector<std::int64_t> offsets_;
  std::vector<bool> is_apart_{};
};

/// Where each buffer lies. Memories are numbered by the first buffer in them. Those that share one must have one type
/// (words_for_misfit) for its elements to mean anything.
std::vector<placement> placements_of(const schedule& program, const aliasing& in_place);

/// Why the rank's buffers cannot lie like that: two that share memory have different types, or neither lies within the
/// other. Or nothing.
std::optional<std::string> words_for_misfit(const schedule& program, const aliasing& in_place);

}  // namespace lsched
