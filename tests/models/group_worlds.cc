// Explores group_log.h: all ranks derive the rounds of replica groups from one log. The log is the library's. The model
// replaces the control schedule by its guarantees: each rank captures its increments of an entry at any time after any
// rank has called for the entry, an entry ends after all ranks have captured, and no rank is more than one entry ahead.
// A data round ends on a rank at any time after all ranks of the shard world have called for it. The model repeats the
// rules by which group_session.cc contributes to the log and calls for entries.
#include <array>
#include <cstring>

#include "tests/models/bug.h"
// The copy with planted bugs:
#include "libsched/session/group_log.cc"

#include "libsched/schedule/geometry.h"
#include "tests/models/explorer.h"
#include "tests/models/worlds.h"

namespace lsched {
namespace {

using models::circumstances;

constexpr std::size_t k_most_ranks = 6;
constexpr std::size_t k_most_counters = 3 * k_most_ranks;
constexpr std::size_t k_most_rounds = 12;
constexpr std::uint32_t k_entries = 4;  // an entry is in use until the slowest rank has applied it

using entry = std::array<std::uint8_t, k_most_counters>;

/// One rank. Entries and data rounds are counted from 1.
struct member {
  std::uint8_t staged = 0;                        ///< offers of the application
  std::uint8_t noted = 0;                         ///< staged offers that were contributed to the log
  std::uint8_t returned = 0;                      ///< offers whose round is final here
  std::uint8_t flushes = 0, noted_flushes = 0;    ///< flushes that the application has begun
  std::uint8_t called = 0, gated = 0, ended = 0;  ///< entries
  std::uint8_t applied = 0;                       ///< entries that the log of this rank contains
  std::uint8_t data_called = 0, data_ended = 0, noted_ends = 0, final = 0;  ///< data rounds
  entry pending{};                                                          ///< increments that no entry has captured
  std::array<std::uint8_t, 40> log{};                                       ///< state of this rank's log
};

/// The decision that the first rank has taken about a data round.
struct decision {
  std::uint8_t members = 0;
  bool is_known = false, is_flush = false;
  std::array<std::uint8_t, k_most_ranks> taken{};
  friend bool operator==(const decision&, const decision&) = default;
};

struct group_state {
  std::array<member, k_most_ranks> ranks{};
  std::array<entry, k_entries> entries{};
  std::array<decision, k_most_rounds> decided{};
};

struct setting {
  group_shape shape{};
  activation starts{};
  std::array<std::uint8_t, k_most_ranks> offers{};  ///< offers of each group
  std::uint8_t flushes = 0;                         ///< flushes after all offers: 0 or 1
  std::uint8_t staged = 1;                          ///< buffers for staged offers
  bool lags = false;                                ///< a rank may apply an entry some time after the entry has ended
};

constexpr activation with_other_seed(activation starts) {
  ++starts.seed;
  return starts;
}

class group_system final : public models::system {
 public:
  explicit group_system(const setting& how)
      : how_(how), log_(how.shape, how.starts), other_(how.shape, with_other_seed(how.starts)) {
    for (member& one : now_.ranks) keep_log(one);
  }

  void save(std::vector<std::byte>& state) const override {
    const auto* begin = reinterpret_cast<const std::byte*>(&now_);
    state.insert(state.end(), begin, begin + sizeof now_);
  }
  void restore(std::span<const std::byte> state) override {
    std::memcpy(&now_, state.data(), sizeof now_);
    fault_.clear();
  }

  enum kind : std::uint32_t { offer, flush, gate, end, apply, end_data };

