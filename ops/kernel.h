// The kernel table has a row for each kernel that a compute op can request. This file also declares the host's
// functions for kernels.
//
// All other code reads the properties of a kernel from the kernel's row. A new kernel needs an enumerator, a row, and a
// kernel_fn that find() returns.
//
// The result of a kernel depends on elements, never on ranks. A reduction is elementwise: c[i] = a[i] (op) b[i] for i <
// count. Any two of the arrays a, b and c are either identical or disjoint (c == a and c == b are both allowed).
// Pointers need only the alignment of an element, and may be null only if count is 0. All kernels of the library are
// pure functions of their operands and parameters. In the default floating-point environment (round to nearest,
// subnormals kept), equal input bits give equal output bits, at every SIMD level and on every rank. These rules define
// every result, also where IEEE 754 permits several results:
//
//   - Integer `sum` and `prod` wrap around. `land`, `lor` and `lxor` treat every value except 0 as true, and return 0
//     or 1.
//   - f16 and bf16 are converted to f32, combined, and rounded once to nearest even. An overflow gives infinity.
//   - A floating-point result that is NaN is always the positive quiet NaN without payload (f32: 0x7FC00000), also if
//     the operands contain other NaNs.
//   - `min` and `max` are the operations minimum and maximum of IEEE 754-2019: the result is NaN if an operand is NaN,
//     and -0 < +0.
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <span>
#include <string_view>
#include <tuple>

#include "ops/base.h"

namespace lsched {

enum class kernel : std::uint8_t {
  none,
  copy,
  sum,
  prod,
  min,
  max,
  land,
  lor,
  lxor,
  band,
  bor,
  bxor,
  user,
  dot_norms,  ///< the three dot products of a and b that Adasum needs (adasum.h)
  adasum,     ///< Adasum of a and b; s contains the dot products of the vectors to which a and b belong (adasum.h)
  divide,     ///< operand a divided by a parameter, for example to convert a sum over ranks to a mean
  measure,    ///< the lengths of the lists in operand a, in items
  lay_out,    ///< prepares operand c for lists with the lengths in operand a; the items have no values yet
  split,      ///< calls a function of the instance (functions.h): splits operand a; the elements of c are the parts
  fold,       ///< calls a function of the instance: combines the elements of operand a (the same part from each source)
  join,       ///< calls a function of the instance: joins the elements of operand a, which are all parts of one whole
  derive      ///< calls a function of the instance: computes numbers from operand a
};

inline constexpr std::array<kernel, 10> k_all_reductions{kernel::sum,  kernel::prod, kernel::min,  kernel::max,
                                                         kernel::land, kernel::lor,  kernel::lxor, kernel::band,
                                                         kernel::bor,  kernel::bxor};

// --- the table -----------------------------------------------------------------------------------------------

/// Presence of an operand.
enum class operand_need : std::uint8_t { never, always, optional };

/// Content of an operand. `elements`: op.count elements of the op's type. `sums`: the k_dot_sums dot products that an
/// adaptive sum needs, as f64. `lengths`: the lengths of lists, as u64.
enum class operand_type : std::uint8_t { elements, sums, lengths };

struct operand_rule {
  operand_need need = operand_need::never;
  operand_type type = operand_type::elements;
  bool steers = false;  ///< controls how the other operands are combined; written after "by" in the text form

  constexpr bool is_needed() const { return need == operand_need::always; }
  constexpr dtype type_in(dtype elements) const {
    return type == operand_type::sums ? dtype::f64 : type == operand_type::lengths ? dtype::u64 : elements;
  }
};

enum class parameter_type : std::uint8_t { integer, real };

/// A number that a compute uses in addition to the operands. Integers are u64, real numbers are finite f64.
struct parameter_rule {
  std::string_view name{};  ///< empty: no parameter
  parameter_type type = parameter_type::integer;
  std::uint64_t least = 0;  ///< minimum valid value of an integer
  constexpr bool exists() const { return !name.empty(); }
};

/// Value of a parameter. The kernel's row defines whether the value is an integer or a real number.
class parameter {
 public:
  constexpr parameter() = default;
  constexpr parameter(std::unsigned_integral auto value) : bits_(value) {}
  constexpr parameter(std::signed_integral auto value) : bits_(static_cast<std::uint64_t>(value)) {}
  constexpr parameter(std::floating_point auto value) : bits_(std::bit_cast<std::uint64_t>(double{value})) {}

  constexpr std::uint64_t integer() const { return bits_; }
  constexpr double real() const { return std::bit_cast<double>(bits_); }
  constexpr std::uint64_t bits() const { return bits_; }
  friend constexpr bool operator==(parameter, parameter) = default;

