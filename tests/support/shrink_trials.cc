#include "tests/support/shrink_trials.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "bindings/c/lsched.h"
#include "libsched/schedule/draw.h"
#include "tests/support/child_ranks.h"
#include "tests/support/launched_rank.h"
#include "tests/support/shared_object.h"

namespace lsched::testing {
namespace {

constexpr rank k_most_ranks = 16;
constexpr std::int64_t k_steps = 200;
constexpr std::int64_t k_steps_of_sync = 7;
constexpr std::size_t k_most_syncs = 256;
constexpr std::size_t k_most_resumed = 8;
constexpr std::uint64_t k_limit_ns = 30'000'000'000;
constexpr std::uint64_t k_short_ns = 2'000'000;

/// What parent and children share.
struct common_board {
  std::atomic<std::int64_t> steps[k_most_ranks];    ///< begun
  std::atomic<std::int64_t> offered[k_most_ranks];  ///< contributions
  std::atomic<std::int64_t> resumed_at_ns[k_most_ranks][k_most_resumed];
  std::atomic<std::int32_t> is_over[k_most_ranks];  ///< has had its last result, or is dead
  std::atomic<std::int64_t> totals[k_most_ranks][k_most_ranks];
  std::atomic<std::int64_t> means[k_most_syncs];  ///< bits of the first weight after each model_sync, plus 1
};

std::int64_t now_ns() { return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// A rank of a trial. Its functions answer whether all is well, and say what is not.
class trainee {
 public:
  trainee(const shrink_trial& what, rank self, common_board& common)
      : what_(what), self_(self), common_(common), total_(static_cast<std::size_t>(what.ranks)) {
    lsched_diagnostic_init(&why_);
    gradient_.resize(what.count);
    result_.resize(what.count);
    for (std::size_t i = 0; i < gradient_.size(); ++i) gradient_[i] = owner_of(i) == self ? 1 : 0;
  }

  bool open(const shm_segment& segment) {
    be_launched(segment, self_);
    if (!is(lsched_world_open(nullptr, &world_, &why_), "open")) return false;
    const std::uint64_t draw = mix(what_.seed ^ static_cast<std::uint64_t>(self_) << 32);
    constexpr std::array k_algorithms{"auto", "ring", "recursive_doubling", "rabenseifner"};
    const bool is_accumulated = draw % 2 == 0;
    const lsched_partial_desc desc{.struct_size = sizeof desc,
                                   .count = what_.count,
                                   .dtype = LSCHED_F64,
                                   .reduction = LSCHED_SUM,
                                   .activation = what_.activation,
                                   .seed = what_.seed,
                                   .lag = is_accumulated ? LSCHED_ACCUMULATE : LSCHED_HISTORY,
                                   .history = is_accumulated ? 0u : 1 + static_cast<std::uint32_t>(draw >> 8) % 4,
                                   .divisor = what_.divides ? LSCHED_DIVIDE_BY_RANKS : LSCHED_DIVIDE_BY_NONE,
                                   .algorithm = k_algorithms[mix(what_.seed) % k_algorithms.size()],
                                   .averages_weights = what_.averages ? 1 : 0};
    return is(lsched_partial_create(world_, &desc, &schedule_, &why_), "create");
  }

  bool train() {
    for (std::int64_t step = 1; step <= k_steps; ++step) {
      common_.steps[self_].store(step);
      if (!make_step()) return false;
      if (what_.averages && step % k_steps_of_sync == 0 && !synchronise()) return false;
    }
    if (!until_it_holds([&] { return lsched_flush(schedule_, result_.data(), k_limit_ns, &report_, &why_); }, "flush"))
      return false;
    add();
    const lsched_ticket flushed{schedule_, report_.round};
    for (bool is_more = !what_.averages; is_more;) {  // of a history a flush answers with the first
      if (!until_it_holds([&] { return collect(flushed); }, "collect")) return false;
      is_more = report_.from != report_.to;
      add();
    }
    for (rank r = 0; r < what_.ranks; ++r) common_.totals[self_][r].store(total_[static_cast<std::size_t>(r)]);
    common_.is_over[self_].store(1);
    return serve() && close();
  }

 private:
  rank owner_of(std::size_t element) const { return static_cast<rank>(element) % what_.ranks; }

  bool is(lsched_status answer, const char* call) {
    if (answer == LSCHED_OK) return true;
    std::fprintf(stderr, "seed %llu rank %d step %lld: %s: %s: %s\n", static_cast<unsigned long long>(what_.seed),
                 self_, static_cast<long long>(common_.steps[self_].load()), call, lsched_status_name(answer),
                 why_.text);
    return false;
  }

  /// Leaves the dead behind.
  bool go_on() {
    lsched_status answer = LSCHED_ERR_PEER;
    lsched_world* survivors = nullptr;
    while (answer == LSCHED_ERR_PEER) {
      if (!is(lsched_shrink(world_, k_limit_ns, &survivors, &why_), "shrink")) return false;
      answer = lsched_carry(schedule_, survivors, &why_);
      if (answer == LSCHED_ERR_PEER && !is(lsched_world_close(survivors), "closing a world that nobody needs"))
        return false;
    }
    if (!is(answer, "carry") || !is(lsched_world_close(world_), "close")) return false;
    world_ = survivors;
    has_resumed_ = false;
    return true;
  }

  template <class Call>
  bool until_it_holds(const Call& call, const char* name) {
    lsched_status answer = call();
    while (answer == LSCHED_ERR_PEER) {
      if (!go_on()) return false;
      answer = call();
    }
    if (is(answer, name)) return true;
    return false;
  }

  bool make_step() {
    lsched_ticket ticket{};
    if (!until_it_holds([&] { return lsched_offer(schedule_, gradient_.data(), &ticket); }, "offer")) return false;
    common_.offered[self_].fetch_add(1);
    if (!until_it_holds([&] { return collect(ticket); }, "collect")) return false;
    if (!has_resumed_ && resumed_ < k_most_resumed) common_.resumed_at_ns[self_][resumed_++].store(now_ns());
    has_resumed_ = true;
    add();
    return true;
  }

  lsched_status collect(const lsched_ticket& ticket) {
    if (!what_.has_views) return lsched_collect(ticket, result_.data(), k_limit_ns, &report_, &why_);
    const void* view = nullptr;
    const lsched_status answer = lsched_collect_view(ticket, &view, k_limit_ns, &report_, &why_);
    if (answer == LSCHED_OK && view != nullptr) std::memcpy(result_.data(), view, what_.count * sizeof(double));
    return answer;
  }

  bool synchronise() {
    std::ranges::fill(result_, 1.0 + self_ + static_cast<double>(++syncs_));
    if (!until_it_holds([&] { return lsched_model_sync(schedule_, result_.data(), k_limit_ns, &report_, &why_); },
                        "sync"))
      return false;
    std::int64_t bits = 0, expected = 0;
    std::memcpy(&bits, result_.data(), sizeof bits);
    std::atomic<std::int64_t>& mean = common_.means[syncs_ % k_most_syncs];
    if (mean.compare_exchange_strong(expected, ++bits) || expected == bits) return true;
    std::fprintf(stderr, "seed %llu rank %d: means of synchronisation %zu differ\n",
                 static_cast<unsigned long long>(what_.seed), self_, syncs_);
    return false;
  }

  void add() {
    if (report_.has_result == 0) return;
    for (std::size_t i = 0; i < static_cast<std::size_t>(what_.ranks) && i < result_.size(); ++i)
      total_[i] += static_cast<std::int64_t>(result_[i] * (what_.divides ? what_.ranks : 1));
    for (std::size_t i = 0; i < result_.size(); ++i)
      if (result_[i] != result_[static_cast<std::size_t>(owner_of(i))]) total_[0] = -1'000'000'000;  // torn
  }

  /// Until every rank is: who still trains may need this one.
  bool serve() {
    const lsched_ticket never{schedule_, UINT64_MAX};
    const auto all_are_over = [&] {
      return std::all_of(common_.is_over, common_.is_over + what_.ranks,
                         [](const auto& one) { return one.load() != 0; });
    };
    while (!all_are_over()) {
      const lsched_status answer = lsched_collect(never, nullptr, k_short_ns, &report_, &why_);
      if (answer == LSCHED_ERR_PEER && !go_on()) return false;
      if (answer != LSCHED_ERR_PEER && answer != LSCHED_ERR_TIMEOUT) return is(answer, "serving");
    }
    return true;
  }

  bool close() {
    return is(lsched_schedule_destroy(schedule_, k_limit_ns, &why_), "destroy") &&
           is(lsched_world_close(world_), "close");
  }

  const shrink_trial what_;
  const rank self_;
  common_board& common_;
  std::vector<std::int64_t> total_;
  std::vector<double> gradient_, result_;
  lsched_diagnostic why_{};
  lsched_report report_{.struct_size = sizeof report_};
  lsched_world* world_ = nullptr;
  lsched_schedule* schedule_ = nullptr;
  std::size_t syncs_ = 0;
  bool has_resumed_ = true;
  std::size_t resumed_ = 0;
};

/// Kills drawn ranks in drawn steps. Answers when each was killed.
std::vector<std::int64_t> kill_some(const shrink_trial& what, child_ranks& children, common_board& common) {
  std::vector<rank> alive(static_cast<std::size_t>(what.ranks));
  for (rank r = 0; r < what.ranks; ++r) alive[static_cast<std::size_t>(r)] = r;
  std::vector<std::int64_t> times;
  std::int64_t step = 1;
  for (int k = 0; k < what.kills; ++k) {
    const std::uint64_t draw = mix(what.seed * 16 + static_cast<std::uint64_t>(k));
    const auto drawn = alive.begin() + static_cast<std::ptrdiff_t>(draw % alive.size());
    const rank victim = *drawn;
    alive.erase(drawn);
    // Sometimes at the same time as the one before, or while others flush.
    step = draw % 5 == 0
               ? step
               : std::min<std::int64_t>(k_steps, step + 1 + static_cast<std::int64_t>((draw >> 8) % (k_steps / 2)));
    const std::int64_t limit_ns = now_ns() + 20'000'000'000;
    while (common.steps[victim].load() < step && now_ns() < limit_ns) usleep(50);
    for (std::uint64_t spins = (draw >> 20) % 20'000; spins > 0; --spins) (void)common.steps[0].load();
    times.push_back(now_ns());
    children.kill(victim);
    common.is_over[victim].store(2);
  }
  return times;
}

/// What does not add up, in words.
std::string audit(const shrink_trial& what, const common_board& common) {
  std::string complaints;
  rank first = k_no_rank;
  for (rank r = 0; r < what.ranks; ++r) {
    if (common.is_over[r].load() != 1) continue;
    if (first == k_no_rank) first = r;
    for (rank of = 0; of < what.ranks; ++of) {
      const bool is_alive = common.is_over[of].load() == 1;
      const std::int64_t got = common.totals[r][of].load(), offered = common.offered[of].load();
      const bool fits = is_alive ? got == offered : got >= 0 && got <= offered + 1;
      if (!fits || got != common.totals[first][of].load())
        complaints += "rank " + std::to_string(r) + " has " + std::to_string(got) + " of " + std::to_string(offered) +
                      " contributions of rank " + std::to_string(of) + (is_alive ? "" : ", who is dead") + "; ";
    }
  }
  return complaints;
}

}  // namespace

shrink_result run_shrink_trial(const shrink_trial& what) {
  auto segment = shm_segment::create(what.ranks, std::size_t{64} << 20);
  if (!segment) return {segment.error().text, {}};
  shared_object<common_board> common;
  child_ranks children(what.ranks, [&](rank self) {
    trainee one(what, self, *common);
    return one.open(**segment) && one.train() ? 0 : 1;
  });
  const std::vector<std::int64_t> times = kill_some(what, children, *common);
  shrink_result answer{children.wait(), {}};
  if (answer.complaints.empty() && !what.averages) answer.complaints = audit(what, *common);
  for (const std::int64_t killed_at : times) {
    std::int64_t last = 0;  // of the first times after that
    for (const auto& of_rank : common->resumed_at_ns) {
      const auto next = std::ranges::find_if(of_rank, [&](const auto& one) { return one.load() > killed_at; });
      if (next != std::end(of_rank)) last = std::max(last, next->load());
    }
    if (last != 0) answer.gaps_ms.push_back(static_cast<double>(last - killed_at) * 1e-6);
  }
  return answer;
}

}  // namespace lsched::testing
