// `lsched run`: starts a program as P ranks on this machine, or on several hosts, without MPI.
#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/cli/common/commands.h"
#include "bindings/cli/common/executable.h"
#include "bindings/cli/common/launcher.h"
#include "bindings/cli/common/options.h"
#include "bindings/cli/hosts/agent.h"
#include "bindings/cli/hosts/hosts_launcher.h"

namespace lsched::cli {
namespace {

constexpr double k_longest_seconds = 1e9;
constexpr std::int32_t k_longest_start_s = 1'000'000'000;

/// Options of `lsched run` whose value is the next word.
constexpr std::array<std::string_view, 6> k_with_value{"-n",      "-np",       "--ranks",
                                                       "--hosts", "--timeout", "--start-timeout"};

struct run_options {
  std::int32_t ranks = 1;
  std::string host_list;
  std::vector<host> hosts;
  bool is_agent = false;
  double timeout_s = 0;
  std::int32_t start_timeout_s = 0;
  bool bind = false;
  bool prepends_rank = false;
};

int run(const command_context& context, const run_options& options) {
  launch_request request;
  request.ranks = options.ranks;
  request.words = context.program;
  request.start_timeout_s = options.start_timeout_s;
  request.bind = options.bind;
  request.prepends_rank = options.prepends_rank;
  if (options.timeout_s > 0)
    request.limit = std::chrono::milliseconds(static_cast<std::int64_t>(options.timeout_s * 1000));
  if (!options.hosts.empty()) {
    request.ranks = options.hosts.back().first + options.hosts.back().ranks;
    return launch_on_hosts(options.hosts, request);
  }
  const std::string& name = context.program.front();
  const int missing = find_executable(name, request.path);
  if (missing == 0) return launch(request);
  std::fprintf(stderr, "lsched: cannot run \"%s\": %s\n", name.c_str(),
               missing == k_exit_not_found ? "no such program: give a path such as ./my_program, or change PATH"
                                           : "the file is not executable: run `chmod +x` on the file");
  return missing;
}

}  // namespace

std::size_t find_program(const std::vector<std::string>& arguments) {
  if (arguments.size() < 2 || arguments[1] != "run") return arguments.size();
  std::size_t place = 2;
  while (place < arguments.size() && arguments[place].starts_with('-') && arguments[place] != "-") {
    if (arguments[place] == "--") return place + 1;
    const bool has_value = std::find(k_with_value.begin(), k_with_value.end(), arguments[place]) != k_with_value.end();
    place += has_value ? 2 : 1;
  }
  return std::min(place, arguments.size());
}

void add_run_command(CLI::App& app, command_context& context) {
  CLI::App* command = app.add_subcommand("run", "Start a program as P ranks on this machine, or on several hosts");
  const auto options = std::make_shared<run_options>();
  const option_group group{*command};
  CLI::Option* const ranks =
      group.add("-n,--ranks", options->ranks, "Number of ranks on this machine")->check(whole_number(1, k_most_ranks));
  group.add("--hosts", options->host_list, "Hosts and their numbers of ranks, such as node1:4,node2:4")
      ->type_name("LIST")
      ->excludes(ranks);
  group.add("--timeout", options->timeout_s, "Seconds after which `lsched run` ends all ranks that still run")
      ->check(number(0.001, k_longest_seconds));
  group
      .add("--start-timeout", options->start_timeout_s,
           "Time in whole seconds that a rank waits for the others to open the world (default: 60)")
      ->check(whole_number(1, k_longest_start_s));
  group.add_flag("--pin", options->bind, "Pin rank r to the r-th core this process may use, round robin");
  group.add_flag("--prepend-rank", options->prepends_rank, "Begin each line that rank R writes with \"R: \"");
  // `lsched run --hosts` starts this mode on each host.
  command->add_flag("--agent", options->is_agent)->group("");
  // This option exists only for the help text: main() has already removed PROGRAM and its arguments from the command
  // line.
  command->add_option("PROGRAM", context.program, "The program, and its arguments")->type_name("");
  command->footer(
      "The program finds its world through lsched_world_open. Standard input goes to rank 0; SIGINT,\n"
      "SIGTERM and SIGHUP are passed on. On this host, no process that has opened a world outlives this\n"
      "command, however it ends. Other processes of the ranks have one second to end, and one more after\n"
      "SIGTERM.\n"
      "Exit status: 0 if every rank exits with 0, else the status of the rank that failed first (128 + n\n"
      "if signal n killed it); 124 if the time limit passed; 126, 127 if PROGRAM cannot be executed or\n"
      "found.\n"
      "-np is accepted in place of -n.\n"
      "With --hosts, ssh (or LSCHED_RSH) starts `lsched run --agent` on each other host, at the path of\n"
      "this program. Ranks have this working directory. Ranks on this host have all variables of this\n"
      "command but SSH_CONNECTION. Ranks on other hosts have its variables LSCHED_..., PATH,\n"
      "LD_LIBRARY_PATH, PYTHONPATH, UCX_NET_DEVICES, GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME. The ranks\n"
      "of a host end when the connection to that host ends.\n"
      "Example:  lsched run -n 4 --timeout 60 ./my_program --size 1000");
  command->callback([&context, options, ranks] {
    if (options->is_agent) {
      context.action = run_agent;
      return;
    }
    if (ranks->count() == 0 && options->host_list.empty()) throw CLI::RequiredError("-n (--ranks) or --hosts");
    if (!options->host_list.empty()) {
      auto hosts = parse_hosts(options->host_list);
      if (!hosts) throw CLI::ValidationError("--hosts", hosts.error().text);
      options->hosts = std::move(*hosts);
    }
    if (context.program.empty()) throw CLI::RequiredError("PROGRAM");
    context.action = [&context, options] { return run(context, *options); };
  });
}

}  // namespace lsched::cli
