#include "microbench/plot.h"

namespace lsched::bench {

void expect_writable(const std::string& png) {
  if (const auto why = picture(png).objection()) throw failed(why->text);
}

bool draw_picture(const picture& figure, const std::string& data, const std::string& script, reporter& out) {
  const auto why = figure.draw(data, script);
  if (why && why->code == status::argument) throw failed(why->text);
  if (why)
    out.say("no plot, %s", why->text.c_str());
  else
    out.say("plot: %s", figure.png().c_str());
  return !why || why->code == status::unsupported;
}

}  // namespace lsched::bench
