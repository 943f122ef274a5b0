#include "libsched/trace/trace.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <set>
#include <tuple>
#include <vector>

#include "libsched/schedule/draw.h"
#include "ops/counted.h"

namespace lsched {
namespace {

/// Tracks of a rank are numbered kind by kind; 0 is the rounds'.
constexpr std::uint32_t k_lanes = 1'000'000;

std::uint32_t group_of(const trace_event& it) { return it.op == k_no_op ? 0 : 1 + static_cast<std::uint32_t>(it.kind); }

std::string_view name_of_group(std::uint32_t group) {
  return group == 0 ? "round" : name_of(static_cast<op_kind>(group - 1));
}

bool has_arrow(const trace_event& it) { return it.op != k_no_op && is_communication(it.kind) && it.peer != it.who; }

bool is_outgoing(const trace_event& it) { return it.kind == op_kind::send || it.kind == op_kind::signal_send; }

/// An arrow needs a slice that it can begin or end in.
std::uint64_t shown_end(const trace_event& it) { return std::max(it.end_ns, it.begin_ns + (has_arrow(it) ? 1 : 0)); }

std::uint64_t message_id(const trace_event& it) {
  const rank source = is_outgoing(it) ? it.who : it.peer;
  const rank target = is_outgoing(it) ? it.peer : it.who;
  const std::uint64_t ranks = static_cast<std::uint64_t>(source) << 32 | static_cast<std::uint32_t>(target);
  const std::uint64_t edge = std::uint64_t{it.tag} << 1 | (is_signal(it.kind) ? 1 : 0);
  return mix(mix(mix(mix(it.schedule) ^ it.round) ^ ranks) ^ edge);
}

// --- words ---------------------------------------------------------------------------------------------------

void append_number(std::string& out, std::uint64_t number) { out += std::to_string(number); }

/// Microseconds, to the nanosecond.
void append_time(std::string& out, std::uint64_t ns) {
  const std::string fraction = std::to_string(1000 + ns % 1000);
  append_number(out, ns / 1000);
  out += '.';
  out += std::string_view(fraction).substr(1);
}

/// A JSON string. What is not printable ASCII is spelt \xHH, as in the text form of schedules.
void append_quoted(std::string& out, std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  out += '"';
  for (const char letter : text) {
    const auto code = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\') out += '\\';
    if (code >= 0x20 && code < 0x7f) {
      out += letter;
    } else {
      out += "\\\\x";
      out += digits[code >> 4];
      out += digits[code & 15];
    }
  }
  out += '"';
}

std::string title_of(const trace_event& it) {
  if (it.op == k_no_op) return "round " + std::to_string(it.round);
  const std::string kind(name_of(it.kind));
  if (!is_communication(it.kind)) return kind;
  if (it.peer == it.who) return "call";
  return kind + (is_outgoing(it) ? " to " : " from ") + std::to_string(it.peer);
}

// --- writer --------------------------------------------------------------------------------------------------

class trace_writer {
 public:
  trace_writer(std::span<const trace_event> events, const trace_context& around) : events_(events), around_(around) {}

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
    write_remark();
    write_note();
    out_ += "\n],\"otherData\":{\"lost\":";
    append_number(out_, around_.lost);
    out_ += ",\"cut\":";
    append_number(out_, cut());
    if (!around_.remark.empty()) {
      out_ += ",\"remark\":";
      append_quoted(out_, around_.remark);
    }
    out_ += "}}\n";
    return std::move(out_);
  }

 private:
  std::size_t cut() const { return events_.size() - chosen_.size(); }

  /// The first in time, then by rank and kind.
  void choose() {
    chosen_.resize(events_.size());
    std::iota(chosen_.begin(), chosen_.end(), std::size_t{0});
    const auto sort_by = [&](auto key) {
      std::ranges::stable_sort(chosen_, {}, [&](std::size_t i) { return key(events_[i]); });
    };
    sort_by([](const trace_event& it) { return it.begin_ns; });
    if (chosen_.size() > around_.most_events) chosen_.resize(around_.most_events);
    sort_by([](const trace_event& it) { return std::tuple(it.who, group_of(it)); });
  }

  /// The events of one kind on one rank, in order of time. Slices of a track may not overlap: each goes to the first
  /// track that is free.
  void write_tracks(std::span<const std::size_t> mine) {
    using ending = std::pair<std::uint64_t, std::uint32_t>;
    std::priority_queue<ending, std::vector<ending>, std::greater<>> busy;
    std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> free;
    std::uint32_t lanes = 0;
    for (const std::size_t i : mine) {
      const trace_event& it = events_[i];
      while (!busy.empty() && busy.top().first <= it.begin_ns) {
        free.push(busy.top().second);
        busy.pop();
      }
      std::uint32_t lane = lanes;
      if (free.empty()) {
        write_head(it, lanes++);
      } else {
        lane = free.top();
        free.pop();
      }
      busy.emplace(shown_end(it), lane);
      write_slice(it, group_of(it) * k_lanes + lane);
    }
  }

