// `lsched soak`: runs partial allreduces for any number of rounds and checks every result.
//
//  - N times: waits for a random time, offers, collects, and checks the result (soak_ledger.h).
//  - Then leaves, and collects until every rank has left and no message is in flight.
//  - Then checks that the totals of all results equal the totals of all offers, and that all ranks have equal totals.
//    Ordinary allreduces compute these totals.
#include <sched.h>
#include <CLI/CLI.hpp>

#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "bindings/cli/common/commands.h"
#include "bindings/cli/common/errors.h"
#include "bindings/cli/common/session.h"
#include "bindings/cli/common/words.h"
#include "bindings/cli/program/program.h"
#include "bindings/cli/program/tools.h"
#include "bindings/progress_line.h"
#include "bindings/selection_environment.h"
#include "libsched/schedule/draw.h"
#include "microbench/soak/soak_ledger.h"
#include "microbench/soak/stopper.h"
#include "ops/counted.h"

namespace lsched::cli {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;
using json = nlohmann::ordered_json;

constexpr std::int32_t k_default_ranks = 4;
/// For shorter delays a rank yields its core instead of sleeping, because a sleep may end late by about this time.
constexpr auto k_least_sleep = 50us;
constexpr std::uint64_t k_most_lines = 20;  ///< maximum number of violations that a rank prints

struct soak_options {
  std::string policy = "solo";
  std::string algorithm = "auto";
  std::uint64_t rounds = 1'000'000;
  std::uint64_t seed = 1;
  std::uint64_t count = 16;
  std::uint32_t fragments = 1;
  double delay_us = 20;
  std::string delay = "auto";
  double timeout_s = 30;
  double stops_ms = 0;  ///< mean time between stops; 0 means no stops
  std::string json_file;
  bool progress = false;
  bool leaves_early = false;
  session_options world{.default_ranks = k_default_ranks};
};

// --- random delays -----------------------------------------------------------------------------------------

/// Returns an exponentially distributed delay with the given mean. The delay depends only on (seed, rank, round).
clock::duration draw_delay(const soak_options& options, std::int32_t rank, std::uint64_t round) {
  constexpr std::uint64_t k_salt = 0x64656c6179;  // separates these draws from the contributions
  const std::uint64_t bits = mix(mix(mix(options.seed ^ k_salt) ^ static_cast<std::uint64_t>(rank)) ^ round);
  const double uniform = static_cast<double>(bits >> 11) * 0x1p-53;  // [0, 1)
  return std::chrono::duration_cast<clock::duration>(
      std::chrono::duration<double, std::micro>(-std::log1p(-uniform) * options.delay_us));
}

/// Returns a seed for the random times of stops. The draws are independent of delays and contributions.
std::uint64_t seed_of_stops(const soak_options& options, std::int32_t rank) {
  constexpr std::uint64_t k_salt = 0x73746f7073;
  return mix(options.seed ^ k_salt) ^ static_cast<std::uint64_t>(rank);
}

/// Returns the number of calls of a rank before the rank leaves. The number is `rounds`, or with `leaves_early` a
/// random number between half of `rounds` and `rounds`.
std::uint64_t calls_of(const soak_options& options, std::int32_t rank) {
  if (!options.leaves_early) return options.rounds;
  const std::uint64_t half = (options.rounds + 1) / 2;
  return half + mix(mix(options.seed) ^ static_cast<std::uint64_t>(rank)) % (options.rounds - half + 1);
}

std::uint64_t least_calls(const soak_options& options, std::int32_t ranks) {
  std::uint64_t least = options.rounds;
  for (std::int32_t r = 0; r < ranks; ++r) least = std::min(least, calls_of(options, r));
  return least;
}

void wait(const soak_options& options, clock::duration time) {
  if (time <= clock::duration::zero()) return;
  const auto end = clock::now() + time;
  const bool sleeps = options.delay == "sleep" || (options.delay == "auto" && time >= k_least_sleep);
  if (sleeps) return std::this_thread::sleep_until(end);
  while (clock::now() < end)
    if (options.delay != "busy") sched_yield();
}

// --- one rank ----------------------------------------------------------------------------------------------

class soak {
 public:
  soak(const soak_options& options, session& here, stopper* stops)
      : options_(options),
        here_(here),
        stopper_(stops),
        timeout_ns_(static_cast<std::uint64_t>(options.timeout_s * 1e9)),
        calls_(calls_of(options, here.rank())),
        ledger_({.self = here.rank(), .size = here.size()}, options.count, options.seed,
                require(read_activation(options.policy)), least_calls(options, here.size()), options.fragments,
                [this](std::uint64_t call, const std::string& what) { complain(call, what); }) {
    if (here.rank() == 0)
      line_.emplace(options.progress ? progress_line::elsewhere::lines : progress_line::elsewhere::nothing);
  }

