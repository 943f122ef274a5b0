#include "tests/support/carry_trials.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "collectives/registry.h"
#include "libsched/commit/commit_queue.h"
#include "libsched/commit/meeting.h"
#include "libsched/schedule/draw.h"
#include "libsched/session/carrying.h"
#include "libsched/transport/shm/shm_endpoint.h"

namespace lsched::testing {
namespace {

using value = std::int64_t;

constexpr std::size_t k_schedules = 2;
constexpr int k_offers = 6;  ///< number of contributions that each rank makes to each schedule
constexpr std::uint64_t k_most_steps = 400'000;

/// The choices that all ranks of a trial must make in the same way.
struct common_choices {
  explicit common_choices(std::uint64_t from) : seed(from), size(std::array<rank, 6>{3, 5, 4, 6, 7, 8}[mix(from) % 6]) {
    starts.policy = std::array{activation_policy::full, activation_policy::solo, activation_policy::full,
                               activation_policy::majority, activation_policy::quorum}[mix(from + 1) % 5];
    if (starts.policy == activation_policy::quorum) starts.number = 1, starts.grace_us = 20;
    starts.seed = from;
    per_rank = mix(from + 2) % 3 == 0 ? 500 : 1;  // short messages are copied, and long messages are read in place
    constexpr std::array k_algorithms{"ring", "recursive_doubling", "rabenseifner"};
    fragments = std::array{1u, 1u, 2u, 3u}[mix(from + 4) % 4];
    how = find("partial_allreduce", k_algorithms[mix(from + 3) % k_algorithms.size()]);
    of_agreement = find("partial_allreduce", "recursive_doubling");
  }
  std::uint64_t seed;
  rank size;
  activation starts{};
  std::uint64_t per_rank;   ///< number of elements per rank
  std::uint32_t fragments;  ///< number of fragments of each schedule
  const algorithm* how;
  const algorithm* of_agreement;
};

struct small_world {
  membership_ptr members;
  std::unique_ptr<commit_queue> commits;
};

/// The contributions that a rank has received from one fragment of a schedule.
struct ledger {
  std::vector<value> totals;                     ///< sum of the weights of the received offers of each rank
  std::map<round_no, std::vector<value>> after;  ///< copy of `totals` after each round
  value offered = 0;                             ///< sum of the weights of this rank's offers
};

/// One schedule of one rank.
struct carried {
  std::unique_ptr<session> calls;
  std::vector<ledger> ledgers;  ///< one for each fragment
  round_no awaited = 0;
  bool has_offered = false;  ///< whether this rank has contributed in the current step of training
};

/// A rank that runs a training loop without blocking calls. act() makes the next call to the library, or polls the
/// pending call.
class stepped_rank {
 public:
  stepped_rank(const common_choices& common, const std::shared_ptr<shm_segment>& segment, rank self)
      : common_(common),
        self_(self),
        net_(std::move(*shm_endpoint::open(segment, self, {.reads_processes = false, .watches_processes = false}))),
        runs_(std::make_unique<engine>(*net_)),
        gradient_(count()),
        result_(count()) {
    for (std::size_t i = 0; i < gradient_.size(); ++i) gradient_[i] = owner_of(i) == self ? 1 : 0;
    for (carried& one : its_)
      one.ledgers.resize(common.fragments, {std::vector<value>(static_cast<std::size_t>(common.size)), {}, 0});
  }

  /// Starts the rank. The endpoints of all ranks must be open.
  void begin() {
    auto members = std::make_shared<const membership>(net_->place());
    world_.commits = std::make_unique<commit_queue>(*runs_, members, net_->open_home_board());
    world_.members = std::move(members);
    commit(world_);
  }

  void step() { (void)runs_->step(); }

  void act() {
    if (!fault_.empty()) return;
    switch (stage_) {
      case stage::creating: return await_create();
      case stage::training: return train();
      case stage::through: return serve();
      case stage::meeting: return await_meeting();
      case stage::closing_to_readers: return close_to_readers();
      case stage::handing_over: return await_hand_over();
      case stage::committing: return await_commit();
    }
  }

