// Tests of training loops in which ranks die and new ranks join (lsched_grow_begin), on one host and on two.
// LSCHED_TEST_HOST_TRIALS sets the number of trials, which then begin with 8 ranks. LSCHED_TEST_HOST_SEED sets the seed
// of the first trial.
#include <gtest/gtest.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "libsched/schedule/draw.h"
#include "ops/hash.h"
#include "tests/support/child_ranks.h"
#include "tests/support/host_ranks.h"
#include "tests/support/network_hosts.h"
#include "tests/support/one_bucket.h"
#include "tests/support/shared_memory_names.h"
#include "tests/support/shared_object.h"
#include "tests/support/shrink_deaths.h"

namespace lsched::testing {
namespace {

constexpr std::size_t k_most = 12;  ///< maximum number of processes

struct grow_trial {
  std::uint64_t seed;
  const char* activation;
  rank members, joiners;
  int deaths;
  std::uint64_t count;  ///< elements of a contribution, at least twice the number of processes
  int schedules;
  std::uint64_t rounds;
  int hosts;
};

std::int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

/// The state that all processes of a trial share.
struct grow_board {
  enum class fate : int { training, through, failed };
  struct of_process {
    std::atomic<fate> end;
    std::atomic<bool> is_dying;  ///< a timer will kill the process
    std::atomic<bool> has_joined;
    std::atomic<const char*> call;
    std::atomic<std::int64_t> offered[2];
    std::atomic<std::int64_t> joined_after_ns;  ///< time from the call of lsched_world_join to the first round
    std::atomic<std::int64_t> longest_ns;       ///< longest wait of a collect
    std::atomic<std::uint64_t> digest;          ///< of the totals at the end
  };
  of_process its[k_most];
  std::atomic<std::uint64_t> round;  ///< the last round that any rank has collected
  /// After a flush of a larger world: round + 1, and the totals of all processes, for new ranks.
  struct state {
    std::atomic<std::uint64_t> round;
    std::atomic<std::int64_t> totals[2][2 * k_most];
  };
  state states[256];
  std::atomic<int> growths;  ///< counted by rank 0 of the larger world

  bool has_decided(std::size_t joiner) const {
    const of_process& its_own = its[joiner];
    return its_own.has_joined.load() || its_own.is_dying.load() || its_own.end.load() != fate::training;
  }
};

/// The step after which a rank dies.
enum class death : int { none, admitted, first_move, flush, in_growth, at_a_time, number };

class learner {
 public:
  learner(const grow_trial& what, rank self, grow_board& board, std::string file)
      : what_(what), self_(static_cast<std::size_t>(self)), board_(board), file_(std::move(file)) {
    totals_.resize(static_cast<std::size_t>(what.schedules), std::vector<std::int64_t>(2 * processes()));
    gradient_.resize(what.count), result_.resize(what.count);
    for (std::uint64_t which = 0; which < static_cast<std::uint64_t>(what.deaths); ++which)
      if (rank_of_death(which) == self_) draw_death();
  }

  bool is_dying() const { return board_.its[self_].is_dying.load(); }

  bool start(lsched_world* world) {
    world_ = world;
    has_state_ = true;
    for (std::size_t i = 0; i < totals_.size(); ++i) {
      const lsched_partial_desc desc = this->desc();
      if (!is(lsched_partial_create(world_, &desc, &its_[i], &why_), "create")) return false;
    }
    must_begin_ = true;
    return train();
  }

