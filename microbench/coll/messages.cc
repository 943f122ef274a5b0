// Measures communication other than collectives with fixed counts: messages between two ranks, and an alltoallv with
// different counts in every call. Compares libsched with MPI in the same run.
#include <memory>
#include <vector>

#include "microbench/coll/coll.h"

namespace lsched::bench {
namespace {

// --- a message there and back ----------------------------------------------------------------------------------------

struct mailbox_closer {
  void operator()(lsched_mailbox* mailbox) const { (void)lsched_mailbox_destroy(mailbox); }
};
using mailbox_handle = std::unique_ptr<lsched_mailbox, mailbox_closer>;

mailbox_handle make_mailbox(lsched_world* runtime) {
  lsched_mailbox* made = nullptr;
  lsched_diagnostic why = fresh_diagnostic();
  expect_ok(lsched_mailbox_create(runtime, &made, &why), "lsched_mailbox_create", why);
  return mailbox_handle(made);
}

void wait_for(lsched_message* one) {
  lsched_diagnostic why = fresh_diagnostic();
  expect_ok(lsched_message_wait(&one, k_patience_ns, nullptr, &why), "lsched_message_wait", why);
}

void send(lsched_mailbox* by, int to, const std::vector<float>& data) {
  lsched_message* sent = nullptr;
  expect_ok(lsched_send_post(by, to, 0, data.data(), data.size() * sizeof(float), &sent), "lsched_send_post");
  wait_for(sent);
}

void receive(lsched_mailbox* by, int from, std::vector<float>& data) {
  lsched_message* received = nullptr;
  expect_ok(lsched_receive_post(by, from, 0, data.data(), data.size() * sizeof(float), &received),
            "lsched_receive_post");
  wait_for(received);
}

/// Ping-pong between ranks 0 and 1. The other ranks do nothing.
struct ping_pong {
  ping_pong(const team& ranks, std::uint64_t bytes)
      : rank(ranks.rank()), out(bytes / sizeof(float)), in(bytes / sizeof(float)) {}

  float value(std::uint64_t salt, int of) const {
    return static_cast<float>(2 * (salt % 1000)) + static_cast<float>(of);
  }

  template <class Send, class Receive>
  cell by(const char* impl, const Send& send_to, const Receive& receive_from) {
    cell made{.keys = {{"what", "ping-pong"}, {"bytes", out.size() * sizeof(float)}, {"impl", impl}}};
    made.run = [this, send_to, receive_from] {
      if (rank == 0) send_to(1, out), receive_from(1, in);
      if (rank == 1) receive_from(0, in), send_to(0, out);
    };
    made.fill = [this](std::uint64_t salt) { out.assign(out.size(), value(salt, rank)); };
    made.count_wrong = [this](std::uint64_t salt) {
      double wrong = 0;
      for (const float one : in) wrong += rank < 2 && one != value(salt, 1 - rank) ? 1 : 0;
      return wrong;
    };
    return made;
  }

  const int rank;
  std::vector<float> out, in;
};

// --- counts that change ----------------------------------------------------------------------------------------------

/// An alltoallv that sends one float or two floats to each rank. The number changes in every call. Blocks are two
/// floats apart.
struct changing_blocks {
  explicit changing_blocks(const team& ranks)
      : rank(ranks.rank()), size(static_cast<std::size_t>(ranks.size())), out(2 * size), in(2 * size) {
    for (std::size_t r = 0; r < size; ++r) places.push_back(2 * r);
    of_mpi.displacements.assign(places.begin(), places.end());
    from_mpi.displacements = of_mpi.displacements;
    of_mpi.counts.resize(size);
    from_mpi.counts.resize(size);
    counts.resize(size);
    room.assign(size, 2);
    received.resize(size);
  }

  /// Returns the number of floats for another rank. The number is symmetric: r sends as many floats to s as s to r.
  std::uint64_t next_count(std::size_t other) const { return 1 + (call + static_cast<std::size_t>(rank) + other) % 2; }
  void turn() {
    ++call;
    for (std::size_t r = 0; r < size; ++r) {
      counts[r] = next_count(r);
      of_mpi.counts[r] = from_mpi.counts[r] = static_cast<int>(counts[r]);
    }
  }

