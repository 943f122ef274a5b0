// What MPI has under way for an endpoint: requests, each with an owner, and the exchange of commit records. One thread.
#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "bindings/mpi/mpi_links.h"

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
    int bytes;  ///< received
  };

  void reserve(std::size_t most);
  std::size_t size() const { return requests_.size(); }
  bool empty() const { return requests_.empty(); }

  /// Within what is reserved it does not allocate.
  void add(MPI_Request request, const owner& whose);

  /// Tests the next requests after those of the last call, and takes those that have completed out, oldest first:
  /// `news`, until the next call. Adds how many it has looked at to `looked`. Answers MPI's code.
  int test_next(std::span<const event>& news, std::size_t& looked);

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

/// The exchange of commit records over MPI: an allgather, which also finds out whether the ranks' edges pair up.
class mpi_records {
 public:
  /// False: there is no memory.
  bool reserve(std::size_t ranks);

  /// Starts an exchange, while none is under way. Answers MPI's code, as test() does.
  int post(MPI_Comm comm, std::span<const std::byte> record, const edge_sums& own);
  int test();
  bool is_under_way() const { return request_ != MPI_REQUEST_NULL; }

  /// After an exchange: the records of all ranks, one behind the other.
  void read(std::span<std::byte> all);
  /// Whether the edges of the last exchange that was read pair up.
  bool has_agreed() const { return has_agreed_; }

  /// Leaves the memory to MPI, which may still write to it.
  void abandon() { (void)entries_.release(); }

 private:
  static constexpr std::size_t k_entry_bytes = endpoint::record_bytes + sizeof(edge_sums);

  std::size_t ranks_ = 0;
  mpi_edge::memory entries_;  ///< this rank's entry, then everybody's
  MPI_Request request_ = MPI_REQUEST_NULL;
  bool has_agreed_ = true;
};

}  // namespace lsched
