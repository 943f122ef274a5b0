// Tests the selection pass against a loop over doubles, on every SIMD target of this CPU.
#include "ops/sparse/sparse.h"

#include <gtest/gtest.h>

#include "tests/ops/lists.h"

namespace lsched {
namespace {

struct expectation {
  elements residual;
  list selected;
};

expectation expected(dtype type, const elements& residual, const elements* gradient, double scale,
                     std::uint32_t first_index, magnitude_range range) {
  const dtype wide = residual_of(type);
  expectation wanted{residual, {}};
  for (std::size_t i = 0; i < residual.size(); ++i) {
    std::uint64_t& bits = wanted.residual[i];
    if (gradient != nullptr) bits = accumulated(type, bits, scale, (*gradient)[i]);
    const std::uint64_t magnitude = magnitude_of(wide, bits);
    const std::uint64_t value = rounded(type, bits);
    if (magnitude >= range.least && magnitude <= range.most && magnitude_of(type, value) != 0)
      wanted.selected.push_back({first_index + static_cast<std::uint32_t>(i), value});
  }
  return wanted;
}

struct run_of_select {
  select_result found;
  list items;
  elements residual;
  bool is_intact;
};

run_of_select run(dtype type, const elements& residual, const elements* gradient, double scale,
                  std::uint32_t first_index, magnitude_range range, std::size_t room) {
  const dense_in_memory in(residual_of(type), residual);
  const dense_in_memory addends(type, gradient != nullptr ? *gradient : elements{});
  const list_in_memory out(type, room);
  const select_result found = sparse_kernels_of(type).accumulate_select(
      {in.data(), gradient != nullptr ? addends.data() : nullptr, scale, residual.size(), first_index}, range,
      out.data(), room);
  return {found, out.content(found.stored), in.content(), in.is_intact() && out.is_intact()};
}

void expect_selection(const expectation& wanted, const run_of_select& seen, std::size_t room) {
  const std::size_t stored = std::min(room, wanted.selected.size());
  ASSERT_TRUE(seen.is_intact);
  ASSERT_EQ(seen.found.counted, wanted.selected.size());
  ASSERT_EQ(seen.found.stored, stored);
  ASSERT_EQ(seen.items, list(wanted.selected.begin(), wanted.selected.begin() + static_cast<std::ptrdiff_t>(stored)));
  ASSERT_EQ(seen.residual, wanted.residual);
}

std::vector<magnitude_range> ranges(dtype type) {
  const dtype wide = residual_of(type);
  const std::uint64_t infinity = infinity_of(wide);
  return {{},
          {0, infinity},
          {magnitude_in(wide, 1.5), infinity - 1},
          {magnitude_in(wide, 1.5), magnitude_in(wide, 2)},
          {magnitude_in(wide, 2.5), ~std::uint64_t{0}},
          {infinity + 1, ~std::uint64_t{0}},
          {5, 4}};
}

/// Checks the selection with different capacities, on every target.
void expect_right(dtype type, const elements& residual, const elements* gradient, double scale,
                  std::uint32_t first_index) {
  for (const magnitude_range range : ranges(type)) {
    const expectation wanted = expected(type, residual, gradient, scale, first_index, range);
    const std::size_t all = wanted.selected.size();
    on_every_target([&] {
      for (const std::size_t room : {all, all / 2, all > 0 ? all - 1 : 0, std::size_t{0}, std::size_t{1}, all + 100})
        expect_selection(wanted, run(type, residual, gradient, scale, first_index, range, room), room);
    });
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(Select, takes_what_lies_in_range_and_counts_what_has_no_room) {
  for (const dtype type : k_floats)
    for (const std::size_t count : k_lengths)
      for (const pattern& it : patterns(residual_of(type), count, count)) {
        SCOPED_TRACE(std::string(name_of(type)) + " " + it.name + " " + std::to_string(count));
        expect_right(type, it.values, nullptr, 1, 7);
        if (HasFatalFailure()) return;
      }
}

TEST(Select, adds_the_gradient_before_it_looks) {
  for (const dtype type : k_floats)
    for (const std::size_t count : k_lengths) {
      const auto residuals = patterns(residual_of(type), count, count), gradients = patterns(type, count, count + 1);
      for (std::size_t i = 0; i < residuals.size(); ++i)
        for (const auto& [j, scale] : {std::pair{i, 1.0}, std::pair{(i + 5) % residuals.size(), -0.3}}) {
          SCOPED_TRACE(std::string(name_of(type)) + " " + residuals[i].name + " + " + gradients[j].name + " " +
                       std::to_string(count));
          expect_right(type, residuals[i].values, &gradients[j].values, scale,
                       static_cast<std::uint32_t>((std::uint64_t{1} << 32) - count));
          if (HasFatalFailure()) return;
        }
    }
}

TEST(Select, goes_from_block_to_block) {
  for (const dtype type : k_floats)
    for (const std::size_t count : sizes{1023, 1024, 1025, 2049, 3500}) {
      const elements residual = patterns(residual_of(type), count, count)[0].values;
      const elements gradient = patterns(type, count, count + 1)[0].values;
      expect_right(type, residual, &gradient, 0.5, 0);
      if (HasFatalFailure()) return;
    }
}

/// Uses residuals that differ but round to the same value, and residuals that round to zero or to infinity.
TEST(Select, rounds_to_nearest_even_and_never_to_zero) {
  for (const dtype type : {dtype::f16, dtype::bf16}) {
    elements residual;
    for (std::uint64_t bits = 0; bits < 0x8000; bits += 37) {
      const double value = value_of(type, bits), next = value_of(type, bits + 1);
      if (!std::isfinite(value) || !std::isfinite(next)) continue;
      const std::uint64_t middle = bits_of(dtype::f32, value + (next - value) / 2);
      for (const std::uint64_t it : {middle - 1, middle, middle + 1, middle | 0x80000000U}) residual.push_back(it);
    }
    for (std::uint64_t bits = 0; bits < 5; ++bits) {
      const std::uint64_t half_of_least = bits_of(dtype::f32, value_of(type, 1) / 2);
      residual.push_back(half_of_least + bits - 2);
    }
    for (const double large : {65504.0, 65519.99, 65520.0, 3.3895e38, 3.4e38})
      residual.push_back(bits_of(dtype::f32, large));
    ASSERT_LT(residual.size(), 8000U);
    expect_right(type, residual, nullptr, 1, 0);
    if (HasFatalFailure()) return;
  }
}

TEST(Select, only_reads_a_residual_without_a_gradient) {
  for (const dtype type : k_floats) {
    const elements residual = patterns(residual_of(type), 100, 1)[0].values;
    const expectation wanted = expected(type, residual, nullptr, 1, 3, {});
    on_every_target([&] {
      const dense_in_memory in(residual_of(type), residual);
      const list_in_memory out(type, 100);
      const select_result found =
          sparse_kernels_of(type).accumulate_select({in.data(), nullptr, 1, 100, 3}, {}, out.data(), 100);
      expect_selection(wanted, {found, out.content(found.stored), in.content(), out.is_intact()}, 100);
    });
  }
}

TEST(Select, of_integers_does_not_exist) {
  for (const dtype integer : {dtype::i8, dtype::u64}) {
    EXPECT_EQ(sparse_kernels_of(integer).accumulate_select, nullptr);
  }
}

}  // namespace
}  // namespace lsched
