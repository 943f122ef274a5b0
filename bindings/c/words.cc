#include "bindings/c/words.h"

#include <string>

namespace lsched {
namespace {

static_assert(static_cast<int>(dtype::f64) == LSCHED_F64 && static_cast<int>(kernel::sum) == LSCHED_SUM &&
              static_cast<int>(kernel::bxor) == LSCHED_BXOR);
static_assert(static_cast<int>(activation_policy::full) == LSCHED_FULL &&
              static_cast<int>(activation_policy::majority) == LSCHED_MAJORITY);

result<dtype> read_dtype(lsched_dtype type) {
  if (type < LSCHED_I8 || type > LSCHED_F64) return failure{status::argument, "dtype is not an lsched_dtype"};
  return static_cast<dtype>(type);
}

result<kernel> read_reduction(lsched_reduction what) {
  if (what < LSCHED_SUM || what > LSCHED_BXOR) return failure{status::argument, "reduction is not an lsched_reduction"};
  return static_cast<kernel>(what);
}

}  // namespace

result<shape> read_shape(std::uint64_t count, lsched_dtype type, lsched_reduction what) {
  const auto element = read_dtype(type);
  if (!element) return element.error();
  const auto combine = read_reduction(what);
  if (!combine) return combine.error();
  if (!supports(*combine, *element))
    return failure{status::argument,
                   std::string(name_of(*combine)) + " does not exist for " + std::string(name_of(*element))};
  if (count > k_max_count) return failure{status::argument, "count is above 2^48-1"};
  return shape{count, *element, *combine, false};
}

result<shape> read_shape(std::uint64_t count, lsched_dtype type) {
  const auto element = read_dtype(type);
  if (!element) return element.error();
  if (count > k_max_count) return failure{status::argument, "count is above 2^48-1"};
  return shape{count, *element};
}

result<activation_policy> read_activation(lsched_activation how) {
  if (how < LSCHED_FULL || how > LSCHED_MAJORITY)
    return failure{status::argument, "activation is not an lsched_activation"};
  return static_cast<activation_policy>(how);
}

}  // namespace lsched
