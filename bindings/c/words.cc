#include "bindings/c/words.h"

#include <algorithm>
#include <span>
#include <string>

#include "ops/counted.h"

namespace lsched {
namespace {

static_assert(static_cast<int>(kernel::sum) == LSCHED_SUM && static_cast<int>(kernel::bxor) == LSCHED_BXOR &&
              static_cast<int>(kernel::user) > LSCHED_BXOR);

/// The dtypes in the order of their numbers in the C interface, from LSCHED_I8 on.
constexpr auto& k_dtypes = k_all_dtypes;
static_assert(k_dtypes.front() == dtype::i8 && LSCHED_I8 == 1 && k_dtypes.back() == dtype::f64 &&
              LSCHED_F64 == k_dtypes.size());

}  // namespace

std::optional<failure> first_broken(std::initializer_list<rule> rules, std::string_view subject) {
  for (const rule& one : rules)
    if (one.is_broken) return argument(std::string(subject) + std::string(one.text));
  return std::nullopt;
}

// --- shapes ------------------------------------------------------------------------------------------------

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

result<shape> read_shape(std::uint64_t count, lsched_dtype type) {
  const auto element = read_dtype(type);
  if (!element) return element.error();
  if (count > k_max_count) return argument("count is above 2^48-1");
  return shape{count, *element};
}

result<shape> read_shape(std::uint64_t count, lsched_dtype type, lsched_reduction reduction) {
  auto data = read_shape(count, type);
  if (!data) return data;
  const auto combine = read_reduction(reduction);
  if (!combine) return combine.error();
  if (!supports(*combine, data->type))
    return argument(std::string(name_of(*combine)) + " does not exist for " + std::string(name_of(data->type)));
  data->what = *combine;
  return data;
}

result<user_kernel> read_user_op(const lsched_user_op& user_op) {
  if (const auto element = read_dtype(user_op.dtype); !element) return element.error();
  if (auto why =
          first_broken({{user_op.combine == nullptr, "user_op has no function"},
                        {user_op.unit < 1 || user_op.unit > k_max_count, "user_op's unit is not from 1 to 2^48-1"},
                        {user_op.is_commutative != 0 && user_op.is_commutative != 1,
                         "user_op's is_commutative is neither 0 nor 1"}}))
    return *why;
  return user_kernel{user_op.combine, user_op.context, user_op.unit};
}

result<shape> read_shape(std::uint64_t count, lsched_dtype type, const lsched_user_op& user_op) {
  const auto user = read_user_op(user_op);
  if (!user) return user.error();
  auto data = read_shape(count, type);
  if (!data) return data;
  if (type != user_op.dtype) return argument("dtype is not that of user_op");
  data->what = kernel::user;
  data->unit = user->unit;
  data->commutes = user_op.is_commutative != 0;
  return data;
}

result<shape> read_shape(const collective& kind, std::uint64_t count, lsched_dtype type, lsched_reduction reduction) {
  const bool is_zero = static_cast<int>(reduction) == 0;
  if (!kind.reduces && !is_zero)
    return argument(std::string(kind.name) + " does not use a reduction: leave reduction 0");
  if (kind.reduces && !(kind.adapts && is_zero)) return read_shape(count, type, reduction);
  auto data = read_shape(count, type);
  if (data && kind.reduces) data->what = kernel::adasum;
  return data;
}

result<activation> read_activation(const char* words, std::uint64_t seed) {
  if (words == nullptr) return argument("activation is null");
  auto starts = read_activation(std::string_view(words));
  if (starts) starts->seed = seed;
  return starts;
}

// --- agreement texts -------------------------------------------------------------------------------------------

namespace {

constexpr std::string_view k_segment = " segment ";

/// Returns a hash of a list, for agreement texts, which must be short.
std::string digest_of(std::span<const std::uint64_t> numbers) {
  std::uint64_t hash = 0;
  for (const std::uint64_t number : numbers) hash = (hash ^ number) * 0x9e3779b97f4a7c15u;
  return " (" + std::to_string(hash) + ")";
}

std::string text_of_counts(std::span<const std::uint64_t> counts) {
  std::uint64_t sum = 0;
  for (const std::uint64_t count : counts) sum += count;
  return " counts of " + std::to_string(sum) + " in all" + digest_of(counts);
}

std::string text_of_tensors(std::span<const tensor> tensors) {
  std::vector<std::uint64_t> cuts;
  for (const tensor& one : tensors) cuts.insert(cuts.end(), {one.begin, one.count});
  return " in " + counted(tensors.size(), "tensor") + digest_of(cuts);
}

}  // namespace

std::string agreement_of(const collective& kind, const shape& data, std::string_view algorithm,
                         std::string_view elements) {
  std::string text = std::string(kind.name) + " " + std::string(algorithm);
  if (data.radix != 0) text += " radix " + std::to_string(data.radix);
  if (!kind.moves_data) return text;
  if (kind.reduces) text += " " + std::string(name_of(data.what));
  if (data.is_mean) text += " divided by ranks";
  if (data.what == kernel::user)
    text += std::string(data.commutes ? " commutative" : " ordered") + " unit " + std::to_string(data.unit);
  if (!elements.empty()) text += " " + std::string(elements) + " as";
  text += " " + std::string(name_of(data.type));
  if (data.room != 0) text += " capacity " + std::to_string(data.room);
  if (!kind.has_blocks && !kind.has_counts && data.room == 0) text += " count " + std::to_string(data.count);
  if (kind.has_counts) text += text_of_counts(data.counts);
  if (!data.tensors.empty()) text += text_of_tensors(data.tensors);
  if (kind.is_rooted) text += " root " + std::to_string(data.root);
  if (data.segment != 0) text += std::string(k_segment) + std::to_string(data.segment);
  return text;
}

failure with_advice(failure why) {
  const std::size_t first = why.code == status::mismatch ? why.text.find(k_segment) : std::string::npos;
  if (first != std::string::npos && why.text.find(k_segment, first + 1) == std::string::npos)
    why.text += ": set segment_bytes on all ranks (vectors in device memory have other segments by default)";
  return why;
}

}  // namespace lsched