  /// Simulates the end of this rank's process. The rank stops reading the memory of other ranks.
  void bury() {
    for (carried& one : its_)
      for (const instance* it : instances_of(one)) net_->abandon(it->id);
    for (const instance* it : made_) net_->abandon(it->id);
  }

  bool is_created() const { return stage_ != stage::creating; }
  bool is_through() const { return stage_ == stage::through; }
  bool has_collected_since(std::uint64_t recoveries) const { return resumed_in_ >= recoveries; }
  std::uint64_t recoveries() const { return recoveries_; }
  const std::string& fault() const { return fault_; }
  const ledger& of_schedule(std::size_t i, std::size_t fragment) const { return its_[i].ledgers[fragment]; }
  std::uint64_t adopted() const { return adopted_; }
  /// Returns the number of rounds that have ended on this rank, summed over all schedules.
  std::uint64_t rounds() const {
    std::uint64_t rounds = 0;
    for (const carried& one : its_)
      for (const instance* it : instances_of(one)) rounds += counted(*it, it->finished.load());
    return rounds;
  }
  bool drops_adopted_results = false, forgets_predecessors = false;

  void close() {
    for (carried& one : its_) {
      if (one.calls == nullptr) continue;
      for (instance* it : one.calls->all().in_order()) runs_->cancel(*it);
    }
    meets_.reset();
    for (small_world* one : {&world_, &between_, &survivors_}) one->commits.reset();
    runs_->end_adopted();
  }

 private:
  enum class stage : std::uint8_t {
    creating,
    training,
    through,
    meeting,
    closing_to_readers,
    handing_over,
    committing
  };

  std::size_t count() const { return static_cast<std::size_t>(common_.size) * common_.per_rank; }
  rank owner_of(std::size_t element) const { return static_cast<rank>(element) % common_.size; }
  static std::vector<instance*> instances_of(const carried& one) {
    return one.calls == nullptr ? std::vector<instance*>{} : one.calls->all().in_order();
  }
  void complain(const std::string& what) { fault_ = "rank " + std::to_string(self_) + ": " + what; }

  // --- commits ---------------------------------------------------------------------------------------------------

  lag_rule draw_lag() const {
    const std::uint64_t draw = mix(common_.seed ^ static_cast<std::uint64_t>(self_ + 1) << 32);
    return draw % 2 == 0 ? lag_rule(lag_policy::accumulate)
                         : lag_rule(lag_policy::history, 1 + static_cast<std::uint32_t>(draw >> 8) % 4);
  }

  /// Commits the current schedule and its companion. The companion is a schedule by which ranks agree in a flush.
  void commit(small_world& in) {
    const world place = in.members->place();
    commit_request wanted{"carried " + std::to_string(current_),
                          common_.how->generate(place, {.count = count(), .type = dtype::i64, .what = kernel::sum},
                                                among(common_.starts, place.size))};
    wanted.options.lag = draw_lag();
    wanted.options.fragments = common_.fragments;
    auto agreement = common_.of_agreement->generate(place, {.count = 1, .type = dtype::u64, .what = kernel::max},
                                                    {.policy = activation_policy::full});
    if (!agreement) return complain("no schedule for the agreement: " + agreement.error().text);
    wanted.companions.push_back({"agreement", *agreement});
    if (move_ && !forgets_predecessors) move_->request(wanted);
    commit_ = std::make_shared<schedule_commit>(*runs_, in.members, in.commits->next_number(), wanted);
    made_.assign(commit_->made().begin(), commit_->made().end());
    in.commits->add(commit_);
  }

  /// Returns the outcome of a step: ok, peer or pending. Reports any other outcome as a fault.
  status outcome_of(const common_step& progress, const failure& why, const char* name) {
    if (!progress.has_ended()) return status::pending;
    if (progress.finished.load() != 0) return status::ok;
    if (progress.verdict.load() != status::peer) complain(std::string(name) + ": " + why.text);
    return progress.verdict.load();
  }

