// A lane (libsched/engine/lane.h: an executor of compute jobs) without threads. The seed determines which jobs are
// accepted, in which pieces they are computed, and which of them are computed at once. The other jobs are computed when
// they end. The seed or the test determines when jobs end. Until a job is computed, its target holds a pattern, unless
// the target is also an operand.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "libsched/engine/lane.h"
#include "libsched/schedule/draw.h"

namespace lsched::testing {

class fake_lane final : public lane {
 public:
  /// `refuses`: percentage of jobs that the lane refuses.
  explicit fake_lane(std::uint64_t seed, std::uint64_t refuses = 25) : seed_(seed), refuses_(refuses) {}

  ~fake_lane() override { EXPECT_FALSE(end_one()) << "a job outlives its engine"; }
  fake_lane(const fake_lane&) = delete;
  fake_lane& operator=(const fake_lane&) = delete;

  /// While the lane is held, jobs end only by end_one() and drain().
  void hold(bool is_held) { is_held_ = is_held; }

  /// Ends a random running job. A later poll() reports the end. Returns false if no job is running.
  bool end_one() {
    const std::size_t running = static_cast<std::size_t>(std::ranges::count(jobs_, state::running, &job::now));
    if (running == 0) return false;
    std::size_t which = below(running);
    for (job& it : jobs_)
      if (it.now == state::running && which-- == 0) end(it);
    return true;
  }

  std::uint64_t taken() const { return taken_; }
  std::uint64_t refused() const { return refused_; }

  std::string name() const override { return "fake"; }
  std::uint64_t least_bytes() const override { return 1; }

  bool submit(const lane_job& what) override {
    job* place = std::ranges::find(jobs_, state::free, &job::now);
    if (place == jobs_.end() || below(100) < refuses_) return ++refused_, false;
    ++taken_;
    *place = {what, state::running, below(2) == 0};
    if (place->is_early)
      compute(what);
    else if (const kernel_call& call = what.call; call.c != call.a && call.c != call.b)
      std::memset(call.c, 0xA5, call.count * what.element_bytes);
    return true;
  }

  std::size_t poll(std::span<std::uint64_t> out) override {
    if (!is_held_ && below(3) == 0) end_one();
    std::size_t found = 0;
    for (std::size_t i = 0, first = below(jobs_.size()); i < jobs_.size() && found < out.size(); ++i) {
      job& it = jobs_[(first + i) % jobs_.size()];
      if (it.now != state::ended) continue;
      out[found++] = it.what.cookie;
      it.now = state::free;
    }
    return found;
  }

  bool help() override { return !is_held_ && below(4) == 0 && end_one(); }

  void drain() override {
    while (end_one()) {
    }
  }

 private:
  enum class state : std::uint8_t { free, running, ended };
  struct job {
    lane_job what;
    state now = state::free;
    bool is_early = false;  ///< whether submit() has computed the job; otherwise end() computes it
  };

  void end(job& it) {
    if (!it.is_early) compute(it.what);
    it.now = state::ended;
  }

  /// Computes a job from back to front, in random pieces.
  void compute(const lane_job& it) {
    for (std::uint64_t left = it.call.count; left > 0;) {
      const std::uint64_t piece = 1 + below(left);
      left -= piece;
      it.run_part(left, piece);
    }
  }

  std::size_t below(std::size_t limit) { return mix(mix(seed_) + ++draws_) % limit; }

  std::uint64_t seed_;
  std::uint64_t refuses_;
  std::uint64_t draws_ = 0;
  std::uint64_t taken_ = 0;
  std::uint64_t refused_ = 0;
  bool is_held_ = false;
  std::array<job, 6> jobs_{};
};

}  // namespace lsched::testing
