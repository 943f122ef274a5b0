#include "tests/support/fake_cuda/misuse.h"

#include <cstdio>
#include <cstdlib>

namespace fake_cuda {

void misuse(const std::string& what) {
  std::fprintf(stderr, "fake CUDA: misuse: %s\n", what.c_str());
  std::abort();
}

}  // namespace fake_cuda
