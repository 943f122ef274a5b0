// Explores the activation broadcast exhaustively. The activation broadcast is the set of signals that start a partial
// round. The schedules come from the library's generators, and the firing rule is the library's round.h. A signal
// receive reads a variable, which may take any of the values in flight. The gate is the op by which a rank enters the
// round. The collective behind the gate is the most liberal synchronising collective. In this collective, a rank may
// leave a round at any time after all ranks have entered the round. In the model no rank leaves the last round, because
// no op would fire afterwards. With a grace, the end of the grace is an event that may happen at any time after the
// grace has begun.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "libsched/schedule/geometry.h"
#include "libsched/schedule/round.h"
#include "tests/models/expect.h"
#include "tests/models/explorer.h"
#include "tests/support/generators.h"
#include "tests/support/symbolic_world.h"

namespace models {
namespace {

using namespace lsched;  // NOLINT: the unchanged library
using lsched::rank;

constexpr std::size_t k_most_ranks = 8;
constexpr std::size_t k_most_ops = 16;  // maximum number of ops of an activation
constexpr std::size_t k_most_rounds = 3;

/// The changing state of a rank. The state omits data that can no longer have any effect. Such data are tokens of an
/// ended round, and signal values that satisfy no future round. If another rank has started the round, the
/// application's call has no effect either.
struct rank_state {
  std::uint8_t round = 1;
  std::uint8_t called = 0;  ///< latest round for which the application has called; may be one round ahead
  bool is_caller = false;
  bool is_grace_running = false;
  std::uint16_t completed = 0;  ///< completed ops, one bit for each op
  std::array<std::uint8_t, k_most_ops> tokens{};
};

/// The signal value that a receiving op sees, and the values in flight to the op (one bit for each round).
struct register_state {
  std::uint8_t value = 0;
  std::uint8_t flying = 0;
};

struct world_state {
  std::array<rank_state, k_most_ranks> ranks{};
  std::array<std::array<register_state, k_most_ops>, k_most_ranks> registers{};
  // With a grace only:
  std::array<std::uint8_t, k_most_rounds + 1> callers{};  ///< by round: the ranks that have called, one bit each
  std::uint8_t passed = 0;                                ///< rounds whose grace has passed, one bit each
};

/// Rules that a test can break, to check that the explorer finds the fault.
struct rules {
  bool keeps_early_signals = true;  ///< whether a receiver keeps a signal that arrives one round early
  bool is_synchronising = true;
};

class activation_system final : public models::system {
 public:
  activation_system(std::vector<schedule_ptr> programs, std::uint8_t rounds, std::size_t callers, rules how = {})
      : programs_(std::move(programs)),
        rounds_(rounds),
        callers_(callers),
        how_(how),
        starts_(programs_[0]->starts()),
        has_grace_(has_grace(starts_, static_cast<rank>(programs_.size()))) {
    for (std::size_t r = 0; r < size(); ++r) {
      ops_.push_back(0);
      const auto all = programs_[r]->ops();
      while (ops_[r] < all.size() && !is_payload(all[ops_[r]].kind) && all[ops_[r]].kind != op_kind::compute) ++ops_[r];
      EXPECT_LE(ops_[r], k_most_ops);
      calls_.push_back(receive_of(r, r));
      gates_.push_back(find(r, [](const op& it) { return it.kind == op_kind::capture; }));
    }
    for (std::size_t r = 0; r < size(); ++r)
      for (std::size_t id = 0; id < ops_[r]; ++id)
        if (const op& what = op_of(r, id); what.kind == op_kind::signal_send)
          targets_[r][id] = receive_of(r, static_cast<std::size_t>(what.peer));
    for (std::size_t r = 0; r < size(); ++r) begin_round(r);
  }

  void save(std::vector<std::byte>& state) const override {
    const auto* begin = reinterpret_cast<const std::byte*>(&now_);
    state.insert(state.end(), begin, begin + sizeof now_);
  }
  void restore(std::span<const std::byte> state) override { std::memcpy(&now_, state.data(), sizeof now_); }

  // A move has one byte each for the kind, rank, op and round.
  enum kind : std::uint32_t { call, arrive, leave, pass };
  static constexpr move make_move(kind what, std::size_t r, std::size_t op = 0, std::uint32_t round = 0) {
    return static_cast<move>(what | r << 8 | op << 16) | round << 24;
  }

