#include "microbench/plot.h"

namespace lsched::bench {

void expect_writable(const std::string& png) {
  if (const auto why = picture(png).validate()) throw failed(why->text);
}

bool draw_picture(const std::string& png, const std::string& title, std::span<const plot_diagram> diagrams,
                  reporter& out) {
  const auto why = picture(png).draw(title, diagrams);
  if (why && why->code == status::argument) throw failed(why->text);
  if (why)
    out.say("no plot, %s", why->text.c_str());
  else
    out.say("plot: %s", png.c_str());
  return !why || why->code == status::unsupported;
}

}  // namespace lsched::bench
