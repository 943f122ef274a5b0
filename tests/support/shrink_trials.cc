#include "tests/support/one_bucket.h"
#include "tests/support/shrink_trials.h"

#include <signal.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "bindings/c/lsched.h"
#include "libsched/schedule/draw.h"
#include "tests/support/child_ranks.h"
#include "tests/support/launched_rank.h"
#include "tests/support/shared_object.h"
#include "tests/support/tcp_store.h"

namespace lsched::testing {
namespace {

constexpr rank k_most_ranks = 16;
constexpr std::size_t k_most_schedules = 2;
constexpr std::int64_t k_steps_of_sync = 7;
constexpr std::size_t k_most_syncs = 256;
constexpr std::size_t k_most_resumed = 8;
constexpr std::size_t k_most_rounds = 4096;
constexpr std::uint64_t k_limit_ns = 30'000'000'000;
constexpr std::uint64_t k_short_ns = 2'000'000;

enum class fate : std::int32_t { training, through, dead };

/// The contributions that one rank has received from a schedule.
struct account {
  std::atomic<std::int64_t> offered;               ///< number of contributions that this rank has offered
  std::atomic<std::int64_t> totals[k_most_ranks];  ///< sum of the contributions that this rank has received from each
                                                   ///< rank, at the end
  std::atomic<std::uint64_t> sums[k_most_rounds];  ///< hash of the totals after each round; 0 if unknown
};

/// Memory that the parent shares with all children.
struct common_board {
  account accounts[k_most_ranks][k_most_schedules];
  std::atomic<std::int64_t> steps[k_most_ranks];  ///< latest step that each rank has begun
  std::atomic<std::int64_t> resumed_at_ns[k_most_ranks][k_most_resumed];
  std::atomic<fate> fates[k_most_ranks];
  std::atomic<std::int64_t> killed_at_ns[k_most_ranks];  ///< time of each rank's death; 0 if the rank is alive
  std::atomic<std::int32_t> dies_in_recovery[k_most_ranks];
  std::atomic<std::int64_t> means[k_most_syncs];  ///< bit pattern of the first weight after each model_sync, plus 1
};

std::int64_t now_ns() { return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// The steps of a recovery. The timer of a planned death starts directly before one of these steps.
enum class place_of_death : std::uint8_t { shrink, first_carry, last_carry, close, return_to_training };
constexpr std::uint64_t k_places_of_death = 5;

/// The planned death of a rank. A timer sends SIGKILL, so the rank can die at any instruction after the start of the
/// timer.
struct death {
  bool is_planned = false;
  std::int64_t in_step = 0;      ///< step in which the rank dies; 0 if the rank dies in a recovery
  std::int64_t in_recovery = 0;  ///< index of the first recovery of this rank in which the rank may die
  place_of_death place = place_of_death::shrink;
  std::uint64_t delay_ns = 0;
};

/// Returns a delay of 1 us to 10 ms. All orders of magnitude are equally probable.
std::uint64_t draw_delay_ns(std::uint64_t draw) {
  return static_cast<std::uint64_t>(1000 * std::pow(10.0, static_cast<double>(draw % 4096) / 1024));
}

/// Returns the planned death of each rank. The first death happens in a step of training. With `kills_in_recovery`, all
/// later deaths happen in a recovery.
std::vector<death> draw_deaths(const shrink_trial& what) {
  std::vector<death> deaths(static_cast<std::size_t>(what.ranks));
  std::int64_t step = 1;
  for (int k = 0; k < what.kills; ++k) {
    const std::uint64_t draw = mix(what.seed * 16 + static_cast<std::uint64_t>(k));
    std::size_t victim = draw % deaths.size();
    while (deaths[victim].is_planned) victim = (victim + 1) % deaths.size();
    // Some deaths happen in the same step as the previous death, and some in the final flush.
    if (draw % 5 != 0)
      step = std::min<std::int64_t>(what.steps,
                                    step + 1 + static_cast<std::int64_t>(draw >> 8 & 0xffff) % (what.steps / 2));
    const bool is_in_recovery = what.kills_in_recovery && k > 0;
    deaths[victim] = {
        .is_planned = true,
        .in_step = is_in_recovery ? 0 : step,
        .in_recovery = 1 + static_cast<std::int64_t>((draw >> 56) % static_cast<std::uint64_t>(k + (k == 0))),
        .place = static_cast<place_of_death>((draw >> 40) % k_places_of_death),
        .delay_ns = (draw >> 48) % 8 == 0 ? 0 : draw_delay_ns(draw >> 20)};
  }
  return deaths;
}

/// Starts a timer that sends SIGKILL to this process after the delay.
void die_in(std::uint64_t delay_ns) {
  if (delay_ns == 0) raise(SIGKILL);
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGKILL;
  timer_t timer{};
  const itimerspec when{.it_interval = {}, .it_value = {0, static_cast<long>(delay_ns)}};
  if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 || timer_settime(timer, 0, &when, nullptr) != 0) std::abort();
}

/// One partial schedule of a rank, and the contributions that the rank has received from the schedule.
class exchange {
 public:
  exchange(const shrink_trial& what, rank self, std::size_t number, account& its)
      : what_(what), self_(self), number_(number), account_(its), total_(static_cast<std::size_t>(what.ranks)) {
    gradient_.resize(what.count);
    result_.resize(what.count);
    for (std::size_t i = 0; i < gradient_.size(); ++i) gradient_[i] = owner_of(i) == self ? 1 : 0;
  }

