// A rank for the explorer, with the library's driver, job board, engine and doorbell. Scenarios add the threads that
// docs/inside/threading.md describes. A file that includes this header compiles the library's code once more, and must
// include this header first.
//
// Everything except the transport is the library's own code. To send, a thread stores a stamp, and records that it must
// check the receiver's doorbell. The shm endpoint sends by the same two lines of code, and CMakeLists.txt checks that
// the lines agree. The thread checks the doorbell later, when it has nothing else to do. A time-driven transport, such
// as the MPI endpoint, stores a stamp but never rings. Sockets (explored_sockets.h) ring only by their watcher. In most
// scenarios the senders are threads that only send. Scenarios in which an engine sends have two ranks.
#pragma once

#include "tests/models/explored_std.h"

#include "libsched/analysis/buffer_swap.cc"
#include "libsched/analysis/order.cc"
#include "libsched/analysis/segments.cc"
#include "libsched/engine/engine.cc"
#include "libsched/engine/engine_device.cc"
#include "libsched/engine/engine_diagnosis.cc"
#include "libsched/engine/engine_failure.cc"
#include "libsched/engine/engine_functions.cc"
#include "libsched/engine/engine_partial.cc"
#include "libsched/engine/engine_reserve.cc"
#include "libsched/engine/list_state.cc"
#include "libsched/engine/partial_state.cc"
#include "libsched/partial/contribution.cc"
#include "libsched/partial/partial_stats.cc"
#include "libsched/transport/doorbell.cc"
#include "libsched/transport/shm/shm_claim.h"
#include "offload/driver.cc"
#include "offload/idle_policy.cc"
#include "offload/job_board.cc"
#include "ops/op.cc"

#include "tests/models/explored_sockets.h"
#include "tests/models/worlds.h"

namespace lsched {

// Functions that the engine needs. The files that define these functions are compiled only in the namespace of the
// unchanged library.
std::uint64_t most_bytes(const schedule&, const op& what) { return what.count * size_of(what.type); }
std::uint64_t typical_bytes(const schedule& program, const op& what) { return most_bytes(program, what); }
bool is_on_device(const op& what, std::span<const buffer> buffers) {
  return what.c.exists() && buffers[what.c.buffer()].space == memory_space::device;
}
operand_list operands_of(const op& what, std::span<const buffer>) { return own_operands_of(what); }
kernel_fn find(kernel, dtype) {  // other threads may run while the kernel runs
  return [](const kernel_call& call) {
    models::point();
    *call.c = std::byte{1};
  };
}
// No scenario combines contributions, so there are no sums, means or Adasum.
reduce_fn find_reduce(kernel, dtype) { return nullptr; }
multiply_fn find_multiply(dtype) { return nullptr; }
convert_fn find_convert(dtype, dtype) { return nullptr; }
dot_norms_fn find_dot_norms(dtype) { return nullptr; }
scaled_add_fn find_scaled_add(dtype) { return nullptr; }
adasum_coefficients adasum_coefficients_of(const double*) { return {}; }
std::vector<std::uint32_t> shared_sources(const schedule& it) { return std::vector<std::uint32_t>(it.ops().size()); }
// According to these stubs, each caller runs on a separate core.
int this_thread_number() { return 1; }
bool is_asleep(int) { return false; }
std::string_view name_of(status) { return ""; }
std::string_view text_of(status) { return ""; }

namespace {

using models::circumstances;
using models::patience;
using models::threads;

constexpr std::uint32_t k_links = 2;

enum class medium : std::uint8_t { rings, time_driven, sockets };
enum class cores : std::uint8_t { free, taken };

/// A transport that moves landing stamps (round numbers), but no payloads.
class stamps final : public endpoint, public endpoint_memory {
 public:
  explicit stamps(medium what) : stamps(what, what == medium::sockets ? new net_watcher : nullptr) {}
  stamps(medium what, net_watcher* for_sockets)
      : endpoint({0, 2}, "stamps", {.memory = this, .direct = for_sockets}),
        watcher(for_sockets),
        is_time_driven_(what == medium::time_driven) {
    if (watcher == nullptr) return;
    g_kernel = new explored_sockets;
    models::require(static_cast<bool>(watcher->start(0, bell_)), "the watcher does not start");
  }

  // --- called by threads of other ranks --------------------------------------------------------------------
  void publish(link_id link, round_no round, ringer& owing) {
    if (watcher != nullptr) return g_kernel->set(std::uint64_t{1} << link);
    stamp[link].store(round, std::memory_order_release);
    if (!is_time_driven_) owing.owe(0, bell_);
  }

