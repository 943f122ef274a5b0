// What libsched_mpi.so calls of libsched.so. It is C++ on both sides, which only libraries of one build agree about: so
// the first member says which build it is, and comes first in every build.
#pragma once

#include "bindings/c/world.h"

namespace lsched {

struct private_calls {
  const char* build;  ///< LSCHED_BUILD of libsched.so; where the caller's is another, the rest is not to be touched
  result<open_options> (*read_config)(const lsched_config* config);
  lsched_world* (*open)(std::unique_ptr<endpoint> net, const open_options& options, const neighbourhood& around);
  void (*with_engine)(runtime& of, const std::function<void()>& job);  ///< driver::with_engine
};

}  // namespace lsched

extern "C" LSCHED_API const lsched::private_calls lsched_private_calls;