  lsched_status create(lsched_world* world, lsched_diagnostic* why) {
    const std::uint64_t common = mix(what_.seed + number_),
                        draw = mix(common ^ static_cast<std::uint64_t>(self_) << 32);
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
                                   .algorithm = k_algorithms[common % k_algorithms.size()],
                                   .averages_weights = what_.averages ? 1 : 0};
    return lsched_partial_create(world, &desc, &schedule, why);
  }

  lsched_status offer() {
    const lsched_status answer = lsched_offer(schedule, one_bucket(gradient_.data()), &ticket_);
    if (answer == LSCHED_OK) account_.offered.fetch_add(1);
    return answer;
  }

  lsched_status collect(lsched_diagnostic* why) {
    if (!what_.has_views) return lsched_collect(ticket_, one_bucket(result_.data()), k_limit_ns, &report_, why);
    const lsched_status answer = lsched_collect(ticket_, nullptr, k_limit_ns, &report_, why);
    if (answer == LSCHED_OK && report_.result != nullptr)
      std::memcpy(result_.data(), report_.result, what_.count * sizeof(double));
    return answer;
  }

  lsched_status flush(lsched_diagnostic* why) {
    const lsched_status answer = lsched_flush(schedule, one_bucket(result_.data()), k_limit_ns, &report_, why);
    ticket_ = {schedule, report_.round};
    return answer;
  }

  lsched_status synchronise(double weight, lsched_diagnostic* why) {
    std::ranges::fill(result_, weight);
    return lsched_model_sync(schedule, result_.data(), k_limit_ns, &report_, why);
  }
  double first_weight() const { return result_.front(); }

  /// Serves other ranks for a short time, by waiting for a round that never begins.
  lsched_status serve(lsched_diagnostic* why) {
    return lsched_collect({schedule, UINT64_MAX}, nullptr, k_short_ns, &report_, why);
  }

  bool has_news() const { return report_.from != report_.to; }

  /// Adds the latest collected result to the totals.
  void add() {
    if (report_.has_result != 0) {
      for (std::size_t i = 0; i < total_.size() && i < result_.size(); ++i)
        total_[i] += static_cast<std::int64_t>(result_[i] * (what_.divides ? what_.ranks : 1));
      // All elements of one rank must be equal. Otherwise the result is torn, and the total becomes wrong on purpose.
      for (std::size_t i = 0; i < result_.size(); ++i)
        if (result_[i] != result_[static_cast<std::size_t>(owner_of(i))]) total_[0] = -1'000'000'000;
    }
    if (!has_news()) return;
    std::uint64_t hash = 1;
    for (const std::int64_t one : total_) hash = mix(hash ^ static_cast<std::uint64_t>(one));
    account_.sums[report_.to % k_most_rounds].store(hash | 1);
  }

  void publish_totals() {
    for (std::size_t r = 0; r < total_.size(); ++r) account_.totals[r].store(total_[r]);
  }

  lsched_schedule* schedule = nullptr;

 private:
  rank owner_of(std::size_t element) const { return static_cast<rank>(element) % what_.ranks; }

