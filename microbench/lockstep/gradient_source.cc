#include "microbench/lockstep/gradient_source.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "libsched/schedule/draw.h"
#include "libsched/schedule/geometry.h"
#include "ops/elementwise/elementwise.h"

namespace lsched {
namespace {

constexpr std::array<std::string_view, k_all_gradient_kinds.size()> k_names{"uniform",   "layered", "one-region",
                                                                            "one-owner", "ties",    "zeros"};

// ---- one element

/// The two keys of the hash that generates the elements of a vector.
struct hash_key {
  std::uint32_t before;
  std::uint32_t between;
};

/// Returns the hash lowbias32 of the index (Wellons, Prospecting for hash functions, 2018). A key is mixed in before
/// the multiplications, and another key between them. Without the second key, one vector could be a shifted copy of
/// another vector.
constexpr std::uint32_t hashed(std::uint32_t index, hash_key key) {
  std::uint32_t x = index ^ key.before;
  x = (x ^ x >> 16) * 0x7feb352dU;
  x ^= key.between;
  x = (x ^ x >> 15) * 0x846ca68bU;
  return x ^ x >> 16;
}

/// Returns -log(x) to six digits. x must not be subnormal. Uses the exponent and log((1 + s) / (1 - s)) = 2 (s + s^3/3
/// + …), |s| < 0.18.
inline float negative_log(float x) {
  constexpr std::int32_t root_of_half = 0x3F3504F3;
  const std::int32_t above = std::bit_cast<std::int32_t>(x) - root_of_half;
  const float exponent = static_cast<float>(above >> 23);
  const float part = std::bit_cast<float>((above & 0x7FFFFF) + root_of_half) - 1.0F;
  const float s = part / (2.0F + part);
  const float square = s * s;
  const float series = 1.0F + square * (0.33333333F + square * (0.2F + square * 0.14285714F));
  return -(exponent * 0.69314718F + 2.0F * s * series);
}

/// Converts 32 random bits to an element with density exp(-|x|) / 2. One bit is the sign, and 31 bits determine the
/// magnitude, which is below 23.
inline float laplace(std::uint32_t bits) {
  const float uniform = (static_cast<float>(static_cast<std::int32_t>(bits >> 1)) + 0.5F) * 0x1p-31F;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(negative_log(uniform)) ^ bits << 31);
}

inline float small_integer(std::uint32_t bits) {
  return static_cast<float>(static_cast<std::int32_t>((bits >> 16) * 7 >> 16) - 3);
}

// ---- vectors

// The loops below are simple, so that compilers vectorise them.

template <class Element>
void fill_hashed(std::span<float> to, hash_key key, const Element& element) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = element(hashed(static_cast<std::uint32_t>(i), key));
}

void scale_by(std::span<float> values, float factor) {
  for (float& value : values) value *= factor;
}

/// Returns the seed of a sequence of random bits. Each combination of arguments has a separate sequence. The argument
/// `stream` is r + 1 for the bits of rank r, and 0 for bits that all ranks share.
std::uint64_t bits_for(std::uint64_t seed, gradient_kind kind, std::uint64_t stream, std::uint64_t round) {
  return mix(mix(mix(mix(seed) ^ static_cast<std::uint64_t>(kind)) ^ stream) ^ round);
}
hash_key key_for(std::uint64_t bits) {
  return {static_cast<std::uint32_t>(bits), static_cast<std::uint32_t>(bits >> 32)};
}

constexpr std::uint64_t k_shared = 0;
constexpr std::uint64_t number_of(rank r) { return static_cast<std::uint64_t>(r) + 1; }

/// A random draw depends on a round number. Draws that do not change from round to round, such as the positions of
/// layers, use this number.
constexpr std::uint64_t k_no_round = ~std::uint64_t{0};

/// Returns an approximately normally distributed number: the sum of twelve uniform numbers.
double drawn_normal(std::uint64_t& bits) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += static_cast<double>((bits = mix(bits)) >> 11) * 0x1p-53;
  return sum;
}

constexpr float k_root_of_half = 0.70710678F;
constexpr std::size_t k_layers = 16;
constexpr std::uint64_t k_regions = 64;

/// The magnitude of every drawn element is below 23 + 65, so scaled magnitudes are below 2^18.
constexpr float k_integer_scale = 0x1p11F;
static_assert((23 + 65) * k_integer_scale < 0x1p18F);

}  // namespace

std::string_view name_of(gradient_kind kind) { return k_names[static_cast<std::size_t>(kind)]; }

std::optional<gradient_kind> gradient_kind_named(std::string_view name) {
  for (const gradient_kind kind : k_all_gradient_kinds)
    if (name_of(kind) == name) return kind;
  return std::nullopt;
}

gradient_source::gradient_source(const gradient_options& options) : options_(options) {
  if (options_.kind != gradient_kind::layered) return;
  make_layers();
  shared_.resize(options_.count);
}

