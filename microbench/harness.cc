#include "microbench/harness.h"

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdarg>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <optional>
#include <thread>

#include "offload/cores.h"
#include "ops/size_text.h"

namespace lsched::bench {

double ms_between(clock::time_point from, clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

double ns_between(clock::time_point from, clock::time_point to) {
  return std::chrono::duration<double, std::nano>(to - from).count();
}

// ---- calls ----

lsched_diagnostic fresh_diagnostic() { return {.struct_size = sizeof(lsched_diagnostic)}; }

void expect_ok(lsched_status answer, const char* call, const lsched_diagnostic& why) {
  if (answer == LSCHED_OK) return;
  const char* detail = why.text[0] != '\0' ? why.text : lsched_status_text(answer);
  throw failed(std::string(call) + ": " + lsched_status_name(answer) + ": " + detail);
}

// The timeout is short, because an early exit must not wait for other ranks that have failed.
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

schedule_handle make_allreduce(lsched_world* runtime, const float* input, float* output, std::uint64_t count) {
  const lsched_collective_desc desc{.struct_size = sizeof desc,
                                    .collective = "allreduce",
                                    .input = input,
                                    .output = output,
                                    .count = count,
                                    .dtype = LSCHED_F32,
                                    .reduction = LSCHED_SUM};
  return created("lsched_collective_create", lsched_collective_create, runtime, &desc);
}

schedule_handle make_allreduce(lsched_world* runtime, const double* input, double* output, std::uint64_t count,
                               lsched_reduction reduction) {
  const lsched_collective_desc desc{.struct_size = sizeof desc,
                                    .collective = "allreduce",
                                    .input = input,
                                    .output = output,
                                    .count = count,
                                    .dtype = LSCHED_F64,
                                    .reduction = reduction};
  return created("lsched_collective_create", lsched_collective_create, runtime, &desc);
}

void run(lsched_schedule* schedule) { expect_ok(lsched_run(schedule, k_patience_ns, nullptr), "lsched_run"); }

void start_and_wait(lsched_schedule* schedule) {
  lsched_ticket round{};
  expect_ok(lsched_start(schedule, &round), "lsched_start");
  expect_ok(lsched_wait(round, k_patience_ns, nullptr), "lsched_wait");
}

// ---- team ----

namespace {

// Runs a round. The text of an error includes `purpose`.
void run(const schedule_handle& schedule, const char* purpose) {
  auto why = fresh_diagnostic();
  expect_ok(lsched_run(schedule.get(), k_patience_ns, &why), purpose, why);
}

// Returns an id of this machine. The id is small enough to be exact in a double.
double machine_number() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return static_cast<double>(std::hash<std::string_view>{}(name.data()) >> 16);
}

}  // namespace

team::team(lsched_world* runtime)
    : runtime_(runtime), rank_(lsched_rank(runtime)), size_(lsched_size(runtime)), word_(std::make_unique<double>(0)) {
  const lsched_collective_desc desc{.struct_size = sizeof desc, .collective = "barrier"};
  barrier_ = created("lsched_collective_create", lsched_collective_create, runtime_, &desc);
  agree_ = make_allreduce(runtime_, word_.get(), word_.get(), 1, LSCHED_MAX);
  find_machine();
}

// Unites the core sets of all ranks of a machine, because launchers bind ranks to separate cores.
void team::find_machine() {
  std::vector<double> machines(static_cast<std::size_t>(size_), 0.0);
  const double own = machine_number();
  machines[static_cast<std::size_t>(rank_)] = own;
  machines = combine(machines, LSCHED_SUM);
  local_ranks_ = static_cast<int>(std::count(machines.begin(), machines.end(), own));

  std::sort(machines.begin(), machines.end());
  machines.erase(std::unique(machines.begin(), machines.end()), machines.end());
  const auto place = static_cast<std::size_t>(std::find(machines.begin(), machines.end(), own) - machines.begin());
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

double mean_of(const std::vector<double>& values) { return summarise(values).mean; }

std::uint64_t count_disagreements(team& ranks, const std::vector<double>& values) {
  const auto least = ranks.combine(values, LSCHED_MIN);
  const auto most = ranks.combine(values, LSCHED_MAX);
  std::uint64_t differing = 0;
  for (std::size_t i = 0; i < values.size(); ++i) differing += least[i] != most[i] ? 1u : 0u;
  return differing;
}

void compute(std::uint64_t steps) {
  double a = 1, b = 1.5;
  for (std::uint64_t i = 0; i < steps; ++i) {
    a = a * 0.999999 + b;
    b = b * 0.999998 - a * 1e-9;
  }
  keep(&a);
  keep(&b);
}

std::uint64_t steps_for(team& ranks, double us) {
  constexpr std::uint64_t k_probe = 200'000;
  std::vector<double> probes;
  for (int i = 0; i < 5; ++i) {
    ranks.barrier();
    probes.push_back(us_of([] { compute(k_probe); }));
  }
  const double probe_us = ranks.combine(summarise(std::move(probes)).median, LSCHED_MAX);
  return static_cast<std::uint64_t>(std::max(us / probe_us * static_cast<double>(k_probe), 1.0));
}

std::optional<cores_apart> find_cores_apart(int rank) {
  const std::vector<unsigned> cores = allowed_cores();
  const std::size_t half = cores.size() / 2;
  if (half == 0) return std::nullopt;
  const std::size_t place = static_cast<std::size_t>(rank) % half;
  return cores_apart{cores[place], cores[half + place], static_cast<int>(half)};
}

void bind_caller(unsigned core) {
  if (!bind_this_thread(core)) throw failed("cannot bind the thread to core " + std::to_string(core));
}

double cpu_ms() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto ms = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_usec) / 1e3;
  };
  return ms(used.ru_utime) + ms(used.ru_stime);
}

