// A gate by CUDA: an event for each round that was asked for by a stream, and a word that streams wait for.
#pragma once

#include <array>
#include <memory>

#include "libsched/engine/round_gate.h"
#include "offload/cuda/driver/health.h"
#include "offload/cuda/streams/gpu_bell.h"
#include "offload/cuda/streams/stream_words.h"

namespace lsched {

class stream_gate final : public round_gate {
 public:
  /// What it is given outlives it. null: there is no memory left.
  static std::unique_ptr<stream_gate> open(const cuda_context& in, cuda_health& health, stream_words& words,
                                           gpu_bell& bell);
  ~stream_gate() override;

  status ask(void* stream, round_no round) override;
  status wait(void* stream, round_no round) override;
  status is_open(round_no round) override;
  bool arm(round_no round) override;
  void release(round_no round) override;

 private:
  /// The event of a round, from the call that asks for it to the round's end.
  struct entry {
    CUevent passed = nullptr;
    round_no round = 0;     ///< that was asked for last by a stream
    bool is_armed = false;  ///< the engine's owner's
  };

  stream_gate(const cuda_context& in, cuda_health& health, stream_words& words, gpu_bell& bell)
      : in_(in), health_(health), words_(words), bell_(bell) {}
  bool reserve();
  status find_owner(void* stream) const;
  status validate(const cuda_scope& here, CUstream stream) const;
  entry& entry_of(round_no round) { return entries_[round % entries_.size()]; }

  const cuda_context& in_;
  cuda_health& health_;  ///< the engine's owner's
  stream_words& words_;
  gpu_bell& bell_;
  CUstream ringing_ = nullptr;  ///< of host functions that ring
  std::array<entry, k_most_ahead> entries_{};
  stream_word end_;  ///< the last round that has ended, above its base
};

}  // namespace lsched