 private:
  std::uint64_t bits_ = 0;
};

/// Values of all parameters of a compute, in the order of the kernel's row.
using parameter_values = std::array<parameter, 2>;

/// Defines the result of a kernel if an operand is null. An operand is null if all ranks that should have contributed
/// to this operand were absent from the round.
enum class null_rule : std::uint8_t {
  either,   ///< the result is the operand that is not null; if both operands are null, the result is null
  keep,     ///< the result is null
  present,  ///< the kernel is called with null pointers for null operands, and the result is never null
  partly,   ///< as `present`, but the result is null if all operands are null
};

/// Symbolic value that the verifier computes for the result (libsched/verify). a, b and s are operands.
enum class symbolic_rule : std::uint8_t {
  nothing,   ///< only for `none`
  copy,      ///< the contributions in a
  joined,    ///< the contributions in a and b, combined
  weighted,  ///< the contributions in a and b, combined by the dot products in s
  quotient,  ///< the contributions in a, divided by the parameter
  sums,      ///< no contributions, but dot products of a and b
  lengths,   ///< no contributions, but the lengths of the lists in a
  layout,    ///< no content; later ops may write only lists with the lengths in a to the result
  part,      ///< function: the parts of a node (an expression, libsched/verify), or the parts of one element of a node
  fold,      ///< function: the elements of operand a, combined in order; they are the same part of different nodes
  whole,     ///< function: the whole node; operand a contains all its parts
  opaque,    ///< function: no contributions, but numbers that are computed from operand a
};

enum class trait : std::uint8_t {
  reduction,    ///< elementwise and associative, with two operands, so that collectives can use it in reductions
  merges,       ///< can add a contribution that missed its round to the rank's next contribution
  function,     ///< calls a function of the instance (functions.h); the operands are whole buffers of any type
  elementwise,  ///< the result's bits do not depend on a division into parts, so several threads may compute the parts
  on_devices,   ///< GPUs have the kernel, too, and compute the same bits; for functions, see functions::use_devices()
};

/// Algebraic laws that hold bit for bit for all elements, including NaNs, zeros of either sign and subnormals.
/// tests/ops/laws_test.cc checks these laws on every SIMD target.
enum class law : std::uint8_t {
  commutative,
  associative,  ///< a (op) (b (op) c) = (a (op) b) (op) c
  idempotent,   ///< (a (op) b) (op) a = a (op) b
};

/// For each law, a bit mask of the dtypes for which the law holds.
using law_table = std::array<std::uint32_t, 3>;

/// Properties of a kernel. The builder, the text form, the checks, the verifier, the time models and the engine read
/// these properties.
struct kernel_row {
  kernel what = kernel::none;
  std::string_view name{};
  operand_rule a{}, b{}, s{}, c{};
  std::array<parameter_rule, std::tuple_size_v<parameter_values>> parameters{};
  std::uint32_t dtypes = 0;  ///< bit mask of the supported dtypes
  null_rule null = null_rule::present;
  symbolic_rule symbol = symbolic_rule::nothing;
  std::uint8_t passes = 0;   ///< cost: number of vectors that the kernel reads or writes, without optional operands
  std::uint32_t traits = 0;  ///< bit mask
  law_table laws{};

