#include "tests/support/cancel_trials.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <random>
#include <thread>
#include <vector>

#include "tests/support/wait_until.h"

namespace lsched::testing {
namespace {

using namespace std::chrono_literals;
using std::chrono::microseconds;

/// A random trial. All ranks construct the trial from the same seed, so all ranks get the same trial. In some trials
/// all ranks have long timeouts. These trials finish even on a busy machine. In some trials only the rank after the
/// late rank has a short timeout. The cancel of that rank then ends the waits of the other ranks.
struct trial {
  explicit trial(std::uint64_t seed, std::int32_t ranks) : draw(seed) {
    kind = pick(8);
    count = std::array<std::size_t, 6>{1, 7, 900, 1500, 5000, 60'000}[pick(6)];
    late = static_cast<std::int32_t>(pick(static_cast<std::uint64_t>(ranks)));
    delay = microseconds(pick(1500));
    patience = others_patience = microseconds(pick(1000));
    rounds = 1 + pick(3);
    const std::uint64_t whose = pick(8);
    if (whose < 2) others_patience = 20s;
    if (whose == 0) patience = 20s;
    if (whose == 1) delay = 10ms;
    impatient = (late + 1) % ranks;
  }
  microseconds patience_of(std::int32_t rank) const { return rank == impatient ? patience : others_patience; }
  std::uint64_t pick(std::uint64_t below) { return draw() % below; }
  bool is_partial() const { return kind > 4; }

  std::mt19937_64 draw;
  std::uint64_t kind;
  std::size_t count;
  std::int32_t late;  ///< rank that starts its round after `delay`
  microseconds delay;
  std::int32_t impatient;
  microseconds patience, others_patience;  ///< timeout of the calls of rank `impatient`, and timeout of the calls of
                                           ///< the other ranks
  std::uint64_t rounds;
};

/// If an exception leaves the scope, cancels a schedule and waits until no rank reads the schedule's memory. On a busy
/// machine the wait may exceed 100 ms. The schedule's destructor waits for only 100 ms, and then leaks the schedule.
class end_of_readers {
 public:
  explicit end_of_readers(lsched::schedule_base& of) : of_(of) {}
  ~end_of_readers() {
    if (std::uncaught_exceptions() == exceptions_) return;
    EXPECT_TRUE(wait_until([this] { return lsched_cancel(of_.handle(), nullptr) != LSCHED_ERR_BUSY; }));
  }
  end_of_readers(const end_of_readers&) = delete;
  end_of_readers& operator=(const end_of_readers&) = delete;

