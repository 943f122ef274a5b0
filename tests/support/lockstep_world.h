// Many ranks in one thread: real engines over the inproc transport, stepped in a seeded order.
//
// The seed decides who steps when, how long every message takes, and which ranks have a lane and what that does, so a
// failing run is replayed by its seed. Nothing here waits: a run has a number of steps, and one that needs more is a
// hang, reported as a test failure with what every rank waits for.
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

  /// Null: this rank has none.
  fake_lane* lane_of(rank r) { return lanes_[static_cast<std::size_t>(r)].get(); }

  /// Gives a rank a device, once.
  stepped_device& give_device(rank r);

  /// What one rank's commit came to.
  struct outcome {
    instance* it = nullptr;
    failure why{status::ok, {}, k_no_rank, k_no_op};
  };
  using request_of = std::function<commit_request(rank)>;

  /// Commits one schedule on all ranks; they come in a seeded order, and some are done before others begin.
  std::vector<outcome> try_commit(const request_of& what);

  /// The same where it must succeed: anything else is a test failure, and the answer is empty.
  std::vector<instance*> commit(const request_of& what);

  /// One pass of one rank's engine, drawn.
  void step();

  /// Steps until `is_done`. False, and a test failure, if that takes more than `most_steps`; 0: more than any chain
  /// through all ranks could.
  bool run_until(const std::function<bool()>& is_done, std::uint64_t most_steps = 0);

  /// Steps until nothing has moved for longer than any message takes.
  void settle();

  /// Asks for a round of an ordinary instance, as the driver does.
  static void start(engine& where, instance& it);

  /// Starts a round on all ranks, in a drawn order with steps in between, and runs it to its end.
  bool run_round(const std::vector<instance*>& its);

  /// Removes an instance everywhere; a refusal is a test failure.
  void remove(const std::vector<instance*>& its);

  /// An instance that the test has removed by itself: describe() must not look at it any more.
  void forget(rank r, const instance* it);

  /// The rank dies, and steps no more.
  void kill(rank r);

  /// This rank steps only in one of `one_in` of its turns.
  void set_pace(rank r, std::uint32_t one_in) { pace_[static_cast<std::size_t>(r)] = one_in; }

  std::uint64_t draw();
  std::uint64_t draw_below(std::uint64_t limit) { return draw() % limit; }

  /// The seed, and what every instance of every rank waits for.
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
  std::vector<std::vector<instance*>> committed_;  ///< for describe()
  std::vector<std::uint32_t> pace_;
  std::vector<bool> is_dead_;
  bool moved_ = false;
};

}  // namespace lsched::testing
