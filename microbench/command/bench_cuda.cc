// The command `lsched bench cuda` runs each part in its own process or processes, and joins the results. If a part
// crashes or hangs, only the results of that part are lost.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <numeric>

#include "bindings/cli/common/errors.h"
#include "bindings/cli/common/executable.h"
#include "bindings/cli/common/launcher.h"
#include "bindings/cli/common/words.h"
#include "bindings/input_file.h"
#include "microbench/command/bench_options.h"
#include "microbench/harness.h"
#include "microbench/report.h"

namespace lsched::cli {
namespace {

/// A run of one part of the benchmark. A step gets a share of the remaining time. The share is the weight of the step,
/// divided by the sum of the weights of this step and all later steps.
struct cuda_step {
  const char* part;
  std::int32_t ranks;  ///< 0: the part needs no ranks
  bool as_threads;
  double weight;
};
constexpr std::array k_steps{cuda_step{"machine", 0, false, 15},   cuda_step{"costs", 0, false, 15},
                             cuda_step{"kernels", 0, false, 45},   cuda_step{"allreduce", 2, false, 45},
                             cuda_step{"streams", 2, false, 10},   cuda_step{"allreduce", 2, true, 40},
                             cuda_step{"streams", 2, true, 10},    cuda_step{"idle", 2, false, 6},
                             cuda_step{"allreduce", 4, false, 35}, cuda_step{"allreduce", 4, true, 35}};
constexpr double k_patience_s = 20;  ///< additional time for the start and end of a part; after this time the part is
                                     ///< killed

/// A temporary file without a name, which other processes open by a path in /proc.
class passed_file {
 public:
  passed_file() : file_(std::tmpfile()) {
    if (file_ == nullptr) throw command_failure("cannot create a temporary file: check the free space in /tmp");
    path_ = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(fileno(file_));
  }
  ~passed_file() { std::fclose(file_); }
  passed_file(const passed_file&) = delete;
  passed_file& operator=(const passed_file&) = delete;

  const std::string& path() const { return path_; }
  std::string content() const { return require(content_of(path_)); }

 private:
  std::FILE* file_;
  std::string path_;
};

std::string name_of(const cuda_step& step) {
  if (step.ranks == 0) return step.part;
  return std::string(step.part) + ", " + std::to_string(step.ranks) + (step.as_threads ? " threads" : " processes");
}

launch_request request_of(const cuda_step& step, const bench::cuda_options& options, double seconds,
                          const std::string& json) {
  launch_request request;
  request.title = "lsched bench cuda";
  request.path = own_program();
  request.words = {"lsched-bench", "cuda", "--only", step.part, "--seconds", std::to_string(seconds), "--json", json};
  if (step.ranks != 0) request.words.insert(request.words.end(), {"--ranks", std::to_string(step.ranks)});
  if (step.as_threads) request.words.emplace_back("--threads");
  if (options.quick) request.words.emplace_back("--quick");
  request.ranks = step.as_threads || step.ranks == 0 ? 1 : step.ranks;
  request.limit = std::chrono::milliseconds(static_cast<std::int64_t>((seconds + k_patience_s) * 1000));
  return request;
}

/// Adds the complete lines of a part to the report.
void take_lines(const std::string& lines, bench::reporter& out) {
  for (std::size_t at = 0, end = 0; (end = lines.find('\n', at)) != std::string::npos; at = end + 1)
    if (bench::result line = bench::result::parse(lines.substr(at, end - at), nullptr, false); !line.is_discarded())
      out.add(std::move(line));
}

/// Runs a part, adds its results and returns its exit status.
int run_step(const cuda_step& step, const bench::cuda_options& options, double seconds, bench::reporter& out) {
  const passed_file json;
  out.say("\n--- %s, %.0f s", name_of(step).c_str(), seconds);
  const auto begin = bench::clock::now();
  const int status = launch(request_of(step, options, seconds, json.path()));
  take_lines(json.content(), out);
  if (status == bench::k_exit_no_gpu) return status;
  out.add({{"kind", "part"},
           {"what", name_of(step)},
           {"status", status},
           {"seconds", bench::ms_between(begin, bench::clock::now()) / 1e3},
           {"of_seconds", seconds}});
  return status;
}

int run_all(const bench::cuda_options& options) {
  // If JSON goes to standard output, the tables of the parts go to standard error, like those of the reporter.
  const bool is_json_printed = options.json == "-";
  bench::cuda_options named = options;
  std::optional<int> printed;
  if (is_json_printed) {
    printed = dup(STDOUT_FILENO);
    named.json = "/proc/self/fd/" + std::to_string(*printed);
    if (*printed < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
      throw command_failure("standard output: cannot duplicate the descriptor");
  }
  bench::reporter out("cuda", named);
  const auto begin = bench::clock::now();
  bool has_failed = false;
  double weights = std::transform_reduce(k_steps.begin(), k_steps.end(), 0.0, std::plus(),
                                         [](const cuda_step& each) { return each.weight; });
  for (const cuda_step& step : k_steps) {
    const double left = options.seconds - bench::ms_between(begin, bench::clock::now()) / 1e3;
    const double seconds = left * step.weight / weights;
    weights -= step.weight;
    if (seconds < 0.1) {
      out.say("left out: %s (no time)", name_of(step).c_str());
      out.add({{"kind", "left_out"}, {"part", step.part}, {"what", name_of(step)}, {"why", "no time"}});
      continue;
    }
    const int status = run_step(step, options, seconds, out);
    if (status == bench::k_exit_no_gpu) return status;
    has_failed = has_failed || status != 0;
  }
  const int status = out.finish();
  return has_failed ? 1 : status;
}

}  // namespace

void add_cuda(CLI::App& bench, command_context& context) {
  CLI::App& command = *bench.add_subcommand(
      "cuda", "Costs of a GPU: calls, copies, kernels, allreduces in its memory; exit status 77 if there is no GPU");
  const auto world = std::make_shared<session_options>();
  const auto options = std::make_shared<bench::cuda_options>();
  options->seconds = 240;
  std::vector<std::string> parts;
  for (const bench::cuda_part& each : bench::cuda_parts()) parts.emplace_back(each.name);
  CLI::Option* const part =
      command.add_option("--only", options->part, "Measure one part [all, one after the other]")->check(one_of(parts));
  command.add_option("-n,--ranks", options->ranks, "Number of ranks, for parts with ranks")
      ->check(whole_number(1, 64))
      ->capture_default_str()
      ->needs(part);
  command.add_flag("--threads", options->as_threads, "Run the ranks as threads of one process")->needs(part);
  add_seconds_option(command, "--seconds", options->seconds,
                     "Total time; parts that do not fit are left out and named");
  command.add_flag("--quick", options->quick,
                   "Small sizes and few samples: tests whether the benchmark works, without meaningful times");
  add_output_options(command, *options);
  command.footer(
      "Examples:  lsched bench cuda --json cuda.jsonl\n"
      "           lsched bench cuda --only allreduce --ranks 4 --threads");
  command.callback([&context, world, options] {
    context.action = [&context, world, options] {
      if (options->part.empty()) return run_all(*options);
      const auto all = bench::cuda_parts();
      const auto which = std::ranges::find(all, options->part, &bench::cuda_part::name);
      if (!which->has_ranks || options->as_threads) {
        options->as_threads = which->has_ranks;
        return bench::run_cuda(*options);
      }
      world->ranks = options->ranks;
      return in_world(context, *world, [&](session& here) {
        options->transport = here.transport();
        return bench::run_cuda_ranks(here.runtime(), *options);
      });
    };
  });
}

}  // namespace lsched::cli
