#include "bindings/mpi/mpi_stream.h"

#include <algorithm>

namespace lsched {

std::uint64_t mpi_stream::say(const control_record& news, std::uint64_t number) {
  if (number >= first_pending_) {
    pending_[number - first_pending_].value = news.value;
    return number;
  }
  pending_.push_back(news);
  return first_pending_ + pending_.size() - 1;
}

std::size_t mpi_stream::next_batch() {
  const std::size_t count = std::min(pending_.size(), k_batch_records);
  const auto end = pending_.begin() + static_cast<std::ptrdiff_t>(count);
  std::copy(pending_.begin(), end, outgoing.begin());
  pending_.erase(pending_.begin(), end);
  first_pending_ += count;
  return count;
}

}  // namespace lsched
