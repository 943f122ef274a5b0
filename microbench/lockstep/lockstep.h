// Runs Ok-Topk (oktopk_steps.h) for all ranks of a world in one process. Each phase runs on all ranks before the next
// phase begins. A world may have a thousand ranks. Lists are passed by reference instead of in messages. Only the items
// that messages would carry are counted.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "collectives/sparse/steps/oktopk_steps.h"
#include "microbench/lockstep/volume.h"

namespace lsched {

class lockstep {
 public:
  /// The problem must be valid. problem.place.self is not used. The constructor and the rounds throw std::bad_alloc.
  explicit lockstep(const sparse_problem& problem);
  ~lockstep();

  /// Runs a round. `gradients` has P pointers, each to `count` elements or nullptr. `updates` is empty, or has P
  /// pointers, each to `count` elements or nullptr. Returns an INTERNAL failure if sent and received messages would not
  /// match. This happens if ranks disagree on a share or a length, or if an owner does not keep the planned items.
  std::optional<failure> run(std::span<const void* const> gradients, std::span<void* const> updates = {});

  /// Runs the first part of a round, up to the result. Unless settle() follows, the round counts as failed. Returns the
  /// same failures as run().
  std::optional<failure> exchange(std::span<const void* const> gradients);
  /// Runs the second part of a round, which updates the residuals.
  void settle(std::span<void* const> updates = {});

  /// Returns the result of the last exchange. The lists are valid until the next exchange.
  item_list result() const { return result_; }
  item_list selected(rank r) const;
  /// Returns the items that a rank has sent to the owners of regions, as one list.
  item_list sent(rank r) const;
  /// Returns the P+1 boundaries of the P regions into which the vector is divided.
  std::span<const std::uint64_t> boundaries() const;

  sparse_state& state(rank r);

  const round_volume& volume() const { return meter_.volume(); }
  item_traffic payload_of(rank r) const { return meter_.payload_of(r); }

 private:
  struct member;

  void place_regions();
  void follow();
  void split();
  void fold();
  void find_threshold();
  std::optional<failure> keep();
  void gather();

  sparse_problem problem_;
  round_no round_ = 0;
  volume_meter meter_;
  std::vector<std::unique_ptr<member>> members_;  ///< P members
  std::vector<std::byte> gathered_items_;
  item_list gathered_{}, result_{};
};

}  // namespace lsched