  void moves(std::vector<move>& out) const override {
    for (std::size_t r = 0; r < size(); ++r) {
      const member& one = now_.ranks[r];
      const auto add = [&](kind what) { out.push_back(static_cast<move>(what | r << 8)); };
      if (one.staged < offers_of(r) && one.staged < one.returned + how_.staged) add(offer);
      if (one.staged == offers_of(r) && one.flushes < how_.flushes) add(flush);
      if (one.gated == one.ended && is_called(one.ended + 1)) add(gate);
      if (one.gated > one.ended && one.ended - one.applied < 2 && has_ended(one.gated)) add(end);
      if (one.ended > one.applied) add(apply);
      if (one.data_called > one.data_ended && may_end_data(r)) add(end_data);
    }
  }

  void make(move what) override {
    const std::size_t r = what >> 8;
    member& one = now_.ranks[r];
    switch (static_cast<kind>(what & 0xff)) {
      case offer:
        if (one.staged - now_.decided[one.final].taken[group_of(r)] >= how_.staged)
          fault_ = "the buffer of an offer is in use";
        ++one.staged;
        break;
      case flush: ++one.flushes; break;
      case gate: {
        if (one.gated >= k_entries && is_in_use(static_cast<std::uint32_t>(one.gated + 1 - k_entries)))
          fault_ = "an entry is reused";
        entry& into = entry_of(++one.gated);
        if (is_first_to_gate(r)) into = {};
        for (std::size_t i = 0; i < into.size(); ++i) into[i] += one.pending[i];
        one.pending = {};
        return;
      }
      case end:
        ++one.ended;
        if (how_.lags) return;
        break;
      case apply: break;
      case end_data: ++one.data_ended; break;
    }
    advance(r);
  }

  std::string describe(move what) const override {
    static constexpr const char* k_names[] = {"offers",        "begins to flush",     "captures for an entry",
                                              "ends an entry", "applies the entries", "ends its data round"};
    return "rank " + std::to_string(what >> 8) + " " + k_names[what & 0xff];
  }

  std::string fault(bool is_last) const override {
    if (!fault_.empty() || !is_last) return fault_;
    for (std::size_t r = 0; r < size(); ++r) {
      const member& one = now_.ranks[r];
      if (one.final != now_.ranks[0].final || one.applied != now_.ranks[0].applied) return "the ranks end differently";
      if (one.data_ended != one.data_called || one.final != one.data_called)
        return "a data round does not become final";
      if (one.staged < offers_of(r)) return "an offer is not taken, so a rank cannot go on";
      if (one.returned < one.staged) return "an offer is not taken";
      if (one.flushes < how_.flushes) return "a rank cannot flush";
    }
    return {};
  }

 private:
  std::size_t size() const { return static_cast<std::size_t>(how_.shape.ranks()); }
  std::size_t group_of(std::size_t r) const { return r / static_cast<std::size_t>(how_.shape.shards); }
  std::uint8_t offers_of(std::size_t r) const { return how_.offers[group_of(r)]; }
  std::span<const member> ranks() const { return std::span(now_.ranks).first(size()); }
  entry& entry_of(std::uint32_t number) { return now_.entries[number % k_entries]; }

  bool is_called(std::uint32_t number) const {
    return std::ranges::any_of(ranks(), [&](const member& it) { return it.called >= number; });
  }
  bool has_ended(std::uint32_t number) const {
    return std::ranges::all_of(ranks(), [&](const member& it) { return it.gated >= number; });
  }
  bool is_in_use(std::uint32_t number) const {
    return std::ranges::any_of(ranks(), [&](const member& it) { return it.applied < number; });
  }
  bool is_first_to_gate(std::size_t r) const {
    const std::uint8_t number = now_.ranks[r].gated;
    return std::ranges::count_if(ranks(), [&](const member& it) { return it.gated >= number; }) == 1;
  }
  bool may_end_data(std::size_t r) const {
    const auto shards = static_cast<std::size_t>(how_.shape.shards);
    for (std::size_t other = r % shards; other < size(); other += shards)
      if (now_.ranks[other].data_called < now_.ranks[r].data_called) return false;
    return true;
  }

