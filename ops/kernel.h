// The kernel table: what a compute op may ask for, one row a kernel; and the arithmetic of the host.
//
// All that other code knows of a kernel is in its row. A new kernel is an enumerator, a row, and a kernel_fn that
// find() answers.
//
// Kernels know elements, never ranks. `reduce` is elementwise: c[i] = a[i] (op) b[i] for i < count.
// a, b and c are either identical or disjoint (c == a and c == b are both allowed), need no alignment
// beyond that of their element, and may be null only when count is 0. All kernels are pure functions of
// their operands: the same bits in give the same bits out, at every SIMD level, on every rank, in the
// default floating-point environment (round to nearest, subnormals kept). To keep that promise, where
// IEEE 754 leaves a choice there is one here:
//
//   - Integer sum and prod wrap around. land, lor and lxor take any non-zero for true and answer 0 or 1.
//   - f16 and bf16 are widened to f32, combined, and rounded once to nearest even; overflow is infinity.
//   - A floating result that is NaN is always the positive quiet NaN without payload (f32: 0x7FC00000),
//     whatever NaNs came in.
//   - min and max are IEEE 754-2019 minimum and maximum: NaN if either operand is NaN, and -0 < +0.
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
  dot_norms,  ///< of a and b: the three sums that Adasum is made of (adasum.h)
  adasum,     ///< of a, b and those sums of the vectors that a and b are parts of (adasum.h)
  divide,     ///< a divided by a number of ranks: sums become means
  measure,    ///< how many items the lists of a hold
  lay_out,    ///< the lists of c are made to hold a items each, whose values are none yet
  split,      ///< a function of the instance's: the elements of c are the parts that it takes a apart into
  fold,       ///< likewise: c is what it makes of all of a, like parts from several sources, in their order
  join,       ///< likewise: c is what the elements of a are the parts of
  derive      ///< likewise: c are numbers that follow from a
};

inline constexpr std::array<kernel, 10> k_all_reductions{kernel::sum,  kernel::prod, kernel::min,  kernel::max,
                                                         kernel::land, kernel::lor,  kernel::lxor, kernel::band,
                                                         kernel::bor,  kernel::bxor};

// --- the table -----------------------------------------------------------------------------------------------

/// Whether a compute has an operand.
enum class operand_need : std::uint8_t { never, always, optional };

/// What an operand holds: elements of the op's type, as many as the op's count says; the sums of an adaptive sum,
/// k_dot_sums of f64; or the lengths of lists, u64, one for each list.
enum class operand_type : std::uint8_t { elements, sums, lengths };

struct operand_rule {
  operand_need need = operand_need::never;
  operand_type type = operand_type::elements;
  bool steers = false;  ///< it decides what becomes of the others: the text form has it behind "by"

  constexpr bool is_needed() const { return need == operand_need::always; }
  constexpr dtype type_in(dtype elements) const {
    return type == operand_type::sums ? dtype::f64 : type == operand_type::lengths ? dtype::u64 : elements;
  }
};

enum class parameter_type : std::uint8_t { integer, real };

/// A number that a compute has beside its operands. Integers are u64, real numbers are finite f64.
struct parameter_rule {
  std::string_view name{};  ///< empty: there is none
  parameter_type type = parameter_type::integer;
  std::uint64_t least = 0;  ///< of an integer
  constexpr bool exists() const { return !name.empty(); }
};

/// A parameter's value. Which of both it is the kernel's row says.
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

/// All of one compute, in the order of its row.
using parameter_values = std::array<parameter, 2>;

/// What the result is where an operand is null, as contributions of absent ranks are.
enum class null_rule : std::uint8_t {
  either,   ///< the result is the operand that is not null; null if both are
  keep,     ///< the result is null
  present,  ///< the kernel is called with null pointers for null operands, and the result is never null
  partly,   ///< likewise, but the result is null if all operands are
};

/// What verify takes the result for. (libsched/verify)
enum class symbolic_rule : std::uint8_t {
  nothing,   ///< of no kernel
  copy,      ///< the contributions in a
  joined,    ///< those in a and b, combined
  weighted,  ///< those in a and b, combined by what s says: the sums of products of the vectors that these are parts of
  quotient,  ///< those in a, changed as the parameters say
  sums,      ///< sums of products of a and b: no contribution
  lengths,   ///< the lengths of the lists in a: no contribution
  layout,    ///< nothing yet, but only lists of the lengths in a may be put there
  part,      ///< of a function: the elements of c are the parts of all of a, or of one element
  fold,      ///< of a function: the same element of all the nodes in a, combined in order
  whole,     ///< of a function: what all elements of a are the parts of
  opaque,    ///< of a function: numbers that follow from a, and no contribution
};

