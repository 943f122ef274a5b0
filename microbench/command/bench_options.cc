#include "microbench/command/bench_options.h"

#include <algorithm>
#include <cstdio>

#include "bindings/cli/common/words.h"
#include "microbench/exercise.h"
#include "microbench/harness.h"

namespace lsched::cli {

std::shared_ptr<session_options> add_ranks_option(CLI::App& command, std::int32_t default_ranks, bool is_beside_mpi) {
  const auto world = std::make_shared<session_options>();
  world->default_ranks = default_ranks;
  if (is_beside_mpi) world->mpi_threads = "funneled";
  command
      .add_option("-n,--ranks", world->ranks,
                  "Number of ranks; without a launcher, the command starts them itself (then " +
                      std::to_string(default_ranks) + " by default)")
      ->check(whole_number(1, k_most_ranks));
  return world;
}

void add_output_options(CLI::App& command, bench::output_options& options, bool can_pin) {
  if (can_pin) command.add_flag("--pin", options.pin, "Pin rank r to the r-th core this process may use, round robin");
  command
      .add_option("--json", options.json,
                  "Write one JSON line per result to FILE; with - to standard output, and tables to standard error")
      ->type_name("FILE");
}

void add_seconds_option(CLI::App& command, const char* flags, double& seconds, const char* help) {
  add_value(command, flags, seconds, help, number(0.001, 36000));
}

CLI::Validator size_word() {
  const auto check = [](const std::string& word) {
    try {
      const std::uint64_t bytes = bench::parse_size(word);
      return bytes > 0 && bytes % sizeof(float) == 0
                 ? std::string()
                 : "size " + word + " is not a positive multiple of 4 bytes (floats)";
    } catch (const bench::failed& why) {
      return std::string(why.what());
    }
  };
  return {[check](std::string& word) { return check(word); }, "BYTES", ""};
}

void add_sizes_option(CLI::App& command, std::vector<std::uint64_t>& sizes) {
  std::string defaults;
  for (const std::uint64_t bytes : sizes) defaults += (defaults.empty() ? "" : ",") + bench::size_text(bytes);
  command
      .add_option_function<std::vector<std::string>>(
          "--bytes",
          [&sizes](const std::vector<std::string>& words) {
            sizes.clear();
            for (const std::string& word : words) sizes.push_back(bench::parse_size(word));
          },
          "Message sizes [" + defaults + "]")
      ->delimiter(',')
      ->check(size_word());
}

CLI::Option* add_collectives_option(CLI::App& command, std::vector<std::string>& collectives) {
  std::vector<std::string> names{"all"};
  for (const collective* const kind : bench::exercises()) names.emplace_back(kind->name);
  return command
      .add_option_function<std::vector<std::string>>(
          "--collective",
          [&collectives](const std::vector<std::string>& words) {
            collectives.clear();
            for (const collective* const kind : bench::exercises())
              if (std::find(words.begin(), words.end(), "all") != words.end() ||
                  std::find(words.begin(), words.end(), kind->name) != words.end())
                collectives.emplace_back(kind->name);
          },
          "Collectives, or all [allreduce]")
      ->delimiter(',')
      ->check(one_of(names));
}

int in_world(const command_context& context, const session_options& options,
             const std::function<int(session&)>& benchmark) {
  if (const auto status = session::relaunch(context, options)) return *status;
  session here(options);
  int status = 1;
  try {
    status = benchmark(here);
  } catch (const bench::agreed& why) {
    if (here.rank() == 0)
      std::fprintf(stderr, "lsched: %s\n", why.what());
    else
      status = 0;  // only rank 0 reports the failure
  }
  here.close();
  return status;
}

int in_one_process(const std::function<int()>& benchmark) {
  if (find_origin() == origin::alone) return benchmark();
  session here;
  int status = 0;
  {
    bench::team ranks(here.runtime());
    try {
      bench::on_root(ranks, [&] { status = benchmark(); });
    } catch (const bench::agreed& why) {
      if (ranks.is_root()) std::fprintf(stderr, "lsched: %s\n", why.what());
      status = 1;
    }
  }
  here.close();
  return status;
}

}  // namespace lsched::cli
