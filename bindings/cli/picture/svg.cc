// The SVG text of a picture: caption, legend, lanes, boxes, arrows, labels and axis.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <set>
#include <utility>
#include <vector>

#include "bindings/cli/picture/picture.h"
#include "bindings/wrapped_text.h"

namespace lsched::cli {
namespace {

constexpr double k_margin = 14, k_right = 40, k_text = 12, k_line = 17, k_title = 16, k_axis = 46;
constexpr double k_wide = 0.62, k_bold = 0.72;  ///< mean width of a letter as a share of the font size
constexpr std::size_t k_many_arrows = 150;
constexpr const char* k_critical = "#d00000";

constexpr std::array<const char*, 7> k_fills{"#ececec", "#9ecae9", "#a8dba0", "#fdd08f",
                                             "#d9bfe6", "#f7b6c2", "#bdbdbd"};

const char* fill_of(box_kind kind) { return k_fills[static_cast<std::size_t>(kind)]; }

/// Formats a length in points with at most two decimals, without trailing zeros.
std::string points(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f", value);
  std::string word = text.data();
  word.erase(word.find_last_not_of('0') + 1);
  if (word.back() == '.') word.pop_back();
  return word == "-0" ? "0" : word;
}

double width_of(std::string_view text, double size) { return static_cast<double>(columns_of(text)) * k_wide * size; }

/// Returns the number of bytes of the first character, or 0 if the character is not UTF-8 or not allowed in XML.
std::size_t xml_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return std::uint32_t{static_cast<unsigned char>(text[i])}; };
  const std::uint32_t first = byte(0);
  if (first < 0x80) return first >= 0x20 || first == '\n' ? 1 : 0;
  const std::size_t length = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (length == 0 || text.size() < length) return 0;
  std::uint32_t code = first & (0x7fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr std::array<std::uint32_t, 5> k_least{0, 0, 0x80, 0x800, 0x10000};
  const bool is_character = code >= k_least[length] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
  return is_character && code != 0xfffe && code != 0xffff ? length : 0;
}

/// Splits text into lines of at most `most` letters. Splits words that are longer than a line.
std::vector<std::string> lines_of(const std::string& text, std::size_t most) {
  std::vector<std::string> lines(1);
  for (const char letter : wrapped(text, 0, most)) {
    const std::size_t more = columns_of({&letter, 1});
    if (letter == '\n' || columns_of(lines.back()) + more > most) lines.emplace_back();
    if (letter != '\n') lines.back() += letter;
  }
  return lines;
}

class svg_writer {
 public:
  explicit svg_writer(const schedule_picture& what) : what_(what), place_(layout_of(what)) {}

  std::string run() {
    write_caption(place_.width);
    write_legend(place_.width);
    const bool is_tall = place_.height > 700;
    move_down(place_, y_ + (is_tall ? k_axis : 8));
    if (is_tall) write_ticks(place_.top - 6, -1);
    write_lanes();
    write_boxes();
    write_arrows();
    write_labels();
    const double bottom = place_.top + place_.height;
    write_ticks(bottom + 6, 1);
    return head(place_.left + place_.width + k_right, bottom + k_axis + k_margin) + body_ + "</svg>\n";
  }

 private:
  static std::string head(double width, double height) {
    std::string text =
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" +
        points(width) + "\" height=\"" + points(height) + "\" viewBox=\"0 0 " + points(width) + " " + points(height) +
        "\" font-family=\"DejaVu Sans, Verdana, Helvetica, Arial, sans-serif\" font-size=\"12\" "
        "fill=\"#111\">\n<defs>\n";
    for (const auto& [id, color] : {std::pair{"grey", "#444"}, {"signal", "#7b3fa0"}, {"red", k_critical}})
      text += "<marker id=\"" + std::string(id) +
              "\" viewBox=\"0 0 8 8\" refX=\"7.5\" refY=\"4\" markerWidth=\"6\" markerHeight=\"6\" "
              "markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path d=\"M0 0.5 L8 4 L0 7.5 z\" fill=\"" +
              color + "\"/></marker>\n";
    return text + "</defs>\n<rect width=\"" + points(width) + "\" height=\"" + points(height) + "\" fill=\"#fff\"/>\n";
  }

  void text(double x, double y, std::string_view words, const std::string& more = {}) {
    body_ +=
        "<text x=\"" + points(x) + "\" y=\"" + points(y) + "\"" + more + ">" + escaped_for_xml(words) + "</text>\n";
  }
  void line(double x, double y, double x2, double y2, const std::string& more) {
    body_ += "<line x1=\"" + points(x) + "\" y1=\"" + points(y) + "\" x2=\"" + points(x2) + "\" y2=\"" + points(y2) +
             "\"" + more + "/>\n";
  }
  void rect(const box_place& at, const std::string& more) {
    body_ += "<rect x=\"" + points(at.x) + "\" y=\"" + points(at.y) + "\" width=\"" + points(at.width) +
             "\" height=\"" + points(at.height) + "\"" + more;
  }

