#include "microbench/harness.h"

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdarg>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <thread>

#include "offload/cores.h"
#include "ops/counted.h"

namespace lsched::bench {

double ms_between(clock::time_point from, clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

double ns_between(clock::time_point from, clock::time_point to) {
  return std::chrono::duration<double, std::nano>(to - from).count();
}

// ---- calls ----

lsched_diagnostic fresh_diagnostic() {
  lsched_diagnostic why;
  lsched_diagnostic_init(&why);
  return why;
}

void expect_ok(lsched_status answer, const char* call, const lsched_diagnostic& why) {
  if (answer == LSCHED_OK) return;
  const char* detail = why.text[0] != '\0' ? why.text : lsched_status_text(answer);
  throw failed(std::string(call) + ": " + lsched_status_name(answer) + ": " + detail);
}

// An early exit must not hang on ranks that have failed too.
void schedule_closer::operator()(lsched_schedule* schedule) const {
  (void)lsched_schedule_destroy(schedule, 1'000'000'000, nullptr);
}

void close(schedule_handle schedule) {
  auto why = fresh_diagnostic();
  const lsched_status answer = lsched_schedule_destroy(schedule.get(), k_patience_ns, &why);
  const bool still_there = answer == LSCHED_ERR_BUSY || answer == LSCHED_ERR_TIMEOUT;
  if (!still_there) static_cast<void>(schedule.release());
  expect_ok(answer, "lsched_schedule_destroy", why);
}

std::string algorithm_of(const lsched_schedule* schedule) {
  std::array<char, 4096> start{};
  expect_ok(lsched_schedule_print(schedule, LSCHED_PRINT_TEXT, start.data(), start.size(), nullptr),
            "lsched_schedule_print");
  const std::string text = start.data();
  const auto slash = text.find('/', text.find("name \""));
  const auto end = text.find('"', slash);
  if (end == std::string::npos) throw failed("a schedule's name is not COLLECTIVE/ALGORITHM");
  return text.substr(slash + 1, end - slash - 1);
}

shared_floats allocate_shared(lsched_world* runtime, std::size_t count) {
  void* memory = nullptr;
  expect_ok(lsched_alloc(runtime, count * sizeof(float), &memory), "lsched_alloc");
  return {static_cast<float*>(memory), memory_closer{runtime}};
}

// ---- team ----

namespace {

schedule_handle make_allreduce(lsched_world* runtime, const double* input, double* output, std::size_t count,
                               lsched_reduction reduction) {
  const lsched_allreduce_desc desc{.struct_size = sizeof desc,
                                   .input = input,
                                   .output = output,
                                   .count = count,
                                   .dtype = LSCHED_F64,
                                   .reduction = reduction,
                                   .algorithm = nullptr};
  return created("lsched_allreduce_create", lsched_allreduce_create, runtime, &desc);
}

void run(const schedule_handle& schedule, const char* what) {
  auto why = fresh_diagnostic();
  expect_ok(lsched_run(schedule.get(), k_patience_ns, &why), what, why);
}

// A number for this machine that doubles hold exactly.
double machine_number() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return static_cast<double>(std::hash<std::string_view>{}(name.data()) >> 16);
}

}  // namespace

team::team(lsched_world* runtime)
    : runtime_(runtime), rank_(lsched_rank(runtime)), size_(lsched_size(runtime)), word_(std::make_unique<double>(0)) {
  barrier_ = created("lsched_barrier_create", lsched_barrier_create, runtime_);
  agree_ = make_allreduce(runtime_, word_.get(), word_.get(), 1, LSCHED_MAX);
  find_machine();
}

// Launchers bind ranks to cores, so what a machine has is what its ranks may use together.
void team::find_machine() {
  std::vector<double> machines(static_cast<std::size_t>(size_), 0.0);
  const double mine = machine_number();
  machines[static_cast<std::size_t>(rank_)] = mine;
  machines = combine(machines, LSCHED_SUM);
  local_ranks_ = static_cast<int>(std::count(machines.begin(), machines.end(), mine));

  std::sort(machines.begin(), machines.end());
  machines.erase(std::unique(machines.begin(), machines.end()), machines.end());
  const auto place = static_cast<std::size_t>(std::find(machines.begin(), machines.end(), mine) - machines.begin());
  const std::vector<unsigned> allowed = allowed_cores();
  const double highest = combine(allowed.empty() ? 0.0 : allowed.back(), LSCHED_MAX);
  const auto width = static_cast<std::size_t>(highest) + 1;
  std::vector<double> is_allowed(machines.size() * width, 0.0);
  for (const unsigned core : allowed) is_allowed[place * width + core] = 1;
  is_allowed = combine(is_allowed, LSCHED_MAX);
  for (std::size_t core = 0; core < width; ++core)
    if (is_allowed[place * width + core] > 0) core_list_.push_back(static_cast<unsigned>(core));
  cores_ =
      static_cast<int>(core_list_.empty() ? usable_cores() : within_quota(static_cast<unsigned>(core_list_.size())));
}

void team::barrier() { run(barrier_, "barrier"); }

std::vector<double> team::combine(const std::vector<double>& values, lsched_reduction reduction) {
  std::vector<double> result(values.size());
  if (values.empty()) return result;
  auto schedule = make_allreduce(runtime_, values.data(), result.data(), values.size(), reduction);
  run(schedule, "combining results");
  close(std::move(schedule));
  return result;
}

double team::combine(double value, lsched_reduction reduction) { return combine(std::vector{value}, reduction)[0]; }

bool team::root_says(bool value) {
  *word_ = is_root() && value ? 1 : 0;
  run(agree_, "agreeing");
  return *word_ > 0;
}

void on_root(team& ranks, const std::function<void()>& job) {
  std::optional<failed> why;
  try {
    if (ranks.is_root()) job();
  } catch (const failed& caught) {
    why = caught;
  }
  if (ranks.root_says(why.has_value())) throw agreed(why ? why->what() : "");
}

// ---- samples ----

summary summarise(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  const auto ranked = [&](double share) {
    const auto place = static_cast<std::size_t>(std::ceil(share * static_cast<double>(samples.size())));
    return samples[std::max<std::size_t>(place, 1) - 1];
  };
  const double sum = std::accumulate(samples.begin(), samples.end(), 0.0);
  return {.samples = samples.size(),
          .mean = sum / static_cast<double>(samples.size()),
          .min = samples.front(),
          .median = ranked(0.5),
          .p95 = ranked(0.95),
          .max = samples.back()};
}

double cpu_ms() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto ms = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_usec) / 1e3;
  };
  return ms(used.ru_utime) + ms(used.ru_stime);
}

