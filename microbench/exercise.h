// A collective as an exercise with a known answer: how much each rank gives and gets, what it gives, and what it must
// get. MPI and libsched work on the same numbers.
//
// The size of an exercise is what the OSU benchmarks call the message size:
//
//     allreduce reduce bcast scan exscan         bytes of the vector
//     reduce_scatter_block reduce_scatter        bytes of the whole vector that each rank gives
//     allgather allgatherv gather gatherv        bytes that one rank contributes
//     alltoall alltoallv scatter scatterv        bytes that go to one rank
//     barrier                                    no data
//
// Data are floats with whole values small enough that sums of them are exact in any order.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lsched::bench {

/// What a collective does with blocks, for all that have the same answer: allgatherv with equal counts is allgather.
enum class pattern : std::uint8_t {
  barrier,
  bcast,
  allreduce,
  reduce,
  reduce_scatter,
  allgather,
  alltoall,
  gather,
  scatter,
  scan,
  exscan
};

struct exercise_kind {
  const char* name;  ///< of the collective
  pattern movement;
  bool has_barriers;  ///< between rounds: a rank may return before all have called, and would run ahead
  bool can_be_in_place;
  bool ours_can_be = true;  ///< in place too, where MPI's can
};

/// All collectives that can be measured, in the order of reports.
std::span<const exercise_kind> exercises();
/// The one of that name, which exists.
const exercise_kind& exercise_named(std::string_view name);

/// One rank's part in a collective over blocks of `count` floats. Rank 0 is the root.
class exercise {
 public:
  /// `bytes`: the size as above, a multiple of 4; a reduce_scatter's is rounded up to whole blocks.
  exercise(const exercise_kind& kind, int rank, int size, std::uint64_t bytes);

  const exercise_kind& kind() const { return *kind_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  bool is_root() const { return rank_ == 0; }

  /// Floats of the vector (allreduce, bcast, reduce, scan, exscan), else of one block.
  std::uint64_t count() const { return count_; }
  /// Floats this rank reads and writes; 0: that rank has no such buffer.
  std::uint64_t inputs() const;
  std::uint64_t outputs() const;
  /// Where input and output begin in the one buffer that serves as both, which has as many floats as the larger one.
  std::uint64_t input_offset() const;
  std::uint64_t output_offset() const;

  /// Writes this rank's input; different for different salts.
  void fill(float* input, std::uint64_t salt) const;
  /// Elements of the output that are not what they must be. A rank without output answers 0; so does a barrier,
  /// whose answer is not data.
  std::uint64_t count_wrong(const float* output, std::uint64_t salt) const;

 private:
  const exercise_kind* kind_;
  int rank_;
  int size_;
  std::uint64_t count_;
};

}  // namespace lsched::bench
