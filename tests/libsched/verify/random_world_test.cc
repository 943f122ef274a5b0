// Tests of worlds of random schedules. If verify() accepts a world, its rounds must end on the real engine in any order
// of events. The results must be those of a sequential execution. The check of all interleavings (interleavings.h) must
// not find a fault in the world.
//
// A failure prints its seed. LSCHED_TEST_WORLD_SEED=<seed> runs only the world of that seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <span>

#include "collectives/rooted/rooted.h"
#include "libsched/schedule/builder.h"
#include "libsched/schedule/draw.h"
#include "libsched/verify/verify.h"
#include "tests/support/lockstep_world.h"
#include "tests/support/sampling.h"
#include "tests/verify_oracle/interleavings.h"

namespace lsched::testing {
namespace {

using value = std::int64_t;

struct draws {
  explicit draws(std::uint64_t from) : seed(from) {}
  std::uint64_t below(std::uint64_t limit) { return mix(mix(seed) + ++count) % limit; }
  bool in(std::uint64_t percent) { return below(100) < percent; }
  std::uint64_t seed;
  std::uint64_t count = 0;
};

std::size_t index(rank r) { return static_cast<std::size_t>(r); }

/// Every rank has four buffers: an input, an output and two scratch buffers.
constexpr std::uint16_t k_input = 0, k_output = 1, k_buffers = 4;

/// An op in a sequential execution of the world. A receive gets the data that the matching send has read.
struct event {
  rank who = 0;
  op what{};
  std::size_t sent = 0;  ///< recv: index of the event that sends the message
};

class random_world {
 public:
  explicit random_world(std::uint64_t seed) : draws_(seed) {
    size_ = static_cast<rank>(1 + draws_.below(4));
    count_ = 1 + draws_.below(5);
    is_in_place_ = draws_.in(20);
    how_ = draws_.in(60) ? kernel::sum : kernel::max;
    is_loose_ = draws_.in(50);
    is_closed_ = draws_.in(40);
    is_holding_ = draws_.in(30);
    is_early_ = draws_.in(25);
    is_declared_ = draws_.in(5);
    ranks_.resize(index(size_));
    for (rank r = 0; r < size_; ++r) begin(r);
    for (std::uint64_t steps = 3 + draws_.below(14); steps > 0; --steps) append_any();
    for (; !under_way_.empty(); under_way_.pop_back()) receive(under_way_.back());
    for (rank r = 0; r < size_; ++r) end(r);
  }

  bool is_sound() const { return is_sound_; }
  rank size() const { return size_; }
  bool is_in_place() const { return is_in_place_; }
  std::uint64_t count() const { return count_; }
  const std::vector<schedule_ptr>& programs() const { return programs_; }

  using element = std::optional<value>;  ///< value of an element; empty if the element was never written
  using memory = std::vector<element>;

  /// Returns the final contents of the output of every rank. Elements that were never written are empty.
  std::vector<memory> results(const std::vector<std::vector<value>>& inputs) const {
    std::vector<std::vector<memory>> all(index(size_), std::vector<memory>(k_buffers, memory(count_)));
    for (rank r = 0; r < size_; ++r) std::ranges::copy(inputs[index(r)], all[index(r)][k_input].begin());
    std::vector<memory> payloads(events_.size());
    for (std::size_t i = 0; i < events_.size(); ++i) {
      const auto& [who, what, sent] = events_[i];
      auto& mine = all[index(who)];
      const std::uint64_t length = what.count;
      const auto part = [&](region where) {
        return std::span(mine[memory_of(where.buffer())]).subspan(where.offset(), length);
      };
      if (what.kind == op_kind::send) payloads[i].assign(part(what.a).begin(), part(what.a).end());
      if (what.kind == op_kind::recv) std::ranges::copy(payloads[sent], part(what.c).begin());
      if (what.kind != op_kind::compute) continue;
      memory made(part(what.a).begin(), part(what.a).end());
      for (std::size_t k = 0; k < length && what.what != kernel::copy; ++k)
        made[k] = combined(what.what, made[k], part(what.b)[k]);
      std::ranges::copy(made, part(what.c).begin());
    }
    std::vector<memory> outputs;
    for (rank r = 0; r < size_; ++r) outputs.push_back(all[index(r)][memory_of(k_output)]);
    return outputs;
  }

