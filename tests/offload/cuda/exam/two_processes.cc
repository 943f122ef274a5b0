// Two processes on one GPU send each other a vector, in chunks through shared memory, and add the chunks that arrive.
// The kernel reads a chunk either in shared memory, or in a copy on the device.
#include <array>
#include <cstring>

#include "tests/offload/cuda/exam/exam.h"

namespace lsched::exam {
namespace {

constexpr auto k_patience = std::chrono::seconds(10);
constexpr std::uint64_t k_most_chunk = 8 << 20, k_most_depth = 8, k_header = 4096;

struct exchange {
  std::uint64_t bytes, chunk, depth;
  bool copies_up;
};

/// The counters in shared memory. Each counter has two words, one per side. Each value below is the index of a
/// counter's first word. `sent` counts the chunks that a side has sent. `used` counts the chunks of the other side that
/// this side has consumed. `step` counts the steps of a side.
enum word_line : std::size_t { sent = 0, used = 2, step = 4 };

class side {
 public:
  side(shared_memory& shared, std::size_t self, std::uint64_t most_bytes)
      : shared_(shared),
        self_(self),
        here_(on_.context()),
        registered_(on_, shared.data(), shared.bytes()),
        mine_(on_, gpu_place::device, most_bytes),
        sum_(on_, gpu_place::device, most_bytes),
        staged_(on_, gpu_place::device, k_most_chunk * k_most_depth),
        given_(on_, gpu_place::pinned, most_bytes),
        made_(on_, gpu_place::pinned, most_bytes),
        expected_(most_bytes / sizeof(float)) {
    draw();
    for (std::size_t i = 0; i < k_most_depth; ++i) went_.emplace_back(on_), came_.emplace_back(on_);
  }

  const gpu& on() const { return on_; }

  /// Runs an exchange. Returns the seconds, or -1 if the sums are wrong.
  double run(const exchange& it) {
    fill(it.bytes);
    meet();
    const auto begin = clock::now();
    carry_out(it);
    const double seconds = std::chrono::duration<double>(clock::now() - begin).count();
    meet();
    const bool is_right = check(it.bytes);
    *word(sent, self_) = *word(used, self_) = 0;
    meet();
    return is_right ? seconds : -1;
  }

 private:
  std::uint64_t* word(word_line which, std::size_t of) const { return shared_.word(which + of); }
  std::byte* slot(std::size_t of, std::uint64_t k, const exchange& it) const {
    return shared_.data() + k_header + (of * k_most_depth + k % it.depth) * k_most_chunk;
  }

  void expect_in_time(clock::time_point since) const {
    if (clock::now() - since > k_patience) throw bench::failed("two processes: the other side makes no progress");
  }

  void meet() {
    show_at(word(step, self_), ++steps_);
    const auto since = clock::now();
    while (seen_at(word(step, 1 - self_)) < steps_) expect_in_time(since);
  }

  static float value_of(std::size_t side, std::uint64_t i) { return static_cast<float>(i % 1021 + side * 3); }

  void draw() {
    auto* const given = given_.as<float>();
    for (std::uint64_t i = 0; i < expected_.size(); ++i) {
      given[i] = value_of(self_, i);
      expected_[i] = value_of(0, i) + value_of(1, i);
    }
  }

  void fill(std::uint64_t bytes) {
    on_.copy(mine_.data(), given_.data(), bytes, down_);
    on_.copy(sum_.data(), given_.data(), bytes, down_);
    on_.synchronise(down_);
  }

  bool check(std::uint64_t bytes) {
    on_.copy(made_.data(), sum_.data(), bytes, down_);
    on_.synchronise(down_);
    return std::memcmp(made_.data(), expected_.data(), bytes) == 0;
  }