  /// Joins after round `after`.
  bool join(std::uint64_t after) {
    while (board_.round.load() < after) nap(200'000);
    began_ns_ = now_ns();
    note("join");
    const lsched_status answer = lsched_world_join(("@" + file_).c_str(), k_limit_ns, &config_, &world_, &why_);
    if (!is(answer, "join")) return false;
    die_after(death::admitted);
    must_begin_ = must_enter_ = true;
    return move(world_) && train();
  }

 private:
  static constexpr std::uint64_t k_between_flushes = 64;

  std::size_t processes() const { return static_cast<std::size_t>(what_.members + what_.joiners); }
  static void nap(long ns) {
    const timespec time{0, ns};
    nanosleep(&time, nullptr);
  }
  void note(const char* call) { board_.its[self_].call.store(call); }
  bool is(lsched_status answer, const char* call) {
    if (answer == LSCHED_OK) return true;
    if (!is_dying())
      std::fprintf(stderr, "seed %llu process %zu: %s: %s: %s\n", static_cast<unsigned long long>(what_.seed), self_,
                   call, lsched_status_name(answer), why_.text);
    return false;
  }

  // --- deaths ----------------------------------------------------------------------------------------------------

  std::size_t rank_of_death(std::uint64_t which) const {
    return static_cast<std::size_t>((mix(what_.seed + 5) + which * 3) % processes());
  }
  void draw_death() {
    const std::uint64_t draw = mix(what_.seed * 77 + self_);
    death_ = static_cast<death>(1 + draw % (static_cast<std::uint64_t>(death::number) - 1));
    delay_ns_ = death_ == death::at_a_time ? draw / 8 % 900'000'000 : draw / 8 % 3'000'000;
    if (death_ == death::at_a_time) die_soon();
  }
  void die_after(death step) {
    if (death_ == step && !is_dying()) die_soon();
  }
  /// Starts the timer, so that this process dies at any instruction of the next step.
  void die_soon() {
    board_.its[self_].is_dying.store(true);
    die_in(delay_ns_ + 1);
  }

  lsched_partial_desc desc() const {
    return {.struct_size = sizeof(lsched_partial_desc),
            .count = what_.count,
            .dtype = LSCHED_I64,
            .reduction = LSCHED_SUM,
            .activation = what_.activation,
            .seed = what_.seed,
            .lag = LSCHED_ACCUMULATE};
  }

  // --- changes of the world --------------------------------------------------------------------------------------

  /// Carries or joins all schedules. If a rank dies meanwhile, moves to the world of the survivors. Closes the other
  /// worlds at the end, because some schedules may still be in one of them.
  bool move(lsched_world* next) {
    std::vector<lsched_world*> old;
    if (world_ != next) old.push_back(world_);
    for (std::size_t i = 0; i < totals_.size();) {
      const lsched_partial_desc desc = this->desc();
      const bool is_new = its_[i] == nullptr;
      note(is_new ? "partial_join" : "carry");
      const lsched_status answer =
          is_new ? lsched_partial_join(next, &desc, &its_[i], &why_) : lsched_carry(its_[i], next, &why_);
      if (answer == LSCHED_OK) {
        if (++i == 1) die_after(death::first_move);
        continue;
      }
      if (answer != LSCHED_ERR_PEER) return is(answer, is_new ? "partial_join" : "carry");
      lsched_world* fewer = nullptr;
      note("shrink in carry");
      if (!is(lsched_shrink(next, k_limit_ns, &fewer, &why_), "shrink in carry")) return false;
      old.push_back(next);
      next = fewer;
      i = 0;
    }
    for (lsched_world* one : old)
      if (!is(lsched_world_close(one), "close")) return false;
    world_ = next;
    return true;
  }

  /// Returns whether `next` was opened by new ranks and the ranks of this world. Otherwise it consists of survivors.
  bool is_larger(lsched_world* next) const { return lsched_rank_in(next, lsched_rank(next), world_) < 0; }

  bool go_on_in(lsched_world* next) {
    if (is_larger(next)) {
      must_enter_ = true;
      ++growths_;
      if (lsched_rank(next) == 0) ++board_.growths;
      die_after(death::in_growth);
    }
    must_begin_ = true;
    return move(next);
  }

  /// Repeats a call that fails because a rank has died or the world has grown.
  template <class Call>
  bool until_it_holds(const Call& call, const char* name) {
    for (;;) {
      note(name);
      const lsched_status answer = call();
      if (answer != LSCHED_ERR_PEER) return is(answer, name);
      lsched_world* next = nullptr;
      note("shrink");
      if (!is(lsched_shrink(world_, k_limit_ns, &next, &why_), "shrink") || !go_on_in(next)) return false;
      if (!set_up()) return false;
    }
  }

  /// After a change of the world: brings new ranks up to date, and permits the next growth. All ranks repeat these
  /// steps if a rank dies meanwhile.
  bool set_up() {
    while (must_begin_ || must_enter_) {
      const lsched_status answer = try_to_set_up();
      if (answer == LSCHED_OK) continue;
      if (answer != LSCHED_ERR_PEER) return is(answer, "set-up");
      lsched_world* next = nullptr;
      note("shrink in set-up");
      if (!is(lsched_shrink(world_, k_limit_ns, &next, &why_), "shrink in set-up") || !go_on_in(next)) return false;
    }
    return true;
  }

  lsched_status try_to_set_up() {
    for (std::size_t i = 0; must_enter_ && i < totals_.size(); ++i)
      if (const lsched_status answer = flush(i); answer != LSCHED_OK) return answer;
    die_after(death::flush);
    if (must_enter_ && !exchange_state()) return LSCHED_ERR_INTERNAL;
    must_enter_ = false;
    note("grow_begin");
    if (const auto answer = lsched_grow_begin(world_, &config_, file_.c_str(), &why_); answer != LSCHED_OK)
      return answer;
    must_begin_ = false;
    return LSCHED_OK;
  }

  // --- training --------------------------------------------------------------------------------------------------

  bool may_end() const {
    if (last_ < what_.rounds) return false;
    for (std::size_t of = static_cast<std::size_t>(what_.members); of < processes(); ++of)
      if (!board_.has_decided(of)) return false;
    return true;
  }

  bool train() {
    const auto s = static_cast<std::size_t>(what_.schedules);
    if (!set_up()) return false;
    if (self_ >= static_cast<std::size_t>(what_.members)) board_.its[self_].has_joined.store(true);
    while (!may_end()) {
      nap(static_cast<long>(500'000 + mix(last_ + self_ * 1000) % 2'000'000));  // computes
      if (!grow() || !flush_if_due()) return false;
      // The flush of a larger world ends the step of every rank, so that all schedules have made the same rounds.
      const int growths = growths_;
      for (std::size_t i = 0; i < s && growths_ == growths; ++i)
        if (!offer(i)) return false;
      for (std::size_t i = 0; i < s && growths_ == growths; ++i)
        if (!collect(i)) return false;
    }
    if (!end_growth()) return false;
    for (std::size_t i = 0; i < s; ++i)
      if (!flush_all(i)) return false;
    fnv_hash hash;
    for (const auto& of : totals_) hash.add({reinterpret_cast<const char*>(of.data()), of.size() * sizeof of[0]});
    board_.its[self_].digest.store(hash.value());
    board_.its[self_].end.store(grow_board::fate::through);
    return serve() && audit() && close();
  }

  bool grow() {
    note("grow");
    lsched_world* grown = nullptr;
    if (!is(lsched_grow(world_, 0, &grown, &why_), "grow")) return false;
    return grown == nullptr || (go_on_in(grown) && set_up());
  }

  bool end_growth() {
    for (lsched_world* grown = nullptr;;) {
      note("grow_end");
      if (!is(lsched_grow_end(world_, k_limit_ns, &grown, &why_), "grow_end")) return false;
      if (grown == nullptr) return true;
      if (!go_on_in(grown) || !set_up()) return false;
    }
  }

  bool offer(std::size_t i) {
    const std::int64_t ordinal = board_.its[self_].offered[i].load() + 1;
    for (std::size_t e = self_; e < gradient_.size(); e += processes())
      gradient_[e] = e / processes() % 2 == 0 ? 1 : ordinal;
    bool has_offered = false;
    const auto once = [&, growths = growths_] {
      if (growths_ != growths) return LSCHED_OK;
      const lsched_status answer = lsched_offer(its_[i], one_bucket(gradient_.data()), &ticket_[i]);
      has_offered = answer == LSCHED_OK;
      return answer;
    };
    if (!until_it_holds(once, "offer")) return false;
    if (has_offered) board_.its[self_].offered[i].store(ordinal);
    return true;
  }

  bool collect(std::size_t i) {
    const std::int64_t begin = now_ns();
    if (!until_it_holds(
            [&] { return lsched_collect(ticket_[i], one_bucket(result_.data()), k_limit_ns, &report_, &why_); },
            "collect"))
      return false;
    auto& longest = board_.its[self_].longest_ns;
    longest.store(std::max(longest.load(), now_ns() - begin));
    add(i);
    return true;
  }

  /// With `full`, every rank collects every round, so all ranks flush after the same round.
  bool flush_if_due() {
    if (last_ < next_flush_ || what_.activation != std::string_view("full")) return true;
    next_flush_ = UINT64_MAX;  // a change of the world during this flush sets the next round
    const int growths = growths_;
    for (std::size_t i = 0; i < totals_.size(); ++i) {
      if (!flush_all(i)) return false;
      if (growths_ != growths) return true;  // all ranks have flushed in the larger world
    }
    next_flush_ = flushed_[0] + k_between_flushes;
    return true;
  }

  bool flush_all(std::size_t i) {
    return until_it_holds([&, growths = growths_] { return growths_ == growths ? flush(i) : LSCHED_OK; }, "flush");
  }

  /// Flushes a schedule, and collects all results.
  lsched_status flush(std::size_t i) {
    note("flush");
    lsched_status answer = lsched_flush(its_[i], one_bucket(result_.data()), k_limit_ns, &report_, &why_);
    if (answer != LSCHED_OK) return answer;
    add(i);
    flushed_[i] = report_.round;
    ticket_[i] = {its_[i], report_.round};
    note("collect after flush");
    do {
      answer = lsched_collect({its_[i], 0}, one_bucket(result_.data()), k_limit_ns, &report_, &why_);
      if (answer == LSCHED_OK) add(i);
    } while (answer == LSCHED_OK && report_.from != report_.to);
    return answer;
  }

  void add(std::size_t i) {
    if (report_.from == report_.to) return;
    if (began_ns_ != 0 && i == 0) {
      board_.its[self_].joined_after_ns.store(now_ns() - began_ns_);
      began_ns_ = 0;
    }
    if (i == 0) last_ = report_.to;
    for (std::uint64_t known = board_.round.load(); known < last_ && !board_.round.compare_exchange_weak(known, last_);)
      continue;
    for (std::size_t e = 0; e < 2 * processes() && report_.has_result != 0; ++e) totals_[i][e] += result_[e];
    for (std::size_t e = 2 * processes(); e < result_.size() && report_.has_result != 0; ++e)
      if (result_[e] != result_[e - 2 * processes()]) totals_[i][0] = -1'000'000'000;  // the result is torn
  }

  /// After a flush by all ranks. Old ranks publish their totals, and new ranks copy them.
  bool exchange_state() {
    note("state");
    next_flush_ = flushed_[0] + k_between_flushes;
    const std::uint64_t key = flushed_[0] + 1;
    grow_board::state& state = board_.states[key % 256];
    if (has_state_) {
      for (std::size_t i = 0; i < totals_.size(); ++i)
        for (std::size_t e = 0; e < totals_[i].size(); ++e) state.totals[i][e].store(totals_[i][e]);
      state.round.store(key);
      return true;
    }
    for (const std::int64_t until = now_ns() + 20'000'000'000; state.round.load() != key; nap(200'000))
      if (now_ns() > until) return is(LSCHED_ERR_TIMEOUT, "no state");
    for (std::size_t i = 0; i < totals_.size(); ++i)
      for (std::size_t e = 0; e < totals_[i].size(); ++e) totals_[i][e] = state.totals[i][e].load();
    return has_state_ = true;
  }

  bool is_over() const {
    return std::none_of(board_.its, board_.its + processes(), [](const auto& one) {
      return one.end.load() == grow_board::fate::training && !one.is_dying.load();
    });
  }

  /// Serves other ranks until they need this rank no more.
  bool serve() {
    while (!is_over()) {
      note("serve");
      const lsched_status answer = lsched_collect({its_[0], UINT64_MAX}, nullptr, 2'000'000, &report_, &why_);
      if (answer == LSCHED_ERR_TIMEOUT) continue;
      lsched_status next = answer;
      if (!until_it_holds([&] { return std::exchange(next, LSCHED_OK); }, "serve")) return false;
    }
    return true;
  }

  /// Compares the totals of this rank with the offers of all processes.
  bool audit() const {
    bool is_right = true;
    for (std::size_t i = 0; i < totals_.size(); ++i)
      for (std::size_t of = 0; of < processes(); ++of) {
        const std::int64_t offered = board_.its[of].offered[i].load(), got = totals_[i][of];
        const std::int64_t ordinals = totals_[i][of + processes()];
        const bool is_dead = board_.its[of].is_dying.load();
        // A dead rank may have died in its last offer.
        const bool fits = is_dead ? got >= 0 && got <= offered + 1 : got == offered && ordinals == got * (got + 1) / 2;
        if (fits) continue;
        is_right = false;
        std::fprintf(stderr, "seed %llu: process %zu has %lld (%lld) of %lld contributions of process %zu\n",
                     static_cast<unsigned long long>(what_.seed), self_, static_cast<long long>(got),
                     static_cast<long long>(ordinals), static_cast<long long>(offered), of);
      }
    return is_right;
  }

  bool close() {
    note("destroy");
    for (std::size_t i = 0; i < totals_.size(); ++i)
      if (!is(lsched_schedule_destroy(its_[i], k_limit_ns, &why_), "destroy")) return false;
    return is(lsched_world_close(world_), "close");
  }

  const grow_trial what_;
  const std::size_t self_;
  grow_board& board_;
  const std::string file_;
  lsched_config config_ = test_config();
  lsched_world* world_ = nullptr;
  std::array<lsched_schedule*, 2> its_{};
  std::array<lsched_ticket, 2> ticket_{};
  std::array<std::uint64_t, 2> flushed_{};
  std::vector<std::vector<std::int64_t>> totals_;
  std::vector<std::int64_t> gradient_, result_;
  lsched_report report_{.struct_size = sizeof(lsched_report)};
  diagnostic why_;
  std::uint64_t last_ = 0, next_flush_ = k_between_flushes, delay_ns_ = 0;
  std::int64_t began_ns_ = 0;
  death death_ = death::none;
  int growths_ = 0;
  bool has_state_ = false;
  bool must_begin_ = false;  ///< this rank must call lsched_grow_begin
  bool must_enter_ = false;  ///< the world has new ranks without state
};

struct grow_result {
  std::string complaints;
  int growths = 0, joined = 0, deaths = 0;
  std::vector<double> join_ms;
  double longest_ms = 0;
};

grow_result run_grow_trial(const grow_trial& what, const network_hosts* net) {
  const shared_object<grow_board> board;
  const std::string file = "/tmp/lsched_grow_" + std::to_string(getpid()) + "_" + std::to_string(what.seed);
  const host_layout before{what.members, what.hosts == 1 ? what.members : (what.members + 1) / 2};
  const tcp_store store(what.members);
  const auto train = [&](learner& one, rank self) {
    if (self >= what.members) {
      if (net != nullptr && !net->enter(static_cast<int>(self) % 2)) return false;
      if (net != nullptr) setenv("LSCHED_RANKS_PER_NODE", std::to_string(before.per_host).c_str(), 1);
      return one.join(mix(what.seed * 31 + static_cast<std::uint64_t>(self)) % (what.rounds / 2));
    }
    lsched_world* world = nullptr;
    if (net != nullptr) {
      world = open_on_host(*net, before, self, store);
    } else {
      tcp_store::client mine(store, self);
      diagnostic why;
      const lsched_config config = test_config();
      if (lsched_world_open_with(self, what.members, tcp_store::client::exchange, &mine, &config, &world, &why) !=
          LSCHED_OK)
        std::fprintf(stderr, "rank %d: %s\n", self, why.text);
    }
    return world != nullptr && one.start(world);
  };
  const auto live = [&](rank self) {
    learner one(what, self, *board, file);
    const bool is_through = train(one, self);
    if (!is_through) board->its[self].end.store(grow_board::fate::failed);
    while (one.is_dying()) pause();  // until the timer ends this process
    return is_through ? 0 : 1;
  };
  child_ranks children(what.members + what.joiners, live, std::chrono::seconds(60));
  grow_result found;
  std::optional<std::uint64_t> digest;
  for (rank r = 0; r < what.members + what.joiners; ++r) {
    const std::string complaint = children.wait(r);
    const auto& its = board->its[r];
    const bool is_dead = its.is_dying.load() && complaint.ends_with("was ended by signal 9");
    found.deaths += is_dead ? 1 : 0;
    if (!complaint.empty() && !is_dead) {
      const char* const call = its.call.load();
      found.complaints += complaint + " in " + (call == nullptr ? "open" : call) + "; ";
    }
    if (const std::int64_t time = its.joined_after_ns.load(); time != 0) {
      ++found.joined;
      found.join_ms.push_back(static_cast<double>(time) * 1e-6);
    }
    if (its.end.load() != grow_board::fate::through) continue;
    found.longest_ms = std::max(found.longest_ms, static_cast<double>(its.longest_ns.load()) * 1e-6);
    if (!digest) digest = its.digest.load();
    if (*digest != its.digest.load()) found.complaints += "rank " + std::to_string(r) + " has other totals; ";
  }
  found.growths = board->growths.load();
  unlink(file.c_str());
  return found;
}

void run_trials(int hosts) {
  if (hosts > 1 && !network_hosts(1).exist()) GTEST_SKIP() << "only root can make hosts";
  const shared_memory_names names;
  const bool is_long = requested_host_trials() != 0;
  const int number = is_long ? requested_host_trials() : 3;
  const char* const wish = std::getenv("LSCHED_TEST_HOST_SEED");
  const std::uint64_t first = wish != nullptr ? std::strtoull(wish, nullptr, 10) : 1;
  std::optional<network_hosts> net;
  if (hosts > 1) net.emplace(hosts);
  int passed = 0, joined = 0, deaths = 0, growths = 0;
  double longest_ms = 0;
  std::vector<double> times;
  for (std::uint64_t seed = first; seed < first + static_cast<std::uint64_t>(number); ++seed) {
    const std::uint64_t draw = mix(seed);
    const grow_trial what{.seed = seed,
                          .activation = std::array{"solo", "majority", "full", "quorum(3)+every(8)"}[seed % 4],
                          .members = is_long ? 8 : static_cast<rank>(3 + draw % 5),
                          .joiners = static_cast<rank>(1 + draw / 8 % 3),
                          .deaths = static_cast<int>(draw / 64 % 3),
                          .count = std::array<std::uint64_t, 3>{64, 4000, 50'000}[draw / 256 % 3],
                          .schedules = 1 + static_cast<int>(draw / 1024 % 2),
                          .rounds = 300,
                          .hosts = hosts};
    const grow_result found = run_grow_trial(what, net ? &*net : nullptr);
    EXPECT_EQ(found.complaints, "") << "seed " << seed << ", " << what.activation << ", " << what.members << "+"
                                    << what.joiners << " ranks, " << what.deaths << " deaths, " << what.count
                                    << " elements, " << what.schedules << " schedules";
    passed += found.complaints.empty() ? 1 : 0;
    joined += found.joined;
    deaths += found.deaths;
    growths += found.growths;
    longest_ms = std::max(longest_ms, found.longest_ms);
    times.insert(times.end(), found.join_ms.begin(), found.join_ms.end());
  }
  std::ranges::sort(times);
  std::printf(
      "growth on %d hosts: %d of %d trials passed, %d ranks joined in %d growths, %d died; time to join: median "
      "%.1f ms, maximum %.1f ms; longest wait of a round: %.1f ms\n",
      hosts, passed, number, joined, growths, deaths, times.empty() ? 0 : times[times.size() / 2],
      times.empty() ? 0 : times.back(), longest_ms);
  EXPECT_GT(joined, 0);
  EXPECT_EQ(names.left_behind(), "");
}

TEST(growth, new_ranks_join_a_training_loop_on_one_host) { run_trials(1); }
TEST(growth, new_ranks_join_a_training_loop_on_two_hosts) { run_trials(2); }

}  // namespace
}  // namespace lsched::testing
