// Tests of pictures of rounds. Every op must be a box, and every message must be an arrow. Boxes must not overlap. The
// critical path must be as long as the round.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "bindings/cli/picture/builders.h"
#include "bindings/cli/picture/critical_path.h"
#include "tests/support/simulated_world.h"

namespace lsched::cli {
namespace {

using lsched::testing::collective_world;
using lsched::testing::k_us;
using lsched::testing::simulated;

/// A simulated round with its record and its picture.
struct drawn_round {
  std::vector<schedule_ptr> world;
  simulation what;
  simulation_record record{};
  simulation_report report{};
  schedule_picture picture{};

  drawn_round(std::vector<schedule_ptr> programs, simulation model, picture_words words = {.title = "round"})
      : world(std::move(programs)), what(std::move(model)) {
    report = simulated(world, what, &record, true);
    picture = picture_of_round(record, report, what, world, words);
  }
};

simulation rough_machine() {
  simulation what{.skew = {.kind = skew_kind::lognormal, .scale = 20 * k_us}};
  what.where.compute = 1'000'000;
  return what;
}

/// Returns rounds of many kinds: eager and rendezvous messages, ranks that start at different times, partial rounds,
/// rounds of signals only, and shared NICs.
std::vector<drawn_round> rounds() {
  std::vector<drawn_round> made;
  for (const char* algorithm : {"ring", "recursive_doubling", "tree", "flat"})
    for (const std::uint64_t bytes : {std::uint64_t{4000}, std::uint64_t{400'000}})
      made.emplace_back(collective_world(6, "allreduce", algorithm, bytes), rough_machine());
  made.emplace_back(collective_world(8, "alltoall", "direct", 800), rough_machine());
  made.emplace_back(collective_world(5, "barrier", "dissemination", 0), rough_machine());
  for (const auto policy : {activation_policy::solo, activation_policy::majority})
    made.emplace_back(collective_world(5, "partial_allreduce", "recursive_doubling", 64, {.policy = policy, .seed = 3}),
                      rough_machine());
  simulation shared = rough_machine();
  shared.where.levels.insert(shared.where.levels.begin(), machine_level{.ranks = 2, .shares_nic = true});
  made.emplace_back(collective_world(8, "allreduce", "ring", 100'000), shared);
  return made;
}

/// Returns the first two boxes that overlap, or an empty text.
std::string overlap_in(const schedule_picture& what, const picture_layout& layout) {
  for (std::size_t i = 0; i < what.boxes.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const box_place &x = layout.boxes[i], &y = layout.boxes[j];
      constexpr double k_touching = 1e-3;
      const bool is_apart = x.x + x.width <= y.x + k_touching || y.x + y.width <= x.x + k_touching ||
                            x.y + x.height <= y.y + k_touching || y.y + y.height <= x.y + k_touching;
      if (!is_apart) return "boxes " + std::to_string(j) + " and " + std::to_string(i);
    }
  return "";
}

/// Checks that the steps are a chain from the start of a rank to the end of the round. Returns the first violation, or
/// an empty text.
std::string flaw_of(const std::vector<path_step>& path, const drawn_round& round) {
  if (path.empty()) return "empty";
  const auto& ops = round.record.ops;
  const simulated_op& first = ops[path.front().op];
  if (first.begin < round.report.critical_path->start) return "begins before its rank";
  picoseconds length = first.begin;
  for (std::size_t i = 0; i < path.size(); ++i) {
    length += path[i].end - path[i].begin;
    if (path[i].end < path[i].begin) return "a step of negative length";
    if (i + 1 == path.size()) break;
    const simulated_op &here = ops[path[i].op], &next = ops[path[i + 1].op];
    if (path[i + 1].begin != path[i].end) return "a gap";
    if (here.who == next.who && next.begin < here.end) return "two ops at a time on one CPU";
    if (path[i].by_message != (is_receive(next) && is_outgoing(here.kind) && key_of(here) == key_of(next)))
      return "not the message of the send before";
  }
  return length == round.report.last() ? "" : "not as long as the round";
}

TEST(picture, has_a_box_for_each_op_and_an_arrow_for_each_message) {
  for (const drawn_round& round : rounds()) {
    EXPECT_EQ(round.picture.lanes.size(), round.world.size());
    EXPECT_EQ(round.picture.boxes.size(), round.record.ops.size());
    std::size_t receives = 0;
    for (const simulated_op& op : round.record.ops) receives += is_receive(op);
    const auto arrows =
        std::ranges::count_if(round.picture.arrows, [](const picture_arrow& arrow) { return !arrow.is_wait; });
    EXPECT_EQ(static_cast<std::size_t>(arrows), receives);
    if (round.report.signals == 0) {
      EXPECT_EQ(receives, round.report.messages);
    }
    for (const picture_arrow& arrow : round.picture.arrows) {
      const picture_box &from = round.picture.boxes[arrow.from], &to = round.picture.boxes[arrow.to];
      EXPECT_TRUE(arrow.is_wait || from.lane != to.lane);
      EXPECT_LE(from.begin, to.end);
    }
  }
}

TEST(picture, boxes_of_a_lane_do_not_overlap) {
  for (const drawn_round& round : rounds()) {
    picture_layout layout = layout_of(round.picture);
    EXPECT_EQ(overlap_in(round.picture, layout), "");
    for (std::size_t i = 0; i < round.picture.boxes.size(); ++i) {
      const std::size_t lane = round.picture.boxes[i].lane;
      EXPECT_GE(layout.boxes[i].y, layout.lane_tops[lane]);
      EXPECT_LE(layout.boxes[i].y + layout.boxes[i].height, layout.lane_tops[lane + 1]);
      EXPECT_LE(layout.boxes[i].x + layout.boxes[i].width, layout.left + layout.width + 1e-6);
    }
    layout.boxes[1] = layout.boxes[0];  // plants an overlap
    EXPECT_EQ(overlap_in(round.picture, layout), "boxes 0 and 1");
  }
}

TEST(picture, a_critical_path_is_a_chain_as_long_as_the_round) {
  for (const drawn_round& round : rounds()) {
    std::vector<path_step> path = critical_path_of(round.record, round.report);
    ASSERT_EQ(flaw_of(path, round), "") << round.world.front()->name();
    ASSERT_GT(path.size(), 2u);
    const auto step =
        std::ranges::find_if(path.begin() + 1, path.end() - 1, [](const path_step& it) { return it.begin < it.end; });
    ASSERT_LT(step, path.end() - 1);
    step->end -= 1;  // plants a gap
    EXPECT_EQ(flaw_of(path, round), "a gap");
    step->end += 1;
    path.erase(step);
    EXPECT_EQ(flaw_of(path, round), "a gap");
  }
}

TEST(picture, marks_the_boxes_and_messages_of_the_critical_path) {
  const drawn_round round(collective_world(4, "allreduce", "ring", 4000), rough_machine());
  const auto path = critical_path_of(round.record, round.report);
  const auto marked = std::ranges::count_if(round.picture.boxes, &picture_box::is_critical);
  EXPECT_EQ(static_cast<std::size_t>(marked), path.size());
  const auto messages = std::ranges::count_if(path, &path_step::by_message);
  EXPECT_EQ(std::ranges::count_if(round.picture.arrows,
                                  [](const picture_arrow& arrow) { return arrow.is_critical && !arrow.is_wait; }),
            messages);
}

TEST(picture, counts_steps_where_no_machine_is_meant) {
  const auto made = picture_in_steps(collective_world(8, "allreduce", "recursive_doubling", 4000), 0, {.title = "x"});
  ASSERT_TRUE(made) << made.error().text;
  EXPECT_EQ(made->title, "x: 12 steps");  // the steps send, message, receive and sum, three times
  double last = 0;
  for (const picture_box& box : made->boxes) last = std::max(last, box.end);
  EXPECT_EQ(last, 12);
}

TEST(picture, says_what_it_leaves_out) {
  const drawn_round round(collective_world(8, "allreduce", "ring", 4000), rough_machine(),
                          {.title = "x", .most_ranks = 4, .most_ops = 10});
  EXPECT_EQ(round.picture.lanes.size(), 4u);
  EXPECT_EQ(round.picture.boxes.size(), 10u);
  std::string caption;
  for (const std::string& line : round.picture.caption) caption += line + "\n";
  EXPECT_NE(caption.find("the first 4 of 8 ranks"), caption.npos) << caption;
  EXPECT_NE(caption.find("the first 10 of "), caption.npos) << caption;
  EXPECT_NE(caption.find("without an arrow"), caption.npos) << caption;
}

/// Returns a trace of two ranks. Rank 1 waits from the beginning for a message that rank 0 sends late.
std::vector<trace_event> late_message() {
  return {{.begin_ns = 1000, .end_ns = 9000, .round = 1, .who = 0, .op = 0, .kind = op_kind::compute},
          {.begin_ns = 9000, .end_ns = 9100, .round = 1, .who = 0, .op = 1, .peer = 1, .kind = op_kind::send},
          {.begin_ns = 1000, .end_ns = 9800, .round = 1, .who = 1, .op = 0, .peer = 0, .kind = op_kind::recv},
          {.begin_ns = 9900, .end_ns = 9950, .round = 1, .who = 1, .op = 1, .kind = op_kind::compute},
          {.begin_ns = 1000, .end_ns = 9960, .round = 1, .who = 1}};
}

TEST(picture, draws_a_recorded_run) {
  const std::vector<trace_event> events = late_message();
  const schedule_picture made = picture_of_trace(events, {{0, "allreduce/x"}}, {.title = "t"});
  EXPECT_EQ(made.boxes.size(), events.size());
  ASSERT_EQ(made.lanes.size(), 2u);
  EXPECT_EQ(overlap_in(made, layout_of(made)), "");
  const auto path = critical_path_of(events);
  ASSERT_EQ(path.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(path[i].op, i);
  EXPECT_TRUE(path[1].by_message);
  EXPECT_EQ(path.front().begin, 1'000'000);
  EXPECT_EQ(path.back().end, 9'950'000);
  for (std::size_t i = 0; i + 1 < path.size(); ++i) EXPECT_EQ(path[i].end, path[i + 1].begin);
}

// --- the text ------------------------------------------------------------------------------------------------

std::size_t count_in(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto place = text.find(part); place != text.npos; place = text.find(part, place + 1)) ++count;
  return count;
}

TEST(picture, svg_holds_what_the_picture_does) {
  const drawn_round round(collective_world(5, "partial_allreduce", "recursive_doubling", 64,
                                           {.policy = activation_policy::solo, .seed = 3}),
                          rough_machine());
  const std::string svg = to_svg(round.picture);
  EXPECT_EQ(count_in(svg, "<title>"), round.picture.boxes.size());
  EXPECT_EQ(
      count_in(svg, "class=\"message\"") + count_in(svg, "class=\"signal-message\"") + count_in(svg, "class=\"wait\""),
      round.picture.arrows.size());
  EXPECT_EQ(count_in(svg, " critical\""),
            static_cast<std::size_t>(std::ranges::count_if(round.picture.boxes, &picture_box::is_critical)));
  EXPECT_EQ(svg, to_svg(round.picture));
  for (const char* strange : {"<script", "href", "nan", "inf"}) EXPECT_EQ(count_in(svg, strange), 0u) << strange;
}

TEST(picture, svg_escapes_words) {
  schedule_picture made{.title = "a<b & \"c\"", .lanes = {"rank 0"}};
  made.boxes.push_back({.end = 1, .label = "<x>", .title = "1 < 2\x01"});
  const std::string svg = to_svg(made);
  EXPECT_NE(svg.find("a&lt;b &amp; &quot;c&quot;"), svg.npos);
  EXPECT_NE(svg.find("<title>1 &lt; 2?</title>"), svg.npos) << svg;
}

/// The font size of titles is 16 points. A bold letter is about 0.7 of the font size wide.
TEST(picture, no_title_is_wider_than_the_picture) {
  const std::string svg = to_svg({.title = std::string(300, 'n') + " of " + std::string(200, 'm')});
  const double width = std::stod(svg.substr(svg.find(" width=\"") + 8));
  std::size_t letters = 0;
  for (std::size_t at = 0; (at = svg.find("font-weight=\"bold\">", at)) != svg.npos;) {
    at = svg.find('>', at) + 1;
    const std::size_t line = svg.find('<', at) - at;
    EXPECT_LT(static_cast<double>(line) * 0.7 * 16, width);
    letters += line;
  }
  EXPECT_EQ(letters, 300u + 2u + 200u);
}

TEST(picture, an_empty_one_is_still_a_picture) {
  EXPECT_NE(to_svg({.title = "nothing"}).find("</svg>"), std::string::npos);
}

}  // namespace
}  // namespace lsched::cli
