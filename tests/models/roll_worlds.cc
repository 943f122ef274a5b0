// Worlds in which the members of a board agree on the survivors by messages (a roll call). The code is the library's
// agreement.cc and roll_call.cc. A member can die between any two messages, so its last messages may reach only some
// members. The other members notice the death at any time afterwards.
//
// A network partition can separate the members into two sides, and can heal. Messages between the sides arrive only
// after the network partition has healed. Before that, a member may notice at any time that the other side is silent.
// The member then ignores the other side. The member informs its own side at once, and the other side when the network
// partition has healed.
#include "tests/models/bug.h"

#include "libsched/transport/agreement.cc"
#include "libsched/transport/roll_call.cc"

#include <array>
#include <cstring>
#include <deque>
#include <string>
#include <type_traits>

#include "tests/models/worlds.h"

namespace lsched {
namespace {

/// Writes objects to bytes, or reads them from bytes.
class archive {
 public:
  explicit archive(std::vector<std::byte>& to) : to_(&to) {}
  explicit archive(std::span<const std::byte> from) : from_(from) {}

  template <class T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void operator()(T& one) {
    const auto bytes = std::as_writable_bytes(std::span(&one, 1));
    if (to_ != nullptr) return (void)to_->insert(to_->end(), bytes.begin(), bytes.end());
    std::ranges::copy(from_.first(bytes.size()), bytes.begin());
    from_ = from_.subspan(bytes.size());
  }
  void operator()(refusal& one) { (*this)(one.why), (*this)(one.missing); }
  template <class T>
  void operator()(std::optional<T>& one) {
    bool has = one.has_value();
    (*this)(has);
    if (!has) return one.reset();
    if (!one) one.emplace();
    (*this)(*one);
  }
  void operator()(std::vector<bool>& all) {
    resize(all);
    for (std::size_t i = 0; i < all.size(); ++i) {
      bool one = all[i];
      (*this)(one);
      all[i] = one;
    }
  }
  template <class Range>
  requires requires(Range all) { all.resize(0); }
  void operator()(Range& all) {
    resize(all);
    for (auto& one : all) each(one);
  }
  void operator()(std::map<std::uint64_t, refusal>& all) {
    std::vector<std::pair<std::uint64_t, refusal>> list(all.begin(), all.end());
    (*this)(list);
    all = {list.begin(), list.end()};
  }

 private:
  template <class Range>
  void resize(Range& all) {
    std::size_t count = all.size();
    (*this)(count);
    all.resize(count);
  }
  template <class T>
  void each(T& one) {
    if constexpr (requires { one.visit(*this); })
      one.visit(*this);
    else if constexpr (requires { one.second; })
      (*this)(one.first), (*this)(one.second);
    else if constexpr (requires { one.fresh; })
      (*this)(one.roll), (*this)(one.fresh);
    else
      (*this)(one);
  }

  std::vector<std::byte>* to_ = nullptr;
  std::span<const std::byte> from_{};
};

}  // namespace

struct agreement_state {
  static void visit(agreement& of, archive& by) {
    by(of.is_lost_), by(of.number_), by(of.phase_), by(of.value_), by(of.why_), by(of.asked_), by(of.has_proposed_);
    by(of.is_own_), by(of.has_accepted_), by(of.refusals_), by(of.last_settled_), by(of.refused_);
  }
  static void visit(roll_call& of, archive& by) { visit(of.on_, by), by(of.answers_); }
};

namespace {

using models::circumstances;

/// A message between two members. `kind` is empty for an answer to a roll call.
struct letter {
  std::optional<enum agreement::kind> kind{};
  std::uint64_t number = 0;
  refusal about{};
  std::vector<std::byte> value{};
  std::uint32_t fresh = 0;
  void visit(archive& by) { by(kind), by(number), by(about), by(value), by(fresh); }
};

/// The events of a world besides the messages.
struct budget {
  rank ranks;
  int deaths;
  int timeouts;  ///< number of calls that time out; the member calls again after a timeout
  /// Number of members on the first side of a network partition, counted from member 0. 0 if there is no partition.
  rank near = 0;
};

/// A member, and its outgoing messages to each receiver. The messages to one receiver arrive in order.
struct member final : roll_call::sender {
  void send(rank to, const agreement::message& what) override {
    put(to, {what.kind, what.number, what.about, {what.value.begin(), what.value.end()}, 0});
  }
  void send_answer(rank to, std::uint64_t number, std::uint32_t fresh) override {
    put(to, {std::nullopt, number, {}, {}, fresh});
  }
  void put(rank to, const letter& one) {
    if (!notices[static_cast<std::size_t>(to)]) out[static_cast<std::size_t>(to)].push_back(one);
  }
  bool is_silent(rank other) const override { return silent[static_cast<std::size_t>(other)]; }
  void visit(archive& by) {
    agreement_state::visit(roll, by);
    by(calls), by(is_in_call), by(is_dead), by(has_stopped), by(outcomes), by(notices), by(silent);
    for (auto& each : out) by(each);
  }