  // --- above the lanes

  void write_caption(double width) {
    const auto most = [&](double letter) { return static_cast<std::size_t>(width / letter); };
    y_ = k_margin + k_title;
    for (const std::string& words : lines_of(what_.title, most(k_bold * k_title))) {
      text(k_margin, y_, words, " font-size=\"16\" font-weight=\"bold\"");
      y_ += k_line + 3;
    }
    for (const std::string& each : what_.caption)
      for (const std::string& words : lines_of(each, most(k_wide * k_text))) {
        text(k_margin, y_, words);
        y_ += k_line;
      }
  }

  /// Explains the kinds of boxes and arrows that are in the picture.
  void write_legend(double width) {
    std::set<box_kind> kinds;
    bool has_messages = false, has_signals = false, has_waits = false;
    for (const picture_box& box : what_.boxes) kinds.insert(box.kind);
    for (const picture_arrow& arrow : what_.arrows) {
      has_signals |= arrow.is_signal;
      has_waits |= arrow.is_wait;
      has_messages |= !arrow.is_signal && !arrow.is_wait;
    }
    double x = k_margin;
    y_ += 6;
    const auto entry = [&](std::string_view words, const auto& draw) {
      constexpr double k_swatch = 30;
      const double room = k_swatch + width_of(words, k_text) + 22;
      if (x + room > width && x > k_margin) x = k_margin, y_ += k_line + 2;
      draw(x, y_ - 4);
      text(x + k_swatch, y_, words);
      x += room;
    };
    for (const box_kind kind : kinds)
      entry(name_of(kind), [&](double left, double middle) {
        rect({left, middle - 6, 22, 12}, fill_text(kind) + "/>\n");
      });
    const auto arrow = [&](const std::string& how) {
      return [this, how](double left, double middle) { line(left, middle, left + 24, middle, how); };
    };
    if (has_messages) entry("message", arrow(arrow_text({})));
    if (has_signals) entry("signal message", arrow(arrow_text({.is_signal = true})));
    if (what_.has_critical_path)
      entry("critical path", [&](double left, double middle) {
        rect({left, middle - 6, 22, 12}, " fill=\"#fff\"" + critical_stroke() + "/>\n");
      });
    if (has_waits)
      entry("wait on the critical path",
            [&](double left, double middle) { line(left, middle, left + 24, middle, arrow_text({.is_wait = true})); });
    y_ += k_line;
  }

  static std::string fill_text(box_kind kind) {
    return " fill=\"" + std::string(fill_of(kind)) + "\" stroke=\"#555\" stroke-width=\"0.6\"";
  }
  static std::string critical_stroke() { return " stroke=\"" + std::string(k_critical) + "\" stroke-width=\"2.4\""; }
  /// Returns the style of an arrow. In pictures with many arrows, all arrows are fainter.
  std::string arrow_text(const picture_arrow& arrow) const {
    if (arrow.is_wait) return critical_stroke() + " stroke-dasharray=\"2 3\"";
    const std::string dashes = arrow.is_signal ? " stroke-dasharray=\"4 2\"" : "";
    if (arrow.is_critical) return critical_stroke() + dashes + " marker-end=\"url(#red)\"";
    const std::string ink = " stroke-width=\"0.9\" stroke-opacity=\"" +
                            std::string(what_.arrows.size() > k_many_arrows ? "0.45" : "0.75") + "\"";
    if (arrow.is_signal) return " stroke=\"#7b3fa0\" marker-end=\"url(#signal)\"" + ink + dashes;
    return " stroke=\"#444\" marker-end=\"url(#grey)\"" + ink;
  }

  // --- the lanes

  void write_lanes() {
    for (std::size_t lane = 0; lane < what_.lanes.size(); ++lane) {
      const double top = place_.lane_tops[lane], bottom = place_.lane_tops[lane + 1];
      rect({place_.left, top, place_.width, bottom - top},
           std::string(" fill=\"") + (lane % 2 == 0 ? "#f7f7f7" : "#fff") + "\"/>\n");
      text(place_.left - 8, (top + bottom) / 2 + 4, what_.lanes[lane], " text-anchor=\"end\"");
    }
    for (const double tick : ticks())
      line(x_of(tick), place_.top, x_of(tick), place_.top + place_.height, " stroke=\"#ddd\" stroke-width=\"0.7\"");
  }

