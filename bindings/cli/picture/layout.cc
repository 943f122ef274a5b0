// The layout of a picture. The shortest boxes determine the width, and overlapping boxes determine the rows of a lane.
#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "bindings/cli/picture/picture.h"

namespace lsched::cli {
namespace {

constexpr double k_left = 74, k_least_width = 900, k_usual_width = 1600, k_most_width = 6000;
constexpr double k_room_for_label = 62, k_room_for_short_label = 20;
constexpr double k_least_box = 4;  ///< minimum width of a box, in points; the width of an instant
constexpr double k_lane_margin = 7;

/// The classes of rows in a lane, from top to bottom.
enum class row_class : std::uint8_t { rounds, work, instants };

bool is_instant(const picture_box& box) { return box.end <= box.begin; }

row_class class_of(const picture_box& box) {
  if (box.kind == box_kind::round) return row_class::rounds;
  return is_instant(box) ? row_class::instants : row_class::work;
}

std::size_t most_in_a_lane(const schedule_picture& what) {
  std::vector<std::size_t> boxes(what.lanes.size());
  for (const picture_box& box : what.boxes) ++boxes[box.lane];
  return boxes.empty() ? 0 : std::ranges::max(boxes);
}

/// Returns the width of the lanes. Within limits, the width is chosen so that nine of ten labels fit into their boxes.
/// A few boxes that are far apart do not make a picture wide.
double width_for(const schedule_picture& what, double span) {
  std::vector<double> lengths;
  for (const picture_box& box : what.boxes)
    if (box.kind != box_kind::round && !is_instant(box)) lengths.push_back(box.end - box.begin);
  if (lengths.empty() || span <= 0) return k_least_width;
  const auto tenth = lengths.begin() + std::ssize(lengths) / 10;
  std::ranges::nth_element(lengths, tenth);
  const double boxes = std::min(span / *tenth, 2.0 * static_cast<double>(most_in_a_lane(what)));
  return std::max(std::clamp(boxes * k_room_for_label, k_least_width, k_usual_width),
                  std::min(boxes * k_room_for_short_label, k_most_width));
}

/// Distributes the boxes of one class in one lane to rows. Each box goes to the first row in which it overlaps no other
/// box.
class row_packer {
 public:
  std::size_t add(double begin, double end) {
    constexpr double k_touching = 1e-6;
    const auto found = std::ranges::find_if(ends_, [&](double taken) { return taken <= begin + k_touching; });
    const auto row = static_cast<std::size_t>(found - ends_.begin());
    if (found == ends_.end()) ends_.push_back(0);
    ends_[row] = end;
    return row;
  }
  std::size_t rows() const { return ends_.size(); }

 private:
  std::vector<double> ends_;
};

double height_of(row_class rows, std::size_t how_many) {
  if (rows == row_class::rounds) return 12;
  if (rows == row_class::instants) return 8;
  return how_many <= 3 ? 22 : how_many <= 8 ? 15 : 8;
}

/// Places the boxes of one lane. The boxes must be sorted by their beginnings. Returns the bottom of the lane.
double place_lane(const schedule_picture& what, std::span<const std::size_t> boxes, double top, picture_layout& into) {
  double y = top + k_lane_margin;
  for (const row_class rows : {row_class::rounds, row_class::work, row_class::instants}) {
    row_packer packer;
    std::vector<std::size_t> row_of;
    for (const std::size_t i : boxes) {
      if (class_of(what.boxes[i]) != rows) continue;
      box_place& place = into.boxes[i];
      place.x = into.left + (what.boxes[i].begin - into.first) * into.scale;
      place.width = std::max((what.boxes[i].end - what.boxes[i].begin) * into.scale, k_least_box);
      row_of.push_back(packer.add(place.x, place.x + place.width));
    }
    const double height = height_of(rows, packer.rows()), pitch = height + 2;
    std::size_t next = 0;
    for (const std::size_t i : boxes)
      if (class_of(what.boxes[i]) == rows) {
        into.boxes[i].y = y + static_cast<double>(row_of[next++]) * pitch;
        into.boxes[i].height = height;
      }
    y += static_cast<double>(packer.rows()) * pitch;
  }
  constexpr double k_least_lane = 30;
  return std::max(y + k_lane_margin - 2, top + k_least_lane);
}

}  // namespace

picture_layout layout_of(const schedule_picture& what) {
  picture_layout made{.left = k_left};
  for (const picture_box& box : what.boxes) made.last = std::max(made.last, box.end);
  const double span = made.last - made.first;
  made.width = width_for(what, span);
  made.scale = span > 0 ? (made.width - k_least_box) / span : 1;
  made.boxes.resize(what.boxes.size());

  std::vector<std::vector<std::size_t>> in_lane(what.lanes.size());
  for (std::size_t i = 0; i < what.boxes.size(); ++i) in_lane[what.boxes[i].lane].push_back(i);
  double y = 0;
  for (auto& boxes : in_lane) {
    std::ranges::stable_sort(boxes, {}, [&](std::size_t i) { return what.boxes[i].begin; });
    made.lane_tops.push_back(y);
    y = place_lane(what, boxes, y, made);
  }
  made.lane_tops.push_back(y);
  made.height = y;
  return made;
}

void move_down(picture_layout& layout, double by) {
  layout.top += by;
  for (double& top : layout.lane_tops) top += by;
  for (box_place& box : layout.boxes) box.y += by;
}

}  // namespace lsched::cli
