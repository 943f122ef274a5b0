// Gradients that experiments and tests draw: every element a function of (seed, kind, rank, round, index) alone.
//
// Elements are hashes of their index, made into f32 by additions, multiplications, divisions and bit operations only:
// the same bits on every machine, any element without the others, and compilers turn the loops into SIMD. (The scales
// of layers are an exception: they go by exp of the C library, whose last bit may differ.)
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "collectives/sparse/steps/lists.h"

namespace lsched {

/// Laplace: of density exp(-|x|) / 2.
enum class gradient_kind : std::uint8_t {
  uniform,     ///< Laplace, all elements alike, ranks independent of each other
  layered,     ///< Laplace times the scale of one of 16 layers; half of the variance is what ranks have in common
  one_region,  ///< Laplace in one 64th of the vector, a thousandth of it elsewhere
  one_owner,   ///< the largest of all ranks lie in one of as many equal parts as there are ranks, and each index has a
               ///< large element on one rank only: all there is to send has one owner, and nothing of it adds up
  ties,        ///< integers from -3 to 3
  zeros        ///< zeros, but for one element in 64 or so; on every fourth rank or so nothing else
};

inline constexpr std::array k_all_gradient_kinds{gradient_kind::uniform,    gradient_kind::layered,
                                                 gradient_kind::one_region, gradient_kind::one_owner,
                                                 gradient_kind::ties,       gradient_kind::zeros};

/// "one-region" and the like; and back.
std::string_view name_of(gradient_kind kind);
std::optional<gradient_kind> gradient_kind_named(std::string_view name);

struct gradient_options {
  gradient_kind kind = gradient_kind::uniform;
  std::uint64_t seed = 1;
  std::uint64_t count = 0;  ///< elements, up to 2^32
  rank ranks = 1;           ///< of the world
  /// Elements are integers, by magnitude below 2^18: sums of them in f32 are exact, whatever their order, as long as
  /// they stay below 2^24.
  bool has_integers = false;
};

/// Draws. Allocates when made; one thread at a time.
class gradient_source {
 public:
  explicit gradient_source(const gradient_options& options);

  const gradient_options& options() const { return options_; }

  /// The gradient of a rank in a round. to.size() is the count. Drawing all ranks of a round after each other saves
  /// `layered` half of the draws.
  void draw(rank r, round_no round, std::span<float> to);

  /// The same, rounded to a floating type, f16 to f64; `to` has count elements. The first call allocates.
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
  std::vector<float> shared_;  ///< of shared_round_
  round_no shared_round_ = 0;
  std::vector<float> drawn_;
};

/// The lists that ranks would send of drawn gradients, without a vector for each of them: for worlds of thousands.
/// Allocates when made: one vector, and one list. One thread at a time.
class list_source {
 public:
  /// Of items of a floating type, k of them at most.
  list_source(const gradient_options& options, dtype type, std::uint64_t k);

  /// The k largest elements of a rank's gradient in a round, by index; gone with the next call. O(count).
  item_list draw(rank r, round_no round);

 private:
  gradient_source gradients_;
  dtype type_;
  own_top_k own_;
  std::vector<std::byte> vector_;  ///< a residual
  top_k_hint hint_;
};

}  // namespace lsched