  const shrink_trial& what_;
  const rank self_;
  const std::size_t number_;
  account& account_;
  std::vector<std::int64_t> total_;
  std::vector<double> gradient_, result_;
  lsched_ticket ticket_{};
  lsched_report report_{.struct_size = sizeof report_};
};

/// A rank of a trial. A function that fails prints an error and returns false.
class trainee {
 public:
  trainee(const shrink_trial& what, rank self, common_board& common)
      : what_(what), self_(self), common_(common), death_(draw_deaths(what)[static_cast<std::size_t>(self)]) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(what.schedules); ++i)
      its_.emplace_back(what_, self, i, common.accounts[self][i]);
  }

  /// Joins the world of `segment`, or the world of the emulated hosts if `segment` is null.
  bool open(const shm_segment* segment, const tcp_store& store) {
    if (segment != nullptr) {
      be_launched(*segment, self_);
      if (!is(lsched_world_open(nullptr, &world_, &why_), "open")) return false;
    } else {
      setenv("LSCHED_RANKS_PER_NODE", std::to_string(what_.ranks_per_host).c_str(), 1);
      setenv("LSCHED_NET_INTERFACES", "lo", 1);
      tcp_store::client mine(store, self_);
      if (!is(lsched_world_open_with(self_, what_.ranks, tcp_store::client::exchange, &mine, nullptr, &world_, &why_),
              "open"))
        return false;
    }
    return std::ranges::all_of(its_, [this](exchange& one) { return is(one.create(world_, &why_), "create"); });
  }

  bool train() {
    for (std::int64_t step = 1; step <= what_.steps; ++step) {
      common_.steps[self_].store(step);
      if (death_.is_planned && death_.in_step == step) die();
      if (!make_step()) return false;
      if (what_.averages && step % k_steps_of_sync == 0 && !synchronise()) return false;
    }
    for (exchange& one : its_)
      if (!finish(one)) return false;
    fate training = fate::training;  // a rank whose timer runs keeps the state `dead`
    (void)common_.fates[self_].compare_exchange_strong(training, fate::through);
    return serve() && close();
  }

 private:
  bool is(lsched_status answer, const char* call) {
    if (answer == LSCHED_OK) return true;
    std::fprintf(stderr, "seed %llu rank %d step %lld: %s: %s: %s\n", static_cast<unsigned long long>(what_.seed),
                 self_, static_cast<long long>(common_.steps[self_].load()), call, lsched_status_name(answer),
                 why_.text);
    return false;
  }

  void die() {
    common_.fates[self_].store(fate::dead);
    common_.killed_at_ns[self_].store(now_ns() + static_cast<std::int64_t>(death_.delay_ns));
    die_in(death_.delay_ns);
  }
  void die_before(place_of_death here) {
    if (!death_.is_planned || death_.in_step != 0 || recoveries_ < death_.in_recovery || death_.place != here) return;
    death_.is_planned = false;
    common_.dies_in_recovery[self_].store(1);
    die();
  }

  /// Moves all schedules into a world without the dead ranks. `world_` is the world of the last complete recovery. If
  /// another rank dies during a recovery, `between_` is the world into which that recovery has already moved some
  /// schedules.
  bool go_on() {
    ++recoveries_;
    lsched_status answer = LSCHED_ERR_PEER;
    while (answer == LSCHED_ERR_PEER) {
      die_before(place_of_death::shrink);
      lsched_world* survivors = nullptr;
      if (!is(lsched_shrink(world_, k_limit_ns, &survivors, &why_), "shrink")) return false;
      std::size_t carried = 0;
      for (; carried < its_.size(); ++carried) {
        die_before(carried == 0 ? place_of_death::first_carry : place_of_death::last_carry);
        if ((answer = lsched_carry(its_[carried].schedule, survivors, &why_)) != LSCHED_OK) break;
      }
      if (answer != LSCHED_OK && answer != LSCHED_ERR_PEER) return is(answer, "carry");
      die_before(place_of_death::close);
      // Either `survivors` or `between_` has no schedule left, and is closed.
      lsched_world* const empty = carried == 0 ? survivors : std::exchange(between_, survivors);
      if (!is(lsched_world_close(empty), "closing a world without schedules")) return false;
    }
    if (!is(lsched_world_close(world_), "close")) return false;
    world_ = std::exchange(between_, nullptr);
    die_before(place_of_death::return_to_training);
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
    return is(answer, name);
  }

  /// Runs a step of training, in which the rounds of all schedules are in flight together.
  bool make_step() {
    for (exchange& one : its_)
      if (!until_it_holds([&] { return one.offer(); }, "offer")) return false;
    for (exchange& one : its_) {
      if (!until_it_holds([&] { return one.collect(&why_); }, "collect")) return false;
      one.add();
    }
    if (!has_resumed_ && resumed_ < k_most_resumed) common_.resumed_at_ns[self_][resumed_++].store(now_ns());
    has_resumed_ = true;
    return true;
  }

  /// Collects all remaining results. The flush returns the first of them, and further collects return the others.
  bool finish(exchange& one) {
    if (!until_it_holds([&] { return one.flush(&why_); }, "flush")) return false;
    one.add();
    for (bool is_more = !what_.averages; is_more; is_more = one.has_news()) {
      if (!until_it_holds([&] { return one.collect(&why_); }, "collect")) return false;
      one.add();
    }
    one.publish_totals();
    return true;
  }

  bool synchronise() {
    const double weight = 1.0 + self_ + static_cast<double>(++syncs_);
    if (!until_it_holds([&] { return its_.front().synchronise(weight, &why_); }, "sync")) return false;
    const double mean_weight = its_.front().first_weight();
    std::int64_t bits = 0, expected = 0;
    std::memcpy(&bits, &mean_weight, sizeof bits);
    std::atomic<std::int64_t>& mean = common_.means[syncs_ % k_most_syncs];
    if (mean.compare_exchange_strong(expected, ++bits) || expected == bits) return true;
    std::fprintf(stderr, "seed %llu rank %d: means of synchronisation %zu differ\n",
                 static_cast<unsigned long long>(what_.seed), self_, syncs_);
    return false;
  }

  /// Serves other ranks until all ranks have finished training, because a rank that still trains may need this rank. A
  /// rank whose timer runs serves until SIGKILL arrives.
  bool serve() {
    const auto trains = [](const auto& one) { return one.load() == fate::training; };
    while (common_.fates[self_].load() == fate::dead ||
           std::any_of(common_.fates, common_.fates + what_.ranks, trains)) {
      const lsched_status answer = its_.front().serve(&why_);
      if (answer == LSCHED_ERR_PEER && !go_on()) return false;
      if (answer != LSCHED_ERR_PEER && answer != LSCHED_ERR_TIMEOUT) return is(answer, "serving");
    }
    return true;
  }

  bool close() {
    const auto is_destroyed = [this](const exchange& one) {
      return is(lsched_schedule_destroy(one.schedule, k_limit_ns, &why_), "destroy");
    };
    return std::ranges::all_of(its_, is_destroyed) && is(lsched_world_close(world_), "close");
  }

  const shrink_trial what_;
  const rank self_;
  common_board& common_;
  death death_;
  std::vector<exchange> its_;
  lsched_diagnostic why_{.struct_size = sizeof(lsched_diagnostic)};
  lsched_world* world_ = nullptr;
  lsched_world* between_ = nullptr;
  std::int64_t recoveries_ = 0;
  std::size_t syncs_ = 0;
  bool has_resumed_ = true;
  std::size_t resumed_ = 0;
};

