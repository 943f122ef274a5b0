// Random gradients for experiments and tests. Every element depends only on (seed, kind, rank, round, index).
//
// An element is a hash of its index, converted to f32 by additions, multiplications, divisions and bit operations only.
// So all machines get the same bits. Any element can be computed without the others, and compilers vectorise the loops.
// The scales of layers are the only exception. They depend on exp() of the C library, whose last bit may differ between
// machines.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ops/base.h"

namespace lsched {

/// The distribution of the elements. Laplace has the density exp(-|x|) / 2.
enum class gradient_kind : std::uint8_t {
  uniform,     ///< Laplace; all elements have the same scale, and ranks are independent
  layered,     ///< Laplace times the scale of one of 16 layers; half of the variance is common to all ranks
  one_region,  ///< Laplace in one 64th of the vector; elsewhere scaled by 1/1024
  /// The vector has P equal parts. The largest elements of all ranks are in one of these parts, at different indices on
  /// each rank. So all sent items have the same owner, and no two items are added.
  one_owner,
  ties,  ///< integers from -3 to 3
  zeros  ///< about one element in 64 is not zero; about every fourth rank has only zeros
};

inline constexpr std::array k_all_gradient_kinds{gradient_kind::uniform,    gradient_kind::layered,
                                                 gradient_kind::one_region, gradient_kind::one_owner,
                                                 gradient_kind::ties,       gradient_kind::zeros};

/// Returns the name of a kind, such as "one-region".
std::string_view name_of(gradient_kind kind);
std::optional<gradient_kind> gradient_kind_named(std::string_view name);

struct gradient_options {
  gradient_kind kind = gradient_kind::uniform;
  std::uint64_t seed = 1;
  std::uint64_t count = 0;  ///< number of elements, at most 2^32
  rank ranks = 1;           ///< number of ranks
  /// True: elements are integers with magnitudes below 2^18. Sums below 2^24 are exact in f32 in any order.
  bool has_integers = false;
};

/// Draws gradients. Allocates in the constructor. Must be used by one thread at a time.
class gradient_source {
 public:
  explicit gradient_source(const gradient_options& options);

  const gradient_options& options() const { return options_; }

  /// Writes the gradient of a rank in a round to `to`, which has `count` elements. For `layered`, drawing all ranks of
  /// a round one after the other saves half of the work.
  void draw(rank r, round_no round, std::span<float> to);

  /// Writes the gradient, rounded to a floating type, to `to`, which has `count` elements. The first call allocates.
  void draw(rank r, round_no round, dtype type, void* to);

 private:
  struct layer {
    std::uint64_t end;
    float scale;
  };

  void make_layers();
  void draw_shared(round_no round);
  void draw_layered(rank r, round_no round, std::span<float> to);
  void shrink_all_but_region(std::span<float> to) const;
  void shape_for_one_owner(rank r, std::span<float> to) const;

  gradient_options options_;
  std::vector<layer> layers_;
  std::vector<float> shared_;  ///< part of the gradient that all ranks share in round shared_round_
  round_no shared_round_ = 0;
  std::vector<float> drawn_;
};

}  // namespace lsched