 private:
  static element combined(kernel how, element x, element y) {
    if (!x || !y) return std::nullopt;
    return how == kernel::sum ? *x + *y : std::max(*x, *y);
  }

  struct per_rank {
    std::optional<builder> to;
    std::vector<op> ops;
    std::map<std::pair<rank, bool>, std::uint32_t> tags;
  };
  struct message {
    rank from, to;
    std::uint32_t tag;
    std::uint64_t length;
    bool is_signal;
    std::size_t sent;
  };

  std::uint16_t memory_of(std::uint16_t buffer) const { return is_in_place_ && buffer == k_output ? k_input : buffer; }
  rank any_rank() { return static_cast<rank>(draws_.below(index(size_))); }

  void begin(rank r) {
    per_rank& me = ranks_[index(r)];
    me.to.emplace(world{r, size_}, "random");
    me.to->input(dtype::i64, count_);
    me.to->output(dtype::i64, count_);
    me.to->scratch(dtype::i64, count_);
    me.to->scratch(dtype::i64, count_);
    for (std::uint16_t b = 1; b < k_buffers; ++b) {
      if (draws_.in(10) || (is_in_place_ && b == k_output)) continue;
      op fill{.kind = op_kind::compute, .what = kernel::copy, .type = dtype::i64, .count = count_};
      fill.a = {k_input, 0};
      fill.c = {b, 0};
      note(r, me.to->copy(fill.a, fill.c, fill.count), fill);
    }
  }

  region any_region(std::uint64_t length, bool is_target) {
    const std::uint64_t buffer = is_target ? 1 + draws_.below(k_buffers - 1) : draws_.below(k_buffers);
    return {static_cast<std::uint16_t>(buffer), draws_.below(count_ - length + 1)};
  }

  bool overlap(const op& x, region p, const op& y, region q) const {
    if (!p.exists() || !q.exists() || memory_of(p.buffer()) != memory_of(q.buffer())) return false;
    return p.offset() < q.offset() + y.count && q.offset() < p.offset() + x.count;
  }
  bool conflict(const op& x, const op& y) const {
    return overlap(x, x.c, y, y.a) || overlap(x, x.c, y, y.b) || overlap(x, x.c, y, y.c) || overlap(x, x.a, y, y.c) ||
           overlap(x, x.b, y, y.c);
  }

  /// Records an op and adds its deps. Some deps are needed because the op shares memory with earlier ops. A few deps
  /// are unnecessary. In loose worlds, a few of the needed deps are missing.
  void note(rank r, op_id id, const op& what, std::size_t sent = 0) {
    per_rank& me = ranks_[index(r)];
    std::uint32_t degree = 0;
    for (op_id before = 0; before < id; ++before) {
      const bool is_wanted = conflict(me.ops[before], what);
      if (is_wanted ? is_loose_ && draws_.in(8) : !draws_.in(is_plain(what) ? 30 : 8)) continue;
      me.to->dep(before, id);
      ++degree;
    }
    if (degree > 1 && draws_.in(what.kind == op_kind::nop ? 50 : is_loose_ ? 4 : 0))
      me.to->set_need(id, static_cast<std::uint32_t>(1 + draws_.below(degree)));
    me.ops.push_back(what);
    events_.push_back({r, what, sent});
  }
  static bool is_plain(const op& what) { return what.kind == op_kind::nop || is_signal(what.kind); }

  void append_any() {
    const std::uint64_t what = draws_.below(10);
    if (what < 4) return compute();
    if (what < 7) return send(false);
    if (what < 8) return send(true);
    if (what < 9 && !under_way_.empty()) {
      const std::size_t which = draws_.below(under_way_.size());
      receive(under_way_[which]);
      under_way_.erase(under_way_.begin() + static_cast<std::ptrdiff_t>(which));
      return;
    }
    const rank r = any_rank();
    note(r, ranks_[index(r)].to->nop(), {});
  }

