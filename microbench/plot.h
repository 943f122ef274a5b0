// Pictures at the end of benchmarks.
#pragma once

#include <span>
#include <string>

#include "bindings/gnuplot.h"
#include "microbench/harness.h"

namespace lsched::bench {

/// Throws `failed` unless a picture of that name, and its two files, can be written. Leaves nothing behind.
void expect_writable(const std::string& png);

/// Writes NAME.dat and NAME.gp beside NAME.png and has gnuplot draw it. One rank only. False, with one line of
/// explanation, if gnuplot refuses the script; a gnuplot that is not installed is explained too but no failure. Throws
/// `failed` if the files cannot be written.
bool draw_picture(const std::string& png, const std::string& title, std::span<const plot_diagram> diagrams,
                  reporter& out);

}  // namespace lsched::bench
