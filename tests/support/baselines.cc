// Tests know the algorithms that the library is compared with. Their programs have no main() of ours.
#include "microbench/baselines/linear_adasum.h"
#include "microbench/baselines/sparse_baselines.h"

namespace lsched::testing {
namespace {

[[maybe_unused]] const bool k_are_known = (add_sparse_baselines(), add_linear_adasum(), true);

}  // namespace
}  // namespace lsched::testing
