// `lsched postmortem`: where each rank of a node is, or was when it ended.
#include <fcntl.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bindings/cli/common/commands.h"
#include "bindings/cli/common/errors.h"
#include "bindings/cli/common/recording_words.h"
#include "bindings/cli/common/words.h"
#include "bindings/input_file.h"
#include "libsched/trace/trace.h"
#include "libsched/transport/shm/peer_processes.h"
#include "libsched/transport/shm/shm_segment.h"
#include "ops/counted.h"

namespace lsched::cli {
namespace {

using json = nlohmann::ordered_json;

constexpr std::uint64_t k_most_bytes = std::uint64_t{1} << 33;

struct postmortem_options {
  std::string source;
  bool as_json = false;
  bool as_trace = false;
};

// --- finding the recording -------------------------------------------------------------------------------------

/// Out of the segment that a process has made: `lsched run`, or the first rank of a node under MPI.
recording read_from_process(const std::string& number) {
  const std::filesystem::path folder = "/proc/" + number + "/fd";
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    std::error_code gone;
    if (!std::filesystem::read_symlink(entry.path(), gone).string().starts_with("/memfd:libsched")) continue;
    const auto segment = shm_segment::adopt(open(entry.path().c_str(), O_RDWR | O_CLOEXEC));
    return require(parse_recording(require(segment)->recording()));
  }
  throw command_failure(
      LSCHED_ERR_ARGUMENT,
      "process " + number + (error ? ": " + error.message() : " has made no world: name that of `lsched run`"));
}

recording read_source(const std::string& source) {
  if (!std::filesystem::exists(source) && whole_number_in(source)) return read_from_process(source);
  const std::string content = require(content_of(source, k_most_bytes));
  auto all = parse_recording(std::as_bytes(std::span(content)));
  if (!all) throw command_failure(LSCHED_ERR_VERSION, source + ": " + all.error().text);
  return std::move(*all);
}

// --- what it says ----------------------------------------------------------------------------------------------

/// Of a rank that has joined.
std::string state_of(const recording& all, const recorded_rank& one) {
  if (one.closed_ns != 0) return "closed its world";
  if (!all.is_of_this_boot || is_gone(one.process)) return "ended";
  switch (state_of_process(one.process)) {
    case rank_state::stopped: return "stopped";
    case rank_state::ending: return "ended";
    default: return "runs";
  }
}

/// A schedule, and who has not called for the latest round of it that any rank has called for.
struct late_ranks {
  std::string label;
  round_no round = 0;
  std::vector<rank> late;
  std::size_t ranks = 0;  ///< that have it
};

std::vector<late_ranks> find_late(const recording& all) {
  std::map<std::uint32_t, late_ranks> by_slot;
  for (const recorded_rank& one : all.ranks)
    for (const recorded_schedule& each : one.schedules) {
      late_ranks& entry = by_slot[each.slot];
      entry.label = name_of(each);
      entry.round = std::max(entry.round, each.entered);
      ++entry.ranks;
    }
  std::vector<late_ranks> found;
  for (auto& [slot, entry] : by_slot) {
    for (const recorded_rank& one : all.ranks)
      if (const recorded_schedule* const its = one.find(slot); its != nullptr && its->entered < entry.round)
        entry.late.push_back(one.number);
    if (!entry.late.empty()) found.push_back(entry);
  }
  return found;
}

std::string list_of(const std::vector<rank>& ranks) {
  constexpr std::size_t k_most = 16;
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  for (std::size_t i = 0; i < ranks.size() && i < k_most; ++i) text += (i == 0 ? " " : ",") + std::to_string(ranks[i]);
  return text + (ranks.size() > k_most ? ",…" : "");
}

void print(const recording& all) {
  for (const recorded_rank& one : all.ranks) {
    if (one.process == 0) {
      std::printf("rank %d: never joined\n", one.number);
      continue;
    }
    const std::string place = words_for_place(one, all.wall_offset_ns);
    std::printf("rank %d (pid %d, %s): %s\n", one.number, one.process, state_of(all, one).c_str(),
                place.empty() ? "has no schedule" : place.c_str());
  }
  for (const late_ranks& each : find_late(all))
    std::printf("%s, round %llu: not called for by %s, of %s\n", each.label.c_str(),
                static_cast<unsigned long long>(each.round), list_of(each.late).c_str(),
                counted(each.ranks, "rank").c_str());
}

json describe(const recording& all, const recorded_rank& one) {
  json entry{{"rank", one.number}};
  if (one.process == 0) return entry;
  entry["pid"] = one.process;
  entry["state"] = state_of(all, one);
  const auto wall = [&](std::uint64_t ns) { return static_cast<std::int64_t>(ns) + all.wall_offset_ns; };
  if (one.closed_ns != 0) entry["closed_ns"] = wall(one.closed_ns);
  if (const wait_note& wait = one.wait; wait.round != 0) {
    entry["waits"] = {{"instance", wait.instance}, {"round", wait.round}, {"since_ns", wall(wait.since_ns)}};
    if (wait.op != k_no_op) entry["waits"].update({{"op", wait.op}, {"kind", name_of(wait.kind)}, {"peer", wait.peer}});
  }
  entry["schedules"] = json::array();
  for (const recorded_schedule& each : one.schedules)
    entry["schedules"].push_back({{"label", each.label}, {"called_for", each.entered}});
  return entry;
}

void print_json(const recording& all) {
  json out{{"ranks", json::array()}, {"late", json::array()}};
  for (const recorded_rank& one : all.ranks) out["ranks"].push_back(describe(all, one));
  for (const late_ranks& each : find_late(all))
    out["late"].push_back({{"schedule", each.label}, {"round", each.round}, {"ranks", each.late}});
  std::printf("%s\n", out.dump(-1, ' ', false, json::error_handler_t::replace).c_str());
}

/// Open waits as events that end now, or where nothing runs any more, when the last thing happened.
void print_trace(const recording& all) {
  std::uint64_t end = 0;
  trace_context context{.remark = "open waits of a recording"};
  for (const recorded_rank& one : all.ranks) {
    if (one.process != 0 && all.is_of_this_boot && !is_gone(one.process)) end = std::max(end, monotonic_ns());
    end = std::max({end, one.closed_ns, one.wait.since_ns});
  }
  std::vector<trace_event> events;
  for (const recorded_rank& one : all.ranks) {
    const wait_note& wait = one.wait;
    if (wait.round == 0) continue;
    const recorded_schedule* const in = one.find(wait.instance % shm_record::k_ids);
    if (in != nullptr) context.names[wait.instance] = in->label;
    events.push_back({.begin_ns = wait.since_ns,
                      .end_ns = end,
                      .round = wait.round,
                      .schedule = wait.instance,
                      .who = one.number,
                      .op = wait.op,
                      .peer = wait.peer,
                      .kind = wait.kind});
  }
  std::fputs(to_trace_json(events, context).c_str(), stdout);
}

int report(const postmortem_options& options) {
  const recording all = read_source(options.source);
  if (options.as_trace)
    print_trace(all);
  else if (options.as_json)
    print_json(all);
  else
    print(all);
  return 0;
}

}  // namespace

void add_postmortem_command(CLI::App& app, command_context& context) {
  CLI::App* command = app.add_subcommand("postmortem", "Where each rank is, or was when it ended or was killed");
  const auto options = std::make_shared<postmortem_options>();
  command
      ->add_option("SOURCE", options->source,
                   "A file that was written under LSCHED_RECORDER, or the process number of an `lsched run` that runs")
      ->required();
  auto* as_json = command->add_flag("--json", options->as_json, "Print one JSON object; times are ns since 1970");
  command->add_flag("--trace", options->as_trace, "Print the open waits as a trace, for https://ui.perfetto.dev")
      ->excludes(as_json);
  command->footer(
      "A wait is on record once it has lasted 50 us. Ranks of other nodes have a recording of their own.\n"
      "Example:  LSCHED_RECORDER=/tmp/hello.rec lsched run -n 4 ./hello\n"
      "          lsched postmortem /tmp/hello.rec      # at any time, also after kill -9\n"
      "          lsched postmortem $(pgrep -f 'lsched run')");
  command->callback([&context, options] { context.action = [options] { return report(*options); }; });
}

}  // namespace lsched::cli