  void await_create() {
    const status now = outcome_of(commit_->progress(), commit_->why(), "create");
    if (now == status::peer) return complain("a rank has died before all have created");
    if (now != status::ok) return;
    its_[current_].calls = std::make_unique<session>(*runs_, session_instances::of(made_), divisor::none);
    made_.clear();
    if (++current_ < k_schedules) return commit(world_);
    stage_ = stage::training;
  }

  // --- training --------------------------------------------------------------------------------------------------

  void train() {
    carried& one = its_[current_ %= k_schedules];
    const auto bytes = reinterpret_cast<std::byte*>(result_.data());
    const target_part target{bytes, count()};
    collect_report report;
    call_progress now;
    if (step_ < k_offers) {
      if (!offer_to_all()) return;
      now = one.calls->collect(one.awaited, std::span(&target, 1), &report);
    } else if (!has_flushed_) {
      now = one.calls->flush(std::span(&target, 1), &report);
    } else {
      now = one.calls->collect(one.awaited, std::span(&target, 1), &report);
    }
    if (now.answer == status::peer) return shrink();
    if (now.answer == status::pending) return;
    if (now.answer != status::ok) return complain("collect: " + std::string(name_of(now.answer)));
    add(one, report);
    go_on_in_training(one, report);
  }

  /// Advances the training loop. Each step contributes to all schedules, and then collects one result from each
  /// schedule. After the last step the rank flushes each schedule, and collects all remaining results.
  void go_on_in_training(carried& one, const collect_report& report) {
    resumed_in_ = recoveries_;
    const bool is_last = current_ + 1 == k_schedules;
    if (step_ < k_offers) {
      one.has_offered = false;
      if (is_last) ++step_;
      ++current_;
    } else if (!has_flushed_) {
      has_flushed_ = true;
      one.awaited = report.round;
    } else if (report.what.from == report.what.to) {
      has_flushed_ = false;
      if (is_last) stage_ = stage::through;
      ++current_;
    }
  }

  bool offer_to_all() {
    if (current_ != 0) return true;
    for (carried& one : its_) {
      if (one.has_offered) continue;
      const source_part source{reinterpret_cast<const std::byte*>(gradient_.data()), count()};
      bool is_posted = false;
      const std::uint64_t draw =
          mix(common_.seed + 31 * static_cast<std::uint64_t>(self_ + 1) + one.ledgers.front().after.size());
      const std::uint64_t weight = draw % 3 == 0 ? 1 : 1 + (draw >> 8) % 50;
      std::optional<std::uint32_t> fragment;
      if (draw % 2 == 0) fragment = static_cast<std::uint32_t>((draw >> 16) % common_.fragments);
      const status answer = one.calls->offer({std::span(&source, 1), weight, fragment}, &one.awaited, &is_posted);
      if (answer == status::peer) return shrink(), false;
      if (answer != status::ok) return complain("offer: " + std::string(name_of(answer))), false;
      one.has_offered = true;
      one.ledgers[fragment ? *fragment : fragment_of(one.awaited)].offered += static_cast<value>(weight);
    }
    return true;
  }

  std::size_t fragment_of(round_no round) const { return (round - 1) % common_.fragments; }

