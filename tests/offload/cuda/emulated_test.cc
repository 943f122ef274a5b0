// Tests that the host runs every device kernel, and that the thread sanitizer detects a missing barrier.
#include "tests/offload/cuda/emulated.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <set>
#include <string>

#include "offload/cuda/driver/sparse_launch.h"
#include "ops/sparse/sparse.h"
#include "tests/offload/cuda/operands.h"
#include "tests/support/shell.h"

namespace lsched::testing {
namespace {

TEST(emulated_kernels, are_those_that_the_host_launches) {
  std::set<std::string_view> launched;
  for (const device_symbol& symbol : device_symbols()) launched.insert(symbol);
  const std::vector<std::string_view> all = emulated_names();
  EXPECT_EQ(launched, std::set<std::string_view>(all.begin(), all.end()));
  EXPECT_EQ(launched.size(), device_symbols().size());
  EXPECT_EQ(find_emulated("lsched_sum_f128"), nullptr);
}

/// Runs both passes of the kernel for dot products, with so many elements that each thread of a block repeats every
/// step.
void run_dots() {
  const std::vector<float> numbers(100'000, 1.0F);
  const device_kernel device = find_device_kernel(kernel::dot_norms, dtype::f32).value();
  std::array<double, k_dot_sums> sums{};
  std::vector<double> workspace(3 * 100, 1.0);
  const device_arguments with{.a = numbers.data(),
                              .b = numbers.data(),
                              .c = sums.data(),
                              .workspace = workspace.data(),
                              .count = numbers.size()};
  emulated(device.first).run(with, 1, 64);
  device_arguments of_many = with;
  of_many.count = 100 * 65536;
  emulated(device.second).run(of_many, 1, 32);
}

/// Runs all passes of a selection.
void run_selection() {
  std::vector<float> residual(5000);
  for (std::size_t i = 0; i < residual.size(); ++i) residual[i] = static_cast<float>(i % 97);
  std::vector<std::byte> items(200 * item_size(dtype::f32));
  std::uint64_t found = 0;
  std::vector<std::uint64_t> workspace(selection_workspace_bytes(residual.size()) / sizeof(std::uint64_t));
  const sparse_selection job{
      .residual = residual.data(), .count = residual.size(), .k = 200, .items = items.data(), .found = &found};
  const launch_list launches = launches_of(job, workspace.data());
  for (const device_launch& next : launches.all())
    emulated(next.function).run(next.with, std::min(2u, next.grid.blocks), next.grid.threads);
}

/// Runs a copy of this program with one of the tests below, in which a barrier is left out. Returns the exit status,
/// and appends the output to `said`.
int run_without_barrier(const std::string& test, unsigned number, std::string& said) {
  const std::string command = "LSCHED_TEST_BARRIER=" + std::to_string(number) + " /proc/" + std::to_string(getpid()) +
                              "/exe --gtest_also_run_disabled_tests "
                              "--gtest_filter=emulated_kernels.DISABLED_" +
                              test + "_without_a_barrier 2>&1";
  const auto made = testing::run_shell(command);
  said += made.output;
  return made.status;
}

/// Calls `run` without the barrier whose index is in the environment.
template <class Run>
void without_a_barrier(const Run& run) {
  const char* number = std::getenv("LSCHED_TEST_BARRIER");
  leave_out_barrier(number == nullptr ? 0 : static_cast<unsigned>(std::atoi(number)));
  run();
  leave_out_barrier(0);
}

TEST(emulated_kernels, DISABLED_dots_without_a_barrier) { without_a_barrier(run_dots); }
TEST(emulated_kernels, DISABLED_selection_without_a_barrier) { without_a_barrier(run_selection); }

/// Both passes for dot products have two barriers in each repetition, and the passes of a selection have two or more.
TEST(emulated_kernels, race_where_a_barrier_is_left_out) {
#ifndef __SANITIZE_THREAD__
  GTEST_SKIP() << "only the thread sanitizer sees a race for sure";
#endif
  for (const std::string test : {"dots", "selection"}) {
    std::string said;
    EXPECT_EQ(run_without_barrier(test, 0, said), 0) << said;
    for (unsigned number = 1; number <= (test == "dots" ? 2u : 5u); ++number) {
      said.clear();
      EXPECT_NE(run_without_barrier(test, number, said), 0) << test << ", barrier " << number;
      EXPECT_NE(said.find("data race"), std::string::npos) << test << ", barrier " << number << ":\n" << said;
    }
  }
}

}  // namespace
}  // namespace lsched::testing
