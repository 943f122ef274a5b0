// The program of each rank of a job. `lsched run` starts `blame_rank FILE FAMILY END SEED`. One rank, the victim, ends
// or stops at a random moment. Each rank makes calls of the kind FAMILY until a call fails. The rank then writes the
// error to the shared memory FILE (blame_ground.h). If the victim has died, a survivor ends right after its report, and
// may leave handles open. The errors of the other ranks must still name the victim. If the victim has stopped, a
// survivor waits until all survivors have reported.
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bindings/c/lsched.h"
#include "libsched/schedule/draw.h"
#include "tests/bindings/blame/blame_ground.h"
#include "tests/bindings/blame/sandbox.h"
#include "tests/support/barrier.h"
#include "tests/support/one_bucket.h"
#include "tests/support/wait_until.h"

namespace lsched::testing {
namespace {

using clock = std::chrono::steady_clock;

constexpr std::uint64_t k_count = 3000;  // about 24 kB: receivers read such messages from the sender's memory

struct job {
  std::string family, end;
  std::uint64_t seed;
  std::int32_t self, ranks;
  bool is_stop() const { return end == "stop"; }
  std::int32_t victim() const { return static_cast<std::int32_t>(drawn(1) % static_cast<std::uint64_t>(ranks)); }
  std::uint64_t drawn(std::uint64_t number) const { return mix(mix(seed) ^ number); }
  std::uint64_t timeout_ns() const { return is_stop() ? 1'500'000'000 : 20'000'000'000; }
};

struct diagnosis : lsched_diagnostic {
  diagnosis() : lsched_diagnostic{.struct_size = sizeof(lsched_diagnostic)} {}
};

// --- the end of the victim -------------------------------------------------------------------------------------------

void end_as(std::string_view end) {
  if (end == "kill") raise(SIGKILL);
  if (end == "exit") std::exit(0);
  if (end == "_exit") _exit(0);
  if (end == "abort") std::abort();
  if (end == "segv") raise(SIGSEGV);
  if (end == "term") raise(SIGTERM);
  if (end == "exec") execl("/bin/sleep", "sleep", "0.3", nullptr);
  if (end == "stop") kill(getpid(), SIGSTOP);
}

/// Ends the process after a random number of steps and then a random time. The family "opening" has no steps, so only
/// the time counts.
void end_at_a_drawn_moment(const job& what, const shared_ground& ground, const std::atomic<std::uint64_t>& steps) {
  const bool is_early = what.family == "opening";
  const std::uint64_t least = is_early ? 0 : 1 + what.drawn(2) % 20;
  while (steps.load() < least) std::this_thread::yield();
  const auto until = clock::now() + std::chrono::microseconds(what.drawn(3) % (is_early ? 4000 : 300));
  while (clock::now() < until) std::this_thread::yield();
  ground->has_ended.store(1);
  end_as(what.end);
}

// --- the calls of a job ----------------------------------------------------------------------------------------------

/// An input and an output, each large enough for the blocks of all ranks.
struct vectors {
  std::vector<double> input = std::vector<double>(k_count * k_most_ranks, 1), output = input;
};

class rank_of_job {
 public:
  rank_of_job(const job& what, std::atomic<std::uint64_t>& steps) : job_(what), steps_(steps) {}

  /// Makes calls until a call fails. why() then returns the error of this call.
  void live() {
    lsched_config config;
    lsched_config_init(&config);
    if (job_.is_stop()) config.commit_timeout_ns = job_.timeout_ns();
    if (lsched_world_open(&config, &world_, &why_) != LSCHED_OK) return;
    for (bool goes_on = true; goes_on; steps_.fetch_add(1)) goes_on = step();
  }

  const lsched_diagnostic& why() const { return why_; }

  /// Destroys and closes all, some or none of the handles, depending on the random number `drawn`.
  void leave(std::uint64_t drawn) {
    if (drawn % 4 == 0) return;
    if (schedule_ != nullptr) (void)lsched_schedule_destroy(schedule_, job_.timeout_ns(), nullptr);
    for (lsched_message** one : {&sent_, &received_})
      if (*one != nullptr) (void)lsched_message_cancel(one);
    if (mailbox_ != nullptr) (void)lsched_mailbox_destroy(mailbox_);
    if (drawn % 4 == 1) return;
    (void)lsched_world_close(world_);
  }

