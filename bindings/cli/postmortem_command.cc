// `lsched postmortem`: prints the current or last schedule, round and op of each rank of a node.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/cli/common/commands.h"
#include "bindings/cli/common/errors.h"
#include "bindings/cli/common/json_text.h"
#include "bindings/cli/common/options.h"
#include "bindings/cli/common/printed_to.h"
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
  std::string json, trace;  ///< paths of output files
};

struct owned_file {
  explicit owned_file(int opened) : number(opened) {}
  ~owned_file() { close(number); }
  owned_file(const owned_file&) = delete;
  owned_file& operator=(const owned_file&) = delete;
  int number;
};

// --- finding the recording -------------------------------------------------------------------------------------

/// Reads the recording from the shared segment of a process. That process is `lsched run -n` or, under
/// `lsched run --hosts` and MPI, the first rank of a node.
std::string content_from_process(const std::string& number) {
  const std::filesystem::path folder = "/proc/" + number + "/fd";
  std::error_code error;
  std::string why =
      " has created no world: give the process number of `lsched run -n`. Under `lsched run --hosts` and MPI, give the "
      "process number of the first rank on this host";
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    std::error_code gone;
    if (std::filesystem::read_symlink(entry.path(), gone) != "/memfd:libsched (deleted)") continue;
    const owned_file file(open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
    const auto content = shm_segment::read_recording(file.number);
    if (content) return *content;
    why = ": " + content.error().text;
  }
  if (error == std::errc::no_such_file_or_directory)
    why = ": there is no such process and no such file";
  else if (error)
    why = ": " + reason_of(error.value());
  throw command_failure(LSCHED_ERR_ARGUMENT, "process " + number + why);
}

/// Throws an error that names the recordings FILE.RANK if they exist in place of FILE.
void expect_one_node(const std::filesystem::path& file) {
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
  const std::string beginning = file.filename().string() + ".";
  std::vector<std::uint64_t> ranks;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(beginning)) continue;
    if (const auto first = whole_number_in(std::string_view(name).substr(beginning.size()))) ranks.push_back(*first);
  }
  if (ranks.empty()) return;
  std::ranges::sort(ranks);
  std::string names;
  for (const std::uint64_t first : std::span(ranks).first(std::min<std::size_t>(ranks.size(), 4)))
    names += (names.empty() ? "" : ", ") + file.string() + "." + std::to_string(first);
  if (ranks.size() > 4) names += ", ...";
  throw command_failure(LSCHED_ERR_ARGUMENT,
                        file.string() + ": no such file. Each node has its own file, so name one of " + names);
}

recording read_source(const std::string& source) {
  const bool exists = std::filesystem::exists(source);
  const bool is_process = !exists && whole_number_in(source);
  if (!exists && !is_process) expect_one_node(source);
  if (exists && !std::filesystem::is_regular_file(source))
    throw command_failure(LSCHED_ERR_ARGUMENT, source + ": the path is not a regular file, so it is not a recording");
  const std::string content = is_process ? content_from_process(source) : require(content_of(source, k_most_bytes));
  auto all = parse_recording(std::as_bytes(std::span(content)));
  if (!all) throw command_failure(LSCHED_ERR_VERSION, source + ": " + all.error().text);
  return std::move(*all);
}

// --- printing the recording ------------------------------------------------------------------------------------

std::string state_of(const recording& all, const recorded_rank& one) {
  if (one.process == 0) return "never joined";
  if (one.closed_ns != 0) return "closed its world";
  if (!all.is_of_this_boot) return "unknown here";
  if (one.process < 1 || start_of_process(one.process) != one.process_start) return "ended";
  switch (state_of_process(one.process)) {
    case rank_state::stopped: return "stopped";
    case rank_state::ending: return "ended";
    default: return "runs";
  }
}

/// A schedule, its latest round, and the ranks that delay this round. The latest round is the last round for which any
/// rank has called.
struct late_ranks {
  std::string label;
  round_no round = 0;
  std::vector<rank> late;     ///< ranks that have not called for that round
  std::vector<rank> without;  ///< ranks that have not yet created the schedule, or have destroyed it
  std::size_t ranks = 0;      ///< number of ranks that have the schedule
  bool is_of_all = true;      ///< true if the world of the schedule has all ranks
};

/// Returns the schedules that at least one rank has, by id of the schedule.
std::map<std::uint64_t, late_ranks> find_schedules(const recording& all) {
  std::map<std::uint64_t, late_ranks> found;
  for (const recorded_rank& one : all.ranks)
    for (const recorded_schedule& each : one.schedules) {
      if (each.label.empty()) continue;
      late_ranks& entry = found[each.number];
      entry.label = each.label;
      entry.is_of_all = is_of_all_ranks(each.number);
      entry.round = std::max(entry.round, each.entered);
      ++entry.ranks;
    }
  return found;
}

