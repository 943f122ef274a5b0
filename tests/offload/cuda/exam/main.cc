// The command line of `cuda_exam`.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>

#include "tests/offload/cuda/exam/child.h"
#include "tests/offload/cuda/exam/exam.h"

namespace lsched::exam {
namespace {

/// In this process.
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

/// Each in a process of its own. Where the first says that there is no GPU, the others are not asked.
int ask_all(const effort& how) {
  int worst = 0;
  for (const part& each : parts()) {
    std::vector<std::string> words{"cuda_exam", "part", std::string(each.name)};
    if (how.is_quick) words.emplace_back("--quick");
    const ending end = run_child(words, each.limit_s);
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
      "What a machine with a GPU is asked: kernels against the host's, and what its driver does.\n"
      "JSON lines; exits with 77 where there is no GPU, and with 1 if something is wrong.");
  effort how;
  fuzz_options fuzzing;
  std::string name;
  std::vector<std::string> names;
  for (const part& each : parts()) names.emplace_back(each.name);
  app.require_subcommand(0, 1);
  app.add_flag("--quick", how.is_quick, "Little of everything: whether the program works");
  auto& one = *app.add_subcommand("part", "One part, in this process, without a time limit");
  one.add_option("NAME", name, "Which")->required()->check(CLI::IsMember(names));
  one.add_flag("--quick", how.is_quick, "Little of it");
  auto& random = *app.add_subcommand("fuzz", "Random collectives over memory of host and device, as a rank of a world");
  random.add_option("--seconds", fuzzing.seconds, "How long")->check(CLI::Range(0.01, 36000.0))->capture_default_str();
  random.add_option("--seed", fuzzing.seed, "Of the first collective; each has its own")->capture_default_str();
  random.add_option("--rounds", fuzzing.rounds, "Collectives, at most");
  random.add_option("--most", fuzzing.most_elements, "Elements of a block, at most")->capture_default_str();
  random.footer("Example:  lsched run -n 3 --timeout 60 cuda_exam fuzz --seconds 20");
  CLI11_PARSE(app, count, words);
  if (random.parsed()) return fuzz(fuzzing);
  if (one.parsed()) return ask(*std::ranges::find(parts(), name, &part::name), how);
  return ask_all(how);
}

}  // namespace
}  // namespace lsched::exam

int main(int count, char** words) { return lsched::exam::run(count, words); }
