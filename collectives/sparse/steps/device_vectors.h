// The vectors of a rank where they are in device memory: what its first and its last step of a round leave to the
// device.
//
//     device memory    the residual
//     staging memory   what is selected │ how many these are │ what leaves the residual │ the result, and the last one
//
// Lists are made and read by the host, in steps that know nothing of devices.
#pragma once

#include "collectives/sparse/steps/problem.h"
#include "libsched/schedule/functions.h"
#include "ops/sparse_job.h"

namespace lsched {

/// One thread at a time. Nothing here blocks, or allocates.
class device_vectors {
 public:
  /// The problem is valid. Results have up to `room` items.
  device_vectors(const sparse_problem& problem, std::uint64_t room) : problem_(problem), room_(room) {}

  /// `residual`: what it is in the beginning, `count` elements; nullptr: zeros.
  function_memory memory(const void* residual) const;
  void use(std::byte* device, std::byte* staging);
  bool is_used() const { return residual_ != nullptr; }

  /// The job of a first step; good until the next. gradient: in device memory, or nullptr.
  const sparse_job* select(const std::byte* gradient);
  /// What it has found, until the next.
  item_list selected() const;

  /// The job of a last step: round_end::settle. least_dropped: 0, or elements of the residual from this magnitude on
  /// become zero. update: in device memory.
  const sparse_job* settle(item_list sent, item_list arrived, item_list result, std::uint64_t least_dropped,
                           std::byte* update);

  /// The next update is zeroed as a whole, whichever it is.
  void forget_update() { last_update_ = nullptr; }

 private:
  struct layout {
    std::uint64_t found, leaving, results, end;  ///< bytes from the beginning of the staging memory
  };
  layout places() const;
  std::uint64_t bytes_of(std::uint64_t items) const;
  std::byte* result_place(std::size_t which) const;

  sparse_problem problem_;
  std::uint64_t room_;
  std::byte* residual_ = nullptr;
  std::byte* staging_ = nullptr;
  sparse_job job_{};
  std::size_t turn_ = 0;  ///< results lie in two places by turns
  std::uint64_t last_count_ = 0;
  const std::byte* last_update_ = nullptr;  ///< that has the last result, and is zero elsewhere
};

}  // namespace lsched
