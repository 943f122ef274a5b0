#include "bindings/c/words.h"

#include <algorithm>

namespace lsched {
namespace {

static_assert(static_cast<int>(kernel::sum) == LSCHED_SUM && static_cast<int>(kernel::bxor) == LSCHED_BXOR &&
              static_cast<int>(kernel::user) > LSCHED_BXOR);

/// The dtypes in the order of their numbers in the C interface, from LSCHED_I8 on.
constexpr auto& k_dtypes = k_all_dtypes;
static_assert(k_dtypes.front() == dtype::i8 && LSCHED_I8 == 1 && k_dtypes.back() == dtype::f64 &&
              LSCHED_F64 == k_dtypes.size());

static_assert(k_any_count == LSCHED_ANY_COUNT);

}  // namespace

result<dtype> read_dtype(lsched_dtype type) {
  if (type == LSCHED_DTYPE_NONE) return argument("dtype is not set (LSCHED_DTYPE_NONE)");
  if (!is_within(type, LSCHED_I8, LSCHED_F64)) return argument("dtype is not an lsched_dtype");
  return k_dtypes[static_cast<std::size_t>(type) - LSCHED_I8];
}

lsched_dtype number_of(dtype type) {
  return static_cast<lsched_dtype>(std::ranges::find(k_dtypes, type) - k_dtypes.begin() + LSCHED_I8);
}

result<kernel> read_reduction(lsched_reduction reduction) {
  if (!is_within(reduction, LSCHED_SUM, LSCHED_BXOR)) return argument("reduction is not an lsched_reduction");
  return static_cast<kernel>(reduction);
}

lsched_reduction number_of(kernel what) {
  const auto number = static_cast<lsched_reduction>(what);
  return is_within(number, LSCHED_SUM, LSCHED_BXOR) ? number : lsched_reduction{};
}

result<kernel> read_optional_reduction(lsched_reduction reduction) {
  return static_cast<int>(reduction) == 0 ? kernel::none : read_reduction(reduction);
}

result<user_operation> read_user_op(const lsched_user_op& user_op) {
  const auto element = read_dtype(user_op.dtype);
  if (!element) return element.error();
  if (auto why =
          first_broken({{user_op.combine == nullptr, "user_op has no function: set user_op.combine"},
                        {user_op.unit < 1 || user_op.unit > k_max_count, "user_op's unit is not from 1 to 2^48-1"},
                        {user_op.is_commutative != 0 && user_op.is_commutative != 1,
                         "user_op's is_commutative is neither 0 nor 1"}}))
    return *why;
  return user_operation{*element, {user_op.combine, user_op.context, user_op.unit}, user_op.is_commutative != 0};
}

result<std::vector<tensor>> read_tensors(const lsched_tensor* tensors, std::uint64_t number) {
  if ((tensors == nullptr) != (number == 0))
    return argument("only one of tensors and tensor_count is set: set both, or none");
  std::vector<tensor> all;
  for (std::uint64_t i = 0; i < number; ++i) all.push_back({tensors[i].begin, tensors[i].count});
  return all;
}

result<std::vector<std::uint64_t>> read_buckets(const std::uint64_t* buckets, std::uint64_t number) {
  if ((buckets == nullptr) != (number == 0))
    return argument("only one of buckets and bucket_count is set: set both, or none");
  return std::vector<std::uint64_t>(buckets, buckets + number);
}

result<activation> read_activation(const char* words, std::uint64_t seed) {
  if (words == nullptr) return argument("activation is null");
  auto starts = read_activation(std::string_view(words));
  if (starts) starts->seed = seed;
  return starts;
}

result<sparse_request> read_sparse(world place, const lsched_sparse_desc& desc) {
  const auto type = read_dtype(desc.dtype);
  if (!type) return type.error();
  if (auto why =
          first_broken({{!is_within(desc.capacity, LSCHED_STRICT, LSCHED_DEFER),
                         "capacity is not an lsched_capacity: use LSCHED_STRICT or LSCHED_DEFER"},
                        {!is_within(desc.boundaries, LSCHED_POOLED, LSCHED_AVERAGED),
                         "boundaries is not an lsched_boundaries: use LSCHED_POOLED or LSCHED_AVERAGED"},
                        {!is_within(desc.balance, LSCHED_BALANCE_BY_COST, LSCHED_BALANCE_NEVER),
                         "balance is not an lsched_balance: use LSCHED_BALANCE_BY_COST, _PUBLISHED, _ALWAYS or _NEVER"},
                        {!is_within(desc.selection, LSCHED_EXACT, LSCHED_REUSED),
                         "selection is not an lsched_selection: use LSCHED_EXACT or LSCHED_REUSED"},
                        {!is_within(desc.nans, LSCHED_NAN_PROPAGATE, LSCHED_NAN_ERROR),
                         "nans is not an lsched_nan_policy: use LSCHED_NAN_PROPAGATE, _IGNORE or _ERROR"}}))
    return *why;
  sparse_request request{.problem = {.count = desc.count,
                                     .k = desc.k,
                                     .place = place,
                                     .type = *type,
                                     .capacity = static_cast<capacity_policy>(desc.capacity),
                                     .boundaries = static_cast<boundary_rule>(desc.boundaries),
                                     .period = desc.period,
                                     .scale = desc.scale,
                                     .nans = static_cast<nan_policy>(desc.nans),
                                     .balance = static_cast<balance_rule>(desc.balance),
                                     .selection = static_cast<selection_rule>(desc.selection),
                                     .reuse = desc.reuse,
                                     .bucket = desc.bucket},
                         .algorithm = view_of(desc.algorithm),
                         .gradient = static_cast<const std::byte*>(desc.gradient),
                         .update = static_cast<const std::byte*>(desc.update)};
  if (desc.image != nullptr) request.image.emplace(static_cast<const std::byte*>(desc.image), desc.image_bytes);
  if (desc.image == nullptr && desc.image_bytes > 0) request.image.emplace();
  return request;
}

}  // namespace lsched