enum class trait : std::uint8_t {
  reduction,    ///< elementwise and associative, of two operands: what collectives reduce by
  merges,       ///< offers that missed their round are combined by it with later ones
  function,     ///< the instance brings a function (functions.h), which takes whole buffers of any type
  elementwise,  ///< operands may be cut anywhere without changing bits: a lane may compute the parts
  on_devices,   ///< a device computes it, too, with the same bits; a function, if the instance's can leave it to one
};

/// Laws that the bits of results obey, whatever the elements are, NaNs, zeros of either sign and subnormals among them.
/// tests/ops/laws_test.cc tries them on every SIMD target.
enum class law : std::uint8_t {
  commutative,  ///< b (op) a = a (op) b
  associative,  ///< a (op) (b (op) c) = (a (op) b) (op) c
  idempotent,   ///< (a (op) b) (op) a = a (op) b
};

/// By law: the dtypes of which it holds, bit of each.
using law_table = std::array<std::uint32_t, 3>;

/// One kernel, for builder, text form, checks, verify, models of time and engine alike.
struct kernel_row {
  kernel what = kernel::none;
  std::string_view name{};
  operand_rule a{}, b{}, s{}, c{};
  std::array<parameter_rule, std::tuple_size_v<parameter_values>> parameters{};
  std::uint32_t dtypes = 0;  ///< bit of each
  null_rule null = null_rule::present;
  symbolic_rule symbol = symbolic_rule::nothing;
  std::uint8_t passes = 0;   ///< vectors that are read or written, without an optional operand: what it costs
  std::uint32_t traits = 0;  ///< bit of each
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

// Integers wrap around, a NaN is always the same one, and of two zeros a minimum always prefers the same.
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

/// The caller's arithmetic may go by units of several elements.
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

/// A number that is no kernel has the row of `none`.
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

/// What dot_norms makes and adasum takes, as f64: a.b, a.a and b.b.
inline constexpr std::uint64_t k_dot_sums = 3;

/// c[i] = a[i] (op) b[i]. `a` is the operand of the lower rank.
using reduce_fn = void (*)(const void* a, const void* b, void* c, std::size_t count);

/// The same of kernel::user. All that is said above of operands holds for it; a and b hold whole units.
using user_fn = void (*)(const void* a, const void* b, void* c, std::uint64_t count, void* context);

/// What kernel::user stands for in an instance: brought at commit, never part of a schedule.
struct user_kernel {
  user_fn run = nullptr;  ///< nullptr: there is none
  void* context = nullptr;
  std::uint64_t unit = 1;  ///< elements that belong together: counts and offsets are multiples of it; at least 1
};

/// One call of any kernel: what its row has, as addresses. Operands that it has not are nullptr; and so is a null
/// operand, with which only kernels are called whose null rule says so. All that is said above of operands holds.
struct kernel_call {
  const std::byte* a = nullptr;
  const std::byte* b = nullptr;
  const std::byte* s = nullptr;  ///< need not be aligned
  std::byte* c = nullptr;
  std::uint64_t count = 0;
  const parameter_values* with = nullptr;  ///< nullptr: it has none
  const user_kernel* user = nullptr;       ///< of kernel::user
};
using kernel_fn = void (*)(const kernel_call& call);

/// The best kernel that this machine's processor can run. nullptr where `supports` says no; and for what is not
/// arithmetic: copy, and what concerns lists or calls functions. Thread-safe, cheap, no allocation: commit looks a
/// kernel up once, the data path calls the pointer.
kernel_fn find(kernel what, dtype type);

/// A reduction that `find` calls, as a function of its operands; nullptr where `find` answers that, and for `user`.
reduce_fn find_reduce(kernel what, dtype type);

/// c[i] = a[i] / divisor, the exact quotient rounded once to nearest even in the element's type, whatever the divisor:
/// that of integers to an integer, of floating numbers to a number of theirs, subnormals included. So the mean of equal
/// numbers is that number, if their sum is exact. A divisor is at least 1; 1 changes nothing but NaNs. c is a or
/// disjoint from it. nullptr for items.
using divide_fn = void (*)(const void* a, void* c, std::size_t count, std::uint64_t divisor);
divide_fn find_divide(dtype type);

}  // namespace lsched