  void keep_log(member& one) {
    const auto state = log_.state();
    for (std::size_t i = 0; i < state.size(); ++i) one.log[i] = static_cast<std::uint8_t>(state[i]);
  }
  void use_log(std::size_t r) {
    const member& one = now_.ranks[r];
    const bool is_other = models::planted == "group_drawn_by_each_shard"_bug && r % 2 != 0;
    if (is_other != uses_other_) std::swap(log_, other_);
    uses_other_ = is_other;
    std::vector<std::uint64_t> state(log_.state().size());
    for (std::size_t i = 0; i < state.size(); ++i) state[i] = one.log[i];
    log_.set_state(state);
  }

  // The rules of group_session::advance(), in the same order.
  void advance(std::size_t r) {
    member& one = now_.ranks[r];
    use_log(r);
    const std::uint8_t ended = one.ended;
    while (one.applied < ended) apply_one(r);
    keep_log(one);
    const auto self = static_cast<rank>(r);
    bool has_news = false;
    const auto contribute = [&](std::size_t at, std::uint8_t& noted, std::uint8_t now) {
      if (noted == now) return;
      one.pending[at] = static_cast<std::uint8_t>(one.pending[at] + now - noted);
      noted = now;
      has_news = true;
    };
    contribute(log_.offers_at(self), one.noted, one.staged);
    const bool is_early = models::planted == "group_ends_before_the_round"_bug;
    contribute(log_.ends_at(self), one.noted_ends, is_early ? one.data_called : one.data_ended);
    contribute(log_.flushes_at(self), one.noted_flushes, one.flushes);
    if (!has_news) return;
    const bool is_wrong = models::planted == "group_calls_for_a_captured_entry"_bug;
    one.called = std::max(one.called, static_cast<std::uint8_t>((is_wrong ? one.ended : one.gated) + 1));
  }

  void apply_one(std::size_t r) {
    member& one = now_.ranks[r];
    std::array<std::uint64_t, k_most_counters> wide{};
    const bool are_swapped =
        models::planted == "group_entries_out_of_order"_bug && one.ended - one.applied == 2 && r == 1;
    const bool are_combined = models::planted == "group_entries_combined"_bug && one.ended - one.applied == 2;
    const auto add = [&](std::uint32_t number) {
      for (std::size_t i = 0; i < wide.size(); ++i) wide[i] += entry_of(number)[i];
    };
    if (are_combined) {
      add(one.applied + 1u), add(one.applied + 2u);
      one.applied = static_cast<std::uint8_t>(one.applied + 2);
      return decide(r, wide);
    }
    if (are_swapped) {
      add(one.applied + 2u);
      decide(r, wide);
      wide = {};
      add(one.applied + 1u);
      one.applied = static_cast<std::uint8_t>(one.applied + 2);
      return decide(r, wide);
    }
    add(++one.applied);
    decide(r, wide);
  }

  void decide(std::size_t r, std::span<const std::uint64_t> wide) {
    member& one = now_.ranks[r];
    const auto group = static_cast<rank>(group_of(r));
    const bool begins = log_.apply(wide);
    const bool is_early = models::planted == "group_exposes_before_final"_bug && !begins;
    const round_no last = log_.begun() - (log_.is_final() || is_early ? 0 : 1);
    if (one.final < last) make_final(one, group, static_cast<std::uint8_t>(last));
    if (!begins) return;
    if (one.data_called != one.data_ended) fault_ = "a data round begins during another round";
    begin(r);
  }

  // Exposes the result of a data round.
  void make_final(member& one, rank group, std::uint8_t round) {
    one.final = round;
    for (const member& it : ranks())
      if (it.data_ended < round) fault_ = "a result is exposed before the round has ended on all ranks";
    one.returned = now_.decided[round].taken[static_cast<std::size_t>(group)];
  }