 private:
  bool step() {
    if (job_.family == "rounds") return run_round();
    if (job_.family == "splits") return split();
    if (job_.family == "partial") return run_partial();
    if (job_.family == "sparse") return run_sparse();
    if (job_.family == "messages") return exchange();
    return create_and_run();
  }

  std::uint64_t drawn(std::uint64_t number) const { return job_.drawn(number << 32 | steps_.load()); }

  bool create(const char* collective, const char* algorithm) {
    const std::string_view name = collective;
    if (name == "barrier") return create_barrier(world_, &schedule_, &why_) == LSCHED_OK;
    const lsched_collective_desc desc{.struct_size = sizeof desc,
                                      .collective = collective,
                                      .input = memory_.input.data(),
                                      .output = memory_.output.data(),
                                      .count = k_count,
                                      .dtype = LSCHED_F64,
                                      .reduction = name == "allreduce" ? LSCHED_SUM : lsched_reduction{},
                                      .algorithm = algorithm};
    return lsched_collective_create(world_, &desc, &schedule_, &why_) == LSCHED_OK;
  }

  bool run_round() {
    constexpr std::array<std::array<const char*, 2>, 7> k_all{{{"allreduce", "ring"},
                                                               {"allreduce", "tree"},
                                                               {"allreduce", "recursive_doubling"},
                                                               {"bcast", "binomial"},
                                                               {"allgather", "dissemination"},
                                                               {"alltoall", "direct"},
                                                               {"barrier", "dissemination"}}};
    const auto& [collective, algorithm] = k_all[job_.drawn(4) % k_all.size()];
    if (schedule_ == nullptr && !create(collective, algorithm)) return false;
    return lsched_run(schedule_, job_.timeout_ns(), &why_) == LSCHED_OK;
  }

  bool create_and_run() {
    if (!create(drawn(5) % 2 == 0 ? "allreduce" : "barrier", "auto")) return false;
    if (lsched_run(schedule_, job_.timeout_ns(), &why_) != LSCHED_OK) return false;
    if (lsched_schedule_destroy(schedule_, job_.timeout_ns(), &why_) != LSCHED_OK) return false;
    schedule_ = nullptr;
    return true;
  }

  bool split() {
    lsched_world* made = nullptr;
    const auto color = static_cast<std::int32_t>(drawn(6) % 2 == 0 ? job_.self % 2 : 0);
    if (lsched_split(world_, color, 0, &made, &why_) != LSCHED_OK) return false;
    (void)lsched_world_close(made);
    std::vector<std::int32_t> listed;
    for (std::int32_t r = 0; r < job_.ranks; ++r)
      if (drawn(7 + static_cast<std::uint64_t>(r)) % 3 != 0) listed.push_back(r);
    if (std::ranges::find(listed, job_.self) == listed.end()) return true;
    const auto tag = static_cast<std::int32_t>(steps_.load());
    if (lsched_split_ranks(world_, listed.data(), static_cast<std::int32_t>(listed.size()), tag, &made, &why_) !=
        LSCHED_OK)
      return false;
    (void)lsched_world_close(made);
    return true;
  }

  bool run_partial() {
    if (schedule_ == nullptr) {
      constexpr std::array k_activations{"solo", "majority", "full", "quorum(2)"};
      const lsched_partial_desc desc{.struct_size = sizeof desc,
                                     .count = k_count,
                                     .dtype = LSCHED_F64,
                                     .reduction = LSCHED_SUM,
                                     .activation = k_activations[job_.drawn(4) % k_activations.size()],
                                     .seed = job_.seed,
                                     .lag = LSCHED_ACCUMULATE};
      if (lsched_partial_create(world_, &desc, &schedule_, &why_) != LSCHED_OK) return false;
    }
    lsched_ticket ticket{};
    const lsched_status answer = lsched_offer(schedule_, one_bucket(memory_.input.data()), &ticket);
    if (answer == LSCHED_OK)
      return lsched_collect(ticket, one_bucket(memory_.output.data()), job_.timeout_ns(), nullptr, &why_) == LSCHED_OK;
    // If the wait fails, why_ names the dead rank.
    return lsched_wait({schedule_, UINT64_MAX}, job_.timeout_ns(), &why_) == LSCHED_OK;
  }

