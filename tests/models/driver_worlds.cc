// Ownership, posts, the doorbell and everybody who sleeps on it: offload/driver.{h,cc}, offload/job_board.{h,cc},
// libsched/engine.{h,cc} and libsched/doorbell.{h,cc}, one rank of them, with the threads of docs/threading.md around
// it.
//
// Not the library's is the medium: whoever sends stores a stamp and owes the receiver's bell a look, which are the two
// lines of the shm endpoint (CMakeLists.txt sees to it that they are), and looks when it is through. Over a time-driven
// medium, like the MPI endpoint, it stores a stamp and nobody hears of it. Most scenarios have senders that do nothing
// else; where an engine sends, there are two ranks.
#include "tests/models/explored_std.h"

#include "libsched/analysis/buffer_swap.cc"
#include "libsched/analysis/order.cc"
#include "libsched/analysis/segments.cc"
#include "libsched/engine/engine.cc"
#include "libsched/engine/engine_carry.cc"
#include "libsched/engine/engine_device.cc"
#include "libsched/engine/engine_diagnosis.cc"
#include "libsched/engine/engine_failure.cc"
#include "libsched/engine/engine_lists.cc"
#include "libsched/engine/engine_partial.cc"
#include "libsched/engine/engine_reserve.cc"
#include "libsched/partial/contribution.cc"
#include "libsched/partial/partial_stats.cc"
#include "libsched/transport/doorbell.cc"
#include "offload/driver.cc"
#include "offload/idle_policy.cc"
#include "offload/job_board.cc"
#include "ops/op.cc"

#include "tests/models/worlds.h"

namespace lsched {

// What the engine needs of files that this program has under the library's own name.
std::uint64_t most_bytes(const schedule&, const op& what) { return what.count * size_of(what.type); }
std::uint64_t typical_bytes(const schedule& program, const op& what) { return most_bytes(program, what); }
bool is_on_device(const op&, std::span<const buffer>) { return false; }
operand_list operands_of(const op& what, std::span<const buffer>) { return own_operands_of(what); }
kernel_fn find(kernel, dtype) {  // the other threads run in the middle of it
  return [](const kernel_call& call) {
    models::point();
    *call.c = std::byte{1};
  };
}
// No scenario combines contributions: neither sums nor means nor Adasum.
reduce_fn find_reduce(kernel, dtype) { return nullptr; }
dot_norms_fn find_dot_norms(dtype) { return nullptr; }
scaled_add_fn find_scaled_add(dtype) { return nullptr; }
adasum_coefficients adasum_coefficients_of(const double*) { return {}; }
std::vector<std::uint32_t> shared_sources(const schedule& it) { return std::vector<std::uint32_t>(it.ops().size()); }
// Of callers on cores that nobody else can have.
int this_thread_number() { return 1; }
bool is_asleep(int) { return false; }
std::string_view name_of(status) { return ""; }
std::string_view text_of(status) { return ""; }

namespace {

using models::circumstances;
using models::patience;
using models::threads;

constexpr std::uint32_t k_links = 2;

enum class medium : std::uint8_t { rings, time_driven };
enum class cores : std::uint8_t { free, taken };

/// A medium with landing stamps and nothing else.
class stamps final : public endpoint {
 public:
  explicit stamps(medium what) : is_time_driven_(what == medium::time_driven) {}

  // --- another rank's side ---
  void publish(link_id link, round_no round, ringer& owing) {
    stamp[link].store(round, std::memory_order_release);
    if (!is_time_driven_) owing.owe(0, bell_);
  }

  void publish_cancellation(std::uint32_t id) {
    given_up.store(id + 1);
    ring(bell_, doorbell::waiter, INT_MAX);
    ring(bell_, doorbell::auxiliary);
  }