namespace {

// Two words, each written by one of the two threads; each on a cache line of its own. A thread publishes a
// number, and the other answers with the same number: release and acquire, for nothing else is handed over.
struct ping_pong {
  alignas(64) std::atomic<std::uint32_t> ping{0};
  alignas(64) std::atomic<std::uint32_t> pong{0};
};

constexpr std::uint32_t k_batch = 500;
constexpr std::uint32_t k_end = ~0u;

// Answers what it sees, `expected` or the end. On a single core the partner can only answer if we let it run.
std::uint32_t await(const std::atomic<std::uint32_t>& word, std::uint32_t expected) {
  for (int spins = 0;; ++spins) {
    const std::uint32_t seen = word.load(std::memory_order_acquire);
    if (seen == expected || seen == k_end) return seen;
    if (spins >= 10'000) std::this_thread::yield();
  }
}

void echo(ping_pong& words) {
  for (std::uint32_t n = 1; await(words.ping, n) != k_end; ++n) words.pong.store(n, std::memory_order_release);
}

std::vector<double> bounce(ping_pong& words) {
  constexpr std::size_t k_batches = 100;
  constexpr auto k_limit = std::chrono::milliseconds(20);
  std::vector<double> one_way;
  std::uint32_t n = 0;
  auto start = clock::now();
  for (std::size_t batch = 0; batch <= k_batches && (batch < 2 || clock::now() - start < k_limit); ++batch) {
    const auto from = clock::now();
    for (std::uint32_t i = 0; i < k_batch; ++i) {
      words.ping.store(++n, std::memory_order_release);
      await(words.pong, n);
    }
    // The first batch waits for the other thread to come up.
    if (batch == 0)
      start = clock::now();
    else
      one_way.push_back(ns_between(from, clock::now()) / (2.0 * k_batch));
  }
  words.ping.store(k_end, std::memory_order_release);
  return one_way;
}

}  // namespace

// Where the threads run is decided here and not by the scheduler, which may leave both on one core for the
// time this takes. If it refuses, the probe says what it then sees.
double spin_probe_ns(const std::vector<unsigned>& cores) {
  const auto settle = [&cores](std::size_t place) {
    if (place < cores.size()) static_cast<void>(bind_this_thread(cores[place]));
  };
  ping_pong words;
  std::vector<double> one_way;
  {
    const std::jthread partner([&] { settle(1), echo(words); });
    const std::jthread prober([&] { settle(0), one_way = bounce(words); });
  }
  return summarise(std::move(one_way)).median;
}

// ---- text ----

std::string size_text(std::uint64_t bytes) {
  static constexpr std::array<const char*, 4> k_units{"", "K", "M", "G"};
  std::size_t unit = 0;
  while (unit + 1 < k_units.size() && bytes >= 1024 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return std::to_string(bytes) + k_units[unit];
}

std::uint64_t parse_size(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view suffix(end, static_cast<std::size_t>(text.data() + text.size() - end));
  const int shift = suffix.empty()                   ? 0
                    : suffix == "K" || suffix == "k" ? 10
                    : suffix == "M"                  ? 20
                    : suffix == "G"                  ? 30
                                                     : -1;
  if (error != std::errc() || shift < 0 || value > (std::uint64_t{1} << 40 >> shift))
    throw failed("\"" + std::string(text) + "\" is not a size: write 64, 4K, 1M …, at most 1024G");
  return value << shift;
}

std::vector<std::uint64_t> equal_parts(std::uint64_t count, std::uint32_t parts) {
  std::vector<std::uint64_t> all(parts, count / parts);
  for (std::uint64_t i = 0; i < count % parts; ++i) ++all[i];
  return all;
}

namespace {

// Characters as a terminal counts them: the bytes that start one.
std::size_t width(std::string_view cell) {
  return static_cast<std::size_t>(
      std::count_if(cell.begin(), cell.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string format(const char* format, std::va_list arguments) {
  std::va_list again;
  va_copy(again, arguments);
  const int length = std::vsnprintf(nullptr, 0, format, arguments);
  std::string result(static_cast<std::size_t>(std::max(length, 0)), '\0');
  std::vsnprintf(result.data(), result.size() + 1, format, again);
  va_end(again);
  return result;
}

}  // namespace

std::string text(const char* layout, ...) {
  std::va_list arguments;
  va_start(arguments, layout);
  std::string result = format(layout, arguments);
  va_end(arguments);
  return result;
}

void table::print(std::FILE* to) const {
  std::vector<std::size_t> widths(rows_[0].size(), 0);
  for (const auto& row : rows_)
    for (std::size_t column = 0; column < row.size(); ++column)
      widths[column] = std::max(widths[column], width(row[column]));
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t column = 0; column < row.size(); ++column)
      line += std::string(widths[column] - width(row[column]) + (column == 0 ? 0 : 2), ' ') + row[column];
    std::fprintf(to, "%s\n", line.c_str());
  }
}

void table::print_markdown(std::FILE* to) const {
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    std::string line = "|";
    for (const std::string& cell : rows_[i]) line += " " + cell + " |";
    std::fprintf(to, "%s\n", line.c_str());
    if (i > 0) continue;
    line = "|";
    for (std::size_t column = 0; column < rows_[0].size(); ++column) line += "---|";
    std::fprintf(to, "%s\n", line.c_str());
  }
}

// ---- reporter ----

reporter::reporter(std::string_view name, std::string_view json, team& ranks) : name_(name), is_root_(ranks.is_root()) {
  on_root(ranks, [&] { open(json); });
}

reporter::reporter(std::string_view name, std::string_view json) : name_(name), is_root_(true) { open(json); }

void reporter::open(std::string_view json) {
  if (json.empty()) return;
  if (json == "-") {
    json_ = stdout;
    text_ = stderr;
    return;
  }
  file_.reset(std::fopen(std::string(json).c_str(), "w"));
  if (!file_) throw failed("cannot write " + std::string(json) + ": " + std::strerror(errno));
  json_ = file_.get();
}

void reporter::json(nlohmann::json line) {
  if (json_ == nullptr) return;
  const auto held = line_.erase();
  if (spin_ns_ > 0) line["spin_ns"] = std::round(spin_ns_ * 10) / 10;
  if (std::fprintf(json_, "%s\n", line.dump().c_str()) < 0 || std::fflush(json_) != 0)
    throw failed("the results cannot be written: " + std::string(std::strerror(errno)));
}

void reporter::print(const table& rows) {
  if (!is_root_) return;
  const auto held = line_.erase();
  rows.print(text_);
  std::fflush(text_);
}

void reporter::introduce(team& ranks) {
  ranks.barrier();
  if (is_root_) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // the others go to sleep in the next barrier
    spin_ns_ = spin_probe_ns(ranks.core_list());
    std::array<char, 256> about{};
    expect_ok(lsched_world_describe(ranks.runtime(), about.data(), about.size()), "lsched_world_describe");
    say("%s: %s", name_.c_str(), about.data());
    say("%s, %d of them on this machine, %s: %s; spin probe %.0f ns one way%s", counted(ranks.size(), "rank").c_str(),
        ranks.local_ranks(), counted(ranks.cores(), "core").c_str(),
        ranks.is_oversubscribed() ? "oversubscribed" : "a core for each", spin_ns_,
        spin_ns_ > 1000  ? " (a single core, or a busy machine)"
        : spin_ns_ > 100 ? " (the slow mode of a virtual machine, or far apart cores)"
                         : "");
  }
  ranks.barrier();
}

void reporter::say(const char* layout, ...) {
  if (!is_root_) return;
  const auto held = line_.erase();
  std::va_list arguments;
  va_start(arguments, layout);
  std::fprintf(text_, "%s\n", format(layout, arguments).c_str());
  va_end(arguments);
  std::fflush(text_);
}

void reporter::progress(const char* layout, ...) {
  if (!is_root_) return;
  std::va_list arguments;
  va_start(arguments, layout);
  line_.show([&] { return name_ + ": " + format(layout, arguments); });
  va_end(arguments);
}

void pin_application(const team& ranks, reporter& out) {
  const std::vector<unsigned>& cores = ranks.core_list();
  if (cores.empty()) throw failed("--pin: the affinity mask cannot be read");
  const unsigned core = cores[static_cast<std::size_t>(ranks.rank()) % cores.size()];
  if (!bind_this_thread(core)) throw failed("--pin: the system refuses core " + std::to_string(core));
  out.say("pinned: application thread of rank r on the r-th of %zu cores", cores.size());
}

}  // namespace lsched::bench