  void publish_cancellation(std::uint32_t id) {
    given_up.store(id + 1);
    ring(bell_, doorbell::waiter, INT_MAX);
    ring(bell_, doorbell::auxiliary);
  }

  // --- called by this rank ---------------------------------------------------------------------------------
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
  void cancel(std::uint32_t id, const end_reason&) override { publish_cancellation(id); }
  void close_to_readers(std::uint32_t, const end_reason& reason) override { closed.record(reason); }
  void abandon(std::uint32_t) override { std::ranges::fill(awaited_, 0); }
  status check_readers(std::uint32_t, rank* reader) override {
    *reader = 1;
    return claim.is_held() ? status::pending : status::ok;
  }
  bool send(link_id link, round_no round, const message&) override {
    peer->publish(link, round, ringer_);
    return true;
  }
  bool fetch(link_id, round_no, message_target, arrival&) override { return true; }
  bool receive(link_id link, round_no round, message_target into, arrival& out) override {
    if (has_arrived(link, round)) {
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
    if (watcher != nullptr) pump();
    if (const std::uint64_t now = given_up.load(); now != std::exchange(given_up_seen_, now))
      report_cancelled({static_cast<std::uint32_t>(now - 1), {1}});
    std::size_t found = 0;
    for (link_id link = 0; link < attached_; ++link) {
      if (awaited_[link] == 0 || !has_arrived(link, awaited_[link])) continue;
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
  std::atomic<std::uint64_t> given_up;  ///< id of the cancelled instance, plus one; 0 if no instance is cancelled
  net_watcher* const watcher;           ///< null unless the messages come by sockets
  stamps* peer = nullptr;
  shm_claim claim;  ///< claim that a peer holds while it reads this rank's memory
  end_word closed;

 private:
  // Reads the sockets, and then arms the watcher if a thread will sleep. net_endpoint::pump() ends by the same line of
  // code.
  void pump() {
    const std::uint64_t messages = g_kernel->take(explored_sockets::k_bytes);
    for (link_id link = 0; link < k_links; ++link)
      if ((messages >> link & 1) != 0) landed_[link] = 1;
    if (has_sleeper(bell_)) watcher->arm();
  }
  bool has_arrived(link_id link, round_no round) const {
    return (watcher != nullptr ? landed_[link] : stamp[link].load()) >= round;
  }

  const bool is_time_driven_;
  ringer ringer_{1};
  bool is_inside_ = false;
  std::uint32_t attached_ = 0;
  std::uint64_t cookies_[k_links]{};
  round_no awaited_[k_links]{};
  round_no landed_[k_links]{};  ///< last round that was read from the sockets
  std::uint64_t given_up_seen_ = 0;
  doorbell bell_{};
};

/// A lane (executor of compute jobs) whose workers are threads of the scenario.
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

/// The action of a schedule's only op. The op receives or sends a message, computes on the lane or on the device, or
/// does nothing. If the act is `awaits_grace`, the schedule is partial, and a round starts some time after the call.
enum class act : std::uint8_t { nothing, receives, sends, computes, computes_on_device, awaits_grace };

/// A function that creates the device of a rank. The device rings the doorbell that is passed to the function.
using device_maker = device* (*)(doorbell&);

schedule_ptr with_grace() {
  schedule::parts parts;
  parts.place = {0, 2};
  parts.ops = {{.kind = op_kind::signal_recv, .peer = 0, .tag = k_call_tag},
               {.kind = op_kind::signal_recv, .peer = 0, .need = 1, .tag = k_grace_tag},
               {.kind = op_kind::capture, .what = kernel::sum, .need = 1, .count = 1, .c = region(0, 0)}};
  parts.first = {0, 1, 2, 2};
  parts.next = {1, 2};
  parts.roots = {0};
  parts.exit = 2;
  parts.buffers = {{.role = buffer_role::input, .count = 1}, {.role = buffer_role::output, .count = 1}};
  parts.starts = {.policy = activation_policy::quorum, .number = 1, .grace_us = 500};
  return std::make_shared<const schedule>(std::move(parts));
}

schedule_ptr one_op(act what) {
  if (what == act::awaits_grace) return with_grace();
  schedule::parts parts;
  parts.place = {0, 2};
  parts.first = {0, 0};
  parts.roots = {0};
  parts.exit = 0;
  op it;
  const memory_space space = what == act::computes_on_device ? memory_space::device : memory_space::host;
  if (what != act::nothing) parts.buffers.push_back({.role = buffer_role::output, .space = space, .count = 1});
  if (what == act::receives) it = {.kind = op_kind::recv, .peer = 1, .count = 1, .c = region(0, 0)};
  if (what == act::sends) it = {.kind = op_kind::send, .peer = 1, .count = 1, .a = region(0, 0)};
  if (what == act::computes || what == act::computes_on_device)
    it = {.kind = op_kind::compute, .what = kernel::sum, .count = 1, .a = {0, 0}, .b = {0, 0}, .c = {0, 0}};
  parts.ops.push_back(it);
  return std::make_shared<const schedule>(std::move(parts));
}

/// A rank with two instances, an engine and the driver of the engine.
struct one_rank {
  explicit one_rank(act first, act second, medium what = medium::rings, cores have = cores::free,
                    device_maker make = nullptr)
      : net(what), beside(net.bell()), runs(net, &beside), drives(runs, {.are_cores_taken = have == cores::taken}) {
    if (make != nullptr) drives.attach(*(gpu = make(net.bell())));
    it[0] = add(first);
    it[1] = add(second);
  }
  instance* add(act what) {
    const bool has_memory = what != act::nothing && what != act::awaits_grace;
    instance* made = *runs.add(one_op(what), has_memory ? binding{{}, {&landing}} : binding{}, {});
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
  void wait(int which, round_no round = 1) {
    models::require(drives.wait(*it[which], round, never) == status::ok, "a wait fails");
  }
  void wait_in_vain(int which) {
    constexpr auto soon = driver::clock::time_point(std::chrono::hours(1));
    models::require(drives.wait(*it[which], 1, soon) == status::timeout, "a wait for nothing succeeds");
  }
  void wait_a_while(int which) {
    constexpr auto soon = driver::clock::time_point(std::chrono::hours(1));
    const status answer = drives.wait(*it[which], 1, soon);
    models::require(answer == status::ok || answer == status::timeout, "a wait fails");
  }
  void run_until_given_up(int which) {
    round_no round = 0;
    const status answer = drives.run(*it[which], &round, never);
    models::require(answer == status::ok || answer == status::cancelled, "a run fails with another error");
  }
  /// Reads this rank's payload, as another rank would.
  void be_read() {
    if (!net.claim.take(1, net.closed)) return;
    models::require(payload == k_payload, "a payload is read after the outcome");
    models::point();
    models::require(payload == k_payload, "the outcome is published while a payload is read");
    net.claim.let_go();
  }
  /// Overwrites the payload, as an application does after it has seen the outcome of the round.
  void reuse_payload() { payload = 0; }

  void cancel(int which) {
    drives.with_engine([this, which] { runs.cancel(*it[which]); });
    models::require(it[which]->verdict.load() == status::cancelled, "a cancel does not end the instance");
  }
  void run(int which) {
    round_no round = 0;
    models::require(drives.run(*it[which], &round, never) == status::ok, "a run fails");
  }

  /// Changes the doorbell so that every check of the doorbell rings it. Afterwards no thread of this rank may check the
  /// doorbell.
  void give_bell_away() {
    rings = net.bell().word[doorbell::waiter].load();
    is_given_away = true;
    net.bell().polling.store(0);
    net.bell().sleepers.store(1);
  }

  static constexpr std::uint64_t k_payload = 7;
  std::uint64_t payload = k_payload;
  static constexpr auto never = driver::clock::time_point::max();
  std::byte landing{};
  stamps net;
  board_lane beside;
  engine runs;
  driver drives;
  instance* it[2]{};
  device* gpu = nullptr;
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> grace_end{0};
  bool is_given_away = false;
  std::uint32_t rings = 0;
};

class rank_model {
 public:
  rank_model(const circumstances& around, act first, act second, medium what = medium::rings, cores have = cores::free,
             device_maker gpu = nullptr)
      : most_(around.most), all(around.model) {
    all.set_up([&] { here = new one_rank(first, second, what, have, gpu); });
    models::sleeps_directly = what == medium::sockets;
    doorbell& bell = here->net.bell();
    know(&bell.word[0], "bell.word[waiter]", around);
    know(&bell.word[1], "bell.word[auxiliary]", around);
    know(&bell.sleepers, "sleepers", around);
    know(&bell.wanted, "wanted", around);
    know(&bell.polling, "polling", around);
    know(&bell.direct, "direct", around);
    if (what == medium::sockets) know(g_kernel->state_word(), "kernel", around);
    know(&here->net.stamp[0], "stamp[0]", around);
    know(&here->net.stamp[1], "stamp[1]", around);
    know(&here->net.given_up, "given_up", around);
    know(&here->stop, "stop", around);
    know(&here->grace_end, "grace_end", around);
    know(&here->drives.alarm_ns_, "alarm", around);
    models::grace_end = &here->grace_end;
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
  /// Adds a sender that sends messages to both instances, and then checks the doorbell once.
  void add_sender_of_two() {
    all.add("sender", [it = here, owing = add_ringer()] {
      for (link_id link = 0; link < k_links; ++link) it->net.publish(link, 1, *owing);
      owing->settle();
    });
  }
  /// Adds a thread that delivers a message by the sockets, and then is the watcher, which sleeps at the end. Call this
  /// function after all other threads were added.
  void add_network(link_id link) {
    all.add("network", [it = here, link] {
      g_kernel->set(std::uint64_t{1} << link);
      it->net.watcher->watch();
    });
    watches_ = true;
  }
  /// Adds another rank that cancels the first instance.
  void add_canceller() {
    all.add("canceller", [it = here] { it->net.publish_cancellation(0); });
  }
  /// Adds another rank, whose engine sends a message.
  void add_sending_rank() {
    one_rank* there = nullptr;
    all.set_up([&] {
      there = new one_rank(act::sends, act::nothing);
      there->net.peer = &here->net;
    });
    all.add("sending rank", [there] { there->start(0); });
  }
  /// Adds a thread that is the time: the grace passes at any moment, and nothing rings.
  void add_time() {
    all.add("time", [it = here] { it->grace_end.store(1); });
  }
  void add_worker(const std::string& name) {
    all.add(name, [it = here] { it->beside.board.serve(); });
  }
  void add_auxiliary() {
    all.add("auxiliary", [it = here] { it->drives.serve(it->stop); });
  }
  /// Replaces the progress thread, to save states. At the end, the round of instance 0 must be finished, or the
  /// progress thread must have been rung.
  void pretend_auxiliary() {
    here->drives.has_auxiliary_.store(true);
    leave_open(0);
    expect_at_end([it = here] {
      const bool is_rung = it->net.bell().word[doorbell::auxiliary].load() != 0;
      return is_rung || it->it[0]->finished.load() == 1 ? "" : "a wake-up is lost: the progress thread was not rung";
    });
  }
  void add(std::string name, void (*body)(one_rank&), patience waits = patience::endless) {
    all.add(
        std::move(name), [it = here, body] { body(*it); }, waits);
  }

  void add_other(std::string name, const std::function<void()>& body) { all.add(std::move(name), body); }
  /// Runs `job` before the threads run.
  void set_up(const std::function<void()>& job) { all.set_up(job); }
  /// Sets a rule, which returns an error or an empty string. The rule of expect() must hold in every state. The rule of
  /// expect_at_end() must hold in states in which no move is possible.
  void expect(std::function<std::string()> rule) { rule_ = std::move(rule); }
  void expect_at_end(std::function<std::string()> rule) { rule_at_end_ = std::move(rule); }
  /// Marks an instance whose round cannot end.
  void leave_open(int which) { open_ = which; }

  /// Makes every nap (a sleep that ends by itself, threads.h) a fault. If every event of a world rings the doorbell, a
  /// nap would hide a missing ring.
  void forbid_naps() { all.forbid_naps(); }
  /// Counts sleeps of up to 50 ms as naps.
  void count_long_naps() { all.count_long_naps(); }
  /// Limits the number of naps that end early (threads.h). Worlds in which two threads nap need this limit, because
  /// each release of the engine rings a registered waiter.
  void limit_early_naps(std::uint64_t most = 2) { all.limit_early_naps(most); }

  /// Explores the world. When no move is possible, both instances must have finished all rounds for which the
  /// application called, and only thread `sleeper` and the watcher may sleep.
  models::report explore(const std::string& sleeper = "") {
    all.expect([this, stays = (watches_ ? "network" : sleeper) + " sleeps"](bool is_last) {
      if (std::string wrong = rule_ ? rule_() : std::string(); !wrong.empty() || !is_last) return wrong;
      const std::string left = all.unfinished();
      if (!left.empty() && left != stays) return "a wake-up is lost: " + left;
      if (here->is_given_away && here->net.bell().word[doorbell::waiter].load() != here->rings)
        return std::string("a worker rings the bell of a later owner");
      for (int i = 0; i < 2; ++i)
        if (const instance& it = *here->it[i];
            i != open_ && it.finished.load() != it.called.load() && it.verdict.load() == status::ok)
          return "a round is not finished, and no thread is awake: " + left;
      return rule_at_end_ ? rule_at_end_() : std::string();
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
  std::function<std::string()> rule_, rule_at_end_;
  bool watches_ = false;  ///< the world has a watcher
  int open_ = -1;         ///< instance whose round cannot end, set by leave_open(); -1 if there is no such instance
  threads all;
};

}  // namespace
}  // namespace lsched
