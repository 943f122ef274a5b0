#include "bindings/cli/picture/builders.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "bindings/cli/picture/critical_path.h"
#include "libsched/schedule/schedule_file.h"
#include "ops/counted.h"

namespace lsched::cli {
namespace {

constexpr double k_ps_per_ns = 1e3;

box_kind kind_of(op_kind kind) {
  switch (kind) {
    case op_kind::send: return box_kind::send;
    case op_kind::recv: return box_kind::recv;
    case op_kind::compute: return box_kind::compute;
    case op_kind::signal_send:
    case op_kind::signal_recv: return box_kind::signal;
    case op_kind::capture: return box_kind::capture;
    case op_kind::nop: break;
  }
  return box_kind::nop;
}

std::string short_number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.6g", value);
  return text.data();
}

// --- words of an op ----------------------------------------------------------------------------------------

/// Returns a line of text for each op of a schedule, as printed by `lsched show`: "op 3 send f32 b0[0 +100] to 1 tag 0
/// …".
std::vector<std::string> op_lines(const schedule& program) {
  std::vector<std::string> lines;
  const std::string text = to_text(program);
  for (std::size_t place = 0; place < text.size();) {
    const std::size_t end = std::min(text.find('\n', place), text.size());
    const std::string line = text.substr(place, end - place);
    if (line.starts_with("op ")) lines.push_back(line);
    place = end + 1;
  }
  return lines;
}

template <class Op>
std::string line_without_schedule(const Op& op) {
  std::string line = "op " + std::to_string(op.op) + " " + std::string(name_of(op.kind));
  if (!is_communication(op.kind)) return line;
  return line + (is_outgoing(op.kind) ? " to " : " from ") + std::to_string(op.peer) + " tag " + std::to_string(op.tag);
}

/// Sets the labels of a box. `line` is the text that describes the op of the box.
template <class Op>
void label(picture_box& box, const Op& op, const std::string& line) {
  if (is_communication(op.kind)) {
    const std::string peer = std::to_string(op.peer);
    const bool is_call = op.peer == op.who;
    const std::string word = is_signal(op.kind) ? "signal" : std::string(name_of(op.kind));
    box.label = is_call ? "call" : word + (is_outgoing(op.kind) ? " to " : " from ") + peer;
    box.short_label = is_call ? "" : (is_outgoing(op.kind) ? "\u2192" : "\u2190") + peer;
    return;
  }
  box.label = name_of(op.kind);
  const std::size_t equals = line.find(" = ");
  if (op.kind == op_kind::compute && equals != line.npos)
    box.label = line.substr(equals + 3, line.find(' ', equals + 3) - equals - 3);
}

// --- a scale of time ---------------------------------------------------------------------------------------

/// A unit of time for the axis. The builder chooses the unit so that the numbers on the axis have few digits.
struct time_unit {
  double ps = 1e6;
  const char* name = "us";
  std::string text(picoseconds time) const { return short_number(static_cast<double>(time) / ps) + " " + name; }
};

time_unit unit_for(picoseconds span) {
  if (span < 10'000'000) return {1e3, "ns"};
  if (span < 10'000'000'000) return {1e6, "us"};
  return span < 10'000'000'000'000 ? time_unit{1e9, "ms"} : time_unit{1e12, "s"};
}

// --- common to both builders -------------------------------------------------------------------------------

/// A box that is not yet in the picture.
struct timed_box {
  std::size_t source = 0;  ///< index of the op in the record or in the events
  picture_box box{};
};

/// Returns the first words of a tooltip: "rank 3, 5 to 7 us".
std::string rank_and_times(const picture_box& box, const time_unit& unit) {
  return "rank " + std::to_string(box.lane) + ", " + short_number(box.begin) + " to " + short_number(box.end) +
         (*unit.name == '\0' ? "" : " " + std::string(unit.name));
}

/// Adds to the picture the `most` boxes that begin first. Returns the index of each added box in the picture, keyed by
/// the `source` of the box.
std::map<std::size_t, std::size_t> add_boxes(schedule_picture& into, std::vector<timed_box> boxes, std::size_t most) {
  std::ranges::stable_sort(boxes, {}, [](const timed_box& each) { return each.box.begin; });
  if (boxes.size() > most) {
    into.caption.push_back("Only the first " + std::to_string(most) + " of " + std::to_string(boxes.size()) +
                           " ops, in order of time, are drawn.");
    boxes.resize(most);
  }
  std::map<std::size_t, std::size_t> box_of;
  for (timed_box& each : boxes) {
    box_of[each.source] = into.boxes.size();
    into.boxes.push_back(std::move(each.box));
  }
  return box_of;
}

/// Adds an arrow for each receive. The caption gets the number of receives whose send is not in the picture.
template <class Op>
void add_arrows(schedule_picture& into, std::span<const Op> ops, const std::map<std::size_t, std::size_t>& box_of,
                bool from_begin_to_end) {
  const auto sends = sends_of(ops);
  std::size_t missing = 0;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const auto to = box_of.find(i);
    if (to == box_of.end() || !is_receive(ops[i])) continue;
    const auto send = sends.find(key_of(ops[i]));
    const auto from = send == sends.end() ? box_of.end() : box_of.find(send->second);
    if (from == box_of.end())
      ++missing;
    else
      into.arrows.push_back({.from = from->second,
                             .to = to->second,
                             .from_begin = from_begin_to_end,
                             .to_end = from_begin_to_end,
                             .is_signal = is_signal(ops[i].kind)});
  }
  if (missing > 0)
    into.caption.push_back(counted(missing, "receive") + " without an arrow: the send is not in this picture.");
}

void mark(schedule_picture& into, const std::vector<path_step>& path,
          const std::map<std::size_t, std::size_t>& box_of) {
  into.has_critical_path = !path.empty();
  for (std::size_t i = 0; i < path.size(); ++i) {
    const auto here = box_of.find(path[i].op);
    if (here == box_of.end()) continue;
    into.boxes[here->second].is_critical = true;
    const auto next = i + 1 < path.size() ? box_of.find(path[i + 1].op) : box_of.end();
    if (next == box_of.end()) continue;
    const auto is_same = [&](const picture_arrow& arrow) {
      return arrow.from == here->second && arrow.to == next->second;
    };
    const auto arrow = std::ranges::find_if(into.arrows, is_same);
    if (arrow != into.arrows.end())
      arrow->is_critical = true;
    else if (into.boxes[here->second].end < into.boxes[next->second].begin)
      into.arrows.push_back({.from = here->second, .to = next->second, .is_wait = true, .is_critical = true});
  }
}

void name_lanes(schedule_picture& into, rank ranks, rank most) {
  for (rank r = 0; r < std::min(ranks, most); ++r) into.lanes.push_back("rank " + std::to_string(r));
  if (ranks > most)
    into.caption.push_back("Only the first " + std::to_string(most) + " of " + std::to_string(ranks) +
                           " ranks are drawn.");
}

// --- a simulated round -------------------------------------------------------------------------------------

/// Returns a round on a machine where every op and every message takes one step.
simulated_round in_steps(rank initiator) {
  constexpr picoseconds k_step = 1'000'000;
  simulated_round round{.initiator = initiator};
  round.where.levels.front().cost = {.L = k_step, .o = k_step, .g = 0, .G = 0, .O = 0};
  round.where.S = UINT64_MAX;
  round.noise = [](rank, op_id, picoseconds cost) { return cost == 0 ? k_step : 0; };
  return round;
}

/// Returns the picture of a round, with times in `unit`. If the unit is steps, its name is empty.
schedule_picture round_picture(const simulation_record& record, const simulation_report& report,
                               std::span<const schedule_ptr> world, const picture_words& words, const time_unit& unit) {
  schedule_picture made{.title = words.title, .caption = words.caption};
  const rank ranks = static_cast<rank>(report.finish.size());
  name_lanes(made, ranks, words.most_ranks);
  std::vector<std::vector<std::string>> lines;
  for (const schedule_ptr& program : world.first(std::min(world.size(), made.lanes.size())))
    lines.push_back(op_lines(*program));
  std::vector<timed_box> boxes;
  for (std::size_t i = 0; i < record.ops.size(); ++i) {
    const simulated_op& op = record.ops[i];
    const auto lane = static_cast<std::size_t>(op.who);
    if (lane >= made.lanes.size()) continue;
    picture_box box{.lane = lane,
                    .begin = static_cast<double>(op.begin) / unit.ps,
                    .end = static_cast<double>(op.end) / unit.ps,
                    .kind = kind_of(op.kind)};
    const bool has_line = lane < lines.size() && op.op < lines[lane].size();
    const std::string line = has_line ? lines[lane][op.op] : line_without_schedule(op);
    label(box, op, line);
    box.title = rank_and_times(box, unit) + (op.is_void ? ", void" : "") + "\n" + line;
    boxes.push_back({i, std::move(box)});
  }
  const auto box_of = add_boxes(made, std::move(boxes), words.most_ops);
  add_arrows<simulated_op>(made, record.ops, box_of, false);
  mark(made, critical_path_of(record, report), box_of);
  return made;
}

}  // namespace