std::vector<late_ranks> find_late(const recording& all) {
  std::vector<late_ranks> found;
  for (auto& [number, entry] : find_schedules(all)) {
    for (const recorded_rank& one : all.ranks) {
      const recorded_schedule* const its = one.find(number);
      if (its != nullptr && its->entered < entry.round) entry.late.push_back(one.number);
      const bool has_none = its == nullptr || (its->label.empty() && its->entered < entry.round);
      const bool is_member = its != nullptr || is_of_all_ranks(number);
      if (is_member && one.process != 0 && one.closed_ns == 0 && has_none) entry.without.push_back(one.number);
    }
    if (!entry.late.empty() || !entry.without.empty()) found.push_back(entry);
  }
  return found;
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
  for (const late_ranks& each : find_late(all)) {
    const std::string label = printable(each.label);
    if (!each.late.empty())
      std::printf("%s, round %llu: %zu of %s have not entered this round: %s\n", label.c_str(),
                  static_cast<unsigned long long>(each.round), each.late.size(),
                  counted(each.is_of_all ? all.ranks.size() : each.ranks, "rank").c_str(),
                  listed(each.late, "rank").c_str());
    if (!each.without.empty())
      std::printf("%s: %zu of %s do not have this schedule: %s\n", label.c_str(), each.without.size(),
                  counted(all.ranks.size(), "rank").c_str(), listed(each.without, "rank").c_str());
  }
}

json describe(const recording& all, const recorded_rank& one) {
  json entry{{"rank", one.number}, {"state", state_of(all, one)}};
  if (one.process == 0) return entry;
  entry["pid"] = one.process;
  const auto wall = [&](std::uint64_t ns) {
    return static_cast<std::int64_t>(ns + static_cast<std::uint64_t>(all.wall_offset_ns));
  };
  if (one.closed_ns != 0) entry["closed_ns"] = wall(one.closed_ns);
  if (const wait_note& wait = one.wait; wait.is_of_message()) {
    entry["waits"] = {{"kind", name_of(wait.kind)}, {"peer", wait.peer}, {"since_ns", wall(wait.since_ns)}};
  } else if (wait.round != 0) {
    const recorded_schedule* const in = one.find(wait.instance);
    entry["waits"] = {{"schedule", in == nullptr ? "" : in->label},
                      {"instance", wait.instance},
                      {"round", wait.round},
                      {"since_ns", wall(wait.since_ns)}};
    if (wait.op != k_no_op) entry["waits"].update({{"op", wait.op}, {"kind", name_of(wait.kind)}, {"peer", wait.peer}});
  }
  entry["schedules"] = json::array();
  for (const recorded_schedule& each : one.schedules)
    if (!each.label.empty()) entry["schedules"].push_back({{"schedule", each.label}, {"called_for", each.entered}});
  return entry;
}

void print_json(const recording& all) {
  json out{{"ranks", json::array()}, {"late", json::array()}};
  for (const recorded_rank& one : all.ranks) out["ranks"].push_back(describe(all, one));
  for (const late_ranks& each : find_late(all))
    out["late"].push_back({{"schedule", each.label},
                           {"round", each.round},
                           {"not_called", each.late},
                           {"do_not_have_it", each.without},
                           {"have_it", each.ranks}});
  std::printf("%s\n", json_text(out).c_str());
}

/// Writes the current waits as events of a trace. If the process of any rank still runs or is stopped, these events end
/// at the present time. Otherwise they end at the last time in the recording.
void print_trace(const recording& all) {
  std::uint64_t end = 0;
  trace_context context{.note = "open waits of a recording"};
  for (const recorded_rank& one : all.ranks) {
    if (const std::string state = state_of(all, one); state == "runs" || state == "stopped")
      end = std::max(end, monotonic_ns());
    end = std::max({end, one.closed_ns, one.wait.since_ns});
  }
  std::vector<trace_event> events;
  for (const recorded_rank& one : all.ranks) {
    const wait_note& wait = one.wait;
    if (wait.round == 0 || wait.is_of_message()) continue;  // a wait for a message has no schedule
    const recorded_schedule* const in = one.find(wait.instance);
    const std::uint32_t schedule = schedule_in_trace(wait.instance);
    if (in != nullptr) context.names[schedule] = in->label;
    events.push_back({.begin_ns = wait.since_ns,
                      .end_ns = end,
                      .round = wait.round,
                      .schedule = schedule,
                      .who = one.number,
                      .op = wait.op,
                      .peer = wait.peer,
                      .tag = wait.tag,
                      .kind = wait.kind});
  }
  std::fputs(to_trace_json(events, context).c_str(), stdout);
}

int report(const postmortem_options& options) {
  const recording all = read_source(options.source);
  for (const std::string* file : {&options.trace, &options.json}) print_to(*file);
  if (!options.trace.empty())
    print_trace(all);
  else if (!options.json.empty())
    print_json(all);
  else
    print(all);
  return 0;
}

}  // namespace

void add_postmortem_command(CLI::App& app, command_context& context) {
  CLI::App* command =
      app.add_subcommand("postmortem", "Show the schedule, round and op of each rank, also after its end or a kill -9");
  const auto options = std::make_shared<postmortem_options>();
  command
      ->add_option("SOURCE", options->source,
                   "A file that LSCHED_RECORDER named, or the process number of a running `lsched run -n`")
      ->required();
  const option_group group{*command};
  auto* as_json = group.add_json(options->json, "one object; times are ns since 1970");
  group.add_file("--trace", options->trace, "Write the open waits as a trace, for https://ui.perfetto.dev")
      ->excludes(as_json);
  command->footer(
      "A wait appears in the recording after 50 us to 1 ms. Each node has its own recording.\n"
      "Rank numbers are those of the launch, also in schedules of a split world, such as #1.3.\n"
      "Example:  LSCHED_RECORDER=/tmp/hello.rec lsched run -n 4 ./hello\n"
      "          lsched postmortem /tmp/hello.rec      # at any time, also after kill -9\n"
      "          lsched postmortem $(pgrep -xo lsched)    # the oldest process");
  command->callback([&context, options] { context.action = [options] { return report(*options); }; });
}

}  // namespace lsched::cli