  bool run_sparse() {
    if (schedule_ == nullptr) {
      const lsched_sparse_desc desc{.struct_size = sizeof desc,
                                    .gradient = memory_.input.data(),
                                    .update = memory_.output.data(),
                                    .count = k_count,
                                    .k = 50,
                                    .dtype = LSCHED_F64,
                                    .algorithm = job_.drawn(4) % 2 == 0 ? "oktopk" : "topka"};
      if (lsched_sparse_create(world_, &desc, &schedule_, &why_) != LSCHED_OK) return false;
    }
    return lsched_run(schedule_, job_.timeout_ns(), &why_) == LSCHED_OK;
  }

  /// Sends short and long messages around a ring. A receive accepts messages of the left neighbour or of any rank.
  bool exchange() {
    if (mailbox_ == nullptr && lsched_mailbox_create(world_, &mailbox_, &why_) != LSCHED_OK) return false;
    const std::int32_t left = (job_.self + job_.ranks - 1) % job_.ranks, right = (job_.self + 1) % job_.ranks;
    const std::uint64_t bytes = drawn(6) % 2 == 0 ? 8 : k_count * sizeof(double);
    const auto tag = static_cast<std::int32_t>(steps_.load());
    const std::int32_t from = job_.drawn(4) % 3 == 0 ? LSCHED_ANY_RANK : left;
    if (lsched_send_post(mailbox_, right, tag, memory_.input.data(), bytes, &sent_) != LSCHED_OK) return false;
    if (lsched_receive_post(mailbox_, from, tag, memory_.output.data(), bytes, &received_) != LSCHED_OK) return false;
    return lsched_message_wait(&received_, job_.timeout_ns(), nullptr, &why_) == LSCHED_OK &&
           lsched_message_wait(&sent_, job_.timeout_ns(), nullptr, &why_) == LSCHED_OK;
  }

  const job& job_;
  std::atomic<std::uint64_t>& steps_;
  diagnosis why_;
  lsched_world* world_ = nullptr;
  lsched_schedule* schedule_ = nullptr;
  lsched_mailbox* mailbox_ = nullptr;
  lsched_message *sent_ = nullptr, *received_ = nullptr;
  vectors memory_;
};

void report(const job& what, const shared_ground& ground, const lsched_diagnostic& why) {
  blame_ground::report& mine = ground->reports[what.self];
  mine.status = why.status;
  mine.named = why.rank;
  std::snprintf(mine.text, sizeof mine.text, "%s", why.text);
  mine.is_there.store(ground->has_ended.load() != 0 ? 1 : 2);
  ground->reports_in.fetch_add(1);
}

/// Waits until all survivors have reported, or until a time limit, and then kills the victim.
void await_reports(const job& what, const shared_ground& ground) {
  wait_until([&] { return ground->reports_in.load() + 1 >= what.ranks; });
  if (const std::int32_t process = ground->victim.load(); process > 0) kill(process, SIGKILL);
}

int perform(const job& what, const shared_ground& ground) {
  if (const char* const refused = std::getenv("LSCHED_TEST_REFUSED_CALLS")) refuse_calls(refused);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  std::atomic<std::uint64_t> steps{0};
  if (what.self == what.victim()) {
    ground->victim.store(getpid());
    std::thread([&] { end_at_a_drawn_moment(what, ground, steps); }).detach();
  }
  rank_of_job here(what, steps);
  here.live();
  if (what.self == what.victim())
    for (;;) pause();
  report(what, ground, here.why());
  if (what.is_stop()) await_reports(what, ground);
  here.leave(what.drawn(100 + static_cast<std::uint64_t>(what.self)));
  return 0;
}

}  // namespace
}  // namespace lsched::testing

int main(int count, char** words) {
  const char* const self = std::getenv("LSCHED_RUN_RANK");
  const char* const ranks = std::getenv("LSCHED_RUN_SIZE");
  if (count != 5 || self == nullptr || ranks == nullptr) return 2;
  const lsched::testing::job what{words[2], words[3], std::strtoull(words[4], nullptr, 10), std::atoi(self),
                                  std::atoi(ranks)};
  return perform(what, lsched::testing::shared_ground(words[1], false));
}