// On Linux, the file `comm` has the name of a thread. The file `schedstat` has three numbers: ns on a core, ns waiting
// for a core, and the number of times that the thread was scheduled.
std::optional<engine_time> read_engine_time() {
  std::optional<engine_time> all;
  std::error_code ignored;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", ignored)) {
    std::string name;
    std::getline(std::ifstream(thread.path() / "comm"), name);
    if (!name.starts_with("lsched-progress")) continue;
    double ns = 0, waited = 0;
    std::uint64_t turns = 0;
    if (!(std::ifstream(thread.path() / "schedstat") >> ns >> waited >> turns)) return std::nullopt;
    if (!all) all.emplace();
    all->ns += ns;
    all->turns += turns;
  }
  return all;
}

namespace {

// Two words on separate cache lines. Each of two threads writes one word. The first thread publishes a number, and the
// second thread replies with the same number. Release and acquire suffice, because the words publish no other data.
struct ping_pong {
  alignas(64) std::atomic<std::uint32_t> ping{0};
  alignas(64) std::atomic<std::uint32_t> pong{0};
};

constexpr std::uint32_t k_batch = 500;
constexpr std::uint32_t k_end = ~0u;

// Waits until the word is `expected` or k_end, and returns the word. On a single core, the other thread can reply only
// if this thread yields.
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
    // The first batch does not count, because it includes the start of the other thread.
    if (batch == 0)
      start = clock::now();
    else
      one_way.push_back(ns_between(from, clock::now()) / (2.0 * k_batch));
  }
  words.ping.store(k_end, std::memory_order_release);
  return one_way;
}

}  // namespace

// Binds the two threads to different cores, so that the scheduler does not keep both on one core for the whole probe.
// If binding fails, the probe measures unbound threads.
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
  constexpr std::uint64_t k_most = std::uint64_t{1} << 40;
  const auto bytes = lsched::parse_size(text);
  if (!bytes || *bytes > k_most)
    throw failed("\"" + std::string(text) + "\" is not " + std::string(k_size_syntax) + ", at most 1T");
  return *bytes;
}

std::vector<std::uint64_t> equal_parts(std::uint64_t count, std::uint32_t parts) {
  std::vector<std::uint64_t> all(parts, count / parts);
  for (std::uint64_t i = 0; i < count % parts; ++i) ++all[i];
  return all;
}

std::string text(const char* format, ...) {
  std::va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  std::string result(static_cast<std::size_t>(std::max(std::vsnprintf(nullptr, 0, format, arguments), 0)), '\0');
  std::vsnprintf(result.data(), result.size() + 1, format, again);
  va_end(again);
  va_end(arguments);
  return result;
}

}  // namespace lsched::bench
