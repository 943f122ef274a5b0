// What MPI has under way for the edges of an endpoint: requests, each with an owner. One thread.
#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lsched {

class mpi_requests {
 public:
  enum class task : std::uint8_t {
    bounce_even,
    bounce_odd,
    chunk_out,
    header_in,
    chunk_in,
    control_out,
    control_in,
    orphan_in,  ///< a message that nobody received in time, to be dropped
  };

  /// What a request belongs to: `target` is a link, or from control_out on a rank.
  struct owner {
    enum task task;
    std::uint32_t target;
  };

  /// A request that has completed.
  struct event {
    struct owner owner;
    int bytes = 0;              ///< received
    bool is_cancelled = false;  ///< of a receive: there was no message
  };

  void reserve(std::size_t most);
  std::size_t size() const { return requests_.size(); }
  bool empty() const { return requests_.empty(); }

  /// Within what is reserved it does not allocate.
  void add(MPI_Request request, const owner& whose);

  /// Tests the next requests after those of the last call, and takes those that have completed out, oldest first:
  /// `news`, until the next call. Adds how many it has looked at to `looked`. Answers MPI's code.
  int test_next(std::span<const event>& news, std::size_t& looked);

  /// Asks MPI to cancel the receives for links of which is_gone(link) holds. Each completes soon: cancelled, or as ever
  /// if a message was on its way. Answers MPI's code.
  template <class IsGone>
  int cancel_receives(const IsGone& is_gone) {
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      const auto& [job, target] = owners_[i];
      if ((job != task::header_in && job != task::chunk_in) || !is_gone(target)) continue;
      if (const int code = MPI_Cancel(&requests_[i]); code != MPI_SUCCESS) return code;
    }
    return MPI_SUCCESS;
  }

  /// Forgets the requests; MPI does not.
  void abandon();

 private:
  static constexpr std::size_t k_window = 64;  ///< beyond it, MPICH's Testsome allocates

  std::vector<MPI_Request> requests_;  ///< dense: never a null request
  std::vector<owner> owners_;          ///< parallel to it
  std::size_t cursor_ = 0;
  std::array<int, k_window> indices_{};
  std::array<MPI_Status, k_window> statuses_{};
  std::array<event, k_window> events_{};
};

}  // namespace lsched
