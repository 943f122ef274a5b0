// Gram matrices as pairs of doubles: their bits against the order of ops/gram_pairs.h, their errors and those of what
// Adasum makes of them against arithmetic with 113 bits, on every SIMD target of this CPU.
#include "ops/gram_pairs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "ops/adasum.h"
#include "ops/linear.h"
#include "tests/ops/elements.h"

namespace lsched {
namespace {

#ifdef __SIZEOF_FLOAT128__
__extension__ using quad = __float128;
#else
using quad = long double;
#endif

constexpr std::uint64_t k_seed = 20240613;
constexpr std::array k_floats{dtype::f16, dtype::bf16, dtype::f32, dtype::f64};
constexpr std::array<std::size_t, 9> k_numbers{1, 2, 3, 5, 6, 7, 8, 16, 64};
constexpr double k_infinity = std::numeric_limits<double>::infinity();

using numbers = std::vector<double>;

double magnitude(quad x) { return std::fabs(static_cast<double>(x)); }

/// Vectors of one type, in memory as kernels take them, and as the numbers that they are.
class vectors {
 public:
  vectors(dtype type, const std::vector<numbers>& from) : type_(type), count_(from.empty() ? 0 : from[0].size()) {
    for (const numbers& each : from) {
      bytes_.emplace_back((count_ + 1) * size_of(type));
      values_.emplace_back(count_);
      for (std::size_t e = 0; e < count_; ++e) {
        write_element(bytes_.back().data(), e, type, bits_of(type, each[e]));
        values_.back()[e] = value_of(type, bits_of(type, each[e]));
      }
    }
  }

  dtype type() const { return type_; }
  std::size_t n() const { return bytes_.size(); }
  std::size_t count() const { return count_; }
  const numbers& operator[](std::size_t i) const { return values_[i]; }
  const std::vector<numbers>& values() const { return values_; }

  std::vector<const void*> from(std::size_t first) const {
    std::vector<const void*> x;
    for (const std::vector<std::byte>& each : bytes_) x.push_back(each.data() + first * size_of(type_));
    return x;
  }

  numbers pairs(gram_pairs_fn run) const { return pairs(run, 0, count_); }
  numbers pairs(gram_pairs_fn run, std::size_t first, std::size_t count) const {
    numbers made(gram_pairs_size(n()) + 1, -7);
    run(from(first).data(), n(), count, made.data());
    EXPECT_EQ(made.back(), -7);
    made.pop_back();
    return made;
  }

 private:
  dtype type_;
  std::size_t count_;
  std::vector<std::vector<std::byte>> bytes_;
  std::vector<numbers> values_;
};

quad dot(const numbers& a, const numbers& b) {
  quad sum = 0;
  for (std::size_t e = 0; e < a.size(); ++e) sum += static_cast<quad>(a[e]) * b[e];
  return sum;
}
double norm(const numbers& a) { return std::sqrt(static_cast<double>(dot(a, a))); }

/// Vectors of many kinds, at the type's own scale.
class source {
 public:
  numbers draw(std::size_t count, double factor = 1) {
    std::normal_distribution<double> normal;
    numbers drawn(count);
    for (double& each : drawn) each = factor * normal(random_);
    return drawn;
  }
  /// Elements at every `stride`-th place from `first`, zeros elsewhere.
  numbers sparse(std::size_t count, std::size_t first, std::size_t stride, double factor) {
    numbers drawn = draw(count, factor);
    for (std::size_t e = 0; e < count; ++e)
      if (e % stride != first) drawn[e] = 0;
    return drawn;
  }
  std::vector<numbers> independent(std::size_t n, std::size_t count) {
    std::vector<numbers> all;
    for (std::size_t i = 0; i < n; ++i) all.push_back(draw(count));
    return all;
  }
  /// One direction and something of their own.
  std::vector<numbers> near_parallel(std::size_t n, std::size_t count, double own) {
    const numbers shared = draw(count);
    std::vector<numbers> all = independent(n, count);
    for (numbers& each : all)
      for (std::size_t e = 0; e < count; ++e) each[e] = shared[e] + own * each[e];
    return all;
  }

