// The state of one rank in a sparse allreduce. The state persists from round to round and can be saved in a checkpoint.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "collectives/sparse/steps/problem.h"
#include "collectives/sparse/steps/zeroed_memory.h"

namespace lsched {

/// The k-th largest magnitudes that selection_rule::reused has found. All members except `local` are equal on all
/// ranks.
struct reused_thresholds {
  std::uint64_t local = 0;   ///< k-th magnitude of this rank's residual, in the items' type; 0: fewer than k elements
  std::uint64_t global = 0;  ///< k-th magnitude of the sums of all ranks, in the items' type; 0: fewer than k sums
  std::uint64_t left = 0;    ///< number of rounds for which both remain valid; 0: the next round finds new thresholds
  friend bool operator==(const reused_thresholds&, const reused_thresholds&) = default;
};

/// The state of one rank. Used by one thread at a time. Step `select` of a round changes only the residual and the
/// hint, and step `settle` changes the residual and all other state (oktopk_steps.h). So if a round fails between the
/// two steps, the state is valid, and no gradient is lost.
class sparse_state {
 public:
  /// The problem must be valid. The initial state has a residual of zeros, regions of equal size and no rounds. Throws
  /// std::bad_alloc.
  explicit sparse_state(const sparse_problem& problem);

  dtype residual_type() const { return residual_of(type_); }
  /// Returns the residual: `count` elements of residual_type(), aligned to 64 bytes. Pages that are never accessed use
  /// no memory.
  void* residual() { return residual_.data(); }
  const void* residual() const { return residual_.data(); }

  /// Declares that the residual is now in device memory. Until the residual is fetched from the device, residual()
  /// still has the initial content.
  void move_residual(std::byte* memory) { on_device_ = memory; }
  /// Returns the residual in device memory, or nullptr if the residual is in host memory.
  std::byte* residual_on_device() const { return on_device_; }
  /// Returns the residual of the loaded image, or nullptr if no image was loaded.
  const void* loaded_residual() const { return is_loaded_ ? residual_.data() : nullptr; }
  std::size_t residual_bytes() const { return count_ * size_of(residual_type()); }

  /// Returns size + 1 positions, ascending from 0 to `count`. Region r is [boundaries[r], boundaries[r + 1]).
  std::span<const std::uint64_t> boundaries() const { return boundaries_; }
  /// Returns the number of settled rounds.
  std::uint64_t rounds() const { return rounds_; }

  const reused_thresholds& thresholds() const { return thresholds_; }

  /// Ends a round. Stores the round's boundaries, and the thresholds for the next round.
  void finish_round(std::span<const std::uint64_t> boundaries, const reused_thresholds& thresholds = {});

  /// Hint for the k-th magnitude. The hint saves a pass but does not affect results.
  top_k_hint hint{};

  /// Returns a hash of the values that must be equal on all ranks. The hash does not include the residual and other
  /// values that can differ.
  std::uint64_t common_hash() const;

  /// Returns the state as bytes, for a machine with the same byte order.
  std::vector<std::byte> save() const;
  /// Loads an image from save(). Returns ARGUMENT if the image is invalid, VERSION for another version, and MISMATCH
  /// for another type, count or size of the world. After an error, the state is unchanged.
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
