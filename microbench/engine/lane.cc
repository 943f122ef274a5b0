// Time of one reduction c = a + b of floats: inline, and on oneTBB workers beside the thread that waits. Sides take
// turns; every side's result is checked.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "microbench/engine/engine_parts.h"

namespace lsched::bench {
namespace {

constexpr std::uint64_t k_blocks = 5;

constexpr double k_cell_seconds = 0.5;
constexpr std::array<std::uint64_t, 6> k_sizes{262144,  524288,   1048576,
                                               4194304, 16777216, 67108864};  // bytes of one operand
constexpr std::int32_t k_workers = 1;

/// The operands, and one side's target and world.
struct operands {
  explicit operands(std::size_t count) : a(count), b(count) {
    for (std::size_t i = 0; i < count; ++i) a[i] = static_cast<float>(i % 1000), b[i] = static_cast<float>(i % 7);
  }
  std::vector<float> a, b;
};

class side {
 public:
  side(std::int32_t lane, const operands& from) : from_(from), target_(from.a.size()) {
    lsched_config config;
    lsched_config_init(&config);
    config.lane = lane;
    config.progress = LSCHED_PROGRESS_CALLER;
    runtime_ = open_world_of_one(&config);
    lsched_builder* to = nullptr;
    expect_ok(lsched_builder_create(runtime_.get(), "one reduction", &to), "lsched_builder_create");
    const std::uint64_t count = target_.size();
    lsched_slot a{}, b{}, c{};
    lsched_slot_input(to, LSCHED_F32, count, &a);  // the builder keeps its first error for the commit
    lsched_slot_input(to, LSCHED_F32, count, &b);
    lsched_slot_output(to, LSCHED_F32, count, &c);
    lsched_add_reduce(to, LSCHED_SUM, {a, 0, count}, {b, 0, count}, {c, 0, count}, nullptr);
    const void* inputs[] = {from.a.data(), from.b.data()};
    void* outputs[] = {target_.data()};
    schedule_ = created("lsched_builder_commit", lsched_builder_commit, to, inputs, outputs);
  }

  void run() { expect_ok(lsched_run(schedule_.get(), k_patience_ns, nullptr), "lsched_run"); }

  bool is_right() {
    std::ranges::fill(target_, -1.0f);
    run();
    for (std::size_t i = 0; i < target_.size(); ++i)
      if (target_[i] != from_.a[i] + from_.b[i]) return false;
    return true;
  }

 private:
  const operands& from_;
  std::vector<float> target_;
  runtime_handle runtime_;
  schedule_handle schedule_;
};

struct contender {
  std::string name;
  std::unique_ptr<side> who;
  std::vector<double> us{};
  double cpu_ms = 0;
};

void measure(std::vector<contender>& contenders) {
  for (std::uint64_t block = 0; block < k_blocks; ++block)
    for (contender& it : contenders) {
      it.who->run();
      const double cpu_before = cpu_ms();
      const auto begin = clock::now();
      for (auto now = begin; ms_between(begin, now) < k_cell_seconds * 1e3 / static_cast<double>(k_blocks);) {
        it.who->run();
        const auto end = clock::now();
        it.us.push_back(ns_between(now, end) / 1e3);
        now = end;
      }
      it.cpu_ms += cpu_ms() - cpu_before;
    }
}

}  // namespace

bool measure_lane(reporter& out) {
  table lines({"size", "", "min us", "us", "p95", "inline / it: min", "median", "CPU us"});
  bool is_right = true;
  for (const std::uint64_t bytes : k_sizes) {
    const operands from(bytes / sizeof(float));
    std::vector<contender> contenders;
    contenders.push_back({"inline", std::make_unique<side>(LSCHED_LANE_INLINE, from)});
    contenders.push_back({text("tbb:%d", k_workers), std::make_unique<side>(k_workers, from)});
    out.progress("%s", size_text(bytes).c_str());
    for (contender& it : contenders) is_right = it.who->is_right() && is_right;
    measure(contenders);
    const summary baseline = summarise(contenders[0].us);
    for (const contender& it : contenders) {
      const summary s = summarise(it.us);
      const double cpu_us = it.cpu_ms * 1e3 / static_cast<double>(s.samples);
      lines.add({size_text(bytes), it.name, text("%.1f", s.min), text("%.1f", s.median), text("%.1f", s.p95),
                 text("%.2f", baseline.min / s.min), text("%.2f", baseline.median / s.median), text("%.1f", cpu_us)});
      out.json({{"bench", "lane"},
                {"bytes", bytes},
                {"lane", it.name},
                {"min_us", s.min},
                {"us", s.median},
                {"p95_us", s.p95},
                {"cpu_us", cpu_us},
                {"rounds", s.samples},
                {"right", is_right}});
    }
  }
  out.print(lines);
  out.say(
      "one reduction of floats by one rank; \"us\" is the median. The thread that waits computes too, beside the "
      "workers.");
  return is_right;
}

}  // namespace lsched::bench
