// Traces: the events of all ops of a run, and a writer of pictures for Perfetto and chrome://tracing.
//
// Real runs (recorded by trace_buffer.h) and simulated runs use the same events and the same writer. In the picture a
// rank is a process, and a kind of op is a track of this process, or several tracks if ops overlap. An op or a round is
// a slice, and a message is an arrow from its send to its receive. docs/reference/trace.md explains how to record and
// read traces.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "ops/op.h"

namespace lsched {

struct trace_event {
  std::uint64_t begin_ns = 0;  ///< time when the op fired or the round began; all ranks have the same origin
  std::uint64_t end_ns = 0;    ///< time when the op completed or the round ended
  round_no round = 0;
  std::uint32_t schedule = 0;  ///< equal on all ranks
  rank who = 0;
  op_id op = k_no_op;     ///< k_no_op: the round itself, and the fields below are unused
  rank peer = k_no_rank;  ///< peer of a communication op
  std::uint32_t tag = 0;
  op_kind kind = op_kind::nop;
  friend bool operator==(const trace_event&, const trace_event&) = default;
};

/// Returns the number of a schedule in traces, from its record number, which is the same on all its ranks.
constexpr std::uint32_t schedule_in_trace(std::uint64_t number_on_record) {
  return static_cast<std::uint32_t>(number_on_record ^ number_on_record >> 32);
}

/// Information about a trace that is not in the events.
struct trace_context {
  std::map<std::uint32_t, std::string> names{};  ///< names of schedules, by number
  std::uint64_t lost = 0;                        ///< events that were not recorded
  std::string remark{};                          ///< a note to the reader; one line, may be empty
  std::size_t most_events = 500'000;             ///< limit; only the earliest are written, with 250 bytes each
};

/// Returns the trace in Trace Event Format, JSON object form, with one event per line. Both ends of a message have the
/// same id, a hash of schedule, round, ranks, tag and kind. So merged files of single ranks (`lsched trace`) have all
/// their arrows. "otherData" contains the remark and the numbers of lost and cut events. An event at the start shows
/// the remark as well, and an event at the end shows the numbers if they are not 0.
std::string to_trace_json(std::span<const trace_event> events, const trace_context& context = {});

}  // namespace lsched
