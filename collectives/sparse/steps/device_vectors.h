// Sparse allreduce of vectors in device memory: the jobs that the device executes in the first and in the last step of
// a round.
//
//     device memory    the residual
//     staging memory   selected items │ their number │ items that leave the residual │ this result, and the last result
//
// The host makes and reads lists, in steps that do not depend on devices.
#pragma once

#include "collectives/sparse/steps/problem.h"
#include "libsched/schedule/functions.h"
#include "ops/sparse_job.h"

namespace lsched {

/// The device memory and staging memory of one rank, and the jobs on that memory. Used by one thread at a time. No
/// method blocks or allocates.
class device_vectors {
 public:
  /// The problem must be valid. Results have up to `room` items.
  device_vectors(const sparse_problem& problem, std::uint64_t room) : problem_(problem), room_(room) {}

  /// Returns the device memory and the staging memory that the jobs need. `residual` has the `count` initial elements
  /// of the residual; nullptr: zeros.
  function_memory memory(const void* residual) const;
  void use(std::byte* device, std::byte* staging);
  bool is_used() const { return residual_ != nullptr; }

  /// Returns the job of the first step of a round. The job is valid until the next call of select or settle. `gradient`
  /// is in device memory, or nullptr.
  const sparse_job* select(const std::byte* gradient);
  /// Returns the items that the last selection found, valid until the next selection.
  item_list selected() const;

  /// Returns the job of the last step of a round, which does the work of round_end::settle. If `least_dropped` is not
  /// 0, elements of the residual with at least this magnitude become zero. `update` is in device memory.
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
  std::size_t turn_ = 0;  ///< results alternate between two places
  std::uint64_t last_count_ = 0;
  const std::byte* last_update_ = nullptr;  ///< vector with the last result, and zeros elsewhere
};

}  // namespace lsched
