// The MPI requests of an endpoint that are in flight, each with its owner. Only one thread at a time may use the
// object.
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
    orphan_in,  ///< a message that was not received before its instance ended; to be dropped
  };

  /// The owner of a request. `target` is a link, or a rank for `control_out` and all later tasks.
  struct owner {
    enum task task;
    std::uint32_t target;
  };

  /// A request that has completed.
  struct event {
    struct owner owner;
    int bytes = 0;              ///< number of bytes received
    bool is_cancelled = false;  ///< the receive was cancelled and got no message
  };

  void reserve(std::size_t most);
  std::size_t size() const { return requests_.size(); }
  bool empty() const { return requests_.empty(); }

  /// Adds a request. Does not allocate within the reserved size.
  void add(MPI_Request request, const owner& whose);

  /// Tests the next k_window requests after those of the previous call, and removes the completed requests. `news`
  /// refers to the completed requests until the next call of test_next(). Adds the number of tested requests to
  /// `looked`. Returns MPI's error code.
  int test_next(std::span<const event>& news, std::size_t& looked);

  /// Cancels the receives of links for which is_gone(link) is true. Each of these receives completes soon: as
  /// cancelled, or normally if a message was in flight. Returns MPI's error code.
  template <class IsGone>
  int cancel_receives(const IsGone& is_gone) {
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      const auto& [job, target] = owners_[i];
      if ((job != task::header_in && job != task::chunk_in) || !is_gone(target)) continue;
      if (const int code = MPI_Cancel(&requests_[i]); code != MPI_SUCCESS) return code;
    }
    return MPI_SUCCESS;
  }

  /// Drops the requests, although MPI may still complete them.
  void abandon();

 private:
  static constexpr std::size_t k_window = 64;  ///< requests per MPI_Testsome; for more, MPICH allocates memory

  std::vector<MPI_Request> requests_;  ///< contains no null requests
  std::vector<owner> owners_;          ///< parallel to requests_
  std::size_t cursor_ = 0;
  std::array<int, k_window> indices_{};
  std::array<MPI_Status, k_window> statuses_{};
  std::array<event, k_window> events_{};
};

}  // namespace lsched
