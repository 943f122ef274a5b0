// Agreement texts. A commit compares the texts of all ranks, so that ranks with different requests get an error instead
// of a wrong result. The texts contain only properties that must be equal on all ranks.
#pragma once

#include <string>
#include <string_view>

#include "collectives/algorithm/collective.h"
#include "collectives/sparse/steps/coo_problem.h"
#include "collectives/sparse/steps/problem.h"
#include "libsched/schedule/activation.h"

namespace lsched {

/// Returns the text for a collective. `elements` is as in collective_request.
std::string agreement_of(const collective& kind, const shape& data, std::string_view algorithm,
                         std::string_view elements);

std::string agreement_of(const sparse_problem& problem, std::string_view algorithm);

std::string agreement_of(const coo_problem& problem);

/// Returns the text for an activation. The caller appends this text to the text for a partial schedule.
std::string agreement_of(const activation& starts);

/// `why` is the failure of a commit, and its text quotes the agreement texts of two ranks. If only one of these two
/// texts has a segment size, returns `why` with advice about segment sizes. Otherwise returns `why` unchanged.
failure with_advice(failure why);

}  // namespace lsched
