#include "bindings/mpi/mpi_records.h"

#include <algorithm>
#include <cstring>

namespace lsched {

bool mpi_records::reserve(std::size_t ranks) {
  ranks_ = ranks;
  entries_.reset(mpi_edge::allocate_aligned(k_entry_bytes * (ranks + 1)));
  return entries_ != nullptr;
}

int mpi_records::post(MPI_Comm comm, std::span<const std::byte> record, const edge_sums& mine) {
  std::byte* entry = entries_.get();
  std::memset(entry, 0, endpoint::record_bytes);
  std::memcpy(entry, record.data(), std::min(record.size(), endpoint::record_bytes));
  std::memcpy(entry + endpoint::record_bytes, &mine, sizeof mine);
  constexpr int bytes = static_cast<int>(k_entry_bytes);
  return MPI_Iallgather(entry, bytes, MPI_BYTE, entry + bytes, bytes, MPI_BYTE, comm, &request_);
}

int mpi_records::test() {
  int is_done = 0;
  return is_under_way() ? MPI_Test(&request_, &is_done, MPI_STATUS_IGNORE) : MPI_SUCCESS;
}

void mpi_records::read(std::span<std::byte> all) {
  edge_sums total;
  for (std::size_t r = 0; r < ranks_; ++r) {
    const std::byte* entry = entries_.get() + k_entry_bytes * (r + 1);
    edge_sums sums;
    std::memcpy(&sums, entry + endpoint::record_bytes, sizeof sums);
    total.outgoing += sums.outgoing;
    total.incoming += sums.incoming;
    std::memcpy(all.data() + endpoint::record_bytes * r, entry, endpoint::record_bytes);
  }
  has_agreed_ = total.outgoing == total.incoming;
}

}  // namespace lsched