  /// Adds a result to the totals. The elements of a rank are the sum of the weights of its offers.
  void add(carried& one, const collect_report& report) {
    ledger& its = one.ledgers[report.fragment];
    if (report.what.to != 0 && report.fragment != fragment_of(report.what.to)) complain("a result of another fragment");
    if (!report.what.null)
      for (std::size_t i = 0; i < result_.size(); ++i) {
        if (i < its.totals.size()) its.totals[i] += result_[i];
        if (result_[i] != result_[static_cast<std::size_t>(owner_of(i))]) complain("a result is a mixture");
      }
    value all = 0;
    if (!report.what.null)
      for (std::size_t r = 0; r < its.totals.size(); ++r) all += result_[r];
    const bool has_own = !report.what.null && report.what.from != report.what.to;
    const value own = has_own ? result_[static_cast<std::size_t>(self_)] : 0;
    if (all != static_cast<value>(report.what.offers) || own != static_cast<value>(report.what.mine))
      complain("a report counts other weights than the result contains");
    if (report.what.from != report.what.to) its.after[report.what.to] = its.totals;
  }

  /// Takes part in recoveries after this rank's own training has ended, until all ranks have ended their training.
  void serve() {
    for (const carried& one : its_)
      if (one.calls->rounds().verdict.load() == status::peer) return shrink();
  }

  // --- recovery: lsched_shrink and lsched_carry ----------------------------------------------------------------------

  void shrink() {
    if (stage_ == stage::training || stage_ == stage::through) after_recovery_ = stage_, resumes_at_ = current_;
    ++recoveries_;
    meet();
  }

  void meet() {
    auto fresh = net_->open_board(world_.members->homes().size());
    if (!fresh) return complain("shrink: " + fresh.error().text);
    meets_ = std::make_unique<meeting>(*runs_, world_.members, world_.commits->place_of_meeting(), std::move(*fresh));
    stage_ = stage::meeting;
  }

  void await_meeting() {
    if (!meets_->progress().has_ended()) return;
    if (meets_->made() == nullptr) return complain("shrink: " + meets_->why().text);
    survivors_ = {meets_->made(), std::make_unique<commit_queue>(*runs_, meets_->made(), meets_->take_board())};
    meets_.reset();
    for (const rank home : world_.members->homes())
      if (survivors_.members->rank_of(home) == k_no_rank) runs_->lose(*world_.members, world_.members->rank_of(home));
    current_ = 0;
    begin_to_carry();
  }

  void begin_to_carry() {
    move_.emplace(*runs_, *its_[current_].calls);
    if (const auto why = move_->begin(*survivors_.members)) return complain("carry: " + why->text);
    for (instance* one : move_->before()) runs_->cancel(*one);
    stage_ = stage::closing_to_readers;
  }

  void close_to_readers() {
    for (instance* one : move_->before()) {
      rank reader = k_no_rank;
      if (runs_->check_readers(*one, &reader) != status::ok) return;
    }
    rounds_before_ = rounds();
    hand_over_ = move_->hand_over(*runs_, survivors_.members, survivors_.commits->next_number(), std::nullopt);
    survivors_.commits->add(hand_over_);
    stage_ = stage::handing_over;
  }

  void await_hand_over() {
    const status now = outcome_of(hand_over_->progress(), hand_over_->why(), "hand-over");
    if (now == status::pending) return;
    const bool has_adopted = rounds() != rounds_before_;
    adopted_ += rounds() - rounds_before_;
    if (drops_adopted_results && has_adopted) {
      const instance& one = its_[current_].calls->rounds();
      (void)one.partial->fragment_of(counted(one, one.finished.load())).results->collect(nullptr);
    }
    if (now == status::peer) return end_attempt(current_);
    if (now != status::ok) return;
    commit(survivors_);
    stage_ = stage::committing;
  }

  void await_commit() {
    const status now = outcome_of(commit_->progress(), commit_->why(), "carry");
    if (now == status::pending) return;
    step();  // runs instances that are still posted
    if (now == status::peer) {
      for (instance* one : std::exchange(made_, {})) remove(*one);
      return end_attempt(current_);
    }
    if (now != status::ok) return;
    move_->end(*runs_, std::exchange(made_, {}));
    for (instance* one : move_->before()) remove(*one);
    if (++current_ < k_schedules) return begin_to_carry();
    end_recovery();
  }

  void remove(instance& one) {
    if (runs_->remove(one) != status::ok) complain("an instance cannot be removed");
  }

