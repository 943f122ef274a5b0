// Lookup of the function that computes a kernel on the host.
#include "ops/adasum/adasum.h"
#include "ops/elementwise/elementwise.h"
#include "ops/float_mode.h"
#include "ops/kernel.h"

namespace lsched {
namespace {

// The application's function may have changed the floating-point mode. Later ops need the default mode.
void call_user(const kernel_call& call) {
  if (call.count > 0) call.user->run(call.a, call.b, call.c, call.count, call.user->context);
  default_float_mode::restore();
}

}  // namespace

kernel_fn find(kernel what, dtype type) {
  if (!supports(what, type)) return nullptr;
  if (what == kernel::user) return &call_user;
  if (what == kernel::dot_norms || what == kernel::adasum) return find_adaptive(what, type);
  return is_reduction(what) || what == kernel::divide ? find_elementwise(what, type) : nullptr;
}

}  // namespace lsched
