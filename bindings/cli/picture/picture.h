// A picture of a schedule or of a run, as SVG text. A rank is a lane, and time runs to the right. An op is a box. A
// message is an arrow from its send to its receive.
//
// The picture is a value. Functions of builders.h make it from a simulated round or from a trace, and to_svg() draws
// it. The SVG text is well-formed XML, self-contained (no scripts, no fonts, no links), and depends only on the value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ops/base.h"

namespace lsched::cli {

enum class box_kind : std::uint8_t { round, send, recv, compute, signal, capture, nop };

/// A box for one op or one round. Times are in the unit of the axis.
struct picture_box {
  std::size_t lane = 0;
  double begin = 0, end = 0;  ///< both equal for an instant, which is drawn below the other boxes
  box_kind kind = box_kind::nop;
  std::string label{};        ///< text in the box, if it fits
  std::string short_label{};  ///< text in the box if `label` does not fit
  std::string title{};        ///< the tooltip
  bool is_critical = false;
};

/// An arrow for a message, or for a wait on the critical path.
struct picture_arrow {
  std::size_t from = 0, to = 0;  ///< indices of the two boxes
  bool from_begin = false;       ///< true: starts at the beginning of box `from`, not at its end
  bool to_end = false;           ///< true: points to the end of box `to`, not to its beginning
  bool is_signal = false;
  bool is_wait = false;  ///< true for a wait, false for a message
  bool is_critical = false;
};

struct picture_axis {
  std::string name = "time";
  std::string unit = "us";
};

struct schedule_picture {
  std::string title{};
  std::vector<std::string> caption{};  ///< lines of the caption; to_svg() wraps long lines
  std::vector<std::string> lanes{};    ///< names of the lanes, from top to bottom
  std::vector<picture_box> boxes{};
  std::vector<picture_arrow> arrows{};
  picture_axis axis{};
  bool has_critical_path = false;
};

/// The rectangle in which a box is drawn.
struct box_place {
  double x = 0, y = 0, width = 0, height = 0;
};

/// The positions of all boxes and lanes. No two boxes of a lane overlap.
struct picture_layout {
  double scale = 1;                 ///< length of one unit of the axis in the picture, in points
  double first = 0, last = 0;       ///< beginning and end of the axis
  double left = 0, top = 0;         ///< top left corner of the area of the lanes
  double width = 0, height = 0;     ///< size of that area
  std::vector<double> lane_tops{};  ///< tops of the lanes, followed by the bottom of the last lane
  std::vector<box_place> boxes{};
};

/// Returns the layout of a picture whose lanes begin at y = 0.
picture_layout layout_of(const schedule_picture& what);

void move_down(picture_layout& layout, double by);

std::string to_svg(const schedule_picture& what);

/// Escapes text for XML. Replaces each byte that is not valid UTF-8, or not allowed in XML, by "?".
std::string escaped_for_xml(std::string_view text);

std::string_view name_of(box_kind kind);

}  // namespace lsched::cli
