// The functions of libsched.so that libsched_mpi.so calls. These C++ functions have the same binary interface only in
// libraries of the same build. So private_calls begins, in every build, with the name of the build.
#pragma once

#include "bindings/c/world.h"

namespace lsched {

struct private_calls {
  const char* build;  ///< LSCHED_BUILD of libsched.so. A caller of another build must not use the other members
  result<open_options> (*read_config)(const lsched_config* config);
  lsched_world* (*open)(std::unique_ptr<endpoint> net, const open_options& options, const neighbourhood& around);
  void (*with_engine)(runtime& of, const std::function<void()>& job);  ///< driver::with_engine
};

}  // namespace lsched

extern "C" LSCHED_API const lsched::private_calls lsched_private_calls;
