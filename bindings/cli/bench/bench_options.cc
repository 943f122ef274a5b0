#include "bindings/cli/bench/bench_options.h"

#include <algorithm>
#include <cstdio>

#include "bindings/cli/common/words.h"
#include "microbench/exercise.h"
#include "microbench/harness.h"

namespace lsched::cli {

std::shared_ptr<world_words> add_ranks_option(CLI::App& command, std::int32_t default_ranks) {
  const auto words = std::make_shared<world_words>();
  words->default_ranks = default_ranks;
  command
      .add_option("-n,--ranks", words->ranks,
                  "Number of ranks; started by hand, the command starts them itself (then " +
                      std::to_string(default_ranks) + " by default)")
      ->check(whole_number(1, k_most_ranks));
  return words;
}

void add_transport_option(CLI::App& command, world_words& words) {
  command.add_option("--transport", words.transport, "What the ranks talk through; mpi: everything through MPI")
      ->check(CLI::IsMember({"auto", "shm", "mpi"}))
      ->capture_default_str();
}

void add_pin_option(CLI::App& command, bool& pin) {
  command.add_flag("--pin", pin, "Bind the application thread of rank r to the r-th core, round robin");
}

void add_plot_option(CLI::App& command, std::string& plot) {
  command.add_option("--plot", plot, "Draw the results with gnuplot")->type_name("FILE.png");
}

void add_json_option(CLI::App& command, std::string& json) {
  command
      .add_option_function<std::vector<std::string>>(
          "--json",
          [&json](const std::vector<std::string>& words) { json = words.empty() || words[0].empty() ? "-" : words[0]; },
          "Write one JSON line per result to FILE; without FILE to standard output, and the tables to "
          "standard error")
      ->expected(0, 1)
      ->type_name("[FILE]");
}

void add_seconds_option(CLI::App& command, const char* name, double& seconds, const char* help) {
  command.add_option(name, seconds, help)->check(number(0.001, 36000))->capture_default_str();
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
          "--sizes",
          [&sizes](const std::vector<std::string>& words) {
            sizes.clear();
            for (const std::string& word : words) sizes.push_back(bench::parse_size(word));
          },
          "Message sizes in bytes, with K, M or G for binary multiples [" + defaults + "]")
      ->delimiter(',')
      ->check(size_word());
}

void add_collectives_option(CLI::App& command, std::vector<std::string>& collectives) {
  std::vector<std::string> names{"all"};
  for (const bench::exercise_kind& kind : bench::exercises()) names.emplace_back(kind.name);
  command
      .add_option_function<std::vector<std::string>>(
          "--coll",
          [&collectives](const std::vector<std::string>& words) {
            collectives.clear();
            for (const bench::exercise_kind& kind : bench::exercises())
              if (std::find(words.begin(), words.end(), "all") != words.end() ||
                  std::find(words.begin(), words.end(), kind.name) != words.end())
                collectives.emplace_back(kind.name);
          },
          "Collectives, or all [allreduce]")
      ->delimiter(',')
      ->check(CLI::IsMember(names));
}

int in_world(const command_context& context, const world_words& words, const std::function<int(session&)>& benchmark,
             const lsched_config* config) {
  const session_options options{.ranks = words.ranks,
                                .default_ranks = words.default_ranks,
                                .transport = words.transport,
                                .mpi_threads = words.mpi_threads,
                                .config = config};
  if (const auto status = session::relaunch(context, options)) return *status;
  session here(options);
  int status = 1;
  try {
    status = benchmark(here);
  } catch (const bench::agreed& why) {
    if (here.rank() == 0)
      std::fprintf(stderr, "lsched: %s\n", why.what());
    else
      status = 0;  // one rank's word, and status, is enough
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
