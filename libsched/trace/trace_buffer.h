// A buffer in which an engine records trace events while tracing is on.
//
// Not thread-safe: only the owner of the engine may use the buffer. All memory is allocated at construction. When the
// buffer is full, it keeps its events and counts further events as lost.
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
  /// Allocates room for `events` notes of 48 bytes. An op that completes when it fires needs one note. A round, or an
  /// op that has to wait, needs two.
  explicit trace_buffer(std::size_t events) { notes_.reserve(events); }

  /// Returns the time of the clock for all real events. All processes of a machine have the same clock. Never 0.
  static std::uint64_t now_ns() {
    const std::chrono::nanoseconds since_boot = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(since_boot.count());
  }

  /// Sets the name of a schedule for users. For cold paths, because it allocates.
  void set_name(std::uint32_t schedule, std::string name) { names_[schedule] = std::move(name); }

  /// Records a whole event, the begin of an event (end_ns is 0), or the end of an event that has begun (begin_ns is 0).
  /// Never allocates.
  void note(const trace_event& what) {
    if (lost_ != 0 || notes_.size() == notes_.capacity())
      ++lost_;
    else
      notes_.push_back(what);
  }

  /// Returns the recorded events, with begins and ends combined. Payload ops and rounds without an end get the time of
  /// the last note as their end. Other ops without an end are left out, since a signal receive that waits is not fired.
  std::vector<trace_event> events() const;

  trace_context context() const { return {.names = names_, .lost = lost_}; }

 private:
  std::vector<trace_event> notes_;
  std::map<std::uint32_t, std::string> names_;
  std::uint64_t lost_ = 0;
};

}  // namespace lsched