  void moves(std::vector<move>& out) const override {
    forced_moves(out);
    for (std::size_t r = 0; r < size(); ++r)
      if (const rank_state& it = now_.ranks[r];
          it.called < rounds_ && it.called <= it.round && (it.is_caller || callers() < callers_))
        out.push_back(make_move(call, r));
    if (now_.ranks[k_coordinator].is_grace_running) out.push_back(make_move(pass, k_coordinator));
  }

  void make(move what) override {
    const std::size_t r = what >> 8 & 0xff;
    const std::size_t id = what >> 16 & 0xff;
    const auto round = static_cast<std::uint8_t>(what >> 24);
    rank_state& it = now_.ranks[r];
    switch (static_cast<kind>(what & 0xff)) {
      case call:
        ++it.called;
        it.is_caller = true;
        if (has_grace_) now_.callers[it.called] |= static_cast<std::uint8_t>(1u << r);
        return look(r, calls_[r]);
      case pass:
        it.is_grace_running = false;
        now_.passed |= static_cast<std::uint8_t>(1u << it.round);
        return complete(r, grace_op());
      case arrive: {
        register_state& target = now_.registers[r][id];
        target.value = round;
        target.flying &= static_cast<std::uint8_t>(~0u << (round + 1));
        return look(r, id);
      }
      case leave:
        ++it.round;
        it.completed = 0;
        it.is_grace_running = false;
        it.tokens = {};
        it.called = std::max(it.called, static_cast<std::uint8_t>(it.round - 1));
        for (register_state& target : now_.registers[r]) {
          if (target.value < it.round || !how_.keeps_early_signals) target.value = 0;
          target.flying &= static_cast<std::uint8_t>(~0u << it.round);
        }
        return begin_round(r);
    }
  }

  std::string describe(move what) const override {
    const std::string who = "rank " + std::to_string(what >> 8 & 0xff);
    switch (static_cast<kind>(what & 0xff)) {
      case call: return who + " calls";
      case arrive: return who + ", op " + std::to_string(what >> 16 & 0xff) + ": signal " + std::to_string(what >> 24);
      case leave: return who + " leaves its round";
      case pass: return "the grace passes";
    }
    return who;
  }

  std::string fault(bool) const override {
    const auto ranks = std::span(now_.ranks).first(size());
    const auto [first, last] = std::ranges::minmax(ranks, {}, &rank_state::round);
    if (last.round > first.round + 1) return "a rank is two rounds ahead";
    if (has_grace_) return grace_fault();
    forced_.clear();
    forced_moves(forced_);
    if (!forced_.empty()) return {};
    // In this state only calls are possible. Therefore all ranks must have entered every round for which a rank has
    // called.
    const std::uint8_t called = std::ranges::max(ranks, {}, &rank_state::called).called;
    if (called > 0 && !all_have_entered(called))
      return "round " + std::to_string(called) + " was called, but a rank sleeps";
    return rounds_ == 1 && called == 1 ? signal_fault() : std::string();
  }

 private:
  /// With a grace, a round starts if and only if all ranks have called, or K ranks have called and the grace has
  /// passed.
  std::string grace_fault() const {
    forced_.clear();
    forced_moves(forced_);
    for (std::uint8_t round = 1; round <= rounds_; ++round) {
      const auto number = static_cast<std::size_t>(std::popcount(now_.callers[round]));
      const bool has_passed = (now_.passed >> round & 1) != 0;
      const bool starts = number == size() || (number >= starts_.number && has_passed);
      for (std::size_t r = 0; r < size() && !starts; ++r)
        if (has_entered(r, round)) return "round " + std::to_string(round) + " starts too early";
      if (starts && forced_.empty() && !all_have_entered(round))
        return "round " + std::to_string(round) + " must start, but a rank sleeps";
    }
    const rank_state& counter = now_.ranks[k_coordinator];
    const auto number = static_cast<std::size_t>(std::popcount(now_.callers[counter.round]));
    if (forced_.empty() && number >= starts_.number && !counter.is_grace_running && !has_entered(0, counter.round))
      return "the grace does not begin";
    return {};
  }

