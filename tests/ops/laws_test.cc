// Tests that each kernel obeys exactly the laws that its row of the kernel table declares, bit for bit.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "ops/kernel.h"
#include "tests/ops/elements.h"

namespace lsched {
namespace {

using bits = std::vector<std::uint64_t>;

/// Returns numbers on which laws are likely to fail. These are zeros of both signs, subnormals, infinities, NaNs with
/// payloads, the smallest and the largest number, and some numbers in between. For types of one byte, returns all
/// values.
bits hard_elements(dtype type) {
  bits all;
  if (size_of(type) == 1) {
    for (std::uint64_t value = 0; value < 256; ++value) all.push_back(value);
    return all;
  }
  for (const std::uint64_t value : hard_values(type)) all.push_back(low_bytes(value, type));
  if (!is_floating(type)) return all;
  const std::uint64_t infinity = bits_of(type, std::numeric_limits<double>::infinity());
  const std::uint64_t sign = std::uint64_t{1} << (8 * size_of(type) - 1);
  for (const std::uint64_t magnitude : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{3}, infinity - 1, infinity,
                                        infinity + 1, infinity + 5, bits_of(type, std::nan("")) + 1, bits_of(type, 0.1),
                                        bits_of(type, 1.0), bits_of(type, 3.0), bits_of(type, 1e4)})
    for (const std::uint64_t signed_too : {magnitude, magnitude | sign}) all.push_back(signed_too);
  return all;
}

/// A kernel on vectors in memory: c[i] = a[i] (op) b[i]. Results are compared as bytes.
class vectors {
 public:
  vectors(kernel what, dtype type) : run_(find_reduce(what, type)), width_(size_of(type)) {}

  using memory = std::vector<std::byte>;
  memory combined(const memory& a, const memory& b) const {
    memory c(a.size());
    run_(a.data(), b.data(), c.data(), a.size() / width_);
    return c;
  }

 private:
  reduce_fn run_;
  std::size_t width_;
};

/// All triples of hard elements, as three vectors. For types of one byte, the vectors have only some triples.
struct triples {
  vectors::memory a, b, c;
};

triples triples_of(dtype type) {
  const bits hard = hard_elements(type);
  const std::size_t stride = size_of(type) == 1 ? 5 : 1;  // about 256^2 * 52 triples are enough
  bits a, b, c;
  for (const std::uint64_t x : hard)
    for (const std::uint64_t y : hard)
      for (std::size_t z = a.size() % stride; z < hard.size(); z += stride)
        a.push_back(x), b.push_back(y), c.push_back(hard[z]);
  const auto packed = [&](const bits& from) {
    vectors::memory to(from.size() * size_of(type));
    for (std::size_t i = 0; i < from.size(); ++i) write_element(to.data(), i, type, from[i]);
    return to;
  };
  return {packed(a), packed(b), packed(c)};
}

bool holds(law which, const vectors& of, const triples& all) {
  const vectors::memory ab = of.combined(all.a, all.b);
  switch (which) {
    case law::commutative: return of.combined(all.b, all.a) == ab;
    case law::associative: return of.combined(all.a, of.combined(all.b, all.c)) == of.combined(ab, all.c);
    case law::idempotent: return of.combined(ab, all.a) == ab;
  }
  return false;
}

TEST(laws, hold_for_the_bits_of_exactly_those_kernels_whose_rows_declare_them) {
  for (const dtype type : k_all_dtypes) {
    const triples all = triples_of(type);
    on_every_target([&] {
      for (const kernel what : k_all_reductions)
        for (const law which : {law::commutative, law::associative, law::idempotent})
          if (supports(what, type)) {
            EXPECT_EQ(holds(which, {what, type}, all), row_of(what).obeys(which, type))
                << name_of(what) << " of " << name_of(type) << ", law " << static_cast<int>(which);
          }
    });
  }
}

TEST(laws, idempotent_kernels_obey_the_others_too) {
  for (const kernel_row& row : k_kernel_rows)
    for (const dtype type : k_all_dtypes) {
      if (!row.obeys(law::idempotent, type)) continue;
      EXPECT_TRUE(row.obeys(law::commutative, type) && row.obeys(law::associative, type)) << row.name;
    }
}

/// verify() represents a result by an expression of the inputs. The expression omits the parameters of kernels.
/// Therefore a kernel with parameters must not declare laws.
TEST(laws, are_declared_of_no_kernel_with_parameters) {
  for (const kernel_row& row : k_kernel_rows) EXPECT_TRUE(row.laws == law_table{} || !row.has_parameters()) << row.name;
}

TEST(laws, are_declared_of_no_kernel_that_the_library_does_not_write) {
  EXPECT_EQ(row_of(kernel::user).laws, law_table{});
  EXPECT_EQ(row_of(kernel::adasum).laws, law_table{});
}

}  // namespace
}  // namespace lsched
