// A trace: what every op of a run did and when, and its picture for Perfetto and chrome://tracing.
//
// One kind of event for real runs (trace_buffer.h records them) and for simulated ones, and one writer.
// In the picture a rank is a process, a kind of op a track of it (several where ops overlap), an op or a round a
// slice, a message an arrow from its send to its receive. docs/reference/trace.md says how to get one and how to read
// it.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "ops/op.h"

namespace lsched {

struct trace_event {
  std::uint64_t begin_ns = 0;  ///< since whenever, the same for all ranks; when the op fired
  std::uint64_t end_ns = 0;    ///< when it completed, or the round ended
  round_no round = 0;
  std::uint32_t schedule = 0;  ///< equal on all ranks
  rank who = 0;
  op_id op = k_no_op;     ///< k_no_op: the round itself; what follows then means nothing
  rank peer = k_no_rank;  ///< of communication
  std::uint32_t tag = 0;
  op_kind kind = op_kind::nop;
  friend bool operator==(const trace_event&, const trace_event&) = default;
};

/// What traces know a schedule by: of its number on record, which is the same on all its ranks.
constexpr std::uint32_t schedule_in_trace(std::uint64_t number_on_record) {
  return static_cast<std::uint32_t>(number_on_record ^ number_on_record >> 32);
}

/// What the events do not say.
struct trace_context {
  std::map<std::uint32_t, std::string> names{};  ///< of schedules
  std::uint64_t lost = 0;                        ///< events that were not recorded
  std::string remark{};                          ///< what else a reader should know; one line, may be empty
  std::size_t most_events = 500'000;             ///< of more, only the first in time are written: 250 bytes each
};

/// Trace Event Format, JSON object form, one event a line. Both ends of a message carry the same id, made of schedule,
/// round, ranks, tag and kind: files of single ranks that were put together (`lsched trace`) have all their arrows.
/// What was lost or cut is said in an event at the end and in "otherData", the remark in an event at the beginning too.
std::string to_trace_json(std::span<const trace_event> events, const trace_context& context = {});

}  // namespace lsched