/// Draws sizes and scales of layers from a log-normal distribution whose logarithm has standard deviation 1. Then
/// divides the scales by the largest scale.
void gradient_source::make_layers() {
  std::uint64_t bits = bits_for(options_.seed, options_.kind, k_shared, k_no_round);
  double sizes[k_layers], scales[k_layers], all = 0;
  for (std::size_t i = 0; i < k_layers; ++i) {
    all += sizes[i] = std::exp(drawn_normal(bits));
    scales[i] = std::exp(drawn_normal(bits));
  }
  const double largest = *std::max_element(scales, scales + k_layers);
  double until = 0;
  for (std::size_t i = 0; i < k_layers; ++i) {
    until += sizes[i] / all;
    const auto end = static_cast<std::uint64_t>(until * static_cast<double>(options_.count));
    layers_.push_back({std::min(end, options_.count), static_cast<float>(scales[i] / largest)});
  }
  layers_.back().end = options_.count;
}

void gradient_source::draw(rank r, round_no round, std::span<float> to) {
  const hash_key key = key_for(bits_for(options_.seed, options_.kind, number_of(r), round));
  switch (options_.kind) {
    case gradient_kind::uniform: fill_hashed(to, key, laplace); break;
    case gradient_kind::layered: draw_layered(r, round, to); break;
    case gradient_kind::one_region:
      fill_hashed(to, key, laplace);
      shrink_all_but_region(to);
      break;
    case gradient_kind::one_owner:
      fill_hashed(to, key, laplace);
      shape_for_one_owner(r, to);
      break;
    case gradient_kind::ties: fill_hashed(to, key, small_integer); break;
    case gradient_kind::zeros: {
      const bool has_any = mix(key.before) % 4 != 0;
      constexpr float log_64 = 4.1588831F;
      fill_hashed(to, key, [&](std::uint32_t bits) {
        const float value = laplace(bits);
        return has_any && (value > log_64 || value < -log_64) ? value : 0.0F;
      });
    }
  }
  if (options_.has_integers)
    for (float& value : to) value = static_cast<float>(static_cast<std::int32_t>(value * k_integer_scale));
}

void gradient_source::draw(rank r, round_no round, dtype type, void* to) {
  drawn_.resize(options_.count);
  draw(r, round, drawn_);
  find_convert(dtype::f32, type)(drawn_.data(), drawn_.size(), 1, to);
}

void gradient_source::draw_shared(round_no round) {
  fill_hashed(shared_, key_for(bits_for(options_.seed, options_.kind, k_shared, round)), laplace);
  scale_by(shared_, k_root_of_half);
  shared_round_ = round;
}

/// An element is the sum of a part that all ranks share and a part that only this rank has. Each part has half of the
/// variance, so the correlation between ranks is 1/2.
void gradient_source::draw_layered(rank r, round_no round, std::span<float> to) {
  if (shared_round_ != round || round == 0) draw_shared(round);
  fill_hashed(to, key_for(bits_for(options_.seed, options_.kind, number_of(r), round)), laplace);
  std::uint64_t begin = 0;
  for (const layer& it : layers_) {
    for (std::uint64_t i = begin; i < it.end; ++i) to[i] = (to[i] * k_root_of_half + shared_[i]) * it.scale;
    begin = it.end;
  }
}

void gradient_source::shrink_all_but_region(std::span<float> to) const {
  const cut regions(to.size(), k_regions);
  const std::uint64_t large = bits_for(options_.seed, options_.kind, k_shared, k_no_round) % k_regions;
  scale_by(to.first(regions.begin(large)), 0x1p-10F);
  scale_by(to.subspan(regions.begin(large + 1)), 0x1p-10F);
}

/// Raises and scales magnitudes so that they are in three disjoint ranges. In the owner's part, magnitudes are at least
/// 64 at this rank's indices (every P-th index), and at least 1 at all other indices. In all other parts magnitudes are
/// below 1/128.
void gradient_source::shape_for_one_owner(rank r, std::span<float> to) const {
  const auto ranks = static_cast<std::uint64_t>(options_.ranks);
  const cut parts(to.size(), ranks);
  const std::uint64_t part = bits_for(options_.seed, options_.kind, k_shared, k_no_round) % ranks;
  const std::uint64_t begin = parts.begin(part), end = parts.begin(part + 1);
  const auto raised = [](float value, float by) { return value + std::copysign(by, value); };
  scale_by(to.first(begin), 0x1p-12F);
  scale_by(to.subspan(end), 0x1p-12F);
  for (float& value : to.subspan(begin, end - begin)) value = raised(value, 1);
  for (std::uint64_t i = begin + static_cast<std::uint64_t>(r); i < end; i += ranks) to[i] = raised(to[i], 64);
}

}  // namespace lsched
