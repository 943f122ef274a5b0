#include "tests/support/shrink_trials.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/c/lsched.h"
#include "libsched/schedule/draw.h"
#include "tests/support/child_ranks.h"
#include "tests/support/host_ranks.h"
#include "tests/support/launched_rank.h"
#include "tests/support/one_bucket.h"
#include "tests/support/shared_object.h"
#include "tests/support/shrink_audit.h"
#include "tests/support/shrink_board.h"
#include "tests/support/shrink_deaths.h"
#include "tests/support/tcp_store.h"

namespace lsched::testing {
namespace {

constexpr std::int64_t k_steps_of_sync = 7;
constexpr std::uint64_t k_short_ns = 2'000'000;

using fate = shrink_board::fate;
using account = shrink_board::account;

/// One partial schedule of a rank, and the contributions that the rank has received from the schedule.
class exchange {
 public:
  exchange(const shrink_trial& what, rank self, std::size_t number, account& its)
      : what_(what), self_(self), number_(number), account_(its), total_(static_cast<std::size_t>(what.ranks)) {
    gradient_.resize(what.count);
    result_.resize(what.count);
  }

  lsched_status create(lsched_world* world, lsched_diagnostic* why) {
    const std::uint64_t common = mix(what_.seed + number_),
                        draw = mix(common ^ static_cast<std::uint64_t>(self_) << 32);
    constexpr std::array k_algorithms{"auto", "ring", "recursive_doubling", "rabenseifner"};
    const bool is_accumulated = draw % 2 == 0;
    const lsched_partial_desc desc{.struct_size = sizeof desc,
                                   .count = what_.count,
                                   .dtype = what_.sums_integers ? LSCHED_I64 : LSCHED_F64,
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

  /// Offers the next contribution with its weight. In the elements of this rank, 1 and the ordinal of the contribution
  /// alternate.
  lsched_status offer() {
    const std::int64_t ordinal = account_.offered.load() + 1;
    for (auto i = static_cast<std::size_t>(self_); i < gradient_.size(); i += ranks())
      gradient_[i] = element_of(is_ordinal(i) ? ordinal : 1);
    const auto weight = static_cast<std::uint64_t>(weight_of(what_, self_, number_, ordinal));
    const lsched_status answer = lsched_offer_weighted(schedule, one_bucket(gradient_.data()), weight, &ticket_);
    if (answer == LSCHED_OK) account_.offered.fetch_add(1);
    return answer;
  }

  lsched_status collect(lsched_diagnostic* why) {
    if (!what_.has_views) return lsched_collect(ticket_, one_bucket(result_.data()), k_limit_ns, &report_, why);
    const lsched_status answer = lsched_collect(ticket_, nullptr, k_limit_ns, &report_, why);
    if (answer == LSCHED_OK && report_.result != nullptr)
      std::memcpy(result_.data(), report_.result, what_.count * sizeof(element));
    return answer;
  }

  lsched_status flush(lsched_diagnostic* why) {
    const lsched_status answer = lsched_flush(schedule, one_bucket(result_.data()), k_limit_ns, &report_, why);
    ticket_ = {schedule, report_.round};
    return answer;
  }

  lsched_status synchronise(double weight, lsched_diagnostic* why) {
    std::ranges::fill(result_, std::bit_cast<element>(weight));
    return lsched_model_sync(schedule, result_.data(), k_limit_ns, &report_, why);
  }
  std::int64_t bits_of_first_weight() const { return std::bit_cast<std::int64_t>(result_.front()); }

  /// Serves other ranks for a short time, by waiting for a round that never begins.
  lsched_status serve(lsched_diagnostic* why) {
    return lsched_collect({schedule, UINT64_MAX}, nullptr, k_short_ns, &report_, why);
  }

  bool has_news() const { return report_.from != report_.to; }

  /// Adds the latest collected result to the totals.
  void add() {
    if (report_.has_result != 0) {
      std::int64_t all = 0;
      for (std::size_t r = 0; r < ranks(); ++r) {
        all += value_of(result_[r]);
        total_[r].weights += value_of(result_[r]);
        total_[r].ordinals += value_of(result_[r + ranks()]);
      }
      const auto is_counted = [](std::int64_t contained, std::uint64_t reported) {
        return contained == static_cast<std::int64_t>(reported);
      };
      const std::int64_t own = value_of(result_[static_cast<std::size_t>(self_)]);
      if (!is_counted(all, report_.offers) || (has_news() && !is_counted(own, report_.mine))) spoil();
      // If elements of the same kind and the same rank differ, the result is torn.
      for (std::size_t i = 2 * ranks(); i < result_.size(); ++i)
        if (result_[i] != result_[i - 2 * ranks()]) spoil();
    }
    if (!has_news()) return;
    std::uint64_t hash = 1;
    for (const sums& one : total_)
      for (const std::int64_t sum : {one.weights, one.ordinals}) hash = mix(hash ^ static_cast<std::uint64_t>(sum));
    account_.sums[report_.to % shrink_board::k_most_rounds].store(hash | 1);
  }

  void publish_totals() {
    for (std::size_t r = 0; r < total_.size(); ++r) {
      account_.totals[r].weights.store(total_[r].weights);
      account_.totals[r].ordinals.store(total_[r].ordinals);
    }
  }

  lsched_schedule* schedule = nullptr;

 private:
  using element = std::uint64_t;  ///< bits of an integer or of a double
  struct sums {
    std::int64_t weights = 0, ordinals = 0;
  };

  std::size_t ranks() const { return static_cast<std::size_t>(what_.ranks); }
  /// Makes the totals wrong on purpose, because a result or its report is wrong.
  void spoil() { total_[0].weights = -1'000'000'000; }
  bool is_ordinal(std::size_t index) const { return index / ranks() % 2 != 0; }
  element element_of(std::int64_t value) const {
    return what_.sums_integers ? static_cast<element>(value) : std::bit_cast<element>(static_cast<double>(value));
  }
  /// Returns the value of an element of a result. A result may be divided by the number of ranks.
  std::int64_t value_of(element one) const {
    if (what_.sums_integers) return static_cast<std::int64_t>(one);
    return static_cast<std::int64_t>(std::bit_cast<double>(one) * (what_.divides ? what_.ranks : 1));
  }

  const shrink_trial& what_;
  const rank self_;
  const std::size_t number_;
  account& account_;
  std::vector<sums> total_;
  std::vector<element> gradient_, result_;
  lsched_ticket ticket_{};
  lsched_report report_{.struct_size = sizeof report_};
};

/// A rank of a trial. A function that fails prints an error and returns false.
class trainee {
 public:
  trainee(const shrink_trial& what, rank self, shrink_board& board)
      : what_(what), self_(self), board_(board), death_(draw_deaths(what)[static_cast<std::size_t>(self)]) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(what.schedules); ++i)
      its_.emplace_back(what_, self, i, board.accounts[self][i]);
  }

  /// Joins the world of `segment`. If `segment` is null, joins the world of the hosts: `net`, or emulated hosts.
  bool open(const shm_segment* segment, const network_hosts* net, const tcp_store& store) {
    if (segment != nullptr) {
      be_launched(*segment, self_);
      if (!is(lsched_world_open(nullptr, &world_, &why_), "open")) return false;
    } else if (net != nullptr) {
      world_ = open_on_host(*net, {what_.ranks, what_.ranks_per_host}, self_, store);
      if (world_ == nullptr) return false;
    } else {
      setenv("LSCHED_RANKS_PER_NODE", std::to_string(what_.ranks_per_host).c_str(), 1);
      setenv("LSCHED_NET_INTERFACES", "lo", 1);
      tcp_store::client mine(store, self_);
      if (!is(lsched_world_open_with(self_, what_.ranks, tcp_store::client::exchange, &mine, nullptr, &world_, &why_),
              "open"))
        return false;
    }
    note("create");
    return std::ranges::all_of(its_, [this](exchange& one) { return is(one.create(world_, &why_), "create"); });
  }

  /// Returns true if the rank has finished the training, or if only the other side of a network partition may continue.
  bool train() {
    const bool is_done = make_steps() && serve();
    while (fate_is(fate::dead)) pause();  // until the timer sends SIGKILL
    return (is_done || is_refused_) && close();
  }

 private:
  bool make_steps() {
    for (std::int64_t step = 1; step <= what_.steps; ++step) {
      board_.steps[self_].store(step);
      if (death_.is_planned && death_.in_step == step) die();
      if (!make_step()) return false;
      if (what_.averages && step % k_steps_of_sync == 0 && !synchronise()) return false;
    }
    for (exchange& one : its_)
      if (!finish(one)) return false;
    fate training = fate::training;  // a rank whose timer runs keeps the state `dead`
    (void)board_.fates[self_].compare_exchange_strong(training, fate::through);
    return true;
  }

  bool fate_is(fate one) const { return board_.fates[self_].load() == one; }
  /// Returns whether all ranks have finished the training, and all faults have ended.
  bool is_over() const {
    const auto trains = [](const auto& one) { return one.load() == fate::training; };
    return board_.later_faults.load() == 0 && std::none_of(board_.fates, board_.fates + what_.ranks, trains);
  }
  /// Returns whether lsched_shrink was right to refuse this rank. After the end of the training, ranks close their
  /// worlds. These ranks no longer count as living ranks of this side of a network partition.
  bool accept_refusal() {
    if (board_.may_be_cut_off[self_].load() && !fate_is(fate::dead)) board_.fates[self_].store(fate::cut_off);
    return fate_is(fate::cut_off) || fate_is(fate::dead) || is_over();
  }
  void note(const char* call) { board_.calls[self_].store(call); }

  bool is(lsched_status answer, const char* call) {
    if (answer == LSCHED_OK) return true;
    std::fprintf(stderr, "seed %llu rank %d step %lld: %s: %s: %s\n", static_cast<unsigned long long>(what_.seed),
                 self_, static_cast<long long>(board_.steps[self_].load()), call, lsched_status_name(answer),
                 why_.text);
    return false;
  }

  void die() {
    board_.fates[self_].store(fate::dead);
    board_.lost_at_ns[self_].store(shrink_board::now_ns() + static_cast<std::int64_t>(death_.delay_ns));
    die_in(death_.delay_ns);
  }
  void die_before(place_of_death here) {
    if (!death_.is_planned || death_.in_step != 0 || recoveries_ < death_.in_recovery || death_.place != here) return;
    death_.is_planned = false;
    board_.dies_in_recovery[self_].store(1);
    die();
  }

  /// Moves all schedules into a world without the dead ranks. `world_` is the world of the last complete recovery. If
  /// another rank dies during a recovery, `between_` is the world into which that recovery has already moved some
  /// schedules.
  bool go_on() {
    ++recoveries_;
    board_.recoveries[self_].store(recoveries_);
    lsched_status answer = LSCHED_ERR_PEER;
    while (answer == LSCHED_ERR_PEER) {
      die_before(place_of_death::shrink);
      lsched_world* survivors = nullptr;
      note("shrink");
      answer = lsched_shrink(world_, k_limit_ns, &survivors, &why_);
      is_refused_ = answer == LSCHED_ERR_PEER && accept_refusal();
      if (is_refused_ || !is(answer, "shrink")) return false;
      note("carry");
      std::size_t carried = 0;
      for (; carried < its_.size(); ++carried) {
        die_before(carried == 0 ? place_of_death::first_carry : place_of_death::last_carry);
        if ((answer = lsched_carry(its_[carried].schedule, survivors, &why_)) != LSCHED_OK) break;
      }
      if (answer != LSCHED_OK && answer != LSCHED_ERR_PEER) return is(answer, "carry");
      die_before(place_of_death::close);
      note("close");
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
    note(name);
    lsched_status answer = call();
    while (answer == LSCHED_ERR_PEER) {
      if (!go_on()) return false;
      note(name);
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
    if (!has_resumed_ && resumed_ < shrink_board::k_most_resumed)
      board_.resumed_at_ns[self_][resumed_++].store(shrink_board::now_ns());
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
    std::int64_t bits = its_.front().bits_of_first_weight(), expected = 0;
    std::atomic<std::int64_t>& mean = board_.means[syncs_ % shrink_board::k_most_syncs];
    if (mean.compare_exchange_strong(expected, ++bits) || expected == bits) return true;
    std::fprintf(stderr, "seed %llu rank %d: means of synchronisation %zu differ\n",
                 static_cast<unsigned long long>(what_.seed), self_, syncs_);
    return false;
  }

  /// Serves other ranks until all ranks have finished training and all faults have ended, because a rank that still
  /// trains may need this rank. A rank whose timer runs serves until SIGKILL arrives. A rank on a host without network
  /// serves until lsched_shrink refuses the rank.
  bool serve() {
    while (!fate_is(fate::through) || !is_over()) {
      note("serve");
      const lsched_status answer = its_.front().serve(&why_);
      if (answer == LSCHED_ERR_PEER && !go_on()) return false;
      if (answer != LSCHED_ERR_PEER && answer != LSCHED_ERR_TIMEOUT) return is(answer, "serving");
    }
    return true;
  }

  bool close() {
    note("destroy");
    const auto is_destroyed = [this](const exchange& one) {
      return is(lsched_schedule_destroy(one.schedule, k_limit_ns, &why_), "destroy");
    };
    if (!std::ranges::all_of(its_, is_destroyed)) return false;
    note("close");
    if (between_ != nullptr && !is(lsched_world_close(between_), "close")) return false;
    return is(lsched_world_close(world_), "close");
  }

  const shrink_trial what_;
  const rank self_;
  shrink_board& board_;
  planned_death death_;
  std::vector<exchange> its_;
  lsched_diagnostic why_{.struct_size = sizeof(lsched_diagnostic)};
  lsched_world* world_ = nullptr;
  lsched_world* between_ = nullptr;
  std::int64_t recoveries_ = 0;
  std::size_t syncs_ = 0;
  bool has_resumed_ = true;
  bool is_refused_ = false;  ///< whether this rank may not continue, because its side of a network partition is smaller
  std::size_t resumed_ = 0;
};

/// Waits for all processes, and returns their failures. If a rank is dead, SIGKILL must have ended its process. Each
/// failure names the last call of the rank.
std::string await_children(const shrink_trial& what, child_ranks& children, const shrink_board& board) {
  std::string complaints;
  for (rank r = 0; r < what.ranks; ++r) {
    const std::string complaint = children.wait(r);
    const bool is_dead = board.fates[r].load() == fate::dead;
    if (is_dead && complaint.ends_with("was ended by signal 9")) continue;
    if (!is_dead && complaint.empty()) continue;
    const char* const call = board.calls[r].load();
    complaints += (complaint.empty() ? "rank " + std::to_string(r) + " was not killed" : complaint) + " in step " +
                  std::to_string(board.steps[r].load()) + ", call " + (call == nullptr ? "open" : call) + "; ";
  }
  return complaints;
}

void measure_gaps(const shrink_trial& what, const shrink_board& board, shrink_result& into) {
  for (rank lost = 0; lost < what.ranks; ++lost) {
    const std::int64_t lost_at = board.lost_at_ns[lost].load();
    if (lost_at == 0) continue;
    ++into.deaths;
    into.deaths_in_recovery += board.dies_in_recovery[lost].load();
    std::int64_t last = 0;  // time at which the last rank got its first result after the loss
    for (const auto& of_rank : board.resumed_at_ns) {
      const auto next = std::ranges::find_if(of_rank, [&](const auto& one) { return one.load() > lost_at; });
      if (next != std::end(of_rank)) last = std::max(last, next->load());
    }
    if (last != 0) into.gaps_ms.push_back(static_cast<double>(last - lost_at) * 1e-6);
  }
}

}  // namespace

shrink_result run_shrink_trial(const shrink_trial& what) {
  std::shared_ptr<shm_segment> segment;
  std::optional<network_hosts> net;
  if (what.has_networks) net.emplace(what.hosts());
  if (net && !net->exist()) return {.complaints = "the hosts cannot be made"};
  if (what.ranks_per_host == 0) {
    auto made = shm_segment::create(what.ranks, std::size_t{64} << 20);
    if (!made) return {.complaints = made.error().text};
    segment = std::move(*made);
  }
  const tcp_store store(what.ranks);
  const shared_object<shrink_board> board;
  board->later_faults = static_cast<int>(what.host_faults.size());
  const auto live = [&](rank self) {
    trainee one(what, self, *board);
    return one.open(segment.get(), net ? &*net : nullptr, store) && one.train() ? 0 : 1;
  };
  child_ranks children(what.ranks, live, k_limit_of_trial);
  shrink_result answer;
  if (net) answer.complaints += make_host_faults(what, *net, children, *board);
  answer.complaints += await_children(what, children, *board);
  for (std::size_t i = 0; i < static_cast<std::size_t>(what.schedules) && !what.averages; ++i) {
    if (answer.complaints.empty()) answer.complaints += audit_totals(what, *board, i);
    answer.complaints += audit_rounds(what, *board, i, &answer.repeated_rounds);
  }
  measure_gaps(what, *board, answer);
  return answer;
}

}  // namespace lsched::testing
