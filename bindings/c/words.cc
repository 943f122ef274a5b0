#include "bindings/c/words.h"

#include <algorithm>
#include <string>

namespace lsched {
namespace {

static_assert(static_cast<int>(kernel::sum) == LSCHED_SUM && static_cast<int>(kernel::bxor) == LSCHED_BXOR &&
              static_cast<int>(kernel::user) > LSCHED_BXOR);

/// By number of the C interface, from LSCHED_I8 on.
constexpr auto& k_dtypes = k_all_dtypes;
static_assert(k_dtypes.front() == dtype::i8 && LSCHED_I8 == 1 && k_dtypes.back() == dtype::f64 &&
              LSCHED_F64 == k_dtypes.size());

}  // namespace

result<dtype> read_dtype(lsched_dtype type) {
  if (type == LSCHED_DTYPE_NONE) return failure{status::argument, "dtype is not set (LSCHED_DTYPE_NONE)"};
  if (type < LSCHED_I8 || type > LSCHED_F64) return failure{status::argument, "dtype is not an lsched_dtype"};
  return k_dtypes[static_cast<std::size_t>(type) - LSCHED_I8];
}

lsched_dtype number_of(dtype type) {
  return static_cast<lsched_dtype>(std::ranges::find(k_dtypes, type) - k_dtypes.begin() + LSCHED_I8);
}

result<kernel> read_reduction(lsched_reduction what) {
  if (what < LSCHED_SUM || what > LSCHED_BXOR) return failure{status::argument, "reduction is not an lsched_reduction"};
  return static_cast<kernel>(what);
}

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

result<user_kernel> read_user_op(const lsched_user_op& what) {
  if (what.combine == nullptr) return failure{status::argument, "user_op has no function"};
  if (const auto element = read_dtype(what.dtype); !element) return element.error();
  if (what.unit < 1 || what.unit > k_max_count)
    return failure{status::argument, "user_op's unit is not from 1 to 2^48-1"};
  if (what.is_commutative != 0 && what.is_commutative != 1)
    return failure{status::argument, "user_op's is_commutative is neither 0 nor 1"};
  return user_kernel{what.combine, what.context, what.unit};
}

result<shape> read_shape(std::uint64_t count, lsched_dtype type, const lsched_user_op& what) {
  const auto user = read_user_op(what);
  if (!user) return user.error();
  auto data = read_shape(count, type);
  if (!data) return data;
  if (type != what.dtype) return failure{status::argument, "dtype is not that of user_op"};
  data->what = kernel::user;
  data->unit = user->unit;
  data->commutes = what.is_commutative != 0;
  return data;
}

result<activation> read_activation(const char* words, std::uint64_t seed) {
  if (words == nullptr) return failure{status::argument, "activation is null"};
  auto starts = read_activation(std::string_view(words));
  if (starts) starts->seed = seed;
  return starts;
}

}  // namespace lsched