  void compute() {
    const rank r = any_rank();
    const std::uint64_t count = draws_.below(count_ + 1);
    op it{.kind = op_kind::compute, .what = kernel::copy, .type = dtype::i64, .count = count};
    it.a = any_region(count, false);
    it.c = any_region(count, true);
    if (draws_.in(50)) it.what = how_, it.b = any_region(count, false);
    const auto bad = [&](region p, region q) { return p != q && overlap(it, p, it, q); };
    if (bad(it.a, it.b) || bad(it.a, it.c) || bad(it.b, it.c)) return;
    builder& to = *ranks_[index(r)].to;
    note(r, it.what == kernel::copy ? to.copy(it.a, it.c, count) : to.reduce(it.what, it.a, it.b, it.c, count), it);
  }

  void send(bool is_sig) {
    if (size_ == 1) return;
    const rank from = any_rank();
    const rank to = static_cast<rank>((index(from) + 1 + draws_.below(index(size_) - 1)) % index(size_));
    const std::uint32_t tag = ranks_[index(from)].tags[{to, is_sig}]++ + k_barrier_tag + 1;
    op it{.kind = is_sig ? op_kind::signal_send : op_kind::send, .peer = to, .tag = tag};
    builder& by = *ranks_[index(from)].to;
    if (is_sig) {
      note(from, by.signal_send(to, tag), it);
    } else {
      it.type = dtype::i64;
      it.count = draws_.below(count_ + 1);
      it.a = any_region(it.count, false);
      note(from, by.send(to, tag, it.a, it.count), it);
    }
    under_way_.push_back({from, to, tag, it.count, is_sig, events_.size() - 1});
    if (draws_.in(60)) {
      const message now = under_way_.back();
      under_way_.pop_back();
      receive(now);
    }
  }

  void receive(const message& it) {
    per_rank& me = ranks_[index(it.to)];
    op what{.kind = it.is_signal ? op_kind::signal_recv : op_kind::recv, .peer = it.from, .tag = it.tag};
    if (it.is_signal) return note(it.to, me.to->signal_recv(it.from, it.tag), what, it.sent);
    what.type = dtype::i64;
    what.count = it.length;
    what.c = any_region(it.length, true);
    note(it.to, me.to->recv(it.from, it.tag, what.c, what.count), what, it.sent);
  }

  void end(rank r) {
    builder& to = *ranks_[index(r)].to;
    const auto ops = static_cast<op_id>(to.op_count());
    if (is_closed_) {
      const op_id all = to.nop();
      for (op_id id = 0; id < ops; ++id) to.dep(id, all);
      to.set_exit(add_barrier(to, all).exit);
      to.declare_synchronising();
    } else {
      if (is_early_ && ops > 0 && draws_.in(70)) to.set_exit(static_cast<op_id>(draws_.below(ops)));
      if (is_declared_) to.declare_synchronising();
    }
    if (is_holding_) to.declare_holding();
    auto made = to.compile();
    if (!made) ADD_FAILURE() << made.error().text;
    is_sound_ = is_sound_ && made;
    programs_.push_back(made ? *made : nullptr);
  }

  draws draws_;
  kernel how_ = kernel::sum;  ///< kernel of all reductions, because a commit refuses ranks whose reductions differ
  rank size_ = 1;
  std::uint64_t count_ = 1;
  bool is_in_place_ = false, is_loose_ = false, is_sound_ = true;
  bool is_closed_ = false, is_holding_ = false, is_early_ = false, is_declared_ = false;
  std::vector<per_rank> ranks_;
  std::vector<message> under_way_;
  std::vector<event> events_;
  std::vector<schedule_ptr> programs_;
};

/// Runs a few rounds on the real engine. Every rank starts its next round as soon as it can.
class free_run {
 public:
  free_run(const random_world& of, std::uint64_t seed)
      : of_(of), world_(of.size(), seed), inputs_(index(of.size()), std::vector<value>(of.count())), outputs_(inputs_) {
    drawn_.assign(k_rounds, inputs_);
    for (auto& round : drawn_)
      for (auto& mine : round)
        for (value& it : mine) it = static_cast<value>(world_.draw() >> 20);
    for (const auto& round : drawn_) wanted_.push_back(of_.results(round));
  }

