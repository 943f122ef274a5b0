// What of a sparse allreduce lives on from round to round on one rank: all that a checkpoint has to hold.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "collectives/sparse/steps/problem.h"
#include "collectives/sparse/steps/zeroed_memory.h"

namespace lsched {

/// Where selection_rule::reused has found the k-th magnitudes. The same on all ranks, but for `local`.
struct reused_thresholds {
  std::uint64_t local = 0;   ///< of this rank's residual, as bits of the items' type; 0: it had less than k elements
  std::uint64_t global = 0;  ///< of all sums, likewise
  std::uint64_t left = 0;    ///< rounds for which they are still good; 0: the next one looks
  friend bool operator==(const reused_thresholds&, const reused_thresholds&) = default;
};

/// Belongs to one thread at a time. A round changes the residual when it selects, and again, with all the rest, when it
/// settles (oktopk_steps.h); so what a round leaves that got stuck between the two is a state to go
/// on from, in which nothing is lost.
class sparse_state {
 public:
  /// The problem is valid. Residual zero, regions of equal size, no rounds. Throws std::bad_alloc.
  explicit sparse_state(const sparse_problem& problem);

  dtype residual_type() const { return residual_of(type_); }
  /// `count` elements of residual_type(), aligned to 64 bytes. Pages that nobody has touched cost nothing.
  void* residual() { return residual_.data(); }
  const void* residual() const { return residual_.data(); }

  /// From now on it is at `memory`, of a device; what residual() answers is what it was in the beginning, until it is
  /// fetched from there.
  void move_residual(std::byte* memory) { on_device_ = memory; }
  /// nullptr: it is not on a device.
  std::byte* residual_on_device() const { return on_device_; }
  /// What it has of an image; nullptr: it is zero.
  const void* loaded_residual() const { return is_loaded_ ? residual_.data() : nullptr; }
  std::size_t residual_bytes() const { return count_ * size_of(residual_type()); }

  /// size + 1 positions, ascending, the first 0 and the last `count`: region r is [boundaries[r], boundaries[r + 1]).
  std::span<const std::uint64_t> boundaries() const { return boundaries_; }
  /// Rounds that were settled.
  std::uint64_t rounds() const { return rounds_; }

  const reused_thresholds& thresholds() const { return thresholds_; }

  /// A round is over that used these boundaries, and leaves these thresholds to the next one.
  void finish_round(std::span<const std::uint64_t> boundaries, const reused_thresholds& thresholds = {});

  /// Where the k-th magnitude was: saves a pass, and changes no result.
  top_k_hint hint{};

  /// The same on ranks whose states belong together: a hash of all but the residual and what is the rank's own.
  std::uint64_t common_hash() const;

  /// The state as bytes, for a machine of the same byte order.
  std::vector<std::byte> save() const;
  /// Takes over what save() gave. An image that is none, or is short or long, or of another version, type, count or
  /// size of the world, is refused and changes nothing: ARGUMENT, VERSION or MISMATCH.
  std::optional<failure> load(std::span<const std::byte> image);

 private:
  struct header;
  header current_header() const;
  std::optional<failure> validate(const header& that, std::span<const std::byte> image) const;

  dtype type_;
  std::uint64_t count_;
  std::vector<std::uint64_t> boundaries_;
  std::uint64_t rounds_ = 0;
  reused_thresholds thresholds_{};
  zeroed_memory residual_;
  bool is_loaded_ = false;
  std::byte* on_device_ = nullptr;
};

}  // namespace lsched
