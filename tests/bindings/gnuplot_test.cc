// Tests of plots: the positions of captions and keys, and warnings about points that a plot cannot show.
#include "bindings/gnuplot.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

namespace lsched {
namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

plot_diagram two_curves() {
  plot_diagram made{.settings = "set logscale y 10\n", .shares_x = true};
  made.named("ours", "linespoints").points = {{1, 10}, {2, 20}, {4, 40}};
  made.named("theirs", "linespoints").points = {{1, 11}, {2, std::nan("")}};
  return made;
}

std::string script_of(const plot_diagram& diagram, std::string* data = nullptr) {
  std::ostringstream to;
  const std::string script = picture("x.png").script_of("title", std::span(&diagram, 1), {"8 ranks, skewed"}, to);
  if (data != nullptr) *data = to.str();
  return script;
}

TEST(gnuplot, missing_points_are_marked_and_named) {
  const plot_diagram diagram = two_curves();
  const auto missing = missing_points(diagram, true);
  ASSERT_EQ(missing.size(), 2u);
  EXPECT_EQ(missing[0].x, 2);
  EXPECT_EQ(missing[1].x, 4);
  std::string data;
  const std::string script = script_of(diagram, &data);
  EXPECT_TRUE(contains(script, "no value: theirs at 2, theirs at 4.")) << script;
  EXPECT_TRUE(contains(script, "'×' at first 2, graph 0.03")) << script;
  EXPECT_FALSE(contains(data, "nan")) << data;
}

TEST(gnuplot, what_a_logarithmic_axis_cannot_show_is_missing) {
  plot_diagram diagram{.settings = "set logscale y 10\n"};
  diagram.named("zero", "points").points = {{1, 0}, {2, 5}};
  EXPECT_EQ(missing_points(diagram, true).size(), 1u);
  EXPECT_TRUE(contains(script_of(diagram), "no value: zero at 1."));
  diagram.settings = "unset logscale y\n";
  EXPECT_FALSE(contains(script_of(diagram), "no value"));
}

TEST(gnuplot, keys_stand_beside_and_caveats_below) {
  const std::string script = script_of(two_curves());
  EXPECT_TRUE(contains(script, "set key outside right top"));
  EXPECT_TRUE(contains(script, "'8 ranks, skewed' at screen 0.01"));
}

TEST(gnuplot, lines_that_hide_each_other_are_named) {
  plot_diagram diagram;
  diagram.named("below", "lines").points = {{1, 5}, {2, 6}};
  diagram.named("above", "lines").points = {{1, 5}, {2, 6}};
  EXPECT_TRUE(contains(script_of(diagram), "One line hides another: below, and above."));
  diagram.curves.front().points.front().second = 7;
  EXPECT_FALSE(contains(script_of(diagram), "hides another"));
}

}  // namespace
}  // namespace lsched
