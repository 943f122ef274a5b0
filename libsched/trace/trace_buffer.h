// Where an engine notes what it does, for the time in which somebody wants to know.
//
// Belongs to the engine's owner. All memory is taken at construction; when it is full, it stays as it is and counts
// what it could not take.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "libsched/trace/trace.h"

namespace lsched {

class trace_buffer {
 public:
  /// Room for `events` notes, 48 bytes each: one for an op that completes as it fires, two for one that has to wait
  /// and for a round.
  explicit trace_buffer(std::size_t events) { notes_.reserve(events); }

  /// The clock of all real events: of this machine, the same for all its processes, never 0.
  static std::uint64_t now_ns() {
    const std::chrono::nanoseconds since_boot = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(since_boot.count());
  }

  /// Cold: how people know a schedule.
  void set_name(std::uint32_t schedule, std::string name) { names_[schedule] = std::move(name); }

  /// An event with both times; one with end_ns 0 that has only begun; or with begin_ns 0, the end of one that began.
  /// Never allocates.
  void note(const trace_event& what) {
    if (lost_ != 0 || notes_.size() == notes_.capacity())
      ++lost_;
    else
      notes_.push_back(what);
  }

  /// What has been noted, beginnings and ends put together. Payload ops and rounds that have not ended do so with the
  /// last note; other ops that have not are left out: a signal receive that waits has not fired.
  std::vector<trace_event> events() const;

  trace_context context() const { return {.names = names_, .lost = lost_}; }

 private:
  std::vector<trace_event> notes_;
  std::map<std::uint32_t, std::string> names_;
  std::uint64_t lost_ = 0;
};

}  // namespace lsched
