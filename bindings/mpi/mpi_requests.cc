#include "bindings/mpi/mpi_requests.h"

#include <algorithm>
#include <cstring>

namespace lsched {
namespace {

constexpr bool receives(mpi_requests::task job) {
  using task = mpi_requests::task;
  return job == task::header_in || job == task::chunk_in || job == task::control_in;
}

}  // namespace

void mpi_requests::reserve(std::size_t most) {
  requests_.reserve(most);
  owners_.reserve(most);
}

void mpi_requests::add(MPI_Request request, const owner& whose) {
  requests_.push_back(request);
  owners_.push_back(whose);
}

int mpi_requests::test_next(std::span<const event>& news, std::size_t& looked) {
  news = {};
  if (cursor_ >= requests_.size()) cursor_ = 0;
  const std::size_t begin = cursor_;
  const std::size_t count = std::min(k_window, requests_.size() - begin);
  cursor_ += count;
  looked += count;
  int found = 0;
  if (const int code =
          MPI_Testsome(static_cast<int>(count), requests_.data() + begin, &found, indices_.data(), statuses_.data());
      code != MPI_SUCCESS)
    return code;
  if (found == MPI_UNDEFINED) return MPI_SUCCESS;
  for (std::size_t i = 0; i < static_cast<std::size_t>(found); ++i) {
    events_[i] = {owners_[begin + static_cast<std::size_t>(indices_[i])], 0};
    if (!receives(events_[i].owner.task)) continue;
    if (const int code = MPI_Get_count(&statuses_[i], MPI_BYTE, &events_[i].bytes); code != MPI_SUCCESS) return code;
  }
  for (std::size_t i = found > 0 ? begin + count : begin; i-- > begin;) {
    if (requests_[i] != MPI_REQUEST_NULL) continue;
    requests_[i] = requests_.back();
    owners_[i] = owners_.back();
    requests_.pop_back();
    owners_.pop_back();
  }
  news = std::span<const event>(events_).first(static_cast<std::size_t>(found));
  return MPI_SUCCESS;
}

void mpi_requests::abandon() {
  requests_.clear();
  owners_.clear();
}

// --- commit records ----------------------------------------------------------------------------------------

bool mpi_records::reserve(std::size_t ranks) {
  ranks_ = ranks;
  entries_.reset(mpi_edge::allocate_aligned(k_entry_bytes * (ranks + 1)));
  return entries_ != nullptr;
}

int mpi_records::post(MPI_Comm comm, std::span<const std::byte> record, const edge_sums& own) {
  std::byte* entry = entries_.get();
  std::memset(entry, 0, endpoint::record_bytes);
  std::memcpy(entry, record.data(), std::min(record.size(), endpoint::record_bytes));
  std::memcpy(entry + endpoint::record_bytes, &own, sizeof own);
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
