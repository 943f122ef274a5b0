#include "libsched/trace/trace.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <set>
#include <tuple>
#include <vector>

#include "libsched/schedule/draw.h"
#include "libsched/schedule/schedule_file.h"
#include "ops/counted.h"

namespace lsched {
namespace {

/// Number of tracks that are reserved for each group of a rank. Group 0 contains rounds, and each kind of op has its
/// own group.
constexpr std::uint32_t k_lanes = 1'000'000;

std::uint32_t group_of(const trace_event& e) { return e.op == k_no_op ? 0 : 1 + static_cast<std::uint32_t>(e.kind); }

std::string_view name_of_group(std::uint32_t group) {
  return group == 0 ? "round" : name_of(static_cast<op_kind>(group - 1));
}

bool has_arrow(const trace_event& e) { return e.op != k_no_op && is_communication(e.kind) && e.peer != e.who; }

/// Returns the end of an event's slice. A slice with an arrow is at least 1 ns long, so that the arrow ends within the
/// slice.
std::uint64_t shown_end(const trace_event& e) { return std::max(e.end_ns, e.begin_ns + (has_arrow(e) ? 1 : 0)); }

std::uint64_t message_id(const trace_event& e) {
  const rank source = is_outgoing(e.kind) ? e.who : e.peer;
  const rank target = is_outgoing(e.kind) ? e.peer : e.who;
  const std::uint64_t ranks = static_cast<std::uint64_t>(source) << 32 | static_cast<std::uint32_t>(target);
  const std::uint64_t edge = std::uint64_t{e.tag} << 1 | (is_signal(e.kind) ? 1 : 0);
  return mix(mix(mix(mix(e.schedule) ^ e.round) ^ ranks) ^ edge);
}

// --- words ---------------------------------------------------------------------------------------------------

/// Returns a time as text, in microseconds with three decimals.
std::string time_text(std::uint64_t ns) {
  return std::to_string(ns / 1000) + "." + std::to_string(1000 + ns % 1000).substr(1);
}

/// Returns a JSON string. Bytes that are not printable ASCII are written as \xHH, as in the text form of schedules.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\')
      out.append(1, '\\').append(1, letter);
    else
      out += letter >= 0x20 && letter < 0x7f ? std::string(1, letter) : "\\" + escaped({&letter, 1});
  }
  return out + '"';
}

std::string title_of(const trace_event& e) {
  if (e.op == k_no_op) return "round " + std::to_string(e.round);
  const std::string kind(name_of(e.kind));
  if (!is_communication(e.kind)) return kind;
  if (e.peer == e.who) return "call";
  return kind + (is_outgoing(e.kind) ? " to " : " from ") + std::to_string(e.peer);
}

// --- writer --------------------------------------------------------------------------------------------------

class trace_writer {
 public:
  trace_writer(std::span<const trace_event> events, const trace_context& context)
      : events_(events), context_(context) {}

  std::string run() {
    choose();
    out_ = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
    for (auto track = chosen_.begin(); track != chosen_.end();) {
      const auto end = std::find_if(track, chosen_.end(), [&](std::size_t i) {
        return events_[i].who != events_[*track].who || group_of(events_[i]) != group_of(events_[*track]);
      });
      write_tracks({track, end});
      track = end;
    }
    write_notes();
    out_ += "\n],\"otherData\":{\"lost\":" + std::to_string(context_.lost) + ",\"cut\":" + std::to_string(cut());
    if (!context_.note.empty()) out_ += ",\"note\":" + quoted(context_.note);
    out_ += "}}\n";
    return std::move(out_);
  }

 private:
  std::size_t cut() const { return events_.size() - chosen_.size(); }

  /// Chooses the earliest events, at most trace_context::most_events, and sorts them by rank and kind.
  void choose() {
    chosen_.resize(events_.size());
    std::iota(chosen_.begin(), chosen_.end(), std::size_t{0});
    const auto sort_by = [&](auto key) {
      std::ranges::stable_sort(chosen_, {}, [&](std::size_t i) { return key(events_[i]); });
    };
    sort_by([](const trace_event& e) { return e.begin_ns; });
    if (chosen_.size() > context_.most_events) chosen_.resize(context_.most_events);
    sort_by([](const trace_event& e) { return std::tuple(e.who, group_of(e)); });
  }

