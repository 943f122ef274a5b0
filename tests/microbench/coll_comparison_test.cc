// Tests of the comparison with MPI libraries. A ratio is libsched's time divided by the time of an MPI library in the
// same launch. The result is the highest ratio over the MPI libraries.
#include "microbench/coll/coll_comparison.h"

#include <gtest/gtest.h>

namespace lsched::bench {
namespace {

/// Returns a line in the format of `lsched bench coll --json`.
std::string row(const std::string& impl, double us, const std::string& mpi, nlohmann::json more = {}) {
  nlohmann::json line{
      {"bench", "coll"},     {"coll", "allreduce"}, {"impl", impl}, {"form", "blocking"}, {"in_place", false},
      {"buffers", "malloc"}, {"algorithm", "flat"}, {"ranks", 2},   {"bytes", 8},         {"us_median", us},
      {"wrong", 0},          {"pinned", true},      {"mpi", mpi},   {"spin_ns", 40.0},    {"transport", "shm+mpi"}};
  if (!more.is_null()) line.update(more);
  return line.dump() + "\n";
}

TEST(CollComparison, takes_the_best_right_rows_of_a_launch) {
  coll_comparison all;
  all.add_launch("a", row("mpi", 4, "A") + row("mpi", 3, "A", {{"form", "persistent"}}) +
                          row("mpi", 1, "A", {{"form", "nonblocking"}, {"wrong", 2}}) + row("libsched", 2, "A") +
                          row("libsched", 1.5, "A", {{"in_place", true}}) +
                          row("libsched", 0.75, "A", {{"buffers", "lsched_alloc"}}));
  const auto cells = all.cells();
  ASSERT_EQ(cells.size(), 1u);
  EXPECT_EQ(cells[0]["mpi_how"], "persistent");
  EXPECT_DOUBLE_EQ(cells[0]["mpi_us"], 3);
  EXPECT_EQ(cells[0]["malloc_how"], "flat, blocking, in place");
  EXPECT_DOUBLE_EQ(cells[0]["malloc_ratio"], 0.5);
  EXPECT_DOUBLE_EQ(cells[0]["shared_ratio"], 0.25);
}

TEST(CollComparison, a_slow_launch_of_one_mpi_is_not_compared_with_a_fast_one_of_another) {
  coll_comparison all;
  all.add_launch("fast", row("mpi", 3, "A") + row("libsched", 2, "A"));
  all.add_launch("slow", row("mpi", 6, "B") + row("libsched", 5, "B"));
  const auto cells = all.cells();
  ASSERT_EQ(cells.size(), 1u);
  EXPECT_EQ(cells[0]["mpi"], "B");  // B is slower than A, but not as slow relative to libsched in the same launch
  EXPECT_NEAR(cells[0]["malloc_ratio"].get<double>(), 5.0 / 6, 1e-12);
  EXPECT_EQ(cells[0]["launches"], 1u);
  EXPECT_EQ(cells[0]["other_launches"], 1u);
}

TEST(CollComparison, launches_give_the_median_of_their_ratios) {
  coll_comparison all;
  for (const double ours : {1.0, 9.0, 2.0})
    all.add_launch(
        "x", row("mpi", 10, "A", {{"spin_ns", 40 + ours}}) + row("libsched", ours, "A", {{"spin_ns", 40 + ours}}));
  const auto cells = all.cells();
  ASSERT_EQ(cells.size(), 1u);
  EXPECT_DOUBLE_EQ(cells[0]["malloc_ratio"], 0.2);
  EXPECT_DOUBLE_EQ(cells[0]["least_spin_ns"], 41);
  EXPECT_DOUBLE_EQ(cells[0]["most_spin_ns"], 49);
  EXPECT_EQ(cells[0]["launches"], 3u);
}

TEST(CollComparison, what_is_measured_in_another_way_is_another_cell) {
  coll_comparison all;
  all.add_launch("shm", row("mpi", 4, "A") + row("libsched", 2, "A"));
  all.add_launch("mpi", row("mpi", 4, "A", {{"transport", "mpi"}}) + row("libsched", 3, "A", {{"transport", "mpi"}}));
  all.add_launch("loose", row("mpi", 4, "A", {{"pinned", false}}) + row("libsched", 1, "A", {{"pinned", false}}));
  std::vector<double> ratios;
  for (const result& cell : all.cells()) ratios.push_back(cell["malloc_ratio"]);
  EXPECT_EQ(ratios, (std::vector<double>{0.25, 0.5, 0.75}));
}

TEST(CollComparison, cells_with_one_side_alone_are_counted) {
  coll_comparison all;
  all.add_launch("a", row("mpi", 4, "A") + row("libsched", 2, "A", {{"bytes", 64}}) +
                          row("mpi", 4, "A", {{"bytes", 1024}}) +
                          row("libsched", 2, "A", {{"bytes", 1024}, {"wrong", 1}}));
  std::size_t incomplete = 0;
  EXPECT_TRUE(all.cells(&incomplete).empty());
  EXPECT_EQ(incomplete, 3u);
}

TEST(CollComparison, files_that_are_no_launch_are_refused_with_their_line) {
  const auto told = [](const std::string& lines) -> std::string {
    try {
      coll_comparison().add_launch("file", lines);
    } catch (const failed& why) {
      return why.what();
    }
    return "";
  };
  const std::string good = row("mpi", 4, "A");
  EXPECT_EQ(told(good), "");
  EXPECT_EQ(told(R"({"bench":"idle"})"
                 "\n" +
                 good),
            "");
  EXPECT_NE(told("").find("file: the file has no row"), std::string::npos);
  EXPECT_NE(told(good + "torn").find("file: line 2: "), std::string::npos);
  EXPECT_NE(told(good + good).find("a single launch"), std::string::npos);
  EXPECT_NE(told(R"({"bench":"coll"})").find("file: line 1: "), std::string::npos);
  EXPECT_NE(told(row("mpi", 0, "A")).find("not above 0"), std::string::npos);
}

}  // namespace
}  // namespace lsched::bench
