// A gate implemented with CUDA: an event for each round that a stream has asked for, and a word that streams wait for.
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
  /// All arguments must outlive the gate. Null: no memory is left.
  static std::unique_ptr<stream_gate> open(const cuda_context& in, cuda_health& health, stream_words& words,
                                           gpu_bell& bell);
  ~stream_gate() override;

  status ask(void* stream, round_no round) override;
  status wait(void* stream, round_no round) override;
  status is_open(round_no round) override;
  bool arm(round_no round) override;
  void release(round_no round) override;

 private:
  /// The event of a round, from the call that asks for the round to its end.
  struct entry {
    CUevent passed = nullptr;
    round_no round = 0;     ///< the last round that a stream has asked for here
    bool is_armed = false;  ///< for the engine's owner
  };

  stream_gate(const cuda_context& in, cuda_health& health, stream_words& words, gpu_bell& bell)
      : in_(in), health_(health), words_(words), bell_(bell) {}
  bool reserve();
  status find_owner(void* stream) const;
  status validate(const cuda_scope& here, CUstream stream) const;
  entry& entry_of(round_no round) { return entries_[round % entries_.size()]; }

  const cuda_context& in_;
  cuda_health& health_;  ///< for the engine's owner
  stream_words& words_;
  gpu_bell& bell_;
  CUstream ringing_ = nullptr;  ///< for host functions that ring
  std::array<entry, k_most_ahead> entries_{};
  stream_word end_;  ///< base + the last round that has ended
};

}  // namespace lsched
