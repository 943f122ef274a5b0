// An exercise is a collective with known inputs and expected outputs. An exercise defines how many elements each rank
// reads and writes. MPI and libsched run the same exercises.
//
// The size of an exercise is the message size of the OSU benchmarks:
//
//     allreduce reduce bcast scan exscan         bytes of the vector
//     reduce_scatter_block reduce_scatter        bytes of the input vector of each rank
//     allgather allgatherv gather gatherv        bytes that one rank contributes
//     alltoall alltoallv scatter scatterv        bytes that are sent to one rank
//     barrier                                    no data
//
// The data are floats with whole values. The values are small, so that sums are exact in any order.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/algorithm/collective.h"

namespace lsched::bench {

/// Returns all collectives that can be measured, in the order of reports. These collectives have exact and complete
/// results, and need no list of neighbors.
std::vector<const collective*> exercises();

/// The part of one rank in a collective over blocks of `count` floats. Rank 0 is the root. The sizes of the buffers and
/// the expected output are those of the collective's description (collective.h).
class exercise {
 public:
  /// Creates an exercise of the given size, a multiple of 4. The size of a reduce_scatter is rounded up to whole
  /// blocks.
  exercise(const collective& kind, int rank, int size, std::uint64_t bytes);

  const collective& kind() const { return *kind_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  bool is_root() const { return rank_ == 0; }

  /// Returns the number of floats of the vector (allreduce, bcast, reduce, scan, exscan), or of one block (all others).
  std::uint64_t count() const { return count_; }
  /// Returns the number of floats that this rank reads. 0: the rank has no input.
  std::uint64_t inputs() const { return buffers_.input.value_or(0); }
  /// Returns the number of floats that this rank writes. 0: the rank has no output.
  std::uint64_t outputs() const { return buffers_.output.value_or(0); }
  /// Returns the offset of the input in the buffer of a round in place. That buffer is as long as the longer of input
  /// and output.
  std::uint64_t input_offset() const { return offset_ > 0 ? static_cast<std::uint64_t>(offset_) : 0; }
  /// Returns the offset of the output in the buffer of a round in place.
  std::uint64_t output_offset() const { return offset_ < 0 ? static_cast<std::uint64_t>(-offset_) : 0; }

  /// Writes this rank's input, which is different for each salt.
  void fill(float* input, std::uint64_t salt) const;
  /// Returns the number of wrong elements of the output. Returns 0 for a rank whose output is undefined.
  std::uint64_t count_wrong(const float* output, std::uint64_t salt) const;

 private:
  const collective* kind_;
  int rank_;
  int size_;
  std::uint64_t count_;
  extents buffers_{};
  std::int64_t offset_ = 0;                 ///< result of collective::aliasing_of
  std::vector<promised_range> expected_{};  ///< the content of this rank's output
};

}  // namespace lsched::bench
