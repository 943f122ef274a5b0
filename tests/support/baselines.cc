// Registers the baseline algorithms in test programs. A static initialiser does this, because the test framework
// provides main().
#include "collectives/baselines/linear_adasum.h"
#include "collectives/baselines/sparse_baselines.h"

namespace lsched::testing {
namespace {

[[maybe_unused]] const bool k_are_known = (add_sparse_baselines(), add_linear_adasum(), true);

}  // namespace
}  // namespace lsched::testing