  template <class Exchange>
  cell by(const char* impl, const Exchange& exchange) {
    cell made{.keys = {{"what", "alltoallv"}, {"bytes", 2 * sizeof(float)}, {"impl", impl}}};
    made.run = [this, exchange] { turn(), exchange(*this); };
    made.fill = [this](std::uint64_t salt) {
      for (float& one : out) one = static_cast<float>(salt % 1000) + static_cast<float>(rank);
    };
    made.count_wrong = [this](std::uint64_t salt) {
      double wrong = 0;
      for (std::size_t i = 0; i < 2 * size; i += 2)
        wrong += in[i] != static_cast<float>(salt % 1000) + static_cast<float>(i / 2) ? 1 : 0;
      return wrong;
    };
    return made;
  }

  const int rank;
  const std::size_t size;
  std::uint64_t call = 0;
  std::vector<float> out, in;
  std::vector<std::uint64_t> places, counts, room, received;
  mpi_blocks of_mpi, from_mpi;
};

schedule_handle make_alltoallv(lsched_world* runtime) {
  lsched_collective_desc desc{};
  desc.struct_size = sizeof desc;
  desc.collective = "alltoallv";
  desc.dtype = LSCHED_F32;
  desc.capacity = 2;
  return created("lsched_collective_create", lsched_collective_create, runtime, &desc);
}

void exchange_by(lsched_schedule* schedule, changing_blocks& it) {
  const void* const inputs[]{it.out.data()};
  void* const outputs[]{it.in.data()};
  const lsched_counts counts{.struct_size = sizeof counts,
                             .send_counts = it.counts.data(),
                             .send_displacements = it.places.data(),
                             .recv_counts = it.room.data(),
                             .recv_displacements = it.places.data(),
                             .received = it.received.data()};
  lsched_ticket ticket{};
  expect_ok(lsched_start_with(schedule, inputs, outputs, &counts, &ticket), "lsched_start_with");
  expect_ok(lsched_wait(ticket, k_patience_ns, nullptr), "lsched_wait");
}

// --- together --------------------------------------------------------------------------------------------------------

void measure(std::vector<cell> cells, team& ranks, const messages_options& options, const std::string& mpi,
             reporter& out) {
  turn_limits limits{.cell_ms = options.cell_seconds * 1e3};
  take_turns(cells, ranks, limits, cells.front().keys["what"].get<std::string>(), out);
  std::vector<result> rows;
  for (const cell& c : cells) rows.push_back(result_of(c, ranks));
  const double best = best_of_mpi(rows);
  for (result& row : rows) {
    row["mpi"] = mpi;
    out.add(row, best > 0 ? result{{"of_mpi", row["us_median"].get<double>() / best}} : result{});
  }
}

}  // namespace

int run_messages(lsched_world* runtime, const messages_options& options) {
  team ranks(runtime);
  if (ranks.size() < 2) throw agreed("a message needs two ranks");
  reporter out("messages", options, ranks);
  const std::string mpi = mpi_if_measured(ranks, out);
  const mailbox_handle mailbox = make_mailbox(runtime);
  schedule_handle alltoallv = make_alltoallv(runtime);
  for (const std::uint64_t bytes : options.sizes) {
    ping_pong ours(ranks, bytes), theirs(ranks, bytes);
    std::vector<cell> cells{ours.by(
        "libsched", [&](int to, const auto& data) { send(mailbox.get(), to, data); },
        [&](int from, auto& data) { receive(mailbox.get(), from, data); })};
    if (!mpi.empty()) cells.push_back(theirs.by("mpi", mpi_send, mpi_receive));
    measure(std::move(cells), ranks, options, mpi, out);
  }
  changing_blocks ours(ranks), theirs(ranks);
  std::vector<cell> cells{ours.by("libsched", [&](changing_blocks& it) { exchange_by(alltoallv.get(), it); })};
  if (!mpi.empty())
    cells.push_back(theirs.by(
        "mpi", [](changing_blocks& it) { mpi_alltoallv(it.out.data(), it.of_mpi, it.in.data(), it.from_mpi); }));
  measure(std::move(cells), ranks, options, mpi, out);
  close(std::move(alltoallv));
  out.print({column("", "what"), column("size", "bytes"), column("", "impl"), k_us_min, k_us_median, k_us_p95,
             column("/MPI", "of_mpi", 2), k_rounds, k_wrong});
  out.say(
      "ping-pong: a message from rank 0 to rank 1 and a message back, both together (lsched_send_post, "
      "lsched_receive_post, lsched_message_wait; MPI_Send, MPI_Recv). alltoallv: one or two floats to each rank, "
      "alternating; libsched does not know the counts of other ranks (lsched_start_with, lsched_wait), MPI_Alltoallv "
      "does.");
  return out.finish();
}

}  // namespace lsched::bench
