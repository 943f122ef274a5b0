// The jobs that a device executes in the first and the last step of a sparse allreduce of vectors in device memory.
//
//     device memory    the residual
//     staging memory   selected items │ their number │ items to remove from the residual │ the last two results
//
// The steps between the first and the last step run on the host.
#pragma once

#include "collectives/sparse/steps/problem.h"
#include "libsched/schedule/functions.h"
#include "ops/sparse_job.h"

namespace lsched {

/// The device and staging memory of one rank, and the jobs on this memory. Used by one thread at a time. No function
/// blocks or allocates.
class device_vectors {
 public:
  /// The problem must be valid. `room` is the maximum number of items of a result.
  device_vectors(const sparse_problem& problem, std::uint64_t room) : problem_(problem), room_(room) {}

  /// Returns the sizes of the device and staging memory that the jobs need. `residual` is the initial content of the
  /// residual (`count` elements), or nullptr for zeros.
  function_memory memory(const void* residual) const;
  void use(std::byte* device, std::byte* staging);
  bool is_used() const { return residual_ != nullptr; }

  /// Returns the job of the first step of a round. The job is valid until the next call of select() or settle().
  /// `gradient` must be in device memory, or nullptr.
  const sparse_job* select(const std::byte* gradient);
  /// Returns the items that the last job of select() has selected. Valid until the next such job begins.
  item_list selected() const;

  /// Returns the job of the last step of a round. The job computes the same as round_end::settle. If `least_dropped` is
  /// not 0, elements of the residual with at least this magnitude are set to zero. `update` must be in device memory.
  const sparse_job* settle(item_list sent, item_list arrived, item_list result, std::uint64_t least_dropped,
                           std::byte* update);

  /// Makes the next job of settle() zero the whole update.
  void forget_update() { last_update_ = nullptr; }

 private:
  struct layout {
    std::uint64_t found, leaving, results, end;  ///< offsets in the staging memory, in bytes
  };
  layout places() const;
  std::uint64_t bytes_of(std::uint64_t items) const;
  std::byte* result_place(std::size_t which) const;

  sparse_problem problem_;
  std::uint64_t room_;
  std::byte* residual_ = nullptr;
  std::byte* staging_ = nullptr;
  sparse_job job_{};
  std::size_t turn_ = 0;  ///< 0 or 1: results alternate between two places
  std::uint64_t last_count_ = 0;
  const std::byte* last_update_ = nullptr;  ///< vector with the last result, and zeros elsewhere; nullptr: unknown
};

}  // namespace lsched
