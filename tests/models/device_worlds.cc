// Worlds with a device beside the rank of one_rank.h. Jobs end, and streams reach gates, while no thread polls. The
// device does only what its contract requires (libsched/engine/device.h, round_gate.h). It rings the doorbell for an
// event only if a thread has armed the device before the event. The code that rings is a copy of the host function in
// offload/cuda/streams/gpu_bell.cc. CMakeLists.txt checks that both agree.
//
// A nap is a sleep with a short timeout. Threads may nap only in worlds in which a ring is lost, rings are refused, or
// no core is free. In all other worlds, only rings wake sleeping threads.
#include "tests/models/one_rank.h"

namespace lsched {
namespace {

enum class ringing : std::uint8_t { works, is_lost, is_refused };

/// Events of a device, which happen one after the other, as in a stream. An event rings the doorbell if a thread has
/// armed the event.
class event_row {
 public:
  explicit event_row(doorbell& bell) : bell_(bell) {}

  void put() {
    put_.fetch_add(1);
    models::futex(0, &put_, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  }
  std::uint64_t passed() const { return passed_.load(); }
  bool arm(std::uint64_t number) {
    if (rings != ringing::is_refused) armed_.store(number);
    return rings != ringing::is_refused;
  }

  /// Completes `most` events. Completes each event as soon as it was added. The device's thread calls this function.
  void serve(std::uint64_t most) {
    for (std::uint64_t number = 1; number <= most; ++number) {
      for (std::uint64_t seen; (seen = put_.load()) < number;)
        models::futex(0, &put_, FUTEX_WAIT, static_cast<long>(seen), nullptr, nullptr, 0);
      passed_.store(number);
      if (armed_.load() == number && rings == ringing::works) ring_if_needed(bell_);
    }
  }

  models::word* passed_word() { return &passed_; }
  models::word* armed_word() { return &armed_; }
  ringing rings = ringing::works;

 private:
  doorbell& bell_;
  std::atomic<std::uint64_t> put_{0}, passed_{0}, armed_{0};
};

/// A gate. Each round of the gate waits for one event of a stream.
class row_gate final : public round_gate {
 public:
  explicit row_gate(doorbell& bell) : stream(bell) {}

  status ask(void*, round_no round) override {
    models::point();
    asked_ = round;
    stream.put();
    return status::ok;
  }
  status wait(void*, round_no) override { return status::unsupported; }
  status is_open(round_no round) override {
    models::require(round <= asked_, "a round is checked without a request");
    return stream.passed() >= round ? status::ok : status::pending;
  }
  bool arm(round_no round) override { return stream.arm(round); }
  void release(round_no round) override {  // repeats stream_words::raise
    round_no now = released.load();
    while (now < round && !released.compare_exchange_weak(now, round)) continue;
  }

  event_row stream;
  std::atomic<round_no> released{0};

 private:
  round_no asked_ = 0;  ///< latest round passed to ask(); ask() precedes the call for the round
};

constexpr std::size_t k_rows = 2;

/// A device with one row of jobs per instance, or with one row for both instances.
class rows_device final : public device, public device_memory {
 public:
  explicit rows_device(doorbell& bell) : bell_(bell), rows{event_row(bell), event_row(bell)} {}

  std::string name() const override { return "rows"; }
  device_memory& memory() override { return *this; }
  result<memory_space> space_of(const std::byte*, std::uint64_t) const override { return memory_space::device; }
  std::byte* allocate(memory_space, std::uint64_t) override { return nullptr; }
  void deallocate(std::byte*) override {}
  std::byte* lend(std::uint64_t) override { return nullptr; }
  bool take_back(std::byte*) override { return false; }
  status copy_at_once(std::byte*, const std::byte*, std::uint64_t) override { return status::ok; }
  status reserve(std::uint32_t, std::uint64_t) override { return status::ok; }
  void unreserve(std::uint32_t) override {}
  bool reaches(const std::byte*, std::uint64_t) override { return true; }

