#include "collectives/sparse/steps/state.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "libsched/schedule/draw.h"
#include "libsched/schedule/geometry.h"
#include "libsched/schedule/schedule.h"

namespace lsched {

/// The header of an image. The boundaries and then the residual follow.
struct sparse_state::header {
  static constexpr std::array<char, 8> k_magic{'l', 's', 'p', 'a', 'r', 's', 'e', '\n'};
  static constexpr std::uint32_t k_version = 2;

  std::array<char, 8> magic = k_magic;
  std::uint32_t version = k_version;
  std::uint32_t type = 0;
  std::uint64_t count = 0;
  std::uint64_t size = 0;
  std::uint64_t rounds = 0;
  std::uint64_t least = 0;
  reused_thresholds thresholds{};
};

sparse_state::sparse_state(const sparse_problem& problem)
    : type_(problem.type), count_(problem.count), residual_(residual_bytes()) {
  const cut regions(problem.count, problem.ranks());
  for (std::uint64_t i = 0; i <= problem.ranks(); ++i) boundaries_.push_back(regions.begin(i));
}

void sparse_state::finish_round(std::span<const std::uint64_t> boundaries, const reused_thresholds& thresholds) {
  std::copy(boundaries.begin(), boundaries.end(), boundaries_.begin());
  thresholds_ = thresholds;
  ++rounds_;
}

sparse_state::header sparse_state::current_header() const {
  return {.type = static_cast<std::uint32_t>(type_),
          .count = count_,
          .size = boundaries_.size() - 1,
          .rounds = rounds_,
          .least = hint.least,
          .thresholds = thresholds_};
}

std::uint64_t sparse_state::common_hash() const {
  std::uint64_t hash = mix(rounds_);
  for (const std::uint64_t number : {thresholds_.global, thresholds_.left}) hash = mix(hash ^ number);
  for (const std::uint64_t position : boundaries_) hash = mix(hash ^ position);
  return hash;
}

std::vector<std::byte> sparse_state::save() const {
  const header now = current_header();
  const std::size_t boundary_bytes = boundaries_.size() * sizeof(std::uint64_t);
  std::vector<std::byte> image(sizeof(header) + boundary_bytes + residual_bytes());
  std::memcpy(image.data(), &now, sizeof(header));
  std::memcpy(image.data() + sizeof(header), boundaries_.data(), boundary_bytes);
  std::memcpy(image.data() + sizeof(header) + boundary_bytes, residual(), residual_bytes());
  return image;
}

std::optional<failure> sparse_state::validate(const header& that, std::span<const std::byte> image) const {
  const auto because = [](status code, const char* text) { return failure{.code = code, .text = text}; };
  const header now = current_header();
  if (that.version != now.version)
    return because(status::version,
                   "the sparse state was saved in another version of the format: use the version of libsched that "
                   "saved the state");
  if (that.type != now.type)
    return because(status::mismatch,
                   "the sparse state has another dtype than the schedule: create the schedule as before the save");
  if (that.count != now.count)
    return because(status::mismatch,
                   "the sparse state has another count than the schedule: create the schedule as before the save");
  if (that.size != now.size)
    return because(status::mismatch,
                   "the sparse state is of a world of another size: load the state in a world with as many ranks");
  if (image.size() != sizeof(header) + boundaries_.size() * sizeof(std::uint64_t) + residual_bytes())
    return because(status::argument, "the sparse state is damaged: the image is too short or too long");
  return std::nullopt;
}

std::optional<failure> sparse_state::load(std::span<const std::byte> image) {
  const auto because = [](const char* text) { return failure{.code = status::argument, .text = text}; };
  header that;
  if (image.size() < sizeof(header)) return because("the sparse state is damaged: the image is too short");
  std::memcpy(&that, image.data(), sizeof(header));
  if (that.magic != header::k_magic)
    return because("the image is not a sparse state: pass an image that was saved with LSCHED_STATE_SPARSE");
  if (auto wrong = validate(that, image)) return wrong;
  std::vector<std::uint64_t> boundaries(boundaries_.size());
  const std::size_t boundary_bytes = boundaries.size() * sizeof(std::uint64_t);
  std::memcpy(boundaries.data(), image.data() + sizeof(header), boundary_bytes);
  if (boundaries.front() != 0 || boundaries.back() != count_ || !std::is_sorted(boundaries.begin(), boundaries.end()))
    return because("the sparse state is damaged: its regions are invalid");
  if (that.thresholds.left > k_longest_period)
    return because("the sparse state is damaged: its thresholds are reused for too many rounds");
  boundaries_ = std::move(boundaries);
  rounds_ = that.rounds;
  hint.least = that.least;
  thresholds_ = that.thresholds;
  std::memcpy(residual(), image.data() + sizeof(header) + boundary_bytes, residual_bytes());
  is_loaded_ = true;
  return std::nullopt;
}

}  // namespace lsched
