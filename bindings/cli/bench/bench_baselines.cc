// The algorithms of other papers that benchmarks compare with: the command knows them, the library does not.
#include "bindings/cli/common/commands.h"
#include "microbench/baselines/sparse_baselines.h"

namespace lsched::cli {

void add_baselines() { add_sparse_baselines(); }

}  // namespace lsched::cli