  void close(small_world& one) {
    if (one.commits == nullptr) return;
    if (one.commits->is_over())
      one.commits.reset();
    else
      runs_->adopt(std::move(one.commits));
    one.members.reset();
  }

  /// Restarts the recovery, because another rank has died. `carried` is the number of schedules that are already in the
  /// new world.
  void end_attempt(std::size_t carried) {
    if (carried != 0) std::swap(between_, survivors_);
    close(survivors_);
    meet();
  }

  void end_recovery() {
    close(between_);
    close(world_);
    world_ = std::exchange(survivors_, {});
    stage_ = after_recovery_;
    current_ = resumes_at_;
    if (stage_ == stage::through) resumed_in_ = recoveries_;
  }

  const common_choices& common_;
  const rank self_;
  std::unique_ptr<shm_endpoint> net_;
  std::unique_ptr<engine> runs_;
  small_world world_{}, between_{}, survivors_{};
  std::array<carried, k_schedules> its_{};
  std::vector<value> gradient_, result_;
  stage stage_ = stage::creating, after_recovery_ = stage::training;
  std::size_t current_ = 0, resumes_at_ = 0;  ///< index of the current schedule, and index of the schedule at which
                                              ///< training resumes
  int step_ = 0;
  bool has_flushed_ = false;  ///< whether the current schedule was flushed
  std::shared_ptr<schedule_commit> commit_{};
  std::vector<instance*> made_{};  ///< instances that `commit_` has created
  std::unique_ptr<meeting> meets_{};
  std::optional<carrying> move_{};  ///< state of the move of the current schedule into the new world
  std::shared_ptr<handover> hand_over_{};
  std::uint64_t recoveries_ = 0, resumed_in_ = 0, adopted_ = 0, rounds_before_ = 0;
  std::string fault_;
};

class stepped_trial {
 public:
  explicit stepped_trial(const carry_trial& what)
      : what_(what), common_(what.seed), segment_(*shm_segment::create(common_.size, std::size_t{16} << 20)) {
    for (rank r = 0; r < common_.size; ++r) {
      ranks_.push_back(std::make_unique<stepped_rank>(common_, segment_, r));
      ranks_.back()->drops_adopted_results = what.drops_adopted_results;
      ranks_.back()->forgets_predecessors = what.forgets_predecessors;
    }
    is_dead_.resize(ranks_.size());
    for (auto& one : ranks_) one->begin();
  }
  ~stepped_trial() {
    for (auto& one : ranks_) one->close();
  }

  carry_outcome run() {
    for (std::uint64_t n = 0; !is_over(); ++n) {
      if (n == k_most_steps) return fail("the ranks hang");
      if (first_death_ == 0 && std::ranges::all_of(ranks_, [](const auto& one) { return one->is_created(); }))
        first_death_ = n + 1 + draw(400 * ranks_.size());
      if (first_death_ != 0 && n >= first_death_) kill_at(n - first_death_);
      notice_deaths();
      move();
      if (const std::string fault = first_fault(); !fault.empty()) return fail(fault);
    }
    for (std::size_t i = 0; i < k_schedules; ++i)
      for (std::size_t f = 0; f < common_.fragments && outcome_.fault.empty(); ++f) audit(i, f);
    for (const auto& one : ranks_) outcome_.adopted += one->adopted();
    return outcome_;
  }

 private:
  std::uint64_t draw(std::uint64_t below) { return mix(mix(what_.seed + 7) ^ ++draws_) % below; }

  void move() {
    const std::size_t r = draw(ranks_.size());
    const bool acts = draw(2) == 0;
    if (!is_dead_[r]) acts ? ranks_[r]->act() : ranks_[r]->step();
  }

  void kill_at(std::uint64_t step) {
    if (step == 0) die();
    if (step == what_.second_death) die();
    if (outcome_.recovery == 0 && has_recovered()) outcome_.recovery = step;
  }

