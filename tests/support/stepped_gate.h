// A simulated gate for tests that run all ranks step by step in one thread. The gate needs no GPU. A gate starts a
// round when a stream reaches a certain point. A gate also makes streams wait for rounds. The test advances the
// streams.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "libsched/engine/round_gate.h"

namespace lsched::testing {

/// A stream that the test advances. `put` counts the queued entries, and `done` the completed entries.
struct stepped_stream {
  std::uint64_t put = 0, done = 0;
};

class stepped_gate final : public round_gate {
 public:
  explicit stepped_gate(const bool& has_failed) : has_failed_(has_failed) {}

  /// Returns the latest released round. Streams wait until their round is released.
  round_no released() const { return released_; }

  status ask(void* stream, round_no round) override {
    if (has_failed_) return status::device;
    EXPECT_TRUE(entry_of(round).round == 0 || entry_of(round).round <= released_) << "the place of a round is in use";
    const auto& of = *static_cast<const stepped_stream*>(stream);
    entry_of(round) = {&of, of.put, round};
    return status::ok;
  }
  /// Does nothing, because the test's streams check released().
  status wait(void*, round_no) override { return status::ok; }

  status is_open(round_no round) override {
    const entry& mine = entry_of(round);
    if (mine.round != round) return status::ok;
    if (has_failed_) return status::device;
    return mine.stream->done >= mine.behind ? status::ok : status::pending;
  }
  bool arm(round_no) override { return false; }
  void release(round_no round) override { released_ = std::max(released_, round); }

 private:
  struct entry {
    const stepped_stream* stream = nullptr;
    std::uint64_t behind = 0;  ///< number of entries of the stream that must complete before the round may begin
    round_no round = 0;        ///< round of the latest ask()
  };
  entry& entry_of(round_no round) { return entries_[round % entries_.size()]; }

  const bool& has_failed_;
  std::array<entry, k_most_ahead> entries_{};
  round_no released_ = 0;
};

}  // namespace lsched::testing
