// The parts of `lsched bench cuda`, and the message of a build without CUDA.
#include <cstdio>

#include "microbench/benchmarks.h"

namespace lsched::bench {

std::span<const cuda_part> cuda_parts() {
  static constexpr cuda_part k_all[] = {{"machine", false},  {"costs", false},  {"kernels", false},
                                        {"allreduce", true}, {"streams", true}, {"idle", true}};
  return k_all;
}

#if !LSCHED_HAVE_CUDA
namespace {

int say_that_there_is_none() {
  std::fprintf(stderr, "lsched: there is no GPU: this program was built without CUDA\n");
  return k_exit_no_gpu;
}

}  // namespace

int run_cuda(const cuda_options&) { return say_that_there_is_none(); }
int run_cuda_ranks(lsched_world*, const cuda_options&) { return say_that_there_is_none(); }
#endif

}  // namespace lsched::bench