  // --- this rank's ---
  world place() const override { return {0, 2}; }
  std::string_view name() const override { return "stamps"; }
  std::byte* allocate(std::size_t bytes) override { return new std::byte[bytes]; }
  void deallocate(std::byte*) override {}
  result<std::unique_ptr<board>> open_board(std::size_t) override { return failure{status::unsupported}; }
  std::unique_ptr<board> open_home_board() override { return nullptr; }
  result<std::vector<link_id>> attach(std::uint32_t, std::span<const rank>, bool,
                                      std::span<const edge_spec> edges) override {
    std::vector<link_id> links;
    for (const edge_spec& edge : edges) {
      links.push_back(attached_);
      cookies_[attached_++] = edge.cookie;
    }
    return links;
  }
  member_address address_of(std::uint32_t) const override { return {}; }
  status link(std::uint32_t, std::span<const member_address>) override { return status::ok; }
  void detach(std::uint32_t) override {}
  void cancel(std::uint32_t id, rank) override { publish_cancellation(id); }
  void abandon(std::uint32_t) override { std::ranges::fill(awaited_, 0); }
  status check_readers(std::uint32_t, rank*) override { return status::ok; }
  bool send(link_id link, round_no round, const message&) override {
    peer->publish(link, round, ringer_);
    return true;
  }
  bool fetch(link_id, round_no, message_target, arrival&) override { return true; }
  bool receive(link_id link, round_no round, message_target into, arrival& out) override {
    if (stamp[link].load() >= round) {
      out = {into.memory, 1, {}, false};
      return true;
    }
    awaited_[link] = round;
    return false;
  }
  void release(link_id, round_no) override {}
  void signal(link_id, round_no) override {}
  bool arm(link_id, round_no) override { return false; }
  void disarm(link_id) override {}
  std::size_t poll(std::span<completion> out) override {
    models::require(!is_inside_, "two threads own the engine");
    is_inside_ = true;
    if (const std::uint64_t now = given_up.load(); now != std::exchange(given_up_seen_, now))
      report_cancelled({static_cast<std::uint32_t>(now - 1), 1});
    std::size_t found = 0;
    for (link_id link = 0; link < attached_; ++link) {
      if (awaited_[link] == 0 || stamp[link].load() < awaited_[link]) continue;
      out[found++] = {cookies_[link], std::exchange(awaited_[link], 0), {nullptr, 1, {}, false}};
    }
    is_inside_ = false;
    return found;
  }
  void flush() override { ringer_.settle(); }
  bool is_listening() const override { return awaited_[0] != 0 || awaited_[1] != 0; }
  bool is_time_driven() const override { return is_time_driven_; }
  doorbell& bell() override { return bell_; }
  void close() override {}

  std::atomic<round_no> stamp[k_links];
  std::atomic<std::uint64_t> given_up;  ///< the instance, plus one
  stamps* peer = nullptr;

 private:
  const bool is_time_driven_;
  ringer ringer_{1};
  bool is_inside_ = false;
  std::uint32_t attached_ = 0;
  std::uint64_t cookies_[k_links]{};
  round_no awaited_[k_links]{};
  std::uint64_t given_up_seen_ = 0;
  doorbell bell_{};
};

/// A lane whose workers are threads of the scenario.
class board_lane final : public lane {
 public:
  explicit board_lane(doorbell& bell) : board(bell) {}
  std::string name() const override { return "board"; }
  std::uint64_t least_bytes() const override { return 1; }
  bool submit(const lane_job& job) override { return board.submit(job) != 0; }
  std::size_t poll(std::span<std::uint64_t> out) override { return board.poll(out); }
  bool help() override { return board.help(); }
  void drain() override { board.drain(); }