  bool run() {
    its_ = world_.commit([&](rank r) { return request(r); });
    if (its_.empty()) return false;
    if (world_.draw_below(3) == 0) world_.set_pace(draw_rank(), 8);
    next_.assign(index(of_.size()), 0);
    bool is_right = true;
    const auto is_over = [](round_no next) { return next > k_rounds; };
    const bool ends = world_.run_until(
        [&] {
          is_right = is_right && go_on(draw_rank());
          return !is_right || std::ranges::all_of(next_, is_over);
        },
        200'000);
    if (ends && !is_right) ADD_FAILURE() << "a wrong result; " << world_.describe();
    return ends && is_right;
  }

 private:
  static constexpr round_no k_rounds = 3;

  rank draw_rank() { return static_cast<rank>(world_.draw_below(index(of_.size()))); }
  std::vector<value>& output(rank r) { return (of_.is_in_place() ? inputs_ : outputs_)[index(r)]; }

  commit_request request(rank r) {
    auto* in = reinterpret_cast<std::byte*>(inputs_[index(r)].data());
    auto* out = reinterpret_cast<std::byte*>(output(r).data());
    return {"random", of_.programs()[index(r)], {{in}, {out}}};
  }

  /// Starts the next round of rank `r` if the previous round has ended. Returns false if the previous round had a wrong
  /// result.
  bool go_on(rank r) {
    const round_no now = next_[index(r)];
    if (now > k_rounds || its_[index(r)]->finished.load() != now) return true;
    for (std::size_t i = 0; now > 0 && i < of_.count(); ++i) {
      const auto& right = wanted_[now - 1][index(r)][i];
      if (right && *right != output(r)[i]) return false;
    }
    ++next_[index(r)];
    if (now == k_rounds) return true;
    inputs_[index(r)] = drawn_[now][index(r)];
    lockstep_world::start(world_.at(r), *its_[index(r)]);
    return true;
  }

  const random_world& of_;
  lockstep_world world_;
  std::vector<std::vector<value>> inputs_, outputs_;
  std::vector<std::vector<std::vector<value>>> drawn_;     ///< inputs of each round
  std::vector<std::vector<random_world::memory>> wanted_;  ///< expected outputs of each round
  std::vector<instance*> its_;
  std::vector<round_no> next_;  ///< next round of each rank
};

std::string text_of(const random_world& it) {
  std::string text;
  for (const schedule_ptr& mine : it.programs()) text += to_text(*mine);
  return text;
}

/// Tests the world of a seed. Returns whether verify() has accepted the world.
bool try_seed(std::uint64_t seed) {
  const random_world it(seed);
  if (!it.is_sound() || !verify(it.programs(), {}, {.in_place = it.is_in_place()}).holds()) return false;
  const auto verdict = play(it.programs(), {}, {.in_place = it.is_in_place(), .most_states = 3'000});
  EXPECT_NE(verdict.what, conclusion::fails) << verdict.why << "; LSCHED_TEST_WORLD_SEED=" << seed << "\n"
                                             << text_of(it);
  for (std::uint64_t order = 0; order < 6; ++order)
    if (!free_run(it, 6 * seed + order).run())
      ADD_FAILURE() << "accepted, and fails: LSCHED_TEST_WORLD_SEED=" << seed << "\n" << text_of(it);
  return true;
}

void try_seeds(std::uint64_t first, std::uint64_t count) {
  if (const char* wish = std::getenv("LSCHED_TEST_WORLD_SEED")) {
    EXPECT_TRUE(try_seed(std::strtoull(wish, nullptr, 10)));
    return;
  }
  std::uint64_t accepted = 0;
  for (std::uint64_t seed = first; seed < first + count && !::testing::Test::HasFailure(); ++seed)
    accepted += try_seed(seed) ? 1u : 0u;
  EXPECT_TRUE(::testing::Test::HasFailure() || (accepted > count / 2 && accepted < count)) << accepted;
}

TEST(random_world, what_is_proved_runs) { try_seeds(1, sampled() ? 500u : 10'000u); }
TEST(random_world, soak_what_is_proved_runs) { try_seeds(10'001, 500'000); }

}  // namespace
}  // namespace lsched::testing