  roll_call roll{};
  std::vector<std::deque<letter>> out{};
  int calls = 0;
  bool is_in_call = false, is_dead = false;
  bool has_stopped = false;               ///< whether only the other side may continue
  std::vector<std::uint64_t> outcomes{};  ///< outcome of each roll call: 0 is unknown, 1 is refused; otherwise 2 plus
                                          ///< the list of the new world, with four bits per member
  std::vector<bool> notices{};            ///< for each member: whether this member has lost that member
  std::vector<bool> silent{};             ///< for each member: whether this member has lost that member because of its
                                          ///< silence
};

class roll_world final : public models::system {
 public:
  explicit roll_world(const budget& most) : most_(most), all_(static_cast<std::size_t>(most.ranks)) {
    for (std::size_t r = 0; r < all_.size(); ++r) {
      all_[r].roll = roll_call(static_cast<rank>(r), most.ranks, all_[r]);
      all_[r].out.resize(all_.size());
      all_[r].outcomes.resize(k_rolls);
      all_[r].notices.resize(all_.size());
      all_[r].silent.resize(all_.size());
    }
  }

  void save(std::vector<std::byte>& state) const override {
    archive by(state);
    for (const member& one : all_) const_cast<member&>(one).visit(by);
    by(const_cast<budget&>(most_).deaths), by(const_cast<budget&>(most_).timeouts);
    by(const_cast<bool&>(is_cut_)), by(const_cast<bool&>(has_healed_));
  }
  void restore(std::span<const std::byte> state) override {
    archive by(state);
    for (member& one : all_) one.visit(by);
    by(most_.deaths), by(most_.timeouts), by(is_cut_), by(has_healed_);
  }

  enum what : move { call, die, time_out, cut, heal, deliver, notice };
  void moves(std::vector<move>& out) const override {
    if (most_.near != 0 && !has_healed_) out.push_back(pack(is_cut_ ? heal : cut, 0));
    for (std::size_t r = 0; r < all_.size(); ++r) {
      const member& one = all_[r];
      if (one.is_dead) continue;
      if (!one.is_in_call && !has_world(one) && !one.has_stopped) out.push_back(pack(call, r));
      if (most_.deaths > 0) out.push_back(pack(die, r));
      if (most_.timeouts > 0 && one.is_in_call) out.push_back(pack(time_out, r));
      for (std::size_t from = 0; from < all_.size(); ++from) {
        if (from == r || one.notices[from]) continue;
        const bool is_blocked = is_cut_ && are_apart(r, from);
        if (!all_[from].out[r].empty() && !is_blocked) out.push_back(pack(deliver, r, from));
        if (all_[from].is_dead || may_notice_silence(r, from)) out.push_back(pack(notice, r, from));
      }
    }
  }

  void make(move how) override {
    member& one = all_[how >> 8 & 0xf];
    const std::size_t from = how & 0xf;
    switch (static_cast<what>(how >> 16)) {
      case call:
        one.is_in_call = true;
        one.roll.answer(static_cast<std::uint32_t>(++one.calls));
        break;
      case die:
        --most_.deaths;
        one.is_dead = true;
        break;
      case time_out:
        --most_.timeouts;
        (void)one.roll.give_up();
        break;
      case cut: is_cut_ = true; return;
      case heal:
        is_cut_ = false;
        has_healed_ = true;
        return;
      case notice: lose(how >> 8 & 0xf, from); break;
      case deliver: {
        const letter news = all_[from].out[how >> 8 & 0xf].front();
        all_[from].out[how >> 8 & 0xf].pop_front();
        if (news.kind)
          one.roll.take(static_cast<rank>(from), {*news.kind, news.number, news.about, news.value});
        else
          one.roll.take_answer(static_cast<rank>(from), news.number, news.fresh);
      }
    }
    if (!one.is_dead) one.roll.advance();
    note_outcome(one);
    for (auto& each : one.out)
      if (all_[static_cast<std::size_t>(&each - one.out.data())].is_dead) each.clear();
  }

  std::string describe(move how) const override {
    static constexpr const char* k_names[] = {
        "calls", "dies", "gives up", "sees a cut", "sees the end of the cut", "reads a message of", "loses"};
    const std::string text = "rank " + std::to_string(how >> 8 & 0xf) + " " + k_names[how >> 16];
    return how >> 16 < deliver ? text : text + " rank " + std::to_string(how & 0xf);
  }