  void submit(const device_job& job) override {
    const std::size_t which = has_one_row ? 0 : (job.cookie >> 32) % k_rows;
    cookies_[which][put_[which]++] = job.cookie;
    rows[which].put();
  }
  std::size_t poll(std::span<std::uint64_t> out) override {
    std::size_t count = 0;
    for (std::size_t i = 0; i < k_rows; ++i)
      while (taken_[i] < put_[i] && taken_[i] < rows[i].passed()) out[count++] = cookies_[i][taken_[i]++];
    return count;
  }
  bool arm() override {
    bool all = true;
    for (std::size_t i = 0; i < k_rows; ++i)
      if (taken_[i] < put_[i]) all = rows[i].arm(taken_[i] + 1) && all;
    return all;
  }
  std::unique_ptr<round_gate> make_gate() override { return std::make_unique<row_gate>(bell_); }
  status health() const override { return status::ok; }
  std::string failure_words() const override { return {}; }
  void drain() override {}

 private:
  doorbell& bell_;
  std::uint64_t cookies_[k_rows][2]{};
  std::uint64_t put_[k_rows]{}, taken_[k_rows]{};

 public:
  event_row rows[k_rows];
  bool has_one_row = false;
};

device* make_rows(doorbell& bell) { return new rows_device(bell); }

class device_model : public rank_model {
 public:
  device_model(const circumstances& around, act first, act second = act::nothing, ringing how = ringing::works,
               cores have = cores::free)
      : rank_model(around, first, second, medium::rings, have, make_rows),
        gpu(*static_cast<rows_device*>(here->gpu)),
        around_(around) {
    models::caps_naps = how == ringing::is_lost;
    if (how == ringing::works && have == cores::free) forbid_naps();
    for (event_row& row : gpu.rows) row.rings = how;
    for (event_row& row : gpu.rows) know(row);
  }
  ~device_model() { models::caps_naps = true; }
  device_model(const device_model&) = delete;
  device_model& operator=(const device_model&) = delete;

  /// Adds a thread of the device that completes `jobs` jobs of a row.
  void add_row(std::size_t which, std::uint64_t jobs = 1) {
    add_other("device " + std::to_string(which), [row = &gpu.rows[which], jobs] { row->serve(jobs); });
  }
  /// Adds a gate to an instance, so that rounds of the instance can wait for a stream.
  row_gate& add_gate(int which) {
    set_up([&] { models::require(here->runs.add_gate(*here->it[which]) == status::ok, "there is no gate"); });
    auto& made = static_cast<row_gate&>(*here->it[which]->device->gate);
    know(made.stream);
    return made;
  }
  /// Adds a stream that reaches the gate `rounds` times, once for each round.
  void add_stream(row_gate& gate, std::uint64_t rounds = 1) {
    add_other("stream", [&gate, rounds] { gate.stream.serve(rounds); });
  }

  /// Expects that no round of the instance ends before the stream has reached the gate of the round.
  void expect_order(int which, const row_gate& gate) {
    expect([it = here->it[which], &gate] {
      return it->finished.load() > gate.stream.passed() ? "a round does not wait for its stream" : "";
    });
  }

  rows_device& gpu;

 private:
  void know(event_row& row) {
    rank_model::know(row.passed_word(), "event", around_);
    rank_model::know(row.armed_word(), "armed", around_);
  }

