// A picture of a schedule or of a run, as SVG text: ranks are lanes, time goes to the right, an op is a box, a message
// an arrow from its send to its receive.
//
// The picture is a value. builders.h makes one of a simulated round or of a trace; to_svg draws any. The text is
// self-contained (no scripts, no fonts, no links), is well-formed XML, and depends on the value alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ops/base.h"

namespace lsched::cli {

enum class box_kind : std::uint8_t { round, send, recv, compute, signal, capture, nop };

/// One op, or one round. Times are in the unit of the axis.
struct picture_box {
  std::size_t lane = 0;
  double begin = 0, end = 0;  ///< equal: an instant, which has a row of its own below the others
  box_kind kind = box_kind::nop;
  std::string label{};        ///< written where there is room
  std::string short_label{};  ///< written where there is room for no more
  std::string title{};        ///< the tooltip
  bool is_critical = false;
};

/// A message, or (in one lane) what the critical path waits for there.
struct picture_arrow {
  std::size_t from = 0, to = 0;  ///< boxes
  bool from_begin = false;       ///< starts where the box begins, not where it ends
  bool to_end = false;           ///< points at where the box ends, not where it begins
  bool is_signal = false;
  bool is_wait = false;  ///< no message
  bool is_critical = false;
};

struct picture_axis {
  std::string name = "time";
  std::string unit = "us";
};

struct schedule_picture {
  std::string title{};
  std::vector<std::string> caption{};  ///< lines, which are wrapped
  std::vector<std::string> lanes{};    ///< their names, top to bottom
  std::vector<picture_box> boxes{};
  std::vector<picture_arrow> arrows{};
  picture_axis axis{};
  bool has_critical_path = false;
};

/// Where a box is drawn.
struct box_place {
  double x = 0, y = 0, width = 0, height = 0;
};

/// The places of all boxes, of which no two of one lane overlap, and of the lanes.
struct picture_layout {
  double scale = 1;                 ///< points for a unit of the axis
  double first = 0, last = 0;       ///< ends of the axis
  double left = 0, top = 0;         ///< of the area of the lanes
  double width = 0, height = 0;     ///< of that area
  std::vector<double> lane_tops{};  ///< one more than there are lanes
  std::vector<box_place> boxes{};
};

/// `top`: where the lanes begin.
picture_layout layout_of(const schedule_picture& what, double top);

std::string to_svg(const schedule_picture& what);

/// As XML text. What is no printable ASCII and no UTF-8 of ours is to be escaped before.
std::string escaped_for_xml(std::string_view text);

std::string_view name_of(box_kind kind);

}  // namespace lsched::cli
