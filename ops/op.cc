#include "ops/op.h"

#include <array>

namespace lsched {

std::string_view name_of(op_kind kind) {
  constexpr std::array<std::string_view, 7> names{"nop",         "send",        "recv",   "compute",
                                                  "signal_send", "signal_recv", "capture"};
  return names[static_cast<std::size_t>(kind)];
}

}  // namespace lsched
