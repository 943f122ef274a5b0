// The exchange of commit records over MPI: an allgather, which also finds out whether the ranks' edges pair up.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "bindings/mpi/mpi_edge.h"

namespace lsched {

class mpi_records {
 public:
  /// The edges of a rank's unlinked instances as two numbers: if all ends have their opposites, the world's sums are
  /// equal; if not, they differ (up to 2^-64). They travel behind the record.
  struct edge_sums {
    std::uint64_t outgoing = 0;
    std::uint64_t incoming = 0;
  };

  /// False: there is no memory.
  bool reserve(std::size_t ranks);

  /// Starts an exchange, while none is under way. Answers MPI's code, as test() does.
  int post(MPI_Comm comm, std::span<const std::byte> record, const edge_sums& mine);
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