  std::size_t size() const { return programs_.size(); }
  const op& op_of(std::size_t r, std::size_t id) const { return programs_[r]->ops()[id]; }

  void forced_moves(std::vector<move>& out) const {
    for (std::size_t r = 0; r < size(); ++r) {
      for (std::size_t id = 0; id < ops_[r]; ++id)
        for (std::uint32_t round = 1; round <= rounds_; ++round)
          if ((now_.registers[r][id].flying >> round & 1) != 0) out.push_back(make_move(arrive, r, id, round));
      const std::uint8_t round = now_.ranks[r].round;
      if (round < rounds_ && has_entered(r, round) && (!how_.is_synchronising || all_have_entered(round)))
        out.push_back(make_move(leave, r));
    }
  }

  std::size_t find(std::size_t r, auto&& is_it) const {
    for (std::size_t id = 0; id < ops_[r]; ++id)
      if (is_it(op_of(r, id))) return id;
    ADD_FAILURE() << "rank " << r << " lacks an op";
    return 0;
  }
  std::size_t receive_of(std::size_t from, std::size_t at) const {
    return find(at,
                [from](const op& it) { return it.kind == op_kind::signal_recv && it.peer == static_cast<rank>(from); });
  }
  op_id grace_op() const {
    return static_cast<op_id>(find(k_coordinator, [](const op& it) {
      return it.kind == op_kind::signal_recv && it.peer == k_coordinator && it.tag == k_grace_tag;
    }));
  }
  std::size_t callers() const {
    return static_cast<std::size_t>(std::ranges::count_if(now_.ranks, [](auto& it) { return it.is_caller; }));
  }
  bool has_entered(std::size_t r, std::uint8_t round) const {
    const rank_state& it = now_.ranks[r];
    return it.round > round || (it.round == round && (it.completed >> gates_[r] & 1) != 0);
  }
  bool all_have_entered(std::uint8_t round) const {
    for (std::size_t r = 0; r < size(); ++r)
      if (!has_entered(r, round)) return false;
    return true;
  }

  void begin_round(std::size_t r) {
    for (std::size_t id = 0; id < ops_[r]; ++id)
      if (op_of(r, id).kind == op_kind::signal_recv && !is_engine_call(r, id)) look(r, id);
  }
  bool is_engine_call(std::size_t r, std::size_t id) const {  // no rank leaves the world, so only the grace matters
    return is_call(op_of(r, id), static_cast<rank>(r)) && lsched::is_engine_call(op_of(r, id));
  }

  /// Completes a signal receive if the signal value satisfies the round.
  void look(std::size_t r, std::size_t id) {
    const rank_state& it = now_.ranks[r];
    const std::uint8_t value = op_of(r, id).peer == static_cast<rank>(r) ? it.called : now_.registers[r][id].value;
    if ((it.completed >> id & 1) == 0 && satisfies(value, it.round)) complete(r, static_cast<op_id>(id));
  }

  void complete(std::size_t r, op_id id) {
    rank_state& it = now_.ranks[r];
    it.completed = static_cast<std::uint16_t>(it.completed | 1u << id);
    for (const op_id after : programs_[r]->successors(id)) {
      if (after >= ops_[r]) continue;
      token_count count{it.round, it.tokens[after]};
      const bool fires = fires_at(count.add(it.round), op_of(r, after).need);
      it.tokens[after] = static_cast<std::uint8_t>(count.tokens);
      if (fires) fire(r, after);
    }
  }

  void fire(std::size_t r, op_id id) {
    const op& what = op_of(r, id);
    if (what.kind == op_kind::signal_send) {
      const auto peer = static_cast<std::size_t>(what.peer);
      if (now_.ranks[peer].round <= now_.ranks[r].round)
        now_.registers[peer][targets_[r][id]].flying |= static_cast<std::uint8_t>(1u << now_.ranks[r].round);
    }
    if (what.kind == op_kind::signal_recv) {
      now_.ranks[r].is_grace_running = true;
      return;
    }
    complete(r, id);
  }