  const circumstances& around_;
};

void start_behind(one_rank& it, int which) {
  round_no round = 0;
  models::require(it.drives.start_behind(*it.it[which], nullptr, &round) == status::ok, "a start fails");
}

// --- jobs ------------------------------------------------------------------------------------------------------------

/// A thread waits for a job.
template <ringing How>
models::report job_for_waiter(const circumstances& around) {
  device_model all(around, act::computes_on_device, act::nothing, How);
  all.add_row(0);
  all.add("waiter", [](one_rank& it) { it.run(0); });
  return all.explore();
}

/// A job ends while the application computes. The auxiliary thread must notice the end.
template <ringing How>
models::report job_for_auxiliary(const circumstances& around) {
  device_model all(around, act::computes_on_device, act::nothing, How);
  if (How == ringing::is_lost) all.count_long_naps();
  all.add_row(0);
  all.add("application", [](one_rank& it) { it.start(0); });
  all.add_auxiliary();
  return all.explore("auxiliary");
}

/// No core is free. The auxiliary thread leaves the round to the thread that has started it, and polls only from time
/// to time.
models::report job_left_to_caller(const circumstances& around) {
  device_model all(around, act::computes_on_device, act::nothing, ringing::works, cores::taken);
  all.add_row(0);
  all.add("application", [](one_rank& it) { it.start(0); });
  all.add_auxiliary();
  return all.explore("auxiliary");
}

/// A thread waits for the second of two jobs. The device rings for the first job.
models::report job_behind_job_for_waiter(const circumstances& around) {
  device_model all(around, act::computes_on_device, act::computes_on_device);
  all.gpu.has_one_row = true;
  all.add_row(0, 2);
  all.add("waiter", [](one_rank& it) {
    it.start(0);
    it.run(1);
  });
  return all.explore();
}

/// The second job ends. The first job, for which a thread waits, does not end.
models::report job_beside_job_for_waiter(const circumstances& around) {
  device_model all(around, act::computes_on_device, act::computes_on_device);
  all.leave_open(0);
  all.add_row(1);
  all.add("waiter", [](one_rank& it) { it.run(0); });
  all.add("starter", [](one_rank& it) { it.start(1); });
  return all.explore("waiter");
}

/// A second job is submitted while the first job is in flight. The auxiliary thread may be asleep, waiting for the
/// first job.
models::report job_behind_job(const circumstances& around) {
  device_model all(around, act::computes_on_device, act::computes_on_device);
  all.gpu.has_one_row = true;
  all.add_row(0, 2);
  all.add("application", [](one_rank& it) {
    it.start(0);
    it.start(1);
  });
  all.add_auxiliary();
  return all.explore("auxiliary");
}

/// The second job ends. The first job does not end.
models::report job_beside_job(const circumstances& around) {
  device_model all(around, act::computes_on_device, act::computes_on_device);
  all.leave_open(0);
  all.add_row(1);
  all.add("application", [](one_rank& it) {
    it.start(0);
    it.start(1);
  });
  all.add_auxiliary();
  return all.explore("auxiliary");
}

/// One thread waits for a message. Another thread starts a job on the device, and then computes.
models::report waiter_and_starter(const circumstances& around) {
  device_model all(around, act::receives, act::computes_on_device);
  all.leave_open(0);
  all.add_row(1);
  all.add("waiter", [](one_rank& it) { it.run(0); });
  all.add("starter", [](one_rank& it) { it.start(1); });
  return all.explore("waiter");
}

// --- gates -----------------------------------------------------------------------------------------------------------

/// A stream reaches a gate while a thread waits for the round behind the gate.
models::report gate_for_waiter(const circumstances& around) {
  device_model all(around, act::nothing);
  all.add_stream(all.add_gate(0));
  all.add("waiter", [](one_rank& it) {
    start_behind(it, 0);
    it.wait(0);
  });
  return all.explore();
}

/// A stream reaches a gate while the application computes. The round must begin and end.
template <ringing How>
models::report gate_for_auxiliary(const circumstances& around) {
  device_model all(around, act::nothing, act::nothing, How);
  if (How == ringing::is_lost) all.count_long_naps();
  row_gate& gate = all.add_gate(0);
  gate.stream.rings = How;
  all.add_stream(gate);
  all.expect_order(0, gate);
  all.add("application", [](one_rank& it) { start_behind(it, 0); });
  all.add_auxiliary();
  return all.explore("auxiliary");
}

/// A round with a job on the device waits at a gate.
models::report job_behind_gate(const circumstances& around) {
  device_model all(around, act::computes_on_device);
  row_gate& gate = all.add_gate(0);
  all.add_stream(gate);
  all.add_row(0);
  all.expect_order(0, gate);
  all.add("application", [](one_rank& it) { start_behind(it, 0); });
  all.add_auxiliary();
  return all.explore("auxiliary");
}

/// Two rounds are requested in advance, and a thread waits for the second round.
models::report gate_behind_gate_for_waiter(const circumstances& around) {
  device_model all(around, act::nothing);
  row_gate& gate = all.add_gate(0);
  all.add_stream(gate, 2);
  all.expect_order(0, gate);
  all.add("waiter", [](one_rank& it) {
    start_behind(it, 0);
    start_behind(it, 0);
    it.wait(0, 2);
  });
  return all.explore();
}

/// Another thread polls once while two rounds are requested.
models::report gate_and_stepper(const circumstances& around) {
  device_model all(around, act::nothing);
  all.leave_open(0);
  row_gate& gate = all.add_gate(0);
  all.add_stream(gate, 2);
  all.expect_order(0, gate);
  all.add("application", [](one_rank& it) {
    start_behind(it, 0);
    start_behind(it, 0);
  });
  all.add("stepper", [](one_rank& it) { it.drives.progress(); });
  return all.explore();
}

/// The second stream reaches its gate. A thread waits for a round behind the first stream, which does not reach its
/// gate.
models::report gate_beside_gate_for_waiter(const circumstances& around) {
  device_model all(around, act::nothing, act::nothing);
  all.leave_open(0);
  (void)all.add_gate(0);
  row_gate& gate = all.add_gate(1);
  all.add_stream(gate);
  all.expect_order(1, gate);
  all.add("waiter", [](one_rank& it) {
    start_behind(it, 0);
    it.wait(0);
  });
  all.add("starter", [](one_rank& it) { start_behind(it, 1); });
  return all.explore("waiter");
}

/// Two rounds are requested in advance.
models::report gate_behind_gate(const circumstances& around) {
  device_model all(around, act::nothing);
  row_gate& gate = all.add_gate(0);
  all.add_stream(gate, 2);
  all.expect_order(0, gate);
  all.add("application", [](one_rank& it) {
    start_behind(it, 0);
    start_behind(it, 0);
  });
  all.add_auxiliary();
  return all.explore("auxiliary");
}

/// The second stream reaches its gate. The first stream does not reach its gate.
models::report gate_beside_gate(const circumstances& around) {
  device_model all(around, act::nothing, act::nothing);
  all.leave_open(0);
  (void)all.add_gate(0);
  row_gate& gate = all.add_gate(1);
  all.add_stream(gate);
  all.expect_order(1, gate);
  all.add("application", [](one_rank& it) {
    start_behind(it, 0);
    start_behind(it, 1);
  });
  all.add_auxiliary();
  return all.explore("auxiliary");
}

/// A thread cancels the instance while a round waits for a stream, or is about to wait. Streams that wait for the round
/// must continue.
models::report cancellation_at_gate(const circumstances& around) {
  device_model all(around, act::nothing);
  row_gate& gate = all.add_gate(0);
  all.add("application", [](one_rank& it) {
    round_no round = 0;
    (void)it.drives.start_behind(*it.it[0], nullptr, &round);
    if (it.it[0]->verdict.load() != status::ok)
      it.it[0]->device->gate->release(it.it[0]->called.load());  // the same call as in bindings/c
  });
  all.add("canceller", [](one_rank& it) { it.cancel(0); });
  all.expect_at_end([it = all.here, &gate] {
    return gate.released.load() < it->it[0]->called.load() ? "a stream waits for a round that was given up" : "";
  });
  return all.explore();
}

const models::known_world k_worlds[] = {
    models::known_world({"device job for waiter", job_for_waiter<ringing::works>}),
    models::known_world({"device job for auxiliary", job_for_auxiliary<ringing::works>}),
    models::known_world({"job left to caller", job_left_to_caller}),
    models::known_world({"job behind job for waiter", job_behind_job_for_waiter}),
    models::known_world({"job beside job for waiter", job_beside_job_for_waiter}),
    models::known_world({"job behind job", job_behind_job}),
    models::known_world({"job beside job", job_beside_job}),
    models::known_world({"device and waiter", waiter_and_starter}),
    models::known_world({"lost ring for waiter", job_for_waiter<ringing::is_lost>}),
    models::known_world({"lost ring for auxiliary", job_for_auxiliary<ringing::is_lost>}),
    models::known_world({"lost ring at gate", gate_for_auxiliary<ringing::is_lost>}),
    models::known_world({"no ring for waiter", job_for_waiter<ringing::is_refused>}),
    models::known_world({"no ring for auxiliary", job_for_auxiliary<ringing::is_refused>}),
    models::known_world({"no ring at gate", gate_for_auxiliary<ringing::is_refused>}),
    models::known_world({"gate for waiter", gate_for_waiter}),
    models::known_world({"gate for auxiliary", gate_for_auxiliary<ringing::works>}),
    models::known_world({"job behind gate", job_behind_gate}),
    models::known_world({"gate behind gate for waiter", gate_behind_gate_for_waiter}),
    models::known_world({"gate and stepper", gate_and_stepper}),
    models::known_world({"gate beside gate for waiter", gate_beside_gate_for_waiter}),
    models::known_world({"gate behind gate", gate_behind_gate}),
    models::known_world({"gate beside gate", gate_beside_gate}),
    models::known_world({"cancellation at gate", cancellation_at_gate}),
};

}  // namespace
}  // namespace lsched