  void begin(std::size_t r) {
    member& one = now_.ranks[r];
    const auto round = static_cast<std::size_t>(log_.begun());
    if (round >= k_most_rounds) {
      fault_ = "too many rounds for the model";
      return;
    }
    one.data_called = static_cast<std::uint8_t>(round);
    decision mine{.members = static_cast<std::uint8_t>(log_.members()), .is_known = true, .is_flush = log_.is_flush()};
    for (rank g = 0; g < how_.shape.groups; ++g)
      mine.taken[static_cast<std::size_t>(g)] = static_cast<std::uint8_t>(log_.taken_of(g));
    if (models::planted == "group_cut_of_staged_offers"_bug) mine.taken[group_of(r)] = one.staged;
    if (mine.taken[group_of(r)] > one.staged) fault_ = "a round takes an offer that a shard lacks";
    decision& known = now_.decided[round];
    if (!known.is_known) known = mine;
    if (!(known == mine)) fault_ = "two ranks decide differently about a round";
    if (models::planted == "group_buffer_reused_before_final"_bug) one.returned = mine.taken[group_of(r)];
  }

  const setting how_;
  group_log log_, other_;  ///< `other_` draws other groups, for a planted bug
  bool uses_other_ = false;
  group_state now_;
  std::string fault_{};
};

// Walks randomly through the states of a world that is too large to be explored.
models::report walk(group_system& what, std::uint64_t walks) {
  models::report found;
  std::vector<std::byte> first;
  what.save(first);
  std::vector<models::system::move> open;
  for (std::uint64_t seed = 0; seed < walks && found.fault.empty(); ++seed) {
    what.restore(first);
    found.path.clear();
    for (std::uint64_t step = 0;; ++step) {
      open.clear();
      what.moves(open);
      if (found.fault = what.fault(open.empty()); !found.fault.empty() || open.empty()) break;
      const auto made = open[below(mix(mix(seed) ^ step), open.size())];
      found.path += what.describe(made) + "\n";
      what.make(made);
      ++found.moves;
    }
    ++found.ends;
  }
  if (found.fault.empty()) found.path.clear();
  return found;
}

template <const setting& How>
models::report explored(const circumstances& around) {
  group_system all(How);
  return explore(all, around.most);
}
template <const setting& How>
models::report walked(const circumstances&) {
  group_system all(How);
  return walk(all, 20'000);
}

constexpr activation k_one{.policy = activation_policy::solo};
constexpr activation k_majority{.policy = activation_policy::majority};
constexpr activation k_two{.policy = activation_policy::quorum, .number = 2};
constexpr activation k_all{.policy = activation_policy::full};
constexpr setting k_one_group{{1, 2}, k_one, {2}, 1, 1, true};
constexpr setting k_single_shards{{2, 1}, k_one, {1, 1}, 1, 1, true};
constexpr setting k_two_by_two{{2, 2}, k_one, {1, 0}, 0, 1, false};
constexpr setting k_two_by_two_lag{{2, 2}, k_one, {2, 2}, 1, 2, true};
constexpr setting k_three_by_two{{3, 2}, k_two, {3, 2, 1}, 1, 1, true};
constexpr setting k_drawn{{2, 2}, k_majority, {2, 2}, 1, 2, true};
constexpr setting k_two_by_three{{2, 3}, k_all, {2, 3}, 1, 2, true};

const models::known_world k_worlds[] = {
    models::known_world({"1 group of 2 shards", explored<k_one_group>}),
    models::known_world({"2 groups of 1 shard", explored<k_single_shards>}),
    models::known_world({"2 groups of 2 shards, one offer", explored<k_two_by_two>}),
    models::known_world({"2 groups of 2 shards", walked<k_two_by_two_lag>}),
    models::known_world({"2 drawn groups of 2 shards", walked<k_drawn>}),
    models::known_world({"3 groups of 2 shards", walked<k_three_by_two>}),
    models::known_world({"2 groups of 3 shards", walked<k_two_by_three>}),
};

}  // namespace
}  // namespace lsched