  /// Checks the number of signals after a single round, in which no rank can run ahead. A round with a single caller
  /// needs exactly P-1 signals.
  std::string signal_fault() const {
    std::size_t signals = 0;
    for (std::size_t r = 0; r < size(); ++r)
      for (std::size_t id = 0; id < ops_[r]; ++id) signals += now_.registers[r][id].value != 0 ? 1u : 0u;
    const fold folded(static_cast<rank>(size()));
    const auto most = static_cast<std::size_t>(folded.core() * folded.levels() + 2 * folded.rem());
    if (signals < size() - 1 || signals > (callers() == 1 ? size() - 1 : most))
      return std::to_string(callers()) + " callers cost " + std::to_string(signals) + " signals";
    return {};
  }

  std::vector<schedule_ptr> programs_;
  const std::uint8_t rounds_;
  const std::size_t callers_;
  const rules how_;
  const activation starts_;
  const bool has_grace_;
  std::vector<std::size_t> ops_;            ///< number of ops of each rank's activation
  std::vector<std::size_t> calls_, gates_;  ///< index of each rank's call op and gate op
  /// For each rank and signal send: index of the receive at the peer.
  std::array<std::array<std::size_t, k_most_ops>, k_most_ranks> targets_{};
  world_state now_;
  mutable std::vector<move> forced_;  ///< temporary list of forced moves
};

std::vector<schedule_ptr> programs(rank size, const activation& starts = {.policy = activation_policy::solo}) {
  std::vector<schedule_ptr> all;
  for (rank r = 0; r < size; ++r)
    all.push_back(*partial_allreduce({r, size}, {.count = 1, .what = kernel::sum}, starts));
  return all;
}

activation with_grace(std::uint32_t number) {
  return {.policy = activation_policy::quorum, .number = number, .grace_us = 1};
}

void expect_right(rank size, std::uint8_t rounds, std::size_t callers,
                  const activation& starts = {.policy = activation_policy::solo}) {
  activation_system all(programs(size, starts), rounds, callers);
  const report found = explore(all, {.states = 50'000'000, .time = std::chrono::seconds(600)});
  EXPECT_EQ(found.fault, "") << to_text(found);
  ::testing::Test::RecordProperty("P=" + std::to_string(size) + ", rounds " + std::to_string(rounds), to_text(found));
}

TEST(activation_model, every_set_of_callers_wakes_everybody_in_one_round) {
  for (const rank size : {1, 2, 3, 4, 5, 6, 7}) expect_right(size, 1, static_cast<std::size_t>(size));
}

TEST(activation_model, rounds_follow_each_other) {
  for (const rank size : {1, 2, 3, 4}) expect_right(size, 3, static_cast<std::size_t>(size));
}

TEST(activation_model, a_grace_begins_with_the_last_call_of_the_quorum) {
  for (const auto& [size, number] : {std::pair(3, 1u), {3, 2u}, {2, 1u}, {4, 3u}})
    expect_right(size, size == 4 ? 1 : 2, static_cast<std::size_t>(size), with_grace(number));
}

TEST(activation_model, two_callers_of_eight) { expect_right(8, 1, 2); }

TEST(activation_model_soak, four_callers_of_eight) { expect_right(8, 1, 4); }

// --- planted bugs ----------------------------------------------------------------------------------------------------

std::string fault_of(std::vector<schedule_ptr> all, std::uint8_t rounds, rules how = {}) {
  activation_system wrong(std::move(all), rounds, 2, how);
  return explore(wrong).fault;
}

TEST(activation_model_bug, a_dropped_early_signal_leaves_a_sleeper) {
  EXPECT_NE(fault_of(programs(3), 3, {.keeps_early_signals = false}).find("a rank sleeps"), std::string::npos);
}

TEST(activation_model_bug, a_collective_that_does_not_synchronise_lets_ranks_run_ahead) {
  EXPECT_EQ(fault_of(programs(2), 3, {.is_synchronising = false}), "a rank is two rounds ahead");
}

TEST(activation_model_bug, every_lost_dep_of_a_grace_is_caught) {
  std::size_t planted = 0;
  for (const auto& [size, number] : {std::pair(3, 1u), {3, 2u}, {2, 1u}}) {
    const auto good = programs(size, with_grace(number));
    const auto is_caught = [](std::vector<schedule_ptr> all) {
      activation_system wrong(std::move(all), 1, k_most_ranks);
      return explore(wrong).fault;
    };
    ASSERT_EQ(is_caught(good), "");
    const schedule& counter = *good[k_coordinator];
    for (op_id id = 0; counter.ops()[id].kind != op_kind::capture; ++id)
      for (const op_id after : counter.successors(id)) {
        const op& before = counter.ops()[id];
        const bool is_departure = is_call(before, k_coordinator) && before.tag >= k_left_tag;
        auto bad = good;
        bad[k_coordinator] = lsched::testing::without_dep(counter, id, after);
        if (is_departure || bad[k_coordinator] == nullptr) continue;
        ++planted;
        EXPECT_NE(is_caught(bad), "") << "P=" << size << " K=" << number << ": " << id << " -> " << after;
      }
  }
  EXPECT_GT(planted, 20u);
}

TEST(activation_model_bug, every_lost_dep_and_every_lost_signal_is_caught) {
  std::size_t planted = 0;
  for (const rank size : {2, 3, 4, 5}) {
    const auto good = programs(size);
    ASSERT_EQ(fault_of(good, 1), "");
    for (std::size_t r = 0; r < good.size(); ++r)
      for (op_id id = 0; id < good[r]->ops().size(); ++id) {
        auto bad = good;
        if (good[r]->ops()[id].kind == op_kind::signal_send) {
          bad[r] = lsched::testing::with_op(*good[r], id, [](op& it) { it.need = 99; });
          ++planted;
          EXPECT_NE(fault_of(bad, 1), "") << "P=" << size << ", rank " << r << ": signal " << id;
        }
        if (good[r]->ops()[id].kind != op_kind::signal_recv) continue;
        for (const op_id after : good[r]->successors(id)) {
          bad[r] = lsched::testing::without_dep(*good[r], id, after);
          ++planted;
          EXPECT_NE(fault_of(bad, 1), "") << "P=" << size << ", rank " << r << ": " << id << " -> " << after;
        }
      }
  }
  EXPECT_GT(planted, 50u);
}

// --- replica groups --------------------------------------------------------------------------------------------------

// The worlds of group_worlds.cc: the log of replica groups. All shards of a group are in a data round or none, all
// ranks take the same decisions, no result is exposed before the round has ended on all ranks, and no offer stays
// behind.
TEST(group_model, all_shards_of_a_group_are_in_a_round_or_none) {
  for (const char* scenario : {"1 group of 2 shards", "2 groups of 1 shard", "2 groups of 2 shards, one offer"})
    models::expect_right(scenario);
}

TEST(group_model, random_walks_through_larger_worlds) {
  for (const char* scenario :
       {"2 groups of 2 shards", "2 drawn groups of 2 shards", "3 groups of 2 shards", "2 groups of 3 shards"})
    models::expect_right(scenario);
}

TEST(group_model_bug, every_changed_line_is_caught) {
  struct {
    const char *bug, *scenario, *fault;
  } const all[] = {
      {"group_of_any_shard", "2 groups of 2 shards", "a round takes an offer that a shard lacks"},
      {"group_round_before_the_last_is_final", "2 groups of 2 shards", "a data round begins during another round"},
      {"group_drawn_by_each_shard", "2 drawn groups of 2 shards", "two ranks decide differently about a round"},
      {"group_cut_of_staged_offers", "2 groups of 2 shards", "two ranks decide differently about a round"},
      {"group_calls_for_a_captured_entry", "2 groups of 2 shards", "a data round does not become final"},
      {"group_entries_combined", "2 groups of 2 shards", "two ranks decide differently about a round"},
      {"group_entries_out_of_order", "2 groups of 2 shards", "two ranks decide differently about a round"},
      {"group_ends_before_the_round", "2 groups of 2 shards",
       "a result is exposed before the round has ended on all ranks"},
      {"group_exposes_before_final", "2 groups of 2 shards",
       "a result is exposed before the round has ended on all ranks"},
      {"group_buffer_reused_before_final", "1 group of 2 shards", "the buffer of an offer is in use"}};
  for (const auto& [bug, scenario, fault] : all) EXPECT_EQ(run(scenario, {.bug = bug}).fault, fault) << bug;
}

}  // namespace
}  // namespace models