schedule_picture picture_of_round(const simulation_record& record, const simulation_report& report,
                                  const simulation& what, std::span<const schedule_ptr> world,
                                  const picture_words& words) {
  const time_unit unit = unit_for(report.last());
  picture_words said = words;
  said.title += ", simulated: " + unit.text(report.last());
  said.caption.push_back(words_for_machine(what));
  schedule_picture made = round_picture(record, report, world, said, unit);
  made.axis = {"simulated time", unit.name};
  return made;
}

result<schedule_picture> picture_in_steps(std::span<const schedule_ptr> world, rank initiator,
                                          const picture_words& words) {
  const auto packed = packed_world::of(world);
  if (!packed) return packed.error();
  simulation_record record;
  const auto report = simulate_round(*packed, in_steps(initiator), &record, true);
  if (!report) return report.error();
  const time_unit steps{1e6, ""};
  picture_words said = words;
  said.title += ": " + counted(report->last() / static_cast<picoseconds>(steps.ps), "step");
  schedule_picture made = round_picture(record, *report, world, said, steps);
  made.axis = {"steps: an op takes 1 step, a message in flight takes 1, nop and capture take 0", ""};
  return made;
}

// --- a recorded run ----------------------------------------------------------------------------------------

schedule_picture picture_of_trace(std::span<const trace_event> events,
                                  const std::map<std::uint32_t, std::string>& names, const picture_words& words) {
  schedule_picture made{.title = words.title, .caption = words.caption};
  std::uint64_t first = events.empty() ? 0 : UINT64_MAX, last = 0;
  rank ranks = 0;
  for (const trace_event& event : events) {
    first = std::min(first, event.begin_ns);
    last = std::max(last, event.end_ns);
    ranks = std::max(ranks, event.who + 1);
  }
  const time_unit unit = unit_for(static_cast<picoseconds>(last - first) * 1000);
  const auto time = [&](std::uint64_t ns) { return static_cast<double>(ns - first) * k_ps_per_ns / unit.ps; };
  name_lanes(made, ranks, words.most_ranks);
  std::vector<timed_box> boxes;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const trace_event& event = events[i];
    if (event.who >= words.most_ranks) continue;
    const bool is_round = event.op == k_no_op;
    const auto name = names.find(event.schedule);
    const std::string round = "round " + std::to_string(event.round);
    const std::string line = is_round ? round : line_without_schedule(event);
    picture_box box{.lane = static_cast<std::size_t>(event.who),
                    .begin = time(event.begin_ns),
                    .end = time(event.end_ns),
                    .kind = is_round ? box_kind::round : kind_of(event.kind)};
    if (is_round)
      box.label = round;
    else
      label(box, event, line);
    box.title = rank_and_times(box, unit) + ", " +
                (name == names.end() ? "schedule " + std::to_string(event.schedule) : name->second) + ", " + round +
                (is_round ? "" : "\n" + line);
    boxes.push_back({i, std::move(box)});
  }
  const auto box_of = add_boxes(made, std::move(boxes), words.most_ops);
  add_arrows(made, events, box_of, true);
  mark(made, critical_path_of(events), box_of);
  made.axis = {"time since the first event", unit.name};
  return made;
}

