// Measures the steps of a sparse allreduce that run on a device, compared with copies:
//  - select: finds the k largest elements of a residual, and brings them to the host as a list.
//  - accumulate and select: also adds the gradient, in the pass that finds the first bits of the threshold.
//  - settle: writes the update, and removes the sent items from the residual.
#include <algorithm>
#include <cstring>
#include <random>

#include "microbench/cuda/cuda_run.h"
#include "offload/cuda/driver/sparse_launch.h"
#include "ops/elementwise/elementwise.h"
#include "ops/sparse/sparse.h"

namespace lsched::bench {
namespace {

constexpr std::uint64_t k_most_checked = 1 << 24;  ///< length of the longest vector that the host checks

class selection_cells {
 public:
  selection_cells(cuda_run& run, dtype type, std::uint64_t count)
      : run_(run),
        on_(run.on()),
        type_(type),
        count_(count),
        k_(std::max<std::uint64_t>(1, count / 100)),
        gradient_(on_, gpu_place::device, count * size_of(type)),
        residual_(on_, gpu_place::device, count * size_of(residual_of(type))),
        update_(on_, gpu_place::device, count * size_of(type)),
        items_(on_, gpu_place::pinned, k_ * item_size(type)),
        found_(on_, gpu_place::pinned, sizeof(std::uint64_t)),
        workspace_(on_, gpu_place::device, selection_workspace_bytes(count)),
        stream_(on_) {
    fill();
  }

  void measure() {
    const std::uint64_t wrong = count_wrong(), element = size_of(type_), wide = size_of(residual_of(type_));
    const std::uint64_t items = k_ * item_size(type_);
    // There is one pass for every 11 bits of magnitudes, and two additional passes. The first pass also reads the
    // gradient and writes the residual.
    const std::uint64_t passes = (8 * element - 1 + 10) / 11 + 2;
    measure("select", passes * wide * count_ + items, wrong,
            [this] { launch(launches_of(selection(false), space())); });
    measure("accumulate and select", (passes + 1) * wide * count_ + element * count_ + items, wrong,
            [this] { launch(launches_of(selection(true), space())); });
    measure("settle", 2 * items + 2 * k_ * (element + 2 * wide), wrong, [this] { launch(launches_of(settlement())); });
  }

 private:
  void* space() const { return workspace_.data(); }

  sparse_selection selection(bool accumulates) const {
    return {.type = type_,
            .residual = residual_.data(),
            .gradient = accumulates ? gradient_.data() : nullptr,
            .count = count_,
            .k = k_,
            .items = items_.data(),
            .found = found_.as<std::uint64_t>()};
  }

  sparse_settlement settlement() const {
    const sparse_settlement::list all{items_.data(), *found_.as<std::uint64_t>()};
    return {.type = type_,
            .residual = residual_.data(),
            .update = update_.data(),
            .count = count_,
            .cleared = all,
            .result = all,
            .leaving = all,
            .divisor = 2};
  }

  void launch(const launch_list& all) const {
    for (const device_launch& next : all.all()) on_.launch(next, stream_);
    on_.synchronise(stream_);
  }

  /// Fills the residual with normally distributed numbers. To save time, the numbers repeat every few million elements.
  void fill() {
    numbers_.resize(std::min<std::uint64_t>(count_, 1 << 22) * size_of(residual_of(type_)));
    std::mt19937 draw(5);
    std::normal_distribution<float> normal;
    std::vector<float> drawn(numbers_.size() / size_of(residual_of(type_)));
    for (float& each : drawn) each = normal(draw);
    find_convert(dtype::f32, residual_of(type_))(drawn.data(), drawn.size(), 1, numbers_.data());
    for (std::uint64_t at = 0; at < residual_.bytes(); at += numbers_.size())
      on_.copy(residual_.data() + at, numbers_.data(), std::min(numbers_.size(), residual_.bytes() - at), stream_);
    launch(
        launches_of(sparse_settlement{.type = type_, .update = gradient_.data(), .count = count_, .clears_all = true}));
  }

  /// Compares the selected items with the items that the host selects. If the vector is too long for the host, only
  /// checks the number of items. Returns 1 if the items are wrong.
  std::uint64_t count_wrong() const {
    launch(launches_of(selection(false), space()));
    const std::uint64_t found = *found_.as<std::uint64_t>();
    if (count_ > k_most_checked) return found == k_ ? 0 : 1;
    std::vector<std::byte> residual(residual_.bytes()), items(2 * k_ * item_size(type_));
    for (std::uint64_t at = 0; at < residual.size(); at += numbers_.size())
      std::memcpy(residual.data() + at, numbers_.data(), std::min(numbers_.size(), residual.size() - at));
    top_k_hint none{};
    const top_k_list wanted = sparse_kernels_of(type_).top_k({residual.data(), nullptr, 1, count_}, k_,
                                                             nan_policy::propagate, items.data(), 2 * k_, none);
    const bool is_right =
        wanted.count == found && std::memcmp(items.data(), items_.data(), found * item_size(type_)) == 0;
    return is_right ? 0 : 1;
  }

  template <class Job>
  void measure(const char* what, std::uint64_t bytes, std::uint64_t wrong, const Job& job) {
    const auto name =
        std::string(what) + " " + std::string(name_of(type_)) + ", " + std::to_string(count_) + " elements";
    if (run_.is_over()) return run_.leave_out(name, "no time");
    std::vector<way> ways{{[&] { return rate_of(bytes, us_of(job)); }},
                          {[&] { return rate_of(2 * residual_.bytes() / 2, us_of([&] { copy(); })); }}};
    run_.take_turns(ways, run_.choose(9, 1), 0.5);
    const double copied = tails_of(ways[1].samples).median;
    result line{{"kind", "selection"}, {"what", what},  {"dtype", name_of(type_)}, {"count", count_}, {"k", k_},
                {"bytes", bytes},      {"wrong", wrong}};
    cuda_run::put_rate(line, ways[0].samples);
    line["ms"] = static_cast<double>(bytes) / line["gb_per_s"].get<double>() / 1e6;
    line["of_ceiling"] = line["gb_per_s"].get<double>() / copied;
    run_.add(line);
  }

  /// Copies one half of the residual to the other half.
  void copy() const {
    on_.copy(residual_.data(), residual_.data() + residual_.bytes() / 2, residual_.bytes() / 2, stream_);
    on_.synchronise(stream_);
  }

  cuda_run& run_;
  const gpu& on_;
  const dtype type_;
  const std::uint64_t count_, k_;
  gpu_memory gradient_, residual_, update_, items_, found_, workspace_;
  gpu_stream stream_;
  std::vector<std::byte> numbers_;
};

}  // namespace

void measure_selections(cuda_run& run) {
  const cuda_scope here(run.on().context());
  std::vector<std::uint64_t> counts{1 << 12};
  if (!run.is_quick()) counts = {1 << 20, 1 << 24, 1ull << 28};
  for (const dtype type : {dtype::f32, dtype::bf16})
    for (const std::uint64_t count : counts)
      run.try_to("selections of " + std::string(name_of(type)) + ", " + std::to_string(count) + " elements",
                 [&] { selection_cells(run, type, count).measure(); });
  run.print({column("what", "what"), column("type", "dtype"), column("elements", "count"), column("k", "k"),
             column("ms", "ms", 3), column("GB/s", "gb_per_s", 1), column("of copy", "of_ceiling", 2), k_wrong});
}

}  // namespace lsched::bench