  /// Returns true on all ranks if `mine` is true on any rank. This function is collective.
  bool is_anywhere(bool mine) { return combine({mine ? 1u : 0u}, LSCHED_MAX).front() != 0; }

  /// Returns the number of violations, summed over all ranks.
  std::uint64_t run() {
    if (stopper_ != nullptr) stopper_->begin(options_.stops_ms, seed_of_stops(options_, here_.rank()));
    create();
    begin_ = clock::now();
    for (std::uint64_t call = 1; call <= calls_; ++call) {
      wait(options_, draw_delay(options_, here_.rank(), call));
      play_round();
      if (line_) line_->show([&] { return words_for_progress(); });
    }
    line_.reset();
    drain();
    seconds_ = std::chrono::duration<double>(clock::now() - begin_).count();
    destroy();
    const std::uint64_t mine = stopper_ == nullptr ? 0 : stopper_->end();
    stops_ = combine({mine}, LSCHED_SUM).front();
    return settle();
  }

  json summary(std::uint64_t violations) const;

 private:
  void create();
  void play_round();
  void drain();
  void destroy();
  std::uint64_t settle();
  void collect(lsched_ticket ticket, std::uint64_t checked_round);
  lsched_status try_collect(lsched_ticket ticket, std::uint64_t checked_round);
  std::vector<std::uint64_t> combine(std::vector<std::uint64_t> values, lsched_reduction how);
  void expect(lsched_status code, const char* call) const;
  void complain(std::uint64_t call, const std::string& what);
  std::string words_for_progress() const;

