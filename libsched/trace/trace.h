// A trace contains the events of all ops of a run. The writer creates files for Perfetto and chrome://tracing.
//
// Real runs (recorded by trace_buffer.h) and simulated runs use the same events and the same writer. In the display,
// each rank is a process, and each kind of op is a track of this process. If ops of one kind overlap, the kind has
// several tracks. An op or a round is a slice of a track, and a message is an arrow from the send to the receive.
// docs/reference/trace.md explains how to record and read traces.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "ops/op.h"

namespace lsched {

struct trace_event {
  std::uint64_t begin_ns = 0;  ///< time at which the op fired or the round began; all ranks use the same clock
  std::uint64_t end_ns = 0;    ///< time at which the op completed or the round ended
  round_no round = 0;
  std::uint32_t schedule = 0;  ///< id of the schedule, equal on all ranks
  rank who = 0;
  op_id op = k_no_op;     ///< k_no_op: the event is a round, and `peer` and `tag` are unused
  rank peer = k_no_rank;  ///< peer of a communication op
  std::uint32_t tag = 0;
  op_kind kind = op_kind::nop;
  friend bool operator==(const trace_event&, const trace_event&) = default;
};

/// Converts `number_on_record`, the library's id of a schedule, to the schedule's id in traces. Both ids are the same
/// on all ranks.
constexpr std::uint32_t schedule_in_trace(std::uint64_t number_on_record) {
  return static_cast<std::uint32_t>(number_on_record ^ number_on_record >> 32);
}

/// Information about a trace that is not in the events.
struct trace_context {
  std::map<std::uint32_t, std::string> names{};  ///< name of each schedule, by trace_event::schedule
  std::uint64_t lost = 0;                        ///< number of events that were not recorded
  std::string note{};                            ///< one line for the user; may be empty
  std::size_t most_events = 500'000;             ///< maximum number of events to write; an event takes about 250 bytes
};

/// Returns the trace in Trace Event Format, JSON object form, with one event per line. The send and the receive of a
/// message have the same id, a hash of schedule, round, ranks, tag and kind. So if the files of single ranks are merged
/// (`lsched trace`), all arrows between ranks appear. "otherData" contains the note, the number of lost events and the
/// number of events beyond the limit. The note is also written as an event at the start of the trace. If an event was
/// lost or is beyond the limit, the last event of the trace contains both numbers.
std::string to_trace_json(std::span<const trace_event> events, const trace_context& context = {});

}  // namespace lsched
