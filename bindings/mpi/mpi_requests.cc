#include "bindings/mpi/mpi_requests.h"

#include <algorithm>

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
    events_[i] = {owners_[begin + static_cast<std::size_t>(indices_[i])]};
    if (!receives(events_[i].owner.task)) continue;
    int is_cancelled = 0;
    if (const int code = MPI_Test_cancelled(&statuses_[i], &is_cancelled); code != MPI_SUCCESS) return code;
    events_[i].is_cancelled = is_cancelled != 0;
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

}  // namespace lsched