  job_board board;
};

/// What the only op of a schedule does: a message to or from the other rank, arithmetic on the lane, or nothing.
enum class act : std::uint8_t { nothing, receives, sends, computes };

schedule_ptr one_op(act what) {
  schedule::parts parts;
  parts.place = {0, 2};
  parts.first = {0, 0};
  parts.roots = {0};
  parts.exit = 0;
  op it;
  if (what != act::nothing) parts.buffers.push_back({.role = buffer_role::output, .count = 1});
  if (what == act::receives) it = {.kind = op_kind::recv, .peer = 1, .count = 1, .c = region(0, 0)};
  if (what == act::sends) it = {.kind = op_kind::send, .peer = 1, .count = 1, .a = region(0, 0)};
  if (what == act::computes)
    it = {.kind = op_kind::compute, .what = kernel::sum, .count = 1, .a = {0, 0}, .b = {0, 0}, .c = {0, 0}};
  parts.ops.push_back(it);
  return std::make_shared<const schedule>(std::move(parts));
}

/// One rank: two instances, an engine, its driver.
struct one_rank {
  explicit one_rank(act first, act second, medium what = medium::rings, cores have = cores::free)
      : net(what), beside(net.bell()), runs(net, &beside), drives(runs, {.are_cores_taken = have == cores::taken}) {
    it[0] = add(first);
    it[1] = add(second);
  }
  instance* add(act what) {
    instance* made = *runs.add(one_op(what), what != act::nothing ? binding{{}, {&landing}} : binding{}, {});
    (void)runs.link(*made, {});
    runs.open(*made);
    return made;
  }
  void start(int which) { models::require(drives.start(*it[which], nullptr) == status::ok, "a start fails"); }
  void call(int which) {
    drives.run_posting([this, which] {
      it[which]->called.store(1);
      runs.post(*it[which]);
      return true;
    });
  }
  void wait(int which) { models::require(drives.wait(*it[which], 1, never) == status::ok, "a wait fails"); }
  void wait_in_vain(int which) {
    constexpr auto soon = driver::clock::time_point(std::chrono::hours(1));
    models::require(drives.wait(*it[which], 1, soon) == status::timeout, "a wait for nothing succeeds");
  }
  void run_until_given_up(int which) {
    const status answer = drives.run(*it[which], never);
    models::require(answer == status::ok || answer == status::cancelled, "a run fails otherwise");
  }
  void cancel(int which) {
    drives.with_engine([this, which] { runs.cancel(*it[which]); });
    models::require(it[which]->verdict.load() == status::cancelled, "a cancel does not end the instance");
  }
  void run(int which) { models::require(drives.run(*it[which], never) == status::ok, "a run fails"); }

  /// From here on, whoever looks at the bell rings it; nobody of ours should.
  void give_bell_away() {
    rings = net.bell().word[doorbell::waiter].load();
    is_given_away = true;
    net.bell().polling.store(0);
    net.bell().sleepers.store(1);
  }

  static constexpr auto never = driver::clock::time_point::max();
  std::byte landing{};
  stamps net;
  board_lane beside;
  engine runs;
  driver drives;
  instance* it[2]{};
  std::atomic<bool> stop{false};
  bool is_given_away = false;
  std::uint32_t rings = 0;
};

class rank_model {
 public:
  rank_model(const circumstances& around, act first, act second, medium what = medium::rings, cores have = cores::free)
      : most_(around.most), all(around.model) {
    all.set_up([&] { here = new one_rank(first, second, what, have); });
    doorbell& bell = here->net.bell();
    know(&bell.word[0], "bell.word[waiter]", around);
    know(&bell.word[1], "bell.word[auxiliary]", around);
    know(&bell.sleepers, "sleepers", around);
    know(&bell.wanted, "wanted", around);
    know(&bell.polling, "polling", around);
    know(&here->net.stamp[0], "stamp[0]", around);
    know(&here->net.stamp[1], "stamp[1]", around);
    know(&here->net.given_up, "given_up", around);
    know(&here->stop, "stop", around);
    know(&here->drives.owner_, "owner", around);
    know(&here->runs.posted_, "posts", around);
    for (int i = 0; i < 2; ++i) {
      know(&here->it[i]->called, "called", around);
      know(&here->it[i]->finished, "finished", around);
      know(&here->it[i]->verdict, "verdict", around);
      know(&here->it[i]->posted, "posted", around);
    }
  }
  void know(models::word* variable, std::string_view name, const circumstances& around) {
    all.name(variable, std::string(name));
    if (around.weakened == name) all.weaken(variable);
  }