  std::string fault(bool is_last) const override {
    for (std::size_t roll = 0; roll < k_rolls; ++roll) {
      std::uint64_t known = 0;
      for (const member& one : all_) {
        const std::uint64_t mine = one.is_dead || most_.near != 0 ? 0 : one.outcomes[roll];
        if (known == 0) known = mine;
        if (mine != 0 && mine != known)
          return "roll call " + std::to_string(roll) + " has different outcomes on two survivors";
      }
    }
    for (const member& one : all_)
      if (is_last && !one.is_dead && !has_world(one) && !one.has_stopped) return "a survivor does not end";
    for (const member& one : all_)
      for (const member& other : all_)
        if (has_world(one) && has_world(other) && (set_of(one) & set_of(other)) == 0) return "both sides go on";
    return {};
  }

 private:
  static constexpr std::size_t k_rolls = 8;
  static move pack(what kind, std::size_t of, std::size_t from = 0) {
    return kind << 16 | static_cast<move>(of) << 8 | static_cast<move>(from);
  }
  bool are_apart(std::size_t one, std::size_t other) const {
    const auto near = static_cast<std::size_t>(most_.near);
    return (one < near) != (other < near);
  }
  /// Returns whether member `self` may notice that member `from` is silent. The cause is a network partition, or a
  /// message from another member.
  bool may_notice_silence(std::size_t self, std::size_t from) const {
    if (most_.near == 0 || !are_apart(self, from)) return false;
    for (std::size_t other = 0; other < all_.size(); ++other) {
      const bool is_apart = are_apart(self, other);
      if (is_apart ? has_healed_ && all_[other].silent[self] : all_[other].silent[from]) return true;
    }
    return is_cut_;
  }
  /// Makes member `self` lose a dead member, or all members of the other side at once.
  void lose(std::size_t self, std::size_t from) {
    member& one = all_[self];
    const bool is_silent = may_notice_silence(self, from);
    std::vector<rank> lost;
    for (std::size_t other = 0; other < all_.size(); ++other) {
      if (one.notices[other] || (other != from && !(is_silent && are_apart(self, other)))) continue;
      one.notices[other] = true;
      one.silent[other] = is_silent;
      all_[other].out[self].clear();
      lost.push_back(static_cast<rank>(other));
    }
    for (const rank other : lost) one.roll.lose(other);
  }
  /// Returns the world of a member as a set of members.
  static std::uint64_t set_of(const member& one) {
    std::uint64_t set = 0;
    for (const std::uint64_t how : one.outcomes)
      for (std::uint64_t rest = how > 1 ? how - 2 : 0, member = 1; rest != 0; rest >>= 4, member <<= 1)
        if ((rest & 0xf) != 0) set |= member;
    return set;
  }
  static bool has_world(const member& one) {
    return std::ranges::any_of(one.outcomes, [](std::uint64_t how) { return how > 1; });
  }

  void note_outcome(member& one) {
    const agreement& on = one.roll.on();
    if (one.is_dead || !one.is_in_call || !on.is_over()) return;
    std::uint64_t& outcome = one.outcomes[on.number() % k_rolls];
    one.is_in_call = false;
    outcome = 1;
    if (on.phase() == agreement::phase::refused && on.why().why == status::peer) one.has_stopped = true;
    if (on.phase() != agreement::phase::settled) return;
    std::uint64_t members = 0;
    for (const std::uint32_t board : one.roll.list()) members = members * 16 + board;
    outcome = members + 2;
  }

  budget most_;
  bool is_cut_ = false, has_healed_ = false;
  std::vector<member> all_;
};

template <rank Ranks, int Deaths, int Timeouts, rank Near = 0>
models::report roll(const circumstances& around) {
  roll_world all({Ranks, Deaths, Timeouts, Near});
  return explore(all, around.most);
}

const models::known_world k_worlds[] = {
    models::known_world({"4 call", roll<4, 0, 0>}),
    models::known_world({"3 call, 1 gives up", roll<3, 0, 1>}),
    models::known_world({"3 call, 1 dies", roll<3, 1, 0>}),
    models::known_world({"3 call, 2 die", roll<3, 2, 0>}),
    models::known_world({"3 call, 1 dies, 1 gives up", roll<3, 1, 1>}),
    models::known_world({"4 call, 1 dies", roll<4, 1, 0>}),
    models::known_world({"2 call, cut behind 1", roll<2, 0, 0, 1>}),
    models::known_world({"3 call, cut behind 1", roll<3, 0, 0, 1>}),
    models::known_world({"3 call, cut behind 1, 1 dies", roll<3, 1, 0, 1>}),
    models::known_world({"3 call, cut behind 2", roll<3, 0, 0, 2>}),
};

}  // namespace
}  // namespace lsched