  void begin_event(std::string_view phase, const trace_event& it, std::uint32_t track) {
    out_ += is_first_ ? "\n" : ",\n";
    is_first_ = false;
    out_ += "{\"ph\":\"";
    out_ += phase;
    out_ += "\",\"pid\":";
    append_number(out_, static_cast<std::uint32_t>(it.who));
    out_ += ",\"tid\":";
    append_number(out_, track);
  }

  void write_head(const trace_event& it, std::uint32_t lane) {
    const std::uint32_t track = group_of(it) * k_lanes + lane;
    if (named_.insert(it.who).second) {
      begin_event("M", it, track);
      out_ += ",\"name\":\"process_name\",\"args\":{\"name\":\"rank " + std::to_string(it.who) + "\"}}";
      begin_event("M", it, track);
      out_ += ",\"name\":\"process_sort_index\",\"args\":{\"sort_index\":" + std::to_string(it.who) + "}}";
    }
    begin_event("M", it, track);
    out_ += ",\"name\":\"thread_name\",\"args\":{\"name\":\"";
    out_ += name_of_group(group_of(it));
    if (lane > 0) out_ += " " + std::to_string(lane + 1);
    out_ += "\"}}";
    begin_event("M", it, track);
    out_ += ",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":" + std::to_string(track) + "}}";
  }

  void write_slice(const trace_event& it, std::uint32_t track) {
    begin_event("X", it, track);
    out_ += ",\"ts\":";
    append_time(out_, it.begin_ns);
    out_ += ",\"dur\":";
    append_time(out_, shown_end(it) - it.begin_ns);
    out_ += ",\"cat\":\"";
    out_ += name_of_group(group_of(it));
    out_ += "\",\"name\":\"" + title_of(it) + "\",\"args\":{\"round\":" + std::to_string(it.round);
    if (it.op != k_no_op) out_ += ",\"op\":" + std::to_string(it.op);
    if (has_arrow(it)) out_ += ",\"tag\":" + std::to_string(it.tag);
    out_ += ",\"schedule\":";
    const auto name = around_.names.find(it.schedule);
    append_quoted(out_, name == around_.names.end() ? "#" + std::to_string(it.schedule) : name->second);
    out_ += "}}";
    if (has_arrow(it)) write_arrow(it, track);
  }

  /// From the send's beginning to the last moment of the receive, so that no arrow points back in time.
  void write_arrow(const trace_event& it, std::uint32_t track) {
    begin_event(is_outgoing(it) ? "s" : "f", it, track);
    out_ += is_outgoing(it) ? ",\"ts\":" : ",\"bp\":\"e\",\"ts\":";
    append_time(out_, is_outgoing(it) ? it.begin_ns : shown_end(it) - 1);
    out_ += ",\"cat\":\"message\",\"name\":\"message\",\"id\":\"" + std::to_string(message_id(it)) + "\"}";
  }

  void write_remark() {
    if (around_.remark.empty()) return;
    std::uint64_t first = chosen_.empty() ? 0 : events_[chosen_.front()].begin_ns;
    for (const std::size_t i : chosen_) first = std::min(first, events_[i].begin_ns);
    begin_event("i", chosen_.empty() ? trace_event{} : events_[chosen_.front()], 0);
    out_ += ",\"s\":\"g\",\"ts\":";
    append_time(out_, first);
    out_ += ",\"name\":";
    append_quoted(out_, around_.remark);
    out_ += '}';
  }

  void write_note() {
    if (around_.lost == 0 && cut() == 0) return;
    std::uint64_t last = 0;
    for (const std::size_t i : chosen_) last = std::max(last, events_[i].end_ns);
    begin_event("i", chosen_.empty() ? trace_event{} : events_[chosen_.front()], 0);
    out_ += ",\"s\":\"g\",\"ts\":";
    append_time(out_, last);
    out_ += ",\"name\":\"trace ends early: " + counted(around_.lost, "event") + " not recorded, " +
            std::to_string(cut()) + " not written\"}";
  }

  std::span<const trace_event> events_;
  const trace_context& around_;
  std::vector<std::size_t> chosen_;
  std::set<rank> named_;
  bool is_first_ = true;
  std::string out_;
};

}  // namespace

std::string to_trace_json(std::span<const trace_event> events, const trace_context& around) {
  return trace_writer(events, around).run();
}

}  // namespace lsched