  void write_boxes() {
    for (std::size_t i = 0; i < what_.boxes.size(); ++i) {
      const picture_box& box = what_.boxes[i];
      std::string how = fill_text(box.kind);
      if (box.is_critical) how = " fill=\"" + std::string(fill_of(box.kind)) + "\"" + critical_stroke();
      rect(place_.boxes[i],
           how + " class=\"" + std::string(name_of(box.kind)) + (box.is_critical ? " critical" : "") + "\">");
      body_ += "<title>" + escaped_for_xml(box.title) + "</title></rect>\n";
    }
  }

  /// Writes the arrows of the critical path last, so that they are drawn over other arrows.
  void write_arrows() {
    for (const bool is_critical : {false, true})
      for (const picture_arrow& arrow : what_.arrows) {
        if ((arrow.is_critical || arrow.is_wait) != is_critical) continue;
        const box_place &from = place_.boxes[arrow.from], &to = place_.boxes[arrow.to];
        const std::string_view kind = arrow.is_wait ? "wait" : arrow.is_signal ? "signal-message" : "message";
        // An arrow between boxes at different heights ends near the edges that face each other, and thus covers no
        // label.
        const double down = arrow.is_wait || from.y == to.y ? 0 : from.y < to.y ? 0.35 : -0.35;
        line(from.x + (arrow.from_begin ? 0 : from.width), from.y + from.height * (0.5 + down),
             to.x + (arrow.to_end ? to.width : 0), to.y + to.height * (0.5 - down),
             arrow_text(arrow) + " class=\"" + std::string(kind) + "\"");
      }
  }

  void write_labels() {
    for (std::size_t i = 0; i < what_.boxes.size(); ++i) {
      const box_place& at = place_.boxes[i];
      const double size = std::min(11.0, at.height - 3);
      if (size < 8) continue;
      const picture_box& box = what_.boxes[i];
      const auto fits = [&](const std::string& words) { return width_of(words, size) + 4 <= at.width; };
      const std::string& words = fits(box.label) ? box.label : box.short_label;
      if (words.empty() || !fits(words)) continue;
      text(at.x + at.width / 2, at.y + at.height / 2 + size * 0.36, words,
           " text-anchor=\"middle\" font-size=\"" + points(size) + "\" stroke=\"" + fill_of(box.kind) +
               "\" stroke-width=\"2.5\" paint-order=\"stroke\" pointer-events=\"none\"");
    }
  }

  // --- the axis

  double x_of(double time) const { return place_.left + (time - place_.first) * place_.scale; }

  /// Returns the numbers on the axis: round numbers, with enough distance for their text.
  std::vector<double> ticks() const {
    const double least = 90 / place_.scale;
    double step = std::pow(10, std::floor(std::log10(least)));
    for (const double factor : {2.0, 2.5, 2.0})
      if (step < least) step *= factor;
    if (what_.axis.unit.empty()) step = std::max(1.0, std::ceil(step));
    std::vector<double> all;
    for (double i = 0; i * step <= (place_.last - place_.first) * (1 + 1e-9); ++i)
      all.push_back(place_.first + i * step);
    return all;
  }

  /// Writes an axis. `down` is 1 for an axis below the lanes, and -1 for an axis above the lanes.
  void write_ticks(double y, double down) {
    line(place_.left, y, place_.left + place_.width, y, " stroke=\"#111\" stroke-width=\"1\"");
    const double words = down > 0 ? y + 18 : y - 8;
    for (const double tick : ticks()) {
      line(x_of(tick), y, x_of(tick), y + down * 5, " stroke=\"#111\" stroke-width=\"1\"");
      std::array<char, 32> number{};
      std::snprintf(number.data(), number.size(), "%.6g", tick);
      text(x_of(tick), words, number.data(), " text-anchor=\"middle\" font-size=\"11\"");
    }
    const std::string unit = what_.axis.unit.empty() ? "" : " (" + what_.axis.unit + ")";
    text(place_.left + place_.width / 2, words + down * 16, what_.axis.name + unit, " text-anchor=\"middle\"");
  }

  const schedule_picture& what_;
  picture_layout place_;
  double y_ = 0;
  std::string body_;
};

}  // namespace

std::string to_svg(const schedule_picture& what) { return svg_writer(what).run(); }

std::string escaped_for_xml(std::string_view text) {
  std::string made;
  while (!text.empty()) {
    const std::size_t length = xml_character(text);
    const char c = length == 0 ? '?' : text.front();
    if (length > 1)
      made += text.substr(0, length);
    else if (c == '&')
      made += "&amp;";
    else if (c == '<')
      made += "&lt;";
    else if (c == '>')
      made += "&gt;";
    else if (c == '"')
      made += "&quot;";
    else
      made += c;
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return made;
}

std::string_view name_of(box_kind kind) {
  constexpr std::array<std::string_view, 7> k_names{"round", "send", "recv", "compute", "signal", "capture", "nop"};
  return k_names[static_cast<std::size_t>(kind)];
}

}  // namespace lsched::cli
