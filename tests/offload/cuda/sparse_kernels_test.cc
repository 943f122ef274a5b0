// Runs the device jobs for sparse vectors with the launches that a device would use, and compares the results with the
// host kernels, bit by bit.
#include "offload/cuda/driver/sparse_launch.h"

#include "ops/elementwise/elementwise.h"
#include "tests/offload/cuda/operands.h"
#include "tests/support/sparse_on_host.h"

namespace lsched::testing {
namespace {

constexpr std::array k_floats{dtype::f16, dtype::bf16, dtype::f32, dtype::f64};
constexpr std::uint64_t k_seed = 314;

/// Runs launches. A narrow run has fewer blocks than tiles. The number of threads in a block is unchanged, because the
/// size of a tile depends on this number.
void run(const launch_list& all, bool is_narrow) {
  for (const device_launch& next : all.all())
    emulated(next.function)
        .run(next.with, is_narrow ? std::min(2u, next.grid.blocks) : next.grid.blocks, next.grid.threads);
}

struct selection_trial {
  std::uint64_t count = 0, k = 0;
  bool ignores_nan = false, has_gradient = true, is_narrow = false;
  std::size_t shift = 0;
  double scale = 1;
  bool has_few_values = false;
};

/// Returns numbers, many of which have the same magnitude.
operand few_values(dtype type, std::uint64_t count, std::size_t shift) {
  operand drawn(type, count, shift);
  std::mt19937_64 random(k_seed + count);
  for (std::size_t i = 0; i < count; ++i) {
    const double value = static_cast<double>(static_cast<std::int64_t>(random() % 9) - 4) / 2;
    find_convert(dtype::f64, type)(&value, 1, 1, drawn.data() + i * size_of(type));
  }
  return drawn;
}

void try_selection(dtype type, const selection_trial& trial) {
  const dtype wide = residual_of(type);
  patterns values(type, k_seed + trial.count), residuals(wide, k_seed + trial.k);
  operand gradient =
      trial.has_few_values ? few_values(type, trial.count, trial.shift) : values.draw(trial.count, trial.shift);
  operand residual = trial.has_few_values ? few_values(wide, trial.count, 0) : residuals.draw(trial.count, 0);
  if (!trial.has_gradient) {
    // Without a gradient, the job keeps the bits of the residual. Therefore zeros are added to the residual before the
    // job, which replaces every NaN by the NaN that sums produce.
    operand none(type, trial.count, 0);
    for (std::size_t i = 0; i < trial.count; ++i) write_element(none.data(), i, type, 0);
    sparse_kernels_of(type).accumulate_select({residual.data(), none.data(), 1, trial.count}, {}, nullptr, 0);
  }
  operand wanted = residual;
  std::vector<std::byte> items(trial.k * item_size(type), std::byte{0x5A}), wanted_items = items;
  std::uint64_t found = 99, wanted_found = 99;
  sparse_selection job{.type = type,
                       .residual = wanted.data(),
                       .gradient = trial.has_gradient ? gradient.data() : nullptr,
                       .scale = trial.scale,
                       .count = trial.count,
                       .k = std::min(trial.k, trial.count),
                       .ignores_nan = trial.ignores_nan,
                       .items = wanted_items.data(),
                       .found = &wanted_found};
  run_on_host(job);
  job.residual = residual.data(), job.items = items.data(), job.found = &found;
  std::vector<std::uint64_t> workspace(selection_workspace_bytes(trial.count) / sizeof(std::uint64_t), 77);
  run(launches_of(job, workspace.data()), trial.is_narrow);
  if (job.k == 0) found = 0;
  EXPECT_EQ(found, wanted_found);
  EXPECT_EQ(items, wanted_items);
  expect_same_bits(residual, wanted, wide);
}

std::vector<selection_trial> selections() {
  std::vector<selection_trial> all;
  if (sampled())
    return {{1, 1}, {600, 14}, {.count = 600, .k = 100, .is_narrow = true, .has_few_values = true}, {5003, 100, true}};
  for (const std::uint64_t count : {0u, 1u, 7u, 33u, 600u, 5003u})
    for (const std::uint64_t k : {std::uint64_t{0}, std::uint64_t{1}, count / 50 + 2, count}) all.push_back({count, k});
  all.push_back({.count = 5003, .k = 100, .ignores_nan = true});
  all.push_back({.count = 5003, .k = 5000, .ignores_nan = true});
  all.push_back({.count = 5003, .k = 100, .has_gradient = false});
  all.push_back({.count = 5003, .k = 100, .is_narrow = true, .shift = 1, .scale = 0.3});
  for (const std::uint64_t k : {1u, 500u, 4000u, 4999u})
    all.push_back({.count = 5003, .k = k, .is_narrow = true, .has_few_values = true});
  all.push_back({.count = 1'000'003, .k = 9999, .is_narrow = true, .scale = -2});
  return all;
}

class DeviceSelection : public ::testing::TestWithParam<dtype> {};

TEST_P(DeviceSelection, HasTheBitsOfTheHost) {
  for (const selection_trial& trial : selections()) {
    SCOPED_TRACE(::testing::Message() << trial.count << " elements, k " << trial.k << ", "
                                      << (trial.ignores_nan ? "no NaN, " : "") << (trial.is_narrow ? "narrow, " : "")
                                      << (trial.has_few_values ? "few values" : ""));
    ASSERT_NO_FATAL_FAILURE(try_selection(GetParam(), trial));
    if (HasFailure()) return;
  }
}

/// Returns a random list with an item every few elements.
std::vector<std::byte> draw_list(dtype type, std::uint64_t elements, std::uint64_t step, std::uint64_t seed) {
  std::vector<std::byte> items;
  patterns values(type, seed);
  std::mt19937_64 random(seed);
  for (std::uint64_t i = random() % step; i < elements; i += 1 + random() % step) {
    const operand value = values.draw(1, 0);
    const auto index = static_cast<std::uint32_t>(i);
    const std::size_t end = items.size();
    items.resize(end + item_size(type));
    std::memcpy(items.data() + end, &index, sizeof index);
    std::memcpy(items.data() + end + sizeof index, value.data(), size_of(type));
  }
  return items;
}

TEST_P(DeviceSelection, SettlesWithTheBitsOfTheHost) {
  const dtype type = GetParam(), wide = residual_of(type);
  for (const std::uint64_t count : {0u, 1u, 40u, 5003u})
    for (const std::uint64_t divisor : {1u, 3u, 7u, 70'001u})
      for (const bool clears : {false, true})
        for (const std::uint64_t least : {std::uint64_t{0}, infinite_magnitude(wide)}) {
          operand residual = patterns(wide, k_seed + count).draw(count, 0);
          operand update = patterns(type, k_seed + divisor).draw(count, 1);
          operand wanted_residual = residual, wanted_update = update;
          const auto cleared = draw_list(type, count, 3, 1), result = draw_list(type, count, 5, 2),
                     leaving = draw_list(type, count, 4, 3);
          const auto list_of = [&](const std::vector<std::byte>& items) {
            return sparse_settlement::list{items.data(), items.size() / item_size(type)};
          };
          sparse_settlement job{.type = type,
                                .residual = wanted_residual.data(),
                                .update = wanted_update.data(),
                                .count = count,
                                .least_dropped = least,
                                .clears_all = clears,
                                .cleared = list_of(cleared),
                                .result = list_of(result),
                                .leaving = list_of(leaving),
                                .divisor = divisor};
          run_on_host(job);
          job.residual = residual.data(), job.update = update.data();
          run(launches_of(job), count % 2 == 0);
          SCOPED_TRACE(::testing::Message() << count << " elements by " << divisor);
          ASSERT_NO_FATAL_FAILURE(expect_same_bits(residual, wanted_residual, wide));
          ASSERT_NO_FATAL_FAILURE(expect_same_bits(update, wanted_update, type));
        }
}

INSTANTIATE_TEST_SUITE_P(types, DeviceSelection, ::testing::ValuesIn(k_floats),
                         [](const auto& of) { return std::string(name_of(of.param)); });

}  // namespace
}  // namespace lsched::testing
