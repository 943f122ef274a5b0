// Measures how fast two cores of this machine copy and add vectors in shared memory. The durations are lower bounds for
// collectives of two ranks. Two threads, each bound to a core, do the same work at the same time. A phase lasts until
// both threads have finished.
//
//  - copy: a thread copies one of its buffers to another of its buffers.
//  - take_over: a thread adds one of its buffers and a buffer that the other thread has just written.
//  - look: the same sum, but no thread writes the buffer of the other thread, so that both caches may keep the buffer.
//  - hand_over: a thread copies one of its buffers into a buffer that the other thread has just read.
//
// If peers do not map the input, an allreduce of two ranks consists of the phases hand_over and take_over of the whole
// vector. Another algorithm consists of hand_over and take_over of one half, and copy of the other half. If peers map
// the input, an allreduce consists of the phase look.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <thread>

#include "microbench/engine/engine_parts.h"
#include "offload/cores.h"
#include "ops/kernel.h"

namespace lsched::bench {
namespace {

enum phase : std::size_t { copy, look, hand_over, take_over, k_phases };
constexpr std::array<const char*, k_phases> k_names{"copy", "look", "hand_over", "take_over"};

constexpr std::array<std::uint64_t, 4> k_sizes{8192, 65536, 1048576, 16777216};  // bytes
constexpr std::uint64_t k_bytes_moved = std::uint64_t{1} << 30;                  // limit for each size and phase

/// The memory of one thread.
struct side {
  explicit side(std::size_t count) : input(count, 1.0f), output(count), shown(count) {}
  std::vector<float> input;
  std::vector<float> output;
  std::vector<float> shown;  ///< buffer that the other thread reads
};

class two_cores {
 public:
  explicit two_cores(std::uint64_t bytes)
      : bytes_(bytes), sides_{side(bytes / sizeof(float)), side(bytes / sizeof(float))} {}

  /// Returns the durations in microseconds, by phase and round.
  std::array<std::vector<double>, k_phases> measure(const std::vector<unsigned>& cores, std::uint64_t rounds) {
    std::array<std::vector<double>, k_phases> times;
    {
      const std::jthread other([&] { serve(1, cores, rounds, nullptr); });
      const std::jthread self([&] { serve(0, cores, rounds, &times); });
    }
    return times;
  }

 private:
  void meet(std::size_t self) {
    const std::uint64_t turn = ++turns_[self].own;
    turns_[self].shown.store(turn, std::memory_order_release);
    while (turns_[1 - self].shown.load(std::memory_order_acquire) < turn) {
    }
  }

  void serve(std::size_t self, const std::vector<unsigned>& cores, std::uint64_t rounds,
             std::array<std::vector<double>, k_phases>* times) {
    if (self < cores.size()) static_cast<void>(bind_this_thread(cores[self]));
    for (std::uint64_t round = 0; round < rounds; ++round)
      for (std::size_t p = 0; p < k_phases; ++p) {
        meet(self);
        const auto begin = clock::now();
        play(static_cast<phase>(p), sides_[self], sides_[1 - self]);
        meet(self);
        if (times != nullptr && round > 0) (*times)[p].push_back(ns_between(begin, clock::now()) / 1e3);
      }
  }

  void play(phase p, side& own, const side& other) const {
    static const reduce_fn sum = find_reduce(kernel::sum, dtype::f32);
    const auto add = [&](const std::vector<float>& theirs) {
      sum(own.input.data(), theirs.data(), own.output.data(), own.input.size());
      keep(own.output.data());
    };
    switch (p) {
      case copy: std::memcpy(own.output.data(), own.input.data(), bytes_); break;
      case look: add(other.input); break;
      case hand_over: std::memcpy(own.shown.data(), own.input.data(), bytes_); break;
      case take_over: add(other.shown); break;
      case k_phases: break;
    }
  }

  struct alignas(64) turn_count {
    std::atomic<std::uint64_t> shown{0};
    std::uint64_t own = 0;
  };
  std::uint64_t bytes_;
  std::array<side, 2> sides_;
  std::array<turn_count, 2> turns_{};
};

}  // namespace

void measure_limits(reporter& out) {
  const std::vector<unsigned> cores = allowed_cores();
  if (cores.size() < 2)
    return out.say("limits: not measured, because the two threads need two cores, and this process has one");
  out.say("Two threads on cores %u and %u; a flag takes %.0f ns from one to the other.", cores[0], cores[1],
          spin_probe_ns(cores));
  for (const std::uint64_t bytes : k_sizes) {
    out.progress("%s", size_text(bytes).c_str());
    const std::uint64_t rounds = std::clamp<std::uint64_t>(k_bytes_moved / bytes, 10, 5000);
    const auto times = two_cores(bytes).measure(cores, rounds);
    result line{{"bench", "limits"}, {"bytes", bytes}}, rates;
    for (std::size_t p = 0; p < k_phases; ++p) {
      const double us = summarise(times[p]).median;
      line[text("us_%s", k_names[p])] = us;
      rates[text("gbps_%s", k_names[p])] = static_cast<double>(bytes) / us / 1e3;
    }
    rates["staged"] = line["us_hand_over"].get<double>() + line["us_take_over"].get<double>();
    out.add(std::move(line), rates);
  }
  out.print({column("size", "bytes"), column("copy us", "us_copy", 2), column("GB/s", "gbps_copy", 1),
             column("look us", "us_look", 2), column("GB/s", "gbps_look", 1), column("hand_over us", "us_hand_over", 2),
             column("GB/s", "gbps_hand_over", 1), column("take_over us", "us_take_over", 2),
             column("GB/s", "gbps_take_over", 1), column("staged us", "staged", 2)});
  out.say(
      "Medians; both cores at once. Limits of an allreduce of two ranks: staged: hand over + take over; mapped: look, "
      "at an unchanged vector.");
}

}  // namespace lsched::bench