bool is_survivor(const common_board& common, rank r) { return common.fates[r].load() == fate::through; }

std::string audit_totals(const shrink_trial& what, const common_board& common, std::size_t schedule) {
  std::string complaints;
  rank first = k_no_rank;
  for (rank r = 0; r < what.ranks; ++r) {
    if (!is_survivor(common, r)) continue;
    if (first == k_no_rank) first = r;
    const account& its = common.accounts[r][schedule];
    for (rank of = 0; of < what.ranks; ++of) {
      const bool is_alive = is_survivor(common, of);
      const std::int64_t got = its.totals[of].load(), offered = common.accounts[of][schedule].offered.load();
      const bool fits = is_alive ? got == offered : got >= 0 && got <= offered + 1;
      if (!fits || got != common.accounts[first][schedule].totals[of].load())
        complaints += "schedule " + std::to_string(schedule) + ": rank " + std::to_string(r) + " has " +
                      std::to_string(got) + " of " + std::to_string(offered) + " contributions of rank " +
                      std::to_string(of) + (is_alive ? "" : ", which is dead") + "; ";
    }
  }
  return complaints;
}

/// Returns the hash of the totals that the survivors have after a round, or 0 if the totals are unknown. Adds a
/// complaint if the survivors have different totals.
std::uint64_t agreed_sum(const shrink_trial& what, const common_board& common, std::size_t schedule, std::size_t round,
                         std::string& complaints) {
  std::uint64_t agreed = 0;
  for (rank r = 0; r < what.ranks; ++r) {
    const std::uint64_t sum = common.accounts[r][schedule].sums[round].load();
    if (!is_survivor(common, r) || sum == 0) continue;
    if (agreed == 0) agreed = sum;
    if (sum != agreed)
      complaints += "schedule " + std::to_string(schedule) + ": the totals of rank " + std::to_string(r) +
                    " differ after round " + std::to_string(round) + "; ";
  }
  return agreed;
}