  /// Returns either a random live rank or the live rank that has ended the largest number of rounds. The latter rank
  /// may be the only rank that has ended its last round.
  std::size_t draw_victim() {
    std::size_t victim = draw(ranks_.size());
    while (is_dead_[victim]) victim = (victim + 1) % ranks_.size();
    if (draw(2) == 0) return victim;
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      if (!is_dead_[r] && ranks_[r]->rounds() > ranks_[victim]->rounds()) victim = r;
    return victim;
  }

  /// Stops a rank. The other ranks notice its death after a random number of steps.
  void die() {
    const std::size_t victim = draw_victim();
    is_dead_[victim] = true;
    unnoticed_.push_back({victim, draw(2) == 0 ? 0 : draw(60 * ranks_.size())});
    ++deaths_;
  }

  void notice_deaths() {
    for (auto& [victim, steps] : unnoticed_) {
      if (steps-- != 0) continue;
      segment_->record_lost(static_cast<rank>(victim));
      ranks_[victim]->bury();
    }
    std::erase_if(unnoticed_, [](const auto& one) { return one.second == UINT64_MAX; });
  }

  bool is_over() const {
    if (deaths_ == 0 || !unnoticed_.empty()) return false;
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      if (!is_dead_[r] && !ranks_[r]->is_through()) return false;
    return true;
  }

  bool has_recovered() const {
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      if (!is_dead_[r] && (ranks_[r]->recoveries() == 0 || !ranks_[r]->has_collected_since(1))) return false;
    return true;
  }

  std::string first_fault() const {
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      if (!is_dead_[r] && !ranks_[r]->fault().empty()) return ranks_[r]->fault();
    return {};
  }

  carry_outcome fail(const std::string& why) {
    outcome_.fault = why + " (" + std::to_string(common_.size) + " ranks, seed " + std::to_string(what_.seed) +
                     ", second death after " + std::to_string(what_.second_death) + " steps)";
    return outcome_;
  }

  void audit(std::size_t schedule, std::size_t fragment) {
    const auto its = [&](std::size_t r) -> const ledger& { return ranks_[r]->of_schedule(schedule, fragment); };
    const auto first = static_cast<std::size_t>(std::ranges::find(is_dead_, false) - is_dead_.begin());
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      for (const auto& [round, totals] : its(r).after) {
        const auto known = its(first).after.find(round);
        if (known == its(first).after.end() || known->second == totals) continue;
        if (!is_dead_[r] || round != its(r).after.rbegin()->first)
          return (void)fail("the totals of rank " + std::to_string(r) + " differ after round " + std::to_string(round));
        outcome_.is_repeated = true;
      }
      if (is_dead_[r]) continue;
      for (std::size_t of = 0; of < ranks_.size(); ++of) {
        const value got = its(r).totals[of], offered = its(of).offered;
        const bool fits = is_dead_[of] ? got >= 0 && got <= offered : got == offered;
        if (!fits || got != its(first).totals[of])
          return (void)fail("rank " + std::to_string(r) + " has " + std::to_string(got) + " of " +
                            std::to_string(offered) + " contributions of rank " + std::to_string(of));
      }
    }
  }

  const carry_trial what_;
  const common_choices common_;
  std::shared_ptr<shm_segment> segment_;
  std::vector<std::unique_ptr<stepped_rank>> ranks_;
  std::vector<bool> is_dead_;
  std::vector<std::pair<std::size_t, std::uint64_t>> unnoticed_;  ///< ranks whose death is not yet noticed, and number
                                                                  ///< of steps until the other ranks notice the death
  std::uint64_t draws_ = 0;
  std::uint64_t first_death_ = 0;  ///< step in which the first rank dies; 0 until all ranks have created their
                                   ///< schedules
  int deaths_ = 0;
  carry_outcome outcome_{};
};

}  // namespace

carry_outcome run_carry_trial(const carry_trial& what) { return stepped_trial(what).run(); }

}  // namespace lsched::testing
