#include "bindings/mpi/mpi_board_carrier.h"

#include "bindings/mpi/mpi_calls.h"

namespace lsched {

void mpi_board_carrier::send(rank peer, const content& bytes) {
  if (around_.health() != status::ok) return;
  MPI_Request request = MPI_REQUEST_NULL;
  const int code =
      MPI_Isend(bytes->data(), static_cast<int>(bytes->size()), MPI_BYTE, peer, around_.tag, around_.comm, &request);
  if (!around_.succeeded(code)) return;
  around_.note_sent(peer);
  if (!is_complete(request)) sends_.push_back({request, bytes});  // a short message is usually complete at once
}

bool mpi_board_carrier::is_complete(MPI_Request& request) {
  int is_done = 0;
  return around_.succeeded(MPI_Test(&request, &is_done, MPI_STATUS_IGNORE)) && is_done != 0;
}

/// Posts a receive for a message that has arrived. Returns false if no message has arrived.
bool mpi_board_carrier::receive_next() {
  int is_here = 0, bytes = 0;
  MPI_Message message;
  MPI_Status about;
  const bool is_found =
      around_.succeeded(MPI_Improbe(MPI_ANY_SOURCE, around_.tag, around_.comm, &is_here, &message, &about)) &&
      is_here != 0 && around_.succeeded(MPI_Get_count(&about, MPI_BYTE, &bytes));
  if (!is_found) return false;
  auto into = std::make_unique<std::vector<std::byte>>(static_cast<std::size_t>(bytes));
  MPI_Request request = MPI_REQUEST_NULL;
  if (!around_.succeeded(MPI_Imrecv(into->data(), bytes, MPI_BYTE, &message, &request))) return false;
  receives_.push_back({request, std::move(into), about.MPI_SOURCE});
  return true;
}

void mpi_board_carrier::advance_transfers() {
  std::erase_if(sends_, [this](outgoing& one) { return is_complete(one.request); });
  for (auto one = receives_.begin(); one != receives_.end();) {
    if (!is_complete(one->request)) {
      ++one;
      continue;
    }
    around_.note_taken(one->peer);
    const auto news = std::move(one->bytes);
    const rank from = one->peer;
    one = receives_.erase(one);
    around_.take(from, *news);
  }
}

status mpi_board_carrier::receive(bool is_awaiting) {
  if (around_.health() != status::ok) return around_.health();
  while (is_awaiting && receive_next()) {
  }
  advance_transfers();
  return around_.health();
}

bool mpi_board_carrier::can_send() const { return is_mpi_running(); }

void mpi_board_carrier::abandon() {
  for (outgoing& one : sends_) (void)new content(std::move(one.bytes));
  for (incoming& one : receives_) (void)one.bytes.release();
  sends_.clear();
  receives_.clear();
}

}  // namespace lsched
