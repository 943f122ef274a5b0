// Measures one reduction c = a + b of floats in two variants: only in the thread that waits, and with additional oneTBB
// workers. The variants take turns, and the results of both are checked.
#include <algorithm>
#include <array>
#include "microbench/engine/engine_parts.h"
#include "microbench/rounds.h"

namespace lsched::bench {
namespace {

constexpr double k_cell_ms = 500;
constexpr std::array<std::uint64_t, 6> k_sizes{262144,  524288,   1048576,
                                               4194304, 16777216, 67108864};  // bytes of one operand
constexpr std::int32_t k_workers = 1;

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
    expect_ok(lsched_builder_create(0, 1, "one reduction", &to), "lsched_builder_create");
    const std::uint64_t count = target_.size();
    lsched_slot a{}, b{}, c{};
    lsched_add_slot(to, LSCHED_INPUT, LSCHED_F32, count, &a);  // the commit reports the first error of these calls
    lsched_add_slot(to, LSCHED_INPUT, LSCHED_F32, count, &b);
    lsched_add_slot(to, LSCHED_OUTPUT, LSCHED_F32, count, &c);
    lsched_add_reduce(to, LSCHED_SUM, nullptr, {a, 0, count}, {b, 0, count}, {c, 0, count}, nullptr);
    const void* inputs[] = {from.a.data(), from.b.data()};
    void* outputs[] = {target_.data()};
    schedule_ = created("lsched_builder_commit", lsched_builder_commit, to, runtime_.get(), inputs, outputs);
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

}  // namespace

void measure_lane(reporter& out) {
  const runtime_handle runtime = open_world_of_one();
  team alone(runtime.get());
  for (const std::uint64_t bytes : k_sizes) {
    const operands from(bytes / sizeof(float));
    side inline_side(LSCHED_LANE_INLINE, from), lane_side(k_workers, from);
    std::vector<cell> cells;
    for (side* const each : {&inline_side, &lane_side}) {
      const std::string name = each == &inline_side ? "inline" : text("tbb:%d", k_workers);
      cells.push_back({.keys = {{"lane", name}, {"bytes", bytes}},
                       .run = [each] { each->run(); },
                       .count_wrong = [each](std::uint64_t) { return each->is_right() ? 0 : 1; }});
    }
    turn_limits limits{.cell_ms = k_cell_ms};
    take_turns(cells, alone, limits, size_text(bytes), out);
    const summary inline_us = summarise(cells[0].us);
    for (const cell& c : cells) {
      const summary us = summarise(c.us);
      result line = c.keys;
      line.update({{"bench", "lane"},
                   {"min_us", us.min},
                   {"us", us.median},
                   {"p95_us", us.p95},
                   {"cpu_us", c.cpu_us / static_cast<double>(us.samples)},
                   {"rounds", us.samples},
                   {"wrong", c.wrong},
                   {"right", c.wrong == 0}});
      out.add(std::move(line), {{"by_min", inline_us.min / us.min}, {"by_median", inline_us.median / us.median}});
    }
  }
  out.print({column("size", "bytes"), column("", "lane"), column("min us", "min_us", 1), column("us", "us", 1),
             column("p95", "p95_us", 1), column("inline / lane: min", "by_min", 2), column("median", "by_median", 2),
             column("CPU us", "cpu_us", 1)});
  out.say(
      "one reduction of floats by one rank; \"us\" is the median. The waiting thread also computes, like the workers.");
}

}  // namespace lsched::bench