// --- words -------------------------------------------------------------------------------------------------

std::string words_for_machine(const simulation& what) {
  std::string text = "LogGOPS machine: ";
  const auto ns = [](picoseconds time) { return short_number(static_cast<double>(time) / 1e3) + " ns"; };
  const auto rate = [](femtoseconds time) { return short_number(static_cast<double>(time) / 1e6) + " ns/B"; };
  const auto& levels = what.where.levels;
  for (std::size_t level = 0; level < levels.size(); ++level) {
    const loggops& cost = levels[level].cost;
    const bool is_last = level + 1 == levels.size();
    if (levels.size() > 1) text += is_last ? "beyond " : "groups of " + std::to_string(levels[level].ranks) + " ";
    text += "L " + ns(cost.L) + ", o " + ns(cost.o) + ", g " + ns(cost.g) + ", G " + rate(cost.G) + ", O " +
            rate(cost.O) + (levels[level].shares_nic ? ", one NIC" : "") + "; ";
  }
  text += "S " + std::to_string(what.where.S) + " B, compute " + rate(what.where.compute) + "; skew " +
          std::string(name_of(what.skew.kind));
  const auto us = [](picoseconds time) { return short_number(static_cast<double>(time) / 1e6) + " us"; };
  if (what.skew.kind != skew_kind::none) text += " " + us(what.skew.scale);
  text += "; CPU noise " + (what.noise.mean == 0 ? "none" : us(what.noise.mean)) + "; seed " +
          std::to_string(what.skew.seed);
  return text + ", round " + std::to_string(what.instance);
}

}  // namespace lsched::cli