  void carry_out(const exchange& it) {
    const std::uint64_t chunks = it.bytes / it.chunk;
    std::uint64_t begun = 0, gone = 0, taken = 0, added = 0;
    for (auto since = clock::now(); gone < chunks || added < chunks;) {
      const std::uint64_t before = begun + gone + taken + added;
      const std::uint64_t freed = seen_at(word(used, 1 - self_)), there = seen_at(word(sent, 1 - self_));
      while (begun < chunks && begun < freed + it.depth) send(it, begun++);
      while (gone < begun && went_[gone % it.depth].has_passed()) show_at(word(sent, self_), ++gone);
      while (taken < there && taken < added + it.depth) take(it, taken++);
      while (added < taken && came_[added % it.depth].has_passed()) show_at(word(used, self_), ++added);
      if (begun + gone + taken + added != before) since = clock::now();
      expect_in_time(since);
    }
  }

  void send(const exchange& it, std::uint64_t k) {
    on_.copy(slot(self_, k, it), mine_.data() + k * it.chunk, it.chunk, down_);
    went_[k % it.depth].record(down_);
  }

  void take(const exchange& it, std::uint64_t k) {
    const std::byte* from = slot(1 - self_, k, it);
    if (it.copies_up) {
      std::byte* const place = staged_.data() + k % it.depth * k_most_chunk;
      on_.copy(place, from, it.chunk, up_);
      came_[k % it.depth].record(up_);
      on_.expect(on_.cuda().cuStreamWaitEvent(work_, came_[k % it.depth], 0), "cuStreamWaitEvent");
      from = place;
    }
    std::byte* const to = sum_.data() + k * it.chunk;
    on_.launch(add_, {.a = to, .b = from, .c = to, .count = it.chunk / sizeof(float)}, work_);
    came_[k % it.depth].record(work_);
  }

  shared_memory& shared_;
  const std::size_t self_;
  gpu on_;
  cuda_scope here_;
  const device_kernel add_ = find_device_kernel(kernel::sum, dtype::f32).value();
  registration registered_;
  gpu_memory mine_, sum_, staged_, given_, made_;
  std::vector<float> expected_;
  gpu_stream down_{on_, true}, up_{on_, true}, work_{on_, true};
  std::vector<gpu_event> went_, came_;
  std::uint64_t steps_ = 0;
};

std::vector<exchange> exchanges(const effort& how) {
  if (how.is_quick) return {{1 << 18, 1 << 14, 2, true}, {1 << 18, 1 << 14, 4, false}};
  std::vector<exchange> all;
  for (const std::uint64_t chunk : {1U << 19, 1U << 20, 1U << 21, 1U << 22, 1U << 23})
    for (const std::uint64_t depth : {2U, 4U, 8U})
      for (const bool copies_up : {true, false}) all.push_back({128 << 20, chunk, depth, copies_up});
  return all;
}

/// Runs all exchanges on one side. Side 0 writes the results.
bool take_part(shared_memory& shared, std::size_t self, const std::vector<exchange>& all, int repeats) {
  side me(shared, self, all.front().bytes);
  bool is_right = true;
  for (const exchange& it : all) {
    std::vector<double> rates;
    for (int i = 0; i < repeats; ++i) {
      const double seconds = me.run(it);
      is_right = is_right && seconds > 0;
      rates.push_back(static_cast<double>(it.bytes) / seconds / 1e9);
    }
    std::ranges::sort(rates);
    if (self == 0)
      answer(me.on(), "two_processes",
             {{"bytes", it.bytes},
              {"chunk", it.chunk},
              {"depth", it.depth},
              {"way", it.copies_up ? "copied up" : "read where it is"},
              {"gb_per_s_each_way", rates[rates.size() / 2]},
              {"least", rates.front()},
              {"most", rates.back()},
              {"right", is_right}});
  }
  return is_right;
}

}  // namespace

bool ask_two_processes(const effort& how) {
  const std::vector<exchange> all = exchanges(how);
  const int repeats = static_cast<int>(how.choose(3, 1));
  shared_memory shared(k_header + 2 * k_most_chunk * k_most_depth);
  forked other([&] { return take_part(shared, 1, all, repeats); });
  forked first([&] { return take_part(shared, 0, all, repeats); });
  const bool is_right = first.ends_well(60);
  return other.ends_well(5) && is_right;
}

}  // namespace lsched::exam