  constexpr bool has_parameters() const { return parameters.front().exists(); }
  constexpr bool is(trait which) const { return (traits >> static_cast<unsigned>(which) & 1) != 0; }
  constexpr bool obeys(law which, dtype type) const {
    return (laws[static_cast<std::size_t>(which)] >> static_cast<unsigned>(type) & 1) != 0;
  }
  constexpr bool supports(dtype type) const { return (dtypes >> static_cast<unsigned>(type) & 1) != 0; }
};

namespace kernel_table {

template <class Words>
constexpr std::uint32_t bits_of(const Words& all) {
  std::uint32_t bits = 0;
  for (const auto it : all) bits |= 1u << static_cast<unsigned>(it);
  return bits;
}

inline constexpr std::uint32_t k_numbers = bits_of(k_all_dtypes);
inline constexpr std::uint32_t k_any = k_numbers | bits_of(k_all_items);
inline constexpr std::uint32_t k_floats = bits_of(std::array{dtype::f16, dtype::bf16, dtype::f32, dtype::f64});
inline constexpr operand_rule k_elements{operand_need::always};
inline constexpr operand_rule k_lengths{operand_need::always, operand_type::lengths};
inline constexpr operand_rule k_sums{operand_need::always, operand_type::sums};
inline constexpr operand_rule k_by_sums{operand_need::always, operand_type::sums, true};
inline constexpr operand_rule k_by_buffer{operand_need::optional, operand_type::elements, true};

// The laws in the following tables hold because integers wrap around, every computed NaN has the same bits, and `min`
// and `max` order zeros by their sign.
inline constexpr law_table k_no_law{};
inline constexpr law_table k_arithmetic{k_numbers, k_numbers & ~k_floats};
inline constexpr law_table k_parity{k_numbers, k_numbers};
inline constexpr law_table k_lattice{k_numbers, k_numbers, k_numbers};

constexpr kernel_row reduction(kernel what, std::string_view name, std::uint32_t dtypes, const law_table& laws) {
  return {.what = what,
          .name = name,
          .a = k_elements,
          .b = k_elements,
          .c = k_elements,
          .dtypes = dtypes,
          .null = null_rule::either,
          .symbol = symbolic_rule::joined,
          .passes = 3,
          .traits = bits_of(std::array{trait::reduction, trait::merges, trait::elementwise, trait::on_devices}),
          .laws = laws};
}

/// Returns the row of `user`. The kernel is not elementwise, because the caller's reduction can work on units of
/// several elements.
constexpr kernel_row user_reduction() {
  kernel_row row = reduction(kernel::user, "user", k_numbers, k_no_law);
  row.traits &= ~bits_of(std::array{trait::elementwise, trait::on_devices});
  return row;
}

constexpr kernel_row function(kernel what, std::string_view name, symbolic_rule symbol) {
  return {.what = what,
          .name = name,
          .a = k_elements,
          .b = k_by_buffer,
          .c = k_elements,
          .parameters = {{{"function"}}},
          .dtypes = k_any,
          .symbol = symbol,
          .passes = 2,
          .traits = bits_of(std::array{trait::function, trait::on_devices})};
}

inline constexpr std::array k_rows{
    kernel_row{.what = kernel::none, .name = "none"},
    kernel_row{.what = kernel::copy,
               .name = "copy",
               .a = k_elements,
               .c = k_elements,
               .dtypes = k_any,
               .null = null_rule::either,
               .symbol = symbolic_rule::copy,
               .passes = 2,
               .traits = bits_of(std::array{trait::on_devices})},
    reduction(kernel::sum, "sum", k_numbers, k_arithmetic),
    reduction(kernel::prod, "prod", k_numbers, k_arithmetic),
    reduction(kernel::min, "min", k_numbers, k_lattice),
    reduction(kernel::max, "max", k_numbers, k_lattice),
    reduction(kernel::land, "land", k_numbers & ~k_floats, k_lattice),
    reduction(kernel::lor, "lor", k_numbers & ~k_floats, k_lattice),
    reduction(kernel::lxor, "lxor", k_numbers & ~k_floats, k_parity),
    reduction(kernel::band, "band", k_numbers & ~k_floats, k_lattice),
    reduction(kernel::bor, "bor", k_numbers & ~k_floats, k_lattice),
    reduction(kernel::bxor, "bxor", k_numbers & ~k_floats, k_parity),
    user_reduction(),
    kernel_row{.what = kernel::dot_norms,
               .name = "dot_norms",
               .a = k_elements,
               .b = k_elements,
               .c = k_sums,
               .dtypes = k_floats,
               .null = null_rule::present,
               .symbol = symbolic_rule::sums,
               .passes = 2,
               .traits = bits_of(std::array{trait::on_devices})},
    kernel_row{.what = kernel::adasum,
               .name = "adasum",
               .a = k_elements,
               .b = k_elements,
               .s = k_by_sums,
               .c = k_elements,
               .dtypes = k_floats,
               .null = null_rule::either,
               .symbol = symbolic_rule::weighted,
               .passes = 3,
               .traits = bits_of(std::array{trait::merges, trait::elementwise, trait::on_devices})},
    kernel_row{.what = kernel::divide,
               .name = "divide",
               .a = k_elements,
               .c = k_elements,
               .parameters = {{{.name = "divisor", .least = 2}}},
               .dtypes = k_numbers,
               .null = null_rule::keep,
               .symbol = symbolic_rule::quotient,
               .passes = 2,
               .traits = bits_of(std::array{trait::elementwise, trait::on_devices})},
    kernel_row{.what = kernel::measure,
               .name = "measure",
               .a = k_elements,
               .c = k_lengths,
               .dtypes = k_any,
               .symbol = symbolic_rule::lengths,
               .passes = 2},
    kernel_row{.what = kernel::lay_out,
               .name = "lay_out",
               .a = k_lengths,
               .c = k_elements,
               .dtypes = k_any,
               .symbol = symbolic_rule::layout,
               .passes = 2},
    function(kernel::split, "split", symbolic_rule::part),
    function(kernel::fold, "fold", symbolic_rule::fold),
    function(kernel::join, "join", symbolic_rule::whole),
    function(kernel::derive, "derive", symbolic_rule::opaque),
};

constexpr bool is_in_order() {
  for (std::size_t i = 0; i < k_rows.size(); ++i)
    if (static_cast<std::size_t>(k_rows[i].what) != i) return false;
  return true;
}
static_assert(is_in_order());

}  // namespace kernel_table

/// All kernels, in the order of the enumeration; the first is `none`.
inline constexpr std::span<const kernel_row> k_kernel_rows{kernel_table::k_rows};

/// Returns the row of a kernel. Returns the row of `none` if `what` is not an enumerator.
constexpr const kernel_row& row_of(kernel what) {
  const auto index = static_cast<std::size_t>(what);
  return k_kernel_rows[index < k_kernel_rows.size() ? index : 0];
}

constexpr std::string_view name_of(kernel what) {
  return static_cast<std::size_t>(what) < k_kernel_rows.size() ? row_of(what).name : "unknown";
}

constexpr bool supports(kernel what, dtype type) { return row_of(what).supports(type); }
constexpr bool is_reduction(kernel what) { return row_of(what).is(trait::reduction); }
constexpr bool is_function(kernel what) { return row_of(what).is(trait::function); }

// --- host kernels --------------------------------------------------------------------------------------------

/// Number of dot products that dot_norms computes and adasum reads: a.b, a.a and b.b, as f64.
inline constexpr std::uint64_t k_dot_sums = 3;

/// Computes c[i] = a[i] (op) b[i]. `a` is the operand of the lower ranks.
using reduce_fn = void (*)(const void* a, const void* b, void* c, std::size_t count);

/// A reduction of the application, for kernel::user. The rules for operands at the top of this file apply. `count` is a
/// multiple of the unit (user_kernel::unit).
using user_fn = void (*)(const void* a, const void* b, void* c, std::uint64_t count, void* context);

/// The reduction that an instance runs for kernel::user. The caller passes this structure when the instance is created.
/// A schedule does not contain the function.
struct user_kernel {
  user_fn run = nullptr;  ///< nullptr: no reduction
  void* context = nullptr;
  std::uint64_t unit = 1;  ///< elements of a unit, at least 1; counts and offsets are multiples of the unit
};

/// Arguments of a call of any kernel. Absent and null operands are nullptr. Only kernels with the rule
/// null_rule::present or null_rule::partly receive null operands. The rules for operands at the top of this file apply.
struct kernel_call {
  const std::byte* a = nullptr;
  const std::byte* b = nullptr;
  const std::byte* s = nullptr;  ///< need not be aligned
  std::byte* c = nullptr;
  std::uint64_t count = 0;
  const parameter_values* with = nullptr;  ///< nullptr: no parameters
  const user_kernel* user = nullptr;       ///< for kernel::user
};
using kernel_fn = void (*)(const kernel_call& call);

/// Returns the fastest implementation of kernel `what` for `type` that this CPU supports. Returns nullptr if `supports`
/// returns false. Also returns nullptr for `copy`, `measure` and `lay_out`, and for kernels that are functions of the
/// instance. Thread-safe. Does not allocate. The engine calls find() once for each op when an instance is created, and
/// then calls the returned pointer in every round.
kernel_fn find(kernel what, dtype type);

/// Returns a reduction as a function of its operands. Returns nullptr if find() returns nullptr, if the kernel is not a
/// reduction, and for `user`.
reduce_fn find_reduce(kernel what, dtype type);

/// Computes c[i] = a[i] / divisor. The exact quotient is rounded once, to nearest even in the element's type. This also
/// holds for subnormal results. The divisor must be at least 1. Division by 1 changes only NaNs. c must be identical
/// with a, or disjoint from a. find_divide() returns nullptr if the type is an item of a sparse list.
using divide_fn = void (*)(const void* a, void* c, std::size_t count, std::uint64_t divisor);
divide_fn find_divide(dtype type);

/// Computes c[i] = factor * a[i]. Integers wrap around. For floating types, the factor is rounded to f64. The product
/// is rounded to f64, and then to nearest even in the element's type. So the product is rounded only once for factors
/// up to 2^53 if the type is f64, and for factors up to 2^29 if the type is shorter. c must be disjoint from a.
/// find_multiply() returns nullptr if the type is an item of a sparse list.
using multiply_fn = void (*)(const void* a, void* c, std::size_t count, std::uint64_t factor);
multiply_fn find_multiply(dtype type);

}  // namespace lsched