  const soak_options& options_;
  session& here_;
  stopper* const stopper_;  ///< null if this process is not stopped
  std::uint64_t timeout_ns_;
  std::uint64_t calls_;
  soak_ledger ledger_;
  lsched_schedule* schedule_ = nullptr;
  lsched_diagnostic detail_{.struct_size = sizeof(lsched_diagnostic)};
  clock::time_point begin_{};
  double seconds_ = 0;
  std::uint64_t stops_ = 0;            ///< number of stops, summed over all ranks
  std::optional<progress_line> line_;  ///< only on rank 0
  std::uint64_t lines_ = 0;
};

/// Throws an exception with the library's error text, the rank and the index of the call, unless `code` is LSCHED_OK.
void soak::expect(lsched_status code, const char* call) const {
  if (code == LSCHED_OK) return;
  const bool has_detail = detail_.status == code && detail_.text[0] != '\0';
  const std::string where = "rank " + std::to_string(here_.rank()) + ", call " + std::to_string(ledger_.calls()) + ": ";
  throw command_failure(code,
                        where + (has_detail ? detail_.text : std::string(call) + ": " + lsched_status_text(code)));
}

void soak::create() {
  lsched_partial_desc desc{};
  desc.struct_size = sizeof desc;
  desc.count = options_.count;
  desc.dtype = LSCHED_I64;  // sums wrap around, as the ledger's unsigned sums do
  desc.reduction = LSCHED_SUM;
  desc.activation = options_.policy.c_str();
  desc.seed = options_.seed;
  desc.lag = LSCHED_ACCUMULATE;
  desc.algorithm = options_.algorithm.c_str();
  desc.fragments = options_.fragments;
  expect(lsched_partial_create(here_.runtime(), &desc, &schedule_, &detail_), "lsched_partial_create");
}

void soak::play_round() {
  lsched_ticket ticket{};
  const void* const contribution = ledger_.contribute().data();
  expect(lsched_offer(schedule_, &contribution, &ticket), "lsched_offer");
  collect(ticket, ticket.round);
}

lsched_status soak::try_collect(lsched_ticket ticket, std::uint64_t checked_round) {
  for (;;) {
    lsched_report report{};
    report.struct_size = sizeof report;
    void* const result = ledger_.result();
    const lsched_status answer = lsched_collect(ticket, &result, timeout_ns_, &report, &detail_);
    if (answer != LSCHED_OK) return answer;
    if (!ledger_.check(report, checked_round) || options_.fragments == 1) return LSCHED_OK;
  }
}

void soak::collect(lsched_ticket ticket, std::uint64_t checked_round) {
  expect(try_collect(ticket, checked_round), "lsched_collect");
}

/// Leaves the schedule, and collects until no round is left. When every rank has left a schedule, the schedule's last
/// round is UINT64_MAX. Other ranks may be busy for longer than one timeout, but at least one round must end within
/// each timeout.
void soak::drain() {
  expect(lsched_leave(schedule_), "lsched_leave");
  for (;;) {
    const lsched_status answer = try_collect({schedule_, UINT64_MAX}, 0);
    if (answer == LSCHED_OK) break;
    if (answer != LSCHED_ERR_TIMEOUT) expect(answer, "lsched_collect");
    const lsched_diagnostic why = detail_;
    const std::uint64_t before = ledger_.last_round();
    collect({schedule_, before}, 0);
    if (ledger_.last_round() != before) continue;
    detail_ = why;
    expect(answer, "lsched_collect");
  }
  ledger_.check_mine();
}

void soak::destroy() {
  expect(lsched_schedule_destroy(std::exchange(schedule_, nullptr), timeout_ns_, &detail_), "lsched_schedule_destroy");
}

/// Combines the values of all ranks by an ordinary allreduce in place. This function is collective.
std::vector<std::uint64_t> soak::combine(std::vector<std::uint64_t> values, lsched_reduction how) {
  lsched_collective_desc desc{};
  desc.struct_size = sizeof desc;
  desc.collective = "allreduce";
  desc.input = values.data();
  desc.output = values.data();
  desc.count = values.size();
  desc.dtype = LSCHED_U64;
  desc.reduction = how;
  lsched_schedule* schedule = nullptr;
  expect(lsched_collective_create(here_.runtime(), &desc, &schedule, &detail_), "lsched_collective_create");
  expect(lsched_run(schedule, timeout_ns_, &detail_), "lsched_run");
  expect(lsched_schedule_destroy(schedule, timeout_ns_, &detail_), "lsched_schedule_destroy");
  return values;
}

/// Checks that the total of all results equals the total of all offers, and that all ranks have the same totals.
/// Returns the number of violations, summed over all ranks.
std::uint64_t soak::settle() {
  ledger_.check_totals(combine(ledger_.offered(), LSCHED_SUM));
  std::vector<std::uint64_t> books = ledger_.delivered();
  books.push_back(ledger_.last_round());
  const bool agrees = combine(books, LSCHED_MIN) == combine(books, LSCHED_MAX);
  if (!agrees) complain(ledger_.calls(), "ranks have different totals or last rounds");
  return combine({ledger_.violations() + (agrees ? 0 : 1)}, LSCHED_SUM).front();
}

void soak::complain(std::uint64_t call, const std::string& what) {
  if (++lines_ > k_most_lines) return;
  const auto held = line_ ? line_->erase() : std::unique_lock<std::mutex>();
  std::fprintf(stderr, "lsched soak: violation on rank %d, call %llu: %s\n", here_.rank(),
               static_cast<unsigned long long>(call), what.c_str());
  if (lines_ == k_most_lines)
    std::fprintf(stderr, "lsched soak: rank %d counts further violations silently\n", here_.rank());
}

std::string soak::words_for_progress() const {
  const std::uint64_t done = ledger_.calls();
  const double rate = static_cast<double>(done) / std::chrono::duration<double>(clock::now() - begin_).count();
  std::array<char, 200> text{};
  std::snprintf(text.data(), text.size(), "lsched soak: %s, %llu of %llu rounds, %.0f rounds/s, %.0f s left",
                options_.policy.c_str(), static_cast<unsigned long long>(done), static_cast<unsigned long long>(calls_),
                rate, static_cast<double>(calls_ - done) / rate);
  return text.data();
}

json soak::summary(std::uint64_t violations) const {
  return {{"bench", "soak"},
          {"policy", options_.policy},
          {"ranks", here_.size()},
          {"rounds", options_.rounds},
          {"violations", violations},
          {"rounds_of_world", ledger_.last_round()},
          {"seconds", seconds_},
          {"rounds_per_s", static_cast<double>(calls_) / seconds_},
          {"nap_mean", ledger_.mean_contributors()},
          {"transport", here_.transport()},
          {"count", options_.count},
          {"fragments", options_.fragments},
          {"delay_us", options_.delay_us},
          {"delay", options_.delay},
          {"stops_ms", options_.stops_ms},
          {"stops", stops_},
          {"algorithm", options_.algorithm},
          {"seed", options_.seed},
          {"version", lsched_version()}};
}

// --- the command -------------------------------------------------------------------------------------------

struct file_closer {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using file_handle = std::unique_ptr<std::FILE, file_closer>;

/// Returns true if this rank is rank 0 and writes its JSON line to a file.
bool has_file(const soak_options& options, std::int32_t rank) {
  return rank == 0 && !options.json_file.empty() && options.json_file != "-";
}

void write_line(std::FILE* file, const std::string& name, const json& line) {
  const bool is_written = std::fprintf(file, "%s\n", line.dump().c_str()) > 0 && std::fflush(file) == 0;
  if (!is_written) throw command_failure("cannot write " + name + ": " + std::strerror(errno));
}

int run_soak(const command_context& context, const soak_options& options) {
  if (const auto status = session::relaunch(context, options.world)) return *status;
  std::optional<stopper> stops;
  if (options.stops_ms > 0) stops.emplace();  // forks, so no thread may exist yet
  session here(options.world);
  soak work(options, here, stops ? &*stops : nullptr);
  file_handle file;  // opened before the soak test starts, so that an invalid name fails at once
  if (has_file(options, here.rank())) file.reset(std::fopen(options.json_file.c_str(), "w"));
  const int error = errno;
  const bool is_stuck = has_file(options, here.rank()) && file == nullptr;
  if (work.is_anywhere(is_stuck)) {
    here.close();
    if (!is_stuck) return 0;
    throw command_failure("cannot write " + options.json_file + ": " + std::strerror(error));
  }
  const std::uint64_t violations = work.run();
  if (here.rank() == 0) {
    const std::string name = file == nullptr ? "standard output" : options.json_file;
    write_line(file == nullptr ? stdout : file.get(), name, work.summary(violations));
    if (violations != 0) std::fprintf(stderr, "lsched soak: %s\n", counted(violations, "violation").c_str());
  }
  here.close();
  return violations == 0 ? 0 : 1;
}

void add_options(CLI::App& app, command_context& context) {
  context.flaws_of_files = load_algorithm_files();  // before options list the names of algorithms
  CLI::App* const command = &app;
  const auto options = std::make_shared<soak_options>();
  command->add_option("--activation", options->policy, "Policy that starts a round")
      ->check(activation_words())
      ->capture_default_str();
  command->add_option("--algorithm", options->algorithm, "Algorithm of the rounds")
      ->check(one_of(algorithm_names("partial_allreduce")))
      ->capture_default_str();
  command->add_option("--iterations", options->rounds, "Calls of each rank")
      ->check(whole_number(1))
      ->capture_default_str();
  command->add_option("--seed", options->seed, "Seed of delays, contributions and draws")->capture_default_str();
  command
      ->add_option("-n,--ranks", options->world.ranks, "Number of ranks to start if there is no launcher (default: 4)")
      ->check(whole_number(1, k_most_ranks));
  command->add_option("--count", options->count, "Integers in a contribution, at least 3")
      ->check(whole_number(soak_ledger::k_least_count, std::uint64_t{1} << 32))
      ->capture_default_str();
  command->add_option("--fragments", options->fragments, "Fragments of the schedule, which take turns")
      ->check(whole_number(1, 1024))
      ->capture_default_str();
  command->add_option("--delay-us", options->delay_us, "Mean of the exponentially distributed pause before each call")
      ->check(number(0, 1e9))
      ->capture_default_str();
  command->add_option("--delay", options->delay, "Kind of pause; auto: sleeps for 50 us or more, else yields")
      ->check(one_of({"auto", "busy", "sleep"}))
      ->capture_default_str();
  command
      ->add_option(
          "--stops", options->stops_ms,
          "Stop each rank (SIGSTOP) for 0.2 to 20 ms, after exponentially distributed times with this mean in ms")
      ->check(number(0.1, 1e9))
      ->type_name("MS");
  add_transport_option(*command, options->world);
  command->add_option("--timeout", options->timeout_s, "Seconds without progress after which the run fails")
      ->check(number(0.001, 1e9))
      ->capture_default_str();
  command->add_option("--json", options->json_file, "Write the result to FILE (default: -, standard output)")
      ->type_name("FILE");
  command->add_flag("--leave-early", options->leaves_early,
                    "Each rank leaves after a different number of calls, at least half of --iterations");
  command->add_flag("--progress", options->progress, "Report every second, even if standard error is not a terminal");
  command->callback([&context, options] {
    const session_options& world = options->world;
    if (find_origin() == origin::alone)
      expect_in_world("partial_allreduce", options->policy, {}, world.ranks == 0 ? world.default_ranks : world.ranks);
    context.action = [&context, options] { return run_soak(context, *options); };
  });
}

}  // namespace
}  // namespace lsched::cli

int main(int argc, char** argv) {
  using namespace lsched::cli;
  return run_program({.name = "lsched soak",
                      .summary = k_soak.summary,
                      .footer = "Prints one JSON line when done; exit status 1 if any check failed.\n"
                                "Example:  lsched soak --activation majority --ranks 8 --iterations 1000000\n"
                                "          lsched soak --activation 'quorum(2)' --iterations 10000 --stops 50\n"
                                "          mpiexec.mpich -n 32 lsched soak --activation solo --transport mpi",
                      .add_commands = add_options},
                     {argv, argv + argc});
}
