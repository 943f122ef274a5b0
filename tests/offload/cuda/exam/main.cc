// The command line of `cuda_exam`.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>

#include "tests/offload/cuda/exam/child.h"
#include "tests/offload/cuda/exam/exam.h"

namespace lsched::exam {
namespace {

/// Runs one part in this process. Returns the exit status.
int ask(const part& one, const effort& how) {
  try {
    return one.ask(how) ? 0 : 1;
  } catch (const bench::no_gpu& why) {
    std::fprintf(stderr, "cuda_exam: %s\n", why.what());
    return k_exit_no_gpu;
  } catch (const std::exception& why) {
    std::fprintf(stderr, "cuda_exam: %s: %s\n", std::string(one.name).c_str(), why.what());
    return 1;
  }
}

/// Runs each part in a process of its own. If a part finds no GPU, the remaining parts are not run.
int ask_all(const effort& how) {
  int worst = 0;
  for (const part& each : parts()) {
    std::vector<std::string> words{"cuda_exam", "part", std::string(each.name)};
    if (how.is_quick) words.emplace_back("--quick");
    // Short runs also test the program on machines without a GPU. The cores of these machines may be busy, so the limit
    // is longer.
    const ending end = run_child(words, how.is_quick ? 10 * each.limit_s : each.limit_s);
    if (end.status == k_exit_no_gpu) return k_exit_no_gpu;
    const json line{
        {"exam", "end"}, {"part", each.name}, {"status", end.status}, {"late", end.is_late}, {"seconds", end.seconds}};
    std::printf("%s\n", line.dump().c_str());
    std::fflush(stdout);
    worst = std::max(worst, end.status == 0 ? 0 : 1);
  }
  return worst;
}

int run(int count, char** words) {
  CLI::App app(
      "Examines a machine with a GPU: kernels compared with the host, and the behaviour of the driver.\n"
      "Prints JSON lines. Exit status 77 if there is no GPU, 1 if a result is wrong.");
  effort how;
  fuzz_options fuzzing;
  std::string name;
  std::vector<std::string> names;
  for (const part& each : parts()) names.emplace_back(each.name);
  app.require_subcommand(0, 1);
  app.add_flag("--quick", how.is_quick, "Short runs of all parts, to test the program");
  auto& one = *app.add_subcommand("part", "Runs one part in this process, without a time limit");
  one.add_option("NAME", name, "Part to run")->required()->check(CLI::IsMember(names));
  one.add_flag("--quick", how.is_quick, "A short run");
  auto& random =
      *app.add_subcommand("fuzz", "Runs random collectives over memory of host and device, as a rank of a world");
  random.add_option("--seconds", fuzzing.seconds, "Time of the run")
      ->check(CLI::Range(0.01, 36000.0))
      ->capture_default_str();
  random.add_option("--seed", fuzzing.seed, "Seed of the first collective; each collective has its own seed")
      ->capture_default_str();
  random.add_option("--rounds", fuzzing.rounds, "Maximum number of collectives");
  random.add_option("--most", fuzzing.most_elements, "Maximum number of elements of a block")->capture_default_str();
  random.footer("Example:  lsched run -n 3 --timeout 60 cuda_exam fuzz --seconds 20");
  CLI11_PARSE(app, count, words);
  if (random.parsed()) return fuzz(fuzzing);
  if (one.parsed()) return ask(*std::ranges::find(parts(), name, &part::name), how);
  return ask_all(how);
}

}  // namespace
}  // namespace lsched::exam

int main(int count, char** words) { return lsched::exam::run(count, words); }
