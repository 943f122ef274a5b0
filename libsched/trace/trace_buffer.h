// A buffer in which an engine records trace events while tracing is on.
//
// Not thread-safe: only the owner of the engine may use the buffer. All memory is allocated at construction. When the
// buffer is full, further events are not stored, but counted as lost.
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
  /// Allocates memory for `events` notes, which are records of 48 bytes. An op that completes when it fires needs one
  /// note. A round, or an op that has to wait, needs two notes.
  explicit trace_buffer(std::size_t events) { notes_.reserve(events); }

  /// Returns the current time of the clock for all recorded events. All processes of a machine share this clock. The
  /// result is never 0.
  static std::uint64_t now_ns() {
    const std::chrono::nanoseconds since_boot = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(since_boot.count());
  }

  /// Sets the name of a schedule in the trace. Allocates memory, so it must not be called on the data path.
  void set_name(std::uint32_t schedule, std::string name) { names_[schedule] = std::move(name); }

  /// Records a complete event, the begin of an event (`end_ns` must be 0), or the end of an event (`begin_ns` must be
  /// 0). Never allocates memory.
  void note(const trace_event& what) {
    if (lost_ != 0 || notes_.size() == notes_.capacity())
      ++lost_;
    else
      notes_.push_back(what);
  }

  /// Returns the recorded events. The notes for begin and end are combined to one event. A payload op or round without
  /// an end ends at the time of the last note. Signal receives without an end are left out, because they still wait.
  std::vector<trace_event> events() const;

  trace_context context() const { return {.names = names_, .lost = lost_}; }

 private:
  std::vector<trace_event> notes_;
  std::map<std::uint32_t, std::string> names_;
  std::uint64_t lost_ = 0;
};

}  // namespace lsched