  void add_sender(link_id link) {
    all.add("sender " + std::to_string(link), [it = here, owing = add_ringer(), link] {
      it->net.publish(link, 1, *owing);
      owing->settle();
    });
  }
  /// One that has messages for both and looks once.
  void add_sender_of_two() {
    all.add("sender", [it = here, owing = add_ringer()] {
      for (link_id link = 0; link < k_links; ++link) it->net.publish(link, 1, *owing);
      owing->settle();
    });
  }
  /// Another rank that gives up what the first one waits for.
  void add_canceller() {
    all.add("canceller", [it = here] { it->net.publish_cancellation(0); });
  }
  /// Another rank, with an engine of its own that sends when it is started.
  void add_sending_rank() {
    one_rank* there = nullptr;
    all.set_up([&] {
      there = new one_rank(act::sends, act::nothing);
      there->net.peer = &here->net;
    });
    all.add("sending rank", [there] { there->start(0); });
  }
  void add_worker(const std::string& name) {
    all.add(name, [it = here] { it->beside.board.serve(); });
  }
  void add_auxiliary() {
    all.add("auxiliary", [it = here] { it->drives.serve(it->stop); });
  }
  void add(std::string name, void (*body)(one_rank&), patience waits = patience::endless) {
    all.add(
        std::move(name), [it = here, body] { body(*it); }, waits);
  }

  /// Where two nap: who lets go while a waiter is registered rings it each time.
  void limit_early_naps() { all.limit_early_naps(2); }

  /// In the end both instances have finished what was called; only the auxiliary thread may sleep.
  models::report explore(bool auxiliary_stays) {
    all.expect([this, auxiliary_stays](bool is_last) {
      if (!is_last) return std::string();
      const std::string left = all.unfinished();
      if (!left.empty() && !(auxiliary_stays && left == "auxiliary sleeps")) return "a wake-up is lost: " + left;
      if (here->is_given_away && here->net.bell().word[doorbell::waiter].load() != here->rings)
        return std::string("a worker rings a bell that is not ours any more");
      for (const instance* it : here->it)
        if (it->finished.load() != it->called.load() && it->verdict.load() == status::ok)
          return "a round is not finished, and nobody is awake: " + left;
      return std::string();
    });
    return models::explore(all, most_);
  }

  one_rank* here = nullptr;

 private:
  ringer* add_ringer() {
    ringer* made = nullptr;
    all.set_up([&] { made = new ringer(1); });
    return made;
  }