 private:
  std::mt19937_64 random_{k_seed};
};

numbers sum_of(const numbers& a, double factor, const numbers& b) {
  numbers sum(a.size());
  for (std::size_t e = 0; e < a.size(); ++e) sum[e] = a[e] + factor * b[e];
  return sum;
}

void for_every_float(const std::function<void(dtype)>& body) {
  for (const dtype type : k_floats) {
    SCOPED_TRACE(std::string(name_of(type)));
    body(type);
  }
}

bool is_plain(const numbers& pairs) {
  for (std::size_t k = 1; k < pairs.size(); k += 2)
    if (pairs[k] != 0) return false;
  return true;
}

// ---- compensated sums

/// As the header says, of one block; 16 lanes.
std::array<double, 2> block_in_order(const double* a, const double* b, std::size_t count, double bias) {
  std::array<double, 16> high, low{};
  high.fill(bias);
  for (std::size_t e = 0; e < count; ++e) {
    const double sum = std::fma(a[e], b[e], high[e % 16]);
    low[e % 16] += std::fma(a[e], b[e], high[e % 16] - sum);
    high[e % 16] = sum;
  }
  for (double& lane : high) lane -= bias;
  for (std::size_t half = 8; half > 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i) high[i] += high[i + half], low[i] += low[i + half];
  return {high[0], low[0]};
}

double bias_of(double one, double other) {
  const int exponent =
      (std::max(std::ilogb(one), -1022) + std::max(std::ilogb(other), -1022) + 2046 + 1) / 2 - 1022 + 1;
  return std::ldexp(1.5, exponent);
}

std::array<double, 2> pair_in_order(dtype type, const vectors& x, std::size_t i, std::size_t j) {
  double hi = 0, lo = 0;
  for (std::size_t first = 0; first < x.count(); first += k_dot_block) {
    const std::size_t count = std::min(k_dot_block, x.count() - first);
    std::array<double, 3> sums{};
    const std::vector<const void*> block = x.from(first);
    find_dot_norms(type)(block[i], block[j], count, sums.data());
    const auto [high, low] = block_in_order(x[i].data() + first, x[j].data() + first, count, bias_of(sums[1], sums[2]));
    const double sum = hi + high;
    const double lost = (hi - (sum - (sum - hi))) + (high - (sum - hi));
    const double rest = lost + (lo + low);
    hi = sum + rest;
    lo = rest - (hi - sum);
  }
  return {hi, lo};
}

TEST(gram_pairs, exist_for_floating_types_only) {
  for (const dtype type : k_all_dtypes) {
    EXPECT_EQ(find_gram_pairs(type) != nullptr, is_floating(type));
    EXPECT_EQ(find_compensated_gram(type) != nullptr, is_floating(type));
  }
  EXPECT_EQ(find_gram_pairs(dtype{200}), nullptr);
}

constexpr std::array<std::size_t, 11> k_counts{0, 1, 2, 3, 15, 16, 17, 1000, 1024, 1025, 5000};

TEST(gram_pairs, compensated_have_the_bits_of_the_promised_order_on_every_target) {
  SCOPED_TRACE(k_seed);
  for_every_float([](dtype type) {
    source values;
    for (const std::size_t n : {1u, 2u, 3u, 5u, 8u})
      for (const std::size_t count : k_counts) {
        std::vector<numbers> all = values.near_parallel(n, count, 0.01);
        if (n > 2) all[1] = values.draw(count, type == dtype::f16 ? 6e-7 : 1e-37);
        if (n > 3) all[2] = numbers(count);
        const vectors x(type, all);
        on_every_target([&] {
          const numbers made = x.pairs(find_compensated_gram(type));
          for (std::size_t i = 0; i < n; ++i)
            for (std::size_t j = i; j < n; ++j) {
              const double* pair = &made[2 * gram_place(n, i, j)];
              ASSERT_EQ((std::array{pair[0], pair[1]}), pair_in_order(type, x, i, j))
                  << i << ", " << j << " of " << n << ", count " << count;
            }
        });
      }
  });
}

/// Of the largest error over |xi| |xj|.
double error_of(const vectors& x, const numbers& pairs) {
  double worst = 0;
  for (std::size_t i = 0; i < x.n(); ++i)
    for (std::size_t j = i; j < x.n(); ++j) {
      const double* pair = &pairs[2 * gram_place(x.n(), i, j)];
      EXPECT_EQ(pair[0] + pair[1], pair[0]);
      const double error = magnitude(static_cast<quad>(pair[0]) + pair[1] - dot(x[i], x[j]));
      if (error > 0) worst = std::max(worst, error / (norm(x[i]) * norm(x[j])));
    }
  return worst;
}

double promised_error(std::size_t count) {
  return 0x1p-88 + static_cast<double>((count + k_dot_block - 1) / k_dot_block) * 0x1p-104;
}

TEST(gram_pairs, compensated_are_as_exact_as_promised) {
  SCOPED_TRACE(k_seed);
  for_every_float([](dtype type) {
    source values;
    const double tiny = type == dtype::f16 ? 1e-6 : type == dtype::f64 ? 1e-140 : 1e-38;
    const double huge = type == dtype::f16 ? 1e4 : type == dtype::f64 ? 1e140 : 1e37;
    for (const std::size_t count : k_counts)
      for (const double own : {1.0, 1e-3, 1e-9}) {
        std::vector<numbers> all = values.near_parallel(5, count, own);
        all[3] = sum_of(numbers(count), -1, sum_of(all[0], own, all[1]));
        all.push_back(values.draw(count, tiny));
        all.push_back(values.draw(count, huge));
        const vectors x(type, all);
        const double error = error_of(x, x.pairs(find_compensated_gram(type)));
        ASSERT_LE(error, promised_error(count)) << count << ' ' << own;
        ASSERT_LE(error, 0x1p-96) << "as a rule, " << count << ' ' << own;
      }
  });
}

TEST(gram_pairs, compensated_lose_nothing_at_the_ends_of_f64) {
  on_every_target([] {
    for (const double factor : {0x1p-540, 0x1p-530, 0x1p-500, 0x1p-400, 0x1p480, 0x1p505}) {
      source values;
      const vectors x(dtype::f64, {values.draw(1000, factor), values.draw(1000, std::min(1 / factor, 0x1p500)),
                                   values.draw(1000, 1.0)});
      const numbers pairs = x.pairs(find_compensated_gram(dtype::f64));
      for (const std::size_t j : {1u, 2u}) {  // the square of a tiny one underflows, its products with others do not
        const double* pair = &pairs[2 * gram_place(3, 0, j)];
        const double error = magnitude(static_cast<quad>(pair[0]) + pair[1] - dot(x[0], x[j]));
        const double allowed = factor < 0x1p-500 ? 0x1p-53 : 0x1p-88;  // as if norms were 2^-510
        EXPECT_LE(error, allowed * norm(x[0]) * norm(x[j])) << factor << ' ' << j;
      }
    }
  });
}

// ---- which of them

TEST(gram_pairs, are_plain_sums_where_they_will_do) {
  for_every_float([](dtype type) {
    source values;
    for (const std::size_t n : k_numbers) {
      const vectors x(type, values.independent(n, 5000));
      on_every_target([&] {
        const numbers pairs = x.pairs(find_gram_pairs(type));
        ASSERT_TRUE(is_plain(pairs)) << n;
        numbers sums(n * (n + 1) / 2);
        find_gram(type)(x.from(0).data(), n, x.count(), sums.data());
        for (std::size_t k = 0; k < sums.size(); ++k) ASSERT_EQ(pairs[2 * k], sums[k]) << n;
      });
    }
  });
}

TEST(gram_pairs, are_compensated_where_plain_sums_will_not_do) {
  for_every_float([](dtype type) {
    source values;
    for (const std::size_t n : k_numbers)
      for (const std::size_t count : {1u, 3u, 17u, 1025u}) {
        if (n == 1) continue;
        const bool is_singular = count < n;
        const vectors x(type, is_singular ? values.independent(n, count) : values.near_parallel(n, count, 1e-5));
        on_every_target([&] {
          ASSERT_EQ(x.pairs(find_gram_pairs(type)), x.pairs(find_compensated_gram(type))) << n << ' ' << count;
        });
      }
  });
}

/// The matrix of cosines 1 and 1 - t has K = 2 / t.
TEST(gram_pairs, know_where_the_bar_is) {
  for_every_float([](dtype type) {
    const double bar = type == dtype::f16 || type == dtype::f64 ? 0x1p8 : 0x1p20;
    for (const double room : {0.9, 0.98, 1.05, 1.2}) {
      const double cosine = 1 - 2 / (room * bar);
      std::vector<numbers> all(2, numbers(4000));
      // In directions (1, 0) and (cos, sin), each over so many elements that a type's rounding averages out.
      source values;
      const numbers one = values.sparse(4000, 0, 2, 1), other = values.sparse(4000, 1, 2, 1);
      all[0] = one;
      const double ratio = norm(one) / norm(other) * std::sqrt(1 - cosine * cosine) / cosine;
      all[1] = sum_of(one, ratio, other);
      const vectors x(type, all);
      const double exact = static_cast<double>(dot(x[0], x[1])) / (norm(x[0]) * norm(x[1]));
      const double k = 2 / (1 - exact);
      ASSERT_NEAR(k / bar, room, 0.01);
      EXPECT_EQ(is_plain(x.pairs(find_gram_pairs(type))), room < 1) << room;
    }
  });
}

TEST(gram_pairs, leave_zero_vectors_out_of_the_test) {
  for_every_float([](dtype type) {
    source values;
    std::vector<numbers> all = values.independent(6, 1000);
    all[0] = all[4] = numbers(1000);
    EXPECT_TRUE(is_plain(vectors(type, all).pairs(find_gram_pairs(type))));
    for (numbers& each : all) each = numbers(1000);
    EXPECT_EQ(vectors(type, all).pairs(find_gram_pairs(type)), numbers(gram_pairs_size(6)));
  });
  source values;
  std::vector<numbers> all = values.independent(3, 1000);
  for (double& each : all[1]) each *= 1e-170;  // squares underflow, products with others do not
  const vectors x(dtype::f64, all);
  EXPECT_EQ(x.pairs(find_gram_pairs(dtype::f64)), x.pairs(find_compensated_gram(dtype::f64)));
}

/// What the bar is for: of any weights, also those that cancel most.
TEST(gram_pairs, plain_sums_do_no_more_harm_than_promised) {
  SCOPED_TRACE(k_seed);
  for_every_float([](dtype type) {
    source values;
    const double allowed = type == dtype::f16 ? 0x1p-11 : type == dtype::f64 ? 0x1p-38 : 0x1p-26;
    for (const double own : {1.0, 0.3, 0.1, 0.05, 0.02, 0.005, 0.002}) {
      const vectors x(type, values.near_parallel(5, 3000, own));
      const numbers pairs = x.pairs(find_gram_pairs(type));
      for (const numbers& p : {numbers{1, -1, 0, 0, 0}, {1, 1, 1, 1, -4}, {0.3, 0.2, -0.5, 0, 0}, {1, 0, 0, 0, 1}}) {
        quad made = 0, exact = 0;
        for (std::size_t i = 0; i < 5; ++i)
          for (std::size_t j = 0; j < 5; ++j) {
            const double* pair = &pairs[2 * gram_place(5, i, j)];
            const quad weight = static_cast<quad>(p[i]) * p[j];
            made += weight * (static_cast<quad>(pair[0]) + pair[1]);
            exact += weight * dot(x[i], x[j]);
          }
        EXPECT_LE(magnitude(made - exact), allowed * magnitude(exact)) << own;
      }
    }
  });
}

TEST(gram_pairs, are_nan_where_data_are_not_finite) {
  for_every_float([](dtype type) {
    source values;
    for (const double wrong : {std::nan(""), k_infinity, -k_infinity})
      for (const double own : {1.0, 1e-6})
        for (const std::size_t count : {1u, 17u, 2500u}) {
          std::vector<numbers> all = values.near_parallel(5, count, own);
          all[4] = numbers(count);
          all[2][count / 2] = wrong;
          const vectors x(type, all);
          on_every_target([&] {
            for (const gram_pairs_fn run : {find_gram_pairs(type), find_compensated_gram(type)}) {
              const numbers pairs = x.pairs(run);
              for (std::size_t i = 0; i < 5; ++i)
                for (std::size_t j = i; j < 5; ++j) {
                  const double* pair = &pairs[2 * gram_place(5, i, j)];
                  ASSERT_EQ(std::isnan(pair[0]), i == 2 || j == 2) << i << j;
                  ASSERT_TRUE(pair[1] == 0 || (i != 2 && j != 2));
                }
            }
          });
        }
  });
  const vectors huge(dtype::f64, {numbers(10, 1e160), numbers(10, 1.0)});
  for (const gram_pairs_fn run : {find_gram_pairs(dtype::f64), find_compensated_gram(dtype::f64)})
    EXPECT_TRUE(std::isnan(huge.pairs(run)[0]));
}

// ---- sums of matrices

numbers in_parts(const vectors& x, gram_pairs_fn run, const std::vector<std::size_t>& ends) {
  numbers parts;
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    const numbers part = x.pairs(run, begin, end - begin);
    parts.insert(parts.end(), part.begin(), part.end());
    begin = end;
  }
  numbers total(gram_pairs_size(x.n()), -1);
  add_gram_pairs(parts.data(), ends.size(), x.n(), total.data());
  add_gram_pairs(parts.data(), ends.size(), x.n(), parts.data());  // in place of the first
  EXPECT_EQ(std::memcmp(total.data(), parts.data(), total.size() * sizeof(double)), 0);
  return total;
}

TEST(gram_pairs, of_parts_add_up_to_those_of_the_whole) {
  for_every_float([](dtype type) {
    source values;
    for (const double own : {1.0, 1e-9}) {
      const vectors x(type, values.near_parallel(5, 5000, own));
      const numbers total = in_parts(x, find_compensated_gram(type), {0, 1, 18, 1041, 1042, 3333, 5000, 5000});
      EXPECT_LE(error_of(x, total), promised_error(5000) + 7 * 0x1p-103);
      EXPECT_LE(error_of(x, total), 0x1p-96);
    }
  });
}

TEST(gram_pairs, add_in_order_with_all_digits) {
  const numbers parts{1, 0x1p-54, 0x1p-60, 0, -1, -0x1p-54};  // of one vector
  numbers total(2, 7);
  add_gram_pairs(parts.data(), 3, 1, total.data());
  EXPECT_EQ(total, (numbers{0x1p-60, 0}));
  add_gram_pairs(parts.data(), 2, 1, total.data());
  EXPECT_EQ(total, (numbers{1, 0x1p-54 + 0x1p-60}));
  add_gram_pairs(parts.data(), 1, 1, total.data());
  EXPECT_EQ(total, (numbers{1, 0x1p-54}));
  add_gram_pairs(nullptr, 0, 1, total.data());
  EXPECT_EQ(total, (numbers{0, 0}));
  const numbers wrong{std::nan("3"), 0, 1, 0};
  add_gram_pairs(wrong.data(), 2, 1, total.data());
  EXPECT_TRUE(std::isnan(total[0]));
  EXPECT_EQ(total[1], 0);
  const numbers too_much{1e308, 0, 1e308, 0};
  add_gram_pairs(too_much.data(), 2, 1, total.data());
  EXPECT_TRUE(std::isnan(total[0]));
}

// ---- Adasum by them

using exact_vector = std::vector<quad>;

exact_vector direct(const adasum_tree& tree, const vectors& x) {
  std::vector<exact_vector> nodes;
  for (const numbers& leaf : x.values()) nodes.emplace_back(leaf.begin(), leaf.end());
  for (std::size_t m = 0; m + 1 < tree.leaves; ++m) {
    const exact_vector& a = nodes[tree.merges[m].lower];
    const exact_vector& b = nodes[tree.merges[m].upper];
    quad d = 0, norm_a = 0, norm_b = 0;
    for (std::size_t e = 0; e < a.size(); ++e) d += a[e] * b[e], norm_a += a[e] * a[e], norm_b += b[e] * b[e];
    const quad of_a = norm_a == 0 ? quad(1) : 1 - d / norm_a / 2;
    const quad of_b = norm_b == 0 ? quad(1) : 1 - d / norm_b / 2;
    exact_vector made(a.size());
    for (std::size_t e = 0; e < a.size(); ++e) made[e] = of_a * a[e] + of_b * b[e];
    nodes.push_back(std::move(made));
  }
  return nodes.back();
}

/// By parts, weights, and a weighted sum.
numbers at_once(const adasum_tree& tree, const vectors& x) {
  const std::size_t third = x.count() / 3;
  const numbers pairs = in_parts(x, find_gram_pairs(x.type()), {third, third + x.count() / 2, x.count()});
  numbers weights(2 * x.n());
  const bool cancels = adasum_weights(tree, pairs.data(), weights.data()).cancels;
  std::vector<std::byte> result((x.count() + 1) * size_of(x.type()));
  const weighted_sum_fn sum = cancels ? find_compensated_weighted_sum(x.type()) : find_weighted_sum(x.type());
  sum(weights.data(), x.from(0).data(), x.n(), result.data(), x.count());
  numbers made(x.count());
  for (std::size_t e = 0; e < x.count(); ++e) made[e] = value_of(x.type(), read_element(result.data(), e, x.type()));
  return made;
}

double unit_of(dtype type) {
  return type == dtype::f16 ? 0x1p-11 : type == dtype::bf16 ? 0x1p-8 : type == dtype::f32 ? 0x1p-24 : 0x1p-53;
}

/// A rounding among denormals.
double half_of_least(dtype type) {
  return type == dtype::f16 ? 0x1p-25 : type == dtype::bf16 ? 0x1p-134 : type == dtype::f32 ? 0x1p-150 : 0x1p-1074;
}

/// `part`: the smallest |node| / |its leaves| in the tree, of which the direct tree in doubles knows 2^-53 / part.
void expect_direct(dtype type, const std::vector<numbers>& leaves, double part) {
  const vectors x(type, leaves);
  double scale = 0;
  for (const numbers& leaf : x.values()) scale += norm(leaf) * norm(leaf);
  scale = std::sqrt(scale);
  const double plain = type == dtype::f16 ? 0x1p-11 : type == dtype::f64 ? 0x1p-38 : 0x1p-26;
  const double least = half_of_least(type) * std::sqrt(static_cast<double>(x.count()));
  const double allowed = scale * (unit_of(type) + plain + 16 * 0x1p-53 / part) + least;
  for (const adasum_tree& tree : {folded_adasum_tree(x.n()), linear_adasum_tree(x.n())}) {
    const exact_vector wanted = direct(tree, x);
    const numbers made = at_once(tree, x);
    quad error = 0;
    for (std::size_t e = 0; e < made.size(); ++e) error += (made[e] - wanted[e]) * (made[e] - wanted[e]);
    ASSERT_LE(std::sqrt(static_cast<double>(error)), allowed) << x.n() << " of " << x.count();
  }
}

TEST(adasum_of_pairs, is_that_of_the_direct_tree) {
  SCOPED_TRACE(k_seed);
  for_every_float([](dtype type) {
    source values;
    for (const std::size_t n : k_numbers)
      for (const std::size_t count : {1u, 2u, 3u, 17u, 1000u, 1025u, 5000u}) {
        if (n > 16 && count > 1000) continue;
        SCOPED_TRACE("independent");
        expect_direct(type, values.independent(n, count), count < 16 ? 1e-6 : 1e-3);
        for (const double own : {0.3, 1e-3, 1e-6}) {
          SCOPED_TRACE(own);
          expect_direct(type, values.near_parallel(n, count, own), 1e-3);
        }
      }
  });
}

TEST(adasum_of_pairs, takes_norms_that_differ_and_zeros) {
  for_every_float([](dtype type) {
    source values;
    const double ratio = type == dtype::f16 ? 1e3 : 1e20;
    for (const std::size_t n : {2u, 3u, 5u, 8u})
      for (const std::size_t count : {17u, 1025u}) {
        std::vector<numbers> all = values.near_parallel(n, count, 1.0);
        for (double& each : all[0]) each *= ratio;
        for (double& each : all[n - 1]) each /= ratio;
        expect_direct(type, all, 1e-3);
        all[1] = numbers(count);
        expect_direct(type, all, 1e-3);
        all[0] = numbers(count);
        expect_direct(type, all, 1e-3);
        for (numbers& each : all)
          for (double& element : each) element *= type == dtype::f64 ? 1e-40 : type == dtype::f16 ? 1e-6 : 1e-39;
        SCOPED_TRACE("denormals, but of f64, whose squares would be zeros");
        expect_direct(type, all, 1e-3);
      }
  });
}

/// Leaves 0 and 1, or their merges with two others, cancel but for `part`.
std::vector<numbers> cancelling(source& values, dtype type, int level, double part) {
  const std::size_t count = 1500;
  const double scale = type == dtype::f16 ? 2000 : 1;
  const numbers rest = values.sparse(count, 1, 3, scale * part);
  if (level == 1) {
    const numbers g = values.sparse(count, 0, 3, scale);
    return {g, sum_of(rest, -1, g), values.draw(count, scale), values.draw(count, scale), values.draw(count, scale)};
  }
  const numbers g = values.sparse(count, 0, 3, scale), h = values.sparse(count, 0, 3, scale);
  return {g, h, sum_of(rest, -1, g), sum_of(rest, -1, h), values.draw(count, scale), values.draw(count, scale)};
}

TEST(adasum_of_pairs, is_that_of_the_direct_tree_when_its_nodes_cancel) {
  SCOPED_TRACE(k_seed);
  for_every_float([](dtype type) {
    source values;
    for (const int level : {1, 2})
      for (const double part : {1e-3, 1e-6, 1e-8, 1e-10, 1e-12, 0x1p-44}) {
        if (type == dtype::f16 && part < 1e-8) continue;
        SCOPED_TRACE(testing::Message() << "level " << level << ", " << part);
        std::vector<numbers> leaves = cancelling(values, type, level, part);
        expect_direct(type, leaves, part);
        leaves.resize(level == 1 ? 3 : 5);
        expect_direct(type, leaves, part);
      }
  });
}

TEST(adasum_of_pairs, takes_a_node_that_is_zero_for_zero) {
  for_every_float([](dtype type) {
    source values;
    for (const int level : {1, 2})
      for (const std::size_t n : {2u, 3u, 4u, 5u}) {
        std::vector<numbers> leaves = cancelling(values, type, level, 0);
        if (level == 1) leaves.resize(n);
        SCOPED_TRACE(testing::Message() << level << ' ' << n);
        expect_direct(type, leaves, 1);
      }
    for (const double k : {3.0, 5.0, 7.0, 9.0, 11.0, 13.0, 15.0}) {  // of which 1 + 1/(2k) is no double
      const numbers g = values.draw(1000);
      const vectors x(type, {numbers(1000, 0.25), numbers(1000, -0.25 * k), numbers(1000, (k - 1) / 8), g});
      EXPECT_LE(norm(sum_of(at_once(linear_adasum_tree(4), x), -1, x[3])),
                unit_of(type) * norm(g) + 0x1p-50 * norm(x[1]))
          << k;
    }
  });
}

/// The tree of three as the other algorithms go by it: in f64, each node rounded.
numbers in_doubles(const vectors& x) {
  numbers node = x[0];
  for (const std::size_t next : {1u, 2u}) {
    double sums[3];
    find_dot_norms(dtype::f64)(node.data(), x[next].data(), x.count(), sums);
    const adasum_coefficients by = adasum_coefficients_of(sums);
    find_scaled_add(dtype::f64)(by.a, node.data(), by.b, x[next].data(), node.data(), x.count());
  }
  return node;
}

double error_of(const numbers& made, const exact_vector& wanted) {
  quad error = 0;
  for (std::size_t e = 0; e < made.size(); ++e) error += (made[e] - wanted[e]) * (made[e] - wanted[e]);
  return std::sqrt(static_cast<double>(error));
}

/// Of g and rest - g remains 1.5 rest, 2^e of the 3 |g| that it would be if nothing cancelled. What that is merged with
/// has something of its direction.
TEST(adasum_of_pairs, of_f64_takes_what_cancels_below_2_to_the_minus_46_for_zeros) {
  SCOPED_TRACE(k_seed);
  constexpr std::size_t count = 3000;
  source values;
  const numbers g = values.sparse(count, 0, 3, 1), h = values.sparse(count, 2, 3, 1),
                along = values.sparse(count, 1, 3, 1);
  for (int e = -30; e >= -52; --e)
    for (const double own : {0.0, 1.0, 3.0}) {
      if (e == -46) continue;
      SCOPED_TRACE(testing::Message() << "2^" << e << ", " << own);
      const numbers rest = sum_of(numbers(count), std::ldexp(2, e) * norm(g) / norm(along), along);
      const vectors x(dtype::f64, {g, sum_of(rest, -1, g), sum_of(along, own, h)});
      const exact_vector wanted = direct(linear_adasum_tree(3), x);
      const double known = std::ldexp(1, -53 - e), cosine = 1 / std::hypot(1, own * norm(h) / norm(along));
      EXPECT_LE(error_of(in_doubles(x), wanted) / norm(x[2]), known) << "the other algorithms";
      const double error = error_of(at_once(linear_adasum_tree(3), x), wanted) / norm(x[2]);
      EXPECT_NEAR(error, e > -46 ? 0 : cosine / 2, e > -46 ? known : 1e-6);
    }
}

TEST(adasum_of_pairs, is_nan_if_anything_is) {
  for_every_float([](dtype type) {
    source values;
    for (const double own : {1.0, 1e-6}) {
      std::vector<numbers> all = values.near_parallel(3, 100, own);
      all[1][70] = k_infinity;
      for (const double each : at_once(folded_adasum_tree(3), vectors(type, all))) ASSERT_TRUE(std::isnan(each));
    }
  });
}

}  // namespace
}  // namespace lsched
