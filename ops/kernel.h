// The arithmetic a compute op may ask for, and how to call it.
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

#include <string_view>

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
  dot_norms,  ///< of a and b: the three sums that Adasum is made of (ops/linear.h)
  adasum,     ///< of a, b and those sums of the vectors that a and b are parts of (ops/adasum.h)
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

std::string_view name_of(kernel what);

/// Elementwise, of two operands. Logical and bit operations exist for integers only; `none` and `copy` are not
/// reductions. `user` is the application's own arithmetic, on any dtype: associative, and as far as a schedule tells,
/// not commutative.
constexpr bool is_reduction(kernel what) { return what >= kernel::sum && what <= kernel::user; }

/// What makes adaptive sums, on floating types: neither elementwise nor associative.
constexpr bool is_adaptive(kernel what) { return what == kernel::dot_norms || what == kernel::adasum; }

/// What goes from lists to their lengths, and back.
constexpr bool is_about_lengths(kernel what) { return what == kernel::measure || what == kernel::lay_out; }

/// What the instance brings a function for (libsched/functions.h), which reads all of one buffer, or of two, and writes
/// all of another. What it is said to do here is what verify goes by.
constexpr bool is_function(kernel what) { return what >= kernel::split; }

constexpr bool supports(kernel what, dtype type) {
  if (is_adaptive(what)) return is_floating(type);
  if (is_about_lengths(what) || is_function(what)) return true;
  if (is_item(type)) return false;
  if (what == kernel::divide) return true;
  return is_reduction(what) && (what < kernel::land || what == kernel::user || !is_floating(type));
}

/// Whether a compute op has a second operand.
constexpr bool is_binary(kernel what) { return is_reduction(what) || is_adaptive(what); }

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

/// What a compute op calls.
class arithmetic {
 public:
  arithmetic() = default;
  explicit arithmetic(reduce_fn run) : built_in_(run) {}
  explicit arithmetic(const user_kernel& user) : user_(user.run), context_(user.context) {}

  void operator()(const void* a, const void* b, void* c, std::size_t count) const {
    if (built_in_ != nullptr) return built_in_(a, b, c, count);
    user_(a, b, c, count, context_);
  }

  /// Which may be called by any number of threads; nullptr: the application's own.
  reduce_fn built_in() const { return built_in_; }

 private:
  reduce_fn built_in_ = nullptr;
  user_fn user_ = nullptr;
  void* context_ = nullptr;
};

/// The best kernel this CPU can run, or nullptr where `supports` says no, and for `user`. Thread-safe, cheap, no
/// allocation: commit looks a kernel up once, the data path calls the pointer.
reduce_fn find_reduce(kernel what, dtype type);

/// c[i] = a[i] / divisor, the exact quotient rounded once to nearest even in the element's type, whatever the divisor:
/// that of integers to an integer, of floating numbers to a number of theirs, subnormals included. So the mean of equal
/// numbers is that number, if their sum is exact. A divisor is at least 1; 1 changes nothing but NaNs. c is a or
/// disjoint from it. nullptr for items.
using divide_fn = void (*)(const void* a, void* c, std::size_t count, std::uint64_t divisor);
divide_fn find_divide(dtype type);

/// Name of the SIMD target that find_reduce dispatches to on this CPU ("AVX3" is AVX-512, "AVX2", "SSE4", …).
std::string_view simd_target();

/// Name of one of the targets that this build has and this CPU runs: place 0 is the best, the last one is
/// plain scalar code. Empty beyond the last. force_simd_target takes each of these.
std::string_view simd_target_at(std::size_t place);

/// Restricts dispatch to one target, for tests and benchmarks; an empty name lifts the restriction.
/// Returns false, and changes nothing, where this CPU or build lacks the target. Not thread-safe against
/// concurrent find_reduce.
bool force_simd_target(std::string_view name);

}  // namespace lsched
