// Many ranks in one thread: real engines over the inproc transport, stepped in a seeded order.
//
// The seed determines the order of steps and the delay of every message. It also determines which ranks have lanes
// (executors of compute jobs), and how these lanes behave. Therefore a failing run can be replayed by its seed. No call
// blocks. A run that needs more steps than its limit counts as a hang and fails the test. The error text then lists the
// event for which each rank waits.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "libsched/engine/engine.h"
#include "tests/support/fake_lane.h"
#include "tests/support/home_commits.h"
#include "tests/support/inproc.h"
#include "tests/support/stepped_device.h"

namespace lsched::testing {

class lockstep_world {
 public:
  enum class lanes : std::uint8_t { drawn, none, all };

  lockstep_world(rank ranks, std::uint64_t seed, inproc_options net = {}, lanes which = lanes::drawn);
  ~lockstep_world();
  lockstep_world(const lockstep_world&) = delete;
  lockstep_world& operator=(const lockstep_world&) = delete;

  rank size() const { return static_cast<rank>(engines_.size()); }
  engine& at(rank r) { return *engines_[static_cast<std::size_t>(r)]; }
  home_commits& commits_of(rank r) { return *commits_[static_cast<std::size_t>(r)]; }
  inproc_world& net() { return net_; }

  /// Returns the lane of a rank, or nullptr.
  fake_lane* lane_of(rank r) { return lanes_[static_cast<std::size_t>(r)].get(); }

  /// Gives a device to a rank that has no device yet.
  stepped_device& give_device(rank r);

  /// The result of a commit on one rank.
  struct outcome {
    instance* it = nullptr;
    failure why{status::ok, {}, k_no_rank, k_no_op};
  };
  using request_of = std::function<commit_request(rank)>;

  /// Commits a schedule on all ranks. The ranks begin at random times while the engines step.
  std::vector<outcome> try_commit(const request_of& what);

  /// Commits a schedule on all ranks. If the commit fails on a rank, the test fails and the result is empty.
  std::vector<instance*> commit(const request_of& what);

  /// Steps the engine of a random rank. If that rank is dead or skips its turn, only the clock advances.
  void step();

  /// Steps until `is_done` returns true. Fails the test and returns false after `most_steps` steps, or if the caller of
  /// an endpoint breaks an invariant. If `most_steps` is 0, the limit is long enough for every chain of messages
  /// through all ranks.
  bool run_until(const std::function<bool()>& is_done, std::uint64_t most_steps = 0);

  /// Steps until, for many steps, no engine has made progress and no message was in flight.
  void settle();

  /// Starts a round of an ordinary instance, as the driver does.
  static void start(engine& where, instance& it);

  /// Starts a round on all ranks in random order, with steps between the starts. Then steps until the round has ended
  /// on all ranks.
  bool run_round(const std::vector<instance*>& its);

  /// Removes an instance on all ranks. If an engine refuses, the test fails.
  void remove(const std::vector<instance*>& its);

  /// Makes describe() ignore an instance that the test itself has removed.
  void forget(rank r, const instance* it);

  /// Kills a rank, which then takes no more steps.
  void kill(rank r);

  /// Slows down a rank: on average, the rank steps in one of `one_in` turns.
  void set_pace(rank r, std::uint32_t one_in) { pace_[static_cast<std::size_t>(r)] = one_in; }

  std::uint64_t draw();
  std::uint64_t draw_below(std::uint64_t limit) { return draw() % limit; }

  /// Returns a text with the seed, and with the event for which each instance of each rank waits.
  std::string describe() const;

 private:
  rank draw_rank() { return static_cast<rank>(draw_below(engines_.size())); }

  std::uint64_t seed_;
  std::uint64_t draws_ = 0;
  inproc_world net_;
  std::vector<std::unique_ptr<endpoint>> ends_;
  std::vector<std::unique_ptr<fake_lane>> lanes_;
  std::vector<std::unique_ptr<stepped_device>> devices_;
  std::vector<std::unique_ptr<engine>> engines_;
  std::vector<std::unique_ptr<home_commits>> commits_;
  std::vector<std::vector<instance*>> committed_;  ///< committed instances, by rank; used by describe()
  std::vector<std::uint32_t> pace_;
  std::vector<bool> is_dead_;
  bool moved_ = false;
};

}  // namespace lsched::testing
