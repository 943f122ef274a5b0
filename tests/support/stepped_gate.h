// A gate without a GPU, for stepped worlds. The test advances the streams.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "libsched/engine/round_gate.h"

namespace lsched::testing {

/// A stream, which the test advances: the number of queued entries, and the number of completed entries.
struct stepped_stream {
  std::uint64_t put = 0, done = 0;
};

class stepped_gate final : public round_gate {
 public:
  explicit stepped_gate(const bool& has_failed) : has_failed_(has_failed) {}

  /// Returns the latest released round, for which streams wait.
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
    std::uint64_t behind = 0;  ///< entries of the stream that must complete first
    round_no round = 0;        ///< round of the latest ask()
  };
  entry& entry_of(round_no round) { return entries_[round % entries_.size()]; }

  const bool& has_failed_;
  std::array<entry, k_most_ahead> entries_{};
  round_no released_ = 0;
};

}  // namespace lsched::testing
