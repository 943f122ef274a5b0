#include "offload/job_board.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>

#include "ops/float_mode.h"

namespace lsched {

std::uint64_t job_board::submit(const lane_job& job) {
  for (slot& entry : slots_) {
    if (entry.is_taken) continue;
    entry.is_taken = true;
    entry.what = job;
    entry.in_piece = std::max<std::uint64_t>(k_piece_bytes / job.element_bytes, 1);
    entry.pieces = (job.call.count + entry.in_piece - 1) / entry.in_piece;
    entry.unfinished.store(entry.pieces, std::memory_order_relaxed);
    entry.unclaimed.store(entry.pieces, std::memory_order_release);
    return entry.pieces;
  }
  return 0;
}

job_board::outcome job_board::do_piece(slot& from) {
  std::uint64_t left = from.unclaimed.load(std::memory_order_relaxed);
  do {
    if (left == 0) return outcome::none;
  } while (!from.unclaimed.compare_exchange_weak(left, left - 1, std::memory_order_acquire));
  const lane_job& job = from.what;
  const std::uint64_t first = (from.pieces - left) * from.in_piece;
  const default_float_mode here;
  job.run_part(first, std::min(from.in_piece, job.call.count - first));
  return from.unfinished.fetch_sub(1) == 1 ? outcome::ended_job : outcome::did_piece;
}

std::size_t job_board::poll(std::span<std::uint64_t> out) {
  std::size_t found = 0;
  for (slot& entry : slots_) {
    if (found == out.size()) break;
    if (!entry.is_taken || entry.unfinished.load() != 0) continue;
    out[found++] = entry.what.cookie;
    entry.is_taken = false;
  }
  return found;
}

bool job_board::help() {
  return std::ranges::any_of(slots_, [](slot& entry) { return entry.is_taken && do_piece(entry) != outcome::none; });
}

void job_board::drain() {
  while (help()) {
  }
  for (const slot& entry : slots_)
    while (entry.is_taken && entry.unfinished.load() != 0) sched_yield();
}

void job_board::close() {
  drain();
  while (serving_.load() != 0) sched_yield();
}

void job_board::serve() {
  serving_.fetch_add(1);
  for (bool found = true; found;) {
    found = false;
    for (slot& entry : slots_)
      for (outcome now = do_piece(entry); now != outcome::none; now = do_piece(entry)) {
        found = true;
        if (now == outcome::ended_job) ring_if_needed(bell_);
      }
  }
  serving_.fetch_sub(1);
}

namespace {

// Orders the owner's writes before a worker's reads. oneTBB already does this, but ThreadSanitizer cannot detect that,
// because oneTBB is not instrumented.
std::atomic<std::uint64_t> g_calls{0};

}  // namespace

void shared_job_board::expect_worker() {
  holders_.fetch_add(1);
  g_calls.fetch_add(1);
}

void shared_job_board::work() {
  static_cast<void>(g_calls.load());
  serve();
  let_go();
}

void shared_job_board::await_workers(std::chrono::nanoseconds limit) const {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (holders_.load() != 1 && std::chrono::steady_clock::now() < deadline) usleep(100);
}

void shared_job_board::let_go() {
  if (holders_.fetch_sub(1) == 1) delete this;
}

}  // namespace lsched