  /// Writes the events of one kind on one rank, in order of time. Slices of a track must not overlap, so each event is
  /// written to the first track that is free at the event's start.
  void write_tracks(std::span<const std::size_t> events) {
    using ending = std::pair<std::uint64_t, std::uint32_t>;
    std::priority_queue<ending, std::vector<ending>, std::greater<>> busy;
    std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> free;
    std::uint32_t lanes = 0;
    for (const std::size_t i : events) {
      const trace_event& e = events_[i];
      for (; !busy.empty() && busy.top().first <= e.begin_ns; busy.pop()) free.push(busy.top().second);
      std::uint32_t lane = lanes;
      if (free.empty()) {
        write_head(e, lanes++);
      } else {
        lane = free.top();
        free.pop();
      }
      busy.emplace(shown_end(e), lane);
      write_slice(e, group_of(e) * k_lanes + lane);
    }
  }

  void write_event(std::string_view phase, rank who, std::uint32_t track, const std::string& rest) {
    out_ += is_first_ ? "\n" : ",\n";
    is_first_ = false;
    out_.append("{\"ph\":\"").append(phase).append("\",\"pid\":").append(std::to_string(who));
    out_.append(",\"tid\":").append(std::to_string(track)).append(rest).append("}");
  }

  void write_head(const trace_event& e, std::uint32_t lane) {
    const std::uint32_t track = group_of(e) * k_lanes + lane;
    const auto write = [&](const std::string& name, const std::string& key, const std::string& value) {
      write_event("M", e.who, track, ",\"name\":\"" + name + "\",\"args\":{\"" + key + "\":" + value + "}");
    };
    if (named_.insert(e.who).second) {
      write("process_name", "name", "\"rank " + std::to_string(e.who) + "\"");
      write("process_sort_index", "sort_index", std::to_string(e.who));
    }
    const std::string number = lane > 0 ? " " + std::to_string(lane + 1) : "";
    write("thread_name", "name", "\"" + std::string(name_of_group(group_of(e))) + number + "\"");
    write("thread_sort_index", "sort_index", std::to_string(track));
  }

  void write_slice(const trace_event& e, std::uint32_t track) {
    const auto name = context_.names.find(e.schedule);
    write_event("X", e.who, track,
                ",\"ts\":" + time_text(e.begin_ns) + ",\"dur\":" + time_text(shown_end(e) - e.begin_ns) +
                    ",\"cat\":\"" + std::string(name_of_group(group_of(e))) + "\",\"name\":\"" + title_of(e) +
                    "\",\"args\":{\"round\":" + std::to_string(e.round) +
                    (e.op != k_no_op ? ",\"op\":" + std::to_string(e.op) : "") +
                    (has_arrow(e) ? ",\"tag\":" + std::to_string(e.tag) : "") + ",\"schedule\":" +
                    quoted(name == context_.names.end() ? "#" + std::to_string(e.schedule) : name->second) + "}");
    if (!has_arrow(e)) return;
    // An arrow begins at the start of the send and ends at the end of the receive, so that no arrow points backwards in
    // time.
    const bool is_out = is_outgoing(e.kind);
    write_event(is_out ? "s" : "f", e.who, track,
                (is_out ? ",\"ts\":" : ",\"bp\":\"e\",\"ts\":") + time_text(is_out ? e.begin_ns : shown_end(e) - 1) +
                    ",\"cat\":\"message\",\"name\":\"message\",\"id\":\"" + std::to_string(message_id(e)) + "\"");
  }

  /// Writes trace_context::note as an event at the start, and the counts of lost and omitted events as the last event.
  void write_notes() {
    std::uint64_t first = chosen_.empty() ? 0 : events_[chosen_.front()].begin_ns, last = 0;
    for (const std::size_t i : chosen_) {
      first = std::min(first, events_[i].begin_ns);
      last = std::max(last, events_[i].end_ns);
    }
    const auto write = [&](std::uint64_t ns, const std::string& text) {
      write_event("i", chosen_.empty() ? rank{} : events_[chosen_.front()].who, 0,
                  ",\"s\":\"g\",\"ts\":" + time_text(ns) + ",\"name\":" + quoted(text));
    };
    if (!context_.note.empty()) write(first, context_.note);
    if (context_.lost != 0 || cut() != 0)
      write(last, "trace ends early: " + counted(context_.lost, "event") + " not recorded, " + std::to_string(cut()) +
                      " not written");
  }

  std::span<const trace_event> events_;
  const trace_context& context_;
  std::vector<std::size_t> chosen_;
  std::set<rank> named_;
  bool is_first_ = true;
  std::string out_;
};

}  // namespace

std::string to_trace_json(std::span<const trace_event> events, const trace_context& context) {
  return trace_writer(events, context).run();
}

}  // namespace lsched