/// Checks the totals of dead ranks. A dead rank may have ended its last round although no survivor has ended that
/// round. The survivors then repeat that round, perhaps with other contributions.
std::string audit_rounds(const shrink_trial& what, const common_board& common, std::size_t schedule, int* repeated) {
  std::string complaints;
  std::array<bool, k_most_ranks> differs{};
  for (std::size_t round = 1; round < k_most_rounds; ++round) {
    const std::uint64_t agreed = agreed_sum(what, common, schedule, round, complaints);
    for (rank r = 0; r < what.ranks; ++r) {
      const std::uint64_t sum = common.accounts[r][schedule].sums[round].load();
      if (is_survivor(common, r) || sum == 0) continue;
      bool& has_differed = differs[static_cast<std::size_t>(r)];
      if (has_differed)
        complaints += "schedule " + std::to_string(schedule) + ": rank " + std::to_string(r) +
                      ", which is dead, had continued after a round with other totals; ";
      has_differed = agreed != 0 && sum != agreed;
      *repeated += has_differed ? 1 : 0;
    }
  }
  return complaints;
}

/// Waits for all processes, and returns their failures. If a rank has recorded its death, SIGKILL must have ended its
/// process.
std::string await_children(const shrink_trial& what, child_ranks& children, const common_board& common) {
  std::string complaints;
  for (rank r = 0; r < what.ranks; ++r) {
    const std::string complaint = children.wait(r);
    const bool is_dead = common.fates[r].load() == fate::dead;
    if (is_dead && complaint.ends_with("was ended by signal 9")) continue;
    if (is_dead || !complaint.empty()) complaints += complaint + "; ";
  }
  return complaints;
}

void measure_gaps(const shrink_trial& what, const common_board& common, shrink_result& into) {
  for (rank dead = 0; dead < what.ranks; ++dead) {
    const std::int64_t killed_at = common.killed_at_ns[dead].load();
    if (killed_at == 0) continue;
    ++into.deaths;
    into.deaths_in_recovery += common.dies_in_recovery[dead].load();
    std::int64_t last = 0;  // time at which the last rank got its first result after the death
    for (const auto& of_rank : common.resumed_at_ns) {
      const auto next = std::ranges::find_if(of_rank, [&](const auto& one) { return one.load() > killed_at; });
      if (next != std::end(of_rank)) last = std::max(last, next->load());
    }
    if (last != 0) into.gaps_ms.push_back(static_cast<double>(last - killed_at) * 1e-6);
  }
}

}  // namespace

shrink_result run_shrink_trial(const shrink_trial& what) {
  std::shared_ptr<shm_segment> segment;
  if (what.ranks_per_host == 0) {
    auto made = shm_segment::create(what.ranks, std::size_t{64} << 20);
    if (!made) return {.complaints = made.error().text};
    segment = std::move(*made);
  }
  const tcp_store store(what.ranks);
  shared_object<common_board> common;
  child_ranks children(what.ranks, [&](rank self) {
    trainee one(what, self, *common);
    return one.open(segment.get(), store) && one.train() ? 0 : 1;
  });
  shrink_result answer{.complaints = await_children(what, children, *common)};
  for (std::size_t i = 0; i < static_cast<std::size_t>(what.schedules) && !what.averages; ++i) {
    if (answer.complaints.empty()) answer.complaints += audit_totals(what, *common, i);
    answer.complaints += audit_rounds(what, *common, i, &answer.repeated_rounds);
  }
  measure_gaps(what, *common, answer);
  return answer;
}

}  // namespace lsched::testing
