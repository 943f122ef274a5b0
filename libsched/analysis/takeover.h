// Takeovers: where the result of an op may be its operand's memory instead of a copy.
//
// Where one operand is null the other is the result, and so it is with a copy. If both are whole buffers in memory of
// the instance, the target may take the operand's home and leave its own in exchange. The operand's value then lies in
// a home that the next op to write that target will write to. So that op has to come after all who read the value, or
// whatever value it was taken over from in turn: by deps of this rank alone, or there is no takeover.
#pragma once

#include <vector>

#include "libsched/analysis/pieces.h"

namespace lsched {

/// Of one compute op: whether its target may take over this operand's memory.
struct takeover {
  bool of_a = false;
  bool of_b = false;
  friend bool operator==(const takeover&, const takeover&) = default;
};

/// By op. An output's memory is published, and never given away. Time and memory grow with the square of the number of
/// ops where buffers that may be taken over are written more than once; beyond 4096 ops such targets are left out.
std::vector<takeover> takeovers_of(const schedule& program, const piece_map& pieces);

}  // namespace lsched