  models::limits most_;
  threads all;
};

// --- scenarios -------------------------------------------------------------------------------------------------------

/// A message for a thread that waits.
models::report message_for_waiter(const circumstances& around) {
  rank_model all(around, act::receives, act::nothing);
  all.add_sender(0);
  all.add("waiter", [](one_rank& it) { it.run(0); });
  return all.explore(false);
}

/// Two messages of one sender, for a thread that waits for one after the other.
models::report messages_for_waiter(const circumstances& around) {
  rank_model all(around, act::receives, act::receives);
  all.add_sender_of_two();
  all.add("waiter", [](one_rank& it) {
    it.run(0);
    it.run(1);
  });
  return all.explore(false);
}

/// Another rank gives up what a thread waits for.
models::report cancellation_for_waiter(const circumstances& around) {
  rank_model all(around, act::receives, act::nothing);
  all.add_canceller();
  all.add("waiter", [](one_rank& it) { it.run_until_given_up(0); });
  return all.explore(false);
}

/// The same, and perhaps the message comes before.
models::report cancellation_or_message(const circumstances& around) {
  rank_model all(around, act::receives, act::nothing);
  all.add_sender(0);
  all.add_canceller();
  all.add("waiter", [](one_rank& it) { it.run_until_given_up(0); });
  return all.explore(false);
}

/// While the application computes.
models::report cancellation_for_auxiliary(const circumstances& around) {
  rank_model all(around, act::receives, act::nothing);
  all.add_canceller();
  all.add("application", [](one_rank& it) { static_cast<void>(it.drives.start(*it.it[0], nullptr)); });
  all.add_auxiliary();
  return all.explore(true);
}

/// A thread gives up what another one waits for.
models::report cancellation_by_a_thread(const circumstances& around) {
  rank_model all(around, act::receives, act::nothing);
  all.add("waiter", [](one_rank& it) { it.run_until_given_up(0); });
  all.add("canceller", [](one_rank& it) { it.cancel(0); });
  return all.explore(false);
}

/// An engine's message for a thread that waits.
models::report engine_for_waiter(const circumstances& around) {
  rank_model all(around, act::receives, act::nothing);
  all.add_sending_rank();
  all.add("waiter", [](one_rank& it) { it.run(0); });
  return all.explore(false);
}

/// A message while the application computes: the auxiliary thread must take it.
models::report message_for_auxiliary(const circumstances& around) {
  rank_model all(around, act::receives, act::nothing);
  all.add_sender(0);
  all.add("application", [](one_rank& it) { it.start(0); });
  all.add_auxiliary();
  return all.explore(true);
}

/// The same, but the application has the engine while it prepares its call.
models::report message_for_call(const circumstances& around) {
  rank_model all(around, act::receives, act::nothing);
  all.add_sender(0);
  all.add("application", [](one_rank& it) { it.call(0); });
  all.add_auxiliary();
  return all.explore(true);
}

/// Two threads call, each perhaps while the other has the engine.
models::report two_calls(const circumstances& around) {
  rank_model all(around, act::nothing, act::nothing);
  all.add("application 0", [](one_rank& it) { it.call(0); });
  all.add("application 1", [](one_rank& it) { it.call(1); });
  return all.explore(false);
}

/// Two threads of the application wait for a message each.
models::report two_waiters(const circumstances& around) {
  rank_model all(around, act::receives, act::receives);
  all.add_sender(0);
  all.add_sender(1);
  all.add("waiter 0", [](one_rank& it) { it.run(0); });
  all.add("waiter 1", [](one_rank& it) { it.run(1); });
  return all.explore(false);
}

/// The one who would hear of the message gives up waiting.
models::report one_gives_up(const circumstances& around) {
  rank_model all(around, act::receives, act::receives);
  all.add_sender(0);
  all.add("waiter", [](one_rank& it) { it.run(0); });
  all.add(
      "impatient", [](one_rank& it) { it.wait_in_vain(1); }, patience::impatient);
  return all.explore(false);
}

/// Two threads start something that needs no message, and compute: nothing is waited for, all must be done.
models::report two_posts(const circumstances& around) {
  rank_model all(around, act::nothing, act::nothing);
  all.add("application 0", [](one_rank& it) { it.start(0); });
  all.add("application 1", [](one_rank& it) { it.start(1); });
  return all.explore(false);
}

/// Two threads run something that needs no message: one may finish the other's round.
models::report two_runs(const circumstances& around) {
  rank_model all(around, act::nothing, act::nothing);
  all.add("runner 0", [](one_rank& it) { it.run(0); });
  all.add("runner 1", [](one_rank& it) { it.run(1); });
  return all.explore(false);
}

/// The same instance is posted again and again, while others are.
models::report posts_and_steps(const circumstances& around) {
  rank_model all(around, act::nothing, act::nothing);
  all.add("application 0", [](one_rank& it) {
    it.start(0);
    it.runs.post(*it.it[0]);
    it.drives.run_posted();
  });
  all.add("application 1", [](one_rank& it) { it.start(1); });
  all.add("stepper", [](one_rank& it) { it.drives.progress(); });
  return all.explore(false);
}

/// The next round is called for as soon as the last one is over, perhaps while another thread still looks at it.
models::report round_after_round(const circumstances& around) {
  rank_model all(around, act::nothing, act::nothing);
  all.add("application", [](one_rank& it) {
    it.run(0);
    it.start(0);
  });
  all.add("stepper", [](one_rank& it) { it.drives.progress(); });
  return all.explore(false);
}

/// One waits for a message, the other starts something and computes.
models::report waiter_and_starter(const circumstances& around) {
  rank_model all(around, act::receives, act::nothing);
  all.add_sender(0);
  all.add("waiter", [](one_rank& it) { it.run(0); });
  all.add("starter", [](one_rank& it) { it.start(1); });
  return all.explore(false);
}

/// The auxiliary thread and a waiter are there when the message comes.
models::report waiter_and_auxiliary(const circumstances& around) {
  rank_model all(around, act::receives, act::nothing);
  all.add_sender(0);
  all.add("waiter", [](one_rank& it) { it.run(0); });
  all.add_auxiliary();
  return all.explore(true);
}

/// The auxiliary thread is told to end.
models::report stop_of_auxiliary(const circumstances& around) {
  rank_model all(around, act::receives, act::nothing);
  all.add("application", [](one_rank& it) {
    it.start(0);
    it.wait(0);
    it.stop.store(true);
    it.drives.wake_auxiliary();
  });
  all.add_sender(0);
  all.add_auxiliary();
  return all.explore(false);
}

/// Arithmetic on the lane, for a thread that waits.
models::report job_for_waiter(const circumstances& around) {
  rank_model all(around, act::computes, act::nothing);
  all.add_worker("worker");
  all.add("waiter", [](one_rank& it) {
    it.run(0);
    models::require(it.landing == std::byte{1}, "a round is over before its arithmetic");
  });
  return all.explore(false);
}

/// Arithmetic on the lane while the application computes: the auxiliary thread must hear of its end.
models::report job_for_auxiliary(const circumstances& around) {
  rank_model all(around, act::computes, act::nothing);
  all.add_worker("worker");
  all.add("application", [](one_rank& it) { it.start(0); });
  all.add_auxiliary();
  return all.explore(true);
}

/// Two workers, one of which may be left over from the first job when the second is put up.
models::report job_after_job(const circumstances& around) {
  rank_model all(around, act::computes, act::computes);
  all.add_worker("worker 0");
  all.add_worker("worker 1");
  all.add("waiter", [](one_rank& it) {
    it.run(0);
    it.landing = std::byte{0};
    it.run(1);
    models::require(it.landing == std::byte{1}, "a round is over before its arithmetic");
  });
  return all.explore(false);
}

/// The end of a lane: what a late worker may not touch any more is the bell.
models::report end_of_lane(const circumstances& around) {
  rank_model all(around, act::computes, act::nothing);
  all.add_worker("worker");
  all.add("application", [](one_rank& it) {
    it.run(0);
    it.beside.board.close();
    it.give_bell_away();
  });
  return all.explore(false);
}

// Over a time-driven medium: who is to look at messages naps.

/// A message for a thread that waits, and nobody else does.
models::report nap_of_waiter(const circumstances& around) {
  rank_model all(around, act::receives, act::nothing, medium::time_driven);
  all.add_sender(0);
  all.add("waiter", [](one_rank& it) { it.run(0); });
  return all.explore(false);
}

/// A message while the application computes. Its start finds the auxiliary thread about to sleep, asleep or not there.
models::report nap_of_auxiliary(const circumstances& around) {
  rank_model all(around, act::receives, act::nothing, medium::time_driven);
  all.add_sender(0);
  all.add("application", [](one_rank& it) { it.start(0); });
  all.add_auxiliary();
  return all.explore(true);
}

/// The same, but the application has the engine while it prepares its call.
models::report nap_and_call(const circumstances& around) {
  rank_model all(around, act::receives, act::nothing, medium::time_driven);
  all.add_sender(0);
  all.add("application", [](one_rank& it) { it.call(0); });
  all.add_auxiliary();
  return all.explore(true);
}

/// A waiter naps beside the auxiliary thread.
models::report nap_of_both(const circumstances& around) {
  rank_model all(around, act::receives, act::nothing, medium::time_driven);
  all.limit_early_naps();
  all.add_sender(0);
  all.add("waiter", [](one_rank& it) { it.run(0); });
  all.add_auxiliary();
  return all.explore(true);
}

/// A waiter that napped leaves, and a round is still under way: the auxiliary thread naps from then on.
models::report nap_handed_over(const circumstances& around) {
  rank_model all(around, act::receives, act::receives, medium::time_driven);
  all.limit_early_naps();
  all.add_sender_of_two();
  all.add("application", [](one_rank& it) {
    it.start(0);
    it.run(1);
  });
  all.add_auxiliary();
  return all.explore(true);
}

/// One waiter naps, the other sleeps until the first leaves.
models::report nap_of_two_waiters(const circumstances& around) {
  rank_model all(around, act::receives, act::receives, medium::time_driven);
  all.limit_early_naps();
  all.add_sender_of_two();
  all.add("waiter 0", [](one_rank& it) { it.run(0); });
  all.add("waiter 1", [](one_rank& it) { it.run(1); });
  return all.explore(false);
}

// Where no core is free for the auxiliary thread: it leaves rounds to their callers, and looks from time to time.

/// A message while the application computes and does not come back.
models::report look_at_round(const circumstances& around) {
  rank_model all(around, act::receives, act::nothing, medium::rings, cores::taken);
  all.add_sender(0);
  all.add("application", [](one_rank& it) { it.start(0); });
  all.add_auxiliary();
  return all.explore(true);
}

/// The application comes back for its round.
models::report left_to_caller(const circumstances& around) {
  rank_model all(around, act::receives, act::nothing, medium::rings, cores::taken);
  all.limit_early_naps();
  all.add_sender(0);
  all.add("application", [](one_rank& it) {
    it.start(0);
    it.wait(0);
  });
  all.add_auxiliary();
  return all.explore(true);
}

const models::known_world k_worlds[] = {
    models::known_world({"look at round", look_at_round}),
    models::known_world({"left to caller", left_to_caller}),
    models::known_world({"job for waiter", job_for_waiter}),
    models::known_world({"job for auxiliary", job_for_auxiliary}),
    models::known_world({"job after job", job_after_job}),
    models::known_world({"end of lane", end_of_lane}),
    models::known_world({"message for waiter", message_for_waiter}),
    models::known_world({"messages for waiter", messages_for_waiter}),
    models::known_world({"engine for waiter", engine_for_waiter}),
    models::known_world({"cancellation for waiter", cancellation_for_waiter}),
    models::known_world({"cancellation or message", cancellation_or_message}),
    models::known_world({"cancellation for auxiliary", cancellation_for_auxiliary}),
    models::known_world({"cancellation by a thread", cancellation_by_a_thread}),
    models::known_world({"message for auxiliary", message_for_auxiliary}),
    models::known_world({"message for call", message_for_call}),
    models::known_world({"two calls", two_calls}),
    models::known_world({"two waiters", two_waiters}),
    models::known_world({"one gives up", one_gives_up}),
    models::known_world({"two posts", two_posts}),
    models::known_world({"two runs", two_runs}),
    models::known_world({"posts and steps", posts_and_steps}),
    models::known_world({"round after round", round_after_round}),
    models::known_world({"waiter and starter", waiter_and_starter}),
    models::known_world({"waiter and auxiliary", waiter_and_auxiliary}),
    models::known_world({"stop of auxiliary", stop_of_auxiliary}),
    models::known_world({"nap of waiter", nap_of_waiter}),
    models::known_world({"nap of auxiliary", nap_of_auxiliary}),
    models::known_world({"nap and call", nap_and_call}),
    models::known_world({"nap of both", nap_of_both}),
    models::known_world({"nap handed over", nap_handed_over}),
    models::known_world({"nap of two waiters", nap_of_two_waiters}),
};

}  // namespace
}  // namespace lsched