 private:
  lsched::schedule_base& of_;
  const int exceptions_ = std::uncaught_exceptions();
};

void expect_all(const std::vector<double>& values, double what) {
  for (const double one : values) ASSERT_EQ(one, what);
}

double sum_of_ranks(std::int32_t ranks) { return ranks * (ranks + 1) / 2.0; }

void run_rounds(lsched::world& mine, lsched::schedule run, const trial& how) {
  const end_of_readers at_end(run);
  if (mine.rank() == how.late) std::this_thread::sleep_for(how.delay);
  for (std::uint64_t round = 0; round < how.rounds; ++round) run.run(how.patience_of(mine.rank()));
  run.close();
}

void run_dense(lsched::world& mine, const trial& how, const char* algorithm) {
  const std::vector<double> input(how.count, mine.rank() + 1.0);
  std::vector<double> output(how.count);
  run_rounds(mine, mine.allreduce<double>(input, output, LSCHED_SUM, algorithm), how);
  expect_all(output, sum_of_ranks(mine.size()));
}

void run_adasum(lsched::world& mine, const trial& how) {
  const std::vector<double> input(how.count, 1.0);  // the adasum of equal vectors is their mean
  std::vector<double> output(how.count);
  run_rounds(mine, mine.adasum<double>(input, output), how);
  for (const double one : output) ASSERT_NEAR(one, 1.0, 1e-9);
}

void run_sparse(lsched::world& mine, const trial& how) {
  const std::vector<double> gradient(how.count, 1.0);
  std::vector<double> update(how.count);
  auto run = mine.sparse<double>(gradient, update, (how.count + 1) / 2);
  const end_of_readers at_end(run);
  if (mine.rank() == how.late) std::this_thread::sleep_for(how.delay);
  for (std::uint64_t round = 0; round < how.rounds; ++round) run.run(how.patience_of(mine.rank()));
  run.close();
}

/// Runs a partial sum and checks the result. Contributions of some ranks may be missing, but no element may contain a
/// part of a contribution.
void run_partial(lsched::world& mine, const trial& how, const lsched::partial_options& options) {
  const std::vector<double> input(how.count, 1.0);
  std::vector<double> output(how.count);
  auto run = mine.partial<double>(how.count, options);
  const end_of_readers at_end(run);
  if (mine.rank() == how.late) std::this_thread::sleep_for(how.delay);
  for (std::uint64_t round = 0; round < how.rounds; ++round) {
    const auto called = run.offer(input);
    const lsched_report got = run.collect(called, output, how.patience_of(mine.rank()));
    if (got.has_result != 0 && options.collective == "allreduce") expect_all(output, static_cast<double>(got.offers));
  }
  run.close(how.patience_of(mine.rank()));
}

void run_kind(lsched::world& mine, const trial& how) {
  switch (how.kind) {
    case 0: return run_dense(mine, how, "ring");
    case 1: return run_dense(mine, how, "recursive_doubling");
    case 2: return run_dense(mine, how, "auto");
    case 3: return run_adasum(mine, how);
    case 4: return run_sparse(mine, how);
    case 5: return run_partial(mine, how, {.activation = "solo"});
    case 6: return run_partial(mine, how, {.activation = "majority", .seed = 3});
    default: return run_partial(mine, how, {.collective = "adasum", .activation = "full"});
  }
}

/// Runs a trial on this rank. Sets `by` to the rank that an error names. A round may still end after its call has timed
/// out. If this rank destroys the schedule after that end, the destruction cancels nothing. Ranks that wait for this
/// rank in the next round then get LSCHED_ERR_PEER, and give up, too. Therefore LSCHED_ERR_PEER counts as a timeout.
trial_end come_out(lsched::world& mine, const trial& how, std::int32_t& by) {
  try {
    run_kind(mine, how);
    return trial_end::finished;
  } catch (const lsched::error& why) {
    if (why.status() == LSCHED_ERR_TIMEOUT) return trial_end::timed_out;
    by = why.diagnostic().rank;
    if (why.status() == LSCHED_ERR_PEER) return trial_end::timed_out;
    EXPECT_EQ(why.status(), LSCHED_ERR_CANCELLED) << why.what();
    return trial_end::was_told;
  }
}

}  // namespace

void run_cancel_trials(lsched::world& mine, std::uint64_t trials, std::size_t most_elements, const trial_board& board) {
  std::vector<double> all_sum(3000);
  lsched::schedule witness = mine.allreduce<double>(all_sum);
  for (std::uint64_t i = 0; i < trials; ++i) {
    trial how(1000 * i + static_cast<std::uint64_t>(mine.size()), mine.size());
    how.count = std::min(how.count, most_elements);
    std::int32_t by = -1;
    const trial_end mine_is = come_out(mine, how, by);
    board.put(i, mine_is);
    const std::vector<double> reused(how.count, 42.0), too(how.count, 43.0);
    std::ranges::fill(all_sum, mine.rank() + 1.0);
    witness.run(20s);
    expect_all(all_sum, sum_of_ranks(mine.size()));
    expect_all(reused, 42.0);
    expect_all(too, 43.0);
    if (by == -1 && (mine_is != trial_end::was_told || how.is_partial())) continue;  // the error may name no rank
    // After a failure, too, all ranks must continue with the next trial.
    const trial_end theirs = by >= 0 && by < mine.size() ? board.look(i, by) : trial_end::unknown;
    EXPECT_EQ(theirs, trial_end::timed_out) << "trial " << i << ", rank " << by;
  }
  witness.close();
}

}  // namespace lsched::testing
