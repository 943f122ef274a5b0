#include "bindings/c/words.h"

#include <algorithm>
#include <bit>
#include <string>

#include "collectives/selection.h"

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

namespace {

failure argument(std::string text) { return {status::argument, std::move(text)}; }

/// What all algorithms of the collective are asked for.
result<shape> read_data(const collective& of, const collective_words& words) {
  if (!of.moves_data) return shape{.count = words.count};
  if (!of.reduces && static_cast<int>(words.reduction) != 0)
    return argument(std::string(of.name) + " combines nothing by a reduction: leave it 0");
  const bool merges_by_adasum = of.adapts && static_cast<int>(words.reduction) == 0;
  auto data = of.reduces && !merges_by_adasum ? read_shape(words.count, words.dtype, words.reduction)
                                              : read_shape(words.count, words.dtype);
  if (!data) return data;
  if (of.reduces && merges_by_adasum) data->what = kernel::adasum;
  data->root = words.root;
  data->in_place = words.in_place;
  return data;
}

}  // namespace

std::optional<failure> validate_ranks(rank ranks, rank most) {
  if (ranks >= 1 && ranks <= most) return std::nullopt;
  return argument("ranks is not from 1 to 2^" + std::to_string(std::countr_zero(static_cast<unsigned>(most))));
}

result<named_collective> read_collective(const collective_words& words, rank most_ranks) {
  if (words.collective == nullptr) return argument("collective is null");
  if (auto why = validate_ranks(words.ranks, most_ranks)) return std::move(*why);
  const collective* const any = find_collective(words.collective);
  const auto data = any == nullptr ? result<shape>(shape{}) : read_data(*any, words);
  if (!data) return data.error();
  if (words.root < 0 || words.root >= words.ranks || (words.root != 0 && any != nullptr && !any->is_rooted))
    return argument("root is not a rank of this collective's");
  activation starts{.seed = 1};
  if (any != nullptr && (any->activates || words.activation != nullptr)) {
    const auto wanted = read_activation(words.activation, starts.seed);
    if (!wanted) return wanted.error();
    starts = *wanted;
  }
  const auto how =
      choose(words.collective, words.algorithm == nullptr ? "auto" : words.algorithm, {0, words.ranks}, *data, starts);
  if (!how) return how.error();
  return named_collective{*how, *data, starts};
}

}  // namespace lsched
